"""The search for borrowers that give back what the owner of a lease needs (source F, design note 0024)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cress.core.books import Books
from cress.core.fragments.search import booked_on, is_open
from cress.core.jobs import NO_DEVICE, Attempt, JobEntry, Piece, Workload
from cress.core.kernels.devices import LEFT, WIDTH, device_copies, first_device
from cress.core.kernels.holding import AMOUNTS, FREE
from cress.core.tables import devices
from cress.core.tables.arrays import Ints
from cress.model.decisions import LeasePart
from cress.model.resources import ResourceVector


@dataclass(frozen=True)
class Reclaim:
    """The borrowers on node ``f`` that make room for a task of the owner, and what leases of its workload bring."""

    f: int
    attempts: list[Attempt]
    leased: tuple[LeasePart, ...]


def find_reclaim(core: Books, job: JobEntry, workload: Workload) -> Reclaim | None:
    """Return the borrowers of a workload whose end makes room for its next task, with the least lost work."""
    best: tuple[int, int, int] | None = None
    found: Reclaim | None = None
    for f in workload.lent_on:
        if not is_open(core, job, f):
            continue
        reclaim = _reclaim_on(core, job, workload, f)
        if reclaim is None:
            continue
        cost = _lost_work(core, reclaim.attempts), len(reclaim.attempts), f
        if best is None or cost < best:
            best, found = cost, reclaim
    return found


def _reclaim_on(core: Books, job: JobEntry, workload: Workload, f: int) -> Reclaim | None:
    """Return the borrowers on one node that give back enough: with the least lost work first, those that are not needed left out."""
    coming = _Coming(core, job, f)
    idle = [part for _, lease in sorted(workload.idle_on.get(f, {}).items()) for _, part in sorted(lease.idle.items())]
    for part in idle:
        coming.add(part.device, part.amounts, 1)
    brings: dict[int, list[Piece]] = {}
    borrowers: list[Attempt] = []
    for _, lease in sorted(workload.lent_on[f].items()):
        for part in lease.lent:
            borrower = part.borrower
            assert borrower is not None
            # One that was moved to the group of the workload it borrows of may be of the same job: nothing would be won.
            if borrower.stopping or borrower.job is job:
                continue
            if borrower.id not in brings:
                borrowers.append(borrower)
            brings.setdefault(borrower.id, []).append((part.device, part.amounts))
    taken: list[Attempt] = []
    for attempt in sorted(borrowers, key=lambda each: (_lost_work(core, [each]), -each.id)):
        if coming.suffices():
            break
        coming.add_ended(attempt, brings[attempt.id], 1)
        taken.append(attempt)
    if not coming.suffices():
        return None
    for attempt in reversed(taken.copy()):
        coming.add_ended(attempt, brings[attempt.id], -1)
        if coming.suffices():
            taken.remove(attempt)
        else:
            coming.add_ended(attempt, brings[attempt.id], 1)
    if not taken:
        return None
    leased = [core.pool.named(part.lease.id, f, (part.device, part.amounts)) for part in idle if part.lease is not None]
    leased += [core.pool.named(0, f, piece) for attempt in taken for piece in brings[attempt.id]]
    return Reclaim(f, taken, tuple(leased))


class _Coming:
    """Sum of what a node will have for a task of the owner: unallocated amounts beside bookings, idle parts, and what borrowers give back."""

    def __init__(self, core: Books, job: JobEntry, f: int) -> None:
        cluster, booked = core.cluster, booked_on(core)
        free = cluster.nodes[f, FREE : FREE + cluster.k_count]
        self._core, self._f, self._shape = core, f, job.shape
        # What others are promised comes from what is unallocated, not from leases.
        self._level = np.maximum(free - booked[f], 0) if len(booked) else free.copy()
        self._row = cluster.nodes[f].copy()

    def add(self, device: int, amounts: ResourceVector, sign: int) -> None:
        """Add amounts, or subtract them (``sign`` -1)."""
        self._level += sign * np.array(amounts, np.int64)
        _free_device(self._core, self._row, self._f, device, amounts, sign)

    def add_ended(self, attempt: Attempt, pieces: list[Piece], sign: int) -> None:
        """Add what the end of a borrower frees: its own row, and these parts."""
        held = self._core.cluster.leases[attempt.slot, AMOUNTS : AMOUNTS + self._core.cluster.k_count]
        self._level += sign * held
        for device, amounts in pieces:
            self.add(device, amounts, sign)

    def suffices(self) -> bool:
        """Return whether the task fits, on devices too."""
        cluster, shape = self._core.cluster, self._shape
        return bool(np.all(self._level >= shape.request_array)) and (
            not devices.cares(cluster, shape.ask) or bool(device_copies(self._row, shape.ask, cluster.k_count, False))
        )


def _free_device(core: Books, row: Ints, f: int, device: int, amounts: ResourceVector, sign: int = 1) -> None:
    if device != NO_DEVICE:
        at, on = first_device(core.cluster.k_count) + device * WIDTH, core.pool.dimensions_on(f, device)
        row[at + LEFT : at + LEFT + len(on)] += np.array([sign * amounts[k] for k in on], np.int64)


def _lost_work(core: Books, attempts: Iterable[Attempt]) -> int:
    return sum((core.now - each.start) * max(1, each.amounts[0]) for each in attempts)
