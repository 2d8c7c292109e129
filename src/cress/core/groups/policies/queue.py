"""Jobs in a fixed order, with cheap arrival at the end and cheap removal anywhere."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import compress, islice
from typing import Generic, TypeVar

import numpy as np

from cress.core.job_times import Timed
from cress.core.kernels.holding import count_lacks
from cress.core.placing.fit import Fit
from cress.core.placing.shape import Shape
from cress.core.tables.arrays import Ints
from cress.model.job import Job
from cress.model.times import NEVER

# The duration at a position without a job; it exceeds that of any job.
GAP = 2**62
# The number of jobs of one queue that count as pending (source B): the head, and those offered in the next passes.
MOST_PENDING = 64

_FEW = 16


class QueuedJob(Timed):
    """The part of ``JobEntry`` that policies read; they set ``key``, its place in the order, and its ``work``."""

    __slots__ = ()

    key: tuple[int, int]
    job: Job
    shape: Shape
    cost: int
    work: int
    overdue_at: int

    @property
    def since(self) -> int:
        """The time (µs) since which the next unit waits."""
        raise NotImplementedError

    def waiting_work(self) -> int:
        """Return the work of the waiting tasks (µs × millicores); 0 if the length of their runs is unknown."""
        if self.mean >= NEVER:
            return 0
        if self.job.parts:
            return self.mean * (self.job.total(0) * self.waiting // self.job.tasks)
        return self.mean * self.job.request[0] * self.waiting


J = TypeVar("J", bound=QueuedJob)


def _key(job: QueuedJob) -> tuple[int, int]:
    return job.key


class Queue(Generic[J]):
    """Jobs by ``key`` (unique). A removed job leaves a gap; gaps are closed when they fill half of the positions.

    ``columns`` has a line for the ``rows`` of the jobs' shapes, one for their ``limits``, and ``more`` lines, by
    position; with ``GAP`` in all lines but the first where there is no job. The first ``MOST_PENDING`` jobs, or all if
    there are fewer, have positions before ``_horizon``; ``_near`` is their number. ``head`` is the first job, ``first``
    its position, ``count`` the number of jobs.
    """

    __slots__ = ("_horizon", "_jobs", "_keys", "_near", "columns", "count", "first", "head", "limits", "rows")

    def __init__(self, more: int = 0) -> None:
        self._keys: list[tuple[int, int]] = []
        self._jobs: list[J | None] = []
        self.first = 0
        self.head: J | None = None
        self.count = 0
        self._horizon = 0
        self._near = 0
        self._take_over(np.empty((2 + more, 0), np.int64))

    def _take_over(self, columns: Ints) -> None:
        """Take over the columns of the jobs there are, with room for as many again."""
        there = columns.shape[1]
        self.columns: Ints = np.full((len(columns), max(_FEW, 2 * there)), GAP, np.int64)
        self.columns[:, :there] = columns
        self.rows: Ints = self.columns[0]
        self.limits: Ints = self.columns[1]

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[J]:
        return (job for job in self._jobs[self.first :] if job is not None)

    def first_ones(self) -> Iterator[J]:
        """Yield the jobs for a caller that wants only a few, without a copy of the queue; it must not change."""
        return (job for job in islice(self._jobs, self.first, None) if job is not None)

    def add(self, job: J) -> None:
        """Insert the job at its place."""
        key = job.key
        end = len(self._keys)
        self.count += 1
        if not end or key > self._keys[-1]:
            place = end
        else:
            place = bisect_left(self._keys, key)
        if place < end and self._keys[place] == key and self._jobs[place] is None:
            self._jobs[place] = job
        else:
            self._insert(place, job)
        # Positions before the first job are gaps, and the new job may have taken one of them.
        if place <= self.first:
            self.first, self.head = place, job
        self.rows[place] = job.shape.row
        self.limits[place] = job.limit
        if place < self._horizon:
            self._near += 1
            if self._near > MOST_PENDING:
                self._draw_back()
        elif self._near < MOST_PENDING:
            self._near += 1
            self._horizon = place + 1
        self._entered(place, job)

    def _entered(self, place: int, job: J) -> None:
        """Handle a job that has come to a position."""

    def _leaves(self, place: int, job: J) -> None:
        """Handle a job that leaves its position."""

    def fill(self, jobs: Iterable[J]) -> None:
        """Insert many jobs into an empty queue."""
        ordered = sorted(jobs, key=_key)
        self.count = len(ordered)
        self._keys = [job.key for job in ordered]
        self._jobs = list(ordered)
        self.first, self.head = 0, ordered[0] if ordered else None
        self._horizon = self._near = min(self.count, MOST_PENDING)
        columns = np.full((len(self.columns), self.count), GAP, np.int64)
        columns[0], columns[1] = [job.shape.row for job in ordered], [job.limit for job in ordered]
        self._take_over(columns)

    def _insert(self, place: int, job: J) -> None:
        """Make room at a position and insert the job."""
        end = len(self._keys)
        if end == len(self.limits):
            self._take_over(self.columns)
        if place < end:
            self.columns[:, place + 1 : end + 1] = self.columns[:, place:end]
            if place < self._horizon:
                self._horizon += 1
        self._keys.insert(place, job.key)
        self._jobs.insert(place, job)

    def _draw_back(self) -> None:
        """Move the horizon before the last job in front of it."""
        self._horizon -= 1
        while self._jobs[self._horizon] is None:
            self._horizon -= 1
        self._near -= 1

    def remove(self, job: J) -> int:
        """Remove the job; return the row that it had."""
        i = bisect_left(self._keys, job.key)
        row: int = self.rows.item(i)
        self._leaves(i, job)
        self._jobs[i] = None
        # Its shape stays there, for loops that look at shapes first.
        self.columns[1:, i] = GAP
        self.count -= 1
        end = len(self._jobs)
        if job is self.head:
            self._find_head(i + 1, end)
        if i < self._horizon:
            self._near -= 1
            self._advance(end)
        if end > 64 and self.count < end // 2:
            self._close_gaps()
        return row

    def _find_head(self, place: int, end: int) -> None:
        """Find the first job from a position on."""
        jobs = self._jobs
        while place < end and jobs[place] is None:
            place += 1
        self.first, self.head = place, jobs[place] if place < end else None

    def _advance(self, end: int) -> None:
        """Move the horizon behind the next job."""
        while self._horizon < end:
            self._horizon += 1
            if self._jobs[self._horizon - 1] is not None:
                self._near += 1
                return

    def reshaped(self, job: J) -> None:
        """Update the shape of a job."""
        self.rows[self.position(job)] = job.shape.row

    def position(self, job: J) -> int:
        """Return the position of the job."""
        return bisect_left(self._keys, job.key)

    def _close_gaps(self) -> None:
        there = self.limits[: len(self._jobs)] != GAP
        # With a hundred thousand positions, a Python loop would take as long as a whole pass.
        kept = there.tolist()
        self._take_over(self.columns[:, : len(self._jobs)][:, there])
        self._keys = list(compress(self._keys, kept))
        self._jobs = list(compress(self._jobs, kept))
        self.first = 0
        self._horizon = self._near

    @property
    def end(self) -> int:
        """Return the position after the last job."""
        return len(self._jobs)

    def at(self, position: int) -> J | None:
        """Return the job at a position, ``None`` for a gap."""
        return self._jobs[position]

    def count_lacking(self, fit: Fit, counts: Ints, last: int = -1) -> None:
        """Add to ``counts``, per dimension, the first jobs for which no node has enough of it.

        These are the first ``MOST_PENDING`` jobs, or those before the position ``last``.
        """
        last = self._horizon if last < 0 else last
        count_lacks(self.rows, self.limits, self.first, last, GAP, fit.rows, fit.cluster.usable_count, counts)
