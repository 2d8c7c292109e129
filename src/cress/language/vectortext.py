"""``<4,8G,500M,50M,gpu=2>`` in a requirement: read without knowing which dimensions the cluster declares.

Whoever matches the clause looks the names up; here every further name counts as a custom dimension.
"""

from __future__ import annotations

from cress.model.resources import BASE_DIMENSIONS, DISK, Dimensions
from cress.model.vectors import format_vector, parse_vector


def parse_amounts(text: str) -> tuple[tuple[str, int], ...]:
    """The raw amounts above 0 by dimension, custom ones after the others in the order of their names.

    Raises InputError.
    """
    names = {part.partition("=")[0].strip().lower() for part in text.strip("<> ").split(",") if "=" in part}
    dimensions = Dimensions(tuple(sorted(names - BASE_DIMENSIONS.keys() - {DISK})))
    vector = parse_vector(text, dimensions)
    return tuple((name, amount) for name, amount in zip(dimensions.names, vector, strict=True) if amount)


def vector_text(amounts: tuple[tuple[str, int], ...]) -> str:
    """Amounts by dimension as the shortest text that ``parse_amounts`` reads as the same."""
    dimensions = Dimensions(tuple(sorted({name for name, _ in amounts} - BASE_DIMENSIONS.keys())))
    return format_vector(dimensions.vector(**dict(amounts)), dimensions)
