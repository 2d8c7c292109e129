"""Domains closed by a clause, and the nodes that are excluded with them in the fit table.

A clause over domains has one answer per domain: ``closed`` (bool), whose last element is for nodes without the
attribute. Each ``close_…`` updates it, writes the numbers of the changed domains into ``changed``, and returns how
many these are. So after a start or an end only the nodes of those domains are examined. ``counts`` (int64) are the
tasks per domain; the last element is for nodes without one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.core.kernels.holding import (
    CLAUSES,
    FITTING,
    REQUEST,
    SHUT,
    STAMP,
    TOTAL_STAMP,
    TOTAL_STARVED,
    TOTAL_USED,
    UNUSABLE,
)

# When ``close_unused`` opens every domain: never, while no task runs anywhere, while none runs in a domain.
NEVER_ALL, WITHOUT_ANY, WITHOUT_ANY_IN_DOMAINS = range(3)
_MANY = 2**62

# The loops below write out what they do with an answer that changes: with a function for it, even an inlined one, they
# take ten times as long.


@njit(cache=True, nogil=True, error_model="numpy")
def _least_used(counts, eligible):
    """Return the tasks of the least used ``eligible`` domain; 0 without any."""
    least = np.int64(_MANY)
    for d in range(counts.shape[0] - 1):
        least = min(least, counts[d] if eligible[d] else np.int64(_MANY))
    return np.int64(0) if least == _MANY else least


@njit(cache=True, nogil=True, error_model="numpy")
def close_uneven(counts, eligible, skew, closed, changed):
    """Close the domains with ``skew`` more tasks than the least used ``eligible`` one."""
    last = counts.shape[0] - 1
    bound = _least_used(counts, eligible) + skew
    number = 0
    for d in range(last):
        if closed[d] != (counts[d] >= bound):
            closed[d] = not closed[d]
            changed[number] = d
            number += 1
    return _close_last(True, closed, changed, number)


@njit(cache=True, nogil=True, error_model="numpy")
def close_beyond_shares(counts, weights, size, skew, closed, changed):
    """Close the domains with their share of all tasks and of ``size`` more, rounded up, plus ``skew - 1``.

    ``weights`` (int64) are the shares.
    """
    whole = np.int64(0)
    total = np.int64(size)
    for d in range(counts.shape[0]):
        whole += weights[d]
        total += counts[d]
    whole = max(whole, np.int64(1))
    number = 0
    for d in range(counts.shape[0] - 1):
        bound = -(-weights[d] * total // whole) + skew - 1 if weights[d] != 0 else np.int64(0)
        if closed[d] != (counts[d] >= bound):
            closed[d] = not closed[d]
            changed[number] = d
            number += 1
    return _close_last(True, closed, changed, number)


@njit(cache=True, nogil=True, error_model="numpy")
def close_full(counts, most, last, closed, changed):
    """Close the domains with more than ``most`` tasks; ``last``: also nodes without a domain."""
    number = 0
    for d in range(counts.shape[0] - 1):
        if closed[d] != (counts[d] > most):
            closed[d] = not closed[d]
            changed[number] = d
            number += 1
    return _close_last(last, closed, changed, number)


@njit(cache=True, nogil=True, error_model="numpy")
def close_unused(counts, open_all, closed, changed):
    """Close the domains without tasks, unless ``open_all`` opens every one."""
    used = np.int64(0)
    for d in range(counts.shape[0] - 1):
        used |= counts[d]
    if open_all == WITHOUT_ANY:
        used |= counts[counts.shape[0] - 1]
    all_open = open_all != NEVER_ALL and used == 0
    number = 0
    for d in range(counts.shape[0] - 1):
        if closed[d] != (counts[d] == 0 and not all_open):
            closed[d] = not closed[d]
            changed[number] = d
            number += 1
    return _close_last(True, closed, changed, number)


@njit(cache=True, nogil=True, error_model="numpy")
def _close_last(last, closed, changed, number):
    d = closed.shape[0] - 1
    if closed[d] != last:
        closed[d] = last
        changed[number] = d
        number += 1
    return number


@njit(cache=True, nogil=True, error_model="numpy")
def worth_of_even(counts, eligible, weight, worth, changed):
    """Update ``worth`` (float32): ``weight`` in domains with at most the tasks of the least used ``eligible`` one,
    less with more.
    """
    last = counts.shape[0] - 1
    least = _least_used(counts, eligible)
    number = 0
    for d in range(last + 1):
        value = np.float32(0)
        if d < last:
            # + 0 makes 0 of -0: scores are compared by their bits.
            value = np.float32(weight) * np.float32(1.0 / (1 + max(np.int64(0), counts[d] - least))) + np.float32(0)
        if worth[d] != value:
            worth[d] = value
            changed[number] = d
            number += 1
    return number


@njit(cache=True, nogil=True, error_model="numpy")
def put_worth(changed, number, worth, order, bounds, scores):
    """Write the worth of the first ``number`` domains in ``changed`` into the scores of their nodes."""
    for i in range(number):
        d = changed[i]
        for j in range(bounds[d], bounds[d + 1]):
            scores[order[j]] = worth[d]


@njit(cache=True, nogil=True, error_model="numpy")
def shut_domains(r, changed, number, closed, others, order, bounds, nodes, totals, rows, lack):
    """Exclude in row ``r`` the nodes of the first ``number`` domains in ``changed`` if they are ``closed``, else admit
    them.

    The nodes of domain d are ``order[bounds[d]:bounds[d + 1]]``. ``others`` (bool, per node) are nodes that another
    clause excludes; empty without any. Admitted nodes get a new stamp. Returns True if a node is no longer excluded.
    """
    row = lack[r]
    before = rows[r, FITTING]
    fitting = before
    stamp = totals[TOTAL_STAMP] + 1
    turned = False
    cleared = False
    for i in range(number):
        d = changed[i]
        for j in range(bounds[d], bounds[d + 1]):
            f = order[j]
            shut = closed[d] or (others.shape[0] > 0 and others[f])
            old = row[f]
            if (old & SHUT != 0) == shut:
                continue
            new = np.int32(old ^ SHUT)
            row[f] = new
            turned = True
            if shut:
                if old == 0:
                    fitting -= 1
                elif old & (CLAUSES | UNUSABLE) == 0:
                    _count_lack(r, old, -1, rows, totals)
            else:
                # All that are opened together have one stamp.
                nodes[f, STAMP] = stamp
                cleared = cleared or new & CLAUSES == 0
                if new == 0:
                    fitting += 1
                elif new & (CLAUSES | UNUSABLE) == 0:
                    _count_lack(r, new, 1, rows, totals)
    rows[r, FITTING] = fitting
    totals[TOTAL_STARVED] += np.int64(fitting == 0) - np.int64(before == 0)
    totals[TOTAL_STAMP] += np.int64(turned)
    return cleared


@njit(cache=True, nogil=True, error_model="numpy")
def _count_lack(r, bits, sign, rows, totals):
    k_count = (totals.shape[0] - TOTAL_USED) // 2
    for k in range(k_count):
        rows[r, REQUEST + k_count + k] += sign * ((bits >> k) & 1)
