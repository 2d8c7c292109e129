"""Cron jobs: a run at each moment of the wall clock that the expression names, unless the last run prevents it.

The next moment is stored as wall-clock time, with a timer on the machine's clock; when the wall clock is set the timer
moves. A moment happens once: the next one is searched from the last moment, or from the present wall clock if that is
later, so a clock that is put back repeats no run. A clock that is put back by more than ``CORRECTION`` was wrong
before, and its new time counts, as in Debian's cron.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cress.lifecycle.context import Context
from cress.lifecycle.effects import RunSkipped
from cress.lifecycle.families import dag_runs, family_ends
from cress.lifecycle.families.moments import check as check_moments
from cress.lifecycle.families.moments import last_before, next_after
from cress.lifecycle.jobs import group_limits, members
from cress.lifecycle.jobs.deadlines import timed
from cress.lifecycle.tables.family_rows import MOST_MOMENTS, CronState, Family
from cress.lifecycle.tables.rows import LiveJob
from cress.lifecycle.tables.timers import MOMENT
from cress.model.errors import InputError, NotAccepted
from cress.model.family import Cron, Missed, Overlap
from cress.model.group import DEFAULT_GROUP
from cress.model.groups.timetable import local_time
from cress.model.job import Job, JobType
from cress.model.records import JobRecord
from cress.model.times import HOUR, MINUTE, SECOND
from cress.model.zones import zone_of

# A moment is missed if no step was made within this time (µs) after it.
LATE = MINUTE

# A wall clock that is put back by more than this (µs) was wrong before.
CORRECTION = 3 * HOUR

# A timer may fire this much (µs) before its moment: the clocks differ slightly, and the machine is told only of larger
# differences.
EARLY = SECOND

# Maximum number of missed moments that are counted exactly; beyond that, after years without a center, the number has
# no use.
COUNTED = 1_000


def check(context: Context, job: Job) -> None:
    """Raise ``InputError`` if the plan is invalid."""
    plan = _plan(job)
    try:
        check_moments(plan.when, plan.zone)
    except InputError as error:
        raise error.at(field="when") from None


def begin(context: Context, family: Family) -> None:
    """Begin: the family is accepted and has no open dependency."""
    family.state = CronState(seen=context.utc)
    _look_ahead(context, family)


def member_over(context: Context, family: Family, member: LiveJob | Family, record: JobRecord) -> None:
    """Do nothing: the next moment has a timer."""


def tend(context: Context, family: Family) -> None:
    """Make the postponed run of a released family."""
    clock = family.state
    if isinstance(clock, CronState) and clock.owed and not family.held:
        owed, clock.owed = clock.owed, 0
        if _plan(family.job).missed is Missed.ONCE:
            _run(context, family, clock, owed)


def due(context: Context, family: Family, kind: str, index: int) -> None:
    """Handle a moment that has come, or that passed without a step."""
    clock, plan = family.state, _plan(family.job)
    if not isinstance(clock, CronState) or not clock.next:
        return
    if clock.next > context.utc + EARLY:
        _set_timer(context, family, clock)
        return
    first, moment = clock.next, max(clock.next, last_before(plan.when, plan.zone, context.utc + 1) or 0)
    clock.seen = max(moment, context.utc)
    _look_ahead(context, family)
    on_time = not family.held and context.utc - moment < LATE
    clock.missed += _count(plan, first, moment) - on_time
    if on_time:
        # This run also makes up for moments missed before it.
        _run(context, family, clock, moment)
    elif plan.missed is Missed.ONCE and family.held:
        clock.owed = moment
    elif plan.missed is Missed.ONCE:
        _run(context, family, clock, moment)


def updated(context: Context, family: Family, before: Job) -> None:
    """Apply an update: present runs go on unchanged, later ones use the new version."""
    old, new = _plan(before), _plan(family.job)
    if isinstance(family.state, CronState) and (old.when, old.zone) != (new.when, new.zone):
        family.state.seen = max(family.state.seen, context.utc)
        _look_ahead(context, family)


def wall_stepped(context: Context, family: Family) -> None:
    """Move the timer of the next moment, or find another one, after the wall clock was set."""
    clock = family.state
    if not isinstance(clock, CronState):
        return
    if clock.seen > context.utc + CORRECTION:
        clock.seen = context.utc
        _look_ahead(context, family)
    elif clock.next:
        _set_timer(context, family, clock)


def why(context: Context, family: Family, now: int) -> str:
    """Return when it runs next."""
    clock, plan = family.state, _plan(family.job)
    if not isinstance(clock, CronState):
        return ""
    if not clock.next:
        return f"{plan.when} never fires again"
    last = f"last run skipped: {clock.refused}; " if clock.refused else ""
    return f"{last}next run at {local_time(clock.next, zone_of(plan.zone)):%Y-%m-%d %H:%M %Z}"


def _plan(job: Job) -> Cron:
    assert isinstance(job.plan, Cron)
    return job.plan


def _look_ahead(context: Context, family: Family) -> None:
    """Wait for the first moment after ``seen``."""
    clock, plan = family.state, _plan(family.job)
    assert isinstance(clock, CronState)
    clock.next = next_after(plan.when, plan.zone, clock.seen) or 0
    _set_timer(context, family, clock)


def _set_timer(context: Context, family: Family, clock: CronState) -> None:
    name = members.timer_name(family)
    if clock.next:
        context.timers.set(MOMENT, name, context.now + max(0, clock.next - context.utc))
    else:
        context.timers.drop(MOMENT, name)


def _count(plan: Cron, first: int, last: int) -> int:
    """Return the number of moments from ``first`` to ``last``, both included, up to about ``COUNTED``."""
    count, at = 1, first
    while at < last and count < COUNTED:
        at, count = next_after(plan.when, plan.zone, at) or last, count + 1
    return count


def _run(context: Context, family: Family, clock: CronState, moment: int) -> None:
    """Make a run for a moment, unless an unfinished one forbids it; a run that replaces another waits for its end."""
    overlap = _plan(family.job).overlap
    alive = _alive(context, family)
    if alive and overlap is Overlap.FORBID:
        clock.skipped += 1
        return
    specs = _specs(context, family)
    replaces = overlap is Overlap.REPLACE
    clock.refused = group_limits.problem(context, specs, _jobs_of(context, alive) if replaces else 0)
    if clock.refused:
        clock.skipped += 1
        at = local_time(moment, zone_of(_plan(family.job).zone))
        text = f"the run of {at:%Y-%m-%d %H:%M %Z}: {clock.refused}"
        group = family.job.group or DEFAULT_GROUP
        context.noticed.skipped(RunSkipped(family.job.id, family.job.name, group, text))
        return
    if replaces:
        for number in alive:
            family_ends.cancel_any(context, number, "the next run of its cron job replaced it")
        alive = [number for number in alive if number in context.jobs or number in context.families]
    else:
        alive = []
    _make(context, family, clock, specs, moment, alive)


def _alive(context: Context, family: Family) -> list[int]:
    """Return the unfinished runs; those that ended in this step may still be among the members."""
    return [number for number in family.members.values() if number in context.jobs or number in context.families]


def _jobs_of(context: Context, runs: Sequence[int]) -> int:
    """Return the number of jobs of these runs, steps of dags included."""
    dags = (context.families.get(number) for number in runs)
    return sum(1 if dag is None else 1 + len(dag.members) for dag in dags)


def _specs(context: Context, family: Family) -> list[Job]:
    """Return the jobs of a run that is made now: a batch job, or a dag and its steps."""
    if family.job.steps:
        return dag_runs.jobs_of(context, family.job)
    spec = timed(msgspec.structs.replace(family.job, type=JobType.BATCH, plan=None), context.utc)
    # The group may have got a time limit after the cron job was submitted.
    return group_limits.with_limit(context, [spec])


def _make(
    context: Context, family: Family, clock: CronState, specs: Sequence[Job], moment: int, behind: Sequence[int]
) -> LiveJob | Family | None:
    """Make a run for a moment; its interval begins at the moment before."""
    plan = _plan(family.job)
    scheduled = last_before(plan.when, plan.zone, moment) or 0, moment
    run: LiveJob | Family | None
    if family.job.steps:
        run = dag_runs.make(context, family, specs, clock.runs, scheduled, behind)
    else:
        run = made = members.make(context, family, specs[0], clock.runs, behind=behind)
        if made is not None:
            made.scheduled = scheduled
    if run is not None:
        if family.job.steps:
            clock.moments[clock.runs] = scheduled
            clock.moments.pop(clock.runs - MOST_MOMENTS, None)
        clock.runs, clock.last, clock.last_job = clock.runs + 1, moment, run.job.id
    return run


def trigger(context: Context, family: Family, clock: CronState, moments: Sequence[int]) -> tuple[int, ...]:
    """Make a run for each of these moments, in their order, all or none; return their ids.

    Unless runs may overlap, each waits for the end of the one before. Raises ``NotAccepted`` at a limit of the group.
    """
    runs = [_specs(context, family) for _ in moments]
    specs = [spec for run in runs for spec in run]
    group_limits.check_new(context, specs)
    for spec in runs[0] if runs else ():
        group_limits.check_job(context, spec)
    alive = _alive(context, family)
    found: list[int] = []
    overlaps = _plan(family.job).overlap is Overlap.ALLOW
    for run_specs, moment in zip(runs, moments, strict=True):
        run = _make(context, family, clock, run_specs, moment, () if overlaps else alive[-1:])
        if run is None:
            raise NotAccepted(family.reason, hint=f"see `cress job {family.job.id}`")
        found.append(run.job.id)
        alive.append(run.job.id)
    return tuple(found)
