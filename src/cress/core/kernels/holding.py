"""Holding and returning resources on nodes, and the fit of every live shape on every node.

Tables (int64, C-contiguous, one row per node, lease or shape):

* ``nodes``: head and tail of the node's leases in the order of their ends, head of its bookings, the stamp of
  its last change, 1 if it takes tasks, the first end of its leases, then K free amounts, then K capacities, then its
  devices.
* ``leases``: node, end, next, previous, then K amounts, then its devices.
* ``rows``: number of nodes that fit, 1 if the row is in use, then K amounts of the shape, then per dimension
  the number of usable nodes that lack it, then its device request.
* ``totals``: the stamp, the number of rows in use that fit nowhere, then K amounts in use, then K capacities of the
  cluster.

``lack`` (int32, shape × node) has bit k set where the node lacks dimension k, as an amount or on its devices,
``UNUSABLE`` where it takes no tasks, ``NARROW`` where its devices would not suffice even if it were empty. Its bits
``CLAUSES`` are 1 + the index of the first hard clause about single nodes that excludes the node, 0 without one; only
``exclude`` changes them, and the dimensions that such a node lacks are neither kept nor counted. Its bit ``SHUT`` is
set where a clause over domains excludes the node (``domains.py``). That happens often, and for many nodes at once, so
the dimensions that these nodes lack are kept, though not counted. A node with one of these bits, ``EXCLUDED``, is
excluded.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.core.kernels.devices import (
    ASKS,
    choose_devices,
    device_bits,
    first_device,
    give_devices,
    mask_at,
    widen,
)

HEAD, TAIL, BOOKED, STAMP, USABLE, FIRST_END, FREE = range(7)
NODE, END, NEXT, PREVIOUS, AMOUNTS = range(5)
FITTING, IN_USE, REQUEST = range(3)
TOTAL_STAMP, TOTAL_STARVED, TOTAL_USED = range(3)
NONE = -1
UNUSABLE = 1 << 30
CLAUSE_BIT = 24
CLAUSE = 1 << CLAUSE_BIT
CLAUSES = 31 * CLAUSE
# The sign of an int32.
SHUT = -(1 << 31)
EXCLUDED = CLAUSES | SHUT
NARROW = 1 << 29
# The bits of a node that is excluded at all times.
OUT = EXCLUDED | NARROW
NEVER = 2**61


@njit(cache=True, nogil=True, error_model="numpy")
def _amount_bits(nodes, f, rows, r, k_count, excluded):
    if nodes[f, USABLE] == 0:
        return np.int32(UNUSABLE | excluded)
    if excluded & CLAUSES != 0:
        return np.int32(excluded)
    bits = 0
    for k in range(k_count):
        if nodes[f, FREE + k] < rows[r, REQUEST + k]:
            bits |= 1 << k
    return np.int32(bits | excluded)


@njit(cache=True, nogil=True, error_model="numpy")
def _lack_bits(nodes, f, rows, r, k_count, excluded):
    bits = _amount_bits(nodes, f, rows, r, k_count, excluded)
    asks = REQUEST + 2 * k_count
    if bits & (UNUSABLE | CLAUSES) == 0 and nodes.shape[1] > first_device(k_count) and rows[r, asks + ASKS] != 0:
        if device_bits(nodes[f], rows[r, asks:], k_count, True) != 0:
            bits |= NARROW
        bits |= device_bits(nodes[f], rows[r, asks:], k_count, False)
    return np.int32(bits)


@njit(cache=True, nogil=True, error_model="numpy")
def _count(rows, r, bits, sign, k_count):
    if bits == 0:
        rows[r, FITTING] += sign
    elif bits & (EXCLUDED | UNUSABLE) == 0:
        for k in range(k_count):
            if bits & (1 << k):
                rows[r, REQUEST + k_count + k] += sign


@njit(cache=True, nogil=True, error_model="numpy")
def _replace(rows, r, f, bits, totals, lack, k_count):
    starved = rows[r, FITTING] == 0
    _count(rows, r, lack[r, f], -1, k_count)
    _count(rows, r, bits, 1, k_count)
    lack[r, f] = bits
    totals[TOTAL_STARVED] += np.int64(rows[r, FITTING] == 0) - np.int64(starved)


@njit(cache=True, nogil=True, error_model="numpy")
def _refresh_before(f, columns, then, width):
    # Same operations in the same order as in the unrolled loops over all nodes, for equal rounding.
    mean = np.float32(0)
    for b in range(width):
        mean += columns[b, f]
    mean *= columns[2 * width, f]
    up = np.float32(0)
    for b in range(width):
        if columns[width + b, f] > np.float32(0):
            t = columns[b, f] - mean
            up += then[b] * t * t
    columns[2 * width + 1, f] = up


@njit(cache=True, nogil=True, error_model="numpy")
def refresh_node(f, nodes, totals, columns, then, dims, rows, row_count, lack):
    """Update the stamp of node ``f``, its float columns and its entry in every row in use after a change."""
    k_count = (totals.shape[0] - TOTAL_USED) // 2
    width = (columns.shape[0] - 2) // 2
    totals[TOTAL_STAMP] += 1
    nodes[f, STAMP] = totals[TOTAL_STAMP]
    for b in range(dims.shape[0]):
        k = dims[b]
        capacity = nodes[f, FREE + k_count + k]
        if capacity > 0:
            columns[b, f] = np.float32((capacity - nodes[f, FREE + k]) / capacity)
            columns[width + b, f] = np.float32(1.0 / capacity)
        else:
            columns[b, f] = np.float32(0)
            columns[width + b, f] = np.float32(0)
    _refresh_before(f, columns, then, width)
    if nodes.shape[1] > first_device(k_count):
        for r in range(row_count):
            if rows[r, IN_USE] != 0:
                bits = _lack_bits(nodes, f, rows, r, k_count, lack[r, f] & EXCLUDED)
                if bits != lack[r, f]:
                    _replace(rows, r, f, bits, totals, lack, k_count)
        return
    # A separate loop without devices: it is half as fast again as one with a branch for them.
    for r in range(row_count):
        if rows[r, IN_USE] != 0:
            bits = _amount_bits(nodes, f, rows, r, k_count, lack[r, f] & EXCLUDED)
            if bits != lack[r, f]:
                _replace(rows, r, f, bits, totals, lack, k_count)


@njit(cache=True, nogil=True, error_model="numpy")
def fill_row(r, nodes, node_count, totals, rows, lack):
    """Compute the row of a shape; its amounts are already in ``rows``, and its bits ``EXCLUDED`` in ``lack``."""
    k_count = (totals.shape[0] - TOTAL_USED) // 2
    rows[r, FITTING] = 0
    rows[r, IN_USE] = 1
    for k in range(k_count):
        rows[r, REQUEST + k_count + k] = 0
    for f in range(node_count):
        bits = _lack_bits(nodes, f, rows, r, k_count, lack[r, f] & EXCLUDED)
        lack[r, f] = bits
        _count(rows, r, bits, 1, k_count)
    if rows[r, FITTING] == 0:
        totals[TOTAL_STARVED] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def exclude(r, places, first, nodes, totals, rows, lack):
    """Write the first clause about single nodes that excludes each of the nodes ``places`` in row ``r``.

    ``first`` contains 1 + its index, 0 without one. A changed node gets a new stamp. Returns True if a node is no
    longer excluded.
    """
    k_count = (totals.shape[0] - TOTAL_USED) // 2
    cleared = False
    for i in range(places.shape[0]):
        f = places[i]
        old = lack[r, f] & EXCLUDED
        excluded = np.int32(first[i]) << CLAUSE_BIT | old & SHUT
        if excluded != old:
            _replace(rows, r, f, _lack_bits(nodes, f, rows, r, k_count, excluded), totals, lack, k_count)
            totals[TOTAL_STAMP] += 1
            nodes[f, STAMP] = totals[TOTAL_STAMP]
            cleared = cleared or excluded == 0
    return cleared


@njit(cache=True, nogil=True, error_model="numpy")
def link_lease(slot, f, nodes, leases):
    """Insert a lease into its node's list: by end, after those with the same end."""
    end = leases[slot, END]
    before = nodes[f, TAIL]
    while before != NONE and leases[before, END] > end:
        before = leases[before, PREVIOUS]
    after = nodes[f, HEAD] if before == NONE else leases[before, NEXT]
    leases[slot, PREVIOUS] = before
    leases[slot, NEXT] = after
    if before == NONE:
        nodes[f, HEAD] = slot
    else:
        leases[before, NEXT] = slot
    if after == NONE:
        nodes[f, TAIL] = slot
    else:
        leases[after, PREVIOUS] = slot
    nodes[f, FIRST_END] = leases[nodes[f, HEAD], END]


@njit(cache=True, nogil=True, error_model="numpy")
def unlink_lease(slot, f, nodes, leases):
    """Remove a lease from its node's list."""
    before = leases[slot, PREVIOUS]
    after = leases[slot, NEXT]
    if before == NONE:
        nodes[f, HEAD] = after
    else:
        leases[before, NEXT] = after
    if after == NONE:
        nodes[f, TAIL] = before
    else:
        leases[after, PREVIOUS] = before
    head = nodes[f, HEAD]
    nodes[f, FIRST_END] = NEVER if head == NONE else leases[head, END]


@njit(cache=True, nogil=True, error_model="numpy")
def hold_as_written(slot, f, end, nodes, leases, totals, columns, then, dims, rows, row_count, lack):
    """Hold the amounts and devices written in ``slot`` on node ``f`` until ``end`` (µs), as a new lease."""
    k_count = (totals.shape[0] - TOTAL_USED) // 2
    leases[slot, NODE] = f
    leases[slot, END] = end
    if leases[slot, mask_at(k_count)] != 0:
        give_devices(slot, nodes[f], -1, leases, k_count)
    for k in range(k_count):
        amount = leases[slot, AMOUNTS + k]
        nodes[f, FREE + k] -= amount
        totals[TOTAL_USED + k] += amount
    link_lease(slot, f, nodes, leases)
    refresh_node(f, nodes, totals, columns, then, dims, rows, row_count, lack)


@njit(cache=True, nogil=True, error_model="numpy")
def hold(slot, f, end, r, nodes, leases, totals, columns, then, dims, rows, row_count, lack):
    """Hold the amounts of row ``r`` on node ``f`` until ``end`` (µs), as a new lease in ``slot``.

    If the slot already names devices, the lease gets exactly those.
    """
    k_count = (totals.shape[0] - TOTAL_USED) // 2
    for k in range(k_count):
        leases[slot, AMOUNTS + k] = rows[r, REQUEST + k]
    if nodes.shape[1] > first_device(k_count):
        asks = REQUEST + 2 * k_count
        if leases[slot, mask_at(k_count)] == 0 and rows[r, asks + ASKS] != 0:
            choose_devices(slot, nodes[f], rows[r, asks:], leases, k_count)
        if leases[slot, mask_at(k_count) + 1] != 0:
            widen(leases[slot, mask_at(k_count)], nodes[f], leases[slot, AMOUNTS:], k_count)
    hold_as_written(slot, f, end, nodes, leases, totals, columns, then, dims, rows, row_count, lack)


@njit(cache=True, nogil=True, error_model="numpy")
def release(slot, nodes, leases, totals, columns, then, dims, rows, row_count, lack):
    """Remove the lease in ``slot`` and free the amounts that it held."""
    k_count = (totals.shape[0] - TOTAL_USED) // 2
    f = leases[slot, NODE]
    if leases[slot, mask_at(k_count)] != 0:
        give_devices(slot, nodes[f], 1, leases, k_count)
        leases[slot, mask_at(k_count) :] = 0
    for k in range(k_count):
        amount = leases[slot, AMOUNTS + k]
        nodes[f, FREE + k] += amount
        totals[TOTAL_USED + k] -= amount
    unlink_lease(slot, f, nodes, leases)
    leases[slot, NODE] = NONE
    refresh_node(f, nodes, totals, columns, then, dims, rows, row_count, lack)


@njit(cache=True, nogil=True, error_model="numpy")
def next_candidate(shape_of, limit_of, first, last, bound, rows):
    """Return the first queue position in [first, last) whose shape fits somewhere and whose limit is below its bound,
    or -1.
    """
    for i in range(first, last):
        r = shape_of[i]
        if limit_of[i] < bound[r] and rows[r, FITTING] > 0:
            return i
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def lacking_bits(r, rows, usable, k_count):
    """Return the dimensions that row ``r`` lacks on every usable node, as bits; if none, the one lacked on most
    nodes.
    """
    bits = 0
    worst = 0
    scarce = 0
    for k in range(k_count):
        lacking = rows[r, REQUEST + k_count + k]
        if lacking == usable:
            bits |= 1 << k
        if lacking > worst:
            worst = lacking
            scarce = 1 << k
    return bits or scarce


@njit(cache=True, nogil=True, error_model="numpy")
def count_lack(r, jobs, rows, usable, found):
    """Add ``jobs`` to ``found`` for each dimension that row ``r`` lacks, if it fits nowhere."""
    if rows[r, FITTING] == 0:
        bits = lacking_bits(r, rows, usable, found.shape[0])
        for k in range(found.shape[0]):
            found[k] += jobs * ((bits >> k) & 1)


@njit(cache=True, nogil=True, error_model="numpy")
def count_lacks(shape_of, limit_of, first, last, gap, rows, usable, found):
    """Do ``count_lack`` for the shapes at the queue positions in [first, last)."""
    for i in range(first, last):
        if limit_of[i] != gap:
            count_lack(shape_of[i], np.int64(1), rows, usable, found)


@njit(cache=True, nogil=True, error_model="numpy")
def count_lacks_of_rows(waiting, rows, usable, found):
    """Do ``count_lack`` for all jobs of a queue; ``waiting`` is their number per row."""
    for r in range(len(waiting)):
        if waiting[r] > 0:
            count_lack(r, waiting[r], rows, usable, found)
