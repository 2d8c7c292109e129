"""Leases: amounts held on one node until a known end or without one; a task runs inside a lease."""

from __future__ import annotations

from array import array

from cress.core.kernels import holding
from cress.core.kernels.devices import mask_at
from cress.core.kernels.holding import AMOUNTS, END, NODE, NONE
from cress.core.tables.arrays import grown
from cress.core.tables.cluster import Cluster
from cress.model.resources import ResourceVector
from cress.model.times import NEVER


class LeaseTable:
    """The slots of ``cluster.leases``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # An array, because thousands of integer objects, made at as many different times, would prevent freed memory
        # from being returned.
        self._free = array("q", range(len(cluster.leases) - 1, -1, -1))
        self.count = 0
        # Leases without a known end.
        self.endless = 0

    def hold(self, f: int, row: int, end: int, mask: int = 0, alone: int = 0) -> int:
        """Hold one copy of the shape in ``row`` of the fit table on node ``f`` until ``end`` (µs); return the slot.

        ``mask`` are its devices, with exclusive disks if ``alone`` is 1; with mask 0 the devices are chosen.
        """
        cluster = self._cluster
        slot = self.take_slot(end)
        cluster.leases[slot, mask_at(cluster.k_count) :] = mask, alone
        holding.hold(slot, f, end, row, *cluster.tables())
        cluster.watcher.touch(f)
        return slot

    def hold_amounts(self, f: int, amounts: ResourceVector, end: int, mask: int = 0, alone: int = 0) -> int:
        """Hold these amounts and devices (bits of ``mask``) on node ``f`` until ``end`` (µs); return the slot."""
        cluster = self._cluster
        slot = self.take_slot(end)
        # The columns of its devices follow the amounts.
        cluster.leases[slot, AMOUNTS:] = (*amounts, mask, alone)
        holding.hold_as_written(slot, f, end, *cluster.tables())
        cluster.watcher.touch(f)
        return slot

    def take_slot(self, end: int) -> int:
        """Return a slot for a lease that will be held until ``end`` (µs)."""
        if not self._free:
            cluster = self._cluster
            n = len(cluster.leases)
            cluster.leases = grown(cluster.leases, 2 * n)
            cluster.leases[n:, NODE] = NONE
            self._free = array("q", range(2 * n - 1, n - 1, -1))
        self.count += 1
        if end >= NEVER:
            self.endless += 1
        return self._free.pop()

    def return_slot(self, slot: int, end: int) -> None:
        """Return the slot of a lease that has ended or was not made."""
        self._free.append(slot)
        self.count -= 1
        if end >= NEVER:
            self.endless -= 1

    def release(self, slot: int) -> None:
        """Release the lease in ``slot``."""
        cluster = self._cluster
        self.return_slot(slot, int(cluster.leases[slot, END]) if self.endless else 0)
        cluster.watcher.touch(int(cluster.leases[slot, NODE]))
        holding.release(slot, *cluster.tables())
        cluster.loosened += 1

    def set_end(self, slot: int, end: int) -> None:
        """Move the end of a lease."""
        cluster = self._cluster
        f = int(cluster.leases[slot, NODE])
        self.endless += int(end >= NEVER) - int(cluster.leases[slot, END] >= NEVER)
        holding.unlink_lease(slot, f, cluster.nodes, cluster.leases)
        cluster.leases[slot, END] = end
        holding.link_lease(slot, f, cluster.nodes, cluster.leases)
        cluster.loosened += 1
        cluster.refresh(f)
