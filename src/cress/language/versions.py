"""Versions, compared part by part.

``4.10`` is above ``4.5``, ``5.0-rc1`` below ``5.0``; ``11.*`` is every version that begins with 11.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

Part: TypeAlias = tuple[int, int, str]

# Words of releases before the release, and how they are ordered among each other. A single letter is one only before a
# Words of pre-releases, in their order. A single letter is one only before a number: 2.0b1 comes before 2.0, and 1.0.2b
# after 1.0.2.
_PRE_RELEASES = {
    "alpha": "alpha",
    "beta": "beta",
    "dev": "dev",
    "devel": "dev",
    "ea": "ea",
    "milestone": "milestone",
    "pre": "pre",
    "preview": "preview",
    "rc": "rc",
    "cr": "rc",
    "snapshot": "snapshot",
}
_PRE_RELEASE_LETTERS = {"a": "alpha", "b": "beta", "c": "rc", "m": "milestone"}
_PARTS = re.compile(r"[0-9]+|[^0-9.\-_+~\s]+")
_VERSION = re.compile(r"\s*v?[0-9]")
# Real versions have fewer digits, and int() takes time for many.
_MOST_DIGITS = 40
_EVERYTHING = ".*"


@lru_cache(maxsize=16_384)
def version_key(text: str) -> tuple[Part, ...]:
    """Return the sort key of a version: numbers as numbers, before text; pre-releases before the release."""
    return (*_parts(text), (0, 0, ""))


@lru_cache(maxsize=16_384)
def is_version(text: str) -> bool:
    """Return whether a text can be compared with a number: it begins with a digit, optionally after a ``v``."""
    return _VERSION.match(text.casefold()) is not None


def is_pre_release(text: str) -> bool:
    """Return whether a text, such as ``rc1`` from ``4.5rc1``, begins with the word of a pre-release."""
    found = re.match(r"[^0-9.\-_+~\s]+", text.casefold())
    return found is not None and _pre_release(found.group(), text[found.end() :]) != ""


def is_prefix(text: str) -> bool:
    """Return whether a number of the language is a prefix of versions: ``11.*``."""
    return text.endswith(_EVERYTHING)


def has_prefix(version: str, prefix: str) -> bool:
    """Return whether a version begins with the parts of a prefix: ``11.0.2`` with those of ``11.*``."""
    wanted = _parts(prefix.removesuffix(_EVERYTHING))
    return _parts(version)[: len(wanted)] == wanted


def _parts(text: str) -> tuple[Part, ...]:
    folded = text.casefold().strip()
    if _VERSION.match(folded):
        folded = folded.removeprefix("v")
    parts: list[Part] = []
    for found in _PARTS.finditer(folded):
        part = found.group()
        if "0" <= part[0] <= "9":
            digits = part.lstrip("0")
            # Longer numbers are larger; equal lengths compare like text.
            parts.append((1, int(digits or "0") if len(digits) < _MOST_DIGITS else 10**_MOST_DIGITS, digits))
        else:
            before = _pre_release(part, folded[found.end() : found.end() + 1])
            parts.append((-1, 0, before) if before else (2, 0, part))
    return tuple(parts)


def _pre_release(part: str, rest: str) -> str:
    """Return the pre-release word of a part, "" for none; ``rest`` follows it directly."""
    numbered = rest[:1].isascii() and rest[:1].isdigit()
    return _PRE_RELEASES.get(part) or (_PRE_RELEASE_LETTERS.get(part, "") if numbered else "")
