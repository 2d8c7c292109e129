"""Prices: the cost of an hour of each dimension, as users write them: ``cpu=1,memory=0.1,gpu=20``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from cress.model.errors import InputError
from cress.model.units import one_of

HINT = "such as cpu=1,memory=0.1,gpu=20"
# The unit of amounts that an hour's price is for, if it is not one of the amount.
GB = 2**30
_HOUR = 3600


def parse_prices(text: str, known: Iterable[str], field: str) -> dict[str, float]:
    """Return the price of an hour of a core, a GB of memory, a GPU and so on. Raises InputError.

    ``known`` are the dimensions that may have one, ``field`` is the name of the text in errors.
    """
    names = [*known]
    found: dict[str, float] = {}
    for part in text.replace(",", " ").split():
        name, _, number = part.partition("=")
        try:
            price = float(number)
        except ValueError:
            price = math.nan
        if not math.isfinite(price):
            raise InputError(f"{part!r} is not NAME=NUMBER", hint=HINT, field=field)
        if name not in names:
            raise InputError(f"no job has held {name!r}", hint=one_of(name, names), field=field)
        found[name] = price
    return found


def cost_of(held: Mapping[str, float], prices: Mapping[str, float]) -> float:
    """Return the cost of amounts held over time: core-seconds, byte-seconds of memory, and so on by dimension."""
    return sum(price * held.get(name, 0.0) / (GB if name == "memory" else 1) / _HOUR for name, price in prices.items())
