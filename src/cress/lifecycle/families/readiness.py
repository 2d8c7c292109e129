"""Readiness and liveness of the tasks of services and databases, by their checks or by time."""

from __future__ import annotations

from cress.lifecycle.context import Context
from cress.lifecycle.effects import Halt
from cress.lifecycle.families import replicas, rolling_updates
from cress.lifecycle.jobs import members
from cress.lifecycle.jobs.members import timer_name
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.lifecycle.tables.timers import READY, UNFIT
from cress.model.reports import Checked
from cress.model.units import format_duration


def started(context: Context, attempt: LiveAttempt, job: LiveJob) -> None:
    """Handle the start of a member's program."""
    family = context.families[job.job.family]
    state, name = replicas.state_of(family), timer_name(family, job.index)
    family.started = family.started or attempt.started
    members.touch(context, job)
    if job.ending or attempt.halted or job.kept is None:
        return
    if state.proven.get(job.index) != job.template:
        context.timers.set(UNFIT, name, context.now + replicas.plan_of(family).update_timeout)
    if not job.kept.checked:
        context.timers.set(READY, name, context.now + job.kept.ready_after)
        if not job.kept.ready_after:
            context.timers.drop(READY, name)
            _ready(context, family, job, attempt)


def checked(context: Context, attempt: LiveAttempt, report: Checked) -> None:
    """Handle the result of the checks of an attempt."""
    job = context.jobs[attempt.job]
    if job.kept is None:
        return
    family = context.families[job.job.family]
    attempt.unwell = report.why
    if not report.alive and not attempt.halted and not job.ending:
        attempt.halted = replicas.UNHEALTHY
        context.out.halts.append(Halt(attempt.id, attempt.job, attempt.node))
    if not job.kept.checked:
        pass  # readiness depends on time alone
    elif report.ready and report.alive:
        _ready(context, family, job, attempt)
    elif attempt.ready_at is not None:
        _calm_down(context, family, job, attempt)
        attempt.ready_at = None
    members.touch(context, job)


def due(context: Context, family: Family, kind: str, index: int) -> None:
    """Handle a timer: a task without a check is ready now; one of a new version should be ready by now."""
    member = context.jobs.get(family.members.get(index, 0))
    attempt = replicas.attempt_of(member) if member is not None else None
    if member is None or attempt is None or member.ending or attempt.halted:
        return
    members.touch(context, member)
    if kind == READY:
        _ready(context, family, member, attempt)
    elif kind == UNFIT and attempt.ready_at is None:
        rolling_updates.unfit(context, family, member, _late(family, attempt))


def never_ready(context: Context, family: Family) -> tuple[str, int]:
    """Return why the newest version would be rolled back if there were an earlier one, and the task's failures in a
    row.

    An empty reason: there is no evidence against it.
    """
    state = replicas.state_of(family)
    if not state.updating:
        return "", 0
    lives = members.alive(context, family)
    for index in range(family.job.tasks):
        member = lives.get(index)
        template = member.template if member is not None else state.ran.get(index, 0)
        if template != family.template or state.proven.get(index) == template:
            continue
        failures = state.failures.get(index, 0)
        if failures >= rolling_updates.UNFIT_FAILURES:
            how = state.ends.get(index, "")
            return f"task {index} failed {failures} times before it was ever ready{f': {how}' if how else ''}", failures
        attempt = replicas.attempt_of(member) if member is not None else None
        if attempt is None or not attempt.started or attempt.ready_at is not None or attempt.halted:
            continue
        if context.timers.get(UNFIT, timer_name(family, index)) is None:
            return f"task {index} {_late(family, attempt)}", failures
    return "", 0


def _late(family: Family, attempt: LiveAttempt) -> str:
    timeout = format_duration(replicas.plan_of(family).update_timeout)
    return f"was not ready {timeout} after its start{f': {attempt.unwell}' if attempt.unwell else ''}"


def _ready(context: Context, family: Family, job: LiveJob, attempt: LiveAttempt) -> None:
    if attempt.ready_at is None:
        attempt.ready_at = context.now
    replicas.state_of(family).proven[job.index] = job.template
    context.timers.drop(UNFIT, timer_name(family, job.index))


def _calm_down(context: Context, family: Family, job: LiveJob, attempt: LiveAttempt) -> None:
    """Forget failures when a task stops being ready after long enough: at its end this is no longer known."""
    failures = replicas.state_of(family).failures
    if job.index in failures and replicas.is_calm(context, job, attempt, failures[job.index]):
        del failures[job.index]
