"""Waiting until something is true: often at first, then seldom, since most looks ask a center or start a program."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

# A loaded machine may take long; what waits here ends as soon as it can.
PATIENCE = 60.0
# Seconds between two looks; and what part of the time so far a pause is.
SHORTEST, LONGEST, PART = 0.01, 0.1, 0.1

_T = TypeVar("_T")


def pauses() -> Iterator[float]:
    """Yield how many seconds to pause before each further look."""
    start = time.monotonic()
    while True:
        yield min(LONGEST, max(SHORTEST, PART * (time.monotonic() - start)))


def wait_until(look: Callable[[], _T], what: str = "it", patience: float = PATIENCE) -> _T:
    """Return the first true value that ``look`` gives; fails after ``patience`` seconds."""
    deadline = time.monotonic() + patience
    for pause in pauses():
        if found := look():
            return found
        assert time.monotonic() < deadline, f"{what} did not happen within {patience:g} s"
        time.sleep(pause)
    raise AssertionError
