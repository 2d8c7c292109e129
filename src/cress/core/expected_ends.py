"""Expected ends of running tasks: the tasks that will outlive their estimate, and the work left (design note 0022)."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from cress.core.groups.shares import Groups
from cress.core.jobs import Attempt
from cress.core.kernels.holding import END
from cress.core.tables.cluster import Cluster
from cress.core.tables.leases import LeaseTable
from cress.model.times import NEVER

# Stale entries may exceed the number of running attempts by this many.
_SPARE = 64


class ExpectedEnds:
    """The running attempts, by their expected ends.

    Sums are maintained, because every submission needs the work that is left, with any number of running tasks.
    """

    def __init__(self, cluster: Cluster, leases: LeaseTable, groups: Groups) -> None:
        self._cluster = cluster
        self._leases = leases
        self._groups = groups
        # True while the head of a group is overdue: then time limits count in place of estimates.
        self.limits_count = False
        # A heap of (expected end, attempt) of attempts that may go on after it; entries of ended attempts stay.
        self.heap: list[tuple[int, int]] = []
        self._running: dict[int, Attempt] = {}
        # Millicores of attempts with a known end, and the sum of millicores × end.
        self._cores = 0
        self._ends = 0

    def add(self, attempt: Attempt) -> None:
        """Add an attempt that starts to run."""
        self._running[attempt.id] = attempt
        self._enter(attempt)

    def remove(self, attempt: Attempt) -> None:
        """Remove an attempt that has ended."""
        if self._running.pop(attempt.id, None) is None:
            return
        self._count(attempt, -1)
        # The expected end of a stale entry may be days away.
        if len(self.heap) > 2 * len(self._running) + _SPARE:
            self.heap = [entry for entry in self.heap if self._counts(*entry)]
            heapify(self.heap)

    def _counts(self, end: int, number: int) -> bool:
        """Return True if an entry belongs to a running attempt that is expected to end at this time."""
        attempt = self._running.get(number)
        return attempt is not None and attempt.expected == end < attempt.last_end

    def move(self, attempt: Attempt, expected: int, last_end: int) -> None:
        """Move the expected end of an attempt."""
        self._count(attempt, -1)
        attempt.expected, attempt.last_end = expected, last_end
        self._enter(attempt)

    def _enter(self, attempt: Attempt) -> None:
        expected = attempt.expected
        self._count(attempt, 1)
        if expected < attempt.last_end:
            heappush(self.heap, (expected, attempt.id))

    def _count(self, attempt: Attempt, sign: int) -> None:
        expected = attempt.expected
        if expected < NEVER:
            job = attempt.job.job
            cores = sign * (job.request_of(attempt.task) if job.parts else job.request)[0]
            self._cores += cores
            self._ends += cores * expected

    def work_left(self, now: int) -> int:
        """Return the work that running tasks are expected to do from now on (µs × millicores)."""
        return max(0, self._ends - self._cores * now)

    def outlived(self, now: int) -> Iterator[Attempt]:
        """Yield the running attempts whose estimated end is past, each once."""
        while self.next() <= now:
            yield self._running[heappop(self.heap)[1]]

    def next(self) -> int:
        """Return the time (µs) at which the next attempt outlives its estimate; NEVER if none will."""
        heap = self.heap
        while heap:
            if self._counts(*heap[0]):
                return heap[0][0]
            heappop(heap)
        return NEVER

    def expect_last_end(self, attempt: Attempt) -> None:
        """Expect an attempt that outlived its estimate to run to its time limit."""
        self.move(attempt, attempt.last_end, attempt.last_end)
        # While limits count, this end is entered already.
        if int(self._cluster.leases[attempt.slot, END]) != attempt.last_end:
            self._leases.set_end(attempt.slot, attempt.last_end)

    def count_limits(self, count: bool) -> None:
        """Switch between time limits and estimates as the expected ends, for running and for starting tasks."""
        if count is self.limits_count:
            return
        self.limits_count = count
        for group in self._groups:
            if not group.predicts:
                continue
            group.trusts = not count
            for attempt in group.attempts.values():
                if attempt.expected < attempt.last_end:
                    self._leases.set_end(attempt.slot, attempt.last_end if count else attempt.expected)
        self._cluster.loosened += 1
