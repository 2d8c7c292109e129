"""The loop of a processor log in plain Python, which begins at once: short logs need no compiled code.

It has the rules of ``loops``. Long logs are handed over: ``columns`` has the state in the form of the compiled loops.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

from cress.model.times import NEVER

# The planned length of a job without a time: a reservation of length 0 would hold nothing.
LEAST = 1


class LogColumns(NamedTuple):
    """The columns of a log, by position: times in µs, cores in thousandths."""

    submit: list[int]
    run: list[int]
    limit: list[int]
    cores: list[int]


class InterpretedRun:
    """A run of the jobs at these positions.

    ``order``, ``start`` and ``end`` have the job and the times of each attempt. ``heap`` has (end, attempt) of the
    running ones, ``plan`` (planned end, attempt) of those that hold processors, sorted. ``steps`` counts the work: jobs
    that were looked at.
    """

    def __init__(
        self,
        jobs: Sequence[int],
        columns: LogColumns,
        capacity: int,
        *,
        together: bool,
        backfills: bool,
    ) -> None:
        self._jobs = jobs
        self._submit, self._run, self._limit, self._cores = columns
        self._together, self._backfills = together, backfills
        self._least = min((columns.cores[job] for job in jobs), default=0)
        self.free = capacity
        self.queue: list[int] = []
        self.heap: list[tuple[int, int]] = []
        self.plan: list[tuple[int, int]] = []
        self.order: list[int] = []
        self.start: list[int] = []
        self.end: list[int] = []
        self.planned: list[int] = []
        self.submitted = self.events = self.steps = 0

    def go_on(self, most: int) -> bool:
        """Handle events until ``most`` steps are done, or until all jobs have ended; return whether they have."""
        jobs, submit, heap, cores = self._jobs, self._submit, self.heap, self._cores
        together, decide, count = self._together, self._decide, len(self._jobs)
        until = self.steps + most
        while self.steps < until:
            now = submit[jobs[self.submitted]] if self.submitted < count else NEVER
            if heap and heap[0][0] < now:
                now = heap[0][0]
            if now == NEVER:
                return True
            ends = bool(heap) and heap[0][0] == now
            if ends and together:
                while heap and heap[0][0] == now:
                    self._ended(heappop(heap)[1])
            elif ends:
                self._release_planned(now)
            while self.submitted < count and submit[jobs[self.submitted]] == now:
                job = jobs[self.submitted]
                self.queue.append(job)
                self.submitted += 1
                self.events += 1
                self.steps += 1
                if not together and cores[job] <= self.free and decide(now) and heap[0][0] == now:
                    self._release_planned(now)
            if together:
                decide(now)
                continue
            while heap and heap[0][0] == now:
                self._ended(heappop(heap)[1])
                if decide(now) and heap[0][0] == now:
                    self._release_planned(now)
        return False

    def _start(self, job: int, now: int) -> None:
        attempt = len(self.order)
        self.order.append(job)
        self.start.append(now)
        end, planned = now + self._run[job], now + (self._limit[job] or LEAST)
        self.end.append(end)
        self.planned.append(planned)
        self.free -= self._cores[job]
        heappush(self.heap, (end, attempt))
        insort(self.plan, (planned, attempt))

    def _ended(self, attempt: int) -> None:
        """Return the processors of an attempt that ends, unless they were returned at its planned end."""
        self.events += 1
        self.steps += 1
        plan, held = self.plan, (self.planned[attempt], attempt)
        place = bisect_left(plan, held)
        if place < len(plan) and plan[place] == held:
            del plan[place]
            self.free += self._cores[self.order[attempt]]

    def _release_planned(self, now: int) -> None:
        """Return the processors of the attempts whose time limit has passed, before their ends are handled."""
        plan, place = self.plan, 0
        while place < len(plan) and plan[place][0] <= now + LEAST:
            attempt = plan[place][1]
            job = self.order[attempt]
            if self.start[attempt] + self._limit[job] <= now:
                del plan[place]
                self.free += self._cores[job]
            else:
                place += 1

    def _decide(self, now: int) -> bool:
        """Start jobs from the head of the queue while they fit, then those behind it that do not delay it.

        Return whether a job started.
        """
        queue, cores, begun = self.queue, self._cores, 0
        while begun < len(queue) and cores[queue[begun]] <= self.free:
            self._start(queue[begun], now)
            begun += 1
        if begun:
            del queue[:begun]
        if not self._backfills or self.free < self._least or len(queue) < 2:
            return begun > 0
        return self._fill_behind(now) or begun > 0

    def _fill_behind(self, now: int) -> bool:
        """Start jobs behind the head that end before its reservation, or leave enough for it; return whether any
        did.
        """
        queue, cores, limit, least, free = self.queue, self._cores, self._limit, self._least, self.free
        self.steps += len(queue)
        reserved, extra = self._reserve(cores[queue[0]])
        spare = reserved - now
        started = set()
        for job in islice(queue, 1, None):
            need = cores[job]
            if need > free:
                continue
            if (limit[job] or LEAST) > spare:
                if need > extra:
                    continue
                extra -= need
            self._start(job, now)
            started.add(job)
            free -= need
            if free < least:
                break
        if not started:
            return False
        self.queue = [job for job in queue if job not in started]
        return True

    def _reserve(self, need: int) -> tuple[int, int]:
        """Return the time at which ``need`` is free by the planned ends, and what is free beyond it then."""
        gained, cores, order, plan = self.free, self._cores, self.order, self.plan
        for place, (time, attempt) in enumerate(plan):
            gained += cores[order[attempt]]
            if gained >= need and (place + 1 == len(plan) or plan[place + 1][0] > time):
                return time, gained - need
        return NEVER, 0
