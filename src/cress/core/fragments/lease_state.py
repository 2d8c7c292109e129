"""Leases of workloads as stored in a state, and their restoration."""

from __future__ import annotations

from cress.core.books import Books
from cress.core.jobs import Attempt, WorkloadLease
from cress.core.kernels.holding import END
from cress.core.stored.fields import KeptLease, fields_of
from cress.core.stored.state import LendingState, StoredAttempt, StoredLease
from cress.model.resources import ResourceVector
from cress.model.times import NEVER


def export_leases(core: Books) -> LendingState:
    """Return all leases of workloads and the limit of loans."""
    return LendingState(limit=core.pool.limit.export(), leases=[_lease(lease) for lease in core.pool.leases.values()])


def _lease(lease: WorkloadLease) -> StoredLease:
    return StoredLease(
        **fields_of(lease, KeptLease),
        group=lease.workload.group.name,
        workload=lease.workload.name,
        idle=[(part.device, part.amounts) for _, part in sorted(lease.idle.items())],
        awaited=lease.workload.awaited.get(lease.node, 0),
    )


def restore_leases(core: Books, state: LendingState) -> None:
    """Enter exported leases; running tasks are entered afterwards."""
    pool = core.pool
    if state.limit is not None:
        pool.limit.restore(state.limit)
    for stored in state.leases:
        lease = pool.enter(stored.id, core.groups.get(stored.group), stored.workload, stored.node)
        for name, value in fields_of(stored, KeptLease).items():
            setattr(lease, name, value)
        if stored.awaited:
            lease.workload.awaited[lease.node] = stored.awaited
        for piece in stored.idle:
            pool.put(lease, piece)
    waiting = [lease for lease in pool.leases.values() if lease.idle_since < NEVER]
    pool.waiting = {lease.id: lease for lease in sorted(waiting, key=lambda lease: (lease.idle_since, lease.id))}


def parts_of(core: Books, attempt: Attempt) -> tuple[tuple[int, int, ResourceVector, int], ...]:
    """Return the parts that a task holds beside its row: lease or 0, device, amounts, end."""
    ends = core.cluster.leases[:, END]
    return tuple(
        (0 if part.lease is None else part.lease.id, part.device, part.amounts, int(ends[part.slot]))
        for part in attempt.parts
    )


def inside_of(attempt: Attempt) -> tuple[tuple[int, int, ResourceVector], ...]:
    """Return the parts of a task's row that belong to leases: lease, device, amounts."""
    return tuple((lease.id, device, amounts) for lease, (device, amounts) in attempt.inside)


def restore_use(core: Books, attempt: Attempt, stored: StoredAttempt) -> None:
    """Enter the parts of leases that a task has."""
    for number, device, amounts, end in stored.parts:
        piece = (device, amounts)
        if number:
            core.pool.lend(core.pool.leases[number], piece, attempt)
        else:
            core.pool.hold_beside(attempt, piece, end)
    for number, device, amounts in stored.inside:
        lease = core.pool.leases[number]
        lease.tasks[attempt.id] = attempt
        attempt.inside += ((lease, (device, amounts)),)
    held = core.pool.leases.get(attempt.id)
    if held is not None and attempt.job.job.is_lease:
        held.holder = attempt
