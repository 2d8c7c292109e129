"""Attempts: what executors report of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cress.lifecycle import kept, ports, readiness, reasons, starts
from cress.lifecycle.effects import Halt
from cress.lifecycle.jobs import maybe_over
from cress.lifecycle.live import LiveAttempt, LiveJob
from cress.lifecycle.outcomes import Judgement, judge, place_of
from cress.model.devices import written
from cress.model.events import Outcome, TaskEnded
from cress.model.records import AttemptRecord
from cress.model.reports import Cause, Checked, Ended, Report, Started

if TYPE_CHECKING:
    from cress.lifecycle.machine import Machine


def reported(machine: Machine, node: str, report: Report) -> None:
    """An executor said something about an attempt."""
    attempt = machine.attempts.get(report.attempt)
    if attempt is None or attempt.node != node:
        # A report that comes twice is no news; but what runs unknown to the machine must not go on.
        if isinstance(report, Started):
            machine.out.halts.append(Halt(report.attempt, 0, node, 0))
        return
    if isinstance(report, Checked):
        readiness.checked(machine, attempt, report)
        return
    if isinstance(report, Started):
        attempt.pid = report.pid
        _runs(machine, attempt, report.at)
        return
    if report.started:
        _runs(machine, attempt, report.started)
    ended(machine, attempt, report)


def _runs(machine: Machine, attempt: LiveAttempt, at: int) -> None:
    job = machine.jobs[attempt.job]
    if not attempt.started:
        starts.succeeded(machine, attempt, job)
    first = not attempt.started
    attempt.started = at
    job.started = job.started or at
    if first and job.kept is not None:
        readiness.started(machine, attempt, job)


def lost(machine: Machine, attempt: LiveAttempt, error: str) -> None:
    """Nobody will ever report the end of an attempt that is over."""
    report = Ended(attempt=attempt.id, cause=Cause.UNKNOWN, code=None, started=0, at=machine.utc, error=error)
    ended(machine, attempt, report)


def ended(machine: Machine, attempt: LiveAttempt, report: Ended) -> None:
    """An attempt is over."""
    job = machine.jobs[attempt.job]
    stopping = machine.core.attempts[attempt.id].stopping
    if job.kept is not None:
        judgement = kept.judge(machine, job, attempt, report, stopping=stopping)
    else:
        judgement = judge(
            job, attempt, report, machine.core.options, stopping=stopping, elsewhere=starts.elsewhere(machine, attempt)
        )
    del machine.attempts[attempt.id]
    del job.attempts[attempt.id]
    _count(job, attempt, judgement, report)
    if job.kept is not None:
        kept.ended(machine, attempt, job, judgement, report, stopping=stopping)
    machine.out.attempts.append(
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
            error=report.error or kept.unhealthy(attempt),
            cpu=report.usage.cpu,
            memory=report.usage.memory,
            ports=attempt.ports,
            devices=written(attempt.devices),
        )
    )
    if report.cause is Cause.PORT:
        ports.taken(machine, attempt, report.port)
    machine.observe(TaskEnded(attempt.id, judgement.outcome, judgement.again, judgement.after))
    if report.cause is Cause.NOT_STARTED and judgement.outcome is Outcome.FAILED:
        starts.failed(machine, attempt, job, report.error, again=judgement.again)
    if report.cause is Cause.NODE:
        starts.no_room(machine, attempt, report.error)
    if judgement.outcome is Outcome.LOST and not judgement.again and job.kept is None:
        job.reason = f"a task of it was lost with its node {attempt.node}; such tasks of it do not run again"
    maybe_over(machine, job)


def _first_failure(job: LiveJob, attempt: LiveAttempt, report: Ended) -> str:
    """Why the job will have failed: how the first of its tasks did."""
    how = reasons.how(report)
    return f"task {attempt.task}: {how}" if how and job.job.tasks > 1 else how


def _count(job: LiveJob, attempt: LiveAttempt, judgement: Judgement, report: Ended) -> None:
    """The counts of the job, and what failures of the task must be remembered."""
    outcome, place = judgement.outcome, place_of(job, attempt)
    if outcome is Outcome.PREEMPTED:
        job.preempted += 1
    elif judgement.again and job.kept is not None:
        pass  # what counts there is counted by its family
    elif outcome is Outcome.FAILED and judgement.again:
        if report.cause is Cause.PORT:
            pass  # neither the task nor its program has done anything
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
            job.reason = job.reason or _first_failure(job, attempt, report)
        job.unstarted.pop(attempt.task, None)
        job.failures.pop(attempt.task, None)
