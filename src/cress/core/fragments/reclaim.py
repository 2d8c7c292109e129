"""The search for tasks that must leave leases so that the owner gets room (source F, design note 0024).

The amounts of a held lease stay in it, and its workload waits there for the tasks that leave. From other leases a
claim takes the amounts that become free.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

import numpy as np

from cress.core.books import Books
from cress.core.fragments.search import add_to_device, booked_on, device_row, is_open, pieces_on, spare_on
from cress.core.jobs import NO_DEVICE, Attempt, GroupWorkload, JobEntry, Piece
from cress.core.kernels.devices import device_copies
from cress.core.tables import devices
from cress.model.decisions import LeasePart
from cress.model.resources import ResourceVector


@dataclass(frozen=True)
class Reclaim:
    """The borrowers on node ``f`` that make room for a task of the owner, and the parts from leases of its workload."""

    f: int
    attempts: list[Attempt]
    leased: tuple[LeasePart, ...]


def find_reclaim(core: Books, job: JobEntry, workload: GroupWorkload) -> Reclaim | None:
    """Return the borrowers from a workload whose end makes room for its next task with the least lost work.

    Borrowers from held leases are left out.
    """
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


def _reclaim_on(core: Books, job: JobEntry, workload: GroupWorkload, f: int) -> Reclaim | None:
    """Return borrowers on one node that give back enough: the least lost work first, without needless ones."""
    coming = _Coming(core, job, f)
    idle = [
        part
        for _, lease in sorted(workload.idle_on.get(f, {}).items())
        if lease.holder is None
        for _, part in sorted(lease.idle.items())
    ]
    for part in idle:
        coming.add(part.device, part.amounts, 1)
    brings: dict[int, list[Piece]] = {}
    borrowers: list[Attempt] = []
    for _, lease in sorted(workload.lent_on[f].items()):
        for part in lease.lent if lease.holder is None else ():
            borrower = part.borrower
            assert borrower is not None
            # A borrower that moved to the group of the workload may belong to the same job; its end would gain nothing.
            if borrower.stopping or borrower.job is job or _has_of_held(borrower):
                continue
            if borrower.id not in brings:
                borrowers.append(borrower)
            brings.setdefault(borrower.id, []).append((part.device, part.amounts))
    borrowers.sort(key=lambda task: (_lost_work(core, [task]), -task.id))
    taken = coming.fewest(borrowers, lambda task, sign: coming.add_ended(task, brings[task.id], sign))
    if not taken:
        return None
    leased = [core.pool.named(part.lease.id, f, (part.device, part.amounts)) for part in idle if part.lease is not None]
    leased += [core.pool.named(0, f, piece) for attempt in taken for piece in brings[attempt.id]]
    return Reclaim(f, taken, tuple(leased))


def _has_of_held(attempt: Attempt) -> bool:
    """Return True if a task has parts of held leases, which stay there, so that a claim could not have all its
    amounts.
    """
    leases = [*(lease for lease, _ in attempt.inside), *(part.lease for part in attempt.parts)]
    return any(lease is not None and lease.holder is not None for lease in leases)


def find_leaving(core: Books, job: JobEntry, workload: GroupWorkload, may: Container[int]) -> list[Attempt] | None:
    """Return the tasks that must leave leases on one node where the workload holds one, so that its next task fits
    inside.

    They are borrowers, and tasks in ``may``. ``None`` if it would not fit then; empty if enough of them are already
    being stopped. The lowest priority goes first, then the least lost work.
    """
    best: tuple[int, int, int, int] | None = None
    found: list[Attempt] | None = None
    for f in sorted({lease.node for lease in workload.leases.values() if lease.is_held}):
        leaving = _leaving_on(core, job, workload, f, may) if is_open(core, job, f) else None
        if leaving is None:
            continue
        if not leaving:
            return []
        cost = max(map(_rank, leaving)), _lost_work(core, leaving), len(leaving), f
        if best is None or cost < best:
            best, found = cost, leaving
    return found


def _rank(attempt: Attempt) -> int:
    """Return the order in which tasks leave: borrowers first, then by priority."""
    return -(2**62) if attempt.parts else attempt.job.job.priority


def _leaving_on(
    core: Books, job: JobEntry, workload: GroupWorkload, f: int, may: Container[int]
) -> list[Attempt] | None:
    coming, has = _Coming(core, job, f, inside=True), pieces_on(workload, f)
    for _, lease in sorted(workload.idle_on.get(f, {}).items()):
        for device, part in sorted(lease.idle.items()) if not lease.is_ending else ():
            coming.add(device, part.amounts, 1)
    if coming.suffices():
        # It waits for something other than room.
        return None

    def leave(attempt: Attempt, sign: int) -> None:
        for device, amounts in has[attempt]:
            coming.add(device, amounts, sign)

    for attempt in has:
        if attempt.stopping:
            leave(attempt, 1)
    if coming.suffices():
        return []
    goes = [
        task
        for task in has
        if not task.stopping and task.job is not job and (task.id in may or _only_borrows(task, workload))
    ]
    goes.sort(key=lambda task: (_rank(task), _lost_work(core, [task]), -task.id))
    return coming.fewest(goes, leave)


def _only_borrows(attempt: Attempt, workload: GroupWorkload) -> bool:
    """Return True if a task has a loan, and nothing of leases of a workload as its own."""
    return bool(attempt.parts) and not any(lease.workload is workload for lease, _ in attempt.inside)


class _Coming:
    """The amounts that a node will have for a task of the owner.

    They are idle parts, returns from borrowers and, unless the task is ``inside`` leases, unallocated amounts beside
    bookings.
    """

    def __init__(self, core: Books, job: JobEntry, f: int, *, inside: bool = False) -> None:
        self._core, self._f, self._shape = core, f, job.shape
        self._row = device_row(core, f, free=not inside)
        self._level = np.zeros_like(job.shape.request_array) if inside else spare_on(core, booked_on(core), f)

    def add(self, device: int, amounts: ResourceVector, sign: int) -> None:
        """Add amounts, or subtract them (``sign`` -1)."""
        self._level += sign * np.array(amounts, np.int64)
        add_to_device(self._core, self._row, self._f, device, amounts, sign)

    def add_ended(self, attempt: Attempt, pieces: list[Piece], sign: int) -> None:
        """Add the amounts that the end of a borrower frees: these parts, and its row.

        Its parts of leases of its own workload stay there.
        """
        held = self._core.cluster.held_in(attempt.slot).copy()
        for _, (device, amounts) in attempt.inside:
            if device == NO_DEVICE:
                held -= amounts
        self._level += sign * held
        for device, amounts in pieces:
            self.add(device, amounts, sign)

    def fewest(self, tasks: list[Attempt], add: Callable[[Attempt, int], None]) -> list[Attempt] | None:
        """Return the first of these tasks that suffice, without needless ones; ``None`` if all of them do not.

        ``add`` adds what a task gives back, or subtracts it (-1).
        """
        taken: list[Attempt] = []
        for task in tasks:
            if self.suffices():
                break
            add(task, 1)
            taken.append(task)
        if not self.suffices():
            return None
        for task in reversed(taken.copy()):
            add(task, -1)
            if self.suffices():
                taken.remove(task)
            else:
                add(task, 1)
        return taken

    def suffices(self) -> bool:
        """Return True if the task fits, also on devices."""
        cluster, shape = self._core.cluster, self._shape
        return bool(np.all(self._level >= shape.request_array)) and (
            not devices.cares(cluster, shape.ask) or bool(device_copies(self._row, shape.ask, cluster.k_count, False))
        )


def _lost_work(core: Books, attempts: Iterable[Attempt]) -> int:
    return sum((core.now - attempt.start) * max(1, attempt.amounts[0]) for attempt in attempts)
