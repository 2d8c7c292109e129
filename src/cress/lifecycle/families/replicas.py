"""Replicas of services and databases: members of one task each, replaced whenever they end."""

from __future__ import annotations

import msgspec

from cress.lifecycle.context import Context
from cress.lifecycle.jobs import members, reasons, replica_status
from cress.lifecycle.jobs.outcomes import backoff
from cress.lifecycle.tables.family_rows import Family, ReplicaState, Version
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.errors import InputError
from cress.model.family import Database, Service
from cress.model.job import Job
from cress.model.times import MINUTE

UNHEALTHY = "unhealthy"

# Failures are forgotten once a task was ready for this multiple of its current wait, and for at least this time (µs).
CALM, CALM_LEAST = 10, MINUTE


def state_of(family: Family) -> ReplicaState:
    """Return the state of a service or database; create it if missing."""
    if not isinstance(family.state, ReplicaState):
        family.state = ReplicaState()
    return family.state


def plan_of(family: Family) -> Service | Database:
    """Return the plan of a service or database."""
    assert isinstance(family.job.plan, Service | Database)
    return family.job.plan


def check(job: Job) -> None:
    """Raise ``InputError`` if a service or database is invalid."""
    plan = job.plan
    if job.gang and isinstance(plan, Database):
        what = "the tasks of a database do not start together: each waits until the one before it is ready"
        raise InputError(what, hint="leave it out, or type: service", field="gang")
    assert isinstance(plan, Service | Database)
    for name in ("ready_after", "update_timeout", "move_after"):
        if getattr(plan, name, 0) < 0:
            raise InputError(f"{getattr(plan, name)} µs", hint="0 or more", field=name)


def make(context: Context, family: Family, index: int, version: Version | None = None, requirement: str = "") -> None:
    """Make a new member for an index, of the newest version or of ``version``; ``requirement`` replaces its own."""
    version = version or Version(family.template, family.job)
    state = state_of(family)
    first = starts_with(context, family, index)
    if state.ran.get(index, version.template) != version.template:
        state.failures.pop(index, None)
    state.ran[index] = version.template
    job = msgspec.structs.replace(
        version.job,
        tasks=1,
        gang=False,
        starts_with=first,
        group=family.job.group,
        requirement=requirement or version.job.requirement,
        # A life of a database ends with its attempt, for any reason.
        job_failure=isinstance(family.job.plan, Service) and version.job.job_failure,
    )
    live = members.make(context, family, job, index, version.template)
    if live is not None:
        assert isinstance(version.job.plan, Service | Database)
        live.kept = version.job.plan


def starts_with(context: Context, family: Family, index: int) -> int:
    """Return the member with which a new member for an index starts together: itself if it is the first one that waits
    so; 0 if it starts by itself.

    With ``gang``, the tasks of a first start and those that are added later start together. A task that ran is
    replaced by itself, because the others go on.
    """
    state = state_of(family)
    if index in state.alone:
        state.alone = tuple(other for other in state.alone if other != index)
        return 0
    if not family.job.gang:
        return 0
    waiting = (live for live in members.of(context, family) if waits_whole(live) and not live.ending)
    return next((live.job.starts_with for live in waiting), context.next_job)


def note_end(family: Family, member: LiveJob) -> None:
    """Note the end of a member that ran: the next one for its index starts by itself."""
    if family.job.gang and member.index < family.job.tasks and not waits_whole(member):
        state = state_of(family)
        state.alone = (*state.alone, member.index)


def waits_whole(live: LiveJob) -> bool:
    """Return True if a member has never started and waits to start together with others."""
    return bool(live.job.starts_with) and not (live.started or live.attempts)


def attempt_of(member: LiveJob) -> LiveAttempt | None:
    """Return the attempt of a member, which has one task."""
    return next(iter(member.attempts.values()), None)


def is_ready(member: LiveJob | None) -> bool:
    """Return whether the task of a member is ready and not stopping."""
    attempt = attempt_of(member) if member is not None and not member.ending else None
    return attempt is not None and attempt.ready_at is not None and not attempt.halted


def why(context: Context, family: Family, now: int) -> str:
    """Return why the first waiting task waits."""
    for index, member in members.alive(context, family).items():
        waits = reasons.reason(context, member.job.id, now) if index < family.job.tasks else ""
        if waits:
            return f"task {index}: {waits}"
    for index, node in sorted(state_of(family).lost.items()):
        return (
            f"task {index} was lost with node {node} and is not replaced (job_failure: false); `cress scale` "
            "replaces it"
        )
    return ""


def replace_lost(context: Context, family: Family) -> None:
    """Allow tasks that were lost with their nodes to be replaced."""
    state = state_of(family)
    for index in list(state.lost):
        del state.lost[index]
        replica_status.again(context, family, index)


def is_calm(context: Context, job: LiveJob, attempt: LiveAttempt, failures: int) -> bool:
    """Return whether a task was ready for so long that earlier failures no longer count."""
    if attempt.ready_at is None:
        return False
    wait = backoff(job.job.backoff, failures - 1, context.core.options.backoff_most)
    return context.now - attempt.ready_at >= max(CALM_LEAST, CALM * wait)
