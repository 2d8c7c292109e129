"""Amounts of resources as shares of a capacity."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from cress.model.resources import BASE_DIMENSIONS, Measure
from cress.portal.texts import share

_AMOUNT = re.compile(r"(\d*\.?\d+)\s*([mKMGTP]?)")
_POWERS = {"m": -1, "": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


class Measured(NamedTuple):
    """The use of one dimension: texts for people, and used / capacity from 0 to 1."""

    name: str
    used: str
    capacity: str
    share: float


def amount(text: str, name: str) -> float:
    """Return an amount as a number, for drawings; sums over a large cluster exceed what a job may ask for."""
    found = _AMOUNT.match(text)
    if found is None:
        return 0.0
    bytes_ = BASE_DIMENSIONS.get(name) is Measure.BYTES
    return float(found[1]) * (1024.0 if bytes_ and found[2] != "m" else 1000.0) ** _POWERS[found[2]]


def rounded(text: str, name: str) -> str:
    """Return an amount of bytes in its largest unit with one digit behind the point, others as they are."""
    if BASE_DIMENSIONS.get(name) is not Measure.BYTES:
        return text
    number = amount(text, name)
    for unit in ("P", "T", "G", "M"):
        if number >= 1024.0 ** _POWERS[unit]:
            return f"{number / 1024.0 ** _POWERS[unit]:.1f}".removesuffix(".0") + unit
    return text


def measured(capacity: Mapping[str, str], used: Mapping[str, str]) -> list[Measured]:
    """Return the use of each dimension that has a capacity, with texts rounded for people."""
    return [
        Measured(
            name,
            rounded(used.get(name, "0"), name),
            rounded(most, name),
            share(amount(used.get(name, "0"), name), amount(most, name)),
        )
        for name, most in capacity.items()
    ]
