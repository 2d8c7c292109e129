"""Things outside of the cluster for which a job waits before it may start. The shell looks for them.

A job waits from the time at which its dependencies are met. Until all things are there, the scheduler takes it for a
job that comes after itself: it holds no resources, and gets no reservation.
"""

from __future__ import annotations

from cress.lifecycle.context import Context
from cress.lifecycle.inputs import Awaited
from cress.lifecycle.jobs import jobs
from cress.lifecycle.tables.rows import LiveJob
from cress.lifecycle.tables.timers import AWAITED
from cress.model.events import JobAfter, Outcome
from cress.model.units import format_duration


def behind(job: LiveJob) -> int | None:
    """Return the first job for which it waits; its own id if it waits for something outside."""
    if job.unmet:
        return job.unmet[0][0]
    return job.job.id if job.awaits else None


def release(context: Context, job: LiveJob) -> None:
    """Let a job start whose dependencies are met, once the things that it waits for are there."""
    number = job.job.id
    context.observe(JobAfter(number, behind(job)))
    if job.awaits and job.awaits_since is None and not job.unmet:
        job.awaits_since = context.now
        context.awaiting[number] = None
        _set_timer(context, job)


def awaited(context: Context, word: Awaited) -> None:
    """Note that a thing is there, or that nobody may look for it; what concerns no waiting job is old news."""
    job = context.jobs.get(word.job)
    if job is None or job.ending or word.what not in job.awaits or job.awaits_since is None:
        return
    if word.problem:
        jobs.fail(context, job, f"{word.what}: {word.problem}")
        return
    job.awaits = tuple(thing for thing in job.awaits if thing != word.what)
    _set_timer(context, job)
    if not job.awaits:
        context.awaiting.pop(word.job, None)
        context.observe(JobAfter(word.job, None))


def due(context: Context, number: int) -> None:
    """Fail a job that has waited for too long."""
    job = context.jobs.get(number)
    if job is None or job.ending or job.awaits_since is None:
        return
    waited = context.now - job.awaits_since
    for thing in job.awaits:
        if thing.timeout is not None and thing.timeout <= waited:
            text = f"{thing} was not there within {format_duration(thing.timeout)}"
            jobs.fail(context, job, text, Outcome.TIMED_OUT)
            return
    _set_timer(context, job)


def _set_timer(context: Context, job: LiveJob) -> None:
    times = [thing.timeout for thing in job.awaits if thing.timeout is not None]
    if times and job.awaits_since is not None:
        context.timers.set(AWAITED, str(job.job.id), job.awaits_since + min(times))
    else:
        context.timers.drop(AWAITED, str(job.job.id))
