"""Estimates of a run from the last runs of a job (design note 0022).

A row of the table of runs contains the number of runs, the index of the newest, and for each run the number of its
request, its length (µs) and the part of its limit that it took.
"""

from __future__ import annotations

import numpy as np
from numba import njit

COUNT, NEWEST, PLACES = 0, 1, 2
REQUEST, RUN, PART = range(3)


@njit(cache=True, nogil=True, error_model="numpy")
def add_run(table, row, other, most, request, run, part):
    """Enter a run into two rows, in place of the oldest of ``most`` runs; once if both rows are the same."""
    _enter(table[row], most, request, run, part)
    if other != row:
        _enter(table[other], most, request, run, part)


@njit(cache=True, nogil=True, error_model="numpy")
def _enter(runs, most, request, run, part):
    at = (runs[NEWEST] + 1) % most
    runs[NEWEST] = at
    runs[COUNT] = min(runs[COUNT] + 1, most)
    runs[PLACES + REQUEST * most + at] = request
    runs[PLACES + RUN * most + at] = run
    runs[PLACES + PART * most + at] = part


@njit(cache=True, nogil=True, error_model="numpy")
def _put(values, weights, count, value, weight):
    """Insert a value into the first ``count`` values, which are sorted."""
    i = count
    while i > 0 and values[i - 1] > value:
        values[i] = values[i - 1]
        weights[i] = weights[i - 1]
        i -= 1
    values[i] = value
    weights[i] = weight


@njit(cache=True, nogil=True, error_model="numpy")
def _quantile(values, weights, percent, total):
    """Return the smallest value at or below which ``percent`` percent of the weight lie."""
    below = np.int64(0)
    i = -1
    while 100 * below < percent * total:
        i += 1
        below += weights[i]
    return values[i]


@njit(cache=True, nogil=True, error_model="numpy")
def estimate_run(table, row, weights, other, request, limit, likely, mean, limit_weight, whole):
    """Return the optimistic, mean, pessimistic and likely run of a job with this request and limit (µs).

    Also the lowest tenth of the parts. A run has the weight of its age, divided by ``other`` if its request differs.
    The limit counts as one more run: ``likely`` long, ``mean`` for the mean, and ``whole`` as its part.
    """
    most = weights.shape[0]
    runs = table[row]
    count = runs[COUNT]
    lengths = np.empty(most + 1, np.int64)
    length_weights = np.empty(most + 1, np.int64)
    parts = np.empty(most + 1, np.int64)
    part_weights = np.empty(most + 1, np.int64)
    lengths[0], length_weights[0] = likely, limit_weight
    parts[0], part_weights[0] = whole, limit_weight
    total = np.int64(limit_weight)
    for age in range(count):
        at = (runs[NEWEST] - age + most) % most
        weight = weights[age]
        if runs[PLACES + REQUEST * most + at] != request:
            weight //= other
        total += weight
        _put(lengths, length_weights, age + 1, min(runs[PLACES + RUN * most + at], limit), weight)
        _put(parts, part_weights, age + 1, runs[PLACES + PART * most + at], weight)
    # The mean of the runs and of the limit's part. A sum of run × weight would not fit into 64 bits: quotients and
    # rests are summed.
    quotients = mean // total * limit_weight - likely // total * limit_weight
    rests = mean % total * limit_weight - likely % total * limit_weight
    for i in range(count + 1):
        quotients += lengths[i] // total * length_weights[i]
        rests += lengths[i] % total * length_weights[i]
    return (
        _quantile(lengths, length_weights, 10, total),
        quotients + rests // total,
        _quantile(lengths, length_weights, 90, total),
        _quantile(lengths, length_weights, 50, total),
        _quantile(parts, part_weights, 10, total),
    )
