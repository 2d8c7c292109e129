"""The status of the replicas of a service, maintained by index, so that an update never looks at all of them.

Changes of a member are announced by ``mark``. The index is derived from the members and is not part of the machine's
state: it is rebuilt after a restore, and when the version or the count changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from cress.lifecycle.context import Context
from cress.lifecycle.tables.family_rows import Family, ReplicaState
from cress.lifecycle.tables.replica_index import ReplicaIndex, ReplicaStatus
from cress.lifecycle.tables.rows import LiveJob


def replica_index_of(context: Context, family: Family) -> ReplicaIndex:
    """Return the status index of a service; rebuilt when its version or count has changed."""
    found = context.replica_indices.get(family.job.id)
    if found is None or (found.template, found.tasks) != (family.template, family.job.tasks):
        found = context.replica_indices[family.job.id] = ReplicaIndex(family)
    return found


def mark(context: Context, job: LiveJob) -> None:
    """Note that a member changed: its attempt, its failures, or a hold or end."""
    found = context.replica_indices.get(job.job.family)
    if found is not None:
        found.changed.add(job.index)


def take(context: Context, family: Family) -> list[int]:
    """Return the changed indices, in order, and clear them."""
    found = replica_index_of(context, family)
    changed, found.changed = sorted(found.changed), set()
    return changed


def again(context: Context, family: Family, index: int) -> None:
    """Mark an index for another look the next time."""
    replica_index_of(context, family).changed.add(index)


def look(context: Context, family: Family, indices: Iterable[int]) -> None:
    """Update the status of these indices."""
    found = replica_index_of(context, family)
    for index in indices:
        if index < found.tasks:
            found.set(index, status_of(context, family, index))


def status_of(context: Context, family: Family, index: int) -> ReplicaStatus:
    """Return the status of an index."""
    member = context.jobs.get(family.members.get(index, 0))
    if member is None or member.ending:
        return ReplicaStatus.MISSING
    failures = family.state.failures.get(index, 0) if isinstance(family.state, ReplicaState) else 0
    ready = any(attempt.ready_at is not None and not attempt.halted for attempt in member.attempts.values())
    if member.template == family.template:
        return ReplicaStatus.DONE if ready else ReplicaStatus.STUMBLING if failures else ReplicaStatus.NEW
    if ready:
        return ReplicaStatus.OLD_READY
    return ReplicaStatus.OLD if member.attempts or failures else ReplicaStatus.IDLE
