"""A queue that also counts its jobs by shape, so that questions about all jobs need no loop over them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cress.core.groups.policies.queue import J, Queue
from cress.core.kernels.holding import count_lacks_of_rows
from cress.core.placing.fit import Fit
from cress.core.tables.arrays import Ints, grown

_FEW = 16


class CountedQueue(Queue[J]):
    """Jobs in a fixed order; ``waiting`` is the number of jobs per row of the fit table."""

    __slots__ = ("waiting",)

    def __init__(self, more: int = 0) -> None:
        super().__init__(more)
        self.waiting: Ints = np.zeros(_FEW, np.int64)

    def _entered(self, place: int, job: J) -> None:
        self._count_in(job.shape.row)

    def _leaves(self, place: int, job: J) -> None:
        self.waiting[self.rows[place]] -= 1

    def fill(self, jobs: Iterable[J]) -> None:
        super().fill(jobs)
        self.waiting = np.bincount(self.rows[: self.end], minlength=_FEW)

    def reshaped(self, job: J) -> None:
        self.waiting[self.rows[self.position(job)]] -= 1
        super().reshaped(job)
        self._count_in(job.shape.row)

    def _count_in(self, row: int) -> None:
        if row >= len(self.waiting):
            self.waiting = grown(self.waiting, 2 * row)
        self.waiting[row] += 1

    def count_all_lacking(self, fit: Fit, counts: Ints) -> None:
        """Add to ``counts``, per dimension, the jobs for which no node has enough of it."""
        count_lacks_of_rows(self.waiting, fit.rows, fit.cluster.usable_count, counts)
