"""Choice of a node, besides the balance scans: the current weights, and the orders other than balance."""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.core.kernels.holding import TOTAL_USED

BALANCE, BEST_FIT, SPREAD, FIRST = range(4)


@njit(cache=True, nogil=True, error_model="numpy")
def precedence(values, present, out):
    """Compute weights from the precedence chart of ``values`` (B): row sums over the whole; absent dimensions get 0."""
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
    """Fill ``weights`` (float32) with the mean of the chosen parts; return the cluster's mean utilisation.

    ``fixed`` (float64) is the sum of ``fixed_parts`` parts that do not depend on the utilisation.
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
def best_by_mean(lack, blocked, columns, node_count, add, full):
    """Return the best node by mean use after placing: the largest (``full``) or the smallest."""
    width = (columns.shape[0] - 2) // 2
    best = -1
    best_mean = np.float32(0)
    for f in range(node_count):
        if lack[f] != 0 or blocked[f] != 0:
            continue
        mean = np.float32(0)
        for b in range(add.shape[0]):
            mean += columns[b, f] + add[b] * columns[width + b, f]
        mean *= columns[2 * width, f]
        if best < 0 or (mean > best_mean if full else mean < best_mean):
            best = f
            best_mean = mean
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def first_free(lack, blocked, node_count):
    """Return the first node in the order of registration that fits; -1 without one."""
    for f in range(node_count):
        if lack[f] == 0 and blocked[f] == 0:
            return f
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def differ(some, others):
    """Return True if two arrays of the same length differ anywhere."""
    for i in range(some.shape[0]):
        if some[i] != others[i]:
            return True
    return False


@njit(cache=True, nogil=True, error_model="numpy")
def set_aside(lack, blocked, scores, node_count, aside):
    """Fill ``aside`` with ``blocked``, and with 1 where a node has a lower score than the best open one.

    The order of scores (float32, no NaN, no -0) is that of their bits, once the bits of negative ones are inverted.
    """
    bits = scores.view(np.int32)
    best = np.int32(-(2**31))
    for f in range(node_count):
        key = bits[f] ^ ((bits[f] >> np.int32(31)) & np.int32(0x7FFFFFFF))
        best = max(best, np.int32(-(2**31)) if (lack[f] | blocked[f]) != 0 else key)
    for f in range(node_count):
        key = bits[f] ^ ((bits[f] >> np.int32(31)) & np.int32(0x7FFFFFFF))
        aside[f] = blocked[f] | np.int32(key < best)
