"""What services and databases have in common: members of one task each, which are started again for ever."""

from __future__ import annotations

import msgspec

from cress.lifecycle import members, reasons, rolling
from cress.lifecycle.context import Context
from cress.lifecycle.family import Family, Kept, Version
from cress.lifecycle.live import LiveAttempt, LiveJob
from cress.lifecycle.members import timer_name
from cress.lifecycle.outcomes import Judgement, backoff
from cress.lifecycle.timers import AGAIN, READY, UNFIT
from cress.model.errors import InputError
from cress.model.events import Outcome
from cress.model.family import Database, Service
from cress.model.job import Job
from cress.model.reports import Cause, Ended
from cress.model.times import MINUTE

UNHEALTHY = "unhealthy"

# A task that was ready for so many times its current wait, and at least so long (µs), has got over its failures.
CALM, CALM_LEAST = 10, MINUTE

# Its node, or the center, or nobody knows what: not the doing of the program.
_LOST = (Cause.UNKNOWN, Cause.SHUTDOWN, Cause.TERM, Cause.NODE)


def state_of(family: Family) -> Kept:
    """What a service or database knows; it begins with nothing."""
    if not isinstance(family.state, Kept):
        family.state = Kept()
    return family.state


def plan_of(family: Family) -> Service | Database:
    """The plan of a service or database."""
    assert isinstance(family.job.plan, Service | Database)
    return family.job.plan


def check(job: Job) -> None:
    """Raise ``InputError`` if a service or database makes no sense."""
    if job.gang:
        raise InputError(f"the tasks of a {job.type.value} are not a gang", hint="leave it out", field="gang")
    plan = job.plan
    assert isinstance(plan, Service | Database)
    for name in ("ready_after", "update_timeout", "move_after"):
        if getattr(plan, name, 0) < 0:
            raise InputError(f"{getattr(plan, name)} µs", hint="0 or more", field=name)


def make(context: Context, family: Family, index: int, version: Version | None = None, requirement: str = "") -> None:
    """A new member for an index, of the newest version or of another one; ``requirement``: in place of its own."""
    version = version or Version(family.template, family.job)
    state = state_of(family)
    if state.ran.get(index, version.template) != version.template:
        state.failures.pop(index, None)
    state.ran[index] = version.template
    job = msgspec.structs.replace(
        version.job,
        tasks=1,
        group=family.job.group,
        requirement=requirement or version.job.requirement,
        # A life of a database ends with its attempt, however that ends.
        job_failure=isinstance(family.job.plan, Service),
    )
    live = members.make(context, family, job, index, version.template)
    if live is not None:
        assert isinstance(version.job.plan, Service | Database)
        live.kept = version.job.plan


def attempt_of(member: LiveJob) -> LiveAttempt | None:
    """The attempt of a member of one task."""
    return next(iter(member.attempts.values()), None)


def is_ready(member: LiveJob | None) -> bool:
    """Whether the task of a member is ready, and nobody wants it to stop."""
    attempt = attempt_of(member) if member is not None and not member.ending else None
    return attempt is not None and attempt.ready_at is not None and not attempt.halted


def judge(context: Context, job: LiveJob, attempt: LiveAttempt, report: Ended, *, stopping: bool) -> Judgement:
    """What the end of an attempt means. A life of a database is never tried again: the next one is another member."""
    exited = report.cause is Cause.EXITED and report.code == 0
    if job.ending:
        return Judgement(Outcome.SUCCEEDED if exited else Outcome.CANCELLED)
    again = isinstance(job.kept, Service)
    if report.cause in _LOST:
        return Judgement(Outcome.LOST, again)
    options = context.core.options
    if _fails(attempt, report, stopping=stopping):
        wait = backoff(job.job.backoff, _failures(context, job, attempt), options.backoff_most)
        return Judgement(Outcome.SUCCEEDED if exited else Outcome.FAILED, again, wait)
    if report.cause is Cause.PORT:
        return Judgement(Outcome.FAILED, again, options.start_backoff)
    return Judgement(Outcome.PREEMPTED if again else Outcome.CANCELLED, again)


def why(context: Context, family: Family, now: int) -> str:
    """Why the first task that waits does."""
    for index, member in members.alive(context, family).items():
        waits = reasons.reason(context, member.job.id, now) if index < family.job.tasks else ""
        if waits:
            return f"task {index}: {waits}"
    return ""


def _fails(attempt: LiveAttempt, report: Ended, *, stopping: bool) -> bool:
    """Whether an end is the doing of the program, also if it ended as if all was done."""
    if report.cause in _LOST or report.cause is Cause.PORT:
        return False
    return attempt.halted == UNHEALTHY or not (attempt.halted or stopping or report.cause is Cause.STOPPED)


def unhealthy(attempt: LiveAttempt) -> str:
    """Why an attempt was stopped that its check found not alive; empty for all others."""
    if attempt.halted != UNHEALTHY:
        return ""
    return f"not alive: {attempt.unwell}" if attempt.unwell else "not alive"


def _failures(context: Context, job: LiveJob, attempt: LiveAttempt) -> int:
    """How often it failed in a row before, unless it was ready for long enough since."""
    failures = state_of(context.families[job.job.family]).failures.get(job.index, 0)
    return 0 if failures and is_calm(context, job, attempt, failures) else failures


def is_calm(context: Context, job: LiveJob, attempt: LiveAttempt, failures: int) -> bool:
    """Whether it was ready for so long that its failures before do not count any more."""
    if attempt.ready_at is None:
        return False
    wait = backoff(job.job.backoff, failures - 1, context.core.options.backoff_most)
    return context.now - attempt.ready_at >= max(CALM_LEAST, CALM * wait)


def ended(
    context: Context, attempt: LiveAttempt, job: LiveJob, judgement: Judgement, report: Ended, *, stopping: bool
) -> None:
    """An attempt of a member ended: what its family remembers of that."""
    family = context.families[job.job.family]
    state, index = state_of(family), job.index
    name = timer_name(family, index)
    context.timers.drop(READY, name)
    context.timers.drop(UNFIT, name)
    members.touch(context, job)
    family.started = family.started or attempt.started
    if isinstance(job.kept, Database):
        if attempt.started or report.cause is Cause.UNKNOWN:
            state.nodes[index] = attempt.node
            state.moved.pop(index, None)
        if judgement.after and not job.ending:
            context.timers.set(AGAIN, name, context.now + judgement.after)
    how = unhealthy(attempt) or reasons.how(report)
    if judgement.after:
        state.ends[index] = how
    if job.ending or not _fails(attempt, report, stopping=stopping):
        return
    failures = state.failures[index] = _failures(context, job, attempt) + 1
    if failures >= rolling.UNFIT_FAILURES and state.proven.get(index) != job.template:
        rolling.unfit(context, family, job, f"failed {failures} times before it was ever ready{_at_last(report, how)}")


def _at_last(report: Ended, how: str) -> str:
    if not how:
        return ""
    return f", at last with {how}" if how == reasons.how(report) and not report.error else f": {how}"
