"""The node on which room for one task costs least, when every victim is a task of its own.

Victims are sorted by node and, on a node, in the order in which they yield; those of node f are
``offsets[f] : offsets[f + 1]``. ``amounts`` (int64, victim × K) is what they hold, ``charges`` (victim × M) what their
groups get back, ``spare`` (group × M) what a group may lose in each of its measures and still be at its quota there
(below 0: it is not).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.core.kernels.holding import AMOUNTS, NODE

NO_NODE = -1
ROOM_ALREADY = -2


@njit(cache=True, nogil=True, error_model="numpy")
def room_with(levels, slots, leases):
    """``levels`` (node × K) and, on top of it, what the leases in ``slots`` hold."""
    room = levels.copy()
    for i in range(slots.shape[0]):
        f = leases[slots[i], NODE]
        for k in range(room.shape[1]):
            room[f, k] += leases[slots[i], AMOUNTS + k]
    return room


@njit(cache=True, nogil=True, error_model="numpy")
def _fits(level, need):
    for k in range(need.shape[0]):
        if level[k] < need[k]:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _take(order, level, need, amounts, charges, group_of, spare, loss, chosen):
    """Take victims in ``order`` until ``need`` fits, then give back in reverse; their number, or -1."""
    loss[:] = 0
    count = 0
    done = False
    for i in range(order.shape[0]):
        v = order[i]
        g = group_of[v]
        allowed = False
        for m in range(charges.shape[1]):
            if spare[g, m] >= loss[g, m] + charges[v, m]:
                allowed = True
        if not allowed:
            continue
        for m in range(charges.shape[1]):
            loss[g, m] += charges[v, m]
        for k in range(need.shape[0]):
            level[k] += amounts[v, k]
        chosen[count] = v
        count += 1
        if _fits(level, need):
            done = True
            break
    if not done:
        return -1
    kept = count
    for i in range(count - 1, -1, -1):
        v = chosen[i]
        needed = False
        for k in range(need.shape[0]):
            if level[k] - amounts[v, k] < need[k]:
                needed = True
        if not needed:
            for k in range(need.shape[0]):
                level[k] -= amounts[v, k]
            chosen[i] = -1
            kept -= 1
    n = 0
    for i in range(count):
        if chosen[i] >= 0:
            chosen[n] = chosen[i]
            n += 1
    return kept


@njit(cache=True, nogil=True, error_model="numpy")
def _largest_first(first, last, need, amounts):
    score = np.empty(last - first)
    for v in range(first, last):
        least = np.inf
        for k in range(need.shape[0]):
            if need[k] > 0:
                least = min(least, amounts[v, k] / need[k])
        score[v - first] = -least
    return np.argsort(score, kind="mergesort") + first


@njit(cache=True, nogil=True, error_model="numpy")
def cheapest_node(places, offsets, levels, need, amounts, charges, group_of, spare, worth, lost):
    """The node among ``places`` with the smallest (largest worth, number, work lost) of its victims, the first of equals.

    NO_NODE if none will do, ROOM_ALREADY if what leaves makes room on one without victims. Also the cost.
    """
    best = np.int64(NO_NODE)
    best_worth, best_number, best_lost = np.int64(0), np.int64(0), np.int64(0)
    level = np.empty(need.shape[0], np.int64)
    loss = np.zeros_like(spare)
    for i in range(places.shape[0]):
        f = places[i]
        first, last = offsets[f], offsets[f + 1]
        level[:] = levels[f]
        if _fits(level, need):
            return np.int64(ROOM_ALREADY), best_worth, best_number, best_lost
        chosen = np.empty(last - first, np.int64)
        number = _take(np.arange(first, last), level, need, amounts, charges, group_of, spare, loss, chosen)
        if number < 0:
            level[:] = levels[f]
            order = _largest_first(first, last, need, amounts)
            number = _take(order, level, need, amounts, charges, group_of, spare, loss, chosen)
            if number < 0:
                continue
        most, work = np.int64(-(2**62)), np.int64(0)
        for j in range(number):
            most = max(most, worth[chosen[j]])
            work += lost[chosen[j]]
        if (
            best == NO_NODE
            or most < best_worth
            or (most == best_worth and (number < best_number or (number == best_number and work < best_lost)))
        ):
            best, best_worth, best_number, best_lost = f, most, np.int64(number), work
    return best, best_worth, best_number, best_lost
