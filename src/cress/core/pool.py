"""The pool: all leases of workloads; tasks take from them, borrow from them and give back (source F, design note
0024).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from cress.core.groups.shares import Groups
from cress.core.jobs import (
    MILLI,
    NO_DEVICE,
    Attempt,
    GroupState,
    GroupWorkload,
    Holder,
    JobEntry,
    LeaseRow,
    Piece,
    WorkloadLease,
)
from cress.core.kernels.holding import END
from cress.core.loan_limit import LoanLimit
from cress.core.running_tasks import RunningTasks
from cress.core.tables import devices
from cress.core.tables.arrays import Ints, grown
from cress.core.tables.cluster import Cluster
from cress.core.tables.leases import LeaseTable
from cress.model.decisions import LeasePart
from cress.model.options import Options
from cress.model.resources import ResourceVector
from cress.model.times import NEVER


@dataclass(eq=False)
class Pool:
    """The leases of the workloads of one cluster."""

    _cluster: Cluster
    _rows: LeaseTable
    _groups: Groups
    _options: Options
    _running: RunningTasks
    _set_holder: Callable[[int, Holder], None]

    def __post_init__(self) -> None:
        self.lends = self._options.lending == "on"
        self.workloads: dict[tuple[str, str], GroupWorkload] = {}
        self.leases: dict[int, WorkloadLease] = {}
        # The attempts that hold parts beside their rows, by number.
        self._borrowers: dict[int, Attempt] = {}
        # Leases with idle parts, by node.
        self.idle_on: dict[int, dict[int, WorkloadLease]] = {}
        # Per node, the sum of the idle parts that are large enough to be lent.
        self.lendable: Ints = np.zeros((len(self._cluster.nodes), self._cluster.k_count), np.int64)
        self.limit = LoanLimit()
        # A counter of changes of idle parts.
        self.stamp = 0
        # Leases without a task that are kept for a while, longest idle first.
        self.waiting: dict[int, WorkloadLease] = {}
        # Leases and tasks that hold another amount since a shell has asked last.
        self.resized: dict[int, None] = {}

    # --- questions -----------------------------------------------------------------------------------------

    def workload(self, job: JobEntry) -> GroupWorkload | None:
        """Return the workload of a job; ``None`` if it has no leases."""
        return self.workloads.get((job.group.name, job.workload))

    def parts(self) -> Iterator[LeaseRow]:
        """Yield all parts: the idle ones, and those held by borrowers."""
        for lease in self.leases.values():
            yield from lease.idle.values()
        for attempt in self._borrowers.values():
            yield from attempt.parts

    def holders(self) -> list[Attempt]:
        """Return the holders of leases."""
        return [lease.holder for lease in self.leases.values() if lease.holder is not None]

    def next_return(self) -> int:
        """Return the time (µs) at which the next idle lease is returned; NEVER without one."""
        if not self.waiting:
            return NEVER
        return next(iter(self.waiting.values())).idle_since + self._options.lease_idle

    def due(self, now: int) -> list[int]:
        """Return the ids of the leases that have been idle for ``lease_idle``."""
        if not self.waiting:
            return []
        last = now - self._options.lease_idle
        return sorted(lease.id for lease in takewhile(lambda lease: lease.idle_since <= last, self.waiting.values()))

    def is_lent(self, lease: WorkloadLease) -> bool:
        """Return True if the idle parts of a lease are large enough to be lent."""
        least = self._options.min_fragment * MILLI
        base = lease.idle.get(NO_DEVICE)
        return (base is not None and base.amounts[0] >= least) or any(
            max(part.amounts) >= least for device, part in lease.idle.items() if device != NO_DEVICE
        )

    def size(self, lease: WorkloadLease) -> ResourceVector:
        """Return all that a lease holds: the use of its holder, its tasks, its loans and its idle parts."""
        inside = [amounts for task in lease.tasks.values() for of, (_, amounts) in task.inside if of is lease]
        parts = [part.amounts for part in (*lease.idle.values(), *lease.lent)]
        own = [] if lease.holder is None else [lease.holder.amounts]
        return tuple(map(sum, zip(*own, *inside, *parts, strict=True)))

    def take_resized(self) -> list[int]:
        """Return the leases, or the tasks that held them, that hold another amount since the last call."""
        found, self.resized = list(self.resized), {}
        return found

    # --- pieces --------------------------------------------------------------------------------------------

    def pieces(self, f: int, amounts: ResourceVector, mask: int) -> list[Piece]:
        """Split amounts on devices of node ``f`` into pieces with at most one device each."""
        if not mask:
            return [(NO_DEVICE, amounts)]
        found: list[Piece] = []
        rest = list(amounts)
        on = [(d, device.kind) for d, device in enumerate(self._cluster.devices[f]) if mask >> d & 1]
        kinds = [kind for _, kind in on]
        for d, kind in on:
            each = [0] * len(amounts)
            for k in devices.dimensions_of(self._cluster, kind):
                each[k] = amounts[k] // kinds.count(kind)
                rest[k] -= each[k]
            found.append((d, tuple(each)))
        return [*([(NO_DEVICE, tuple(rest))] if any(rest) else ()), *found]

    def dimensions_on(self, f: int, device: int) -> range:
        """Return the dimensions in which a device of node ``f`` has amounts; none for NO_DEVICE."""
        if device == NO_DEVICE:
            return range(0)
        return devices.dimensions_of(self._cluster, self._cluster.devices[f][device].kind)

    def named(self, lease: int, f: int, piece: Piece) -> LeasePart:
        """Return a piece on node ``f`` in the form used by facts."""
        device, amounts = piece
        if device == NO_DEVICE:
            return LeasePart(lease, amounts)
        known = self._cluster.devices[f][device]
        return LeasePart(lease, amounts, known.kind, known.id)

    def placed(self, f: int, part: LeasePart) -> Piece:
        """Return the piece on node ``f`` that a fact names."""
        if not part.kind:
            return NO_DEVICE, part.amounts
        known = [(device.kind, device.id) for device in self._cluster.devices[f]]
        return known.index((part.kind, part.device)), part.amounts

    def brought(self, attempt: Attempt) -> list[LeasePart]:
        """Return the parts that the row of a task gives to a claim of its workload at its end; none with exclusive
        disks.
        """
        mask, alone = devices.mask_of(self._cluster, attempt.slot)
        if alone or attempt.parts:
            return []
        return [self.named(0, attempt.node, piece) for piece in self.pieces(attempt.node, attempt.amounts, mask)]

    # --- leases --------------------------------------------------------------------------------------------

    def found(self, id: int, job: JobEntry, f: int) -> WorkloadLease:
        """Make an empty lease for the workload of a job."""
        return self.enter(id, job.group, job.workload, f)

    def enter(self, id: int, group: GroupState, name: str, f: int) -> WorkloadLease:
        """Make an empty lease of a workload."""
        workload = self.workloads.get((group.name, name))
        if workload is None:
            workload = self.workloads[group.name, name] = GroupWorkload(group, name)
        lease = WorkloadLease(id=id, workload=workload, node=f)
        self.leases[id] = workload.leases[id] = lease
        lease.charge = (0,) * len(group.quota)
        return lease

    def add_task(self, lease: WorkloadLease, attempt: Attempt, piece: Piece) -> None:
        """Count amounts of a task as used inside the lease, where they stay when the task ends."""
        lease.tasks[attempt.id] = attempt
        lease.idle_since = NEVER
        self.waiting.pop(lease.id, None)
        attempt.inside += ((lease, piece),)
        self.expect(lease)

    def expect(self, lease: WorkloadLease) -> None:
        """Compute the time at which the idle parts of a lease are expected back."""
        kept = self._options.lease_idle if lease.workload.declared and lease.holder is None else 0
        if lease.holder is not None:
            end = lease.holder.expected
        else:
            end = max((attempt.expected for attempt in lease.tasks.values()), default=lease.idle_since)
        end = NEVER if end >= NEVER else end + kept
        if end != lease.end:
            lease.end = end
            for part in (*lease.idle.values(), *lease.lent):
                self._rows.set_end(part.slot, end)

    def put(self, lease: WorkloadLease, piece: Piece) -> None:
        """Add free amounts of the node to the idle part of a lease on this device."""
        device, amounts = piece
        part = lease.idle.pop(device, None)
        if part is not None:
            self._rows.release(part.slot)
            amounts = tuple(map(int.__add__, part.amounts, amounts))
        lease.idle[device] = self._hold(lease, None, lease.node, (device, amounts), lease.end)
        self._changed(lease)

    def take(self, lease: WorkloadLease, piece: Piece) -> None:
        """Free amounts of the idle part of a lease on this device."""
        device, amounts = piece
        part = lease.idle.pop(device)
        self._rows.release(part.slot)
        left = tuple(map(int.__sub__, part.amounts, amounts))
        if min(left) < 0:
            raise ValueError(f"lease {lease.id} has {part.amounts} idle, not {amounts}")
        if any(left):
            lease.idle[device] = self._hold(lease, None, lease.node, (device, left), lease.end)
        self._changed(lease)

    def take_for_claim(self, id: int, piece: Piece) -> None:
        """Free amounts of an idle part for a claim of its workload; an empty lease ends."""
        lease = self.leases[id]
        self.take(lease, piece)
        self.resized[id] = None
        self._close_if_empty(lease)

    def _close_if_empty(self, lease: WorkloadLease) -> None:
        if not (lease.tasks or lease.idle or lease.lent or lease.holder):
            self.close(lease)

    def lend(self, lease: WorkloadLease, piece: Piece, borrower: Attempt) -> None:
        """Hold amounts, already taken from the idle part of a lease, for a borrowing task."""
        part = self._hold(lease, borrower, lease.node, piece, lease.end)
        lease.lent.append(part)
        self._give(borrower, part)
        lease.workload.lent_on.setdefault(lease.node, {})[lease.id] = lease

    def hold_beside(self, borrower: Attempt, piece: Piece, end: int) -> None:
        """Hold unallocated amounts on a device for a task, in a row of their own."""
        self._give(borrower, self._hold(None, borrower, borrower.node, piece, end))

    def _give(self, borrower: Attempt, part: LeaseRow) -> None:
        borrower.parts += (part,)
        self._borrowers[borrower.id] = borrower

    def _take_parts(self, borrower: Attempt) -> None:
        borrower.parts = ()
        self._borrowers.pop(borrower.id, None)

    def _hold(self, lease: WorkloadLease | None, borrower: Attempt | None, f: int, piece: Piece, end: int) -> LeaseRow:
        device, amounts = piece
        slot = self._rows.hold_amounts(f, amounts, end, 0 if device == NO_DEVICE else 1 << device)
        part = LeaseRow(lease, borrower, f, slot, piece)
        self._set_holder(slot, part)
        return part

    def _changed(self, lease: WorkloadLease) -> None:
        """Update everything that depends on the idle parts of a lease."""
        f, workload = lease.node, lease.workload
        self.stamp += 1
        workload.stamp += 1
        for index in (self.idle_on, workload.idle_on):
            here = index.setdefault(f, {})
            if lease.idle:
                here[lease.id] = lease
            else:
                here.pop(lease.id, None)
                if not here:
                    del index[f]
        here = workload.idle_on.get(f, {})
        if here:
            workload.idle_sum[f] = list(map(sum, zip(*(each.idle_amounts() for each in here.values()), strict=True)))
        else:
            workload.idle_sum.pop(f, None)
        if self.lends:
            self._sum(f)
        self.charge(lease)

    def more_nodes(self) -> None:
        """Extend ``lendable`` to all nodes."""
        if len(self.lendable) < len(self._cluster.nodes):
            self.lendable = grown(self.lendable, len(self._cluster.nodes))

    def _sum(self, f: int) -> None:
        self.more_nodes()
        self.lendable[f] = 0
        for lease in self.idle_on.get(f, {}).values():
            if self.is_lent(lease):
                self.lendable[f] += lease.idle_amounts()

    def charge(self, lease: WorkloadLease) -> None:
        """Charge the group of a lease for its idle parts."""
        group = lease.workload.group
        amounts = lease.idle_amounts()
        capacity = self._cluster.specs[lease.node].capacity
        charge = group.charge(amounts, capacity, lease.node) if amounts else (0,) * len(group.quota)
        if charge != lease.charge:
            group.add_idle(tuple(map(int.__sub__, charge, lease.charge)))
            lease.charge = charge
            if group.key is not None:
                self._groups.reorder(group)

    # --- ends ----------------------------------------------------------------------------------------------

    def ended(self, attempt: Attempt, now: int) -> None:
        """Return to leases what a task used of them, after its own row is released.

        Borrowed parts return to their owners, its own amounts to its workload, unless it yields them (`leaves_to`).
        """
        for part in attempt.parts:
            self._rows.release(part.slot)
            if part.lease is not None:
                self._no_longer_lent(part.lease, part)
                self.put(part.lease, (part.device, part.amounts))
        self._take_parts(attempt)
        inside, attempt.inside = attempt.inside, ()
        for lease, piece in inside:
            lease.tasks.pop(attempt.id, None)
            if lease.id in self.leases and attempt.leaves_to(lease):
                self.put(lease, piece)
        for lease in dict.fromkeys(lease for lease, _ in inside):
            self._task_left(lease, now)

    def _task_left(self, lease: WorkloadLease, now: int) -> None:
        if lease.id not in self.leases:
            return
        if not lease.tasks and lease.holder is None:
            if not lease.workload.declared or not (lease.idle or lease.lent):
                self.close(lease)
                return
            lease.idle_since = now
            self.waiting[lease.id] = lease
        self.expect(lease)

    def _no_longer_lent(self, lease: WorkloadLease, part: LeaseRow) -> None:
        lease.lent.remove(part)
        if not lease.lent:
            here = lease.workload.lent_on[lease.node]
            del here[lease.id]
            if not here:
                del lease.workload.lent_on[lease.node]

    def reduce(self, id: int) -> None:
        """Return the idle parts of a lease to the cluster; a lease without a task ends."""
        lease = self.leases.get(id)
        if lease is None:
            return
        if not lease.tasks and lease.holder is None:
            self.close(lease)
            return
        if lease.idle:
            self.resized[id] = None
        for device, part in list(lease.idle.items()):
            self.take(lease, (device, part.amounts))

    def reduce_by(self, lease: WorkloadLease, pieces: Iterable[Piece]) -> None:
        """Return these pieces of the idle parts of a lease to the cluster; an empty lease ends."""
        for piece in pieces:
            self.take(lease, piece)
        self.resized[lease.id] = None
        self._close_if_empty(lease)

    def close(self, lease: WorkloadLease) -> None:
        """End a lease: idle parts become free, lent parts become the borrowers' own."""
        for device, part in list(lease.idle.items()):
            self.take(lease, (device, part.amounts))
        borrowers = {part.borrower.id: part.borrower for part in lease.lent if part.borrower is not None}
        for part in list(lease.lent):
            self._leave(part)
        for borrower in borrowers.values():
            self._join(borrower)
        for attempt in lease.tasks.values():
            attempt.inside = tuple(each for each in attempt.inside if each[0] is not lease)
        self.waiting.pop(lease.id, None)
        self.resized.pop(lease.id, None)
        del self.leases[lease.id]
        del lease.workload.leases[lease.id]
        if not lease.workload.leases:
            self.workloads = {key: each for key, each in self.workloads.items() if each is not lease.workload}

    def _join(self, attempt: Attempt) -> None:
        """Join all rows of a task into one, once none of them is borrowed."""
        if any(part.lease is not None for part in attempt.parts):
            return
        mask, _ = devices.mask_of(self._cluster, attempt.slot)
        end = int(self._cluster.leases[attempt.slot, END])
        self._rows.release(attempt.slot)
        for part in attempt.parts:
            mask |= 0 if part.device == NO_DEVICE else 1 << part.device
            self._rows.release(part.slot)
        self._take_parts(attempt)
        attempt.slot = self._rows.hold_amounts(attempt.node, attempt.amounts, end, mask)
        self._set_holder(attempt.slot, attempt)
        self._running.forget()

    def leave_to_borrower(self, part: LeaseRow) -> None:
        """Separate a lent part from its lease, so that it becomes free when its borrower ends.

        An empty lease ends.
        """
        lease = self._leave(part)
        self.resized[lease.id] = None
        self._close_if_empty(lease)

    def _leave(self, part: LeaseRow) -> WorkloadLease:
        lease, part.lease = part.lease, None
        assert lease is not None
        self._no_longer_lent(lease, part)
        return lease

    def free_idle_on(self, f: int) -> None:
        """Return the idle parts on a node with less than its leases hold; leases with a holder keep theirs."""
        for lease in list(self.idle_on.get(f, {}).values()):
            if not lease.is_held:
                self.reduce(lease.id)

    def close_on(self, f: int) -> None:
        """End all leases on a node that is lost or whose devices change."""
        for lease in [lease for lease in self.leases.values() if lease.node == f]:
            self.close(lease)

    def close_but_of(self, groups: Container[str]) -> None:
        """End the leases of groups that are not among ``groups``, since they are being removed."""
        for lease in [lease for lease in self.leases.values() if lease.workload.group.name not in groups]:
            self.close(lease)

    def recharge(self) -> None:
        """Charge groups for the idle parts of their leases, after their use was set to zero."""
        for lease in self.leases.values():
            lease.charge = (0,) * len(lease.workload.group.quota)
            self.charge(lease)
