"""The order of waiting jobs by urgency or by deadline, which changes with time (design note 0023).

Arrays have one value per queue position; ``limits`` is ``gap`` where there is no job. ``deadlines`` are on the clock of the core, NEVER without
one. ``longest`` and ``shortest`` are the pessimistic and the optimistic estimate of what is left of a job (µs). Of equal jobs the first position is first.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.core.kernels.holding import FITTING
from cress.model.times import NEVER


@njit(cache=True, nogil=True, error_model="numpy")
def urgency(deadline, longest, shortest, late, now):
    """Return the urgency, 0 … 1; ``late`` is that of a job that cannot meet its deadline any more."""
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
    """Return when a job becomes more urgent than a ``first`` one that is at least as urgent now; NEVER if both never are below 1 then."""
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
    """Return by what jobs are ordered, the largest first: the urgency, or how early the deadline is.

    By deadline, jobs that cannot meet theirs any more come last with the urgency ``late`` 0; with 1 it does not matter.
    """
    if not by_deadline:
        return urgency(deadline, longest, shortest, late, now)
    if deadline >= NEVER:
        return 0.0
    if late <= 0.0 and shortest < NEVER and shortest > deadline - now:
        return 0.0
    return np.float64(NEVER - deadline)


@njit(cache=True, nogil=True, error_model="numpy")
def bends_at(by_deadline, deadline, longest, shortest, now):
    """Return the next time at which the score stops to grow: the urgency is 1, or the deadline cannot be met any more."""
    change = np.int64(NEVER)
    if deadline < NEVER and shortest < NEVER:
        lost = deadline - shortest + 1
        if lost > now:
            change = lost
        full = deadline - longest
        if not by_deadline and longest < NEVER and full > now:
            change = min(change, full)
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def _overtaken_at(by_deadline, head, most, limits, gap, deadlines, longest, shortest, first, last, now):
    """Return when a job in a range of positions may pass the job ``head``, whose score ``most`` is at least theirs."""
    change = np.int64(NEVER)
    if by_deadline:
        # Others only fall back, once they are late.
        return change
    for i in range(first, last):
        if limits[i] == gap or deadlines[i] >= NEVER or longest[i] >= NEVER or i == head:
            continue
        if most >= 1.0:
            full = deadlines[i] - longest[i]
            if i < head and full > now:
                change = min(change, full)
        elif most > 0.0 and shortest[i] <= deadlines[i] - now:
            change = min(change, passes_at(deadlines[i], longest[i], deadlines[head], longest[head], now))
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def first_by_score(by_deadline, limits, gap, deadlines, longest, shortest, late, first, last, now):
    """Return the position of the first job, and the next time at which another one may be; (-1, NEVER) if there is none."""
    head = np.int64(-1)
    most = -1.0
    for i in range(first, last):
        if limits[i] != gap:
            found = score(by_deadline, deadlines[i], longest[i], shortest[i], late, now)
            if found > most:
                head = np.int64(i)
                most = found
    if head < 0:
        return head, np.int64(NEVER)
    bend = bends_at(by_deadline, deadlines[head], longest[head], shortest[head], now)
    passed = _overtaken_at(by_deadline, head, most, limits, gap, deadlines, longest, shortest, first, last, now)
    return head, min(bend, passed)


@njit(cache=True, nogil=True, error_model="numpy")
def first_of_blocks(by_deadline, limits, gap, deadlines, longest, shortest, late, end, now, size, heads, changes):
    """Return the position of the first job, -1 if there is none, looking only at blocks whose time in ``changes`` has come.

    Block b has the positions from b × ``size`` on; ``heads`` has the first of each.
    """
    head = np.int64(-1)
    most = -1.0
    for b in range((end + size - 1) // size):
        if changes[b] <= now:
            heads[b], changes[b] = first_by_score(
                by_deadline, limits, gap, deadlines, longest, shortest, late, b * size, min(end, (b + 1) * size), now
            )
        i = heads[b]
        if i >= 0:
            found = score(by_deadline, deadlines[i], longest[i], shortest[i], late, now)
            if found > most:
                head = i
                most = found
    return head


@njit(cache=True, nogil=True, error_model="numpy")
def change_of_blocks(
    head, by_deadline, limits, gap, deadlines, longest, shortest, late, end, now, size, heads, changes
):
    """Return the next time at which another job than ``head`` may be the first; the blocks are those of ``first_of_blocks`` at ``now``."""
    if head < 0:
        return np.int64(NEVER)
    most = score(by_deadline, deadlines[head], longest[head], shortest[head], late, now)
    change = bends_at(by_deadline, deadlines[head], longest[head], shortest[head], now)
    blocks = (end + size - 1) // size
    for b in range(blocks):
        if heads[b] >= 0:
            one = (limits, gap, deadlines, longest, shortest, heads[b], heads[b] + 1, now)
            change = min(change, _overtaken_at(by_deadline, head, most, *one))
    for b in range(blocks):
        # Before its head changes no other job of a block passes anybody that its head does not pass.
        if changes[b] < change:
            whole = (limits, gap, deadlines, longest, shortest, b * size, min(end, (b + 1) * size), now)
            change = min(change, _overtaken_at(by_deadline, head, most, *whole))
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def candidates(shape_of, limits, gap, durations, first, last, bound, rows):
    """Return the positions of jobs whose shape fits somewhere and whose duration is below the bound of their row."""
    places = np.empty(last - first, np.int64)
    n = 0
    for i in range(first, last):
        if limits[i] != gap and durations[i] < bound[shape_of[i]] and rows[shape_of[i], FITTING] > 0:
            places[n] = i
            n += 1
    return places[:n]


@njit(cache=True, nogil=True, error_model="numpy")
def scores(by_deadline, places, deadlines, longest, shortest, late, now):
    """Return the scores of the jobs at these positions."""
    found = np.empty(len(places), np.float64)
    for n in range(len(places)):
        i = places[n]
        found[n] = score(by_deadline, deadlines[i], longest[i], shortest[i], late, now)
    return found
