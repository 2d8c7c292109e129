"""The status of the replicas of a service, kept up by index, so that an update never looks at all of them.

Changes of a member are announced by ``mark``. All of it follows from the members: it is made anew after a
restore and whenever the version or the count changes, and no part of the machine's state.
"""

from __future__ import annotations

from collections.abc import Iterable

from cress.lifecycle.context import Context
from cress.lifecycle.tables.family_rows import Family, ReplicaState
from cress.lifecycle.tables.replica_index import Stand, StandingIndex
from cress.lifecycle.tables.rows import LiveJob


def standing(context: Context, family: Family) -> StandingIndex:
    """Return the status of a service; made anew when its version or count has changed."""
    found = context.standings.get(family.job.id)
    if found is None or (found.template, found.tasks) != (family.template, family.job.tasks):
        found = context.standings[family.job.id] = StandingIndex(family)
    return found


def mark(context: Context, job: LiveJob) -> None:
    """Note that a member changed: its attempt, its failures, or whether it is wanted."""
    found = context.standings.get(job.job.family)
    if found is not None:
        found.changed.add(job.index)


def take(context: Context, family: Family) -> list[int]:
    """The indices of which something is new, in order."""
    found = standing(context, family)
    changed, found.changed = sorted(found.changed), set()
    return changed


def again(context: Context, family: Family, index: int) -> None:
    """An index is to be looked at again the next time."""
    standing(context, family).changed.add(index)


def look(context: Context, family: Family, indices: Iterable[int]) -> None:
    """Update the status of these indices."""
    found = standing(context, family)
    for index in indices:
        if index < found.tasks:
            found.set(index, stand_of(context, family, index))


def stand_of(context: Context, family: Family, index: int) -> Stand:
    """Return the status of an index."""
    member = context.jobs.get(family.members.get(index, 0))
    if member is None or member.ending:
        return Stand.MISSING
    failures = family.state.failures.get(index, 0) if isinstance(family.state, ReplicaState) else 0
    ready = any(each.ready_at is not None and not each.halted for each in member.attempts.values())
    if member.template == family.template:
        return Stand.DONE if ready else Stand.STUMBLING if failures else Stand.NEW
    if ready:
        return Stand.OLD_READY
    return Stand.OLD if member.attempts or failures else Stand.IDLE
