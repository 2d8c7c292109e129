"""A queue that also keeps, by position, the values from which an order that changes with time is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cress.core.groups.policies.counted_queue import CountedQueue
from cress.core.groups.policies.queue import J
from cress.core.tables.arrays import Ints


class RankedQueue(CountedQueue[J]):
    """Jobs by submit time; the values from ``measure`` are further columns.

    ``work`` is the work of all its jobs (µs × millicores), as of the time at which each was queued or estimated.
    """

    __slots__ = ("_measure", "work")

    def __init__(self, values: int, measure: Callable[[J], tuple[int, ...]]) -> None:
        super().__init__(values)
        self._measure = measure
        self.work = 0

    @property
    def values(self) -> Ints:
        """The values of the jobs, by position."""
        return self.columns[2:]

    def _entered(self, place: int, job: J) -> None:
        super()._entered(place, job)
        self._enter(place, job)

    def _leaves(self, place: int, job: J) -> None:
        super()._leaves(place, job)
        self.work -= job.work

    def fill(self, jobs: Iterable[J]) -> None:
        jobs = list(jobs)
        super().fill(jobs)
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
        for line, value in enumerate(self._measure(job), 2):
            # One by one, because assigning a whole column takes three times as long.
            self.columns[line, place] = value
