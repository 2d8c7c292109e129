"""The balance measure of all nodes at once, and the best node by it. WRITTEN BY tools/unroll_balance.py: change that.

``columns`` (float32, 2 × width + 1 rows, one column a node): used/capacity per dimension, then 1/capacity per
dimension, both 0 where a node lacks it, then 1 / the number of dimensions that the node has, then y² × the sum of
the node's weights as the node is, under the weights ``then`` (a node's weights add up to the same before and after,
so these sums tell whether y falls). Rows beyond the
dimensions of the cluster are zero and change nothing: x + 0 is exact. A score is y², which orders as y does. The key
of a node is (bits of its score) << 32 | node: floats that are not negative order as their bits, ties go to the first
node.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.core.kernels.choice import BALANCE, BEST_FIT, FIRST, best_by_mean, current_weights, differ, first_free
from cress.core.kernels.holding import REQUEST, hold

ZERO = np.float32(0)
NO_NODE = 2**62
BLOCK = 2048
ROTATE_BLOCK = 512
WIDTHS = (4, 6, 8, 16)


@njit(cache=True, nogil=True, error_model="numpy")
def scan_4(lack, blocked, columns, node_count, add, weights):
    """Key of the feasible node with the smallest y after placing ``add``, or NO_NODE."""
    best = np.int64(NO_NODE)
    y = np.empty(BLOCK, np.float32)
    bits = y.view(np.int32)
    a0 = add[0]; a1 = add[1]; a2 = add[2]; a3 = add[3]
    w0 = weights[0]; w1 = weights[1]; w2 = weights[2]; w3 = weights[3]
    for lo in range(0, node_count, BLOCK):
        c = min(BLOCK, node_count - lo)
        lacks = lack[lo : lo + c]
        blocks = blocked[lo : lo + c]
        parts = columns[8, lo : lo + c]
        s0 = columns[0, lo : lo + c]; s1 = columns[1, lo : lo + c]; s2 = columns[2, lo : lo + c]; s3 = columns[3, lo : lo + c]
        v0 = columns[4, lo : lo + c]; v1 = columns[5, lo : lo + c]; v2 = columns[6, lo : lo + c]; v3 = columns[7, lo : lo + c]
        for i in range(c):
            d0 = s0[i] + a0 * v0[i]; d1 = s1[i] + a1 * v1[i]; d2 = s2[i] + a2 * v2[i]; d3 = s3[i] + a3 * v3[i]
            u0 = w0 if v0[i] > ZERO else ZERO; u1 = w1 if v1[i] > ZERO else ZERO; u2 = w2 if v2[i] > ZERO else ZERO; u3 = w3 if v3[i] > ZERO else ZERO
            down = u0 + u1 + u2 + u3
            m = (d0 + d1 + d2 + d3) * parts[i]
            t0 = d0 - m; t1 = d1 - m; t2 = d2 - m; t3 = d3 - m
            up = u0 * t0 * t0 + u1 * t1 * t1 + u2 * t2 * t2 + u3 * t3 * t3
            y[i] = up / down if down > ZERO else ZERO
        for i in range(c):
            key = (np.int64(bits[i]) << 32) | np.int64(lo + i)
            key = np.int64(NO_NODE) if (lacks[i] | blocks[i]) != 0 else key
            best = min(best, key)
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def rotate_4(lack, blocked, columns, first, last, add, weights):
    """Over the nodes [first, last): (key of the smallest y after, first node whose y falls, or -1).

    Stops at the block in which a node improves; the key then covers what was looked at.
    """
    best = np.int64(NO_NODE)
    y = np.empty(ROTATE_BLOCK, np.float32)
    x = np.empty(ROTATE_BLOCK, np.float32)
    bits = y.view(np.int32)
    a0 = add[0]; a1 = add[1]; a2 = add[2]; a3 = add[3]
    w0 = weights[0]; w1 = weights[1]; w2 = weights[2]; w3 = weights[3]
    for lo in range(first, last, ROTATE_BLOCK):
        c = min(ROTATE_BLOCK, last - lo)
        lacks = lack[lo : lo + c]
        blocks = blocked[lo : lo + c]
        parts = columns[8, lo : lo + c]
        s0 = columns[0, lo : lo + c]; s1 = columns[1, lo : lo + c]; s2 = columns[2, lo : lo + c]; s3 = columns[3, lo : lo + c]
        v0 = columns[4, lo : lo + c]; v1 = columns[5, lo : lo + c]; v2 = columns[6, lo : lo + c]; v3 = columns[7, lo : lo + c]
        z = columns[9, lo : lo + c]
        for i in range(c):
            d0 = s0[i] + a0 * v0[i]; d1 = s1[i] + a1 * v1[i]; d2 = s2[i] + a2 * v2[i]; d3 = s3[i] + a3 * v3[i]
            u0 = w0 if v0[i] > ZERO else ZERO; u1 = w1 if v1[i] > ZERO else ZERO; u2 = w2 if v2[i] > ZERO else ZERO; u3 = w3 if v3[i] > ZERO else ZERO
            down = u0 + u1 + u2 + u3
            m = (d0 + d1 + d2 + d3) * parts[i]
            t0 = d0 - m; t1 = d1 - m; t2 = d2 - m; t3 = d3 - m
            x[i] = u0 * t0 * t0 + u1 * t1 * t1 + u2 * t2 * t2 + u3 * t3 * t3
            y[i] = x[i] / down if down > ZERO else ZERO
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
def fill_before_4(columns, node_count, weights):
    """Work out the column of y² before placing for all nodes, under other weights than then."""
    w0 = weights[0]; w1 = weights[1]; w2 = weights[2]; w3 = weights[3]
    lo = 0
    c = node_count
    parts = columns[8, lo : lo + c]
    s0 = columns[0, lo : lo + c]; s1 = columns[1, lo : lo + c]; s2 = columns[2, lo : lo + c]; s3 = columns[3, lo : lo + c]
    v0 = columns[4, lo : lo + c]; v1 = columns[5, lo : lo + c]; v2 = columns[6, lo : lo + c]; v3 = columns[7, lo : lo + c]
    z = columns[9]
    for i in range(node_count):
        d0 = s0[i]; d1 = s1[i]; d2 = s2[i]; d3 = s3[i]
        u0 = w0 if v0[i] > ZERO else ZERO; u1 = w1 if v1[i] > ZERO else ZERO; u2 = w2 if v2[i] > ZERO else ZERO; u3 = w3 if v3[i] > ZERO else ZERO
        m = (d0 + d1 + d2 + d3) * parts[i]
        t0 = d0 - m; t1 = d1 - m; t2 = d2 - m; t3 = d3 - m
        z[i] = u0 * t0 * t0 + u1 * t1 * t1 + u2 * t2 * t2 + u3 * t3 * t3


@njit(cache=True, nogil=True, error_model="numpy")
def choose_4(
    r, lack, rows, blocked, columns, then, node_count, totals, dims, fixed, fixed_parts, by_utilisation, threshold,
    order, cursor,
):  # fmt: skip
    """The node for one copy of the shape of row ``r`` and the new cursor of the rotation; (-1, cursor) if none."""
    row = lack[r]
    if order == FIRST or node_count == 1:
        return first_free(row, blocked, node_count), cursor
    add = np.zeros(4, np.float32)
    for b in range(dims.shape[0]):
        add[b] = np.float32(rows[r, REQUEST + dims[b]])
    if order != BALANCE:
        return best_by_mean(row, blocked, columns, node_count, add, order == BEST_FIT), cursor
    weights = np.zeros(4, np.float32)
    mean = current_weights(totals, dims, fixed, fixed_parts, by_utilisation, weights)
    if mean >= threshold:
        best = scan_4(row, blocked, columns, node_count, add, weights)
    else:
        if differ(weights, then):
            then[:] = weights
            fill_before_4(columns, node_count, weights)
        best, better = rotate_4(row, blocked, columns, cursor, node_count, add, weights)
        if better < 0:
            rest, better = rotate_4(row, blocked, columns, 0, cursor, add, weights)
            best = min(best, rest)
        if better >= 0:
            return better, (better + 1) % node_count
    if best == NO_NODE:
        return -1, cursor
    return best & 0xFFFFFFFF, cursor


@njit(cache=True, nogil=True, error_model="numpy")
def place_4(
    r, slot, end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims, fixed,
    fixed_parts, by_utilisation, threshold, order, cursor,
):  # fmt: skip
    """Choose a node for one copy of the shape of row ``r`` and hold it there until ``end``: one call, not two."""
    f, cursor = choose_4(
        r, lack, rows, blocked, columns, then, node_count, totals, dims, fixed, fixed_parts, by_utilisation,
        threshold, order, cursor,
    )  # fmt: skip
    if f >= 0:
        hold(slot, f, end, r, nodes, leases, totals, columns, then, dims, rows, row_count, lack)
    return f, cursor


@njit(cache=True, nogil=True, error_model="numpy")
def place_many_4(
    r, slots, chosen, end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims,
    fixed, fixed_parts, by_utilisation, threshold, order, cursor,
):  # fmt: skip
    """``place`` for each of ``slots``, the nodes into ``chosen``: one call for a gang. Returns the new cursor."""
    for i in range(slots.shape[0]):
        chosen[i], cursor = place_4(
            r, slots[i], end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims,
            fixed, fixed_parts, by_utilisation, threshold, order, cursor,
        )  # fmt: skip
    return cursor


@njit(cache=True, nogil=True, error_model="numpy")
def scan_6(lack, blocked, columns, node_count, add, weights):
    """Key of the feasible node with the smallest y after placing ``add``, or NO_NODE."""
    best = np.int64(NO_NODE)
    y = np.empty(BLOCK, np.float32)
    bits = y.view(np.int32)
    a0 = add[0]; a1 = add[1]; a2 = add[2]; a3 = add[3]; a4 = add[4]; a5 = add[5]
    w0 = weights[0]; w1 = weights[1]; w2 = weights[2]; w3 = weights[3]; w4 = weights[4]; w5 = weights[5]
    for lo in range(0, node_count, BLOCK):
        c = min(BLOCK, node_count - lo)
        lacks = lack[lo : lo + c]
        blocks = blocked[lo : lo + c]
        parts = columns[12, lo : lo + c]
        s0 = columns[0, lo : lo + c]; s1 = columns[1, lo : lo + c]; s2 = columns[2, lo : lo + c]; s3 = columns[3, lo : lo + c]; s4 = columns[4, lo : lo + c]; s5 = columns[5, lo : lo + c]
        v0 = columns[6, lo : lo + c]; v1 = columns[7, lo : lo + c]; v2 = columns[8, lo : lo + c]; v3 = columns[9, lo : lo + c]; v4 = columns[10, lo : lo + c]; v5 = columns[11, lo : lo + c]
        for i in range(c):
            d0 = s0[i] + a0 * v0[i]; d1 = s1[i] + a1 * v1[i]; d2 = s2[i] + a2 * v2[i]; d3 = s3[i] + a3 * v3[i]; d4 = s4[i] + a4 * v4[i]; d5 = s5[i] + a5 * v5[i]
            u0 = w0 if v0[i] > ZERO else ZERO; u1 = w1 if v1[i] > ZERO else ZERO; u2 = w2 if v2[i] > ZERO else ZERO; u3 = w3 if v3[i] > ZERO else ZERO; u4 = w4 if v4[i] > ZERO else ZERO; u5 = w5 if v5[i] > ZERO else ZERO
            down = u0 + u1 + u2 + u3 + u4 + u5
            m = (d0 + d1 + d2 + d3 + d4 + d5) * parts[i]
            t0 = d0 - m; t1 = d1 - m; t2 = d2 - m; t3 = d3 - m; t4 = d4 - m; t5 = d5 - m
            up = u0 * t0 * t0 + u1 * t1 * t1 + u2 * t2 * t2 + u3 * t3 * t3 + u4 * t4 * t4 + u5 * t5 * t5
            y[i] = up / down if down > ZERO else ZERO
        for i in range(c):
            key = (np.int64(bits[i]) << 32) | np.int64(lo + i)
            key = np.int64(NO_NODE) if (lacks[i] | blocks[i]) != 0 else key
            best = min(best, key)
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def rotate_6(lack, blocked, columns, first, last, add, weights):
    """Over the nodes [first, last): (key of the smallest y after, first node whose y falls, or -1).

    Stops at the block in which a node improves; the key then covers what was looked at.
    """
    best = np.int64(NO_NODE)
    y = np.empty(ROTATE_BLOCK, np.float32)
    x = np.empty(ROTATE_BLOCK, np.float32)
    bits = y.view(np.int32)
    a0 = add[0]; a1 = add[1]; a2 = add[2]; a3 = add[3]; a4 = add[4]; a5 = add[5]
    w0 = weights[0]; w1 = weights[1]; w2 = weights[2]; w3 = weights[3]; w4 = weights[4]; w5 = weights[5]
    for lo in range(first, last, ROTATE_BLOCK):
        c = min(ROTATE_BLOCK, last - lo)
        lacks = lack[lo : lo + c]
        blocks = blocked[lo : lo + c]
        parts = columns[12, lo : lo + c]
        s0 = columns[0, lo : lo + c]; s1 = columns[1, lo : lo + c]; s2 = columns[2, lo : lo + c]; s3 = columns[3, lo : lo + c]; s4 = columns[4, lo : lo + c]; s5 = columns[5, lo : lo + c]
        v0 = columns[6, lo : lo + c]; v1 = columns[7, lo : lo + c]; v2 = columns[8, lo : lo + c]; v3 = columns[9, lo : lo + c]; v4 = columns[10, lo : lo + c]; v5 = columns[11, lo : lo + c]
        z = columns[13, lo : lo + c]
        for i in range(c):
            d0 = s0[i] + a0 * v0[i]; d1 = s1[i] + a1 * v1[i]; d2 = s2[i] + a2 * v2[i]; d3 = s3[i] + a3 * v3[i]; d4 = s4[i] + a4 * v4[i]; d5 = s5[i] + a5 * v5[i]
            u0 = w0 if v0[i] > ZERO else ZERO; u1 = w1 if v1[i] > ZERO else ZERO; u2 = w2 if v2[i] > ZERO else ZERO; u3 = w3 if v3[i] > ZERO else ZERO; u4 = w4 if v4[i] > ZERO else ZERO; u5 = w5 if v5[i] > ZERO else ZERO
            down = u0 + u1 + u2 + u3 + u4 + u5
            m = (d0 + d1 + d2 + d3 + d4 + d5) * parts[i]
            t0 = d0 - m; t1 = d1 - m; t2 = d2 - m; t3 = d3 - m; t4 = d4 - m; t5 = d5 - m
            x[i] = u0 * t0 * t0 + u1 * t1 * t1 + u2 * t2 * t2 + u3 * t3 * t3 + u4 * t4 * t4 + u5 * t5 * t5
            y[i] = x[i] / down if down > ZERO else ZERO
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
def fill_before_6(columns, node_count, weights):
    """Work out the column of y² before placing for all nodes, under other weights than then."""
    w0 = weights[0]; w1 = weights[1]; w2 = weights[2]; w3 = weights[3]; w4 = weights[4]; w5 = weights[5]
    lo = 0
    c = node_count
    parts = columns[12, lo : lo + c]
    s0 = columns[0, lo : lo + c]; s1 = columns[1, lo : lo + c]; s2 = columns[2, lo : lo + c]; s3 = columns[3, lo : lo + c]; s4 = columns[4, lo : lo + c]; s5 = columns[5, lo : lo + c]
    v0 = columns[6, lo : lo + c]; v1 = columns[7, lo : lo + c]; v2 = columns[8, lo : lo + c]; v3 = columns[9, lo : lo + c]; v4 = columns[10, lo : lo + c]; v5 = columns[11, lo : lo + c]
    z = columns[13]
    for i in range(node_count):
        d0 = s0[i]; d1 = s1[i]; d2 = s2[i]; d3 = s3[i]; d4 = s4[i]; d5 = s5[i]
        u0 = w0 if v0[i] > ZERO else ZERO; u1 = w1 if v1[i] > ZERO else ZERO; u2 = w2 if v2[i] > ZERO else ZERO; u3 = w3 if v3[i] > ZERO else ZERO; u4 = w4 if v4[i] > ZERO else ZERO; u5 = w5 if v5[i] > ZERO else ZERO
        m = (d0 + d1 + d2 + d3 + d4 + d5) * parts[i]
        t0 = d0 - m; t1 = d1 - m; t2 = d2 - m; t3 = d3 - m; t4 = d4 - m; t5 = d5 - m
        z[i] = u0 * t0 * t0 + u1 * t1 * t1 + u2 * t2 * t2 + u3 * t3 * t3 + u4 * t4 * t4 + u5 * t5 * t5


@njit(cache=True, nogil=True, error_model="numpy")
def choose_6(
    r, lack, rows, blocked, columns, then, node_count, totals, dims, fixed, fixed_parts, by_utilisation, threshold,
    order, cursor,
):  # fmt: skip
    """The node for one copy of the shape of row ``r`` and the new cursor of the rotation; (-1, cursor) if none."""
    row = lack[r]
    if order == FIRST or node_count == 1:
        return first_free(row, blocked, node_count), cursor
    add = np.zeros(6, np.float32)
    for b in range(dims.shape[0]):
        add[b] = np.float32(rows[r, REQUEST + dims[b]])
    if order != BALANCE:
        return best_by_mean(row, blocked, columns, node_count, add, order == BEST_FIT), cursor
    weights = np.zeros(6, np.float32)
    mean = current_weights(totals, dims, fixed, fixed_parts, by_utilisation, weights)
    if mean >= threshold:
        best = scan_6(row, blocked, columns, node_count, add, weights)
    else:
        if differ(weights, then):
            then[:] = weights
            fill_before_6(columns, node_count, weights)
        best, better = rotate_6(row, blocked, columns, cursor, node_count, add, weights)
        if better < 0:
            rest, better = rotate_6(row, blocked, columns, 0, cursor, add, weights)
            best = min(best, rest)
        if better >= 0:
            return better, (better + 1) % node_count
    if best == NO_NODE:
        return -1, cursor
    return best & 0xFFFFFFFF, cursor


@njit(cache=True, nogil=True, error_model="numpy")
def place_6(
    r, slot, end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims, fixed,
    fixed_parts, by_utilisation, threshold, order, cursor,
):  # fmt: skip
    """Choose a node for one copy of the shape of row ``r`` and hold it there until ``end``: one call, not two."""
    f, cursor = choose_6(
        r, lack, rows, blocked, columns, then, node_count, totals, dims, fixed, fixed_parts, by_utilisation,
        threshold, order, cursor,
    )  # fmt: skip
    if f >= 0:
        hold(slot, f, end, r, nodes, leases, totals, columns, then, dims, rows, row_count, lack)
    return f, cursor


@njit(cache=True, nogil=True, error_model="numpy")
def place_many_6(
    r, slots, chosen, end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims,
    fixed, fixed_parts, by_utilisation, threshold, order, cursor,
):  # fmt: skip
    """``place`` for each of ``slots``, the nodes into ``chosen``: one call for a gang. Returns the new cursor."""
    for i in range(slots.shape[0]):
        chosen[i], cursor = place_6(
            r, slots[i], end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims,
            fixed, fixed_parts, by_utilisation, threshold, order, cursor,
        )  # fmt: skip
    return cursor


@njit(cache=True, nogil=True, error_model="numpy")
def scan_8(lack, blocked, columns, node_count, add, weights):
    """Key of the feasible node with the smallest y after placing ``add``, or NO_NODE."""
    best = np.int64(NO_NODE)
    y = np.empty(BLOCK, np.float32)
    bits = y.view(np.int32)
    a0 = add[0]; a1 = add[1]; a2 = add[2]; a3 = add[3]; a4 = add[4]; a5 = add[5]; a6 = add[6]; a7 = add[7]
    w0 = weights[0]; w1 = weights[1]; w2 = weights[2]; w3 = weights[3]; w4 = weights[4]; w5 = weights[5]; w6 = weights[6]; w7 = weights[7]
    for lo in range(0, node_count, BLOCK):
        c = min(BLOCK, node_count - lo)
        lacks = lack[lo : lo + c]
        blocks = blocked[lo : lo + c]
        parts = columns[16, lo : lo + c]
        s0 = columns[0, lo : lo + c]; s1 = columns[1, lo : lo + c]; s2 = columns[2, lo : lo + c]; s3 = columns[3, lo : lo + c]; s4 = columns[4, lo : lo + c]; s5 = columns[5, lo : lo + c]; s6 = columns[6, lo : lo + c]; s7 = columns[7, lo : lo + c]
        v0 = columns[8, lo : lo + c]; v1 = columns[9, lo : lo + c]; v2 = columns[10, lo : lo + c]; v3 = columns[11, lo : lo + c]; v4 = columns[12, lo : lo + c]; v5 = columns[13, lo : lo + c]; v6 = columns[14, lo : lo + c]; v7 = columns[15, lo : lo + c]
        for i in range(c):
            d0 = s0[i] + a0 * v0[i]; d1 = s1[i] + a1 * v1[i]; d2 = s2[i] + a2 * v2[i]; d3 = s3[i] + a3 * v3[i]; d4 = s4[i] + a4 * v4[i]; d5 = s5[i] + a5 * v5[i]; d6 = s6[i] + a6 * v6[i]; d7 = s7[i] + a7 * v7[i]
            u0 = w0 if v0[i] > ZERO else ZERO; u1 = w1 if v1[i] > ZERO else ZERO; u2 = w2 if v2[i] > ZERO else ZERO; u3 = w3 if v3[i] > ZERO else ZERO; u4 = w4 if v4[i] > ZERO else ZERO; u5 = w5 if v5[i] > ZERO else ZERO; u6 = w6 if v6[i] > ZERO else ZERO; u7 = w7 if v7[i] > ZERO else ZERO
            down = u0 + u1 + u2 + u3 + u4 + u5 + u6 + u7
            m = (d0 + d1 + d2 + d3 + d4 + d5 + d6 + d7) * parts[i]
            t0 = d0 - m; t1 = d1 - m; t2 = d2 - m; t3 = d3 - m; t4 = d4 - m; t5 = d5 - m; t6 = d6 - m; t7 = d7 - m
            up = u0 * t0 * t0 + u1 * t1 * t1 + u2 * t2 * t2 + u3 * t3 * t3 + u4 * t4 * t4 + u5 * t5 * t5 + u6 * t6 * t6 + u7 * t7 * t7
            y[i] = up / down if down > ZERO else ZERO
        for i in range(c):
            key = (np.int64(bits[i]) << 32) | np.int64(lo + i)
            key = np.int64(NO_NODE) if (lacks[i] | blocks[i]) != 0 else key
            best = min(best, key)
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def rotate_8(lack, blocked, columns, first, last, add, weights):
    """Over the nodes [first, last): (key of the smallest y after, first node whose y falls, or -1).

    Stops at the block in which a node improves; the key then covers what was looked at.
    """
    best = np.int64(NO_NODE)
    y = np.empty(ROTATE_BLOCK, np.float32)
    x = np.empty(ROTATE_BLOCK, np.float32)
    bits = y.view(np.int32)
    a0 = add[0]; a1 = add[1]; a2 = add[2]; a3 = add[3]; a4 = add[4]; a5 = add[5]; a6 = add[6]; a7 = add[7]
    w0 = weights[0]; w1 = weights[1]; w2 = weights[2]; w3 = weights[3]; w4 = weights[4]; w5 = weights[5]; w6 = weights[6]; w7 = weights[7]
    for lo in range(first, last, ROTATE_BLOCK):
        c = min(ROTATE_BLOCK, last - lo)
        lacks = lack[lo : lo + c]
        blocks = blocked[lo : lo + c]
        parts = columns[16, lo : lo + c]
        s0 = columns[0, lo : lo + c]; s1 = columns[1, lo : lo + c]; s2 = columns[2, lo : lo + c]; s3 = columns[3, lo : lo + c]; s4 = columns[4, lo : lo + c]; s5 = columns[5, lo : lo + c]; s6 = columns[6, lo : lo + c]; s7 = columns[7, lo : lo + c]
        v0 = columns[8, lo : lo + c]; v1 = columns[9, lo : lo + c]; v2 = columns[10, lo : lo + c]; v3 = columns[11, lo : lo + c]; v4 = columns[12, lo : lo + c]; v5 = columns[13, lo : lo + c]; v6 = columns[14, lo : lo + c]; v7 = columns[15, lo : lo + c]
        z = columns[17, lo : lo + c]
        for i in range(c):
            d0 = s0[i] + a0 * v0[i]; d1 = s1[i] + a1 * v1[i]; d2 = s2[i] + a2 * v2[i]; d3 = s3[i] + a3 * v3[i]; d4 = s4[i] + a4 * v4[i]; d5 = s5[i] + a5 * v5[i]; d6 = s6[i] + a6 * v6[i]; d7 = s7[i] + a7 * v7[i]
            u0 = w0 if v0[i] > ZERO else ZERO; u1 = w1 if v1[i] > ZERO else ZERO; u2 = w2 if v2[i] > ZERO else ZERO; u3 = w3 if v3[i] > ZERO else ZERO; u4 = w4 if v4[i] > ZERO else ZERO; u5 = w5 if v5[i] > ZERO else ZERO; u6 = w6 if v6[i] > ZERO else ZERO; u7 = w7 if v7[i] > ZERO else ZERO
            down = u0 + u1 + u2 + u3 + u4 + u5 + u6 + u7
            m = (d0 + d1 + d2 + d3 + d4 + d5 + d6 + d7) * parts[i]
            t0 = d0 - m; t1 = d1 - m; t2 = d2 - m; t3 = d3 - m; t4 = d4 - m; t5 = d5 - m; t6 = d6 - m; t7 = d7 - m
            x[i] = u0 * t0 * t0 + u1 * t1 * t1 + u2 * t2 * t2 + u3 * t3 * t3 + u4 * t4 * t4 + u5 * t5 * t5 + u6 * t6 * t6 + u7 * t7 * t7
            y[i] = x[i] / down if down > ZERO else ZERO
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
def fill_before_8(columns, node_count, weights):
    """Work out the column of y² before placing for all nodes, under other weights than then."""
    w0 = weights[0]; w1 = weights[1]; w2 = weights[2]; w3 = weights[3]; w4 = weights[4]; w5 = weights[5]; w6 = weights[6]; w7 = weights[7]
    lo = 0
    c = node_count
    parts = columns[16, lo : lo + c]
    s0 = columns[0, lo : lo + c]; s1 = columns[1, lo : lo + c]; s2 = columns[2, lo : lo + c]; s3 = columns[3, lo : lo + c]; s4 = columns[4, lo : lo + c]; s5 = columns[5, lo : lo + c]; s6 = columns[6, lo : lo + c]; s7 = columns[7, lo : lo + c]
    v0 = columns[8, lo : lo + c]; v1 = columns[9, lo : lo + c]; v2 = columns[10, lo : lo + c]; v3 = columns[11, lo : lo + c]; v4 = columns[12, lo : lo + c]; v5 = columns[13, lo : lo + c]; v6 = columns[14, lo : lo + c]; v7 = columns[15, lo : lo + c]
    z = columns[17]
    for i in range(node_count):
        d0 = s0[i]; d1 = s1[i]; d2 = s2[i]; d3 = s3[i]; d4 = s4[i]; d5 = s5[i]; d6 = s6[i]; d7 = s7[i]
        u0 = w0 if v0[i] > ZERO else ZERO; u1 = w1 if v1[i] > ZERO else ZERO; u2 = w2 if v2[i] > ZERO else ZERO; u3 = w3 if v3[i] > ZERO else ZERO; u4 = w4 if v4[i] > ZERO else ZERO; u5 = w5 if v5[i] > ZERO else ZERO; u6 = w6 if v6[i] > ZERO else ZERO; u7 = w7 if v7[i] > ZERO else ZERO
        m = (d0 + d1 + d2 + d3 + d4 + d5 + d6 + d7) * parts[i]
        t0 = d0 - m; t1 = d1 - m; t2 = d2 - m; t3 = d3 - m; t4 = d4 - m; t5 = d5 - m; t6 = d6 - m; t7 = d7 - m
        z[i] = u0 * t0 * t0 + u1 * t1 * t1 + u2 * t2 * t2 + u3 * t3 * t3 + u4 * t4 * t4 + u5 * t5 * t5 + u6 * t6 * t6 + u7 * t7 * t7


@njit(cache=True, nogil=True, error_model="numpy")
def choose_8(
    r, lack, rows, blocked, columns, then, node_count, totals, dims, fixed, fixed_parts, by_utilisation, threshold,
    order, cursor,
):  # fmt: skip
    """The node for one copy of the shape of row ``r`` and the new cursor of the rotation; (-1, cursor) if none."""
    row = lack[r]
    if order == FIRST or node_count == 1:
        return first_free(row, blocked, node_count), cursor
    add = np.zeros(8, np.float32)
    for b in range(dims.shape[0]):
        add[b] = np.float32(rows[r, REQUEST + dims[b]])
    if order != BALANCE:
        return best_by_mean(row, blocked, columns, node_count, add, order == BEST_FIT), cursor
    weights = np.zeros(8, np.float32)
    mean = current_weights(totals, dims, fixed, fixed_parts, by_utilisation, weights)
    if mean >= threshold:
        best = scan_8(row, blocked, columns, node_count, add, weights)
    else:
        if differ(weights, then):
            then[:] = weights
            fill_before_8(columns, node_count, weights)
        best, better = rotate_8(row, blocked, columns, cursor, node_count, add, weights)
        if better < 0:
            rest, better = rotate_8(row, blocked, columns, 0, cursor, add, weights)
            best = min(best, rest)
        if better >= 0:
            return better, (better + 1) % node_count
    if best == NO_NODE:
        return -1, cursor
    return best & 0xFFFFFFFF, cursor


@njit(cache=True, nogil=True, error_model="numpy")
def place_8(
    r, slot, end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims, fixed,
    fixed_parts, by_utilisation, threshold, order, cursor,
):  # fmt: skip
    """Choose a node for one copy of the shape of row ``r`` and hold it there until ``end``: one call, not two."""
    f, cursor = choose_8(
        r, lack, rows, blocked, columns, then, node_count, totals, dims, fixed, fixed_parts, by_utilisation,
        threshold, order, cursor,
    )  # fmt: skip
    if f >= 0:
        hold(slot, f, end, r, nodes, leases, totals, columns, then, dims, rows, row_count, lack)
    return f, cursor


@njit(cache=True, nogil=True, error_model="numpy")
def place_many_8(
    r, slots, chosen, end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims,
    fixed, fixed_parts, by_utilisation, threshold, order, cursor,
):  # fmt: skip
    """``place`` for each of ``slots``, the nodes into ``chosen``: one call for a gang. Returns the new cursor."""
    for i in range(slots.shape[0]):
        chosen[i], cursor = place_8(
            r, slots[i], end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims,
            fixed, fixed_parts, by_utilisation, threshold, order, cursor,
        )  # fmt: skip
    return cursor


@njit(cache=True, nogil=True, error_model="numpy")
def scan_16(lack, blocked, columns, node_count, add, weights):
    """Key of the feasible node with the smallest y after placing ``add``, or NO_NODE."""
    best = np.int64(NO_NODE)
    y = np.empty(BLOCK, np.float32)
    bits = y.view(np.int32)
    a0 = add[0]; a1 = add[1]; a2 = add[2]; a3 = add[3]; a4 = add[4]; a5 = add[5]; a6 = add[6]; a7 = add[7]; a8 = add[8]; a9 = add[9]; a10 = add[10]; a11 = add[11]; a12 = add[12]; a13 = add[13]; a14 = add[14]; a15 = add[15]
    w0 = weights[0]; w1 = weights[1]; w2 = weights[2]; w3 = weights[3]; w4 = weights[4]; w5 = weights[5]; w6 = weights[6]; w7 = weights[7]; w8 = weights[8]; w9 = weights[9]; w10 = weights[10]; w11 = weights[11]; w12 = weights[12]; w13 = weights[13]; w14 = weights[14]; w15 = weights[15]
    for lo in range(0, node_count, BLOCK):
        c = min(BLOCK, node_count - lo)
        lacks = lack[lo : lo + c]
        blocks = blocked[lo : lo + c]
        parts = columns[32, lo : lo + c]
        s0 = columns[0, lo : lo + c]; s1 = columns[1, lo : lo + c]; s2 = columns[2, lo : lo + c]; s3 = columns[3, lo : lo + c]; s4 = columns[4, lo : lo + c]; s5 = columns[5, lo : lo + c]; s6 = columns[6, lo : lo + c]; s7 = columns[7, lo : lo + c]; s8 = columns[8, lo : lo + c]; s9 = columns[9, lo : lo + c]; s10 = columns[10, lo : lo + c]; s11 = columns[11, lo : lo + c]; s12 = columns[12, lo : lo + c]; s13 = columns[13, lo : lo + c]; s14 = columns[14, lo : lo + c]; s15 = columns[15, lo : lo + c]
        v0 = columns[16, lo : lo + c]; v1 = columns[17, lo : lo + c]; v2 = columns[18, lo : lo + c]; v3 = columns[19, lo : lo + c]; v4 = columns[20, lo : lo + c]; v5 = columns[21, lo : lo + c]; v6 = columns[22, lo : lo + c]; v7 = columns[23, lo : lo + c]; v8 = columns[24, lo : lo + c]; v9 = columns[25, lo : lo + c]; v10 = columns[26, lo : lo + c]; v11 = columns[27, lo : lo + c]; v12 = columns[28, lo : lo + c]; v13 = columns[29, lo : lo + c]; v14 = columns[30, lo : lo + c]; v15 = columns[31, lo : lo + c]
        for i in range(c):
            d0 = s0[i] + a0 * v0[i]; d1 = s1[i] + a1 * v1[i]; d2 = s2[i] + a2 * v2[i]; d3 = s3[i] + a3 * v3[i]; d4 = s4[i] + a4 * v4[i]; d5 = s5[i] + a5 * v5[i]; d6 = s6[i] + a6 * v6[i]; d7 = s7[i] + a7 * v7[i]; d8 = s8[i] + a8 * v8[i]; d9 = s9[i] + a9 * v9[i]; d10 = s10[i] + a10 * v10[i]; d11 = s11[i] + a11 * v11[i]; d12 = s12[i] + a12 * v12[i]; d13 = s13[i] + a13 * v13[i]; d14 = s14[i] + a14 * v14[i]; d15 = s15[i] + a15 * v15[i]
            u0 = w0 if v0[i] > ZERO else ZERO; u1 = w1 if v1[i] > ZERO else ZERO; u2 = w2 if v2[i] > ZERO else ZERO; u3 = w3 if v3[i] > ZERO else ZERO; u4 = w4 if v4[i] > ZERO else ZERO; u5 = w5 if v5[i] > ZERO else ZERO; u6 = w6 if v6[i] > ZERO else ZERO; u7 = w7 if v7[i] > ZERO else ZERO; u8 = w8 if v8[i] > ZERO else ZERO; u9 = w9 if v9[i] > ZERO else ZERO; u10 = w10 if v10[i] > ZERO else ZERO; u11 = w11 if v11[i] > ZERO else ZERO; u12 = w12 if v12[i] > ZERO else ZERO; u13 = w13 if v13[i] > ZERO else ZERO; u14 = w14 if v14[i] > ZERO else ZERO; u15 = w15 if v15[i] > ZERO else ZERO
            down = u0 + u1 + u2 + u3 + u4 + u5 + u6 + u7 + u8 + u9 + u10 + u11 + u12 + u13 + u14 + u15
            m = (d0 + d1 + d2 + d3 + d4 + d5 + d6 + d7 + d8 + d9 + d10 + d11 + d12 + d13 + d14 + d15) * parts[i]
            t0 = d0 - m; t1 = d1 - m; t2 = d2 - m; t3 = d3 - m; t4 = d4 - m; t5 = d5 - m; t6 = d6 - m; t7 = d7 - m; t8 = d8 - m; t9 = d9 - m; t10 = d10 - m; t11 = d11 - m; t12 = d12 - m; t13 = d13 - m; t14 = d14 - m; t15 = d15 - m
            up = u0 * t0 * t0 + u1 * t1 * t1 + u2 * t2 * t2 + u3 * t3 * t3 + u4 * t4 * t4 + u5 * t5 * t5 + u6 * t6 * t6 + u7 * t7 * t7 + u8 * t8 * t8 + u9 * t9 * t9 + u10 * t10 * t10 + u11 * t11 * t11 + u12 * t12 * t12 + u13 * t13 * t13 + u14 * t14 * t14 + u15 * t15 * t15
            y[i] = up / down if down > ZERO else ZERO
        for i in range(c):
            key = (np.int64(bits[i]) << 32) | np.int64(lo + i)
            key = np.int64(NO_NODE) if (lacks[i] | blocks[i]) != 0 else key
            best = min(best, key)
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def rotate_16(lack, blocked, columns, first, last, add, weights):
    """Over the nodes [first, last): (key of the smallest y after, first node whose y falls, or -1).

    Stops at the block in which a node improves; the key then covers what was looked at.
    """
    best = np.int64(NO_NODE)
    y = np.empty(ROTATE_BLOCK, np.float32)
    x = np.empty(ROTATE_BLOCK, np.float32)
    bits = y.view(np.int32)
    a0 = add[0]; a1 = add[1]; a2 = add[2]; a3 = add[3]; a4 = add[4]; a5 = add[5]; a6 = add[6]; a7 = add[7]; a8 = add[8]; a9 = add[9]; a10 = add[10]; a11 = add[11]; a12 = add[12]; a13 = add[13]; a14 = add[14]; a15 = add[15]
    w0 = weights[0]; w1 = weights[1]; w2 = weights[2]; w3 = weights[3]; w4 = weights[4]; w5 = weights[5]; w6 = weights[6]; w7 = weights[7]; w8 = weights[8]; w9 = weights[9]; w10 = weights[10]; w11 = weights[11]; w12 = weights[12]; w13 = weights[13]; w14 = weights[14]; w15 = weights[15]
    for lo in range(first, last, ROTATE_BLOCK):
        c = min(ROTATE_BLOCK, last - lo)
        lacks = lack[lo : lo + c]
        blocks = blocked[lo : lo + c]
        parts = columns[32, lo : lo + c]
        s0 = columns[0, lo : lo + c]; s1 = columns[1, lo : lo + c]; s2 = columns[2, lo : lo + c]; s3 = columns[3, lo : lo + c]; s4 = columns[4, lo : lo + c]; s5 = columns[5, lo : lo + c]; s6 = columns[6, lo : lo + c]; s7 = columns[7, lo : lo + c]; s8 = columns[8, lo : lo + c]; s9 = columns[9, lo : lo + c]; s10 = columns[10, lo : lo + c]; s11 = columns[11, lo : lo + c]; s12 = columns[12, lo : lo + c]; s13 = columns[13, lo : lo + c]; s14 = columns[14, lo : lo + c]; s15 = columns[15, lo : lo + c]
        v0 = columns[16, lo : lo + c]; v1 = columns[17, lo : lo + c]; v2 = columns[18, lo : lo + c]; v3 = columns[19, lo : lo + c]; v4 = columns[20, lo : lo + c]; v5 = columns[21, lo : lo + c]; v6 = columns[22, lo : lo + c]; v7 = columns[23, lo : lo + c]; v8 = columns[24, lo : lo + c]; v9 = columns[25, lo : lo + c]; v10 = columns[26, lo : lo + c]; v11 = columns[27, lo : lo + c]; v12 = columns[28, lo : lo + c]; v13 = columns[29, lo : lo + c]; v14 = columns[30, lo : lo + c]; v15 = columns[31, lo : lo + c]
        z = columns[33, lo : lo + c]
        for i in range(c):
            d0 = s0[i] + a0 * v0[i]; d1 = s1[i] + a1 * v1[i]; d2 = s2[i] + a2 * v2[i]; d3 = s3[i] + a3 * v3[i]; d4 = s4[i] + a4 * v4[i]; d5 = s5[i] + a5 * v5[i]; d6 = s6[i] + a6 * v6[i]; d7 = s7[i] + a7 * v7[i]; d8 = s8[i] + a8 * v8[i]; d9 = s9[i] + a9 * v9[i]; d10 = s10[i] + a10 * v10[i]; d11 = s11[i] + a11 * v11[i]; d12 = s12[i] + a12 * v12[i]; d13 = s13[i] + a13 * v13[i]; d14 = s14[i] + a14 * v14[i]; d15 = s15[i] + a15 * v15[i]
            u0 = w0 if v0[i] > ZERO else ZERO; u1 = w1 if v1[i] > ZERO else ZERO; u2 = w2 if v2[i] > ZERO else ZERO; u3 = w3 if v3[i] > ZERO else ZERO; u4 = w4 if v4[i] > ZERO else ZERO; u5 = w5 if v5[i] > ZERO else ZERO; u6 = w6 if v6[i] > ZERO else ZERO; u7 = w7 if v7[i] > ZERO else ZERO; u8 = w8 if v8[i] > ZERO else ZERO; u9 = w9 if v9[i] > ZERO else ZERO; u10 = w10 if v10[i] > ZERO else ZERO; u11 = w11 if v11[i] > ZERO else ZERO; u12 = w12 if v12[i] > ZERO else ZERO; u13 = w13 if v13[i] > ZERO else ZERO; u14 = w14 if v14[i] > ZERO else ZERO; u15 = w15 if v15[i] > ZERO else ZERO
            down = u0 + u1 + u2 + u3 + u4 + u5 + u6 + u7 + u8 + u9 + u10 + u11 + u12 + u13 + u14 + u15
            m = (d0 + d1 + d2 + d3 + d4 + d5 + d6 + d7 + d8 + d9 + d10 + d11 + d12 + d13 + d14 + d15) * parts[i]
            t0 = d0 - m; t1 = d1 - m; t2 = d2 - m; t3 = d3 - m; t4 = d4 - m; t5 = d5 - m; t6 = d6 - m; t7 = d7 - m; t8 = d8 - m; t9 = d9 - m; t10 = d10 - m; t11 = d11 - m; t12 = d12 - m; t13 = d13 - m; t14 = d14 - m; t15 = d15 - m
            x[i] = u0 * t0 * t0 + u1 * t1 * t1 + u2 * t2 * t2 + u3 * t3 * t3 + u4 * t4 * t4 + u5 * t5 * t5 + u6 * t6 * t6 + u7 * t7 * t7 + u8 * t8 * t8 + u9 * t9 * t9 + u10 * t10 * t10 + u11 * t11 * t11 + u12 * t12 * t12 + u13 * t13 * t13 + u14 * t14 * t14 + u15 * t15 * t15
            y[i] = x[i] / down if down > ZERO else ZERO
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
def fill_before_16(columns, node_count, weights):
    """Work out the column of y² before placing for all nodes, under other weights than then."""
    w0 = weights[0]; w1 = weights[1]; w2 = weights[2]; w3 = weights[3]; w4 = weights[4]; w5 = weights[5]; w6 = weights[6]; w7 = weights[7]; w8 = weights[8]; w9 = weights[9]; w10 = weights[10]; w11 = weights[11]; w12 = weights[12]; w13 = weights[13]; w14 = weights[14]; w15 = weights[15]
    lo = 0
    c = node_count
    parts = columns[32, lo : lo + c]
    s0 = columns[0, lo : lo + c]; s1 = columns[1, lo : lo + c]; s2 = columns[2, lo : lo + c]; s3 = columns[3, lo : lo + c]; s4 = columns[4, lo : lo + c]; s5 = columns[5, lo : lo + c]; s6 = columns[6, lo : lo + c]; s7 = columns[7, lo : lo + c]; s8 = columns[8, lo : lo + c]; s9 = columns[9, lo : lo + c]; s10 = columns[10, lo : lo + c]; s11 = columns[11, lo : lo + c]; s12 = columns[12, lo : lo + c]; s13 = columns[13, lo : lo + c]; s14 = columns[14, lo : lo + c]; s15 = columns[15, lo : lo + c]
    v0 = columns[16, lo : lo + c]; v1 = columns[17, lo : lo + c]; v2 = columns[18, lo : lo + c]; v3 = columns[19, lo : lo + c]; v4 = columns[20, lo : lo + c]; v5 = columns[21, lo : lo + c]; v6 = columns[22, lo : lo + c]; v7 = columns[23, lo : lo + c]; v8 = columns[24, lo : lo + c]; v9 = columns[25, lo : lo + c]; v10 = columns[26, lo : lo + c]; v11 = columns[27, lo : lo + c]; v12 = columns[28, lo : lo + c]; v13 = columns[29, lo : lo + c]; v14 = columns[30, lo : lo + c]; v15 = columns[31, lo : lo + c]
    z = columns[33]
    for i in range(node_count):
        d0 = s0[i]; d1 = s1[i]; d2 = s2[i]; d3 = s3[i]; d4 = s4[i]; d5 = s5[i]; d6 = s6[i]; d7 = s7[i]; d8 = s8[i]; d9 = s9[i]; d10 = s10[i]; d11 = s11[i]; d12 = s12[i]; d13 = s13[i]; d14 = s14[i]; d15 = s15[i]
        u0 = w0 if v0[i] > ZERO else ZERO; u1 = w1 if v1[i] > ZERO else ZERO; u2 = w2 if v2[i] > ZERO else ZERO; u3 = w3 if v3[i] > ZERO else ZERO; u4 = w4 if v4[i] > ZERO else ZERO; u5 = w5 if v5[i] > ZERO else ZERO; u6 = w6 if v6[i] > ZERO else ZERO; u7 = w7 if v7[i] > ZERO else ZERO; u8 = w8 if v8[i] > ZERO else ZERO; u9 = w9 if v9[i] > ZERO else ZERO; u10 = w10 if v10[i] > ZERO else ZERO; u11 = w11 if v11[i] > ZERO else ZERO; u12 = w12 if v12[i] > ZERO else ZERO; u13 = w13 if v13[i] > ZERO else ZERO; u14 = w14 if v14[i] > ZERO else ZERO; u15 = w15 if v15[i] > ZERO else ZERO
        m = (d0 + d1 + d2 + d3 + d4 + d5 + d6 + d7 + d8 + d9 + d10 + d11 + d12 + d13 + d14 + d15) * parts[i]
        t0 = d0 - m; t1 = d1 - m; t2 = d2 - m; t3 = d3 - m; t4 = d4 - m; t5 = d5 - m; t6 = d6 - m; t7 = d7 - m; t8 = d8 - m; t9 = d9 - m; t10 = d10 - m; t11 = d11 - m; t12 = d12 - m; t13 = d13 - m; t14 = d14 - m; t15 = d15 - m
        z[i] = u0 * t0 * t0 + u1 * t1 * t1 + u2 * t2 * t2 + u3 * t3 * t3 + u4 * t4 * t4 + u5 * t5 * t5 + u6 * t6 * t6 + u7 * t7 * t7 + u8 * t8 * t8 + u9 * t9 * t9 + u10 * t10 * t10 + u11 * t11 * t11 + u12 * t12 * t12 + u13 * t13 * t13 + u14 * t14 * t14 + u15 * t15 * t15


@njit(cache=True, nogil=True, error_model="numpy")
def choose_16(
    r, lack, rows, blocked, columns, then, node_count, totals, dims, fixed, fixed_parts, by_utilisation, threshold,
    order, cursor,
):  # fmt: skip
    """The node for one copy of the shape of row ``r`` and the new cursor of the rotation; (-1, cursor) if none."""
    row = lack[r]
    if order == FIRST or node_count == 1:
        return first_free(row, blocked, node_count), cursor
    add = np.zeros(16, np.float32)
    for b in range(dims.shape[0]):
        add[b] = np.float32(rows[r, REQUEST + dims[b]])
    if order != BALANCE:
        return best_by_mean(row, blocked, columns, node_count, add, order == BEST_FIT), cursor
    weights = np.zeros(16, np.float32)
    mean = current_weights(totals, dims, fixed, fixed_parts, by_utilisation, weights)
    if mean >= threshold:
        best = scan_16(row, blocked, columns, node_count, add, weights)
    else:
        if differ(weights, then):
            then[:] = weights
            fill_before_16(columns, node_count, weights)
        best, better = rotate_16(row, blocked, columns, cursor, node_count, add, weights)
        if better < 0:
            rest, better = rotate_16(row, blocked, columns, 0, cursor, add, weights)
            best = min(best, rest)
        if better >= 0:
            return better, (better + 1) % node_count
    if best == NO_NODE:
        return -1, cursor
    return best & 0xFFFFFFFF, cursor


@njit(cache=True, nogil=True, error_model="numpy")
def place_16(
    r, slot, end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims, fixed,
    fixed_parts, by_utilisation, threshold, order, cursor,
):  # fmt: skip
    """Choose a node for one copy of the shape of row ``r`` and hold it there until ``end``: one call, not two."""
    f, cursor = choose_16(
        r, lack, rows, blocked, columns, then, node_count, totals, dims, fixed, fixed_parts, by_utilisation,
        threshold, order, cursor,
    )  # fmt: skip
    if f >= 0:
        hold(slot, f, end, r, nodes, leases, totals, columns, then, dims, rows, row_count, lack)
    return f, cursor


@njit(cache=True, nogil=True, error_model="numpy")
def place_many_16(
    r, slots, chosen, end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims,
    fixed, fixed_parts, by_utilisation, threshold, order, cursor,
):  # fmt: skip
    """``place`` for each of ``slots``, the nodes into ``chosen``: one call for a gang. Returns the new cursor."""
    for i in range(slots.shape[0]):
        chosen[i], cursor = place_16(
            r, slots[i], end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims,
            fixed, fixed_parts, by_utilisation, threshold, order, cursor,
        )  # fmt: skip
    return cursor


PLACE = {4: place_4, 6: place_6, 8: place_8, 16: place_16}
PLACE_MANY = {4: place_many_4, 6: place_many_6, 8: place_many_8, 16: place_many_16}
