"""The limit on the predicted run of a borrowing task; it adapts to the work that loans lose (algorithms.md §12)."""

from __future__ import annotations

from cress.model.times import HOUR, MINUTE, SECOND

_FIRST, _LEAST, _MOST = 5 * MINUTE, 10 * SECOND, HOUR
# The number of ended loans between two adjustments.
_ROUND = 20
# Bounds for the share of all work that loans lose, in thousandths: above the first the limit falls, below the second it
# rises.
_MUCH, _LITTLE = 15, 7


class LoanLimit:
    """The limit (µs), and counts since its last adjustment: ended loans, all work, and work of loans that was lost."""

    def __init__(self) -> None:
        self.limit = _FIRST
        self._ended = 0
        self._work = 0
        self._again = 0

    def ended(self, work: int, *, loan: bool, again: bool) -> None:
        """Count a task that ended; ``loan``: it had borrowed, ``again``: it has to run again."""
        self._work += work
        if not loan:
            return
        self._ended += 1
        self._again += work * again
        if self._ended < _ROUND:
            return
        if self._again * 1000 > self._work * _MUCH:
            self.limit = max(_LEAST, self.limit // 2)
        elif self._again * 1000 < self._work * _LITTLE:
            self.limit = min(_MOST, self.limit * 6 // 5)
        self._ended = self._work = self._again = 0

    def export(self) -> tuple[int, int, int, int]:
        """Return the state as numbers."""
        return self.limit, self._ended, self._work, self._again

    def restore(self, state: tuple[int, int, int, int]) -> None:
        """Take over an exported state."""
        self.limit, self._ended, self._work, self._again = state
