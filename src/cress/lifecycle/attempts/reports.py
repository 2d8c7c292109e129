"""Reports of executors about attempts."""

from __future__ import annotations

from cress.lifecycle.attempts import end_reasons, start_failures
from cress.lifecycle.context import Context
from cress.lifecycle.effects import Halt
from cress.lifecycle.families import readiness, replica_ends, step_values
from cress.lifecycle.jobs import reasons, task_by_task
from cress.lifecycle.jobs.jobs import end_inside, fail, maybe_over, note_failure
from cress.lifecycle.jobs.outcomes import Judgement, judge, place_of
from cress.lifecycle.nodes import ports
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.devices import written
from cress.model.events import FAILURES, Outcome, TaskEnded
from cress.model.records import AttemptRecord
from cress.model.reports import Cause, Checked, Ended, Report, Started


def reported(context: Context, node: str, report: Report) -> None:
    """Handle a report of an executor about an attempt."""
    attempt = context.attempts.get(report.attempt)
    if attempt is None or attempt.node != node:
        # A repeated report is not news; but an attempt that the machine does not know must not go on.
        if isinstance(report, Started):
            context.out.halts.append(Halt(report.attempt, 0, node, 0))
        return
    if isinstance(report, Checked):
        readiness.checked(context, attempt, report)
        return
    if isinstance(report, Started):
        attempt.pid = report.pid
        if not attempt.started:
            context.out.started.add(attempt.id)
        _runs(context, attempt, report.at)
        return
    if report.started:
        _runs(context, attempt, report.started)
    ended(context, attempt, report)


def _runs(context: Context, attempt: LiveAttempt, at: int) -> None:
    job = context.jobs[attempt.job]
    if not attempt.started:
        start_failures.succeeded(context, attempt, job)
    first = not attempt.started
    if attempt.started != at:
        attempt.started = at
    if not job.started:
        job.started = at
    if first and job.kept is not None:
        readiness.started(context, attempt, job)


def lost(context: Context, attempt: LiveAttempt, error: str) -> None:
    """End an attempt that will never be reported again."""
    report = Ended(attempt=attempt.id, cause=Cause.UNKNOWN, code=None, started=0, at=context.utc, error=error)
    ended(context, attempt, report)


def ended(context: Context, attempt: LiveAttempt, report: Ended) -> None:
    """End an attempt: judge it, record it, and tell the scheduler."""
    job = context.jobs[attempt.job]
    report = step_values.bounded(context, job, attempt, report)
    stopping = context.core.attempts[attempt.id].stopping
    if job.kept is not None:
        judgement = replica_ends.judge(context, job, attempt, report, stopping=stopping)
    else:
        judgement = judge(
            job,
            attempt,
            report,
            context.core.options,
            stopping=stopping,
            elsewhere=report.cause is Cause.NOT_STARTED and start_failures.elsewhere(context, attempt),
        )
    assert not (judgement.again and job.ending), f"a task of job {job.job.id}, which ends, is tried again"
    context.remove(attempt)
    node = context.nodes.get(attempt.node)
    if node is not None and node.draining:
        context.noticed.emptier(attempt.node)
    _count(job, attempt, judgement, report)
    if judgement.again and attempt.started:
        job.restarts[attempt.task] = job.restarts.get(attempt.task, 0) + 1
    elif job.restarts and not judgement.again:
        job.restarts.pop(attempt.task, None)
    if report.values and judgement.outcome is Outcome.SUCCEEDED and attempt.task == 0:
        job.values = report.values
    if job.kept is not None:
        replica_ends.ended(context, attempt, job, judgement, report, stopping=stopping)
    context.out.attempts.append(
        AttemptRecord(
            attempt=attempt.id,
            job=attempt.job,
            task=attempt.task,
            node=attempt.node,
            outcome=judgement.outcome,
            final=not judgement.again,
            placed=attempt.placed,
            started=attempt.started,
            ended=report.at,
            code=report.code,
            error=end_reasons.reason_of(job, attempt, report, judgement.outcome),
            cpu=report.usage.cpu,
            memory=report.usage.memory,
            ports=attempt.ports,
            devices=written(attempt.devices),
        )
    )
    if report.cause is Cause.PORT:
        ports.taken(context, attempt, report.port)
    _tell(context, attempt, job, judgement)
    if attempt.started and (judgement.outcome is Outcome.SUCCEEDED or judgement.outcome in FAILURES):
        context.ran(job.job, max(0, report.at - attempt.started))
    if report.cause is Cause.NOT_STARTED and judgement.outcome is Outcome.FAILED:
        start_failures.failed(context, attempt, job, report.error, again=judgement.again)
    if report.cause is Cause.NODE:
        start_failures.no_room(context, attempt, report.error)
    if judgement.outcome is Outcome.LOST and not judgement.again and job.kept is None:
        job.reason = f"a task was lost with node {attempt.node}; tasks of this job are not restarted"
    if job.job.gang and not job.ending and not judgement.again and judgement.outcome is not Outcome.SUCCEEDED:
        # Otherwise the other tasks would wait for the failed one for ever.
        fail(context, job, job.reason, judgement.outcome)
    if job.job.is_lease and not judgement.again:
        end_inside(context, job.job.id, "its program has ended", attempt.task)
    maybe_over(context, job)


def _tell(context: Context, attempt: LiveAttempt, job: LiveJob, judgement: Judgement) -> None:
    """Tell the scheduler of the end of an attempt, and the tasks that wait for this one."""
    told = Outcome.FAILED if judgement.outcome in FAILURES else judgement.outcome
    context.observe(TaskEnded(attempt.id, told, judgement.again, judgement.after))
    if job.job.id in context.behind_tasks and not judgement.again:
        task_by_task.ended(context, job, attempt.task, succeeded=told is Outcome.SUCCEEDED)


def _first_failure(job: LiveJob, attempt: LiveAttempt, report: Ended) -> str:
    """Return the reason of a failed job: the end of its first failed task."""
    how = reasons.how(report, job.job)
    return f"task {attempt.task}: {how}" if how and job.job.tasks > 1 else how


def _count(job: LiveJob, attempt: LiveAttempt, judgement: Judgement, report: Ended) -> None:
    """Update the job's counts, and the failures of the task."""
    outcome, place = judgement.outcome, place_of(job, attempt)
    if outcome is Outcome.PREEMPTED:
        job.preempted += 1
    elif judgement.again and job.kept is not None:
        pass  # its family keeps these counts
    elif outcome in FAILURES and judgement.again:
        if report.cause is Cause.PORT:
            pass  # neither the task nor its program did anything
        elif report.cause is Cause.NOT_STARTED:
            job.unstarted[attempt.task] = job.unstarted.get(attempt.task, 0) + 1
        else:
            job.failures[place] = job.failures.get(place, 0) + 1
    elif not judgement.again:
        if outcome is Outcome.SUCCEEDED:
            job.succeeded += 1
        elif outcome is Outcome.CANCELLED and (job.cancelling or job.kept is not None):
            job.cancelled += 1
        else:
            job.failed += 1
            job.not_succeeded[attempt.task] = True
            if outcome is not Outcome.CANCELLED:
                # It was stopped because its job failed; the outcome of the job is noted already.
                note_failure(job, outcome)
            job.reason = job.reason or _first_failure(job, attempt, report)
        if job.unstarted:
            job.unstarted.pop(attempt.task, None)
        if job.failures:
            job.failures.pop(attempt.task, None)
