"""Leases of workloads as plain data, and back."""

from __future__ import annotations

from typing import Any, TypeAlias

from cress.core.books import Books
from cress.core.jobs import Attempt, LeaseRow, WorkloadLease
from cress.core.kernels.holding import END
from cress.model.times import NEVER

State: TypeAlias = dict[str, Any]


def export_leases(core: Books) -> State:
    """Return all leases of workloads and the limit of loans."""
    return {"limit": core.pool.limit.export(), "leases": [_lease(lease) for lease in core.pool.leases.values()]}


def _lease(lease: WorkloadLease) -> State:
    return {
        "id": lease.id,
        "group": lease.workload.group.name,
        "workload": lease.workload.name,
        "node": lease.node,
        "idle": [[part.device, list(part.amounts)] for _, part in sorted(lease.idle.items())],
        "idle_since": lease.idle_since,
        "end": lease.end,
        "wanted": list(lease.wanted),
        "mask": lease.mask,
        "awaited": lease.workload.awaited.get(lease.node, 0),
    }


def restore_leases(core: Books, state: State) -> None:
    """Enter exported leases; the tasks that run are entered afterwards."""
    pool = core.pool
    pool.limit.restore(state["limit"])
    for entry in state["leases"]:
        lease = pool.enter(entry["id"], core.groups.get(entry["group"]), entry["workload"], entry["node"])
        lease.end, lease.idle_since = entry["end"], entry["idle_since"]
        lease.wanted, lease.mask = tuple(entry["wanted"]), entry["mask"]
        if entry.get("awaited"):
            lease.workload.awaited[lease.node] = entry["awaited"]
        for device, amounts in entry["idle"]:
            pool.put(lease, (device, tuple(amounts)))
    waiting = [lease for lease in pool.leases.values() if lease.idle_since < NEVER]
    pool.waiting = {lease.id: lease for lease in sorted(waiting, key=lambda lease: (lease.idle_since, lease.id))}


def export_use(core: Books, attempt: Attempt) -> State:
    """Return what a task has of leases; nothing of it if it has none."""
    if not (attempt.parts or attempt.inside):
        return {}
    return {
        "parts": [_part(core, part) for part in attempt.parts],
        "inside": [[lease.id, device, list(amounts)] for lease, (device, amounts) in attempt.inside],
        "yields": attempt.yields,
    }


def _part(core: Books, part: LeaseRow) -> list[Any]:
    end = int(core.cluster.leases[part.slot, END])
    return [0 if part.lease is None else part.lease.id, part.device, list(part.amounts), end]


def restore_use(core: Books, attempt: Attempt, entry: State) -> None:
    """Enter what a task has of leases."""
    for number, device, amounts, end in entry.get("parts", ()):
        piece = (device, tuple(amounts))
        if number:
            core.pool.lend(core.pool.leases[number], piece, attempt)
        else:
            core.pool.hold_beside(attempt, piece, end)
    for number, device, amounts in entry.get("inside", ()):
        lease = core.pool.leases[number]
        lease.tasks[attempt.id] = attempt
        attempt.inside.append((lease, (device, tuple(amounts))))
    held = core.pool.leases.get(attempt.id)
    if held is not None and attempt.job.job.is_lease:
        held.holder = attempt
    attempt.yields = entry.get("yields", False)
