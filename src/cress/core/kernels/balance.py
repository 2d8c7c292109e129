"""The balance measure of all nodes at once, and the best node by it.

``columns`` (float32, 2 × width + 2 rows, one column a node): used/capacity per dimension, then 1/capacity per
dimension, both 0 where a node lacks it, then 1 / the number of dimensions that the node has, then y² × the sum of
the node's weights before placing, under the weights ``then`` (a node's weights have the same sum before and after,
so these sums tell whether y falls). Rows beyond the dimensions of the cluster are zero and change nothing: x + 0 is
exact. A score is y², which orders as y does. The key of a node is (bits of its score) << 32 | node: floats that are
not negative order as their bits, ties go to the first node.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.core.kernels.choice import BALANCE, BEST_FIT, FIRST, best_by_mean, current_weights, differ, first_free
from cress.core.kernels.holding import REQUEST, hold
from cress.core.kernels.unrolled import ZERO, sums_4, sums_6, sums_8, sums_16

NO_NODE = 2**62
BLOCK = 2048
ROTATE_BLOCK = 512


@njit(cache=True, nogil=True, error_model="numpy")
def sums(columns, lo, hi, add, weights, up, down):
    """Write the sums of the nodes [lo, hi) (``unrolled.py``) for the width of ``columns``."""
    width = add.shape[0]
    if width == 4:
        sums_4(columns, lo, hi, add, weights, up, down)
    elif width == 6:
        sums_6(columns, lo, hi, add, weights, up, down)
    elif width == 8:
        sums_8(columns, lo, hi, add, weights, up, down)
    else:
        sums_16(columns, lo, hi, add, weights, up, down)


@njit(cache=True, nogil=True, error_model="numpy")
def scan(lack, blocked, columns, node_count, add, weights):
    """Return the key of the feasible node with the smallest y after placing ``add``, or NO_NODE."""
    best = np.int64(NO_NODE)
    y = np.empty(BLOCK, np.float32)
    down = np.empty(BLOCK, np.float32)
    bits = y.view(np.int32)
    for lo in range(0, node_count, BLOCK):
        c = min(BLOCK, node_count - lo)
        lacks = lack[lo : lo + c]
        blocks = blocked[lo : lo + c]
        sums(columns, lo, lo + c, add, weights, y, down)
        for i in range(c):
            y[i] = y[i] / down[i] if down[i] > ZERO else ZERO
        for i in range(c):
            key = (np.int64(bits[i]) << 32) | np.int64(lo + i)
            key = np.int64(NO_NODE) if (lacks[i] | blocks[i]) != 0 else key
            best = min(best, key)
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def rotate(lack, blocked, columns, first, last, add, weights):
    """Scan the nodes [first, last); return the key of the smallest y after placing, and the first node whose y falls,
    or -1.

    Stops at the block in which a node improves; the key then covers only the nodes scanned so far.
    """
    best = np.int64(NO_NODE)
    x = np.empty(ROTATE_BLOCK, np.float32)
    y = np.empty(ROTATE_BLOCK, np.float32)
    bits = y.view(np.int32)
    for lo in range(first, last, ROTATE_BLOCK):
        c = min(ROTATE_BLOCK, last - lo)
        lacks = lack[lo : lo + c]
        blocks = blocked[lo : lo + c]
        z = columns[columns.shape[0] - 1, lo : lo + c]
        sums(columns, lo, lo + c, add, weights, x, y)
        for i in range(c):
            y[i] = x[i] / y[i] if y[i] > ZERO else ZERO
        found = np.int64(ROTATE_BLOCK)
        for i in range(c):
            out = (lacks[i] | blocks[i]) != 0
            key = (np.int64(bits[i]) << 32) | np.int64(lo + i)
            key = np.int64(NO_NODE) if out else key
            best = min(best, key)
            place = np.int64(ROTATE_BLOCK) if out or x[i] >= z[i] else np.int64(i)
            found = min(found, place)
        if found < ROTATE_BLOCK:
            return best, lo + found
    return best, np.int64(-1)


@njit(cache=True, nogil=True, error_model="numpy")
def added_by(r, rows, dims, width):
    """Return the request of the shape of row ``r`` in the balanced dimensions."""
    add = np.zeros(width, np.float32)
    for b in range(dims.shape[0]):
        add[b] = np.float32(rows[r, REQUEST + dims[b]])
    return add


@njit(cache=True, nogil=True, error_model="numpy")
def measure(r, rows, columns, node_count, totals, dims, fixed, fixed_parts, by_utilisation, out):
    """Write y² of every node with one copy of the shape of row ``r`` on it into ``out``."""
    width = (columns.shape[0] - 2) // 2
    weights = np.zeros(width, np.float32)
    current_weights(totals, dims, fixed, fixed_parts, by_utilisation, weights)
    down = np.empty(node_count, np.float32)
    sums(columns, 0, node_count, added_by(r, rows, dims, width), weights, out, down)
    for i in range(node_count):
        out[i] = out[i] / down[i] if down[i] > ZERO else ZERO


@njit(cache=True, nogil=True, error_model="numpy")
def choose(
    r, lack, rows, blocked, columns, then, node_count, totals, dims, fixed, fixed_parts, by_utilisation, threshold,
    order, cursor,
):  # fmt: skip
    """Return the node for one copy of the shape of row ``r``, or -1, and the new cursor of the rotation."""
    row = lack[r]
    if order == FIRST or node_count == 1:
        return first_free(row, blocked, node_count), cursor
    width = (columns.shape[0] - 2) // 2
    add = added_by(r, rows, dims, width)
    if order != BALANCE:
        return best_by_mean(row, blocked, columns, node_count, add, order == BEST_FIT), cursor
    weights = np.zeros(width, np.float32)
    mean = current_weights(totals, dims, fixed, fixed_parts, by_utilisation, weights)
    if mean >= threshold:
        best = scan(row, blocked, columns, node_count, add, weights)
    else:
        if differ(weights, then):
            then[:] = weights
            # The column of y² before placing, for all nodes.
            nothing = np.zeros(width, np.float32)
            sums(columns, 0, node_count, nothing, weights, columns[2 * width + 1], np.empty(node_count, np.float32))
        best, better = rotate(row, blocked, columns, cursor, node_count, add, weights)
        if better < 0:
            rest, better = rotate(row, blocked, columns, 0, cursor, add, weights)
            best = min(best, rest)
        if better >= 0:
            return better, (better + 1) % node_count
    if best == NO_NODE:
        return -1, cursor
    return best & 0xFFFFFFFF, cursor


@njit(cache=True, nogil=True, error_model="numpy")
def place(
    r, slot, end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims, fixed,
    fixed_parts, by_utilisation, threshold, order, cursor,
):  # fmt: skip
    """Choose a node for one copy of the shape of row ``r`` and hold it there until ``end``, in one call."""
    f, cursor = choose(
        r, lack, rows, blocked, columns, then, node_count, totals, dims, fixed, fixed_parts, by_utilisation,
        threshold, order, cursor,
    )  # fmt: skip
    if f >= 0:
        hold(slot, f, end, r, nodes, leases, totals, columns, then, dims, rows, row_count, lack)
    return f, cursor


@njit(cache=True, nogil=True, error_model="numpy")
def place_many(
    r, slots, chosen, end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims,
    fixed, fixed_parts, by_utilisation, threshold, order, cursor,
):  # fmt: skip
    """Place one copy for each of ``slots``, in one call for a gang: the nodes into ``chosen``. Returns the new
    cursor.
    """
    for i in range(slots.shape[0]):
        chosen[i], cursor = place(
            r, slots[i], end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims,
            fixed, fixed_parts, by_utilisation, threshold, order, cursor,
        )  # fmt: skip
    return cursor
