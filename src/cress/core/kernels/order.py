"""The order of waiting jobs by expansion factor, which changes with time (design note 0022).

Arrays have one value per queue position; ``values`` has a row for each of ``RUNS`` … ``OVERDUE``; ``limits`` is
``gap`` at positions without a job. Overdue jobs come first, in the order in which they became overdue. The others are
ordered by ``cost / (wait + 1 s)``, smallest first. Ties go to the first position.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.core.kernels.holding import FITTING
from cress.model.times import NEVER

# A job that was submitted at this moment must not divide by zero.
LEAST_WAIT = 1_000_000
RUNS, COSTS, SUBMITTED, OVERDUE = range(4)


@njit(cache=True, nogil=True, error_model="numpy")
def _score(i, values, now):
    if values[OVERDUE, i] <= now:
        return np.float64(values[OVERDUE, i] - now) - 1.0
    return np.float64(values[COSTS, i]) / np.float64(now - values[SUBMITTED, i] + LEAST_WAIT)


@njit(cache=True, nogil=True, error_model="numpy")
def _duration(i, limits, values, predicted):
    return values[RUNS, i] if predicted else limits[i]


@njit(cache=True, nogil=True, error_model="numpy")
def first_by_factor(limits, gap, values, first, last, now):
    """Return the position of the first job, and the time (µs) at which the next job becomes overdue; -1 and NEVER
    without one.
    """
    head = np.int64(-1)
    least = 0.0
    change = np.int64(NEVER)
    for i in range(first, last):
        if limits[i] != gap:
            score = _score(i, values, now)
            if head < 0 or score < least:
                head = np.int64(i)
                least = score
            if values[OVERDUE, i] > now:
                change = min(change, values[OVERDUE, i])
    return head, change


@njit(cache=True, nogil=True, error_model="numpy")
def candidates(shape_of, limits, gap, values, predicted, by_factor, first, last, now, bound, rows):
    """Return, in order, the positions of jobs whose shape fits and whose duration is below the bound of their row.

    The order is that by factor, or the shortest duration first.
    """
    places = np.empty(last - first, np.int64)
    scores = np.empty(last - first, np.float64)
    n = 0
    for i in range(first, last):
        row = shape_of[i]
        if limits[i] != gap and rows[row, FITTING] > 0 and _duration(i, limits, values, predicted) < bound[row]:
            places[n] = i
            scores[n] = _score(i, values, now) if by_factor else np.float64(_duration(i, limits, values, predicted))
            n += 1
    return places[:n] if n < 2 else places[:n][np.argsort(scores[:n], kind="mergesort")]


@njit(cache=True, nogil=True, error_model="numpy")
def in_order(limits, gap, values, predicted, by_factor, first, last, now):
    """Return the positions of all jobs in the order of ``candidates``."""
    places = np.empty(last - first, np.int64)
    scores = np.empty(last - first, np.float64)
    n = 0
    for i in range(first, last):
        if limits[i] != gap:
            places[n] = i
            scores[n] = _score(i, values, now) if by_factor else np.float64(_duration(i, limits, values, predicted))
            n += 1
    return places[:n][np.argsort(scores[:n], kind="mergesort")]
