"""Services: kept at their task count, whatever happens to their tasks; a timetable may change the count."""

from __future__ import annotations

import msgspec

from cress.lifecycle.context import Context
from cress.lifecycle.families import readiness, replicas, rolling_updates
from cress.lifecycle.families.moments import check as check_moments
from cress.lifecycle.families.moments import last_before, next_after
from cress.lifecycle.jobs import jobs, replica_status
from cress.lifecycle.jobs.members import timer_name
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveJob
from cress.lifecycle.tables.timers import COUNT, TEND
from cress.model.errors import InputError
from cress.model.family import Service
from cress.model.job import Job
from cress.model.records import JobRecord
from cress.model.times import SECOND

# A timer may fire this much (µs) before its moment: the machine is told of the clocks' difference only if it is larger.
EARLY = SECOND

# Maximum number of members that one step makes or cancels.
MOST_AT_ONCE = 256

_TOO_MANY = "scaled down"


def check(context: Context, job: Job) -> None:
    """Raise ``InputError`` if the plan is invalid."""
    replicas.check(job)
    plan = job.plan
    assert isinstance(plan, Service)
    if plan.max_unavailable < (0 if plan.surge else 1):
        hint = "1 or more; 0 needs surge: 1, so that a new task can start before an old one ends"
        raise InputError(f"max_unavailable {plan.max_unavailable}", hint=hint, field="max_unavailable")
    for place, (expression, tasks) in enumerate(plan.timetable):
        try:
            check_moments(expression, plan.zone)
        except InputError as error:
            raise error if error.field else error.at(field=f"timetable[{place}].at") from None
        if tasks < 0:
            raise InputError(f"{tasks} tasks", hint="0 or more", field=f"timetable[{place}].tasks")


def begin(context: Context, family: Family) -> None:
    """Begin: the family is accepted and has no open dependency."""
    replicas.state_of(family)
    _count(context, family)


def member_over(context: Context, family: Family, member: LiveJob | Family, record: JobRecord) -> None:
    """Note that a member ran; ``tend`` makes its replacement."""
    assert isinstance(member, LiveJob), "members are tasks"
    replicas.note_end(family, member)


def tend(context: Context, family: Family) -> None:
    """Bring the service to its number of members, and continue an update.

    Work beyond the limit of one step waits for the next.
    """
    changed = replica_status.take(context, family)
    begun = len(changed) if context.as_version_5 else MOST_AT_ONCE - context.unsettled.members
    room = begun
    left: set[int] = set()
    wanted = family.job.tasks + replicas.state_of(family).surging
    for index in reversed(changed):
        if index >= wanted and index in family.members:
            if context.jobs[family.members[index]].ending:
                continue
            if room <= 0:
                left.add(index)
                continue
            room -= 1
            jobs.cancel(context, family.members[index], _TOO_MANY)
    lost = replicas.state_of(family).lost
    for index in changed:
        if index < wanted and index not in family.members and index not in lost:
            # Tasks that start together must wait together from the first decision on.
            if room <= 0 and not family.job.gang:
                left.add(index)
                continue
            room -= 1
            replicas.make(context, family, index)
            if index not in family.members:
                replica_status.again(context, family, index)
    context.unsettled.members += begun - room
    rolling_updates.advance(context, family, [index for index in changed if index not in left])
    if left:
        for index in left:
            replica_status.again(context, family, index)
        context.timers.set(TEND, timer_name(family), context.now)


def due(context: Context, family: Family, kind: str, index: int) -> None:
    """Handle a timer that is due."""
    if kind == COUNT:
        _count(context, family)
    elif kind != TEND:
        readiness.due(context, family, kind, index)


def updated(context: Context, family: Family, before: Job) -> None:
    """Begin a rolling update."""
    rolling_updates.begin(family)
    replicas.replace_lost(context, family)
    _count(context, family)


def wall_stepped(context: Context, family: Family) -> None:
    """Find the next moment of the timetable anew after the wall clock was set: it moved, has passed, or
    is another one.
    """
    if 0 < replicas.state_of(family).moment <= context.utc:
        _count(context, family)
        context.unsettled.touched[family.job.id] = None
    else:
        _look_ahead(context, family)


def why(context: Context, family: Family, now: int) -> str:
    """Return why the first waiting task waits; else what an update waits for."""
    return replicas.why(context, family, now) or rolling_updates.why(context, family)


def _count(context: Context, family: Family) -> None:
    """Set the task count of the timetable for this moment, if it has one."""
    plan = family.job.plan
    assert isinstance(plan, Service)
    state = replicas.state_of(family)
    at = context.utc + 1
    if 0 < state.moment <= context.utc + EARLY:
        at = max(at, state.moment + 1)
    past = [(last_before(expression, plan.zone, at), tasks) for expression, tasks in plan.timetable]
    latest = max((moment for moment, _ in past if moment is not None), default=None)
    if latest is not None:
        # Of two entries for one moment the last one counts.
        tasks = [tasks for moment, tasks in past if moment == latest][-1]
        family.job = msgspec.structs.replace(family.job, tasks=tasks)
    _look_ahead(context, family, at - 1)


def _look_ahead(context: Context, family: Family, after: int | None = None) -> None:
    """Wait for the next moment of the timetable."""
    plan, state, name = family.job.plan, replicas.state_of(family), timer_name(family)
    assert isinstance(plan, Service)
    after = context.utc if after is None else after
    moments = [next_after(expression, plan.zone, after) for expression, _ in plan.timetable]
    state.moment = min((moment for moment in moments if moment is not None), default=0)
    if state.moment:
        context.timers.set(COUNT, name, context.now + max(0, state.moment - context.utc))
    else:
        context.timers.drop(COUNT, name)
