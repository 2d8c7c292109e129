"""Distances between values of an attribute of nodes: ``{switch: {s1: {s2: 1, s3: 4}}}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from cress.model.errors import InputError, InputErrors

# An attribute, two of its values in order, and the distance between them.
Distance: TypeAlias = tuple[str, str, str, int]

MOST = 1_000_000
MOST_PAIRS = 100_000
_HINT = "for each value how far others are: {switch: {s1: {s2: 1, s3: 4}}}"


def parse_distances(value: object) -> tuple[Distance, ...]:
    """Parse distances; return each pair once, in order. Raises InputError, or InputErrors, with the field."""
    found: dict[tuple[str, str, str], int] = {}
    errors: list[InputError] = []
    for attribute, table in _mapping(value, "").items():
        for one, others in _mapping(table, attribute).items():
            for other, number in _mapping(others, f"{attribute}.{one}").items():
                field = f"{attribute}.{one}.{other}"
                text = str(number).strip()
                if one == other:
                    errors.append(InputError(f"{one} has no distance to itself", hint="two values", field=field))
                elif isinstance(number, bool) or not text.isdecimal() or not 1 <= int(text[:8]) <= MOST:
                    what = f"{text[:60]!r} is not a distance"
                    errors.append(InputError(what, hint=f"a whole number from 1 to {MOST:,}", field=field))
                elif found.setdefault((attribute, min(one, other), max(one, other)), int(text)) != int(text):
                    errors.append(
                        InputError(
                            "differs from the distance in the other direction",
                            hint="one distance for both",
                            field=field,
                        )
                    )
    if len(found) > MOST_PAIRS:
        errors.append(InputError(f"{len(found):,} distances are too many", hint=f"at most {MOST_PAIRS:,}"))
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    return tuple(sorted((*pair, number) for pair, number in found.items()))


def _mapping(value: object, field: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise InputError("is not a mapping", hint=_HINT, field=field)
    return {str(key): distance for key, distance in value.items()}
