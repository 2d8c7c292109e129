"""Reading of ``<4,8G,500M,50M,gpu=2>`` in a requirement, without the declared dimensions of the cluster.

Here every further name counts as a custom dimension; the matcher looks the names up.
"""

from __future__ import annotations

from cress.model.resources import BASE_DIMENSIONS, DISK, Dimensions
from cress.model.vectors import format_vector, parse_vector


def parse_amounts(text: str) -> tuple[tuple[str, int], ...]:
    """Return the raw amounts above 0 by dimension, custom ones last, in the order of their names.

    Raise InputError.
    """
    names = {part.partition("=")[0].strip().lower() for part in text.strip("<> ").split(",") if "=" in part}
    dimensions = Dimensions(tuple(sorted(names - BASE_DIMENSIONS.keys() - {DISK})))
    vector = parse_vector(text, dimensions)
    return tuple((name, amount) for name, amount in zip(dimensions.names, vector, strict=True) if amount)


def vector_text(amounts: tuple[tuple[str, int], ...]) -> str:
    """Return the shortest text from which ``parse_amounts`` reads these amounts by dimension."""
    dimensions = Dimensions(tuple(sorted({name for name, _ in amounts} - BASE_DIMENSIONS.keys())))
    return format_vector(dimensions.vector(**dict(amounts)), dimensions)
