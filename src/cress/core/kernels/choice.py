"""Choosing a node in one call: weights of the moment, threshold, rotation, and the scan that fits the case."""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.core.kernels.balance import (
    NO_NODE,
    rotate_4,
    rotate_6,
    rotate_8,
    rotate_16,
    scan_4,
    scan_6,
    scan_8,
    scan_16,
)
from cress.core.kernels.holding import REQUEST, TOTAL_USED

BALANCE, BEST_FIT, SPREAD, FIRST = range(4)


@njit(cache=True, nogil=True, error_model="numpy")
def precedence(values, present, out):
    """Weights from the precedence chart of ``values`` (B): row sums over the whole; absent dimensions get 0."""
    n = values.shape[0]
    total = 0.0
    for i in range(n):
        row = 0.0
        if present[i]:
            for j in range(n):
                if present[j]:
                    if values[i] > values[j]:
                        row += 1.0
                    elif values[i] == values[j]:
                        row += 0.5
        out[i] = row
        total += row
    if total > 0:
        for i in range(n):
            out[i] /= total


@njit(cache=True, nogil=True, error_model="numpy")
def current_weights(totals, dims, fixed, fixed_parts, by_utilisation, weights):
    """Fill ``weights`` (float32) with the mean of the chosen parts; returns the cluster's mean utilisation.

    ``fixed`` (float64) is the sum of ``fixed_parts`` parts that do not follow the utilisation.
    """
    n = dims.shape[0]
    k_count = (totals.shape[0] - TOTAL_USED) // 2
    utilisation = np.zeros(n)
    present = np.zeros(n, np.uint8)
    mean = 0.0
    have = 0
    for b in range(n):
        total = totals[TOTAL_USED + k_count + dims[b]]
        if total > 0:
            present[b] = 1
            utilisation[b] = totals[TOTAL_USED + dims[b]] / total
            mean += utilisation[b]
            have += 1
    second = np.zeros(n)
    parts = fixed_parts
    if by_utilisation:
        precedence(utilisation, present, second)
        parts += 1
    for b in range(n):
        weights[b] = np.float32((fixed[b] + second[b]) / parts) if present[b] else np.float32(0)
    return mean / have if have > 0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _scan(lack, blocked, share, inverse, part, node_count, add, weights):
    width = share.shape[0]
    if width == 4:
        return scan_4(lack, blocked, share, inverse, part, node_count, add, weights)
    if width == 6:
        return scan_6(lack, blocked, share, inverse, part, node_count, add, weights)
    if width == 8:
        return scan_8(lack, blocked, share, inverse, part, node_count, add, weights)
    return scan_16(lack, blocked, share, inverse, part, node_count, add, weights)


@njit(cache=True, nogil=True, error_model="numpy")
def _rotate(lack, blocked, share, inverse, part, first, last, add, weights):
    width = share.shape[0]
    if width == 4:
        return rotate_4(lack, blocked, share, inverse, part, first, last, add, weights)
    if width == 6:
        return rotate_6(lack, blocked, share, inverse, part, first, last, add, weights)
    if width == 8:
        return rotate_8(lack, blocked, share, inverse, part, first, last, add, weights)
    return rotate_16(lack, blocked, share, inverse, part, first, last, add, weights)


@njit(cache=True, nogil=True, error_model="numpy")
def _by_mean(lack, blocked, share, inverse, part, node_count, add, full):
    """Best node by mean use after placing: the largest (``full``) or the smallest."""
    best = -1
    best_mean = np.float32(0)
    for f in range(node_count):
        if lack[f] != 0 or blocked[f] != 0:
            continue
        mean = np.float32(0)
        for b in range(add.shape[0]):
            mean += share[b, f] + add[b] * inverse[b, f]
        mean *= part[f]
        if best < 0 or (mean > best_mean if full else mean < best_mean):
            best = f
            best_mean = mean
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def choose(
    r, lack, rows, blocked, share, inverse, part, node_count, totals, dims, fixed, fixed_parts, by_utilisation,
    threshold, order, cursor,
):  # fmt: skip
    """The node for one copy of the shape of row ``r`` and the new cursor of the rotation; (-1, cursor) if none."""
    row = lack[r]
    if order == FIRST or node_count == 1:
        for f in range(node_count):
            if row[f] == 0 and blocked[f] == 0:
                return f, cursor
        return -1, cursor
    width = share.shape[0]
    add = np.zeros(width, np.float32)
    for b in range(dims.shape[0]):
        add[b] = np.float32(rows[r, REQUEST + dims[b]])
    if order != BALANCE:
        return _by_mean(row, blocked, share, inverse, part, node_count, add, order == BEST_FIT), cursor
    weights = np.zeros(width, np.float32)
    mean = current_weights(totals, dims, fixed, fixed_parts, by_utilisation, weights)
    if mean >= threshold:
        best = _scan(row, blocked, share, inverse, part, node_count, add, weights)
    else:
        best, better = _rotate(row, blocked, share, inverse, part, cursor, node_count, add, weights)
        if better < 0:
            rest, better = _rotate(row, blocked, share, inverse, part, 0, cursor, add, weights)
            best = min(best, rest)
        if better >= 0:
            return better, (better + 1) % node_count
    if best == NO_NODE:
        return -1, cursor
    return best & 0xFFFFFFFF, cursor
