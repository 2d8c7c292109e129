"""The machine: scheduler and lifecycle as one pure object that makes all decisions about jobs, tasks and nodes.

``step`` takes inputs and returns effects. Equal steps give equal effects and an equal state, so only a snapshot and the
log of the steps since then must survive (design note 0003).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, tzinfo

import msgspec

from cress.core import admission
from cress.core.scheduler import Scheduler
from cress.lifecycle import access, configuration, node_membership, reserving, snapshot
from cress.lifecycle.attempts import end_reasons
from cress.lifecycle.attempts.reports import reported
from cress.lifecycle.configure import configured, padded
from cress.lifecycle.context import Context, Unsettled
from cress.lifecycle.effects import Halt, StepResult
from cress.lifecycle.facts import Configured, Facts, Widened, told_of
from cress.lifecycle.families import families, step_values
from cress.lifecycle.inputs import (
    Awaited,
    Cancel,
    ChangeJobs,
    Configure,
    DataFound,
    Declare,
    Drain,
    Hold,
    Input,
    NodeDead,
    NodeJoined,
    NodeLeft,
    Promote,
    Rebalance,
    ReleaseLeases,
    RenewLeases,
    Reported,
    Requeue,
    Restarted,
    Scale,
    SetGroup,
    SetNode,
    StopMoves,
    Submit,
    Trigger,
    Update,
    UseLease,
)
from cress.lifecycle.invariants import broken_invariants
from cress.lifecycle.jobs import deadlines, group_limits, leases, waits
from cress.lifecycle.jobs.jobs import forget_ended
from cress.lifecycle.jobs.outcomes import RELEASED
from cress.lifecycle.jobs.reasons import reason
from cress.lifecycle.jobs.replica_status import mark
from cress.lifecycle.moving import rounds, schedule
from cress.lifecycle.nodes import cordons, node_observations, ports
from cress.lifecycle.notices import Noticed
from cress.lifecycle.slices import Slices, parts, whole
from cress.lifecycle.submits import changes, dependencies, submits, updates
from cress.lifecycle.submits.deadlines import check_met
from cress.lifecycle.tables.changes import collect
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.lifecycle.tables.tables import Tables, place
from cress.lifecycle.tables.timers import AWAITED, DRAIN, MEASURED, MOVES, OF_DEADLINES, REST, TERM
from cress.model.decisions import Decisions, Preempt, Start, Stop
from cress.model.errors import InputError, NotAccepted
from cress.model.events import (
    AdvanceReservationRemoved,
    AdvanceReserved,
    ClockSet,
    DataLocated,
    GroupsApplied,
    LicencesSet,
    LoadSeen,
    NodeCordoned,
    PortsSeen,
    RacksSet,
    ZoneSet,
)
from cress.model.group import DEFAULT_GROUP
from cress.model.groups.change import changed, with_closing_times, without_times
from cress.model.groups.tree import leaf_names
from cress.model.job import Job
from cress.model.options import Options
from cress.model.records import JobState
from cress.model.resources import Dimensions
from cress.model.times import SECOND
from cress.model.units import one_of

# Passes of one step. More would keep callers waiting for their answers; the next step continues at once. Logs of
# version 5 were written with the second number.
BUDGET, BUDGET_5 = 256, 2_048
# Passes between two pauses, and where there are many groups: each pass looks at all groups that wait.
PASSES, PASSES_OF_MANY, MANY_GROUPS = 12, 2, 200

# The scheduler gets the wall clock again when it has moved this far (µs) relative to the machine's clock.
CLOCK_STEP = SECOND


class Machine(Context):
    """The jobs, attempts and nodes of a cluster, and the scheduler that decides about them."""

    def __init__(self, dimensions: Dimensions, options: Options, zone: tzinfo = UTC) -> None:
        super().__init__(Tables(), Scheduler(dimensions, options, zone))

    @classmethod
    def of(cls, tables: Tables, core: Scheduler, now: int, utc: int, *, more: bool = True) -> Machine:
        """Return a machine that continues from these parts; ``more``: deciding is due at once."""
        machine = cls.__new__(cls)
        Context.__init__(machine, tables, core)
        machine.now, machine.utc, machine.more = now, utc, more
        tables.journal.noted = {}
        machine.rebuild()
        return machine

    # --- stepping --------------------------------------------------------------------------------------------

    def step(self, now: int, utc: int, inputs: Sequence[Input] = ()) -> StepResult:
        """Handle ``inputs`` in order, decide, and return the effects.

        A refused input changes nothing, and its reply is the ``InputError``.
        """
        return whole(self.stepping(now, utc, inputs))

    def stepping(self, now: int, utc: int, inputs: Sequence[Input]) -> Slices[StepResult]:
        """Do ``step`` in slices.

        At a pause the machine may be read: ``out`` has all that ended so far. It must not be changed before the step is
        over.
        """
        assert now >= self.now, f"the machine's clock goes back by {self.now - now} µs"
        self.steps += 1
        self.in_step = True
        self.now, self.utc = now, utc
        self.out = out = StepResult()
        self.unsettled, self.noticed, self.told = Unsettled(), Noticed(), []
        self.core.begin_batch()
        offset = self.general.wall_offset
        if offset is None or abs(utc - now - offset) > CLOCK_STEP:
            if offset is not None:
                self._wall_stepped(utc - now - offset)
            self.general.wall_offset = utc - now
            self.observe(ClockSet(utc))
        for input_ in inputs:
            try:
                out.replies.append((yield from self._take(padded(input_, self.core.dimensions))))
                if isinstance(input_, configuration.CHANGING) and self.keeps_revisions:
                    yield from configuration.note(self, input_)
            except InputError as error:
                out.replies.append(error)
            yield from self._settle()
            yield
        yield from self._pass_time()
        yield from self._settle()
        forget_ended(self)
        rounds.tend(self)
        yield from self._decide()
        out.more = self.more
        leases.note_stops(self)
        if self.core.pool.resized:
            leases.note_sizes(self)
        out.notices = list(self.noticed.notices(self.nodes, self.core, self.attempts_on))
        yield
        out.facts = Facts(self.told, (yield from collect(self.tables, lambda: told_of(self.told))))
        self.in_step = False
        return out

    def _pass_time(self) -> Slices[None]:
        """Handle the terms and timers that are due."""
        for name in self.terms.run_out(self.now):
            node_membership.lose(self, name, node_membership.SILENT, kept=False)
            # Claims on that node are dropped from now on.
            cordons.tell(self, name, awaited=False)
        for kind, name in self.timers.take(self.now):
            self._due(kind, name)
            if not self.unsettled.gone:
                yield

    def _due(self, kind: str, name: str) -> None:
        """Handle a timer that is due."""
        if kind == TERM:
            families.give_up(self, int(name), leases.NOT_RENEWED)
        elif kind == MEASURED:
            node_observations.not_measured(self, name)
        elif kind == MOVES:
            rounds.due(self)
        elif kind == AWAITED:
            waits.due(self, int(name))
        elif kind in OF_DEADLINES:
            reason = deadlines.due(self, kind, int(name))
            if reason:
                families.give_up(self, int(name), reason)
        else:
            (cordons if kind in (REST, DRAIN) else families).due(self, kind, name)

    def _settle(self) -> Slices[None]:
        """Complete all consequences of the last input.

        There is no pause while a member of a family has ended and the family does not know: it could not be read.
        """
        unsettled = self.unsettled
        while unsettled.over or unsettled.tasks or unsettled.gone or unsettled.touched or unsettled.asked:
            yield from dependencies.settle(self)
            while unsettled.gone:
                families.member_over(self, *unsettled.gone.popleft())
            step_values.decide(self)
            touched, unsettled.touched = unsettled.touched, {}
            for number in touched:
                families.tend(self, number)
                if not unsettled.gone:
                    yield

    def _wall_stepped(self, by: int) -> None:
        """Shift the displayed times of all unfinished jobs by ``by`` µs, since the wall clock was set."""
        for job in self.jobs.values():
            job.submitted += by
            job.started += by if job.started else 0
        for attempt in self.attempts.values():
            attempt.placed += by
            attempt.started += by if attempt.started else 0
        families.wall_stepped(self, by)
        deadlines.wall_stepped(self)
        waits.wall_stepped(self)

    def next_wakeup(self) -> int | None:
        """Return when a step is due even without inputs; ``None``: never."""
        if self.more:
            return self.now
        times = (self.core.next_wakeup(), self.terms.next(), self.timers.next())
        return min((time for time in times if time is not None), default=None)

    def _take(self, input_: Input) -> Slices[tuple[int, ...] | None]:
        match input_:
            case Reported():
                yield from self._reported(input_)
            case Submit():
                return (yield from submits.submit(self, input_))
            case UseLease() | RenewLeases() | ReleaseLeases():
                leases.take(self, input_)
            case Cancel() | Hold():
                yield from families.take(self, input_)
            case ChangeJobs() | Requeue() | Awaited():
                return changes.take(self, input_)
            case Update() | Scale() | Promote() | Trigger():
                return updates.take(self, input_)
            case NodeJoined() | NodeLeft() | NodeDead() | PortsSeen() | SetNode():
                node_membership.take(self, input_)
            case LoadSeen() | DataLocated() | DataFound() | LicencesSet() | RacksSet():
                node_observations.take(self, input_)
            case NodeCordoned() | Drain():
                cordons.take(self, input_)
            case GroupsApplied() | SetGroup():
                applied = input_ if isinstance(input_, GroupsApplied) else self.changed_groups(input_)
                yield from self._apply_groups(applied)
            case Configure():
                yield from self._set_configuration(input_)
            case Restarted() | Declare() | Rebalance() | StopMoves() | AdvanceReserved() | AdvanceReservationRemoved():
                self._steer(input_)
            case _:
                access.take(self, input_)
        return None

    def _reported(self, input_: Reported) -> Slices[None]:
        for some in parts(input_.reports):
            for report in some:
                reported(self, input_.node, report)
            if not self.unsettled.gone:
                yield

    def _apply_groups(self, applied: GroupsApplied) -> Slices[None]:
        yield from self.checking_groups(applied)
        kept = leaf_names(applied.groups)
        moves = dict(applied.moves)
        was = set(self.core.groups.by_name)
        groups = with_closing_times(applied.groups, self.core.groups.configured, self.utc)
        yield from self.core.preparing_groups(groups)
        self.observe(GroupsApplied(groups, applied.moves, applied.zone), checked=True)
        alive: list[LiveJob | Family] = [*self.jobs.values(), *self.families.values()] if was - kept else []
        for job in alive:
            name = job.job.group or DEFAULT_GROUP
            if name not in kept:
                self.group_load.add(job.job, -1)
                job.job = msgspec.structs.replace(job.job, group=moves[name])
                self.group_load.add(job.job)
        self.named = self.by_name()
        yield

    def changed_groups(self, input_: SetGroup) -> GroupsApplied:
        """Return all groups with a change of one. Raises ``InputError``."""
        core = self.core
        configured = core.groups.configured
        old = next((group for group in configured if group.name == input_.name), None)
        if old is None and input_.name in core.groups.by_name:
            hint = f"`cress groups apply` a file with a block Name: {input_.name} first"
            raise NotAccepted(f"group {input_.name} is not configured, its quota follows the cluster", hint=hint)
        if old is None:
            raise InputError(f"there is no group {input_.name!r}", hint=one_of(input_.name, core.groups.by_name))
        new = changed(old, input_.values, configured, accounting=core.options.accounting, dimensions=core.dimensions)
        groups = tuple(new if group is old else group for group in configured)
        return GroupsApplied(groups=groups, zone=core.groups.own_zone, by=input_.by)

    def _set_configuration(self, input_: Configure) -> Slices[None]:
        """Change options, licences and groups, all or nothing."""
        before = self.core
        yield from self.checking_configuration(input_)
        if input_.options.accounting != before.options.accounting:
            # Quotas are checked in the new accounting. There are no groups and jobs, so this is fast.
            self.core = configured(before, self.tables, Configured(input_.options))
            try:
                self.check_groups(_groups_of(input_))
            finally:
                self.core = before
        if input_.options != before.options:
            self._go_on(Configured(input_.options))
        now = without_times(self.core.groups.configured), self.core.groups.own_zone
        if (without_times(input_.groups), input_.zone) != now:
            yield from self._apply_groups(_groups_of(input_))
        if dict(input_.licences) != self.core.relations.licences.counts:
            self.observe(LicencesSet(input_.licences))

    def checking_configuration(self, input_: Configure) -> Slices[None]:
        """Raise ``InputError`` if this configuration cannot be applied now; in slices."""
        configuration.check_base(self, input_.base)
        configuration.check_options(self, input_.options)
        self._check_options(input_.options)
        groups = self.core.groups
        if (input_.groups, input_.zone, input_.moves) == (groups.configured, groups.own_zone, ()):
            return  # thousands of groups take long, and these were checked when they came
        if input_.options.accounting == self.core.options.accounting:  # else quotas are checked in the new accounting
            yield from self.checking_groups(_groups_of(input_))

    def check_groups(self, applied: GroupsApplied) -> None:
        """Raise ``InputError`` if these groups cannot be applied now."""
        whole(self.checking_groups(applied))

    def checking_groups(self, applied: GroupsApplied) -> Slices[None]:
        """Do ``check_groups`` in slices."""
        yield from admission.checking_groups(self.core.books, applied)
        kept = leaf_names(applied.groups)
        moves = dict(applied.moves)
        for family in self.families.values():
            name = family.job.group or DEFAULT_GROUP
            if name not in kept and moves.get(name) not in kept:
                raise NotAccepted(
                    f"group {name} has the {family.job.type.value} {family.job.name or family.job.id}",
                    hint=f"name the group that takes over the jobs of {name}",
                )
        self._check_names(kept, moves)

    def _check_names(self, kept: set[str], moves: dict[str, str]) -> None:
        """Raise ``NotAccepted`` if two families with the same name would come into one group."""
        there: dict[tuple[str, str], str] = {}
        for group, name in self.named:
            into = group if group in kept else moves[group]
            if (into, name) in there:
                raise NotAccepted(
                    f"groups {there[into, name]} and {group} both have a {name}; names are unique within a group",
                    hint="cancel one of them, or move it elsewhere",
                    field="moves",
                )
            there[into, name] = group

    def _steer(
        self, input_: Restarted | Declare | Rebalance | StopMoves | AdvanceReserved | AdvanceReservationRemoved
    ) -> None:
        if isinstance(input_, Restarted):
            self._restarted(input_)
        elif isinstance(input_, Declare):
            self._declare(input_)
        elif isinstance(input_, AdvanceReserved | AdvanceReservationRemoved):
            reserving.take(self, input_)
        else:
            rounds.take(self, input_)

    def _restarted(self, restarted: Restarted) -> None:
        before = self.core.options
        if restarted.options is not None and restarted.options != before:
            self._configure(restarted.options)
        if restarted.zone and restarted.zone != str(self.core.groups.cluster_zone):
            self.observe(ZoneSet(restarted.zone))
        assert restarted.epoch >= self.general.epoch, f"epoch {restarted.epoch} after {self.general.epoch}"
        self.general.epoch = restarted.epoch
        leases.restarted(self)
        node_membership.all_away(self)
        away = [name for name, node in self.nodes.items() if node.terms]
        self.terms.restarted(away, self.now, before, self.core.options)

    def _configure(self, options: Options) -> None:
        """Let the scheduler continue with other options."""
        self._check_options(options)
        # As in releases before 6.5, whose logs this method replays.
        self._go_on(Configured(options), anew=True)

    def _check_options(self, options: Options) -> None:
        schedule.check(options.rebalance)
        old = self.core.options.accounting
        if options.accounting != old and (self.core.groups.configured or self.jobs):
            raise InputError(
                f"the groups and jobs of this cluster are counted with accounting={old}",
                hint=f"start it with --option accounting={old}",
                field="accounting",
            )

    def _go_on(self, fact: Configured | Widened, *, anew: bool = False) -> None:
        self.core = configured(self.core, self.tables, fact, anew=anew)
        self.told.append(fact)

    def _declare(self, declare: Declare) -> None:
        """Let the scheduler continue with more dimensions."""
        before = self.core.dimensions
        dimensions = before.with_more(declare.dimensions)
        if dimensions == before:
            self.out.repeated.add(len(self.out.replies))
            return
        self._go_on(Widened(dimensions.custom))

    def _decide(self) -> Slices[None]:
        """Run passes until one places nothing, or as many as a step may have; pause after each few of them."""
        yield from self.core.preparing()
        left = BUDGET_5 if self.as_version_5 else BUDGET
        while True:
            some = PASSES if len(self.core.groups.by_name) < MANY_GROUPS else PASSES_OF_MANY
            decisions = self.core.decide(self.now, min(left, some))
            left -= some
            self.more = decisions.more
            self._carry_out(decisions)
            if not self.more or left <= 0:
                return
            yield

    def _carry_out(self, decisions: Decisions) -> None:
        """Start and stop tasks as decided."""
        self.told += decisions.items
        out = self.out
        started: list[LiveAttempt] = []
        for decision in decisions.items:
            if isinstance(decision, Start):
                attempt = place(self.tables, decision, self.utc)
                self.link(attempt)
                if self.leases:
                    leases.begin(self, attempt)
                started.append(attempt)
                mark(self, self.jobs[decision.job])
            elif isinstance(decision, Preempt | Stop):
                attempt = self.attempts[decision.attempt]
                mark(self, self.jobs[decision.job])
                if attempt.halted == RELEASED:
                    continue
                moved = attempt.halted == rounds.MOVED and not self.jobs[decision.job].ending
                if isinstance(decision, Stop) and decision.reservation:
                    attempt.halted, attempt.grace = "preempted", max(0, decision.end - self.now)
                    attempt.halted_for = end_reasons.left_for(self, decision)
                elif isinstance(decision, Stop) and (moved or leases.reclaims(self, decision, attempt)):
                    pass
                elif isinstance(decision, Stop) and (leader := self.core.jobs[decision.job].beside.get(decision.task)):
                    if not attempt.halted:
                        attempt.halted, attempt.halted_for = "moved", end_reasons.moved_with(leader.job)
                else:
                    attempt.halted = "cancelled" if self.jobs[decision.job].ending else "gang"
                if isinstance(decision, Preempt):
                    attempt.halted, attempt.grace = "preempted", decision.grace
                    attempt.halted_for = end_reasons.preempted_for(self, decision)
                out.halts.append(Halt(decision.attempt, decision.job, decision.node, attempt.grace))
        for number in dict.fromkeys(attempt.job for attempt in started):
            if self.jobs[number].job.gang:
                ports.gather(self, self.jobs[number])
        out.launches += [ports.launch(self, attempt) for attempt in started]

    # --- questions -------------------------------------------------------------------------------------------

    def check_submit(self, jobs: Sequence[Job], known: Iterable[tuple[int, JobState]] = ()) -> None:
        """Raise ``InputError`` if one of these jobs is invalid, ``NotAccepted`` if it is forbidden or can never run.

        ``known`` as in ``Submit``.
        """
        whole(self.checking(jobs, known))

    def checking(
        self, jobs: Sequence[Job], known: Iterable[tuple[int, JobState]] = (), *, strict: bool = False
    ) -> Slices[None]:
        """Do ``check_submit`` in slices; ``strict`` as in ``Submit``."""
        yield from submits.check(self, jobs, submits.states_of(self, jobs, known))
        if strict:
            yield from check_met(self, self.resolved(jobs))

    def resolved(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the jobs of a submit with their deadlines, as if accepted now."""
        return deadlines.resolved(group_limits.with_limit(self, submits.inherited(jobs)), self.utc)

    def reason(self, job: int, now: int | None = None) -> str:
        """Return why tasks of a job wait, as a sentence; empty if none does."""
        family = self.families.get(job)
        return reason(self, job, now) if family is None else families.why(self, family, now)

    def validate(self) -> list[str]:
        """Return the broken invariants, each a sentence; empty if all hold."""
        return broken_invariants(self)

    # --- leaving and coming back -----------------------------------------------------------------------------

    def export(self) -> bytes:
        """Return the whole state, from which ``restore`` makes an equivalent machine."""
        return snapshot.encode(self.tables, self.core, self.now, self.utc, more=self.more)

    @classmethod
    def restore(cls, data: bytes) -> Machine:
        """Return the machine that ``export`` wrote, in this release or an older one. Raises ``ValueError``."""
        tables, core, stored = snapshot.decode(data)
        return cls.of(tables, core, stored.now, stored.utc, more=stored.more)


def _groups_of(input_: Configure) -> GroupsApplied:
    return GroupsApplied(groups=input_.groups, moves=input_.moves, zone=input_.zone)
