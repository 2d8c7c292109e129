"""The start of a waiting job by a run of the scheduler itself, forward in virtual time.

Running tasks and tasks that start meanwhile end by one of their estimates, or at their limits. Nothing new is
submitted. What has no known end never ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from cress.core.jobs import Attempt
from cress.core.openings import EndsBy
from cress.core.scheduler import Scheduler
from cress.model.decisions import Preempt, Start, Stop
from cress.model.estimates import RunEstimate
from cress.model.events import Event, JobAfter, Outcome, TaskEnded, TasksReleased
from cress.model.times import NEVER

# The number of moments after which a run gives up.
MOST_MOMENTS = 20_000
NOTHING: Mapping[int, Sequence[frozenset[int]]] = {}
NO_TASKS: Mapping[int, Sequence[int]] = {}
NO_TIMES: Mapping[int, int] = {}


class Forecast(NamedTuple):
    """The start of a job in a run forward (µs): ``None`` if it did not start. ``because`` is the job that ended at this
    moment, ``None`` if none did; ``behind`` other waiting jobs started before it, most of them of the group ``ahead``;
    it is empty if there is no such group. It does not start before ``least``, whatever others do.
    """

    start: int | None
    because: int | None = None
    behind: int = 0
    ahead: str = ""
    least: int = 0


class Forward:
    """One run forward. It consumes ``core``, a copy. ``estimates`` are those of jobs by id, where the core has none.

    ``after`` has waiting jobs that may start when all other jobs in these sets have ended; many may share a set.
    ``behind_tasks`` has the jobs each of whose tasks starts after the same task of a job. ``at`` has those that wait
    for a time (µs). It gives up when ``patient`` says no.
    """

    def __init__(
        self,
        core: Scheduler,
        by: EndsBy,
        estimates: dict[int, RunEstimate],
        patient: Callable[[], bool] = lambda: True,
        after: Mapping[int, Sequence[frozenset[int]]] = NOTHING,
        behind_tasks: Mapping[int, Sequence[int]] = NO_TASKS,
        at: Mapping[int, int] = NO_TIMES,
    ) -> None:
        self._core = core
        self._by = by
        self._estimates = estimates
        self._patient = patient
        self._behind_tasks = behind_tasks
        # The number of sets that are left for a job, the jobs that wait for a set, the number of jobs that are left of
        # it, and the sets that a job is in. The scheduler does not know jobs that have ended.
        self._unmet = dict.fromkeys(after, 0)
        self._behind: dict[frozenset[int], list[int]] = {}
        self._left = {others: len(others & core.jobs.keys()) for sets in after.values() for others in sets}
        for job, sets in after.items():
            for others in sets:
                if self._left[others]:
                    self._unmet[job] += 1
                    self._behind.setdefault(others, []).append(job)
        self._sets: dict[int, list[frozenset[int]]] = {}
        for others in self._behind:
            for other in others:
                self._sets.setdefault(other, []).append(others)
        # The next one is the last.
        self._later = sorted(((time, job) for job, time in at.items()), reverse=True)
        # Nothing is left to wait for: the center is about to say so.
        if freed := [JobAfter(job) for job, left in self._unmet.items() if not left and job in core.jobs]:
            core.observe(core.now, freed)
        self._ends = [(self._end(attempt), attempt.id) for attempt in core.attempts.values()]
        heapify(self._ends)
        # The present end of each; what was told to stop has a new one, and its old entry in the heap is void.
        self._due: dict[int, int] = {number: end for end, number in self._ends}
        self._started: set[int] = set()
        self._note_victims()

    def until_starts(self, jobs: Iterable[int]) -> dict[int, Forecast]:
        """Run until each of the jobs has started a task, or until nothing is left that could start the rest.

        Jobs that did not start are left out.
        """
        core, because = self._core, None
        wanted = {job for job in jobs if job in core.jobs}
        found: dict[int, Forecast] = {}
        # Jobs that started before, by group.
        ahead: Counter[str] = Counter()

        def note(started: list[int]) -> None:
            for job in started:
                if job in wanted:
                    wanted.remove(job)
                    group = next((name for name, count in ahead.most_common(1) if 2 * count > ahead.total()), "")
                    found[job] = Forecast(core.now, because, ahead.total(), group)
                ahead[core.jobs[job].group.name] += 1

        note(self._decide())
        for _ in range(MOST_MOMENTS):
            now = min(self._next_end(), core.next_wakeup() or NEVER, self._later[-1][0] if self._later else NEVER)
            if now >= NEVER or not wanted or not self._patient():
                break
            ended = []
            while self._next_end() <= now:
                ended.append(heappop(self._ends)[1])
                del self._due[ended[-1]]
            of = [core.attempts[number].job.job.id for number in ended]
            because = of[-1] if of else None
            tasks = self._tasks_behind(ended)
            core.observe(now, [TaskEnded(number, self._outcome(number)) for number in ended])
            if released := [*tasks, *self._released(of), *self._whose_time_has_come(now)]:
                core.observe(now, released)
            note(self._decide(now))
            wanted &= core.jobs.keys()
        return found

    def _released(self, ended: Iterable[int]) -> list[Event]:
        """Return the events that let jobs start for which these jobs were the last ones to wait for."""
        found: list[Event] = []
        for number in dict.fromkeys(ended) if self._behind else ():
            if number in self._core.jobs:
                continue
            for others in self._sets.pop(number, ()):
                self._left[others] -= 1
                for job in () if self._left[others] else self._behind[others]:
                    self._unmet[job] -= 1
                    if not self._unmet[job] and job in self._core.jobs:
                        found.append(JobAfter(job))
        return found

    def _tasks_behind(self, ended: Iterable[int]) -> list[Event]:
        """Return the events that let single tasks start because those that they wait for succeed in these attempts."""
        found: list[Event] = []
        for number in ended if self._behind_tasks else ():
            attempt = self._core.attempts[number]
            if attempt.stopping:
                continue
            for follower in self._behind_tasks.get(attempt.job.job.id, ()):
                job = self._core.jobs.get(follower)
                if job is not None and job.later.get(attempt.task) == NEVER:
                    found.append(TasksReleased(follower, (attempt.task,)))
        return found

    def _whose_time_has_come(self, now: int) -> Iterator[JobAfter]:
        """Yield the events that let jobs start that waited for a time until now."""
        while self._later and self._later[-1][0] <= now:
            _, job = self._later.pop()
            if job in self._core.jobs:
                yield JobAfter(job)

    def _next_end(self) -> int:
        """Return the time of the next end; entries that a stop has replaced are dropped."""
        ends = self._ends
        while ends and self._due.get(ends[0][1]) != ends[0][0]:
            heappop(ends)
        return ends[0][0] if ends else NEVER

    def _outcome(self, number: int) -> Outcome:
        return Outcome.PREEMPTED if self._core.attempts[number].stopping else Outcome.SUCCEEDED

    def _decide(self, now: int | None = None) -> list[int]:
        """Decide until nothing is left; return the jobs whose first task in this run starts."""
        core, more = self._core, True
        found: list[int] = []
        now = core.now if now is None else now
        while more:
            decided = core.decide(now)
            more = decided.more
            for item in decided.items:
                if isinstance(item, Start):
                    self._note(item.attempt, self._end(core.attempts[item.attempt]))
                    if item.job not in self._started:
                        self._started.add(item.job)
                        found.append(item.job)
                elif isinstance(item, (Stop, Preempt)):
                    self._stop(item.attempt, item.end if isinstance(item, Stop) else now + item.grace)
        self._note_victims()
        return found

    def _note_victims(self) -> None:
        """Let the victims of claims end when they are expected to."""
        for claim in self._core.claims:
            for number in claim.victims:
                self._stop(number, claim.expected)

    def _stop(self, number: int, end: int) -> None:
        """Let a running task end at ``end`` (µs), or before if it does so by itself."""
        known = self._due.get(number)
        end = max(end, self._core.now + 1)
        if known is not None and end < known:
            self._note(number, end)

    def _note(self, number: int, end: int) -> None:
        if number in self._core.attempts:
            self._due[number] = end
            heappush(self._ends, (end, number))

    def _end(self, attempt: Attempt) -> int:
        """Return the end of an attempt by the estimate of the run; what was outlived is replaced by the next one."""
        now = self._core.now
        if attempt.stopping:
            # It was told to stop, and its grace is over then. A victim's lease counts as free from the beginning.
            claims = (claim.expected for claim in self._core.claims if attempt.id in claim.victims)
            return max(now + 1, next(claims, attempt.last_end))
        estimate = attempt.job.estimate or self._estimates.get(attempt.job.job.id)
        return end_of_run(attempt, estimate, self._by, now)


def end_of_run(attempt: Attempt, estimate: RunEstimate | None, by: EndsBy, now: int) -> int:
    """Return the end (µs) of an attempt that is not told to stop, later than ``now``; NEVER if nothing bounds it.

    It takes its estimate by ``by``; what was outlived is replaced by the next one, at last by the limit. Without an
    estimate it takes its limit.
    """
    limit = attempt.job.limit
    known = () if estimate is None else (estimate.optimistic, estimate.mean, estimate.pessimistic)
    times = [min(time, limit) for time in (*known[by.value :], limit)]
    ends = [attempt.start + time for time in times if time < NEVER]
    if not ends:
        return NEVER
    found = next((end for end in ends if end > now), None)
    if found is None:
        # By optimistic ends, a task that is overdue may end at any time.
        found = now + 1 if by is EndsBy.OPTIMISTIC else ends[-1]
    return max(found, now + 1)
