"""Relaxation: the times at which clauses of waiting jobs become soft or hard, by waiting time or load (E §3.3)."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from cress.core.jobs import JobEntry, asks_alike
from cress.core.placing.constraints import Constraints
from cress.model.times import NEVER

# The number of stale entries allowed beyond the number of jobs.
MOST_STALE = 64


class RelaxationTimes:
    """The times at which waiting jobs must be checked.

    An entry is valid while it equals ``relaxes_at`` of its job.
    """

    def __init__(self) -> None:
        # A heap of times and jobs.
        self.times: list[tuple[int, int]] = []
        self._by_time: dict[int, JobEntry] = {}
        # Jobs whose constraints depend on the load, by constraints, and the soft clauses at the last check.
        self.by_load: dict[Constraints, dict[int, JobEntry]] = {}
        self._seen: dict[Constraints, tuple[int, ...]] = {}
        self._follows: dict[int, tuple[Constraints, ...]] = {}

    def note(self, job: JobEntry, now: int) -> None:
        """Note the next change of the clauses of a waiting job."""
        asked = () if asks_alike(job) else job.asked()
        if not asked:
            self.leave(job)
            return
        change = min(constraints.next_change(now - job.since) for constraints in asked)
        time = NEVER if change >= NEVER else job.since + change
        number = job.job.id
        if time < NEVER and time != job.relaxes_at:
            heappush(self.times, (time, number))
            self._by_time[number] = job
        job.relaxes_at = time
        if len(self.times) > 2 * len(self._by_time) + MOST_STALE:
            # Each time a job is queued again it leaves an entry.
            self.times = [
                (waiting.relaxes_at, key) for key, waiting in self._by_time.items() if waiting.relaxes_at < NEVER
            ]
            heapify(self.times)
        self._forget(number)
        follows = tuple({constraints: None for constraints in asked if constraints.by_load})
        if follows:
            self._follows[number] = follows
        for constraints in follows:
            self.by_load.setdefault(constraints, {})[number] = job
            self._seen.pop(constraints, None)

    def leave(self, job: JobEntry) -> None:
        """Remove a job that no longer waits."""
        job.relaxes_at = NEVER
        if self._by_time:
            self._by_time.pop(job.job.id, None)
        if self._follows:
            self._forget(job.job.id)

    def _forget(self, number: int) -> None:
        for constraints in self._follows.pop(number, ()):
            jobs = self.by_load[constraints]
            del jobs[number]
            if not jobs:
                del self.by_load[constraints]
                self._seen.pop(constraints, None)

    def follow(self, load: float, look_at: Callable[[JobEntry], None]) -> None:
        """Call ``look_at`` for the jobs with a limit that the load has crossed since the last call."""
        for constraints, jobs in list(self.by_load.items()):
            soft = constraints.soft_by_load(load)
            if self._seen.get(constraints) != soft:
                for job in list(jobs.values()):
                    look_at(job)
                self._seen[constraints] = soft

    def due(self, now: int) -> list[JobEntry]:
        """Return the jobs whose time has come, by time and id, and remove their entries."""
        found = []
        while self.next() <= now:
            found.append(self._by_time[heappop(self.times)[1]])
            found[-1].relaxes_at = NEVER
        return found

    def next(self) -> int:
        """Return the earliest time (µs) at which a clause of a waiting job becomes soft or hard by itself; NEVER
        without one.
        """
        while self.times:
            time, number = self.times[0]
            job = self._by_time.get(number)
            if job is not None and job.relaxes_at == time:
                return time
            heappop(self.times)
        return NEVER
