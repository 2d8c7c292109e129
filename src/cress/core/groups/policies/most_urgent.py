"""The first job of a queue by urgency or deadline, found in blocks: of a hundred thousand jobs only those are looked at near which something changed."""

from __future__ import annotations

import numpy as np

from cress.core.groups.policies.queue import GAP, J
from cress.core.groups.policies.ranked_queue import RankedQueue
from cress.core.kernels.urgency import change_of_blocks, first_of_blocks, scores
from cress.core.tables.arrays import Ints

DEADLINES, LONGEST, SHORTEST, WORK, RUNS = range(5)
_BLOCK = 512
# A block that must be looked at again.
_CHANGED = -1


class MostUrgent:
    """Search for the first job of a queue, and until when it is that.

    ``late`` is the urgency of a job that cannot meet its deadline any more. With ``by_deadline`` the order of all others is that of their deadlines.
    """

    def __init__(self, late: float, *, by_deadline: bool) -> None:
        self._late = late
        self._by_deadline = by_deadline
        self._heads: Ints = np.empty(0, np.int64)
        self._changes: Ints = np.empty(0, np.int64)

    def forget(self, first: int = 0, last: int = 2**62) -> None:
        """Forget what is known of the positions from ``first`` to before ``last``."""
        self._changes[first // _BLOCK : (last - 1) // _BLOCK + 1] = _CHANGED

    def find(self, queue: RankedQueue[J], now: int) -> int:
        """Return the position of the first job, -1 if there is none."""
        blocks = -(-queue.end // _BLOCK)
        if blocks > len(self._heads):
            self._heads = np.empty(2 * blocks, np.int64)
            self._changes = np.full(2 * blocks, _CHANGED, np.int64)
        return int(first_of_blocks(*self._columns(queue), now, _BLOCK, self._heads, self._changes))

    def next_change(self, queue: RankedQueue[J], head: int, now: int) -> int:
        """Return the next time (µs) at which another job than ``head`` may be the first."""
        return int(change_of_blocks(head, *self._columns(queue), now, _BLOCK, self._heads, self._changes))

    def order(self, queue: RankedQueue[J], places: Ints, now: int) -> list[int]:
        """Return these positions in their order."""
        values = queue.values
        found = scores(
            self._by_deadline, places, values[DEADLINES], values[LONGEST], values[SHORTEST], self._late, now
        )  # fmt: skip
        ordered: list[int] = places[np.argsort(-found, kind="stable")].tolist()
        return ordered

    def _columns(self, queue: RankedQueue[J]) -> tuple[bool, Ints, int, Ints, Ints, Ints, float, int]:
        values = queue.values
        return (
            self._by_deadline,
            queue.limits,
            GAP,
            values[DEADLINES],
            values[LONGEST],
            values[SHORTEST],
            self._late,
            queue.end,
        )
