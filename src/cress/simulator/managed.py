"""The path through the lifecycle: jobs, nodes and reports of a workload go to the machine of a live center.

The loop runs in virtual time. It stands in for the users, who submit and cancel jobs, and for the executors: a launch
starts at once, and its task ends when its run time is over, or a grace after a stop order. A node that fails is
reported dead at once. Simultaneous events go into one step: ends in the order in which they were planned, then nodes,
cancellations and submissions.
"""

from __future__ import annotations

import re
from heapq import heappop

import numpy as np
from msgspec.structs import replace

from cress.core.scheduler import Scheduler
from cress.lifecycle.effects import Halt, Launch, StepResult
from cress.lifecycle.inputs import Cancel, Drain, Input, NodeDead, NodeJoined, NodeLeft, Reported, Scale, Submit
from cress.lifecycle.machine import Machine
from cress.lifecycle.moving.rounds import MOVED
from cress.model.errors import InputError
from cress.model.events import GroupsApplied, LicencesSet, NodeCordoned, Outcome, RacksSet
from cress.model.family import Database, Service
from cress.model.group import Group
from cress.model.job import Condition, Job
from cress.model.options import Options
from cress.model.records import FAILURES, AttemptRecord, JobRecord, JobState
from cress.model.reports import Cause, Checked, Ended, Started
from cress.model.times import NEVER
from cress.simulator.attempts import AttemptHistory, How, JobEnd
from cress.simulator.clusterreservations import check_replies, reserve_all
from cress.simulator.direct import PATIENCE, STRIDE, InvariantBroken
from cress.simulator.event_orders import Progress
from cress.simulator.fragments import FragmentLog
from cress.simulator.jobs import Jobs
from cress.simulator.moves import Rounds
from cress.simulator.never_fit import never_fit
from cress.simulator.packing.devices import device_log
from cress.simulator.running import Running
from cress.simulator.service_log import ServiceLog
from cress.simulator.think_times import LaterSubmissions
from cress.simulator.workload import NO_LIMIT, Bools, Ints, Workload

BOOT = "simulated"
SIGNALLED = -15  # the exit code after SIGTERM

# Ids for jobs that are never submitted but have dependent jobs; they are above all ids of the machine.
NOT_SUBMITTED = 2**40

PLACE = re.compile(r"jobs\[(\d+)\]")

_ENDS = {JobState.SUCCEEDED: JobEnd.FINISHED, JobState.CANCELLED: JobEnd.CANCELLED} | dict.fromkeys(
    FAILURES, JobEnd.FAILED
)
_HOW = {
    Outcome.SUCCEEDED: How.FINISHED,
    Outcome.FAILED: How.FAILED,
    Outcome.TIMED_OUT: How.FAILED,
    Outcome.OUT_OF_MEMORY: How.FAILED,
    Outcome.LOST: How.LOST,
}


class ManagedRun:
    """One run of a workload through a machine that has its nodes and groups. For the parameters see ``DirectRun``."""

    def __init__(
        self,
        workload: Workload,
        machine: Machine,
        jobs: list[int],
        groups: list[str],
        *,
        check: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._machine = machine
        self._workload = workload
        self._check = check
        self._progress = progress
        self._next_report = STRIDE
        self.events = 0

        self._jobs = jobs
        self._after = workload.after
        self._make = Jobs(workload, jobs, groups).make
        self._later = LaterSubmissions(workload, jobs)
        self._on_time = [i for i in jobs if i not in self._later] if self._later else jobs
        self._submit: list[int] = workload.submit[self._on_time].tolist()
        self._run: list[int] = workload.run.tolist()
        self._killed: list[bool] = workload.killed.tolist()
        self._fails: list[int] | None = None if workload.fails is None else workload.fails.tolist()
        self._keeps = [workload.template(i).plan is not None for i in range(len(workload))]
        until = [] if workload.until is None else workload.until.tolist()
        self._until = {i: until[i] for i in jobs if until and until[i] != NO_LIMIT}

        self._nodes = workload.cluster.nodes
        self._node_index = {node.name: i for i, node in enumerate(self._nodes)}
        self._running = Running()
        self._log = FragmentLog(machine.core)
        self._devices = device_log(machine.core, workload, jobs)
        self._services = ServiceLog(machine.families)
        self._rounds = Rounds(machine, workload.utc, workload.begin)
        self._key: dict[int, tuple[int, int]] = {}  # job and task of a running attempt, to count failures by
        self._failures: dict[tuple[int, int], int] = {}
        self._ids = {i: NOT_SUBMITTED + i for i in range(len(workload))}  # by position
        self._position: dict[int, int] = {}  # by id
        submitted = set(jobs)
        self._over = {NOT_SUBMITTED + i: JobState.CANCELLED for i in range(len(workload)) if i not in submitted}
        self._ends = np.full(len(workload), JobEnd.WAITING, dtype=np.int64)
        self._refusals: dict[int, str] = {}
        # Jobs that end by themselves, or at a time; the simulation is over when the last of them ends.
        self._unfinished = {i for i in jobs if not self._keeps[i] or i in self._until}
        self._timed = self._timed_inputs()
        self._moved = 0  # the last submission, start or end of a job that ends by itself

    # --- the loop --------------------------------------------------------------------------------------------

    def run(self) -> AttemptHistory:
        """Run until every job that ends by itself has ended, or no job can start any more."""
        submit, timed, running = self._submit, self._timed, self._running
        n, position, now = len(submit), 0, -1
        while self._unfinished or position < n:
            time = running.next_end()
            if position < n and submit[position] < time:
                time = submit[position]
            time = min(time, self._later.next())
            if timed and timed[-1][0] < time:
                time = timed[-1][0]
            due = self._rounds.next()
            if due is not None and due < time:
                time = due
            wake = self._machine.next_wakeup()
            if wake is not None and wake < time:
                if wake <= now:
                    raise RuntimeError(f"the machine wants to be woken at {wake} µs, but it is {now} µs already")
                time = wake
            if time == NEVER or (
                time > self._moved + PATIENCE and self._is_stuck(position < n or self._later.next() < NEVER)
            ):
                break
            self._log.look(now, until=time)
            now = time
            inputs = [*self._reports(now), *self._due(now)]
            first = position
            while position < n and submit[position] == now:
                position += 1
            batch = self._later.among(self._on_time[first:position], now)
            self.events += len(inputs) + len(batch)
            self._step(now, inputs, batch)
            begun = self._rounds.due(now)
            if begun:
                self._step(now, [*begun], [])
            self._services.look(now)
            if self._devices is not None:
                self._devices.look(now)
            if self._progress is not None and self.events >= self._next_report:
                self._next_report = self.events + STRIDE
                self._progress(self.events)
        self._log.look(now, until=NEVER)
        return self._history(now)

    def _is_stuck(self, more: bool) -> bool:
        """Return whether only the clock could start a waiting job.

        Then no job that ends by itself runs, and no event is to come.
        """
        if more or self._timed:
            return False
        return all(self._keeps[self._running.job[position]] for position in self._running.place.values())

    def _step(self, now: int, inputs: list[Input], batch: list[int]) -> None:
        """Handle all simultaneous inputs and submissions, and their immediate effects."""
        while True:
            submit = [self._submission(batch)] if batch else []
            step = self._machine.step(now, self._workload.utc + now, [*inputs, *submit])
            batch = self._submitted(batch, step.replies[-1], now) if batch else []
            inputs = self._carry_out(now, step)
            if self._check:
                self._validate(now)
            if not (step.more or batch or inputs):
                return

    # --- users -----------------------------------------------------------------------------------------------

    def _timed_inputs(self) -> list[tuple[int, int, Input | tuple[int, int | None]]]:
        """Return failures, returns, drains, scalings and cancellations with their times, the next one last.

        The last two are the position of the job, and its new task count or ``None``.
        """
        cluster = self._workload.cluster
        found: list[tuple[int, int, Input | tuple[int, int | None]]] = []
        for outage in cluster.outages:
            node = cluster.nodes[outage.node]
            found += [(outage.start, 0, NodeLeft(name=node.name)), (outage.start, 1, NodeDead(name=node.name))]
            if outage.end is not None:
                found.append((outage.end, 2, NodeJoined(node=node, boot=BOOT)))
        for drain in cluster.drains:
            name = cluster.nodes[drain.node].name
            found.append((drain.start, 3, Drain(name=name, deadline=drain.deadline)))
            if drain.end is not None:
                found.append((drain.end, 4, NodeCordoned(name=name, cordoned=False)))
        submitted = set(self._jobs)
        found += [(time, 5, (i, tasks)) for time, i, tasks in self._workload.scales if i in submitted]
        found += [(time, 6, (i, None)) for i, time in self._until.items()]
        # A stable sort: simultaneous events of one kind keep the order of their file.
        found.sort(key=lambda entry: entry[:2])
        return found[::-1]

    def _due(self, now: int) -> list[Input]:
        """Return the timed inputs that are due."""
        found: list[Input] = []
        while self._timed and self._timed[-1][0] <= now:
            timed = self._timed.pop()[2]
            if not isinstance(timed, tuple):
                found.append(timed)
                continue
            number, tasks = self._ids[timed[0]], timed[1]
            if number < NOT_SUBMITTED and number not in self._over:
                found.append(Cancel(job=number) if tasks is None else Scale(job=number, tasks=tasks))
        return found

    def _submission(self, batch: list[int]) -> Submit:
        """Return one submit of the jobs at these positions; dependencies among them are by their places in it."""
        place = {i: k for k, i in enumerate(batch)}
        known: dict[int, JobState] = {}
        jobs: list[Job] = []
        for i in batch:
            after: list[tuple[int, Condition]] = []
            for first, condition in self._after[i] if self._after is not None else ():
                number = self._ids[first]
                if first in place:
                    number = -place[first] - 1
                elif number in self._over:
                    known[number] = self._over[number]
                # As in direct runs; a gang could not wait for single tasks, and traces have no indices.
                after.append((number, Condition.OK if condition is Condition.TASKS else condition))
            job = self._make(i, 0)
            jobs.append(replace(job, after=tuple(after)) if after else job)
        return Submit(jobs=tuple(jobs), known=tuple(known.items()))

    def _submitted(self, batch: list[int], reply: tuple[int, ...] | InputError | None, now: int) -> list[int]:
        """Note the ids of a submit; if one of its jobs was refused, return the others, to be submitted again."""
        self._moved = now
        if isinstance(reply, tuple):
            for i, number in zip(batch, reply, strict=True):
                self._ids[i] = number
                self._position[number] = i
                if self._keeps[i]:
                    self._services.begun(i, number)
            return []
        assert isinstance(reply, InputError)
        found = PLACE.match(reply.field)
        refused = [batch[int(found[1])]] if found else batch
        for i in refused:
            self._refusals[i] = reply.what
            self._ends[i] = JobEnd.REFUSED
            self._over[self._ids[i]] = JobState.CANCELLED
            self._later.ended(i, now)
            self._unfinished.discard(i)
        return [i for i in batch if i not in refused]

    # --- executors -------------------------------------------------------------------------------------------

    def _reports(self, now: int) -> list[Input]:
        """Return the reports of attempts that end now."""
        running = self._running
        found: list[Input] = []
        while running.heap and running.heap[0][0] == now:
            end, attempt = heappop(running.heap)
            if running.is_valid(end, attempt):
                node = self._nodes[running.node[running.place[attempt]]].name
                found.append(Reported(node=node, reports=(self._ended(attempt, now),)))
        return found

    def _ended(self, attempt: int, now: int) -> Ended:
        """Return the report of an attempt that ends now: by itself, at its time limit, or after a stop order."""
        running, utc = self._running, self._workload.utc
        position = running.place[attempt]
        i = running.job[position]
        cause, code = Cause.EXITED, 0
        if now != running.start[position] + self._run[i]:
            cause, code = Cause.STOPPED, SIGNALLED
        elif self._fails is not None and self._failures.get(self._key[attempt], 0) < self._fails[i]:
            self._failures[self._key[attempt]] = self._failures.get(self._key[attempt], 0) + 1
            code = 1
        elif self._killed[i]:
            cause, code = Cause.TIME_LIMIT, SIGNALLED
        return Ended(attempt=attempt, cause=cause, code=code, started=utc + running.start[position], at=utc + now)

    def _carry_out(self, now: int, step: StepResult) -> list[Input]:
        """Carry out the effects of a step; return the reports that follow at once: starts of services and databases."""
        for record in step.attempts:
            self._attempt_over(record, now)
        # In the order of executors, since one step can launch a task and preempt it.
        reports = [report for launch in step.launches for report in self._launch(launch, now)]
        for halt in step.halts:
            self._halt(halt, now)
        for job in step.jobs:
            self._job_over(job, now)
        return reports

    def _launch(self, launch: Launch, now: int) -> list[Input]:
        job = self._machine.jobs[launch.job].job
        i = self._position[job.family or job.id]
        run = self._run[i]
        end = NEVER if run == NO_LIMIT else now + run
        position = self._running.begin(launch.attempt, i, launch.task, self._node_index[launch.node], now, end)
        self._log.started(launch.attempt, position)
        if self._fails is not None:
            # The tasks of a service or database are jobs of one task, each time a new one.
            self._key[launch.attempt] = (i if self._keeps[i] else launch.job, launch.task)
        if not self._keeps[i]:
            self._moved = now
            # Only running tasks are moved, and the next move waits until the program of the previous one runs.
            running = Started(attempt=launch.attempt, at=self._workload.utc + now, pid=1)
            return [Reported(node=launch.node, reports=(running,))] if self._rounds.on else []
        plan = self._workload.template(i).plan
        if not isinstance(plan, Service | Database):
            return []
        at = self._workload.utc + now
        started = Started(attempt=launch.attempt, at=at, pid=1)
        ready = (Checked(attempt=launch.attempt, at=at, ready=True),) if plan.checked else ()
        return [Reported(node=launch.node, reports=(started, *ready))]

    def _halt(self, halt: Halt, now: int) -> None:
        attempt = self._machine.attempts.get(halt.attempt)
        if attempt is not None:
            how = {"preempted": How.PREEMPTED, MOVED: How.MOVED}.get(attempt.halted, How.STOPPED)
            i = self._running.job[self._running.place[halt.attempt]]
            grace = self._workload.template(i).stop_grace if halt.grace is None else halt.grace
            self._running.stop(halt.attempt, now + grace, how)

    def _attempt_over(self, record: AttemptRecord, now: int) -> None:
        running = self._running
        position = running.place[record.attempt]
        how = _HOW.get(record.outcome)
        if how is None:
            how = running.stopped.get(position, How.STOPPED)
        elif how is How.FAILED and record.final and self._killed[running.job[position]] and record.code != 1:
            how = How.FINISHED
        running.finish(record.attempt, now, how)
        self._key.pop(record.attempt, None)
        if not self._keeps[running.job[position]]:
            self._moved = now

    def _job_over(self, record: JobRecord, now: int) -> None:
        """Note the end of a job or family; members of families have no row."""
        i = self._position.get(record.id)
        if i is None:
            return
        self._over[record.id] = record.state
        end = _ENDS[record.state]
        if end is JobEnd.FAILED and self._killed[i] and (self._fails is None or not self._fails[i]):
            end = JobEnd.FINISHED
        self._ends[i] = end
        self._later.ended(i, now)
        self._unfinished.discard(i)
        self._moved = now

    # --- results ---------------------------------------------------------------------------------------------

    def _validate(self, now: int) -> None:
        broken = self._machine.validate()
        if broken:
            raise InvariantBroken(f"at {now} µs: " + "; ".join(broken))

    def _history(self, now: int) -> AttemptHistory:
        for i in self._jobs:
            if self._keeps[i] and self._ends[i] == JobEnd.WAITING:
                self._ends[i] = JobEnd.KEPT
        return AttemptHistory(
            attempts=self._running.attempts(now),
            ends=self._ends,
            events=self.events,
            refusals=self._refusals,
            fragments=self._log.result(),
            services=self._services.result(),
            devices=None if self._devices is None else self._devices.result(),
        )


class LifecyclePath:
    """Path through the machine of a live center, with jobs, nodes and reports."""

    def __init__(self, workload: Workload, groups: tuple[Group, ...], options: Options) -> None:
        cluster = workload.cluster
        self._machine = Machine(cluster.dimensions, options, workload.zone)
        # A document of the configuration is of no use here, and cannot hold the quotas of a trace: parts of a core.
        self._machine.keeps_revisions = False
        self._workload = workload
        inputs: list[Input] = [NodeJoined(node=node, boot=BOOT) for node in cluster.nodes]
        if cluster.neighbours or cluster.distances:
            inputs.append(RacksSet(neighbours=cluster.neighbours, distances=cluster.distances))
        if cluster.licences:
            inputs.append(LicencesSet(counts=cluster.licences))
        begin = workload.begin
        inputs.append(GroupsApplied(groups=groups))
        reserved = reserve_all(cluster, workload.utc, workload.zone)
        step = self._machine.step(begin, workload.utc + begin, [*inputs, *reserved])
        for reply in step.replies[: len(inputs)]:
            if isinstance(reply, InputError):
                raise reply
        check_replies(cluster, step.replies[len(inputs) :], workload.utc)

    @property
    def core(self) -> Scheduler:
        """Return the scheduler of the machine."""
        return self._machine.core

    @property
    def foretelling(self) -> None:
        """Return ``None``: starts are foretold on the direct path only."""

    def never_fit(self, admitted: Ints, groups: list[str]) -> Bools:
        """Return the jobs that could never run."""
        return never_fit(self._workload, self.core, admitted, groups)

    def run(self, jobs: list[int], groups: list[str], *, check: bool, progress: Progress | None) -> AttemptHistory:
        """Run the jobs at these positions in these groups."""
        return ManagedRun(self._workload, self._machine, jobs, groups, check=check, progress=progress).run()
