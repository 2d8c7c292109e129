"""The first job of a queue by urgency or deadline, and the jobs behind it that fit, found in blocks.

Of a hundred thousand jobs, only those near a change, or with shapes that fit, are examined.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cress.core.groups.policies.queue import J
from cress.core.groups.policies.ranked_queue import RankedQueue
from cress.core.kernels.shape_blocks import divide, extend, next_that_fits, open_blocks
from cress.core.kernels.urgency import change_of_blocks, first_of_blocks, scores
from cress.core.tables.arrays import Ints

_BLOCK = 512
# A block to examine again.
_CHANGED = -1


class MostUrgent:
    """Search for the first job of a queue, and for the time until which it stays first.

    ``late`` is the urgency of a job that can no longer meet its deadline. With ``by_deadline`` all other jobs are in
    the order of their deadlines.
    """

    def __init__(self, late: float, *, by_deadline: bool) -> None:
        self._late = late
        self._by_deadline = by_deadline
        # Positions before this one belong to blocks.
        self._covered = 0
        self._blocks = 0
        self._make_room(0)

    def _make_room(self, end: int) -> None:
        # Once more than a quarter of the jobs are new, in any shapes, all blocks are divided again.
        places = end + max(_BLOCK, end // 4)
        blocks = 4 * (places // _BLOCK + 1)
        self._members, self._block_of = np.empty((2, places), np.int64)
        self._begins: Ints = np.zeros(blocks + 1, np.int64)
        self._lowest, self._highest, self._heads, self._changes, self._least = np.full((5, blocks), _CHANGED, np.int64)

    def forget(self) -> None:
        """Drop all blocks, because positions now belong to other jobs."""
        self._covered = self._blocks = 0

    def changed(self, place: int, row: int) -> None:
        """Note a change of the job at a position; its shape has this row."""
        if place < self._covered:
            block = self._block_of[place]
            self._changes[block] = _CHANGED
            self._lowest[block] = min(self._lowest[block], row)
            self._highest[block] = max(self._highest[block], row)

    def find(self, queue: RankedQueue[J], now: int) -> int:
        """Return the position of the first job; -1 if there is none."""
        self._cover(queue)
        return int(first_of_blocks(*self._order(queue, now), self._heads, self._changes, self._least))

    def next_change(self, queue: RankedQueue[J], head: int, now: int) -> int:
        """Return the next time (µs) at which a job other than ``head`` may be first."""
        return int(change_of_blocks(*self._order(queue, now), self._heads, self._changes, head))

    def that_fit(self, queue: RankedQueue[J], durations: Ints, bound: Ints, rows: Ints, now: int) -> Iterator[int]:
        """Yield the positions, in order, of jobs whose shape fits and whose duration is below the bound of its row.

        Bounds may fall meanwhile. Call ``find`` for the present queue first.
        """
        order = self._order(queue, now)
        tops, places = np.empty(self._blocks), np.empty(self._blocks, np.int64)
        if not open_blocks(
            *order, self._heads, self._changes, self._least, self._lowest, self._highest, bound, rows, tops, places
        ):
            return
        taken = np.zeros(self._blocks, np.bool_)
        place = -1
        while True:
            place = int(next_that_fits(*order, queue.rows, durations, bound, rows, tops, places, taken, place))
            if place < 0:
                return
            yield place

    def order(self, queue: RankedQueue[J], places: Ints, now: int) -> list[int]:
        """Sort these positions by the order of the queue."""
        found = scores(self._by_deadline, queue.values, self._late, places, now)
        ordered: list[int] = places[np.argsort(-found, kind="stable")].tolist()
        return ordered

    def _order(self, queue: RankedQueue[J], now: int) -> tuple[bool, Ints, float, int, Ints, Ints]:
        """Return the arguments of the kernels: the keys of the order, and the blocks."""
        return self._by_deadline, queue.values, self._late, now, self._members, self._begins[: self._blocks + 1]

    def _cover(self, queue: RankedQueue[J]) -> None:
        """Assign all positions to blocks."""
        first, end = self._covered, queue.end
        if first == end:
            return
        blocks = self._begins, self._lowest, self._highest
        if first and end <= len(self._members):
            self._blocks = extend(
                queue.rows, first, end, _BLOCK, self._members, self._block_of, *blocks, self._changes, self._blocks
            )
        else:
            self._make_room(end)
            blocks = self._begins, self._lowest, self._highest
            self._blocks = divide(queue.rows, end, _BLOCK, self._members, self._block_of, *blocks)
        self._covered = end
