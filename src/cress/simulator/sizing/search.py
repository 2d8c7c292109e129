"""The search for the least size that passes a test, where each test costs a simulation.

More nodes do not always help a scheduler: a size may pass by chance, and the next one fail. So a size is only taken if
the ``beyond`` sizes after it pass too. The search doubles its steps from a guess until one size fails and a larger one
passes, then halves the interval. If one of the sizes beyond fails, the search continues above it. The result is
*stable*: it and the next ``beyond`` sizes pass, and the size below fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

BEYOND = 2
FIRST_STEP = 8  # the first step, as a part of the guess


class OutOfReach(Exception):
    """Error: no size passes, or none that may be tried; ``size`` is the largest one that was tried."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


@dataclass(frozen=True)
class Search:
    """A search among the sizes from ``least`` to ``most``.

    ``passes`` tries a size. ``is_hopeless`` is asked about a size that failed: if it is true, no larger size is tried.
    ``most`` is tried at least once if no smaller size passes.
    """

    passes: Callable[[int], bool]
    is_hopeless: Callable[[int], bool]
    least: int = 1
    most: int = 1_000_000
    beyond: int = BEYOND

    def run(self, guess: int) -> int:
        """Return the least stable size. Raise ``OutOfReach``."""
        known: dict[int, bool] = {}

        def ok(size: int) -> bool:
            if size not in known:
                known[size] = self.passes(size)
            return known[size]

        low, high = self._bracket(ok, min(max(guess, self.least), self.most))
        while True:
            high = _bisect(ok, low, high)
            failed = next((size for size in range(high + 1, self._last(high) + 1) if not ok(size)), None)
            if failed is None:
                return high
            low, high = self._above(ok, failed)

    def _last(self, size: int) -> int:
        return min(size + self.beyond, self.most)

    def _bracket(self, ok: Callable[[int], bool], guess: int) -> tuple[int, int]:
        """Return a size that fails (or ``least - 1``) and a larger one that passes."""
        if not ok(guess):
            return self._above(ok, guess)
        high, step = guess, max(1, guess // FIRST_STEP)
        while high > self.least:
            low = max(self.least, high - step)
            if not ok(low):
                return low, high
            high, step = low, step * 2
        return self.least - 1, high

    def _above(self, ok: Callable[[int], bool], failed: int) -> tuple[int, int]:
        """Return a size that fails and a larger one that passes, both above a size that fails."""
        low, step = failed, max(1, failed // FIRST_STEP)
        while True:
            size = min(low + step, self.most)
            if size == low or self.is_hopeless(low):
                raise OutOfReach(low)
            if ok(size):
                return low, size
            low, step = size, step * 2


def _bisect(ok: Callable[[int], bool], low: int, high: int) -> int:
    """Return a size that passes, above ``low``, such that the one below fails or is ``low``."""
    while high - low > 1:
        middle = (low + high) // 2
        if ok(middle):
            high = middle
        else:
            low = middle
    return high
