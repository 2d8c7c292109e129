"""Deadlines of unfinished jobs: a look at their forecasts from time to time, and notices for people, each sent once.

A dag is watched as a whole: the deadlines of its steps are the dag's, minus the time for the steps behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cress.core.outlook import Behind, TimeLeft
from cress.lifecycle.context import Context
from cress.lifecycle.effects import DeadlineAtRisk, DeadlineMissed
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.timers import LATE, LOST, OF_DEADLINES, RISK
from cress.model.critical_path import longest_behind, longest_chains
from cress.model.family import Cron, Dag
from cress.model.group import DEFAULT_GROUP
from cress.model.groups.timetable import local_time
from cress.model.job import Condition, Job
from cress.model.outlook import Outlook, Promise
from cress.model.records import JobRecord, JobState
from cress.model.times import HOUR, NEVER, SECOND

# Times (µs) between looks at a job: the first one after the scheduler has decided, then after a part of the remaining
# slack, within bounds. Times are rounded, so that jobs share a step; a step looks at a limited number of jobs.
FIRST, LEAST, MOST, GRID = SECOND, 10 * SECOND, HOUR, 10 * SECOND
PART = 8
MOST_LOOKS, REST = 200, SECOND // 10
# The begin of the last year that calendars have (µs since the epoch).
LAST = 253_370_764_800 * SECOND


def timed(job: Job, utc: int) -> Job:
    """Return a job that begins at ``utc`` with a moment as its deadline; a cron job keeps the duration for its runs."""
    if not job.within or isinstance(job.plan, Cron):
        return job
    return msgspec.structs.replace(job, deadline=utc + job.within, within=0)


def resolved(jobs: Sequence[Job], utc: int) -> list[Job]:
    """Return the jobs of one submit with the moments of their deadlines.

    A step of a dag gets the latest moment at which it may end: the deadline of the dag minus the longest chain of time
    limits behind the step.
    """
    found = [timed(job, utc) for job in jobs]
    if not any(isinstance(job.plan, Dag) and job.deadline for job in found):
        return found
    behind = longest_behind(jobs)
    for place, job in enumerate(found):
        whole = found[-job.family - 1].deadline if job.family else 0
        if whole:
            found[place] = msgspec.structs.replace(job, deadline=max(1, whole - behind[place]))
    return found


def watch(context: Context, job: Job) -> None:
    """Watch the deadline of an accepted job, if it has one."""
    if job.deadline:
        _set_late(context, job)
        context.timers.set(RISK, str(job.id), context.now + FIRST)
        if _gives_up(context, job):
            context.timers.set(LOST, str(job.id), context.now + FIRST)


def forget(context: Context, number: int) -> None:
    """Forget the deadline of a job, which has another one or none."""
    for kind in OF_DEADLINES:
        context.timers.drop(kind, str(number))


def due(context: Context, kind: str, number: int) -> str:
    """Handle the deadline of a job, or a look at it; return why the job must be cancelled, empty if it need not."""
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
        return ""  # it is missed in this very step
    if context.unsettled.looks >= MOST_LOOKS:
        context.timers.set(RISK, str(number), context.now + REST)
    else:
        context.unsettled.looks += 1
        _look(context, owner.job)
    return ""


def ended(context: Context, job: Job, record: JobRecord) -> None:
    """Forget the deadline of an ended job, and note a miss that is not known yet."""
    name = str(job.id)
    context.timers.drop(RISK, name)
    context.timers.drop(LOST, name)
    if context.timers.get(LATE, name) is None:
        return
    context.timers.drop(LATE, name)
    if context.utc > job.deadline or record.state not in (JobState.SUCCEEDED, JobState.CANCELLED):
        _missed(context, job)


def wall_stepped(context: Context) -> None:
    """Set all timers of deadlines anew after the wall clock was set."""
    for kind, name in list(context.timers.times):
        owner = context.jobs.get(int(name)) or context.families.get(int(name)) if kind == LATE else None
        if owner is not None:
            _set_late(context, owner.job)
            if context.timers.get(LOST, name) is not None:
                context.timers.set(LOST, name, context.now + FIRST)


def shown(context: Context, utc: int) -> str:
    """Format a moment in the zone of the cluster; calendars end with the year 9999, and sums of estimates may not."""
    if utc >= LAST:
        return "a time after the year 9999"
    return f"{local_time(utc, context.core.groups.cluster_zone):%Y-%m-%d %H:%M %Z}"


def _set_late(context: Context, job: Job) -> None:
    context.timers.set(LATE, str(job.id), context.now + max(0, job.deadline - context.utc))


def _look(context: Context, job: Job) -> None:
    """Report that a deadline is at risk, or look again later."""
    found = outlooks(context, job.id, context.now)
    bad = [text for text in (_risk(context, outlook) for outlook in found) if text]
    if bad:
        context.noticed.deadline(DeadlineAtRisk(job.id, job.name, job.group or DEFAULT_GROUP, bad[0]))
        return
    spare = min((outlook.slack for outlook in found if outlook.slack is not None), default=job.deadline - context.utc)
    at = context.now + min(MOST, max(LEAST, spare // PART))
    context.timers.set(RISK, str(job.id), -(-at // GRID) * GRID)


def _risk(context: Context, found: Outlook) -> str:
    """Return the notice of a deadline at risk, with the estimate behind it.

    Empty if the deadline will probably be met.
    """
    if found.promise is Promise.CANNOT:
        if found.earliest_end is None:
            return "the deadline cannot be met"
        return f"the deadline cannot be met: the job ends at {shown(context, found.earliest_end)} at the earliest"
    # A limit alone does not justify an alarm: most runs are much shorter.
    if found.promise is not Promise.AT_RISK or found.chance is None or found.likely_end is None:
        return ""
    if found.likely_end <= found.deadline:
        return ""
    end = shown(context, found.likely_end)
    return f"by the mean of earlier runs the job ends at {end}: {1 - found.chance:.0%} of such runs miss it"


def outlooks(context: Context, number: int, now: int) -> list[Outlook]:
    """Return the forecast for a job; for a dag, the forecast by each unfinished step that must run."""
    family = context.families.get(number)
    ahead: Mapping[int, Behind | None] = {number: None} if family is None else behind_steps(context, family)
    found = (context.core.outlook(job, now, behind) for job, behind in ahead.items())
    return [outlook for outlook in found if outlook is not None]


def behind_steps(context: Context, family: Family) -> dict[int, Behind]:
    """Return the work behind each unfinished step of a dag that must run, by the estimates of these steps."""
    steps = [number for number in family.members.values() if number in context.jobs]
    unmet = [context.jobs[number].unmet for number in steps]
    # A step that runs only after a failure is not on the way to success.
    needed = [all(condition is not Condition.FAILED for _, condition in conditions) for conditions in unmet]
    place = {number: i for i, number in enumerate(steps) if needed[i]}
    before = [
        [place[first] for first, _ in conditions if first in place] if needed[i] else []
        for i, conditions in enumerate(unmet)
    ]
    left = [context.core.left_of(number) or TimeLeft(0, 0, 0) for number in steps]
    chains = [longest_chains(before, kind) for kind in zip(*left, strict=True)]
    return {
        number: Behind(family.job.deadline, TimeLeft(*(chain[i] for chain in chains))) for number, i in place.items()
    }


def _gives_up(context: Context, job: Job) -> bool:
    return context.core.groups.get(job.group).options.late == "cancel"


def _look_for_loss(context: Context, job: Job) -> str:
    """Return why a job that can no longer meet its deadline must be cancelled, else empty, and look again later."""
    family = context.families.get(job.id)
    ahead: Mapping[int, Behind | None] = {job.id: None} if family is None else behind_steps(context, family)
    latest = min((context.core.latest_start(number, behind) for number, behind in ahead.items()), default=NEVER)
    if latest < context.now and _gives_up(context, job):
        context.timers.drop(LATE, str(job.id))
        _missed(context, job)
        return "the deadline can no longer be met"
    # Running tasks may be preempted, and wait then.
    again = context.now + min(MOST, max(LEAST, (job.deadline - context.utc) // PART))
    context.timers.set(LOST, str(job.id), min(latest + 1, again) if latest >= context.now else again)
    return ""


def _missed(context: Context, job: Job) -> None:
    text = f"it should have ended by {shown(context, job.deadline)}"
    context.noticed.deadline(DeadlineMissed(job.id, job.name, job.group or DEFAULT_GROUP, text))
