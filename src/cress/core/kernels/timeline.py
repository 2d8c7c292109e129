"""Free amounts of a node over time, from the ends of its leases and its bookings: the earliest fit of a request.

``bookings`` (int64, one row each): node, start, end, next, previous, force, then K amounts. A booking of force 0 is
ignored, one of force 1 counts for every view, a higher one only in the view with that number. One of force -n counts
for every group but n: ``view`` contains the number of a view, and in its bits from ``ASKER`` on that of the asking
group (0: none). ``lack`` is the row of the shape: a node that a clause excludes is left out. ``caps`` (int64, per
node) bound the copies of a gang on it; empty if only amounts do. ``ask`` is the device request of one copy: leases
return devices as they end, bookings keep amounts only. A lease that outlived its end counts as ending in the next
microsecond, and a due booking as starting then. So amounts that leases return late are kept for the bookings that wait
for them, and nothing else on the node is.
"""

from __future__ import annotations

from heapq import heapify, heapreplace

import numpy as np
from numba import njit

from cress.core.kernels.devices import ASKS, MANY, device_copies, first_device, give_devices, held_on
from cress.core.kernels.holding import (
    AMOUNTS,
    BOOKED,
    END,
    FIRST_END,
    FREE,
    HEAD,
    NEVER,
    NEXT,
    NONE,
    OUT,
    STAMP,
    USABLE,
)

B_NODE, B_START, B_END, B_NEXT, B_PREVIOUS, B_FORCE, B_AMOUNTS = range(7)
UNKNOWN = -1
# Bits of a view before the number of the group that asks.
ASKER = 32


@njit(cache=True, nogil=True, error_model="numpy")
def _fits(level, request, k_count):
    for k in range(k_count):
        if level[k] < request[k] and request[k] > 0:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _counts(bookings, slot, view):
    force = bookings[slot, B_FORCE]
    if force < 0:
        return -force != view >> ASKER
    return force == 1 or (force > 1 and force == view & ((1 << ASKER) - 1))


@njit(cache=True, nogil=True, error_model="numpy")
def book(row, f, amounts, start, end, nodes, bookings):
    """Add a booking of ``amounts`` on node ``f`` during [start, end) at the head of the node's list, not yet in
    force.
    """
    head = nodes[f, BOOKED]
    bookings[row, B_NODE] = f
    bookings[row, B_START] = start
    bookings[row, B_END] = end
    bookings[row, B_NEXT] = head
    bookings[row, B_PREVIOUS] = NONE
    bookings[row, B_FORCE] = 0
    for k in range(amounts.shape[0]):
        bookings[row, B_AMOUNTS + k] = amounts[k]
    if head != NONE:
        bookings[head, B_PREVIOUS] = row
    nodes[f, BOOKED] = row


@njit(cache=True, nogil=True, error_model="numpy")
def unbook(row, nodes, bookings):
    """Remove a booking from its node's list."""
    after = bookings[row, B_NEXT]
    before = bookings[row, B_PREVIOUS]
    if before == NONE:
        nodes[bookings[row, B_NODE], BOOKED] = after
    else:
        bookings[before, B_NEXT] = after
    if after != NONE:
        bookings[after, B_PREVIOUS] = before


@njit(cache=True, nogil=True, error_model="numpy")
def walk(f, request, nodes, leases, k_count, level):
    """Return the earliest end of a lease at which ``request`` fits on ``f``: 0 = it fits now, NEVER = at no known end.

    ``level`` is a buffer for K amounts.
    """
    if nodes[f, USABLE] == 0:
        return NEVER
    for k in range(k_count):
        if nodes[f, FREE + k_count + k] < request[k]:
            return NEVER
        level[k] = nodes[f, FREE + k]
    if _fits(level, request, k_count):
        return 0
    slot = nodes[f, HEAD]
    while slot != NONE:
        end = leases[slot, END]
        if end >= NEVER:
            return NEVER
        while slot != NONE and leases[slot, END] == end:
            for k in range(k_count):
                level[k] += leases[slot, AMOUNTS + k]
            slot = leases[slot, NEXT]
        if _fits(level, request, k_count):
            return end
    return NEVER


@njit(cache=True, nogil=True, error_model="numpy")
def ready(f, ask, nodes, leases, k_count):
    """Return the earliest end of a lease at which a copy finds its devices on ``f``: 0 = now, NEVER = at no known
    end.
    """
    if ask[ASKS] == 0 or nodes.shape[1] == first_device(k_count) or device_copies(nodes[f], ask, k_count, False) > 0:
        return 0
    node = nodes[f].copy()
    slot = nodes[f, HEAD]
    while slot != NONE and leases[slot, END] < NEVER:
        give_devices(slot, node, 1, leases, k_count)
        if device_copies(node, ask, k_count, False) > 0:
            return leases[slot, END]
        slot = leases[slot, NEXT]
    return NEVER


@njit(cache=True, nogil=True, error_model="numpy")
def _devices_at(f, t, ask, now, nodes, leases, k_count):
    """Return the number of copies that find their devices on ``f`` at ``t``."""
    if ask[ASKS] == 0 or nodes.shape[1] == first_device(k_count):
        return MANY
    if max(nodes[f, FIRST_END], now + 1) > t:
        return device_copies(nodes[f], ask, k_count, False)
    node = nodes[f].copy()
    slot = nodes[f, HEAD]
    while slot != NONE and max(leases[slot, END], now + 1) <= t:
        give_devices(slot, node, 1, leases, k_count)
        slot = leases[slot, NEXT]
    return device_copies(node, ask, k_count, False)


@njit(cache=True, nogil=True, error_model="numpy")
def sweep(f, request, duration, now, after, nodes, leases, bookings, view, k_count):
    """Return the earliest t >= ``after`` >= now at which ``request`` fits on ``f`` during [t, t + duration).

    It must fit beside the bookings in force.
    """
    if nodes[f, USABLE] == 0:
        return NEVER
    points = 0
    slot = nodes[f, HEAD]
    while slot != NONE and leases[slot, END] < NEVER:
        points += 1
        slot = leases[slot, NEXT]
    slot = nodes[f, BOOKED]
    while slot != NONE:
        if _counts(bookings, slot, view):
            points += 2
        slot = bookings[slot, B_NEXT]
    when = np.empty(points, np.int64)
    what = np.empty((points, k_count), np.int64)
    n = 0
    slot = nodes[f, HEAD]
    while slot != NONE and leases[slot, END] < NEVER:
        when[n] = max(leases[slot, END], now + 1)
        for k in range(k_count):
            what[n, k] = leases[slot, AMOUNTS + k]
        n += 1
        slot = leases[slot, NEXT]
    slot = nodes[f, BOOKED]
    while slot != NONE:
        if _counts(bookings, slot, view):
            when[n] = max(bookings[slot, B_START], now + 1)
            for k in range(k_count):
                what[n, k] = -bookings[slot, B_AMOUNTS + k]
            n += 1
            if bookings[slot, B_END] < NEVER:
                when[n] = max(bookings[slot, B_END], now + 1)
                for k in range(k_count):
                    what[n, k] = bookings[slot, B_AMOUNTS + k]
                n += 1
        slot = bookings[slot, B_NEXT]
    order = np.argsort(when[:n], kind="mergesort")
    level = nodes[f, FREE : FREE + k_count].copy()
    start = np.int64(-1)
    t = after
    i = 0
    while True:
        while i < n and when[order[i]] <= t:
            for k in range(k_count):
                level[k] += what[order[i], k]
            i += 1
        if not _fits(level, request, k_count):
            start = np.int64(-1)
        elif start < 0:
            start = t
        if i == n:
            return start if start >= 0 else NEVER
        t = when[order[i]]
        if start >= 0 and t - start >= duration:
            return start


@njit(cache=True, nogil=True, error_model="numpy")
def block_booked(booked, lack_row, request, ask, duration, now, nodes, leases, bookings, view, k_count, blocked):
    """Mark the booked nodes on which ``request`` fits now but would delay a booking; return their number.

    A task with an exclusive disk delays the bookings that need that disk.
    """
    count = 0
    for i in range(booked.shape[0]):
        f = booked[i]
        blocked[f] = 0
        if lack_row[f] == 0:
            held = held_on(nodes[f], request, ask, k_count)
            if sweep(f, held, duration, now, now, nodes, leases, bookings, view, k_count) != now:
                blocked[f] = 1
                count += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def earliest_one(request, ask, lack, duration, now, nodes, node_count, leases, bookings, view, k_count, early, seen):
    """Return the time and node of the earliest fit of one copy of ``request``; ties go to the first registered node.

    ``early`` caches ``walk`` and ``ready`` per node, valid up to stamp ``seen``, UNKNOWN where not needed yet: nothing
    becomes free on a node before its first end, so most nodes need no walk. (NEVER, -1) if it fits at no known end.
    """
    best = np.int64(NEVER)
    node = np.int64(-1)
    level = np.empty(k_count, np.int64)
    for f in range(node_count):
        if nodes[f, STAMP] > seen:
            early[f] = UNKNOWN
        if lack[f] & OUT != 0:
            continue
        t = early[f]
        if t == UNKNOWN:
            fits = nodes[f, USABLE] != 0
            for k in range(k_count):
                if nodes[f, FREE + k] < request[k]:
                    fits = False
            if not fits and max(nodes[f, FIRST_END], now + 1) >= best:
                continue
            t = max(walk(f, request, nodes, leases, k_count, level), ready(f, ask, nodes, leases, k_count))
            early[f] = t
        if t == 0:
            t = now
        elif t <= now:
            t = now + 1
        if t >= best:
            continue
        if nodes[f, BOOKED] != NONE:
            t = sweep(f, request, duration, now, t, nodes, leases, bookings, view, k_count)
        if t < best:
            best = t
            node = f
    return best, node


@njit(cache=True, nogil=True, error_model="numpy")
def earliest_among(places, request, ask, lack, duration, now, nodes, leases, bookings, view, k_count):
    """Do ``earliest_one`` over the nodes ``places`` only, without a cache."""
    best = np.int64(NEVER)
    node = np.int64(-1)
    for i in range(places.shape[0]):
        if lack[places[i]] & OUT != 0:
            continue
        t = ready(places[i], ask, nodes, leases, k_count)
        if t >= best:
            continue
        t = now if t == 0 else max(t, now + 1)
        t = sweep(places[i], request, duration, now, t, nodes, leases, bookings, view, k_count)
        if t < best:
            best = t
            node = places[i]
    return best, node


@njit(cache=True, nogil=True, error_model="numpy")
def _copies_of(level, request, k_count, most):
    if not _fits(level, request, k_count):
        return 0
    here = most
    for k in range(k_count):
        if request[k] > 0:
            here = min(here, level[k] // request[k])
    return here


@njit(cache=True, nogil=True, error_model="numpy")
def _level_at(f, t, now, nodes, leases, k_count, level):
    """Fill ``level`` with the amounts that would be free on ``f`` at ``t`` without bookings."""
    for k in range(k_count):
        level[k] = nodes[f, FREE + k]
    if max(nodes[f, FIRST_END], now + 1) > t:
        return
    slot = nodes[f, HEAD]
    while slot != NONE and max(leases[slot, END], now + 1) <= t:
        for k in range(k_count):
            level[k] += leases[slot, AMOUNTS + k]
        slot = leases[slot, NEXT]


@njit(cache=True, nogil=True, error_model="numpy")
def copies_at(f, t, request, ask, lack, duration, most, now, nodes, leases, bookings, view, k_count, level):
    """Return the number of copies of ``request`` that fit on ``f`` during [t, t + duration), at most ``most``.

    ``level`` is a buffer for K amounts.
    """
    if nodes[f, USABLE] == 0 or lack[f] & OUT != 0:
        return 0
    most = min(most, _devices_at(f, t, ask, now, nodes, leases, k_count))
    if nodes[f, BOOKED] == NONE:
        _level_at(f, t, now, nodes, leases, k_count, level)
        return _copies_of(level, request, k_count, most)
    # Free amounts fall only where a booking starts: look at t and at every start inside the interval.
    fewest = most
    probe = nodes[f, BOOKED]
    first = True
    while first or probe != NONE:
        if first:
            moment = t
            first = False
        else:
            moment = max(bookings[probe, B_START], now + 1)
            in_force = _counts(bookings, probe, view)
            probe = bookings[probe, B_NEXT]
            if not in_force or moment <= t or moment - t >= duration:
                continue
        _level_at(f, moment, now, nodes, leases, k_count, level)
        slot = nodes[f, BOOKED]
        while slot != NONE:
            if (
                _counts(bookings, slot, view)
                and max(bookings[slot, B_START], now + 1) <= moment
                and max(bookings[slot, B_END], now + 1) > moment
            ):
                for k in range(k_count):
                    level[k] -= bookings[slot, B_AMOUNTS + k]
            slot = bookings[slot, B_NEXT]
        fewest = min(fewest, _copies_of(level, request, k_count, most))
        if fewest == 0:
            return 0
    return fewest


@njit(cache=True, nogil=True, error_model="numpy")
def _most(f, most, lack, caps):
    if lack[f] & OUT != 0:
        return 0
    return min(most, caps[f]) if caps.shape[0] > 0 else most


@njit(cache=True, nogil=True, error_model="numpy")
def _next_change(f, t, duration, now, nodes, leases, bookings, view):
    """Return the first known time after ``t`` at which the number of copies on ``f`` may change; NEVER without one.

    It grows when a lease or a booking ends, and falls when the start of a booking comes within ``duration``.
    """
    soonest = max(nodes[f, FIRST_END], now + 1)
    if soonest <= t:
        slot = nodes[f, HEAD]
        while slot != NONE and max(leases[slot, END], now + 1) <= t:
            slot = leases[slot, NEXT]
        soonest = NEVER if slot == NONE else max(leases[slot, END], now + 1)
    soonest = min(soonest, NEVER)
    slot = nodes[f, BOOKED]
    while slot != NONE:
        if _counts(bookings, slot, view):
            end = max(bookings[slot, B_END], now + 1)
            if end > t:
                soonest = min(soonest, end)
            near = max(bookings[slot, B_START], now + 1) - duration + 1
            if near > t:
                soonest = min(soonest, near)
        slot = bookings[slot, B_NEXT]
    return soonest


@njit(cache=True, nogil=True, error_model="numpy")
def earliest_together(
    request, ask, lack, caps, size, duration, now, before, nodes, node_count, leases, bookings, view, k_count
):
    """Return the earliest time in [now, before) at which ``size`` copies of ``request`` fit for ``duration``; NEVER
    without one.

    A sweep over time: a heap contains the next change of every node that is large enough, and copies are counted again
    only on the nodes that change.
    """
    level = np.empty(k_count, np.int64)
    copies = np.zeros(node_count, np.int64)
    total = np.int64(0)
    changes = [(np.int64(NEVER), np.int64(0))]
    for f in range(node_count):
        most = _most(f, size, lack, caps)
        large = nodes[f, USABLE] != 0 and most > 0
        room = True
        for k in range(k_count):
            if nodes[f, FREE + k_count + k] < request[k]:
                large = False
            if nodes[f, FREE + k] < request[k]:
                room = False
        if large and room:
            copies[f] = copies_at(
                f, now, request, ask, lack, duration, most, now, nodes, leases, bookings, view, k_count, level
            )
            total += copies[f]
        if large:
            changes.append((_next_change(f, now, duration, now, nodes, leases, bookings, view), np.int64(f)))
    heapify(changes)
    t = np.int64(now)
    while t < before and total < size:
        t = changes[0][0]
        while t < NEVER and changes[0][0] == t:
            f = changes[0][1]
            total -= copies[f]
            most = _most(f, size, lack, caps)
            copies[f] = copies_at(
                f, t, request, ask, lack, duration, most, now, nodes, leases, bookings, view, k_count, level
            )
            total += copies[f]
            heapreplace(changes, (_next_change(f, t, duration, now, nodes, leases, bookings, view), f))
    return t if t < before else np.int64(NEVER)


@njit(cache=True, nogil=True, error_model="numpy")
def total_copies_at(
    t, request, ask, lack, caps, duration, most, now, nodes, node_count, leases, bookings, view, k_count, out
):
    """Write the copies of ``request`` per node during [t, t + duration) into ``out``, at most ``most`` in total;
    return their sum.
    """
    level = np.empty(k_count, np.int64)
    total = 0
    for f in range(node_count):
        out[f] = 0
        # Most nodes are full, and nothing fits on them before their first end.
        possible = True
        if max(nodes[f, FIRST_END], now + 1) > t:
            for k in range(k_count):
                if nodes[f, FREE + k] < request[k]:
                    possible = False
        if possible and total < most:
            left = _most(f, most - total, lack, caps)
            out[f] = copies_at(
                f, t, request, ask, lack, duration, left, now, nodes, leases, bookings, view, k_count, level
            )
            total += out[f]
    return total
