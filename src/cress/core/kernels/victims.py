"""Victims: the tasks that may be preempted, and the node on which room for one more task costs least.

Three tables of int64, one row per slot of ``leases``:

* ``running``: the attempt in the slot; its last columns are the charge to its group.
* ``victims``: what is preempted together (one task, a whole gang, or the whole content of a held lease), in the row of
  the slot of its first attempt. Other slots refer to that row by ``OF``; UNSET there means that the task may not yield.
* ``taken`` (one number per slot): victims already chosen.

Per group, in the order in which groups yield, ``spare`` (group × measure) is the amount that it may lose in each of
its measures down to its quota (``beyond``: the last victim may take it below). The inner groups below which it yields
follow the groups; ``above`` is the row of the group above each, or UNSET. Per job that yields as a whole or has a
minimum, ``left`` is the number of tasks that may be preempted. ``lost`` and ``gone`` count the victims already chosen.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.core.kernels.devices import ASKS, device_copies, first_device, give_devices
from cress.core.kernels.holding import AMOUNTS, HEAD, NEXT, NODE, NONE, OUT, USABLE

# ``running``: the attempt, its start, its job, the job's priority, the position of its group by name, the way in which
# it yields, the minimum of the job's tasks, its deadline, how long the task runs by the optimistic and the pessimistic
# estimate
# and at most, the charge to its group.
(
    R_ID, R_START, R_JOB, R_PRIORITY, R_GROUP, R_YIELDS, R_MINIMUM, R_DEADLINE, R_SHORTEST, R_LONGEST, R_LIMIT, R_CHARGE
) = range(12)  # fmt: skip
NEVER_YIELDS, ALONE, WHOLE = range(3)

# ``victims``: row of the victim, its group's place, its worth to the policy, the first attempt, the number of tasks,
# the work lost, the number of the job in ``left`` or UNSET, the number of slots, the charge that ends.
OF, RANK, WORTH, FIRST, NUMBER, WORK, JOB, ROWS, LOSS = range(9)
UNSET = -1
NO_NODE = -1


@njit(cache=True, nogil=True, error_model="numpy")
def name_victims(running, leases, stopping, job_of, unit_of, units, rank_of, latest, now, worth, victims):
    """Fill ``victims``: running tasks that began by ``latest`` of their group and are not ``stopping``.

    ``rank_of`` is the position at which each group yields, UNSET for groups that do not; ``job_of`` is the number of
    the job of each slot in ``left``; ``worth`` is that of each slot to the policy. ``unit_of`` is the number, below
    ``units``, of the whole with which a slot yields, UNSET for a task alone. Such a whole yields if all its tasks may,
    and has the worth of its most valuable one. Slots in it without an attempt are idle parts of leases.
    """
    first = np.full(units, UNSET, np.int64)
    whole = np.ones(units, np.bool_)
    for s in range(running.shape[0]):
        victims[s, OF] = UNSET
        if leases[s, NODE] == NONE or running[s, R_ID] == 0:
            continue
        rank = rank_of[running[s, R_GROUP]]
        may = rank != UNSET and running[s, R_YIELDS] != NEVER_YIELDS and not stopping[s]
        may = may and running[s, R_START] <= latest[rank]
        unit = unit_of[s]
        if unit != UNSET:
            whole[unit] &= may
            if first[unit] == UNSET or running[s, R_ID] < running[first[unit], R_ID]:
                first[unit] = s
        elif may:
            victims[s, OF] = s
    for s in range(running.shape[0]):
        v = victims[s, OF]
        if leases[s, NODE] != NONE and unit_of[s] != UNSET and whole[unit_of[s]]:
            v = first[unit_of[s]]
            victims[s, OF] = v
        if v == s:
            victims[s, RANK] = rank_of[running[s, R_GROUP]]
            victims[s, FIRST] = running[s, R_ID]
            victims[s, JOB] = job_of[s]
            victims[s, WORTH] = worth[s]
            victims[s, NUMBER] = victims[s, WORK] = victims[s, ROWS] = 0
            victims[s, LOSS:] = 0
    for s in range(running.shape[0]):
        v = victims[s, OF]
        if v != UNSET:
            victims[v, ROWS] += 1
            if running[s, R_ID] != 0:
                victims[v, WORTH] = max(victims[v, WORTH], worth[s])
                victims[v, NUMBER] += 1
                victims[v, WORK] += now - running[s, R_START]
            for m in range(running.shape[1] - R_CHARGE):
                victims[v, LOSS + m] += running[s, R_CHARGE + m]


@njit(cache=True, nogil=True, error_model="numpy")
def _fits(level, need):
    for k in range(need.shape[0]):
        if level[k] < need[k]:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _yields_before(v, w, victims, worth_first):
    """Return True if victim ``v`` comes first: by group, worth to the policy, fewer tasks, less lost work, later
    attempt.

    ``worth_first``: by the worth, then by group.
    """
    if worth_first and victims[v, WORTH] != victims[w, WORTH]:
        return victims[v, WORTH] < victims[w, WORTH]
    for column in (RANK, WORTH, NUMBER, WORK):
        if victims[v, column] != victims[w, column]:
            return victims[v, column] < victims[w, column]
    return victims[v, FIRST] > victims[w, FIRST]


@njit(cache=True, nogil=True, error_model="numpy")
def _room_on(f, nodes, leases, victims, taken, level):
    """Add to ``level`` the amounts that all victims on ``f`` not yet taken would free."""
    slot = nodes[f, HEAD]
    while slot != NONE:
        v = victims[slot, OF]
        if v != UNSET and not taken[v]:
            for k in range(level.shape[0]):
                level[k] += leases[slot, AMOUNTS + k]
        slot = leases[slot, NEXT]


@njit(cache=True, nogil=True, error_model="numpy")
def _victims_on(f, nodes, leases, victims, taken, worth_first, here, amounts):
    """Write the victims on ``f`` not yet taken into ``here``, in the order in which they yield; return their number.

    ``amounts`` gets the amounts that each of them frees on the node.
    """
    n = 0
    slot = nodes[f, HEAD]
    while slot != NONE:
        v = victims[slot, OF]
        if v != UNSET and not taken[v]:
            i = n
            if victims[v, ROWS] > 1:
                for j in range(n):
                    if here[j] == v:
                        i = j
            if i == n:
                # Insert it in order.
                while i > 0 and _yields_before(v, here[i - 1], victims, worth_first):
                    here[i] = here[i - 1]
                    amounts[i] = amounts[i - 1]
                    i -= 1
                here[i] = v
                amounts[i] = 0
                n += 1
            for k in range(amounts.shape[1]):
                amounts[i, k] += leases[slot, AMOUNTS + k]
        slot = leases[slot, NEXT]
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def _largest_first(n, need, amounts):
    score = np.empty(n)
    for i in range(n):
        least = np.inf
        for k in range(need.shape[0]):
            if need[k] > 0:
                least = min(least, amounts[i, k] / need[k])
        score[i] = -least
    return np.argsort(score, kind="mergesort")


@njit(cache=True, nogil=True, error_model="numpy")
def _may_yield(v, victims, above, spare, left, loss, going, beyond, base):
    """Return True if without ``v`` the job keeps its minimum, and the group and each above it its quota in one
    measure.

    ``beyond``: the group need only be above its quota with ``v``. The first ``base`` measures are those of nodes of
    all kinds. If ``v`` is charged in measures of a kind, only these count, and each of them.
    """
    if victims[v, JOB] != UNSET and left[victims[v, JOB]] < going[victims[v, JOB]] + victims[v, NUMBER]:
        return False
    of_kind = False
    for m in range(base, spare.shape[1]):
        if victims[v, LOSS + m] > 0:
            of_kind = True
    rank = victims[v, RANK]
    while rank != UNSET:
        keeps = of_kind
        for m in range(base, spare.shape[1]):
            ends = victims[v, LOSS + m]
            if ends > 0 and spare[rank, m] < loss[rank, m] + (1 if beyond else ends):
                return False
        for m in range(0 if of_kind else base):
            if spare[rank, m] >= loss[rank, m] + (1 if beyond else victims[v, LOSS + m]):
                keeps = True
        if not keeps:
            return False
        rank = above[rank]
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def lose(v, victims, above, loss):
    """Add the charge that ends with ``v`` to the ``loss`` of its group and of each group above it."""
    rank = victims[v, RANK]
    while rank != UNSET:
        for m in range(loss.shape[1]):
            loss[rank, m] += victims[v, LOSS + m]
        rank = above[rank]


@njit(cache=True, nogil=True, error_model="numpy")
def _devices_without(f, nodes, leases, victims, taken, stopping, node):
    """Fill ``node`` with the row of node ``f`` without all stopping tasks and all victims taken."""
    node[:] = nodes[f]
    slot = nodes[f, HEAD]
    while slot != NONE:
        v = victims[slot, OF]
        if stopping[slot] or (v != UNSET and taken[v]):
            give_devices(slot, node, 1, leases, leases.shape[1] - AMOUNTS - 2)
        slot = leases[slot, NEXT]


@njit(cache=True, nogil=True, error_model="numpy")
def _give_victim(v, f, sign, nodes, leases, victims, node):
    """Return (``sign`` 1) a victim's devices on node ``f`` to the row ``node``, or take them again (-1)."""
    slot = nodes[f, HEAD]
    while slot != NONE:
        if victims[slot, OF] == v:
            give_devices(slot, node, sign, leases, leases.shape[1] - AMOUNTS - 2)
        slot = leases[slot, NEXT]


@njit(cache=True, nogil=True, error_model="numpy")
def devices_hold(f, copies, ask, nodes, leases, victims, taken, stopping):
    """Return True if ``copies`` copies find their devices on node ``f`` without all stopping tasks and all victims
    taken.
    """
    k_count = leases.shape[1] - AMOUNTS - 2
    node = np.empty(nodes.shape[1], np.int64)
    _devices_without(f, nodes, leases, victims, taken, stopping, node)
    return device_copies(node, ask, k_count, False) >= copies


@njit(cache=True, nogil=True, error_model="numpy")
def _take(
    order, here, amounts, level, need, victims, above, spare, left, loss, going, chosen, f, copies, ask, nodes, leases,
    node, beyond, base,
):  # fmt: skip
    """Take victims in ``order`` until ``need`` fits, then spare needless ones in reverse; return their number, or -1.

    ``node`` is the future row of node ``f`` if devices matter, else empty.
    """
    k_count = need.shape[0]
    asks = node.shape[0] > 0
    count = 0
    for i in order:
        v = here[i]
        if not _may_yield(v, victims, above, spare, left, loss, going, beyond, base):
            continue
        lose(v, victims, above, loss)
        if victims[v, JOB] != UNSET:
            going[victims[v, JOB]] += victims[v, NUMBER]
        for k in range(need.shape[0]):
            level[k] += amounts[i, k]
        chosen[count] = i
        count += 1
        if asks:
            _give_victim(v, f, 1, nodes, leases, victims, node)
        if _fits(level, need) and (not asks or device_copies(node, ask, k_count, False) >= copies):
            break
    if not _fits(level, need) or (asks and device_copies(node, ask, k_count, False) < copies):
        return -1
    kept = count
    for c in range(count - 1, -1, -1):
        needed = False
        for k in range(need.shape[0]):
            if level[k] - amounts[chosen[c], k] < need[k]:
                needed = True
        if asks and not needed:
            _give_victim(here[chosen[c]], f, -1, nodes, leases, victims, node)
            if device_copies(node, ask, k_count, False) < copies:
                _give_victim(here[chosen[c]], f, 1, nodes, leases, victims, node)
                needed = True
        if not needed:
            for k in range(need.shape[0]):
                level[k] -= amounts[chosen[c], k]
            chosen[c] = -1
            kept -= 1
    n = 0
    for c in range(count):
        if chosen[c] >= 0:
            chosen[n] = here[chosen[c]]
            n += 1
    return kept


@njit(cache=True, nogil=True, error_model="numpy")
def cheapest_node(
    request, lack, caps, placed, levels, nodes, leases, victims, taken, above, spare, left, lost, gone, chosen, ask,
    stopping, claimed, beyond, worth_first, base,
):  # fmt: skip
    """Return the node on which one more copy of ``request`` costs least (the first on ties), and the number of new
    victims.

    NO_NODE if there is no such node. The victims beyond those ``taken`` are in ``chosen``, in the order in which they
    are taken. ``lack`` is the row of the shape: nodes that a clause excludes are left out, and those with as many
    copies as ``caps`` (empty: no limit) allows. ``levels`` (node × K) are the free amounts, including those of the
    victims taken. Cost: the largest worth, the number of tasks, the lost work; a node with room costs nothing. On a
    node victims yield by group, then worth; with ``worth_first`` by worth, then group.

    ``ask`` is the device request of one copy. Tasks that are ``stopping`` (per slot) count in ``levels`` as gone.
    Nodes that are ``claimed`` are left out if devices matter, because the devices of the claiming unit are not known
    yet. ``base`` measures are those of nodes of all kinds.
    """
    best, best_count = np.int64(NO_NODE), np.int64(0)
    best_worth, best_number, best_work = np.int64(0), np.int64(0), np.int64(0)
    k_count = request.shape[0]
    need = np.empty(k_count, np.int64)
    level = np.empty(k_count, np.int64)
    loss = np.empty_like(lost)
    going = np.empty_like(gone)
    here = np.empty(leases.shape[0], np.int64)
    found = np.empty(leases.shape[0], np.int64)
    amounts = np.empty((leases.shape[0], k_count), np.int64)
    asks = ask[ASKS] != 0 and nodes.shape[1] > first_device(k_count)
    node = np.empty(nodes.shape[1] if asks else 0, np.int64)
    for f in range(levels.shape[0]):
        if nodes[f, USABLE] == 0 or lack[f] & OUT != 0:
            continue
        if caps.shape[0] > 0 and placed[f] >= caps[f]:
            continue
        copies = placed[f] + 1
        need[:] = request * copies
        if asks:
            if claimed[f]:
                continue
            _devices_without(f, nodes, leases, victims, taken, stopping, node)
        if _fits(levels[f], need) and (not asks or device_copies(node, ask, k_count, False) >= copies):
            return np.int64(f), np.int64(0)
        level[:] = levels[f]
        _room_on(f, nodes, leases, victims, taken, level)
        if not _fits(level, need):
            continue
        n = _victims_on(f, nodes, leases, victims, taken, worth_first, here, amounts)
        count = np.int64(-1)
        for largest_first in (False, True):
            # Small victims that yield first may use up the spare amount of their group, where one larger victim would
            # do.
            if count < 0:
                level[:] = levels[f]
                loss[:] = lost
                going[:] = gone
                order = _largest_first(n, need, amounts) if largest_first else np.arange(n)
                if asks:
                    _devices_without(f, nodes, leases, victims, taken, stopping, node)
                count = _take(
                    order, here, amounts, level, need, victims, above, spare, left, loss, going, found, f, copies, ask,
                    nodes, leases, node, beyond, base,
                )  # fmt: skip
        if count < 0:
            continue
        worth, number, work = np.int64(-(2**62)), np.int64(0), np.int64(0)
        for c in range(count):
            v = found[c]
            worth = max(worth, victims[v, WORTH])
            number += victims[v, NUMBER]
            work += victims[v, WORK]
        if (
            best == NO_NODE
            or worth < best_worth
            or (worth == best_worth and (number < best_number or (number == best_number and work < best_work)))
        ):
            best, best_count = np.int64(f), count
            best_worth, best_number, best_work = worth, number, work
            chosen[:count] = found[:count]
    return best, best_count
