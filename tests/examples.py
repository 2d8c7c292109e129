"""How many examples of a property are tried, and which.

A push tries ``USUAL`` of each, drawn from a seed that comes from the source: the same source passes or fails the same
way everywhere, with or without git, and the next change looks elsewhere. ``CRESS_SEED`` repeats a run. A long run tries
``LONGER`` times ``USUAL``, each time others.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import pytest
from hypothesis import settings

T = TypeVar("T")

USUAL, LONGER = 10, 30
_SOURCE = Path(__file__).resolve().parents[1] / "src"


def examples(count: int) -> settings:
    """Return the setting of a property that takes ``count`` examples on a push, where others take ``USUAL``, and
    ``LONGER`` times as many in a long run.
    """
    return settings(max_examples=-(-count * settings().max_examples // USUAL))


def fixed(count: int) -> settings:
    """Return the setting of stories of which a test counts what they came by: ``count`` that are the same for ever in
    a push, and ``LONGER`` times as many, others each time, in a long run.
    """
    return settings(max_examples=count * usual(1, LONGER), derandomize=usual(True, False))


def seed() -> int:
    """Return the seed of this run: ``CRESS_SEED``, or a checksum of the source of the package."""
    given = os.environ.get("CRESS_SEED", "")
    if given:
        if not given.isdecimal():
            raise pytest.UsageError(f"CRESS_SEED={given} is not a number; the header of the run to repeat shows it")
        return int(given)
    seen = 0
    for file in sorted(_SOURCE.rglob("*.py")):
        seen = crc32(file.read_bytes(), crc32(file.relative_to(_SOURCE).as_posix().encode(), seen))
    return seen


def usual(push: T, long: T) -> T:
    """Return how much is tried on a push, or in a long run."""
    return push if settings().max_examples == USUAL else long
