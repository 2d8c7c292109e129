"""Nodes as columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from cress.core.charges import Share
from cress.core.kernels.devices import (
    ALL,
    DISK,
    DISK_AMOUNTS,
    KIND,
    LEFT,
    NOTHING,
    PARTS,
    WHOLE,
    WIDTH,
    first_device,
    give_devices,
    mask_at,
)
from cress.core.kernels.holding import (
    AMOUNTS,
    BOOKED,
    FIRST_END,
    FREE,
    HEAD,
    NEXT,
    NODE,
    NONE,
    REQUEST,
    STAMP,
    TAIL,
    TOTAL_STAMP,
    TOTAL_STARVED,
    TOTAL_USED,
    UNUSABLE,
    USABLE,
    refresh_node,
)
from cress.core.kernels.unrolled import WIDTHS
from cress.core.tables.arrays import Bools, Closed, Floats, Ints, grown
from cress.model.devices import devices_of
from cress.model.errors import InputError
from cress.model.node import DISK_KIND, Device, Load, Node
from cress.model.resources import Dimensions, ResourceVector
from cress.model.times import NEVER

# The kind of a device that the node no longer has, while leases still hold it.
GONE = -3
# The number of requests with a cached least charge.
_MOST_REQUESTS = 10_000


class NodeWatcher:
    """Observer of all changes on nodes; this one does nothing.

    The matcher is one; the cluster does not depend on it.
    """

    def set_node(self, f: int, node: Node) -> None:
        """Add node ``f``, or take over its new description."""

    def set_load(self, f: int, load: Load | None) -> None:
        """Set the measured load of node ``f``; ``None``: it is no longer measured."""

    def change(self, f: int) -> None:
        """Note that the description or the presence of node ``f`` changed."""

    def opened(self, f: int) -> None:
        """Note that node ``f`` was cordoned or uncordoned."""

    def touch(self, f: int) -> None:
        """Note that free amounts or tasks on node ``f`` changed."""


class Cluster:
    """The nodes, and the tables that kernels keep consistent with them.

    Indices of nodes are assigned in the order of registration and stay with the name permanently. ``LeaseTable``
    manages the rows of ``leases``, ``Fit`` those of ``rows`` and ``lack``.
    """

    def __init__(self, dimensions: Dimensions, balanced: Iterable[str]) -> None:
        self.dimensions = dimensions
        self.k_count = k = len(dimensions)
        wanted = dict.fromkeys((*balanced, *dimensions.custom))
        unknown = [name for name in wanted if name not in dimensions.index]
        if unknown:
            raise InputError(
                f"unknown dimension {unknown[0]!r}", hint=", ".join(dimensions.names), field="balance_dimensions"
            )
        self.balanced: tuple[str, ...] = tuple(wanted)
        self.balanced_indices = [dimensions.index[name] for name in self.balanced]
        self.dims = np.array(self.balanced_indices, np.int64)
        if len(self.dims) > WIDTHS[-1]:
            raise InputError(
                f"{len(self.dims)} dimensions are too many to balance", hint=f"at most {WIDTHS[-1]}",
                field="balance_dimensions",
            )  # fmt: skip
        width = next(width for width in WIDTHS if width >= len(self.dims))
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self.specs: list[Node] = []
        self.cordoned: list[str | None] = []
        # Nodes that are cordoned only because their executors are absent.
        self.away: set[int] = set()
        # The measured overload of nodes, as text.
        self.overloaded: list[str | None] = []
        self.lost: list[bool] = []
        # Nodes with less than their leases hold; below, removed devices that leases still hold.
        self.overdrawn: set[int] = set()
        self.gone: dict[int, tuple[Device, ...]] = {}
        self.node_count = 0
        self.usable_count = 0
        # The number of times that a node was added, lost, cordoned or uncordoned.
        self.usable_changes = 0
        # The largest capacity, after the value of this counter for which it was computed.
        self._largest: tuple[int, ResourceVector] = (-1, ())
        # Likewise the capacities of usable nodes, and the smallest and the largest charge of requests over them, by
        # kind of charge.
        self._extremes: tuple[int, Counter[ResourceVector], dict[tuple[object, ...], tuple[int, int]]]
        self._extremes = (-1, Counter(), {})
        self.nodes: Ints = np.zeros((1, FREE + 2 * k), np.int64)
        # The devices of each node; ``nodes`` has no columns for devices until some node has one.
        self.devices: list[tuple[Device, ...]] = []
        # The number of nodes with devices other than disks.
        self.with_accelerators = 0
        self.width = width
        self.columns: Floats = np.zeros((2 * width + 2, 1), np.float32)
        # The weights for which the last column, y before placing, was computed.
        self.then: Floats = np.zeros(width, np.float32)
        # Zeros, for a choice among all nodes; nobody writes them.
        self.none_closed: Closed = np.zeros(1, np.int32)
        self.totals: Ints = np.zeros(TOTAL_USED + 2 * k, np.int64)
        self.leases: Ints = np.zeros((16, AMOUNTS + k + 2), np.int64)
        self.leases[:, NODE] = NONE
        self.rows: Ints = np.zeros((8, REQUEST + 2 * k + PARTS + k), np.int64)
        self.lack: npt.NDArray[np.int32] = np.zeros((8, 1), np.int32)
        self.row_count = 0
        self.watcher = NodeWatcher()
        # A counter of changes that may let a waiting unit fit; a failed unit need not be tried again until it grows. It
        # is raised by the tables in which room can grow (here, leases, claims, clauses), by the shape of a job that
        # changes, by each kind of fact for which the ledger says so, and by time.
        self.loosened = 0
        # A counter of nodes that are added, lost or described anew.
        self.described = 0

    # --- nodes ---------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> int:
        """Add a node, or restore a lost one; return its index."""
        f = self.index.get(node.name, NONE)
        if f == NONE:
            f = self.node_count
            if f == len(self.nodes):
                self._more_nodes()
            self.node_count += 1
            self.names.append(node.name)
            self.index[node.name] = f
            self.specs.append(node)
            self.devices.append(())
            self.cordoned.append(None)
            self.overloaded.append(None)
            self.lost.append(True)
            self.nodes[f, HEAD] = self.nodes[f, TAIL] = self.nodes[f, BOOKED] = NONE
            self.nodes[f, FIRST_END] = NEVER
        elif not self.lost[f]:
            raise ValueError(f"node {node.name} is registered already")
        k = self.k_count
        self.specs[f] = node
        self.described += 1
        self.lost[f] = False
        self._set_devices(f, devices_of(node, self.dimensions))
        self.nodes[f, FREE : FREE + k] = node.capacity
        self.nodes[f, FREE + k : FREE + 2 * k] = node.capacity
        self.totals[TOTAL_USED + k :] += np.array(node.capacity, np.int64)
        self._set_share(f)
        self._set_usable(f)
        self.watcher.set_node(f, node)
        return f

    def differs(self, node: Node) -> bool:
        """Return True if a description differs in capacity or devices from the present one."""
        known = self.specs[self.index[node.name]]
        return known.capacity != node.capacity or devices_of(node, self.dimensions) != devices_of(
            known, self.dimensions
        )

    def change_node(self, node: Node) -> bool:
        """Replace the description of a node; its leases stay. Return True if its capacity or devices have changed."""
        f = self.index[node.name]
        has = devices_of(node, self.dimensions)
        changed = self.differs(node)
        self.specs[f] = node
        self.described += 1
        if changed and not self.lost[f]:
            k = self.k_count
            more = np.array(node.capacity, np.int64) - self.nodes[f, FREE + k : FREE + 2 * k]
            self.nodes[f, FREE : FREE + k] += more
            self.nodes[f, FREE + k : FREE + 2 * k] += more
            self.totals[TOTAL_USED + k :] += more
            self._set_share(f)
            self._lay_out(f, has)
            self.usable_changes += 1
            self.refresh(f)
        self.watcher.set_node(f, node)
        return changed

    def _set_share(self, f: int) -> None:
        """Set 1 / the number of balanced dimensions on node ``f``."""
        has = int(np.count_nonzero(self.nodes[f, FREE + self.k_count + self.dims]))
        self.columns[2 * self.width, f] = np.float32(1.0 / has) if has else np.float32(0)

    def slots_on(self, f: int) -> list[int]:
        """Return the slots of the leases on node ``f``, in the order of their ends."""
        slots = []
        slot = int(self.nodes[f, HEAD])
        while slot != NONE:
            slots.append(slot)
            slot = int(self.leases[slot, NEXT])
        return slots

    def _lay_out(self, f: int, has: tuple[Device, ...]) -> None:
        """Set the devices of node ``f`` while leases hold some of its former ones."""
        slots = self.slots_on(f)
        before = self.devices[f]
        column = mask_at(self.k_count)
        held = [[before[d] for d in range(len(before)) if int(self.leases[slot, column]) >> d & 1] for slot in slots]
        there = {(device.kind, device.id) for device in has}
        used = {(device.kind, device.id): device for devices in held for device in devices}
        gone = tuple(device for key, device in used.items() if key not in there)
        self.set_gone(f, has, gone)
        place = {(device.kind, device.id): d for d, device in enumerate(self.devices[f])}
        for slot, devices in zip(slots, held, strict=True):
            self.leases[slot, column] = sum(1 << place[device.kind, device.id] for device in devices)
            if devices:
                give_devices(slot, self.nodes[f], -1, self.leases, self.k_count)

    def set_gone(self, f: int, has: tuple[Device, ...], gone: tuple[Device, ...]) -> None:
        """Set the devices of node ``f``, with entries for removed ones, which have no amounts and are never
        allocated.
        """
        self._set_devices(f, (*has, *gone))
        begin = first_device(self.k_count)
        for d in range(len(has), len(has) + len(gone)):
            at = begin + d * WIDTH
            self.nodes[f, at + KIND] = GONE
            self.nodes[f, at + LEFT : at + WIDTH] = 0
        self.gone.pop(f, None)
        if gone:
            self.gone[f] = gone

    def drop_gone(self, f: int) -> None:
        """Drop the entries of removed devices on node ``f`` that no lease holds any more."""
        self._lay_out(f, devices_of(self.specs[f], self.dimensions))
        self.refresh(f)

    def left_on(self, f: int) -> Ints:
        """Return the free amounts on node ``f`` and its devices; negative where leases hold more than the capacity."""
        k = self.k_count
        begin = first_device(k)
        left = [self.nodes[f, at + LEFT : at + LEFT + DISK_AMOUNTS] for at in range(begin, self.nodes.shape[1], WIDTH)]
        return np.concatenate([self.nodes[f, FREE : FREE + k], *left])

    def overdrawn_nodes(self) -> list[int]:
        """Return the nodes with less than their leases hold."""
        short = np.any(self.free_now() < 0, axis=1)
        for at in range(first_device(self.k_count), self.nodes.shape[1], WIDTH):
            short |= np.any(self.nodes[: self.node_count, at + LEFT : at + LEFT + DISK_AMOUNTS] < 0, axis=1)
        found: list[int] = np.flatnonzero(short).tolist()
        return found

    def set_overdrawn(self, f: int, overdrawn: bool) -> None:
        """Mark node ``f`` as having less than its leases hold; it then takes no tasks."""
        if overdrawn != (f in self.overdrawn):
            if overdrawn:
                self.overdrawn.add(f)
            else:
                self.overdrawn.discard(f)
            self._set_usable(f)

    def lose_node(self, f: int) -> None:
        """Remove a lost node; its leases must be released first."""
        k = self.k_count
        self.totals[TOTAL_USED + k :] -= self.nodes[f, FREE + k : FREE + 2 * k]
        self.nodes[f, FREE : FREE + 2 * k] = 0
        self._set_devices(f, ())
        self.gone.pop(f, None)
        self.overdrawn.discard(f)
        self.lost[f] = True
        self.described += 1
        self._set_usable(f)
        self.watcher.change(f)

    def cordon(self, f: int, reason: str | None, *, away: bool = False) -> None:
        """Cordon the node (for a reason; ``away``: only because its executor is absent), or uncordon it (``None``)."""
        self.cordoned[f] = reason
        if away:
            self.away.add(f)
        else:
            self.away.discard(f)
        self._set_usable(f)
        self.watcher.opened(f)

    def is_only_away(self, f: int) -> bool:
        """Return True if only an absent executor keeps tasks off the node."""
        return f in self.away and not self.lost[f] and self.overloaded[f] is None and f not in self.overdrawn

    def set_overload(self, f: int, what: str | None) -> None:
        """Mark the node as overloaded (with these measurements), or not (``None``)."""
        changed = (what is None) != (self.overloaded[f] is None)
        self.overloaded[f] = what
        if changed:
            self._set_usable(f)

    def _set_usable(self, f: int) -> None:
        closed = self.lost[f] or self.cordoned[f] is not None or self.overloaded[f] is not None or f in self.overdrawn
        usable = int(not closed)
        self.usable_count += usable - int(self.nodes[f, USABLE])
        self.usable_changes += 1
        self.nodes[f, USABLE] = usable
        self.loosened += 1
        self.refresh(f)

    def refresh(self, f: int) -> None:
        """Update everything that depends on node ``f``."""
        self.watcher.touch(f)
        refresh_node(
            f, self.nodes, self.totals, self.columns, self.then, self.dims, self.rows, self.row_count, self.lack
        )

    def tables(self) -> tuple[object, ...]:
        """Return the tables that change with every lease, in the order of kernel arguments.

        Kernels take them one by one, because numba needs 1.5 µs more per call to unpack a struct.
        """
        return (
            self.nodes,
            self.leases,
            self.totals,
            self.columns,
            self.then,
            self.dims,
            self.rows,
            self.row_count,
            self.lack,
        )

    def _set_devices(self, f: int, devices: tuple[Device, ...]) -> None:
        """Set the devices of node ``f``, on which no task runs."""
        begin = first_device(self.k_count)
        width = self.nodes.shape[1]
        wide = begin + len(devices) * WIDTH
        if wide > width:
            self.nodes = grown(self.nodes, wide, 1)
            self.nodes[:, width + KIND :: WIDTH] = NOTHING
        self.with_accelerators += _has_accelerators(devices) - _has_accelerators(self.devices[f])
        self.devices[f] = devices
        row = self.nodes[f]
        row[begin:] = 0
        row[begin + KIND :: WIDTH] = NOTHING
        for d, device in enumerate(devices):
            at = begin + d * WIDTH
            row[at + KIND] = DISK if device.kind == DISK_KIND else self.dimensions.index[device.kind]
            has = device.bandwidth if device.kind == DISK_KIND else (WHOLE, 0, 0, 0)
            row[at + LEFT : at + LEFT + DISK_AMOUNTS] = has
            row[at + ALL : at + ALL + DISK_AMOUNTS] = has

    def _more_nodes(self) -> None:
        n = max(16, 2 * len(self.nodes))
        self.nodes = grown(self.nodes, n)
        self.columns = grown(self.columns, n, 1)
        self.none_closed = grown(self.none_closed, n)
        self.lack = grown(self.lack, n, 1)
        # A node that is not added yet must not appear to fit every shape.
        self.lack[:, self.node_count :] = UNUSABLE

    def total_of(self, k: int) -> int:
        """Return the total capacity in one dimension over all nodes that are not lost."""
        return self.totals.item(TOTAL_USED + self.k_count + k)

    def capacity(self) -> ResourceVector:
        """Return the total capacity of the nodes that are not lost."""
        return tuple(int(x) for x in self.totals[TOTAL_USED + self.k_count :])

    def largest_capacity(self) -> ResourceVector:
        """Return the largest capacity of a node in each dimension."""
        if self._largest[0] != self.usable_changes:
            self._largest = self.usable_changes, tuple(self.capacities().max(axis=0, initial=0).tolist())
        return self._largest[1]

    def least_charge(self, request: ResourceVector, charge: Share) -> int:
        """Return the smallest ``charge`` of a request over the capacities of usable nodes that are large enough; 0
        without any.
        """
        return self._charges(request, charge)[0]

    def most_charge(self, request: ResourceVector, charge: Share) -> int:
        """Return the largest ``charge`` of a request over the same capacities."""
        return self._charges(request, charge)[1]

    def least_charge_of(self, tasks: int, request: ResourceVector, charge: Share) -> int:
        """Return the smallest total ``charge`` of several tasks that run at the same time on usable nodes.

        The cheapest nodes may be too small for all of them. Tasks beyond the room of all nodes count as the last one.
        """
        least, most = self._charges(request, charge)
        if least == most:
            return least * tasks
        _, usable, known = self._extremes
        key = (request, charge, tasks)
        found = known.get(key)
        if found is None:
            left, total, last = tasks, 0, 0
            large = [capacity for capacity in usable if all(map(int.__ge__, capacity, request))]
            for last, capacity in sorted((charge(request, capacity), capacity) for capacity in large):
                room = min(has // asked for has, asked in zip(capacity, request, strict=True) if asked)
                count = min(left, room * usable[capacity])
                left, total = left - count, total + count * last
            found = self._remember(key, (total + left * last, most * tasks))
        return found[0]

    def _charges(self, request: ResourceVector, charge: Share) -> tuple[int, int]:
        if self._extremes[0] != self.usable_changes:
            kinds = by_capacity(self, np.flatnonzero(self.usable()))
            usable = Counter({self.capacity_of(f): number for f, number in kinds})
            self._extremes = self.usable_changes, usable, {}
        _, usable, known = self._extremes
        key = (request, charge)
        found = known.get(key)
        if found is None:
            charges = [charge(request, capacity) for capacity in usable if all(map(int.__ge__, capacity, request))]
            found = self._remember(key, (min(charges, default=0), max(charges, default=0)))
        return found

    def _remember(self, key: tuple[object, ...], charges: tuple[int, int]) -> tuple[int, int]:
        known = self._extremes[2]
        if len(known) > _MOST_REQUESTS:
            known.clear()
        known[key] = charges
        return charges

    def used(self) -> ResourceVector:
        """Return the total of the held amounts."""
        return tuple(int(x) for x in self.totals[TOTAL_USED : TOTAL_USED + self.k_count])

    def free(self, f: int) -> ResourceVector:
        """Return the free amounts of node ``f``."""
        return tuple(self.free_now()[f].tolist())

    def capacity_of(self, f: int) -> ResourceVector:
        """Return the capacity of node ``f`` (zeros while it is lost)."""
        return tuple(self.capacities()[f].tolist())

    def used_on(self, nodes: Sequence[int]) -> ResourceVector:
        """Return the total of the held amounts on some nodes."""
        on = list(nodes)
        return tuple((self.capacities()[on] - self.free_now()[on]).sum(axis=0).tolist())

    @property
    def starved(self) -> bool:
        """True if some shape with a row fits nowhere now."""
        return self.totals.item(TOTAL_STARVED) > 0

    @property
    def starved_rows(self) -> int:
        """The number of rows in use that fit on no node."""
        return int(self.totals[TOTAL_STARVED])

    @property
    def stamp(self) -> int:
        """The stamp, which grows with every change on any node."""
        return self.totals.item(TOTAL_STAMP)

    def node_stamp(self, f: int) -> int:
        """The stamp of the last change on node ``f``."""
        return int(self.nodes[f, STAMP])

    # --- room on empty or free nodes -------------------------------------------------------------------------

    def present(self) -> Ints:
        """Return the nodes that are not lost."""
        return np.flatnonzero(~np.array(self.lost, np.bool_))

    def held_in(self, slot: int) -> Ints:
        """Return the amounts that the lease in ``slot`` holds (K); no copy."""
        return self.leases[slot, AMOUNTS : AMOUNTS + self.k_count]

    def lack_of(self, row: int) -> Closed:
        """Return, per node, what it lacks for the shape with this ``row``, as bits; no copy."""
        return self.lack[row, : self.node_count]

    def free_now(self) -> Ints:
        """Return the free amounts of all nodes (N, K), negative where leases hold more than the capacity; no copy."""
        return self.nodes[: self.node_count, FREE : FREE + self.k_count]

    def capacities(self) -> Ints:
        """Return the capacities of all nodes (N, K), zeros for lost ones; no copy."""
        k = self.k_count
        return self.nodes[: self.node_count, FREE + k : FREE + 2 * k]

    def large(self, request: ResourceVector) -> Bools:
        """Return, per node, True if it holds ``request`` when empty."""
        large: Bools = np.all(self.capacities() >= np.array(request, np.int64), axis=1)
        return large

    def usable(self) -> Bools:
        """Return, per node, True if it takes new tasks."""
        usable: Bools = self.nodes[: self.node_count, USABLE] == 1
        return usable

    def fits_now(self, request: ResourceVector) -> bool:
        """Return True if the free amounts of some usable node hold one copy of ``request``, devices aside."""
        return bool(np.any(self.usable() & np.all(self.free_now() >= np.array(request, np.int64), axis=1)))


def by_capacity(cluster: Cluster, nodes: Ints) -> list[tuple[int, int]]:
    """Return, for each capacity among these nodes, its first node and the number of its nodes.

    The smallest capacity comes first.
    """
    if not len(nodes):
        return []
    capacities = cluster.capacities()[nodes]
    # Sorted by the first amount, then by the second …; of equal rows the first node comes first.
    order = np.lexsort(capacities.T[::-1])
    ordered = capacities[order]
    begins = np.flatnonzero(np.concatenate(([True], (ordered[1:] != ordered[:-1]).any(axis=1))))
    numbers = np.diff(begins, append=len(nodes)).tolist()
    return list(zip(nodes[order[begins]].tolist(), numbers, strict=True))


def _has_accelerators(devices: tuple[Device, ...]) -> bool:
    return any(device.kind != DISK_KIND for device in devices)
