"""The reason of the end of an attempt, as a sentence for its record."""

from __future__ import annotations

from cress.core.answers.preempted import rule_of
from cress.lifecycle.context import Context
from cress.lifecycle.families import replica_ends
from cress.lifecycle.jobs import reasons
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.decisions import Preempt, Stop
from cress.model.events import FAILURES, Outcome
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job
from cress.model.reports import Cause, Ended

_LOST = {
    Cause.TERM: "node {node} did not hear from the center for longer than a term, and stopped it",
    Cause.SHUTDOWN: "the executor of node {node} was stopped, and its tasks with it",
}
_GANG = "another task of its gang ended; the gang starts again as a whole"


def moved_with(leader: Job) -> str:
    """Return the reason of an attempt that moves to another node with a job."""
    name = f" ({leader.name})" if leader.name else ""
    return f"restarts on another node together with job {leader.counted_as}{name}, on which it depends"


def preempted_for(context: Context, fact: Preempt) -> str:
    """Return the reason of a preempted attempt: the beneficiary, and the rule with the numbers of this moment."""
    job = context.jobs[fact.by].job
    name = f" ({job.name})" if job.name else ""
    rule = rule_of(context.core.books, fact) if context.keeps_rules else ""
    return f"preempted for job {job.counted_as}{name} of group {job.group or DEFAULT_GROUP}" + (rule and f": {rule}")


def without_rule(reason: str) -> tuple[str, str]:
    """Return the reason of a preemption without its rule, and the rule; other reasons have none."""
    if not reason.startswith("preempted for job "):
        return reason, ""
    why, _, rule = reason.partition(": ")
    return why, rule


def left_for(context: Context, fact: Stop) -> str:
    """Return the reason of an attempt that is stopped for an advance reservation."""
    kept = context.core.advance_reservations.by_name.get(fact.reservation)
    group = context.jobs[fact.job].job.group or DEFAULT_GROUP
    if kept is None or kept.spec.group == group:
        return f"reservation {fact.reservation} ended"
    if kept.spec.is_maintenance:
        return f"node {fact.node} is under maintenance ({fact.reservation})"
    return f"node {fact.node} is kept for reservation {fact.reservation} of group {kept.spec.group}"


def reason_of(job: LiveJob, attempt: LiveAttempt, report: Ended, outcome: Outcome) -> str:
    """Return the reason of the end of an attempt; empty if its exit code says it all."""
    known = report.error or replica_ends.unhealthy(attempt)
    if outcome in FAILURES and report.cause in (Cause.TIME_LIMIT, Cause.MEMORY):
        return reasons.how(report, job.job)
    if known:
        return known
    if outcome is Outcome.CANCELLED:
        return f"the job failed: {job.reason}" if job.failing and job.reason else job.reason
    if outcome is Outcome.LOST:
        return _LOST.get(report.cause, "").format(node=attempt.node)
    if outcome is Outcome.PREEMPTED:
        return attempt.halted_for or (_GANG if attempt.halted == "gang" else "")
    return ""
