"""Devices in the tables of ``holding``: free parts of each device, the devices of each lease, and the fit of requests.

After its amounts a row of ``nodes`` has a block of ``WIDTH`` columns for each device: its kind (its dimension,
``DISK``, or ``NONE`` for no device), the number of leases that use it, four free amounts, and four total amounts. A
device of a dimension uses the first of each four, in thousandths; a disk uses those of ``DISK_DIMENSIONS``.

A lease has a mask of its devices, and a flag for exclusive disks, of which it holds the whole bandwidth. It uses an
equal part of its amount on each of its devices of a dimension.

A shape's device request (``ask``, after its counts in ``rows``) contains: a flag if there is any request, the numbers
of exclusive disks that it requires and that it prefers, its amounts on a shared disk, the least amounts of an
exclusive disk, then per dimension a part of one device, or thousandths of whole ones.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FREE_AT = 6
LEASE_AT = 4
KIND, USERS, LEFT, ALL = 0, 1, 2, 6
WIDTH = 10
DISK = -2
NOTHING = -1
WHOLE = 1000
# The disk's dimensions follow cpu, memory and network.
DISK_AT = 3
DISK_AMOUNTS = 4
ASKS, MUST, LIKES, SHARED, EACH, PARTS = 0, 1, 2, 3, 7, 11
# More copies than any node takes.
MANY = 2**31


@njit(cache=True, nogil=True, error_model="numpy")
def first_device(k_count):
    """Return the column of ``nodes`` at which the devices begin."""
    return FREE_AT + 2 * k_count


@njit(cache=True, nogil=True, error_model="numpy")
def mask_at(k_count):
    """Return the column of ``leases`` with the mask of devices; the next one is 1 if the lease has its disks
    exclusively.
    """
    return LEASE_AT + k_count


@njit(cache=True, nogil=True, error_model="numpy")
def _disk_holds(node, at, amounts, first, left):
    """Return True if the disk at column ``at`` has the four amounts from ``first`` on, free now or in total."""
    for i in range(DISK_AMOUNTS):
        if node[at + left + i] < amounts[first + i]:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _asks_disk(ask, first):
    for i in range(DISK_AMOUNTS):
        if ask[first + i] > 0:
            return True
    return False


@njit(cache=True, nogil=True, error_model="numpy")
def _alone(node, at, ask, empty):
    """Return True if a task may have the disk exclusively: the disk is unused and fast enough."""
    return (empty or node[at + USERS] == 0) and _disk_holds(node, at, ask, EACH, ALL)


@njit(cache=True, nogil=True, error_model="numpy")
def _copies_of(node, ask, k_count, k, empty):
    """Return the number of copies that fit on the devices of dimension ``k``; MANY if the node does not count them."""
    amount = ask[PARTS + k]
    known = False
    copies = 0
    whole = 0
    for at in range(first_device(k_count), node.shape[0], WIDTH):
        if node[at + KIND] == k:
            known = True
            left = node[at + (ALL if empty else LEFT)]
            copies += left // amount
            whole += np.int64(left == WHOLE)
    if not known:
        return MANY
    if amount < WHOLE:
        return copies
    return whole * WHOLE // amount if amount % WHOLE == 0 else 0


@njit(cache=True, nogil=True, error_model="numpy")
def _copies_of_disks(node, ask, k_count, empty):
    """Return the number of copies that fit on the disks; MANY if the node does not count them."""
    left = ALL if empty else LEFT
    known = False
    alone = 0
    copies = 0
    for at in range(first_device(k_count), node.shape[0], WIDTH):
        if node[at + KIND] != DISK:
            continue
        known = True
        alone += np.int64(_alone(node, at, ask, empty))
        if ask[MUST] == 0 and _disk_holds(node, at, ask, SHARED, left):
            here = MANY
            for i in range(DISK_AMOUNTS):
                if ask[SHARED + i] > 0:
                    here = min(here, node[at + left + i] // ask[SHARED + i])
            copies += here
    if not known:
        return MANY
    return alone // ask[MUST] if ask[MUST] > 0 else copies


@njit(cache=True, nogil=True, error_model="numpy")
def device_copies(node, ask, k_count, empty):
    """Return the number of copies of a request that find their devices on a node (its row), now or with the node
    ``empty``.
    """
    copies = MANY
    for k in range(k_count):
        if ask[PARTS + k] > 0:
            copies = min(copies, _copies_of(node, ask, k_count, k, empty))
    if ask[MUST] > 0 or _asks_disk(ask, SHARED):
        copies = min(copies, _copies_of_disks(node, ask, k_count, empty))
    return copies


@njit(cache=True, nogil=True, error_model="numpy")
def device_bits(node, ask, k_count, empty):
    """Return the dimensions with too few devices on a node for one copy, as bits."""
    bits = 0
    for k in range(k_count):
        if ask[PARTS + k] > 0 and _copies_of(node, ask, k_count, k, empty) == 0:
            bits |= 1 << k
    if (ask[MUST] > 0 or _asks_disk(ask, SHARED)) and _copies_of_disks(node, ask, k_count, empty) == 0:
        missing = 0
        for i in range(DISK_AMOUNTS):
            if ask[SHARED + i] > 0 or ask[EACH + i] > 0:
                missing |= 1 << (DISK_AT + i)
        bits |= missing if missing != 0 else 1 << DISK_AT
    return bits


@njit(cache=True, nogil=True, error_model="numpy")
def all_copies(nodes, node_count, ask, k_count, empty, out):
    """Write ``device_copies`` of every node into ``out``."""
    for f in range(node_count):
        out[f] = device_copies(nodes[f], ask, k_count, empty)


@njit(cache=True, nogil=True, error_model="numpy")
def count_disks(nodes, places, k_count, free, out):
    """Write the number of disks, or of unused disks, of each of the nodes ``places`` into ``out``."""
    for i in range(places.shape[0]):
        node = nodes[places[i]]
        out[i] = 0
        for at in range(first_device(k_count), node.shape[0], WIDTH):
            if node[at + KIND] == DISK and (not free or node[at + USERS] == 0):
                out[i] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _best_part(node, k, amount, k_count):
    """Return the device with the least left among those with at least ``amount`` left."""
    best = -1
    least = np.int64(MANY)
    for d in range((node.shape[0] - first_device(k_count)) // WIDTH):
        at = first_device(k_count) + d * WIDTH
        if node[at + KIND] == k and amount <= node[at + LEFT] < least:
            best = d
            least = node[at + LEFT]
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _widest_disk(node, ask, k_count):
    """Return the disk, among those with room for the shared part, with the most left of the first requested
    dimension.
    """
    by = 0
    while by < DISK_AMOUNTS - 1 and ask[SHARED + by] == 0:
        by += 1
    best = -1
    most = np.int64(-1)
    for d in range((node.shape[0] - first_device(k_count)) // WIDTH):
        at = first_device(k_count) + d * WIDTH
        if node[at + KIND] == DISK and node[at + LEFT + by] > most and _disk_holds(node, at, ask, SHARED, LEFT):
            best = d
            most = node[at + LEFT + by]
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _least_disk(node, ask, k_count, mask):
    """Return the disk with the least bandwidth among unused ones that suffice and are not in ``mask``."""
    best = -1
    least = np.int64(2**62)
    for d in range((node.shape[0] - first_device(k_count)) // WIDTH):
        at = first_device(k_count) + d * WIDTH
        taken = mask >> d & 1
        if node[at + KIND] == DISK and not taken and node[at + ALL] < least and _alone(node, at, ask, False):
            best = d
            least = node[at + ALL]
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _disks_alone(node, ask, k_count, number):
    """Return the mask of ``number`` unused disks, those with the least bandwidth that suffices; 0 if there are too
    few.
    """
    mask = np.int64(0)
    for _ in range(number):
        best = _least_disk(node, ask, k_count, mask)
        if best < 0:
            return np.int64(0)
        mask |= np.int64(1) << best
    return mask


@njit(cache=True, nogil=True, error_model="numpy")
def cap_alone(nodes, node_count, request, ask, k_count, copies):
    """Lower ``copies`` per node to those that start there in sequence before exclusive disks exceed the free amounts.

    A lease keeps the bandwidth that its disk had when it began. If disks have become smaller since, unused ones may
    have more than the node has free; the task that takes the last of it starts all the same.
    """
    number = max(ask[MUST], ask[LIKES])
    for f in range(node_count):
        node = nodes[f]
        disks = np.int64(0)
        left = node[FREE_AT + DISK_AT : FREE_AT + DISK_AT + DISK_AMOUNTS].copy()
        for copy in range(1, copies[f]):
            for _ in range(number):
                best = _least_disk(node, ask, k_count, disks)
                if best < 0:
                    break
                disks |= np.int64(1) << best
                at = first_device(k_count) + best * WIDTH
                left -= node[at + ALL : at + ALL + DISK_AMOUNTS]
            if (left < request[DISK_AT : DISK_AT + DISK_AMOUNTS]).any():
                copies[f] = copy
                break


@njit(cache=True, nogil=True, error_model="numpy")
def choose_devices(slot, node, ask, leases, k_count):
    """Choose devices on the node (its row) for the lease and write them into it; the request must fit."""
    mask = np.int64(0)
    alone = np.int64(0)
    for k in range(k_count):
        amount = ask[PARTS + k]
        if amount == 0:
            continue
        if amount < WHOLE:
            best = _best_part(node, k, amount, k_count)
            if best >= 0:
                mask |= np.int64(1) << best
            continue
        left = amount // WHOLE
        for d in range((node.shape[0] - first_device(k_count)) // WIDTH):
            at = first_device(k_count) + d * WIDTH
            if left > 0 and node[at + KIND] == k and node[at + LEFT] == WHOLE:
                mask |= np.int64(1) << d
                left -= 1
    disks = np.int64(0)
    if ask[MUST] > 0 or ask[LIKES] > 0:
        disks = _disks_alone(node, ask, k_count, max(ask[MUST], ask[LIKES]))
        alone = np.int64(disks != 0)
    if disks == 0 and _asks_disk(ask, SHARED):
        best = _widest_disk(node, ask, k_count)
        if best >= 0:
            disks = np.int64(1) << best
    leases[slot, mask_at(k_count)] = mask | disks
    leases[slot, mask_at(k_count) + 1] = alone


@njit(cache=True, nogil=True, error_model="numpy")
def widen(mask, node, amounts, k_count):
    """Replace the disk amounts by those of the node's disks in ``mask``."""
    for i in range(DISK_AMOUNTS):
        amounts[DISK_AT + i] = 0
    for d in range((node.shape[0] - first_device(k_count)) // WIDTH):
        at = first_device(k_count) + d * WIDTH
        if mask >> d & 1 and node[at + KIND] == DISK:
            for i in range(DISK_AMOUNTS):
                amounts[DISK_AT + i] += node[at + ALL + i]


@njit(cache=True, nogil=True, error_model="numpy")
def held_on(node, request, ask, k_count):
    """Return the amounts that a task would hold on a node now: its request, and the whole bandwidth of its exclusive
    disks.
    """
    number = max(ask[MUST], ask[LIKES])
    mask = _disks_alone(node, ask, k_count, number) if number > 0 else np.int64(0)
    if mask == 0:
        return request
    held = request.copy()
    widen(mask, node, held, k_count)
    return held


@njit(cache=True, nogil=True, error_model="numpy")
def _part_of(slot, node, k, leases, k_count):
    """Return the amount that the lease uses on each of its devices of dimension ``k``."""
    mask = leases[slot, mask_at(k_count)]
    count = 0
    for d in range((node.shape[0] - first_device(k_count)) // WIDTH):
        if mask >> d & 1 and node[first_device(k_count) + d * WIDTH + KIND] == k:
            count += 1
    return leases[slot, LEASE_AT + k] // max(1, count)


@njit(cache=True, nogil=True, error_model="numpy")
def give_devices(slot, node, sign, leases, k_count):
    """Return (``sign`` 1) the lease's devices to the node (its row), or take them (-1)."""
    mask = leases[slot, mask_at(k_count)]
    alone = leases[slot, mask_at(k_count) + 1]
    for d in range((node.shape[0] - first_device(k_count)) // WIDTH):
        if not mask >> d & 1:
            continue
        at = first_device(k_count) + d * WIDTH
        node[at + USERS] -= sign
        if node[at + KIND] == DISK:
            for i in range(DISK_AMOUNTS):
                held = node[at + ALL + i] if alone else leases[slot, LEASE_AT + DISK_AT + i]
                node[at + LEFT + i] += sign * held
        elif node[at + KIND] >= 0:
            node[at + LEFT] += sign * _part_of(slot, node, node[at + KIND], leases, k_count)
