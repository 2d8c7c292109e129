"""A queue that also keeps, by position, what an order that changes with time is computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from cress.core.groups.policies.counted_queue import CountedQueue
from cress.core.groups.policies.queue import GAP, J
from cress.core.tables.arrays import Ints


class RankedQueue(CountedQueue[J]):
    """Jobs by submit time; what ``measure`` says of each is a column of ``values``, with ``GAP`` where there is no job.

    ``work`` is the work of all its jobs, as of the time at which each was queued or estimated.
    """

    __slots__ = ("_measure", "_rows", "values", "work")

    def __init__(self, rows: int, measure: Callable[[J], tuple[int, ...]]) -> None:
        super().__init__()
        self._rows = rows
        self._measure = measure
        self.values = self._empty()
        self.work = 0

    def _empty(self) -> Ints:
        return np.full((self._rows, len(self.limits)), GAP, np.int64)

    def add(self, job: J) -> None:
        super().add(job)
        self._enter(job)

    def fill(self, jobs: Iterable[J]) -> None:
        jobs = list(jobs)
        super().fill(jobs)
        self.values = self._empty()
        self.work = 0
        for job in jobs:
            self._enter(job)

    def remove(self, job: J) -> None:
        self.work -= job.work
        self.values[:, self.position(job)] = GAP
        super().remove(job)

    def revalued(self, job: J) -> None:
        """Take note of the new estimate of a job."""
        self.work -= job.work
        self._enter(job)

    def _enter(self, job: J) -> None:
        job.work = job.waiting_work()
        self.work += job.work
        self.values[:, self.position(job)] = self._measure(job)

    def _insert(self, place: int, job: J) -> None:
        end = self.end
        super()._insert(place, job)
        if len(self.limits) > self.values.shape[1]:
            kept = self.values
            self.values = self._empty()
            self.values[:, : kept.shape[1]] = kept
        self.values[:, place + 1 : end + 1] = self.values[:, place:end].copy()

    def _close_gaps(self) -> None:
        there = self.limits[: self.end] != GAP
        kept = self.values[:, : self.end][:, there]
        super()._close_gaps()
        self.values = self._empty()
        self.values[:, : kept.shape[1]] = kept
