"""Things for which a job waits before it may start: outside of the cluster, where the shell looks for them, and times.

A job waits from the time at which its dependencies are met. Until all things are there, the scheduler takes it for a
job that comes after itself: it holds no resources, and gets no reservation.
"""

from __future__ import annotations

from cress.lifecycle.context import Context
from cress.lifecycle.inputs import Awaited
from cress.lifecycle.jobs import jobs
from cress.lifecycle.jobs.awaited_times import time_of
from cress.lifecycle.tables.rows import LiveJob
from cress.lifecycle.tables.timers import AWAITED
from cress.model.events import JobAfter, Outcome
from cress.model.units import format_duration
from cress.model.waits import TIME


def behind(job: LiveJob) -> int | None:
    """Return the first job for which it waits; its own id if it waits for something outside."""
    if whole := job.unmet_as_whole:
        return whole[0][0]
    return job.job.id if job.awaits else None


def release(context: Context, job: LiveJob) -> None:
    """Let a job start whose dependencies are met, once the things that it waits for are there."""
    number = job.job.id
    begins = bool(job.awaits) and job.awaits_since is None and not job.unmet_as_whole
    if begins:
        job.awaits_since = context.now
        _leave_past(context, job)
    context.observe(JobAfter(number, behind(job)))
    if begins and job.awaits:
        _wait(context, job)


def awaited(context: Context, word: Awaited) -> None:
    """Note that a thing is there, or that nobody may look for it; what concerns no waiting job is old news."""
    job = context.jobs.get(word.job)
    if job is None or job.ending or word.what not in job.awaits or job.awaits_since is None:
        return
    if word.problem:
        jobs.fail(context, job, f"{word.what}: {word.problem}")
        return
    job.awaits = tuple(thing for thing in job.awaits if thing != word.what)
    _go_on(context, job)


def due(context: Context, number: int) -> None:
    """Let a job go on whose time has come, or fail one that has waited for too long."""
    job = context.jobs.get(number)
    if job is None or job.ending or job.awaits_since is None:
        return
    waited = context.now - job.awaits_since
    for thing in job.awaits:
        if thing.timeout is not None and thing.timeout <= waited:
            text = f"{thing} was not there within {format_duration(thing.timeout)}"
            jobs.fail(context, job, text, Outcome.TIMED_OUT)
            return
    _leave_past(context, job)
    _go_on(context, job)


def wall_stepped(context: Context) -> None:
    """Set the timers of waiting jobs anew after the wall clock was set: moments are times of that clock."""
    for kind, name in list(context.timers.times):
        if kind == AWAITED and int(name) in context.jobs:
            _set_timer(context, context.jobs[int(name)])


def _go_on(context: Context, job: LiveJob) -> None:
    """Wait for the rest of the things, or let the job start."""
    _wait(context, job)
    if not job.awaits:
        context.observe(JobAfter(job.job.id, None))


def _wait(context: Context, job: LiveJob) -> None:
    """Wait for what is left: the shell looks for what is outside, and a timer ends the wait for a time."""
    if job.awaits_outside:
        context.awaiting[job.job.id] = None
    else:
        context.awaiting.pop(job.job.id, None)
    _set_timer(context, job)


def _leave_past(context: Context, job: LiveJob) -> None:
    """Wait no longer for times that have come."""
    job.awaits = tuple(
        thing for thing in job.awaits if thing.kind != TIME or time_of(context, job, thing) > context.now
    )


def _set_timer(context: Context, job: LiveJob) -> None:
    since = job.awaits_since or 0
    times = [since + thing.timeout for thing in job.awaits if thing.timeout is not None]
    times += [time_of(context, job, thing) for thing in job.awaits if thing.kind == TIME]
    if times:
        context.timers.set(AWAITED, str(job.job.id), min(times))
    else:
        context.timers.drop(AWAITED, str(job.job.id))
