"""The end of a replica of a service or database: its meaning, and its traces in the family."""

from __future__ import annotations

from cress.lifecycle.context import Context
from cress.lifecycle.families import replicas, rolling_updates
from cress.lifecycle.jobs import members, reasons
from cress.lifecycle.jobs.members import timer_name
from cress.lifecycle.jobs.outcomes import Judgement, backoff, failed
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.lifecycle.tables.timers import AGAIN, READY, UNFIT
from cress.model.events import Outcome
from cress.model.family import Database, Service
from cress.model.reports import Cause, Ended

# Causes outside the program: its node, the center, or an unobserved end.
_LOST = (Cause.UNKNOWN, Cause.SHUTDOWN, Cause.TERM, Cause.NODE)


def judge(context: Context, job: LiveJob, attempt: LiveAttempt, report: Ended, *, stopping: bool) -> Judgement:
    """Judge the end of an attempt. A life of a database is never retried: the next one is another member."""
    exited = report.cause is Cause.EXITED and report.code == 0
    if job.ending:
        return Judgement(Outcome.SUCCEEDED if exited else Outcome.CANCELLED)
    again = isinstance(job.kept, Service)
    if report.cause in _LOST:
        wanted = job.job.job_failure or bool(attempt.halted) or stopping or report.cause is Cause.NODE
        return Judgement(Outcome.LOST, again and wanted)
    options = context.core.options
    if _fails(attempt, report, stopping=stopping):
        wait = backoff(job.job.backoff, _failures(context, job, attempt), options.backoff_most)
        return Judgement(Outcome.SUCCEEDED if exited else failed(report), again, wait)
    if report.cause is Cause.PORT:
        return Judgement(Outcome.FAILED, again, options.start_backoff)
    return Judgement(Outcome.PREEMPTED if again else Outcome.CANCELLED, again)


def _fails(attempt: LiveAttempt, report: Ended, *, stopping: bool) -> bool:
    """Return whether an end is the program's failure; exit code 0 counts as one too."""
    if report.cause in _LOST or report.cause is Cause.PORT:
        return False
    return attempt.halted == replicas.UNHEALTHY or not (attempt.halted or stopping or report.cause is Cause.STOPPED)


def unhealthy(attempt: LiveAttempt) -> str:
    """Return the failed check that stopped the attempt, as a reason; empty if there is none."""
    if attempt.halted != replicas.UNHEALTHY:
        return ""
    return f"not alive: {attempt.unwell}" if attempt.unwell else "not alive"


def _failures(context: Context, job: LiveJob, attempt: LiveAttempt) -> int:
    """Return the number of failures in a row before this one; 0 if it was ready for long enough since."""
    failures = replicas.state_of(context.families[job.job.family]).failures.get(job.index, 0)
    return 0 if failures and replicas.is_calm(context, job, attempt, failures) else failures


def ended(
    context: Context, attempt: LiveAttempt, job: LiveJob, judgement: Judgement, report: Ended, *, stopping: bool
) -> None:
    """Update the family after an attempt of a member has ended."""
    family = context.families[job.job.family]
    state, index = replicas.state_of(family), job.index
    name = timer_name(family, index)
    context.timers.drop(READY, name)
    context.timers.drop(UNFIT, name)
    members.touch(context, job)
    family.started = family.started or attempt.started
    if isinstance(job.kept, Database):
        if attempt.started or report.cause is Cause.UNKNOWN:
            state.nodes[index] = attempt.node
            context.homes.setdefault(attempt.node, set()).add(family.job.id)
            state.moved.pop(index, None)
        if judgement.after and not job.ending:
            context.timers.set(AGAIN, name, context.now + judgement.after)
    elif judgement.outcome is Outcome.LOST and not judgement.again and not job.ending and not state.updating:
        state.lost[index] = attempt.node
    how = unhealthy(attempt) or reasons.how(report, job.job)
    if judgement.after:
        state.ends[index] = how
    if job.ending or not _fails(attempt, report, stopping=stopping):
        return
    failures = state.failures[index] = _failures(context, job, attempt) + 1
    if failures >= rolling_updates.UNFIT_FAILURES and state.proven.get(index) != job.template:
        rolling_updates.unfit(
            context, family, job, f"failed {failures} times before it was ever ready{_at_last(report, how)}"
        )


def _at_last(report: Ended, how: str) -> str:
    if not how:
        return ""
    return f", at last with {how}" if how == reasons.exit_of(report) else f": {how}"
