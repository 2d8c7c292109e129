"""The choice of running tasks that may move now, by the scheduler's rules and the readiness of services."""

from __future__ import annotations

from collections.abc import Collection

from cress.core.moving.movable import cost_of, why_it_stays
from cress.core.moving.plan import Candidates, Stays
from cress.lifecycle.context import Context
from cress.lifecycle.families import replicas
from cress.lifecycle.jobs import members
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveAttempt, LiveJob


def candidates(context: Context, although: Collection[Stays] = ()) -> Candidates:
    """Return the tasks that may move, and the numbers of the others by reason.

    ``although``: the reasons that do not count, to find out what they prevent.
    """
    found = Candidates()
    spare: dict[int, int] = {}
    for attempt in context.attempts.values():
        why = why_not(context, attempt, spare)
        if why is None or why in although:
            found.lost[attempt.id] = cost_of(context.core.books, context.core.attempts[attempt.id])
        else:
            found.stays[why] += 1
    found.stays[Stays.FOREIGN] += len(context.core.books.strangers)
    return found


def why_not(context: Context, attempt: LiveAttempt, spare: dict[int, int] | None = None) -> Stays | None:
    """Return why a task is not moved; ``None`` if it may be.

    ``spare`` has, by the id of a service, the number of its tasks that may move; missing entries are added.
    """
    why = why_it_stays(context.core.books, context.core.attempts[attempt.id])
    if why is not None:
        return why
    job = context.jobs[attempt.job]
    if attempt.halted:
        return Stays.STOPPING
    if not attempt.started:
        return Stays.STARTING
    if job.ending or job.held:
        return Stays.HELD
    family = members.family_of(context, job) if job.kept is not None else None
    return (
        None if family is None else _why_not_of_service(context, family, job, attempt, {} if spare is None else spare)
    )


def _why_not_of_service(
    context: Context, family: Family, job: LiveJob, attempt: LiveAttempt, spare: dict[int, int]
) -> Stays | None:
    state = replicas.state_of(family)
    if state.updating or job.template != family.template:
        return Stays.UPDATING
    if attempt.ready_at is None:
        return Stays.NOT_READY
    number = family.job.id
    if number not in spare:
        ready = sum(replicas.is_ready(member) for member in members.of(context, family))
        spare[number] = ready - family.job.minimum
    return Stays.MINIMUM if spare[number] < 1 else None
