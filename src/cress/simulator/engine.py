"""The event loop round the core, in virtual time.

Two ways to feed the events of one moment to the core:

``together``: all completions, nodes that go or come back, all submissions of the moment, then one ``decide``.

``one-by-one``: what batch simulators of the literature do, so that their published starts come out:
1. before any event is handled, tasks whose predicted end has come give back what they hold, without a pass;
2. submissions come first, in the order of the file; one leads to a pass only if one task of the job fits into
   what is free;
3. completions follow, in the order in which the tasks were started; each leads to a pass, also when the
   task's resources were given back already by the first rule;
4. nodes that go or come back are last, with one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Protocol

import numpy as np

from cress.model.decisions import Decisions, Preempt, Start
from cress.model.events import Event, JobCancelled, JobSubmitted, NodeAdded, NodeLost, Outcome, TaskEnded
from cress.model.job import Job
from cress.model.resources import ResourceVector
from cress.model.times import DAY
from cress.simulator.attempts import Attempts
from cress.simulator.order import Order
from cress.simulator.workload import NO_LIMIT, Workload

TOGETHER, ONE_BY_ONE = "together", "one-by-one"
ORDERS = (TOGETHER, ONE_BY_ONE)

# With nothing running and nothing to come, only the clock can start a waiting job: a quota timetable does so
# within a week or never.
PATIENCE = 8 * DAY

# Events between two calls of the progress callback.
STRIDE = 1024

Progress = Callable[[int], None]


class Core(Protocol):
    """What the loop needs of ``core.scheduler.Scheduler``."""

    def observe(self, now: int, events: Sequence[Event]) -> None:
        """Bring the core up to date."""

    def decide(self, now: int) -> Decisions:
        """Scheduling passes."""

    def next_wakeup(self) -> int | None:
        """When something changes by itself."""

    def fits_now(self, request: ResourceVector) -> bool:
        """Whether one task fits somewhere."""

    def validate(self) -> list[str]:
        """Broken invariants."""


class InvariantBroken(AssertionError):
    """``validate()`` found something; the message lists it with the moment."""


class Engine:
    """One run of a workload. ``jobs`` are the positions to submit, in order; ``groups`` their groups' names.

    The job at position ``i`` has the id ``i + 1``. ``progress`` is called with the number of events so far.
    """

    def __init__(
        self,
        workload: Workload,
        core: Core,
        jobs: list[int],
        groups: list[str],
        *,
        check: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._core = core
        self._check = check
        self._progress = progress
        self._next_report = STRIDE
        self.events = 0

        self._jobs = jobs
        self._groups = groups
        self._workload = workload
        self._submit = workload.submit[jobs].tolist()
        self._run: list[int] = workload.run.tolist()
        self._limit: list[int] = workload.limit.tolist()
        self._tasks: list[int] = workload.tasks.tolist()
        self._gang: list[bool] = workload.gang.tolist()
        self._priority: list[int] = workload.priority.tolist()
        self._request: list[int] = workload.request_index.tolist()
        self._user: list[int] = workload.user_index.tolist()

        self._order = Order(workload, jobs) if workload.after is not None else None
        self._settled: list[Event] = []  # what the core is to hear of jobs that come after those that are over

        self._node_index = {node.name: i for i, node in enumerate(workload.cluster.nodes)}
        self._ends: list[tuple[int, int]] = []  # heap of (end, attempt id); stale entries stay in
        self._place: dict[int, int] = {}  # attempt id → position in the columns below, while it runs
        self._returned: set[int] = set()  # attempts that the core saw ending, with their completion to come
        self._ran_job: list[int] = []
        self._ran_task: list[int] = []
        self._ran_node: list[int] = []
        self._ran_start: list[int] = []
        self._ran_end: list[int] = []
        self._preempted: list[int] = []
        self._lost: list[int] = []
        # Nodes that go and come back, the next one last: time, whether it comes back, its position.
        self._outages = sorted(
            [(each.start, False, each.node) for each in workload.cluster.outages]
            + [(each.end, True, each.node) for each in workload.cluster.outages if each.end is not None],
            reverse=True,
        )
        self._unfinished = sum(self._tasks[i] for i in jobs)
        self._starts_seen = 0

    def run(self, order: str) -> Attempts:
        """Feed everything in this order of events and return what ran. Jobs may be left waiting."""
        step = {TOGETHER: self._moment_together, ONE_BY_ONE: self._moment_one_by_one}[order]
        submit, ends, outages = self._submit, self._ends, self._outages
        n = len(submit)
        next_wakeup = self._core.next_wakeup
        position, now, last_start = 0, -1, 0
        while self._unfinished:
            while ends and not self._is_due(*ends[0]):
                heappop(ends)
            time = ends[0][0] if ends else None
            if position < n and (time is None or submit[position] < time):
                time = submit[position]
            if outages and (time is None or outages[-1][0] < time):
                time = outages[-1][0]
            wake = next_wakeup()
            if wake is not None and (time is None or wake < time):
                if wake <= now:
                    raise RuntimeError(f"the core wants to be woken at {wake} µs, but it is {now} µs already")
                if time is None and wake > last_start + PATIENCE:
                    break
                time = wake
            if time is None:
                break
            now = time
            first = position
            while position < n and submit[position] == now:
                position += 1
            before = self._starts_seen
            step(now, first, position, wake is not None and wake <= now)
            if self._starts_seen != before or ends:
                last_start = now
            if self._progress is not None and self.events >= self._next_report:
                self._next_report = self.events + STRIDE
                self._progress(self.events)
        return self._attempts()

    def _moment_together(self, now: int, first: int, last: int, woken: bool) -> None:
        events: list[Event] = []
        ends = self._ends
        while ends and ends[0][0] == now:
            attempt = heappop(ends)[1]
            ended = self._end(attempt, now)
            if ended is not None:
                events.append(ended)
        events += self._come_and_go(now)
        self.events += len(events) + last - first
        events += self._take_settled()
        for position in range(first, last):
            events += self._submitted(position)
        self._core.observe(now, events)
        self._decide(now)

    def _moment_one_by_one(self, now: int, first: int, last: int, woken: bool) -> None:
        core, ends = self._core, self._ends
        observe, fits_now, decide = core.observe, core.fits_now, self._decide
        requests, index = self._workload.requests, self._request
        self._give_back(now)
        for position in range(first, last):
            events = self._submitted(position)
            observe(now, events)
            self.events += 1
            if len(events) == 1 and type(events[0]) is JobSubmitted and events[0].behind is not None:
                continue
            if fits_now(requests[index[self._jobs[position]]]) and decide(now):
                self._give_back(now)
        while ends and ends[0][0] == now:
            attempt = heappop(ends)[1]
            ended = self._end(attempt, now)
            if ended is None:
                continue
            self.events += 1
            if attempt in self._returned:
                self._returned.remove(attempt)
            else:
                observe(now, [ended])
            if self._settled:
                observe(now, self._take_settled())
            if decide(now):
                self._give_back(now)
        outages = self._come_and_go(now)
        if outages or woken:
            observe(now, outages)
            decide(now)

    def _come_and_go(self, now: int) -> list[Event]:
        """Nodes that fail or are back at this moment; what ran on a failed one is lost."""
        events: list[Event] = []
        nodes = self._workload.cluster.nodes
        while self._outages and self._outages[-1][0] <= now:
            _, back, node = self._outages.pop()
            events.append(NodeAdded(nodes[node]) if back else NodeLost(nodes[node].name))
            if not back:
                for attempt, position in list(self._place.items()):
                    if self._ran_node[position] == node:
                        self._ran_end[position] = now
                        self._lost.append(position)
                        del self._place[attempt]
        return events

    def _is_due(self, end: int, attempt: int) -> bool:
        """Whether this entry of the heap still holds: its attempt runs, and was not told to end earlier."""
        position = self._place.get(attempt)
        return position is not None and self._ran_end[position] == end

    def _give_back(self, now: int) -> None:
        """Let the core see the end of tasks that are predicted to be over, before their completion is handled.

        No task outlives its limit, so one whose predicted end has come ends now: it is on the heap's front.
        """
        ends = self._ends
        if not ends or ends[0][0] != now:
            return
        limit, returned = self._limit, self._returned
        over = []
        for attempt, position in self._due(now):
            job = self._ran_job[position]
            if limit[job] != NO_LIMIT and self._ran_start[position] + limit[job] <= now and attempt not in returned:
                returned.add(attempt)
                over.append(TaskEnded(attempt))
        if over:
            self._core.observe(now, over)

    def _due(self, now: int) -> list[tuple[int, int]]:
        """Attempts that end now, as (attempt id, position) in the order of their starts."""
        ends, place, ran_end = self._ends, self._place, self._ran_end
        size = len(ends)
        if (size < 2 or ends[1][0] != now) and (size < 3 or ends[2][0] != now):
            attempt = ends[0][1]
            return [(attempt, place[attempt])] if self._is_due(now, attempt) else []
        # Several: a walk over the top of the heap, as far as it ends now.
        found, stack = [], [0]
        while stack:
            at = stack.pop()
            if at >= size or ends[at][0] != now:
                continue
            attempt = ends[at][1]
            position = place.get(attempt)
            if position is not None and ran_end[position] == now:
                found.append((attempt, position))
            stack += (2 * at + 1, 2 * at + 2)
        return sorted(found)

    def _take_settled(self) -> list[Event]:
        settled, self._settled = self._settled, []
        return settled

    def _submitted(self, position: int) -> list[Event]:
        """The submission of a job, and what it leads to for jobs that come after it."""
        i = self._jobs[position]
        if self._order is None:
            return [self._submission(position, i, None)]
        behind = self._order.submitted(i)
        if i in self._order.cancelled:
            return self._give_up([JobCancelled(i + 1), *self._order.dropped(i)])[1:]
        return [self._submission(position, i, behind)]

    def _give_up(self, events: list[Event]) -> list[Event]:
        """The tasks of jobs that are cancelled will not run."""
        for event in events:
            if type(event) is JobCancelled:
                self._unfinished -= self._tasks[event.job - 1]
        return events

    def _submission(self, position: int, i: int, behind: int | None) -> JobSubmitted:
        workload = self._workload
        limit = self._limit[i]
        wish = workload.placement(i)
        return JobSubmitted(
            Job(
                id=i + 1,
                name=workload.ids[i],
                group=self._groups[position],
                request=workload.requests[self._request[i]],
                user=workload.users[self._user[i]],
                tasks=self._tasks[i],
                gang=self._gang[i],
                priority=self._priority[i],
                time_limit=None if limit == NO_LIMIT else limit,
                requirement=wish.requirement,
                rank=wish.rank,
                ports=wish.ports,
                max_per_node=wish.max_per_node,
                max_per_rack=wish.max_per_rack,
                application=wish.application,
                licences=wish.licences,
            ),
            behind,
        )

    def _end(self, attempt: int, now: int) -> TaskEnded | None:
        """The end of an attempt; ``None`` for a stale entry of the heap."""
        position = self._place.get(attempt)
        if position is None or self._ran_end[position] != now:
            return None
        del self._place[attempt]
        if now == self._ran_start[position] + self._run[self._ran_job[position]]:
            self._unfinished -= 1
            if self._order is not None:
                self._settled += self._give_up(self._order.task_ended(self._ran_job[position]))
            return TaskEnded(attempt)
        self._preempted.append(position)
        return TaskEnded(attempt, Outcome.PREEMPTED)

    def _decide(self, now: int) -> int:
        """Passes until nothing is left to do; carries the decisions out. Returns their number."""
        core = self._core
        if self._check:
            self._validate(now)
        count = 0
        while True:
            decisions = core.decide(now)
            if decisions.items:
                count += len(decisions.items)
                self._carry_out(now, decisions)
            if not decisions.more:
                break
        if self._check:
            self._validate(now)
        return count

    def _carry_out(self, now: int, decisions: Decisions) -> None:
        for decision in decisions.items:
            if type(decision) is Start:
                job = decision.job - 1
                attempt = decision.attempt
                end = now + self._run[job]
                self._place[attempt] = len(self._ran_job)
                self._ran_job.append(job)
                self._ran_task.append(decision.task)
                self._ran_node.append(self._node_index[decision.node])
                self._ran_start.append(now)
                self._ran_end.append(end)
                self._starts_seen += 1
                heappush(self._ends, (end, attempt))
            elif type(decision) is Preempt:
                position = self._place[decision.attempt]
                end = now + decision.grace
                if end < self._ran_end[position]:
                    self._ran_end[position] = end
                    heappush(self._ends, (end, decision.attempt))

    def _validate(self, now: int) -> None:
        broken = self._core.validate()
        if broken:
            raise InvariantBroken(f"at {now} µs: " + "; ".join(broken))

    @property
    def cancelled(self) -> list[int]:
        """The positions of jobs that were cancelled since what they come after did not end as they wanted."""
        return sorted(self._order.cancelled) if self._order is not None else []

    def _attempts(self) -> Attempts:
        preempted = np.zeros(len(self._ran_job), dtype=np.bool_)
        preempted[self._preempted] = True
        lost = np.zeros(len(self._ran_job), dtype=np.bool_)
        lost[self._lost] = True
        return Attempts(
            job=np.array(self._ran_job, dtype=np.int64),
            task=np.array(self._ran_task, dtype=np.int64),
            node=np.array(self._ran_node, dtype=np.int64),
            start=np.array(self._ran_start, dtype=np.int64),
            end=np.array(self._ran_end, dtype=np.int64),
            preempted=preempted,
            lost=lost,
        )
