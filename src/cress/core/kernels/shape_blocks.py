"""Queue positions in blocks, the jobs of one shape together, and the search in them for jobs that fit.

``members`` are the positions, block after block; block b is [``begins[b]``, ``begins[b + 1]``) of it and has shapes in
the rows [``lowest[b]``, ``highest[b]``]. ``block_of`` is the block of each position. Positions without a job are
included. The rows of ``values`` are those of ``urgency.py``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.core.kernels.holding import FITTING
from cress.core.kernels.urgency import refresh, score_at


@njit(cache=True, nogil=True, error_model="numpy")
def divide(shape_of, end, size, members, block_of, begins, lowest, highest):
    """Divide the positions before ``end`` into blocks of at most ``size``, by shape; return the number of blocks.

    A block has one shape, or several rare ones.
    """
    starts = np.zeros(shape_of[:end].max() + 2, np.int64)
    for i in range(end):
        starts[shape_of[i] + 1] += 1
    starts = np.cumsum(starts)
    ends = starts.copy()
    for i in range(end):
        members[ends[shape_of[i]]] = i
        ends[shape_of[i]] += 1
    b = -1
    full = 0
    for r in range(len(starts) - 1):
        n = starts[r]
        while n < starts[r + 1]:
            whole = starts[r + 1] - n
            if b < 0 or full - begins[b] + min(whole, size) > size:
                b += 1
                begins[b] = n
                lowest[b] = r
            highest[b] = r
            full = min(starts[r + 1], n + size)
            for m in range(n, full):
                block_of[members[m]] = b
            n = full
    begins[b + 1] = end
    return b + 1


@njit(cache=True, nogil=True, error_model="numpy")
def extend(shape_of, first, end, size, members, block_of, begins, lowest, highest, changes, blocks):
    """Add the positions from ``first`` to before ``end`` to the last block or to new ones; return the number of
    blocks.
    """
    for i in range(first, end):
        b = blocks - 1
        r = shape_of[i]
        if i - begins[b] >= size:
            b = blocks
            blocks += 1
            begins[b] = i
            lowest[b] = r
            highest[b] = r
        members[i] = i
        block_of[i] = b
        lowest[b] = min(lowest[b], r)
        highest[b] = max(highest[b], r)
        changes[b] = -1
        begins[b + 1] = i + 1
    return blocks


@njit(cache=True, nogil=True, error_model="numpy")
def _may_fit(lowest, highest, least, bound, rows):
    for r in range(lowest, highest + 1):
        if rows[r, FITTING] > 0 and least < bound[r]:
            return True
    return False


@njit(cache=True, nogil=True, error_model="numpy")
def open_blocks(
    by_deadline, values, late, now, members, begins, heads, changes, least, lowest, highest, bound, rows, tops, places
):
    """Write the first job of each block in which a job may fit below its bound into ``places``, and its score into
    ``tops``.

    ``tops`` is -1 for other blocks. Returns True if there is one. ``first_of_blocks`` has examined the blocks since
    their change; times in ``changes`` may have passed.
    """
    any_fits = False
    for b in range(len(begins) - 1):
        tops[b] = -1.0
        places[b] = -1
        if not _may_fit(lowest[b], highest[b], least[b], bound, rows):
            continue
        if changes[b] <= now:
            refresh(by_deadline, values, late, now, members, begins, b, heads, changes, least)
        if heads[b] >= 0:
            places[b] = heads[b]
            tops[b] = score_at(by_deadline, values, late, heads[b], now)
            any_fits = True
    return any_fits


@njit(cache=True, nogil=True, error_model="numpy")
def next_that_fits(
    by_deadline, values, late, now, members, begins, shape_of, durations, bound, rows, tops, places, taken, last
):
    """Return the position of the next job in the order whose shape fits and whose duration is below its bound; -1 at
    the end.

    ``last`` is the previous result, at first -1. No job of a block precedes the one in ``places``; ``taken`` is True
    if that was returned. A block is examined as a whole only when it is next.
    """
    after = np.inf
    if last >= 0:
        after = score_at(by_deadline, values, late, last, now)
    while True:
        b = -1
        for other in range(len(begins) - 1):
            if tops[other] >= 0.0 and (
                b < 0 or tops[other] > tops[b] or (tops[other] == tops[b] and places[other] < places[b])
            ):
                b = other
        if b < 0:
            return np.int64(-1)
        i = places[b]
        if not taken[b] and rows[shape_of[i], FITTING] > 0 and durations[i] < bound[shape_of[i]]:
            taken[b] = True
            return i
        tops[b] = -1.0
        taken[b] = False
        for n in range(begins[b], begins[b + 1]):
            i = members[n]
            # The duration is not below any bound where there is no job.
            if durations[i] < bound[shape_of[i]] and rows[shape_of[i], FITTING] > 0:
                found = score_at(by_deadline, values, late, i, now)
                if (found < after or (found == after and i > last)) and (
                    found > tops[b] or (found == tops[b] and i < places[b])
                ):
                    tops[b] = found
                    places[b] = i
