"""Cancelling, holding and releasing of jobs, and the end of a job."""

from __future__ import annotations

from itertools import islice

from cress.lifecycle.context import Context
from cress.lifecycle.inputs import Hold
from cress.lifecycle.jobs import deadlines
from cress.lifecycle.jobs.replica_status import mark
from cress.lifecycle.tables.rows import LiveJob
from cress.lifecycle.tables.timers import AWAITED, TERM
from cress.model.errors import InputError, NotAccepted
from cress.model.events import JobCancelled, JobHeld, Outcome
from cress.model.group import DEFAULT_GROUP
from cress.model.records import JobRecord, JobState
from cress.model.step_values import as_reason
from cress.model.times import SECOND

# Time (µs) for which the shell may not know yet that a job has ended.
REMEMBERED = 10 * SECOND
# Maximum number of ends that one step forgets: more than one step brings on average, so that they do not pile up.
MOST_FORGOTTEN = 500


def cancel(context: Context, number: int, reason: str = "") -> None:
    """Cancel a job; an ended one stays unchanged."""
    job = find(context, number)
    if job is None or job.cancelling:
        return
    if job.failing:
        # Tasks counted as failed stay counted.
        return
    job.cancelling, job.reason = True, reason
    job.cancelled += job.waiting
    _end(context, job)


def fail(context: Context, job: LiveJob, reason: str, outcome: Outcome = Outcome.FAILED) -> None:
    """Fail a job as a whole: its waiting tasks count as failed, its running ones are stopped."""
    job.failing, job.reason = True, reason
    note_failure(job, outcome)
    job.failed += job.waiting
    _end(context, job)


def note_failure(job: LiveJob, outcome: Outcome) -> None:
    """Note the outcome of a task that has failed for good."""
    job.failed_as = outcome if job.failed_as in (None, outcome) else Outcome.FAILED


def _end(context: Context, job: LiveJob) -> None:
    # Attempts that were already told to stop count as cancelled from now on, and are not retried.
    for attempt in job.attempts.values():
        if attempt.halted:
            attempt.halted = "cancelled"
    mark(context, job)
    context.observe(JobCancelled(job.job.id))
    if job.job.is_lease:
        end_inside(context, job.job.id, job.reason)
    maybe_over(context, job)


def end_inside(context: Context, lease: int, why: str, task: int | None = None) -> None:
    """Cancel the jobs that were submitted inside a lease that ends, or inside all leases of a request.

    They were to use what the lease has; without it they would take room that nobody asked for.
    """
    for number in list(context.inside.get(lease, ())):
        inside = context.jobs[number].job.inside
        if inside is not None and task in (None, inside[1]):
            name = f"lease {lease}.{inside[1]}, in which it was to run, has ended"
            cancel(context, number, f"{name}: {why}" if why else name)


def check_hold(context: Context, number: int) -> None:
    """Raise ``InputError`` if there never was such a job, ``NotAccepted`` if it has ended or is ending."""
    job = find(context, number)
    if job is None:
        raise NotAccepted(f"job {number} has ended", hint="only waiting or running jobs can be held or released")
    if job.ending:
        raise NotAccepted(f"job {number} is ending", hint="only waiting or running jobs can be held or released")


def hold(context: Context, job: LiveJob, word: Hold) -> None:
    """Hold or release a job."""
    hold_one(context, job, held=word.held, by=word.by)


def hold_one(context: Context, job: LiveJob, *, held: bool, by: str) -> None:
    """Hold or release a job by order of a user."""
    job.held, job.held_by = held, by if held else ""
    context.observe(JobHeld(job.job.id, held))


def find(context: Context, number: int) -> LiveJob | None:
    """Return the job, or ``None`` if it has ended. Raises ``InputError`` if there never was one."""
    job = context.jobs.get(number)
    if job is None and not 0 < number < context.next_job:
        raise InputError(f"there is no job {number}", hint="see `cress jobs`")
    return job


def maybe_over(context: Context, job: LiveJob) -> None:
    """End a job without waiting or running tasks: write its record, and settle the jobs that depend on it."""
    number = job.job.id
    if job.attempts or job.over < job.job.tasks or number not in context.jobs:
        return
    assert job.over == job.job.tasks, f"{job.over} tasks of job {number} are over, of {job.job.tasks}"
    context.leave(job)
    record = record_of(job, context.utc)
    deadlines.ended(context, job.job, record)
    context.timers.drop(TERM, str(number))
    if job.awaits_since is not None:
        context.awaiting.pop(number, None)
        context.timers.drop(AWAITED, str(number))
    context.out.jobs.append(record)
    context.unsettled.over.append((number, record.state))
    remember(context, number, record.state)
    if job.job.family:
        context.unsettled.gone.append((job, record))


def remember(context: Context, number: int, state: JobState) -> None:
    """Remember the end of a job, which the shell may not know for a moment."""
    assert number not in context.ended, f"job {number} ends twice"
    context.ended[number] = (state, context.now)


def forget_ended(context: Context) -> None:
    """Forget old ends, up to a limit in each step."""
    for old in list(islice(context.ended, MOST_FORGOTTEN)):
        if context.ended[old][1] + REMEMBERED > context.now:
            return
        del context.ended[old]


def record_of(job: LiveJob, utc: int) -> JobRecord:
    """Return the record of a job that ended at ``utc``; for an unfinished one, as if it ended then."""
    spec = job.job
    state = JobState.SUCCEEDED
    if job.failed:
        state = JobState((job.failed_as or Outcome.FAILED).value)
    if job.cancelled:
        state = JobState.CANCELLED
    return JobRecord(
        id=spec.id,
        name=spec.name,
        group=spec.group or DEFAULT_GROUP,
        user=spec.user,
        type=spec.kind,
        tasks=spec.tasks,
        gang=spec.gang,
        priority=spec.priority,
        time_limit=spec.time_limit,
        request=spec.mean_request,
        state=state,
        submitted=job.submitted,
        started=job.started,
        ended=utc,
        succeeded=job.succeeded,
        failed=job.failed,
        cancelled=job.cancelled,
        preempted=job.preempted,
        reason=job.reason or (as_reason(job.values) if state is JobState.SUCCEEDED else ""),
        requirement=spec.requirement,
        rank=spec.rank,
        application=spec.application,
        family=spec.family,
        index=job.index,
        template=job.template,
    )
