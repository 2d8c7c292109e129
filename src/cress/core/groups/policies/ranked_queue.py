"""A queue that also keeps, by position, the values from which an order that changes with time is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from cress.core.groups.policies.counted_queue import CountedQueue
from cress.core.groups.policies.queue import GAP, J
from cress.core.tables.arrays import Ints


class RankedQueue(CountedQueue[J]):
    """Jobs by submit time; the values from ``measure`` are columns of ``values``, with ``GAP`` where there is no job.

    ``work`` is the work of all its jobs (µs × millicores), as of the time at which each was queued or estimated.
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

    def _entered(self, place: int, job: J) -> None:
        super()._entered(place, job)
        self._enter(place, job)

    def _leaves(self, place: int, job: J) -> None:
        super()._leaves(place, job)
        self.work -= job.work
        for row in range(self._rows):
            self.values[row, place] = GAP

    def fill(self, jobs: Iterable[J]) -> None:
        jobs = list(jobs)
        super().fill(jobs)
        self.values = self._empty()
        self.work = 0
        for job in jobs:
            self._enter(self.position(job), job)

    def revalued(self, job: J) -> None:
        """Update the estimate of a waiting job."""
        self.work -= job.work
        self._enter(self.position(job), job)

    def _enter(self, place: int, job: J) -> None:
        job.work = job.waiting_work()
        self.work += job.work
        for row, value in enumerate(self._measure(job)):
            # One by one, because assigning a whole column takes three times as long.
            self.values[row, place] = value

    def _insert(self, place: int, job: J) -> None:
        end = self.end
        super()._insert(place, job)
        if len(self.limits) > self.values.shape[1]:
            kept = self.values
            self.values = self._empty()
            self.values[:, : kept.shape[1]] = kept
        if place < end:
            self.values[:, place + 1 : end + 1] = self.values[:, place:end].copy()

    def _close_gaps(self) -> None:
        there = self.limits[: self.end] != GAP
        kept = self.values[:, : self.end][:, there]
        super()._close_gaps()
        self.values = self._empty()
        self.values[:, : kept.shape[1]] = kept
