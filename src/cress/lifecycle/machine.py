"""The machine: everything that decides what becomes of jobs, as one pure object round the scheduler.

``step`` is told what came in and says what is to be done. The same steps give the same effects and the same state, so a
snapshot and the log of steps since then are all that has to survive (design note 0003).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, tzinfo
from typing import Any

import msgspec

from cress.core.scheduler import Scheduler
from cress.lifecycle import cordons, dependencies, families, nodes, outside, ports, submits, updates
from cress.lifecycle.attempts import reported
from cress.lifecycle.effects import Halt, Step
from cress.lifecycle.family import Family
from cress.lifecycle.inputs import (
    ApplyGroups,
    Cancel,
    Cordon,
    DataFound,
    Drain,
    Hold,
    Input,
    LoadReported,
    LocateData,
    NodeDead,
    NodeJoined,
    NodeLeft,
    Ports,
    Reported,
    Restarted,
    Scale,
    SetLicences,
    SetRacks,
    Submit,
    Update,
)
from cress.lifecycle.invariants import broken_invariants
from cress.lifecycle.live import LiveAttempt, LiveJob, LiveNode
from cress.lifecycle.reasons import reason
from cress.lifecycle.standing import Standing, mark
from cress.lifecycle.submits import Answer
from cress.lifecycle.terms import Terms
from cress.lifecycle.timers import DRAIN, REST, Timers
from cress.model.decisions import Preempt, Start, Stop
from cress.model.errors import InputError, NotAccepted
from cress.model.events import ClockSet, Event, GroupsApplied, RacksSet
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job
from cress.model.options import Options
from cress.model.records import JobRecord, JobState
from cress.model.resources import Dimensions
from cress.model.times import SECOND

# A machine that decides otherwise from the same log has another number.
VERSION = 5

# Passes of one step. More would keep callers waiting for their answers; the next step goes on at once.
BUDGET = 2_048

# The wall clock is told to the scheduler again when it has moved this far against the machine's clock, in µs.
CLOCK_STEP = SECOND


class Machine:
    """A cluster's jobs, attempts and nodes, and the scheduler that decides about them.

    Times: ``now`` is the shell's clock, which never goes back; ``utc`` the wall clock, only shown and handed to quota
    timetables; both in microseconds. ``out`` is what the step under way has come to so far; ``over`` the jobs that
    ended in it and that those behind them have not heard of; ``behind`` the jobs that come after a job that is alive;
    ``answers`` what submits with a key were answered, oldest first; ``ended`` the jobs that ended a moment ago, with
    state and time: the shell may not have seen that yet when somebody submits a job that comes after one of them;
    ``neighbours`` the pairs of racks that are. ``families`` are the jobs with a plan; ``gone`` the members that ended in
    the step and ``touched`` the families of which something changed, until these were looked after; ``standings`` how
    services stand and ``named`` the ids of families that are alive by group and name, which follow from the rest.
    """

    def __init__(self, dimensions: Dimensions, options: Options, zone: tzinfo = UTC) -> None:
        self.core = Scheduler(dimensions, options, zone)
        self.now = 0
        self.utc = 0
        self.next_job = 1
        self.epoch = 0
        self.jobs: dict[int, LiveJob] = {}
        self.families: dict[int, Family] = {}
        self.attempts: dict[int, LiveAttempt] = {}
        self.nodes: dict[str, LiveNode] = {}
        self.terms = Terms()
        self.timers = Timers()
        self.answers: dict[str, Answer] = {}
        self.behind: dict[int, list[int]] = {}
        self.ended: dict[int, tuple[JobState, int]] = {}
        self.over: deque[tuple[int, JobState]] = deque()
        self.gone: deque[tuple[LiveJob, JobRecord]] = deque()
        self.touched: dict[int, None] = {}
        self.standings: dict[int, Standing] = {}
        self.named: dict[tuple[str, str], int] = {}
        self.neighbours: tuple[tuple[str, str], ...] = ()
        self.out = Step()
        self._more = False
        self._wall_offset: int | None = None

    # --- stepping --------------------------------------------------------------------------------------------

    def step(self, now: int, utc: int, inputs: Sequence[Input] = ()) -> Step:
        """Take in ``inputs`` in their order, decide, and say what is to be done.

        An input that is refused changes nothing, and its reply is the ``InputError``.
        """
        self.now, self.utc = now, utc
        self.out = out = Step()
        if self._wall_offset is None or abs(utc - now - self._wall_offset) > CLOCK_STEP:
            if self._wall_offset is not None:
                self._wall_stepped(utc - now - self._wall_offset)
            self._wall_offset = utc - now
            self.observe(ClockSet(utc))
        for each in inputs:
            try:
                out.replies.append(self._take(each))
            except InputError as error:
                out.replies.append(error)
            self._settle()
        for name in self.terms.run_out(now):
            nodes.lose(self, name, nodes.SILENT, kept=False)
        for kind, name in self.timers.take(now):
            (cordons if kind in (REST, DRAIN) else families).due(self, kind, name)
        self._settle()
        self._decide()
        out.more = self._more
        return out

    def _settle(self) -> None:
        """Let all that came of the last input come to its end."""
        while self.over or self.gone or self.touched:
            dependencies.settle(self)
            while self.gone:
                families.member_over(self, *self.gone.popleft())
            touched, self.touched = self.touched, {}
            for number in touched:
                families.tend(self, number)

    def _wall_stepped(self, by: int) -> None:
        """The wall clock was set, by so many µs: what is shown of all that lives is told by the clock as it is now."""
        for job in self.jobs.values():
            job.submitted += by
            job.started += by if job.started else 0
        for attempt in self.attempts.values():
            attempt.placed += by
            attempt.started += by if attempt.started else 0
        families.wall_stepped(self, by)

    def next_wakeup(self) -> int | None:
        """When a step is due even if nothing comes in; ``None``: never."""
        if self._more:
            return self.now
        times = (self.core.next_wakeup(), self.terms.next(), self.timers.next())
        return min((time for time in times if time is not None), default=None)

    def observe(self, *events: Event) -> None:
        """Tell the scheduler what happened."""
        self.core.observe(self.now, events)

    def _take(self, each: Input) -> tuple[int, ...] | None:
        match each:
            case Reported():
                for report in each.reports:
                    reported(self, each.node, report)
            case Submit():
                return submits.submit(self, each)
            case Cancel() | Hold():
                families.take(self, each)
            case Update():
                return updates.update(self, each)
            case Scale():
                updates.scale(self, each)
            case NodeJoined() | NodeLeft() | NodeDead() | Ports():
                nodes.take(self, each)
            case LoadReported() | LocateData() | DataFound() | SetLicences():
                outside.take(self, each)
            case SetRacks():
                self.neighbours = each.neighbours
                self.observe(RacksSet(each.neighbours))
            case Cordon():
                cordons.cordon(self, each)
            case Drain():
                cordons.drain(self, each)
            case ApplyGroups():
                self._apply_groups(each)
            case Restarted():
                self._restarted(each)
        return None

    def _apply_groups(self, applied: ApplyGroups) -> None:
        kept = {group.name for group in applied.groups} | {DEFAULT_GROUP}
        moves = dict(applied.moves)
        for family in self.families.values():
            name = family.job.group or DEFAULT_GROUP
            if name not in kept and moves.get(name) not in kept:
                raise NotAccepted(
                    f"group {name} has the {family.job.type.value} {family.job.name or family.job.id}",
                    hint=f"say where the jobs of {name} go",
                )
        self._check_names(kept, moves)
        self.observe(GroupsApplied(applied.groups, applied.moves))
        alive: list[LiveJob | Family] = [*self.jobs.values(), *self.families.values()]
        for job in alive:
            name = job.job.group or DEFAULT_GROUP
            if name not in kept:
                job.job = msgspec.structs.replace(job.job, group=moves[name])
        self.named = families.by_name(self)

    def _check_names(self, kept: set[str], moves: dict[str, str]) -> None:
        """Raise ``NotAccepted`` if two families of one name would come into one group."""
        there: dict[tuple[str, str], str] = {}
        for group, name in self.named:
            into = group if group in kept else moves[group]
            if (into, name) in there:
                raise NotAccepted(
                    f"groups {there[into, name]} and {group} both have a {name}, of which one group has one",
                    hint="cancel one of them, or move it elsewhere",
                    field="moves",
                )
            there[into, name] = group

    def _restarted(self, restarted: Restarted) -> None:
        before = self.core.options
        if restarted.options is not None and restarted.options != before:
            self._configure(restarted.options)
        self.epoch = restarted.epoch
        nodes.all_away(self)
        away = [name for name, node in self.nodes.items() if node.terms]
        self.terms.restarted(away, self.now, before, self.core.options)

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

    def _decide(self) -> None:
        decisions = self.core.decide(self.now, BUDGET)
        self._more = decisions.more
        out = self.out
        started: list[LiveAttempt] = []
        for each in decisions.items:
            if isinstance(each, Start):
                attempt = LiveAttempt(
                    id=each.attempt,
                    job=each.job,
                    task=each.task,
                    node=each.node,
                    placed=self.utc,
                    ports=each.ports,
                    devices=each.devices,
                    leader=each.leader,
                )
                self.attempts[each.attempt] = attempt
                self.jobs[each.job].attempts[each.attempt] = attempt
                started.append(attempt)
                mark(self, self.jobs[each.job])
            elif isinstance(each, (Preempt, Stop)):
                attempt = self.attempts[each.attempt]
                mark(self, self.jobs[each.job])
                attempt.halted = "cancelled" if self.jobs[each.job].ending else "gang"
                if isinstance(each, Preempt):
                    attempt.halted, attempt.grace = "preempted", each.grace
                out.halts.append(Halt(each.attempt, each.job, each.node, attempt.grace))
        for number in dict.fromkeys(attempt.job for attempt in started):
            if self.jobs[number].job.gang:
                ports.gather(self, self.jobs[number])
        out.launches += [ports.launch(self, attempt) for attempt in started]

    # --- questions -------------------------------------------------------------------------------------------

    def check_submit(self, jobs: Sequence[Job], known: Iterable[tuple[int, JobState]] = ()) -> None:
        """Raise ``InputError`` if one of these jobs makes no sense, ``NotAccepted`` if it may not or can never run.

        ``known`` as in ``Submit``.
        """
        submits.check(self, jobs, submits.states_of(self, jobs, known))

    def reason(self, job: int, now: int | None = None) -> str:
        """Why tasks of a job wait, as a sentence; empty when none does."""
        family = self.families.get(job)
        return reason(self, job, now) if family is None else families.why(self, family, now)

    def validate(self) -> list[str]:
        """What does not hold, each a sentence; empty if all is well."""
        return broken_invariants(self)

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
            "families": list(self.families.values()),
            "attempts": list(self.attempts.values()),
            "nodes": list(self.nodes.values()),
            "terms": self.terms.export(),
            "timers": self.timers.export(),
            "answers": self.answers,
            "behind": self.behind,
            "ended": self.ended,
            "neighbours": self.neighbours,
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
        machine.families = {family.job.id: family for family in msgspec.convert(state["families"], list[Family])}
        machine.named = families.by_name(machine)
        for attempt in msgspec.convert(state["attempts"], list[LiveAttempt]):
            machine.attempts[attempt.id] = attempt
            machine.jobs[attempt.job].attempts[attempt.id] = attempt
        machine.nodes = {node.node.name: node for node in msgspec.convert(state["nodes"], list[LiveNode])}
        machine.terms = Terms.restore(state["terms"])
        machine.timers = Timers((kind, name, time) for kind, name, time in state["timers"])
        machine.answers = msgspec.convert(state["answers"], dict[str, Answer])
        machine.behind = state["behind"]
        machine.ended = msgspec.convert(state["ended"], dict[int, tuple[JobState, int]])
        machine.neighbours = msgspec.convert(state["neighbours"], tuple[tuple[str, str], ...])
        return machine
