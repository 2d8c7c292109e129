"""The devices of nodes, and those of leases (design note 0007); the loops are in ``kernels/devices``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cress.core.kernels.devices import (
    ALL,
    ASKS,
    DISK_AMOUNTS,
    DISK_AT,
    LEASE_AT,
    LEFT,
    LIKES,
    MANY,
    MUST,
    USERS,
    WHOLE,
    WIDTH,
    all_copies,
    cap_alone,
    choose_devices,
    count_disks,
    device_copies,
    first_device,
    give_devices,
    mask_at,
)
from cress.core.tables.arrays import Ints
from cress.core.tables.cluster import Cluster
from cress.model.node import DISK_KIND, Allocated, Device
from cress.model.resources import ResourceVector


def in_turn(asks: Sequence[Ints]) -> list[int]:
    """Return the order in which the members of a unit allocate devices: those with an exclusive disk first."""
    return sorted(range(len(asks)), key=lambda i: (not asks[i][MUST], i))


def any_devices(cluster: Cluster) -> bool:
    """Return True if some node counts its devices one by one."""
    return bool(cluster.nodes.shape[1] > first_device(cluster.k_count))


def cares(cluster: Cluster, ask: Ints) -> bool:
    """Return True if devices limit the nodes for this request."""
    return bool(ask[ASKS]) and any_devices(cluster)


def copies(cluster: Cluster, ask: Ints, *, empty: bool) -> Ints:
    """Return, per node, the copies of this request that find their devices, now or with the node ``empty``."""
    out = np.full(cluster.node_count, MANY, np.int64)
    if ask[ASKS] and any_devices(cluster):
        all_copies(cluster.nodes, cluster.node_count, ask, cluster.k_count, empty, out)
    return out


def cap_exclusive(cluster: Cluster, request: Ints, ask: Ints, copies: Ints) -> None:
    """Lower the ``copies`` of a gang's request per node to those that may start there now.

    This matters where exclusive disks take more than the free amounts.
    """
    if (ask[MUST] or ask[LIKES]) and any_devices(cluster):
        cap_alone(cluster.nodes, cluster.node_count, request, ask, cluster.k_count, copies)


def copies_on(cluster: Cluster, ask: Ints, f: int, *, empty: bool = False) -> int:
    """Return the copies of this request on node ``f`` that find their devices."""
    if not ask[ASKS] or not any_devices(cluster):
        return MANY
    return int(device_copies(cluster.nodes[f], ask, cluster.k_count, empty))


def disks_on(cluster: Cluster, places: Ints, *, free: bool) -> Ints:
    """Return the number of disks, or of unused disks (``free``), on each of these nodes."""
    out = np.zeros(len(places), np.int64)
    if any_devices(cluster):
        count_disks(cluster.nodes, places, cluster.k_count, free, out)
    return out


def allocated(cluster: Cluster, slot: int, f: int) -> tuple[Allocated, ...]:
    """Return the devices of node ``f`` held by the lease in ``slot``."""
    if not cluster.devices[f]:
        return ()
    mask, alone = mask_of(cluster, slot)
    held = cluster.leases[slot, LEASE_AT : LEASE_AT + cluster.k_count].tolist()
    return named(cluster, f, mask, held, alone)


def named(cluster: Cluster, f: int, mask: int, held: Sequence[int], alone: int = 0) -> tuple[Allocated, ...]:
    """Return the devices of node ``f`` in ``mask``, with the part of each that a holder of these amounts has."""
    has = [device for d, device in enumerate(cluster.devices[f]) if mask >> d & 1]
    kinds = [device.kind for device in has]
    found = []
    for device in has:
        amount = WHOLE * alone
        if device.kind != DISK_KIND:
            amount = held[cluster.dimensions.index[device.kind]] // kinds.count(device.kind)
        found.append(Allocated(device.kind, device.id, amount))
    return tuple(found)


def mask_of(cluster: Cluster, slot: int) -> tuple[int, int]:
    """Return the devices of a lease as a mask, and 1 if its disks are exclusive, else 0."""
    at = mask_at(cluster.k_count)
    return int(cluster.leases[slot, at]), int(cluster.leases[slot, at + 1])


def mask_for(cluster: Cluster, f: int, has: Sequence[Allocated]) -> tuple[int, int]:
    """Return the mask of these devices of node ``f``, and 1 if its disks are exclusive, else 0."""
    if not has:
        return 0, 0
    place = {(device.kind, device.id): d for d, device in enumerate(cluster.devices[f])}
    mask = sum(1 << place[allocated.kind, allocated.id] for allocated in has)
    return mask, int(takes_disk(has))


def takes_disk(has: Sequence[Allocated]) -> bool:
    """Return True if one of these devices is an exclusive disk, which a task holds as a whole, whatever it requests."""
    return any(allocated.kind == DISK_KIND and allocated.amount for allocated in has)


def widened(cluster: Cluster, f: int, request: ResourceVector, mask: int) -> ResourceVector:
    """Return the amounts held by a task of ``request`` with exclusive disks in ``mask``: their whole bandwidth."""
    disks = [device for d, device in enumerate(cluster.devices[f]) if mask >> d & 1 and device.kind == DISK_KIND]
    amounts = [sum(disk.bandwidth[i] for disk in disks) for i in range(DISK_AMOUNTS)]
    return (*request[:DISK_AT], *amounts, *request[DISK_AT + DISK_AMOUNTS :])


def dimensions_of(cluster: Cluster, kind: str) -> range:
    """Return the dimensions in which devices of a kind have amounts."""
    if kind == DISK_KIND:
        return range(DISK_AT, DISK_AT + DISK_AMOUNTS)
    k = cluster.dimensions.index[kind]
    return range(k, k + 1)


def device_use(cluster: Cluster, f: int) -> list[tuple[Device, tuple[int, ...], int]]:
    """Return the devices of node ``f`` with the free part of each and its number of users.

    The free part is in thousandths; for a disk it has four amounts.
    """
    found = []
    # Removed devices that leases still hold come last.
    there = len(cluster.devices[f]) - len(cluster.gone.get(f, ()))
    for d, device in enumerate(cluster.devices[f][:there]):
        at = first_device(cluster.k_count) + d * WIDTH
        row = cluster.nodes[f, at : at + WIDTH].tolist()
        left = row[LEFT : LEFT + (DISK_AMOUNTS if device.kind == DISK_KIND else 1)]
        found.append((device, tuple(left), row[USERS]))
    return found


def unit_fits(cluster: Cluster, members: Sequence[tuple[ResourceVector, Ints]], f: int, *, empty: bool) -> bool:
    """Return True if all members of a unit, each with amounts and device request, find their devices on node ``f``
    together.
    """
    k = cluster.k_count
    node = cluster.nodes[f].copy()
    if empty:
        for at in range(first_device(k), len(node), WIDTH):
            node[at + USERS] = 0
            node[at + LEFT : at + LEFT + DISK_AMOUNTS] = node[at + ALL : at + ALL + DISK_AMOUNTS]
    lease = np.zeros((1, cluster.leases.shape[1]), np.int64)
    for i in in_turn([ask for _, ask in members]):
        request, ask = members[i]
        if not device_copies(node, ask, k, False):
            return False
        lease[0] = 0
        lease[0, LEASE_AT : LEASE_AT + k] = request
        choose_devices(0, node, ask, lease, k)
        give_devices(0, node, -1, lease, k)
    return True
