"""The machine: everything that decides what becomes of jobs, as one pure object round the scheduler.

``step`` is told what came in and says what is to be done. The same steps give the same effects and the same state, so a
snapshot and the log of steps since then are all that has to survive (design note 0003).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, tzinfo
from typing import Any

import msgspec

from cress.core.admission import check_job
from cress.core.scheduler import Scheduler
from cress.lifecycle.effects import Halt, Launch, Step
from cress.lifecycle.inputs import (
    ApplyGroups,
    Cancel,
    Cordon,
    Input,
    NodeDead,
    NodeJoined,
    NodeLeft,
    Reported,
    Restarted,
    Submit,
)
from cress.lifecycle.live import LiveAttempt, LiveJob, LiveNode
from cress.lifecycle.terms import Terms
from cress.model.decisions import Preempt, Start, WouldPreempt
from cress.model.errors import InputError, NotAccepted
from cress.model.events import (
    ClockSet,
    Event,
    GroupsApplied,
    JobCancelled,
    JobSubmitted,
    NodeAdded,
    NodeCordoned,
    NodeLost,
    Outcome,
    TaskEnded,
)
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job, OnPartition
from cress.model.jobspec import below
from cress.model.options import Options
from cress.model.records import AttemptRecord, JobRecord, JobState
from cress.model.reports import Cause, Ended, Report, Started
from cress.model.resources import Dimensions
from cress.model.times import SECOND
from cress.model.units import one_of

# A machine that decides otherwise from the same log has another number.
VERSION = 1

# Passes of one step. More would keep callers waiting for their answers; the next step goes on at once.
BUDGET = 2_048

# The wall clock is told to the scheduler again when it has moved this far against the machine's clock, in µs.
CLOCK_STEP = SECOND

AWAY = "its executor is not connected"
UNKNOWN_THERE = "its executor does not know it any more"
SILENT = "its node was not heard of for longer than a term"
DEAD = "its node is dead"


class Machine:
    """A cluster's jobs, attempts and nodes, and the scheduler that decides about them.

    Times: ``now`` is the shell's clock, which never goes back; ``utc`` the wall clock, only shown and handed to quota
    timetables; both in microseconds.
    """

    def __init__(self, dimensions: Dimensions, options: Options, zone: tzinfo = UTC) -> None:
        self.core = Scheduler(dimensions, options, zone)
        self.now = 0
        self.utc = 0
        self.next_job = 1
        self.epoch = 0
        self.jobs: dict[int, LiveJob] = {}
        self.attempts: dict[int, LiveAttempt] = {}
        self.nodes: dict[str, LiveNode] = {}
        self.terms = Terms()
        self._more = False
        self._wall_offset: int | None = None
        self._step = Step([], [], [], [], [])

    # --- stepping --------------------------------------------------------------------------------------------

    def step(self, now: int, utc: int, inputs: Sequence[Input] = ()) -> Step:
        """Take in ``inputs`` in their order, decide, and say what is to be done.

        An input that is refused changes nothing, and its reply is the ``InputError``.
        """
        self.now, self.utc = now, utc
        self._step = step = Step([], [], [], [], [])
        if self._wall_offset is None or abs(utc - now - self._wall_offset) > CLOCK_STEP:
            self._wall_offset = utc - now
            self._observe(ClockSet(utc))
        for each in inputs:
            try:
                step.replies.append(self._take(each))
            except InputError as error:
                step.replies.append(error)
        for name in self.terms.run_out(now):
            self._lose(name, SILENT, kept=False)
        self._decide()
        step.more = self._more
        return step

    def next_wakeup(self) -> int | None:
        """When a step is due even if nothing comes in; ``None``: never."""
        if self._more:
            return self.now
        return min((at for at in (self.core.next_wakeup(), self.terms.next()) if at is not None), default=None)

    def check_submit(self, jobs: Sequence[Job]) -> None:
        """Raise ``InputError`` if one of these jobs makes no sense, ``NotAccepted`` if it may not or can never run."""
        for number, job in enumerate(jobs):
            try:
                self._check_job(job)
            except InputError as error:
                raise below(error, f"jobs[{number}]") if len(jobs) > 1 else error from None

    def _check_job(self, job: Job) -> None:
        check_job(job, self.core.dimensions)
        name = job.group or DEFAULT_GROUP
        groups = self.core.groups.by_name
        if name not in groups:
            raise InputError(f"there is no group {name!r}", hint=one_of(name, groups), field="group")
        if not groups[name].spec.admits(job.user):
            allowed = ", ".join(groups[name].spec.users)
            raise NotAccepted(f"{job.user} may not submit to group {name}", hint=f"its users: {allowed}", field="group")
        if self.nodes and self.core.never_fits(job):
            alone = not self.core.cluster.ever_fits(job.request)
            what = "one task is larger than every node" if alone else "all nodes together are too small for the gang"
            raise NotAccepted(what, hint="see `cress nodes` for what the nodes offer", field="resource")

    # --- inputs ----------------------------------------------------------------------------------------------

    def _take(self, each: Input) -> tuple[int, ...] | None:
        match each:
            case Reported():
                for report in each.reports:
                    self._reported(each.node, report)
            case Submit():
                return self._submit(each.jobs)
            case Cancel():
                self._cancel(each.job)
            case NodeJoined():
                self._joined(each)
            case NodeLeft():
                self._left(each)
            case NodeDead():
                self._dead(each)
            case Cordon():
                node = self._node(each.name)
                node.cordoned, node.reason = each.cordoned, each.reason
                self._tell_cordon(each.name)
            case ApplyGroups():
                self._observe(GroupsApplied(each.groups, each.moves))
            case Restarted():
                self._restarted(each)
        return None

    def _restarted(self, restarted: Restarted) -> None:
        before = self.core.options
        if restarted.options is not None and restarted.options != before:
            self._configure(restarted.options)
        self.epoch = restarted.epoch
        for name, node in self.nodes.items():
            if node.connected:
                node.connected = False
                self._tell_cordon(name)
        away = [name for name, node in self.nodes.items() if node.terms]
        self.terms.restarted(away, self.now, before, self.core.options)

    def _submit(self, jobs: Sequence[Job]) -> tuple[int, ...]:
        self.check_submit(jobs)
        first = self.next_job
        accepted = [msgspec.structs.replace(job, id=first + i) for i, job in enumerate(jobs)]
        self._observe(*(JobSubmitted(job) for job in accepted))
        for job in accepted:
            self.jobs[job.id] = LiveJob(job=job, submitted=self.utc)
        self.next_job = first + len(accepted)
        return tuple(job.id for job in accepted)

    def _cancel(self, number: int) -> None:
        job = self.jobs.get(number)
        if job is None:
            if 0 < number < self.next_job:
                return
            raise InputError(f"there is no job {number}", hint="see `cress jobs`")
        if job.cancelling:
            return
        job.cancelling = True
        job.cancelled += job.waiting
        # Those that were told to stop already are cancelled from now on, not tried again.
        for attempt in job.attempts.values():
            if attempt.halted:
                attempt.halted = "cancelled"
        self._observe(JobCancelled(number))
        self._maybe_over(job)

    # --- nodes -----------------------------------------------------------------------------------------------

    def _node(self, name: str) -> LiveNode:
        if name not in self.nodes:
            raise InputError(f"there is no node {name!r}", hint=one_of(name, self.nodes) if self.nodes else "")
        return self.nodes[name]

    def _tell_cordon(self, name: str) -> None:
        """A node takes new tasks while its executor is connected and no operator forbids it."""
        node = self.nodes[name]
        reason = node.reason if node.cordoned else AWAY
        self._observe(NodeCordoned(name, node.cordoned or not node.connected, reason))

    def _joined(self, joined: NodeJoined) -> None:
        name = joined.node.name
        known = self.nodes.get(name)
        if known is not None and known.connected:
            raise NotAccepted(f"node {name} is connected already", hint="a name of its own for every executor")
        mine = [attempt for attempt in self.attempts.values() if attempt.node == name]
        if known is None:
            self._observe(NodeAdded(joined.node))
            known = self.nodes[name] = LiveNode(node=joined.node, boot=joined.boot)
        known.connected, known.boot = True, joined.boot
        # Also for a new one: the scheduler remembers the cordon of a node of that name that was forgotten.
        self._tell_cordon(name)
        known.terms, known.local = joined.terms, joined.local
        self.terms.joined(name)
        told = {report.attempt for report in joined.reports}
        for report in joined.reports:
            self._reported(name, report)
        for attempt in mine:
            if attempt.id in told or attempt.id not in self.attempts:
                continue
            if attempt.started:
                # It ran, and the executor knows nothing of it: its journal is gone, or the machine was made anew.
                self._lost(attempt, UNKNOWN_THERE)
            elif not attempt.halted:
                self._step.launches.append(Launch(attempt.id, attempt.job, attempt.task, name))
        for attempt in mine:
            if attempt.halted and attempt.id in self.attempts:
                self._step.halts.append(Halt(attempt.id, attempt.job, name, attempt.grace))
        if known.node != joined.node:
            self._resize(known, joined)

    def _resize(self, known: LiveNode, joined: NodeJoined) -> None:
        """A node came back with other resources: possible only while nothing runs on it."""
        name = joined.node.name
        if any(attempt.node == name for attempt in self.attempts.values()):
            known.connected = False
            self._tell_cordon(name)
            raise NotAccepted(
                f"node {name} offers other resources than before while tasks run on it",
                hint="what it offered before, until they have ended",
            )
        known.node = joined.node
        self._observe(NodeLost(name))
        self._observe(NodeAdded(joined.node))

    def _left(self, left: NodeLeft) -> None:
        node = self.nodes.get(left.name)
        if node is None:
            return
        node.connected = False
        self._tell_cordon(left.name)
        if node.terms:
            self.terms.left(left.name, self.now, left.granted, self.core.options.term_margin)

    def _dead(self, dead: NodeDead) -> None:
        """Nothing of a node is left: what it ran is lost, whatever its jobs say about partitions."""
        node = self._node(dead.name)
        if node.connected:
            raise NotAccepted(
                f"node {dead.name} is connected, so it is not dead", hint="`cress nodes cordon` keeps new tasks off it"
            )
        self.terms.forget(dead.name)
        self._lose(dead.name, DEAD, kept=True)
        if dead.forget:
            del self.nodes[dead.name]
            self._observe(NodeLost(dead.name))

    def _lose(self, name: str, why: str, *, kept: bool) -> None:
        """The attempts on a node are not waited for any more; those of jobs that keep theirs only if ``kept``."""
        for attempt in [each for each in self.attempts.values() if each.node == name]:
            if kept or self.jobs[attempt.job].job.on_partition is OnPartition.STOP:
                self._lost(attempt, why)

    def _lost(self, attempt: LiveAttempt, why: str) -> None:
        outcome = Outcome.CANCELLED if self.jobs[attempt.job].cancelling else Outcome.LOST
        report = Ended(attempt=attempt.id, cause=Cause.UNKNOWN, code=None, started=0, at=self.utc, error=why)
        self._ended(attempt, outcome, report)

    # --- attempts --------------------------------------------------------------------------------------------

    def _reported(self, node: str, report: Report) -> None:
        attempt = self.attempts.get(report.attempt)
        if attempt is None or attempt.node != node:
            # A report that comes twice is no news; but what runs unknown to the machine must not go on.
            if isinstance(report, Started):
                self._step.halts.append(Halt(report.attempt, 0, node, 0))
            return
        job = self.jobs[attempt.job]
        if isinstance(report, Started):
            attempt.started, attempt.pid = report.at, report.pid
            job.started = job.started or report.at
            return
        if report.started:
            attempt.started = report.started
            job.started = job.started or report.started
        self._ended(attempt, _outcome(attempt, job, report), report)

    def _ended(self, attempt: LiveAttempt, outcome: Outcome, report: Ended) -> None:
        job = self.jobs[attempt.job]
        del self.attempts[attempt.id]
        del job.attempts[attempt.id]
        final = outcome not in (Outcome.PREEMPTED, Outcome.LOST)
        if outcome is Outcome.SUCCEEDED:
            job.succeeded += 1
        elif outcome is Outcome.FAILED:
            job.failed += 1
        elif outcome is Outcome.CANCELLED:
            job.cancelled += 1
        elif outcome is Outcome.PREEMPTED:
            job.preempted += 1
        self._step.attempts.append(
            AttemptRecord(
                attempt=attempt.id,
                job=attempt.job,
                task=attempt.task,
                node=attempt.node,
                outcome=outcome,
                final=final,
                placed=attempt.placed,
                started=attempt.started,
                ended=report.at,
                code=report.code,
                error=report.error,
                cpu=report.usage.cpu,
                memory=report.usage.memory,
            )
        )
        self._observe(TaskEnded(attempt.id, outcome))
        self._maybe_over(job)

    def _maybe_over(self, job: LiveJob) -> None:
        if job.attempts or job.over < job.job.tasks:
            return
        spec = job.job
        del self.jobs[spec.id]
        state = JobState.SUCCEEDED
        if job.failed:
            state = JobState.FAILED
        if job.cancelled:
            state = JobState.CANCELLED
        self._step.jobs.append(
            JobRecord(
                id=spec.id,
                name=spec.name,
                group=spec.group or DEFAULT_GROUP,
                user=spec.user,
                type=spec.type.value,
                tasks=spec.tasks,
                gang=spec.gang,
                priority=spec.priority,
                time_limit=spec.time_limit,
                request=spec.request,
                state=state,
                submitted=job.submitted,
                started=job.started,
                ended=self.utc,
                succeeded=job.succeeded,
                failed=job.failed,
                cancelled=job.cancelled,
                preempted=job.preempted,
            )
        )

    # --- the scheduler ---------------------------------------------------------------------------------------

    def _observe(self, *events: Event) -> None:
        self.core.observe(self.now, events)

    def _decide(self) -> None:
        decisions = self.core.decide(self.now, BUDGET)
        self._more = decisions.more
        step = self._step
        for each in decisions.items:
            if isinstance(each, Start):
                attempt = LiveAttempt(id=each.attempt, job=each.job, task=each.task, node=each.node, placed=self.utc)
                self.attempts[each.attempt] = attempt
                self.jobs[each.job].attempts[each.attempt] = attempt
                step.launches.append(Launch(each.attempt, each.job, each.task, each.node))
            elif not isinstance(each, WouldPreempt):
                attempt = self.attempts[each.attempt]
                attempt.halted = "cancelled" if self.jobs[each.job].cancelling else "gang"
                if isinstance(each, Preempt):
                    attempt.halted, attempt.grace = "preempted", each.grace
                step.halts.append(Halt(each.attempt, each.job, each.node, attempt.grace))

    def _configure(self, options: Options) -> None:
        """The scheduler goes on from where it is, with other options."""
        old = self.core.options.accounting
        if options.accounting != old and (self.core.groups.configured or self.jobs):
            raise InputError(
                f"the groups and jobs of this cluster are counted with accounting={old}",
                hint=f"start it with --option accounting={old}",
                field="accounting",
            )
        state = self.core.export()
        state["options"] = asdict(options)
        self.core = Scheduler.restore(state, self.core.groups.zone)

    # --- leaving and coming back -----------------------------------------------------------------------------

    def export(self) -> bytes:
        """The whole state, from which ``restore`` makes a machine that goes on alike."""
        state = {
            "version": VERSION,
            "now": self.now,
            "utc": self.utc,
            "wall_offset": self._wall_offset,
            "next_job": self.next_job,
            "epoch": self.epoch,
            "more": self._more,
            "jobs": [msgspec.structs.replace(job, attempts={}) for job in self.jobs.values()],
            "attempts": list(self.attempts.values()),
            "nodes": list(self.nodes.values()),
            "terms": self.terms.export(),
            "core": self.core.export(),
        }
        return msgspec.msgpack.encode(state)

    @classmethod
    def restore(cls, data: bytes, zone: tzinfo = UTC) -> Machine:
        """The machine that ``export`` wrote; ``ValueError`` if it is of another version."""
        state: dict[str, Any] = msgspec.msgpack.decode(data)
        if state.get("version") != VERSION:
            raise ValueError(f"a state of version {state.get('version')} cannot be restored, only version {VERSION}")
        core = Scheduler.restore(state["core"], zone)
        machine = cls(core.dimensions, core.options, zone)
        machine.core = core
        machine.now, machine.utc = state["now"], state["utc"]
        machine.next_job, machine.epoch = state["next_job"], state["epoch"]
        machine._wall_offset, machine._more = state["wall_offset"], state["more"]
        machine.jobs = {job.job.id: job for job in msgspec.convert(state["jobs"], list[LiveJob])}
        for attempt in msgspec.convert(state["attempts"], list[LiveAttempt]):
            machine.attempts[attempt.id] = attempt
            machine.jobs[attempt.job].attempts[attempt.id] = attempt
        machine.terms = Terms.restore(state["terms"])
        machine.nodes = {node.node.name: node for node in msgspec.convert(state["nodes"], list[LiveNode])}
        return machine

    def validate(self) -> list[str]:
        """What does not hold, each a sentence; empty if all is well."""
        broken = self.core.validate()
        if self.attempts.keys() != self.core.attempts.keys():
            broken.append("attempts: the machine and the scheduler do not have the same ones")
        if self.jobs.keys() != self.core.jobs.keys():
            broken.append("jobs: the machine and the scheduler do not have the same ones")
        for number, job in self.jobs.items():
            waiting = self.core.jobs[number].waiting + sum(len(claim.tasks) for claim in self.core.jobs[number].claims)
            if job.waiting != waiting:
                broken.append(f"waiting: job {number} has {job.waiting} here and {waiting} in the scheduler")
        return broken


def _outcome(attempt: LiveAttempt, job: LiveJob, report: Ended) -> Outcome:
    """What an end means for the task: done, failed, or to be run again."""
    if report.cause is Cause.EXITED and report.code == 0:
        return Outcome.SUCCEEDED
    if job.cancelling:
        return Outcome.CANCELLED
    if attempt.halted or report.cause is Cause.STOPPED:
        return Outcome.PREEMPTED
    if report.cause in (Cause.SHUTDOWN, Cause.TERM, Cause.UNKNOWN):
        return Outcome.LOST
    return Outcome.FAILED
