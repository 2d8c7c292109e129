"""The direct path: the events of a plain workload straight to the scheduler, in virtual time (see ``paths``).

Simultaneous events have one of two orders:

``together``: all completions, nodes that fail or return, all submissions, then one ``decide``.

``one-by-one``: the order of batch simulators in the literature, which reproduces their published starts:
1. before any event is handled, tasks whose predicted end has come release their resources, without a pass;
2. submissions come first, in the order of the file; one leads to a pass only if one task of the job fits into the free
   resources;
3. completions follow, in the order in which the tasks were started; each leads to a pass, even when rule 1 has already
   released the task's resources;
4. nodes that fail or return are last, with one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop
from typing import Protocol

import numpy as np

from cress.core.estimator import Estimator
from cress.model.decisions import Decisions, Preempt, Start, Stop
from cress.model.events import Event, JobCancelled, JobSubmitted, NodeCordoned, Outcome, TaskEnded
from cress.model.job import Job
from cress.model.resources import ResourceVector
from cress.model.times import DAY, NEVER
from cress.simulator.attempts import AttemptHistory, How, JobEnd
from cress.simulator.dependencies import Dependencies
from cress.simulator.event_orders import ONE_BY_ONE, TOGETHER, Progress
from cress.simulator.fragments import FragmentLog
from cress.simulator.jobs import Jobs
from cress.simulator.packing.devices import DeviceLog
from cress.simulator.running import Running
from cress.simulator.think_times import LaterSubmissions
from cress.simulator.workload import NO_LIMIT, Workload

# Without running tasks or coming events only the clock can start a waiting job: a quota timetable does so within a week
# or never.
PATIENCE = 8 * DAY

# Events between two calls of the progress callback.
STRIDE = 1024

FAILED_NODE = "its node failed"


class Core(Protocol):
    """The part of ``core.scheduler.Scheduler`` that the loop uses."""

    def observe(self, now: int, events: Sequence[Event]) -> None:
        """Bring the core up to date."""

    def decide(self, now: int) -> Decisions:
        """Run scheduling passes, and return the decisions."""

    def next_wakeup(self) -> int | None:
        """Return the time when something changes without an event."""

    def fits_now(self, request: ResourceVector) -> bool:
        """Return whether one task fits on some node."""

    def validate(self) -> list[str]:
        """Return the broken invariants."""

    def needs_estimate(self, job: Job) -> bool:
        """Return whether the job's group works with estimates."""

    def settled(self, jobs: Iterable[int]) -> list[int]:
        """Return the jobs without waiting tasks."""


class InvariantBroken(AssertionError):
    """Error: ``validate()`` found broken invariants; the message lists them with the time."""


class DirectRun:
    """One run of a workload. ``jobs`` are the positions to submit, in order; ``groups`` the names of their groups.

    The job at position ``i`` has the id ``i + 1``. ``progress`` is called with the number of events handled so far,
    ``log`` notes fragments, ``devices`` the use of devices.
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
        log: FragmentLog | None = None,
        devices: DeviceLog | None = None,
    ) -> None:
        self._core = core
        self._log = log
        self._devices = devices
        self._check = check
        self._progress = progress
        self._next_report = STRIDE
        self.events = 0

        self._jobs = jobs
        self._workload = workload
        self._make = Jobs(workload, jobs, groups).make
        self._later = LaterSubmissions(workload, jobs)
        self._on_time = [i for i in jobs if i not in self._later] if self._later else jobs
        # The end of the list needs no question: after the last job, none is submitted for ever.
        self._submit = [*workload.submit[self._on_time].tolist(), NEVER]
        self._run: list[int] = workload.run.tolist()
        self._killed: list[bool] = workload.killed.tolist()
        self._limit: list[int] = workload.limit.tolist()
        self._left: list[int] = workload.tasks.tolist()
        self._request: list[int] = workload.request_index.tolist()

        self._dependencies = Dependencies(workload, jobs) if workload.after is not None else None
        self._settled: list[Event] = []  # of jobs whose predecessors, or users' runs, just ended
        self._estimator = Estimator(core.settled)
        self._estimated: dict[int, Job] = {}  # jobs whose ends are learned from, by position
        first = dict(zip(reversed(groups), reversed(jobs), strict=True))
        # As in a live cluster, the runs of all groups teach, also of groups that work without estimates.
        self._learns = workload.deadline is not None or any(
            core.needs_estimate(self._make(i, i + 1)) for i in first.values()
        )

        self._in_parts = any(template.parts for template in workload.templates)
        self._node_index = {node.name: i for i, node in enumerate(workload.cluster.nodes)}
        self._running = Running()
        self._returned: set[int] = set()  # attempts already reported by rule 1, before their completion
        # Nodes that fail and return, the next one last: time, whether it returns, position.
        self._outages = sorted(
            [(outage.start, False, outage.node) for outage in workload.cluster.outages]
            + [(outage.end, True, outage.node) for outage in workload.cluster.outages if outage.end is not None],
            reverse=True,
        )
        self._unfinished = sum(self._left[i] for i in jobs)
        self._starts_seen = 0

    def run(self, order: str) -> AttemptHistory:
        """Run the workload in this order of events and return the history; some jobs may be left waiting."""
        step = {TOGETHER: self._together, ONE_BY_ONE: self._one_by_one}[order]
        submit, outages, log, devices = self._submit, self._outages, self._log, self._devices
        on_time, later = self._on_time, self._later
        next_wakeup, next_end = self._core.next_wakeup, self._running.next_end
        position, now, last_start = 0, -1, 0
        heap = self._running.heap
        while self._unfinished:
            time = min(next_end(), submit[position], later.next())
            if outages and outages[-1][0] < time:
                time = outages[-1][0]
            wake = next_wakeup()
            woken = False
            if wake is not None and wake <= time:
                if wake <= now:
                    raise RuntimeError(f"the core wants to be woken at {wake} µs, but it is {now} µs already")
                if time == NEVER and wake > last_start + PATIENCE:
                    break
                time, woken = wake, True
            if time == NEVER:
                break
            if log is not None:
                log.look(now, until=time)
            now = time
            first = position
            while submit[position] == now:
                position += 1
            before = self._starts_seen
            step(now, later.among(on_time[first:position], now), woken)
            if devices is not None:
                devices.look(now)
            if heap or self._starts_seen != before:
                last_start = now
            if self._progress is not None and self.events >= self._next_report:
                self._next_report = self.events + STRIDE
                self._progress(self.events)
        if log is not None:
            log.look(now, until=NEVER)
        return self._history(now)

    def _together(self, now: int, submitted: list[int], woken: bool) -> None:
        events: list[Event] = []
        ends = self._running.heap
        while ends and ends[0][0] == now:
            attempt = heappop(ends)[1]
            ended = self._end(attempt, now)
            if ended is not None:
                events.append(ended)
        self.events += len(events) + len(submitted)
        events += self._fail_and_return(now)
        events += self._take_settled()
        for i in submitted:
            events += self._submitted(i, now)
        self._core.observe(now, events)
        self._decide(now)

    def _one_by_one(self, now: int, submitted: list[int], woken: bool) -> None:
        core, ends, decide = self._core, self._running.heap, self._decide
        if ends and ends[0][0] == now:
            self._release_predicted(now)
        for i in submitted:
            events = self._submitted(i, now)
            core.observe(now, events)
            self.events += 1
            if self._dependencies is not None and not self._is_free(events):
                continue
            if core.fits_now(self._least(i)) and decide(now) and ends and ends[0][0] == now:
                self._release_predicted(now)
        while ends and ends[0][0] == now:
            attempt = heappop(ends)[1]
            ended = self._end(attempt, now)
            if ended is None:
                continue
            self.events += 1
            told: list[Event] = [ended]
            if attempt in self._returned:
                self._returned.remove(attempt)
                told = []
            if self._settled:
                told += self._take_settled()
            if told:
                core.observe(now, told)
            if decide(now) and ends and ends[0][0] == now:
                self._release_predicted(now)
        outages = self._fail_and_return(now) if self._outages else []
        if outages:
            core.observe(now, outages)
        if outages or woken:
            decide(now)

    def _least(self, i: int) -> ResourceVector:
        """Return the request of one task of a job."""
        if self._in_parts:
            # The measures use the mean request of a gang with parts; its template has the request of a task.
            known = self._workload.template(i)
            if known.parts:
                return known.request
        return self._workload.requests[self._request[i]]

    @staticmethod
    def _is_free(events: list[Event]) -> bool:
        """Return False if the only event is the submission of a job behind another one, which cannot start yet."""
        submitted = events[0] if len(events) == 1 else None
        return type(submitted) is not JobSubmitted or submitted.behind is None

    def _fail_and_return(self, now: int) -> list[Event]:
        """Return the events of nodes that fail or return now, in the form of a live center.

        A failed node is cordoned, and its attempts are lost.
        """
        events: list[Event] = []
        nodes = self._workload.cluster.nodes
        while self._outages and self._outages[-1][0] <= now:
            _, back, node = self._outages.pop()
            events.append(NodeCordoned(nodes[node].name, not back, "" if back else FAILED_NODE))
            if not back:
                for attempt in self._running.on_node(node):
                    self._running.finish(attempt, now, How.LOST)
                    events.append(TaskEnded(attempt, Outcome.LOST, again=True))
        return events

    def _release_predicted(self, now: int) -> None:
        """Report the end of tasks whose predicted end has come, before their completion is handled; called if a task
        ends now.

        No task outlives its limit, so a task whose predicted end has come ends now: it is at the front of the heap.
        """
        running = self._running
        limit, returned = self._limit, self._returned
        over = []
        for attempt, position in self._due(now):
            job = running.job[position]
            if limit[job] != NO_LIMIT and running.start[position] + limit[job] <= now and attempt not in returned:
                returned.add(attempt)
                over.append(TaskEnded(attempt))
        if over:
            self._core.observe(now, over)

    def _due(self, now: int) -> list[tuple[int, int]]:
        """Return the attempts that end now, as (attempt id, position) in the order of their starts."""
        running = self._running
        ends, place = running.heap, running.place
        size = len(ends)
        if (size < 2 or ends[1][0] != now) and (size < 3 or ends[2][0] != now):
            attempt = ends[0][1]
            return [(attempt, place[attempt])] if running.is_valid(now, attempt) else []
        # Several attempts end now: walk over the top of the heap.
        found, stack = [], [0]
        while stack:
            at = stack.pop()
            if at >= size or ends[at][0] != now:
                continue
            attempt = ends[at][1]
            if running.is_valid(now, attempt):
                found.append((attempt, place[attempt]))
            stack += (2 * at + 1, 2 * at + 2)
        return sorted(found)

    def _take_settled(self) -> list[Event]:
        settled, self._settled = self._settled, []
        return settled

    def _submitted(self, i: int, now: int) -> list[Event]:
        """Return the events of a submission: the job itself, or cancellations of the jobs after it."""
        if self._dependencies is None:
            return [self._accepted(i)]
        behind = self._dependencies.submitted(i)
        if i in self._dependencies.cancelled:
            return self._drop_cancelled([JobCancelled(i + 1), *self._dependencies.dropped(i)], now)[1:]
        return [self._accepted(i, behind)]

    def _accepted(self, i: int, behind: int | None = None) -> JobSubmitted:
        job = self._make(i, i + 1)
        if not self._learns:
            return JobSubmitted(job, behind)
        self._estimated[i] = job
        wanted = self._core.needs_estimate(job)
        return JobSubmitted(job, behind, self._estimator.submitted(job) if wanted else None)

    def _drop_cancelled(self, events: list[Event], now: int) -> list[Event]:
        """Subtract the tasks of cancelled jobs from those that the run waits for; return the events."""
        for event in events:
            if type(event) is JobCancelled:
                self._later.ended(event.job - 1, now)
                self._unfinished -= self._left[event.job - 1]
        return events

    def _end(self, attempt: int, now: int) -> TaskEnded | None:
        """End an attempt and return the event; ``None`` for a stale entry of the heap."""
        running = self._running
        position = running.place.get(attempt)
        if position is None or running.end[position] != now:
            return None
        job = running.job[position]
        # A task that reaches its time limit during a stop runs again, as in a live cluster.
        cut = self._killed[job] and position in running.stopped
        if now == running.start[position] + self._run[job] and not cut:
            running.finish(attempt, now, How.FINISHED)
            self._left[job] -= 1
            self._unfinished -= 1
            if self._dependencies is not None and not self._left[job]:
                self._settled += self._drop_cancelled(self._dependencies.ended(job), now)
                self._later.ended(job, now)
            estimated = self._estimated.get(job)
            if estimated is not None:
                self._settled += self._estimator.ended(estimated, self._run[job])
                if not self._left[job]:
                    del self._estimated[job]
            return TaskEnded(attempt)
        running.finish(attempt, now, running.stopped[position])
        return TaskEnded(attempt, Outcome.PREEMPTED)

    def _decide(self, now: int) -> int:
        """Decide until no decision is left, and carry out the decisions; return the number of starts and stops."""
        core = self._core
        if self._check:
            self._validate(now)
        count = 0
        while True:
            decisions = core.decide(now)
            if decisions.items:
                count += self._carry_out(now, decisions)
            if not decisions.more:
                break
        if self._check:
            self._validate(now)
        return count

    def _carry_out(self, now: int, decisions: Decisions) -> int:
        """Start and stop attempts; return their number."""
        running = self._running
        count = 0
        for decision in decisions.items:
            count += 1
            if type(decision) is Start:
                job = decision.job - 1
                node = self._node_index[decision.node]
                position = running.begin(decision.attempt, job, decision.task, node, now, now + self._run[job])
                if decision.parts and self._log is not None:
                    self._log.started(decision.attempt, position)
                self._starts_seen += 1
            elif type(decision) is Preempt:
                running.stop(decision.attempt, now + decision.grace, How.PREEMPTED)
            elif type(decision) is Stop:
                running.stop(decision.attempt, decision.end, How.STOPPED)
            else:
                count -= 1
        return count

    def _validate(self, now: int) -> None:
        broken = self._core.validate()
        if broken:
            raise InvariantBroken(f"at {now} µs: " + "; ".join(broken))

    def _history(self, now: int) -> AttemptHistory:
        ends = np.full(len(self._workload), JobEnd.WAITING, dtype=np.int64)
        for i in self._jobs:
            if not self._left[i]:
                ends[i] = JobEnd.FINISHED
        if self._dependencies is not None:
            ends[sorted(self._dependencies.cancelled)] = JobEnd.CANCELLED
        return AttemptHistory(
            attempts=self._running.attempts(now),
            ends=ends,
            events=self.events,
            refusals={},
            fragments=None if self._log is None else self._log.result(),
            devices=None if self._devices is None else self._devices.result(),
        )
