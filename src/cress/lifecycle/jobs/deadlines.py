"""Deadlines of jobs that are alive: a look at their forecasts now and then, and what people are told of them, each once.

A dag is watched as a whole: the deadlines of its steps are its own, less what is behind them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cress.lifecycle.context import Context
from cress.lifecycle.effects import DeadlineAtRisk, DeadlineMissed
from cress.lifecycle.tables.timers import LATE, LOST, RISK
from cress.model.family import Cron
from cress.model.group import DEFAULT_GROUP
from cress.model.groups.timetable import local_time
from cress.model.job import Job
from cress.model.outlook import Outlook, Promise
from cress.model.records import JobRecord, JobState
from cress.model.times import HOUR, NEVER, SECOND

# After its submit a job is looked at when the scheduler has decided, then when so much of its slack is used up, but not too
# soon or too late. Times (µs) are rounded, so that jobs share a step, which looks at no more than some.
FIRST, LEAST, MOST, GRID = SECOND, 10 * SECOND, HOUR, 10 * SECOND
PART = 8
MOST_LOOKS, REST = 200, SECOND // 10

_AT_RISK = (Promise.AT_RISK, Promise.CANNOT)


def timed(job: Job, utc: int) -> Job:
    """Return a job that begins at ``utc`` with a moment as its deadline; a cron job keeps the time, for its runs."""
    if not job.within or isinstance(job.plan, Cron):
        return job
    return msgspec.structs.replace(job, deadline=utc + job.within, within=0)


def watch(context: Context, job: Job) -> None:
    """Watch the deadline of a job that was accepted, if it has one."""
    if job.deadline:
        _set_late(context, job)
        context.timers.set(RISK, str(job.id), context.now + FIRST)
        if _gives_up(context, job):
            context.timers.set(LOST, str(job.id), context.now + FIRST)


def due(context: Context, kind: str, number: int) -> str:
    """Act when the deadline of a job has come, or the time of a look at it; return why the job is to be cancelled, empty if it is not."""
    owner = context.jobs.get(number) or context.families.get(number)
    if owner is None:
        return ""
    if kind == LOST:
        return _look_for_loss(context, owner.job)
    if kind == LATE:
        context.timers.drop(RISK, str(number))
        context.timers.drop(LOST, str(number))
        _missed(context, owner.job)
        return "its deadline has passed" if _gives_up(context, owner.job) else ""
    if (context.timers.get(LATE, str(number)) or 0) <= context.now:
        return ""  # it is missed in this step
    if context.unsettled.looks >= MOST_LOOKS:
        context.timers.set(RISK, str(number), context.now + REST)
    else:
        context.unsettled.looks += 1
        _look(context, owner.job)
    return ""


def ended(context: Context, job: Job, record: JobRecord) -> None:
    """Forget the deadline of a job that is over, and note that it was missed if that was not known before."""
    name = str(job.id)
    context.timers.drop(RISK, name)
    context.timers.drop(LOST, name)
    if context.timers.get(LATE, name) is None:
        return
    context.timers.drop(LATE, name)
    if context.utc > job.deadline or record.state not in (JobState.SUCCEEDED, JobState.CANCELLED):
        _missed(context, job)


def wall_stepped(context: Context) -> None:
    """The wall clock was set: deadlines come at other times of the machine's clock."""
    for kind, name in list(context.timers.times):
        owner = context.jobs.get(int(name)) or context.families.get(int(name)) if kind == LATE else None
        if owner is not None:
            _set_late(context, owner.job)
            if context.timers.get(LOST, name) is not None:
                context.timers.set(LOST, name, context.now + FIRST)


def shown(context: Context, utc: int) -> str:
    """Return a moment in the zone of the cluster."""
    return f"{local_time(utc, context.core.groups.cluster_zone):%Y-%m-%d %H:%M %Z}"


def _set_late(context: Context, job: Job) -> None:
    context.timers.set(LATE, str(job.id), context.now + max(0, job.deadline - context.utc))


def _look(context: Context, job: Job) -> None:
    """Tell that a deadline is at risk, or look again later."""
    found = list(_outlooks(context, job))
    bad = next((each for each in found if each.promise in _AT_RISK), None)
    if bad is not None:
        text = "" if bad.chance is None else f"{1 - bad.chance:.0%} of such runs miss it"
        if bad.promise is Promise.CANNOT:
            text = "it cannot be met"
            if bad.earliest_end is not None:
                text += f": it ends at {shown(context, bad.earliest_end + job.deadline - bad.deadline)} at the earliest"
        context.noticed.deadline(DeadlineAtRisk(job.id, job.name, job.group or DEFAULT_GROUP, text))
        return
    spare = min((each.slack for each in found if each.slack is not None), default=job.deadline - context.utc)
    at = context.now + min(MOST, max(LEAST, spare // PART))
    context.timers.set(RISK, str(job.id), -(-at // GRID) * GRID)


def _outlooks(context: Context, job: Job) -> Iterable[Outlook]:
    """Yield the forecast for a job, or for each step of a dag that is not over."""
    family = context.families.get(job.id)
    for number in [job.id] if family is None else family.members.values():
        found = context.core.outlook(number, context.now)
        if found is not None:
            yield found


def _gives_up(context: Context, job: Job) -> bool:
    return context.core.groups.get(job.group).options.late == "cancel"


def _look_for_loss(context: Context, job: Job) -> str:
    """Return why a job is to be cancelled if it cannot meet its deadline even if it starts now, else empty, and look again later."""
    family = context.families.get(job.id)
    numbers = [job.id] if family is None else family.members.values()
    latest = min((context.core.latest_start(number) for number in numbers), default=NEVER)
    if latest < context.now and _gives_up(context, job):
        context.timers.drop(LATE, str(job.id))
        _missed(context, job)
        return "its deadline cannot be met any more"
    # What runs may be preempted, and wait then.
    again = context.now + min(MOST, max(LEAST, (job.deadline - context.utc) // PART))
    context.timers.set(LOST, str(job.id), min(latest + 1, again) if latest >= context.now else again)
    return ""


def _missed(context: Context, job: Job) -> None:
    text = f"it should have ended by {shown(context, job.deadline)}"
    context.noticed.deadline(DeadlineMissed(job.id, job.name, job.group or DEFAULT_GROUP, text))
