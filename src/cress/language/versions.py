"""Versions: compared part by part, ``4.10`` above ``4.5``, ``5.0-rc1`` below ``5.0``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

Part: TypeAlias = tuple[int, int, str]

_PARTS = re.compile(r"[0-9]+|[^0-9.\-_+~\s]+")
_BEFORE_NOTHING = re.compile(r"rc|alpha|beta|pre|dev")
_VERSION = re.compile(r"\s*v?[0-9]")
# What follows these digits does not make a version of people, and int() of it takes time.
_MOST_DIGITS = 40


@lru_cache(maxsize=16_384)
def version_key(text: str) -> tuple[Part, ...]:
    """Return the sort key of a version: numbers as numbers and before text; rc, alpha, beta, pre, dev before the release."""
    folded = text.casefold().strip()
    if _VERSION.match(folded):
        folded = folded.removeprefix("v")
    parts: list[Part] = []
    for part in _PARTS.findall(folded):
        if "0" <= part[0] <= "9":
            digits = part.lstrip("0")
            # Longer numbers are larger; equal lengths compare as text does.
            parts.append((1, int(digits or "0") if len(digits) < _MOST_DIGITS else 10**_MOST_DIGITS, digits))
        else:
            parts.append((-1 if _BEFORE_NOTHING.match(part) else 2, 0, part))
    parts.append((0, 0, ""))
    return tuple(parts)


@lru_cache(maxsize=16_384)
def is_version(text: str) -> bool:
    """Return whether a text can be compared with a number: it begins with a digit, optionally after a ``v``."""
    return _VERSION.match(text.casefold()) is not None
