"""The compiled loops of a processor log: events, the queue, the running jobs and the passes, all as columns.

Times are µs, amounts thousandths of a core. The state of a run is a few arrays, so that it can stop after some events
and go on: ``numbers`` has the scalars (``FREE`` …), ``queue`` the positions of the waiting jobs in order of submission
(-1 where one has started), ``heap`` the running attempts by end, then by start, and ``plan`` the same attempts in the
order of their planned ends, as long as they hold processors. An attempt is the number of its start, from 0: ``order``
has its job.
"""

from __future__ import annotations

import numpy as np
from numba import njit

import cress.core.kernels  # noqa: F401, it sets where compiled code is cached
from cress.model.times import NEVER

# The places of the scalars in ``numbers``.
FREE, FIRST, LAST, GAPS, RUNNING, PLANNED, SUBMITTED, STARTED, EVENTS = range(9)
SCALARS = 9
# The planned length of a job without a time: a reservation of length 0 would hold nothing.
_LEAST = 1
_MANY_GAPS = 64


@njit(cache=True, nogil=True, error_model="numpy")
def _before(a, b, ends):
    """Return whether attempt ``a`` ends before attempt ``b``; of equal ends the earlier start is first."""
    return ends[a] < ends[b] or (ends[a] == ends[b] and a < b)


@njit(cache=True, nogil=True, error_model="numpy")
def _push(heap, count, attempt, ends):
    """Add an attempt to a heap of ``count``."""
    place = count
    while place > 0:
        above = (place - 1) // 2
        if not _before(attempt, heap[above], ends):
            break
        heap[place] = heap[above]
        place = above
    heap[place] = attempt


@njit(cache=True, nogil=True, error_model="numpy")
def _pop(heap, count, ends):
    """Remove the first attempt of a heap of ``count`` and return it."""
    first = heap[0]
    moved = heap[count - 1]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= count - 1:
            break
        if below + 1 < count - 1 and _before(heap[below + 1], heap[below], ends):
            below += 1
        if not _before(heap[below], moved, ends):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = moved
    return first


@njit(cache=True, nogil=True, error_model="numpy")
def _place_in(plan, count, end, planned):
    """Return the number of attempts among the ``count`` of ``plan`` whose planned ends are at or before ``end``."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if planned[plan[middle]] <= end:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True, error_model="numpy")
def _start(job, now, numbers, heap, plan, run, limit, cores, order, start, ends, planned):
    """Start a job now."""
    attempt = numbers[STARTED]
    numbers[STARTED] += 1
    order[attempt] = job
    start[attempt] = now
    ends[attempt] = now + run[job]
    planned[attempt] = now + max(_LEAST, limit[job])
    numbers[FREE] -= cores[job]
    _push(heap, numbers[RUNNING], attempt, ends)
    numbers[RUNNING] += 1
    count = numbers[PLANNED]
    place = _place_in(plan, count, planned[attempt], planned)
    for i in range(count, place, -1):
        plan[i] = plan[i - 1]
    plan[place] = attempt
    numbers[PLANNED] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _give_back(place, numbers, plan, cores, order):
    """Return the processors of the attempt at ``place`` in the plan."""
    numbers[FREE] += cores[order[plan[place]]]
    numbers[PLANNED] -= 1
    for i in range(place, numbers[PLANNED]):
        plan[i] = plan[i + 1]


@njit(cache=True, nogil=True, error_model="numpy")
def _end(attempt, numbers, plan, cores, order, planned):
    """Return the processors of an attempt that ends, unless they were returned at its planned end."""
    place = _place_in(plan, numbers[PLANNED], planned[attempt], planned) - 1
    while place >= 0 and planned[plan[place]] == planned[attempt]:
        if plan[place] == attempt:
            _give_back(place, numbers, plan, cores, order)
            return
        place -= 1


@njit(cache=True, nogil=True, error_model="numpy")
def _release_planned(now, numbers, plan, limit, cores, order, start, planned):
    """Return the processors of the attempts whose time limit has passed, before their ends are handled."""
    place = 0
    while place < numbers[PLANNED] and planned[plan[place]] <= now + _LEAST:
        attempt = plan[place]
        if start[attempt] + limit[order[attempt]] <= now:
            _give_back(place, numbers, plan, cores, order)
        else:
            place += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _close_gaps(numbers, queue):
    """Move the waiting jobs together."""
    kept = numbers[FIRST]
    for place in range(numbers[FIRST], numbers[LAST]):
        if queue[place] >= 0:
            queue[kept] = queue[place]
            kept += 1
    numbers[LAST] = kept
    numbers[GAPS] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def _reserve(need, numbers, plan, cores, order, planned):
    """Return the time at which ``need`` is free by the planned ends, and what is free beyond it then."""
    gained = numbers[FREE]
    place = 0
    while place < numbers[PLANNED]:
        time = planned[plan[place]]
        while place < numbers[PLANNED] and planned[plan[place]] == time:
            gained += cores[order[plan[place]]]
            place += 1
        if gained >= need:
            return time, gained - need
    return np.int64(NEVER), np.int64(0)


@njit(cache=True, nogil=True, error_model="numpy")
def _decide(now, backfills, numbers, queue, heap, plan, run, limit, cores, order, start, ends, planned):
    """Start jobs from the head of the queue while they fit, then those behind it that do not delay it.

    Return whether a job started.
    """
    before = numbers[STARTED]
    while numbers[FIRST] < numbers[LAST]:
        head = queue[numbers[FIRST]]
        if head < 0:
            numbers[GAPS] -= 1
        elif cores[head] <= numbers[FREE]:
            _start(head, now, numbers, heap, plan, run, limit, cores, order, start, ends, planned)
        else:
            break
        numbers[FIRST] += 1
    if not backfills or numbers[LAST] - numbers[FIRST] < 2:
        return numbers[STARTED] > before
    reserved, extra = _reserve(cores[queue[numbers[FIRST]]], numbers, plan, cores, order, planned)
    for place in range(numbers[FIRST] + 1, numbers[LAST]):
        job = queue[place]
        if job < 0 or cores[job] > numbers[FREE]:
            continue
        if now + max(_LEAST, limit[job]) > reserved:
            if cores[job] > extra:
                continue
            extra -= cores[job]
        _start(job, now, numbers, heap, plan, run, limit, cores, order, start, ends, planned)
        queue[place] = -1
        numbers[GAPS] += 1
    if numbers[GAPS] > _MANY_GAPS and 2 * numbers[GAPS] > numbers[LAST] - numbers[FIRST]:
        _close_gaps(numbers, queue)
    return numbers[STARTED] > before


@njit(cache=True, nogil=True, error_model="numpy")
def _enqueue(job, numbers, queue):
    """Add a submitted job to the queue."""
    queue[numbers[LAST]] = job
    numbers[LAST] += 1
    numbers[SUBMITTED] += 1
    numbers[EVENTS] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def go_on(
    until, together, backfills, jobs, numbers, queue, heap, plan, submit, run, limit, cores, order, start, ends, planned
):
    """Handle events until their number is ``until``, or until all jobs have ended; return whether they have.

    ``jobs`` are the positions to submit, in order. ``together``: all ends of a moment, then all its submissions, then
    one decision; else one at a time, by the rules of ``direct``.
    """
    count = jobs.shape[0]
    while numbers[EVENTS] < until:
        now = np.int64(NEVER)
        if numbers[SUBMITTED] < count:
            now = submit[jobs[numbers[SUBMITTED]]]
        if numbers[RUNNING] and ends[heap[0]] < now:
            now = ends[heap[0]]
        if now == NEVER:
            return True
        if not together and numbers[RUNNING] and ends[heap[0]] == now:
            _release_planned(now, numbers, plan, limit, cores, order, start, planned)
        if together:
            while numbers[RUNNING] and ends[heap[0]] == now:
                attempt = _pop(heap, numbers[RUNNING], ends)
                numbers[RUNNING] -= 1
                numbers[EVENTS] += 1
                _end(attempt, numbers, plan, cores, order, planned)
        while numbers[SUBMITTED] < count and submit[jobs[numbers[SUBMITTED]]] == now:
            job = jobs[numbers[SUBMITTED]]
            _enqueue(job, numbers, queue)
            if not together and cores[job] <= numbers[FREE]:
                decided = _decide(
                    now, backfills, numbers, queue, heap, plan, run, limit, cores, order, start, ends, planned
                )
                if decided and ends[heap[0]] == now:
                    _release_planned(now, numbers, plan, limit, cores, order, start, planned)
        if together:
            _decide(now, backfills, numbers, queue, heap, plan, run, limit, cores, order, start, ends, planned)
            continue
        while numbers[RUNNING] and ends[heap[0]] == now:
            attempt = _pop(heap, numbers[RUNNING], ends)
            numbers[RUNNING] -= 1
            numbers[EVENTS] += 1
            _end(attempt, numbers, plan, cores, order, planned)
            decided = _decide(
                now, backfills, numbers, queue, heap, plan, run, limit, cores, order, start, ends, planned
            )
            if decided and ends[heap[0]] == now:
                _release_planned(now, numbers, plan, limit, cores, order, start, planned)
    return False
