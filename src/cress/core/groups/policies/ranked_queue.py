"""A queue that also keeps, by position, what the order by estimates is computed from."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cress.core.groups.policies.queue import GAP, J, Queue
from cress.core.tables.arrays import Ints

RUNS, COSTS, SUBMITTED, OVERDUE = range(4)


class RankedQueue(Queue[J]):
    """Jobs by submit time, with their expected runs, costs, submit times and the times from which on they are overdue as rows of ``values``.

    ``work`` is the work of all its jobs, as of the time at which each was queued or estimated.
    """

    __slots__ = ("values", "work")

    def __init__(self) -> None:
        super().__init__()
        self.values: Ints = np.zeros((4, len(self.limits)), np.int64)
        self.work = 0

    def add(self, job: J) -> None:
        super().add(job)
        self._enter(job)

    def fill(self, jobs: Iterable[J]) -> None:
        jobs = list(jobs)
        super().fill(jobs)
        self.values = np.zeros((4, len(self.limits)), np.int64)
        self.work = 0
        for job in jobs:
            self._enter(job)

    def remove(self, job: J) -> None:
        self.work -= job.work
        self.values[RUNS, self.position(job)] = GAP
        super().remove(job)

    def revalued(self, job: J) -> None:
        """Take note of the new estimate of a job."""
        self.work -= job.work
        self._enter(job)

    def _enter(self, job: J) -> None:
        job.work = job.waiting_work()
        self.work += job.work
        self.values[:, self.position(job)] = job.run, job.cost, job.submitted, job.overdue_at

    def _insert(self, place: int, job: J) -> None:
        end = self.end
        super()._insert(place, job)
        if len(self.limits) > self.values.shape[1]:
            more = np.zeros((4, len(self.limits) - self.values.shape[1]), np.int64)
            self.values = np.concatenate([self.values, more], axis=1)
        self.values[:, place + 1 : end + 1] = self.values[:, place:end].copy()

    def _close_gaps(self) -> None:
        there = self.limits[: self.end] != GAP
        kept = self.values[:, : self.end][:, there]
        super()._close_gaps()
        self.values = np.zeros((4, len(self.limits)), np.int64)
        self.values[:, : kept.shape[1]] = kept
