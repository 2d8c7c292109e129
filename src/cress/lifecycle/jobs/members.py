"""Members of families: ordinary jobs that the machine makes, or that came in the same submit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cress.lifecycle.context import Context
from cress.lifecycle.jobs import deadlines, waits
from cress.lifecycle.jobs.replica_status import mark
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveJob
from cress.model.errors import InputError
from cress.model.job import Condition, Job


def make(
    context: Context, family: Family, job: Job, index: int, template: int = 0, behind: Sequence[int] = ()
) -> LiveJob | None:
    """Make a new member of a family from ``job``, with a new id; it waits from now on, or is held with its family.

    Its run is that of ``template``, or the family's. It starts when the unfinished jobs ``behind`` have ended. Return
    ``None`` if the scheduler refuses it; then the family has the reason.
    """
    number = context.next_job
    after = tuple((predecessor, Condition.ANY) for predecessor in behind)
    spec = msgspec.structs.replace(job, id=number, family=family.job.id, plan=None, after=after, hold=family.held)
    live = LiveJob(
        job=spec,
        submitted=context.utc,
        held=family.held,
        held_by=family.held_by,
        unmet=after,
        template=template or family.template,
        index=index,
        awaits=spec.wait_for,
    )
    if not enter(context, family, live):
        return None
    context.take_id()
    deadlines.watch(context, spec)
    mark(context, live)
    return live


def enter(context: Context, family: Family, live: LiveJob) -> bool:
    """Enter a new member; return False if the scheduler refuses it, then the family has the reason."""
    context.enter(live)
    try:
        context.observe(context.submitted(live.job, waits.behind(live)))
    except InputError as error:
        context.leave(live)
        family.reason = str(error)
        return False
    family.members[live.index] = live.job.id
    for condition in live.unmet:
        context.stay_behind(live.job.id, condition)
    if live.awaits and not live.unmet_as_whole:
        waits.release(context, live)
    return True


def timer_name(family: Family, index: int = -1) -> str:
    """Return the name of a timer of a family, or of one of its indices."""
    return f"{family.job.id}.{index}" if index >= 0 else str(family.job.id)


def of(context: Context, family: Family) -> list[LiveJob]:
    """Return the unfinished members by index."""
    return list(alive(context, family).values())


def alive(context: Context, family: Family) -> dict[int, LiveJob]:
    """Return the unfinished members by their indices.

    ``family.members`` may still contain members that ended in the step under way.
    """
    jobs = context.jobs
    return {index: jobs[number] for index, number in sorted(family.members.items()) if number in jobs}


def family_of(context: Context, job: LiveJob | Family) -> Family | None:
    """Return the family of a member; None for any other job."""
    return context.families.get(job.job.family) if job.job.family else None


def touch(context: Context, job: LiveJob) -> None:
    """Note that a member changed: its family is brought up to date before the step ends."""
    context.unsettled.touched[job.job.family] = None
    mark(context, job)
