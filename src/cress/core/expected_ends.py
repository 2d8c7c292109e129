"""Expected ends of running tasks: which of them will outlive an estimate, and how much work is left (design note
0022).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from cress.core.jobs import Attempt
from cress.model.times import NEVER

# Entries of attempts that are over may be as many as those that run, and so many more.
_SPARE = 64


class ExpectedEnds:
    """The attempts that are running, by the ends that are expected of them.

    Sums are kept instead of being counted: a submission asks for the work that is left, whatever runs.
    """

    def __init__(self) -> None:
        # A heap of (expected end, attempt) of those that may go on after it; entries of attempts that are over stay.
        self._heap: list[tuple[int, int]] = []
        self._running: dict[int, Attempt] = {}
        # Millicores of those with a known end, and the sum of millicores × end.
        self._cores = 0
        self._ends = 0

    def add(self, attempt: Attempt) -> None:
        """Add an attempt that runs from now on."""
        self._running[attempt.id] = attempt
        self._enter(attempt)

    def remove(self, attempt: Attempt) -> None:
        """Remove an attempt that is over."""
        if self._running.pop(attempt.id, None) is None:
            return
        self._count(attempt, -1)
        # Their own time may come only in days.
        if self.kept > 2 * len(self._running) + _SPARE:
            self._heap = [entry for entry in self._heap if self._counts(*entry)]
            heapify(self._heap)

    @property
    def kept(self) -> int:
        """The number of entries, with those of attempts that are over."""
        return len(self._heap)

    def _counts(self, end: int, number: int) -> bool:
        """Return whether an entry is of an attempt that runs and is expected to end at this time."""
        attempt = self._running.get(number)
        return attempt is not None and attempt.expected == end < attempt.last_end

    def move(self, attempt: Attempt, expected: int, last_end: int) -> None:
        """Expect the end of an attempt at another time."""
        self._count(attempt, -1)
        attempt.expected, attempt.last_end = expected, last_end
        self._enter(attempt)

    def _enter(self, attempt: Attempt) -> None:
        self._count(attempt, 1)
        if attempt.expected < attempt.last_end:
            heappush(self._heap, (attempt.expected, attempt.id))

    def _count(self, attempt: Attempt, sign: int) -> None:
        if attempt.expected < NEVER:
            cores = sign * attempt.job.job.request_of(attempt.task)[0]
            self._cores += cores
            self._ends += cores * attempt.expected

    def work_left(self, now: int) -> int:
        """Return the work that running tasks are expected to do from now on, in µs of a millicore."""
        return max(0, self._ends - self._cores * now)

    def outlived(self, now: int) -> Iterable[Attempt]:
        """Return the attempts that run although their estimate says that they ended by now, each once."""
        return self._outlived(now) if self._heap and self._heap[0][0] <= now else ()

    def _outlived(self, now: int) -> Iterator[Attempt]:
        while self.next() <= now:
            yield self._running[heappop(self._heap)[1]]

    def next(self) -> int:
        """Return the time at which the next attempt outlives its estimate; NEVER if none will."""
        heap = self._heap
        while heap:
            if self._counts(*heap[0]):
                return heap[0][0]
            heappop(heap)
        return NEVER
