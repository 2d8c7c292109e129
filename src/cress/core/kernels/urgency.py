"""The order of waiting jobs by urgency or by deadline, which changes with time (design note 0023).

``values`` has a column per queue position, ``GAP`` where there is no job, with these rows: ``DEADLINES`` on the clock
of the core, NEVER without one; ``RUNS``, the planned duration of a unit by its estimate; ``SHORTEST`` and ``LONGEST``,
the optimistic and the pessimistic remaining time (µs), which may be one row. Ties go to the first position.

Jobs are examined in blocks (``shape_blocks.py``): ``members`` are all positions, block after block, and block b is
[``begins[b]``, ``begins[b + 1]``) of it. ``heads`` is the first job of each, until the time in ``changes``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.model.times import NEVER

# The last row is the longest: by deadline it is the shortest as well.
DEADLINES, RUNS, SHORTEST, LONGEST = 0, 1, 2, -1
GAP = 2**62


@njit(cache=True, nogil=True, error_model="numpy")
def urgency(deadline, longest, shortest, late, now):
    """Return the urgency, 0 … 1; ``late`` is that of a job that can no longer meet its deadline."""
    left = deadline - now
    if deadline >= NEVER or longest >= NEVER:
        return 0.0
    if shortest > left:
        return late
    if longest >= left:
        return 1.0
    return np.float64(longest) / np.float64(left)


@njit(cache=True, nogil=True, error_model="numpy")
def passes_at(deadline, longest, first_deadline, first_longest, now):
    """Return the time (µs) at which a job becomes more urgent than a ``first`` one that is at least as urgent now.

    NEVER if it does not, or if the urgency of the first one is already 1.
    """
    faster = first_longest - longest
    if faster <= 0 or deadline >= NEVER or first_deadline - first_longest <= now:
        return np.int64(NEVER)
    # What is left of it is less, so its urgency grows faster: when longest / (deadline - t) of both are equal.
    behind = np.float64(first_longest) * np.float64(deadline - now)
    ahead = np.float64(longest) * np.float64(first_deadline - now)
    # Looked at between two microseconds, or rounded, it may be ahead already.
    return now + max(np.int64(1), np.int64(np.floor((behind - ahead) / np.float64(faster))) + 1)


@njit(cache=True, nogil=True, error_model="numpy")
def score(by_deadline, deadline, longest, shortest, late, now):
    """Return the sort key of a job, largest first: the urgency, or the earliness of the deadline.

    By deadline, jobs that can no longer meet theirs come last if the urgency ``late`` is 0; with 1 they keep their
    place.
    """
    if not by_deadline:
        return urgency(deadline, longest, shortest, late, now)
    if deadline >= NEVER:
        return 0.0
    if late <= 0.0 and shortest < NEVER and shortest > deadline - now:
        return 0.0
    return np.float64(NEVER - deadline)


@njit(cache=True, nogil=True, error_model="numpy")
def score_at(by_deadline, values, late, i, now):
    """Return the score of the job at a position."""
    return score(by_deadline, values[DEADLINES, i], values[LONGEST, i], values[SHORTEST, i], late, now)


@njit(cache=True, nogil=True, error_model="numpy")
def bends_at(by_deadline, deadline, longest, shortest, late, now):
    """Return the next time (µs) at which the score stops to grow: the urgency is 1, or the deadline can no longer be
    met.
    """
    change = np.int64(NEVER)
    if by_deadline and late > 0.0:
        return change
    if deadline < NEVER and shortest < NEVER:
        lost = deadline - shortest + 1
        if lost > now:
            change = lost
        full = deadline - longest
        if not by_deadline and longest < NEVER and full > now:
            change = min(change, full)
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def _overtaken_at(head, most, values, members, first, last, now):
    """Return the time (µs) at which a job among these members may pass the job ``head`` by urgency.

    The score ``most`` of ``head`` is at least theirs.
    """
    change = np.int64(NEVER)
    for n in range(first, last):
        i = members[n]
        deadline = values[DEADLINES, i]
        longest = values[LONGEST, i]
        if deadline >= NEVER or longest >= NEVER or i == head:
            continue
        if most >= 1.0:
            full = deadline - longest
            if i < head and full > now:
                change = min(change, full)
        elif most > 0.0 and values[SHORTEST, i] <= deadline - now:
            change = min(change, passes_at(deadline, longest, values[DEADLINES, head], values[LONGEST, head], now))
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def _bend_of(by_deadline, values, late, i, now):
    return bends_at(by_deadline, values[DEADLINES, i], values[LONGEST, i], values[SHORTEST, i], late, now)


@njit(cache=True, nogil=True, error_model="numpy")
def first_by_score(by_deadline, values, late, members, first, last, now):
    """Return the first of these members, and the next time (µs) at which another may be first; (-1, NEVER) without
    any.
    """
    head = np.int64(-1)
    most = -1.0
    for n in range(first, last):
        i = members[n]
        if values[DEADLINES, i] != GAP:
            found = score_at(by_deadline, values, late, i, now)
            if found > most or (found == most and i < head):
                head = np.int64(i)
                most = found
    if head < 0:
        return head, np.int64(NEVER)
    change = _bend_of(by_deadline, values, late, head, now)
    # By deadline others only fall back, once they are late.
    if not by_deadline:
        change = min(change, _overtaken_at(head, most, values, members, first, last, now))
    return head, change


@njit(cache=True, nogil=True, error_model="numpy")
def refresh(by_deadline, values, late, now, members, begins, b, heads, changes, least):
    """Find the first job of a block again, and its shortest planned run."""
    first, last = begins[b], begins[b + 1]
    heads[b], changes[b] = first_by_score(by_deadline, values, late, members, first, last, now)
    run = np.int64(GAP)
    for n in range(first, last):
        run = min(run, values[RUNS, members[n]])
    least[b] = run


@njit(cache=True, nogil=True, error_model="numpy")
def first_of_blocks(by_deadline, values, late, now, members, begins, heads, changes, least):
    """Return the position of the first job, -1 without one; only blocks whose time in ``changes`` has come are
    examined.
    """
    head = np.int64(-1)
    most = -1.0
    for b in range(len(begins) - 1):
        if changes[b] <= now:
            refresh(by_deadline, values, late, now, members, begins, b, heads, changes, least)
        i = heads[b]
        if i >= 0:
            found = score_at(by_deadline, values, late, i, now)
            if found > most or (found == most and i < head):
                head = i
                most = found
    return head


@njit(cache=True, nogil=True, error_model="numpy")
def change_of_blocks(by_deadline, values, late, now, members, begins, heads, changes, head):
    """Return the next time (µs) at which a job other than ``head`` may be first.

    The blocks are those of ``first_of_blocks`` at ``now``.
    """
    if head < 0:
        return np.int64(NEVER)
    change = _bend_of(by_deadline, values, late, head, now)
    if by_deadline:
        return change
    most = score_at(by_deadline, values, late, head, now)
    blocks = len(begins) - 1
    for b in range(blocks):
        if heads[b] >= 0:
            change = min(change, _overtaken_at(head, most, values, heads, b, b + 1, now))
    for b in range(blocks):
        # Before its head changes no other job of a block passes anybody that its head does not pass.
        if changes[b] < change:
            change = min(change, _overtaken_at(head, most, values, members, begins[b], begins[b + 1], now))
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def scores(by_deadline, values, late, places, now):
    """Return the scores of the jobs at these positions."""
    found = np.empty(len(places), np.float64)
    for n in range(len(places)):
        found[n] = score_at(by_deadline, values, late, places[n], now)
    return found
