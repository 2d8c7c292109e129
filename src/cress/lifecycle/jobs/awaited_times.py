"""The times for which jobs wait (``wait_for: {time: …}``)."""

from __future__ import annotations

from cress.lifecycle.context import Context
from cress.lifecycle.jobs.deadlines import shown
from cress.lifecycle.tables.rows import LiveJob
from cress.model.jobfile import deadlines
from cress.model.waits import TIME, WaitFor


def time_of(context: Context, job: LiveJob, thing: WaitFor) -> int:
    """Return a time on the machine's clock (µs). A moment without a zone is one of the cluster's."""
    written = deadlines.deadline(thing.name)
    if written.within:
        return (job.awaits_since or 0) + written.within
    at = written.moment or deadlines.moment_of(written.clocks, context.core.groups.cluster_zone)
    return context.now + at - context.utc


def say_awaited(context: Context, job: LiveJob, thing: WaitFor) -> str:
    """Name a thing for which a job waits; a length of time with its end."""
    if thing.kind != TIME or not deadlines.deadline(thing.name).within:
        return str(thing)
    return f"{thing}, until {shown(context, context.utc + time_of(context, job, thing) - context.now)}"
