"""Growth of the devices that the likely mix of shapes cannot use, and the node where it is least (design note 0026).

The mix is a tuple of tables (``FIRSTS`` … ``OFTEN``). A shape has a column for each dimension with devices that it
requests; the columns of one dimension are consecutive, ordered by amount:

* ``firsts`` and ``sizes``: per dimension with devices, the begin of its columns and of its different amounts,
  and the ends of both;
* ``amounts``: the different amounts, in thousandths; ``size_of``: the index of a shape's amount among them;
* ``shares``: the share of the shape (float32, sum 1 over the shapes);
* ``asked``: the dimensions requested by any shape; ``needs``: per such dimension the request of each shape;
* ``may``: per node and column, True if the clauses of the shape allow the node;
* ``kinds``: the dimensions with devices; ``values``: the value of an idle amount of one device of each for the mix
  (``filling``), in thousandths;
* ``often``: the weights of copies, of filling and of the blend;
* ``blend``: per node, and per dimension with devices and requested dimension, what the allowed shapes together request
  of the latter for each thousandth of a device, by their shares.

The **fragment** of a node, in devices, is a sum over the shapes, weighted by share. A shape contributes the idle
devices of its kinds that it could not use: with one task next, plus ``often[0]`` × with as many tasks as fit, so that
cores and memory for all idle devices count. To the sum is added ``often[1]`` × Σ (idle − its value) over the devices,
and ``often[2]`` × the idle devices for which cores or memory run out if the allowed shapes come by their shares.

It is computed for every node and every placed shape, so its loops run over the shapes without branches, and compilers
turn them into vector instructions. Amounts are float64, in which integers up to 2⁵³ and the integer parts of their
quotients are exact; sums are float32, in the order of the columns.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.core.kernels.alike import CHANGED, UNTIL, follow
from cress.core.kernels.devices import (
    KIND,
    LEFT,
    PARTS,
    WHOLE,
    WIDTH,
    choose_devices,
    first_device,
    mask_at,
)
from cress.core.kernels.holding import FREE, REQUEST, TOTAL_STAMP, TOTAL_USED, hold

# The tables of the mix, in the order of the tuple, and the rows of a scratch table that has their columns.
FIRSTS, SIZES, AMOUNTS, SIZE_OF, SHARES, ASKED, NEEDS, MAY, KINDS, VALUES, OFTEN, BLEND = range(12)
WORK = 5

ZERO = np.float32(0)
THOUSAND = np.float32(1000)


@njit(cache=True, nogil=True, error_model="numpy")
def _idle(node, k, begin):
    """Return the idle thousandths of all devices of dimension ``k``."""
    idle = 0
    for at in range(begin, node.shape[0], WIDTH):
        if node[at + KIND] == k:
            idle += max(0, node[at + LEFT])
    return idle


@njit(cache=True, nogil=True, error_model="numpy")
def _usable(node, k, begin, amounts, usable, copies):
    """Write, for each of the ``amounts``, the part of the devices of dimension ``k`` that the next such task could
    use.

    Also the number of such tasks that these devices hold.
    """
    whole = np.float64(0)
    for i in range(amounts.shape[0]):
        usable[i] = 0.0
        copies[i] = 0.0
    for at in range(begin, node.shape[0], WIDTH):
        if node[at + KIND] != k or node[at + LEFT] <= 0:
            continue
        left = np.float64(node[at + LEFT])
        if left == WHOLE:
            whole += 1.0
        for i in range(amounts.shape[0]):
            fits = left >= min(amounts[i], np.float64(WHOLE))
            usable[i] += left if fits else 0.0
            copies[i] += np.floor(left / amounts[i]) if fits else 0.0
    for i in range(amounts.shape[0]):
        copies[i] = np.floor(whole * WHOLE / amounts[i]) if amounts[i] >= WHOLE else copies[i]
        usable[i] = usable[i] if copies[i] > 0.0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def fragment(node, f, k_count, mix, work):
    """Return the fragment of a node (its row) with index ``f``, in devices; ``work`` is scratch space (``WORK``
    rows).
    """
    firsts, sizes, all_amounts, all_size_of, all_shares, asked, all_needs, all_may, kinds, values, often, blend = mix
    begin = first_device(k_count)
    total = ZERO
    for j in range(kinds.shape[0]):
        k = kinds[j]
        idle = _idle(node, k, begin)
        if idle == 0:
            continue
        amounts = all_amounts[sizes[j] : sizes[j + 1]]
        size_of = all_size_of[firsts[j] : firsts[j + 1]]
        shares = all_shares[firsts[j] : firsts[j + 1]]
        may = all_may[f, firsts[j] : firsts[j + 1]]
        n = shares.shape[0]
        usable = work[0, : amounts.shape[0]]
        most = work[1, : amounts.shape[0]]
        uses = work[2, :n]
        copies = work[3, :n]
        takes = work[4, :n]
        _usable(node, k, begin, amounts, usable, most)
        for m in range(n):
            copies[m] = most[size_of[m]] * may[m]
            uses[m] = usable[size_of[m]]
            takes[m] = amounts[size_of[m]]
        for i in range(asked.shape[0]):
            if asked[i] == k and node[FREE + k] >= idle:
                # Devices are never short of what they hold.
                continue
            needs = all_needs[i, firsts[j] : firsts[j + 1]]
            free = np.float64(max(0, node[FREE + asked[i]]))
            for m in range(n):
                # Nothing is less than the quotient of a shape that needs nothing: infinite, or not a number.
                fit = np.floor(free / needs[m])
                copies[m] = min(copies[m], fit)
        all_idle = np.float64(idle)
        for m in range(n):
            # For the next task, and for as many as fit.
            now = np.float32(all_idle - (uses[m] if copies[m] > 0.0 else 0.0))
            full = np.float32(all_idle - copies[m] * takes[m])
            uses[m] = shares[m] * ((now + often[0] * full) / THOUSAND)
        for m in range(n):
            total += np.float32(uses[m])
        lost = 0
        for at in range(begin, node.shape[0], WIDTH):
            if node[at + KIND] == k and node[at + LEFT] > 0:
                lost += node[at + LEFT] - values[j, node[at + LEFT]]
        total += often[1] * (np.float32(lost) / THOUSAND)
        held = all_idle
        for i in range(asked.shape[0]):
            per_device = blend[f, j, i]
            if per_device > 0.0:
                held = min(held, np.float64(max(0, node[FREE + asked[i]])) / per_device)
        total += often[2] * (np.float32(all_idle - held) / THOUSAND)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def blends(firsts, sizes, all_amounts, all_size_of, all_shares, all_needs, all_may):
    """Return the table ``blend``; sums are made in the order of the columns, so they are the same everywhere."""
    n, kinds, asked = all_may.shape[0], sizes.shape[0] - 1, all_needs.shape[0]
    blend = np.zeros((n, kinds, asked))
    for f in range(n):
        for j in range(kinds):
            devices = 0.0
            for m in range(firsts[j], firsts[j + 1]):
                if all_may[f, m]:
                    devices += np.float64(all_shares[m]) * all_amounts[sizes[j] + all_size_of[m]]
            for i in range(asked):
                amount = 0.0
                for m in range(firsts[j], firsts[j + 1]):
                    if all_may[f, m]:
                        amount += np.float64(all_shares[m]) * all_needs[i, m]
                if devices > 0.0:
                    blend[f, j, i] = amount / devices
    return blend


@njit(cache=True, nogil=True, error_model="numpy")
def best_part(node, k, amount, worth, begin):
    """Return the device of dimension ``k`` that loses the least value to a task of ``amount``; ties go to the least
    left.
    """
    best = -1
    least = 0
    for d in range((node.shape[0] - begin) // WIDTH):
        at = begin + d * WIDTH
        left = node[at + LEFT]
        if node[at + KIND] != k or left < amount:
            continue
        loses = worth[left] - worth[left - amount]
        if best < 0 or loses < least or (loses == least and left < node[begin + best * WIDTH + LEFT]):
            best = d
            least = loses
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def take(node, request, ask, k_count, kinds, values):
    """Take one copy of a request, devices included, from a copy of a node's row."""
    begin = first_device(k_count)
    for i in range(k_count):
        node[FREE + i] -= request[i]
    for j in range(kinds.shape[0]):
        amount = ask[PARTS + kinds[j]]
        if amount == 0:
            continue
        if amount < WHOLE:
            d = best_part(node, kinds[j], amount, values[j], begin)
            if d >= 0:
                node[begin + d * WIDTH + LEFT] -= amount
            continue
        for at in range(begin, node.shape[0], WIDTH):
            if amount > 0 and node[at + KIND] == kinds[j] and node[at + LEFT] == WHOLE:
                node[at + LEFT] = 0
                amount -= WHOLE


@njit(cache=True, nogil=True, error_model="numpy")
def least_growth(r, nodes, node_count, k_count, rows, lack, blocked, state_of, growth, before, squares, weight, mix):
    """Return the first node that fits with the least growth + ``weight`` × y, where ``squares`` are y²; -1 if none
    fits.

    ``before`` is the fragment of each state, ``growth`` its growth by the shape of each row; NaN where that is not yet
    known.
    """
    request = rows[r, REQUEST : REQUEST + k_count]
    ask = rows[r, REQUEST + 2 * k_count :]
    after = np.empty(nodes.shape[1], np.int64)
    work = np.empty((WORK, mix[SHARES].shape[0]))
    kinds, values = mix[KINDS], mix[VALUES]
    row = lack[r]
    known = growth[r]
    best = -1
    least = ZERO
    for f in range(node_count):
        if (row[f] | blocked[f]) != 0:
            continue
        s = state_of[f]
        if np.isnan(known[s]):
            if np.isnan(before[s]):
                before[s] = fragment(nodes[f], f, k_count, mix, work)
            after[:] = nodes[f]
            take(after, request, ask, k_count, kinds, values)
            known[s] = fragment(after, f, k_count, mix, work) - before[s]
        score = known[s] + weight * np.sqrt(squares[f])
        if best < 0 or score < least:
            best = f
            least = score
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def place(
    r, slot, end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims, squares,
    weight, growth, before, allowed, state_of, known, states, table, clock, mix,
):  # fmt: skip
    """Choose a node and devices for one copy of the shape of row ``r``, and hold them until ``end``; return -1 if it
    fits nowhere.
    """
    k_count = (totals.shape[0] - TOTAL_USED) // 2
    if follow(
        nodes,
        node_count,
        k_count,
        totals[TOTAL_STAMP],
        allowed,
        mix[ASKED],
        mix[KINDS],
        state_of,
        known,
        states,
        table,
        clock,
    ):
        growth[:] = np.nan
        before[:] = np.nan
    f = least_growth(r, nodes, node_count, k_count, rows, lack, blocked, state_of, growth, before, squares, weight, mix)
    if f >= 0:
        _name_devices(slot, nodes[f], rows[r, REQUEST + 2 * k_count :], leases, k_count, mix[KINDS], mix[VALUES])
        hold(slot, f, end, r, nodes, leases, totals, columns, then, dims, rows, row_count, lack)
        clock[UNTIL] = totals[TOTAL_STAMP]
        clock[CHANGED] = f
    return f


@njit(cache=True, nogil=True, error_model="numpy")
def _name_devices(slot, node, ask, leases, k_count, kinds, values):
    """Write the devices of the lease into it; parts are taken where they lose the least value."""
    begin = first_device(k_count)
    parts = False
    for j in range(kinds.shape[0]):
        parts = parts or 0 < ask[PARTS + kinds[j]] < WHOLE
    if not parts:
        return
    choose_devices(slot, node, ask, leases, k_count)
    for j in range(kinds.shape[0]):
        amount = ask[PARTS + kinds[j]]
        if 0 < amount < WHOLE:
            d = best_part(node, kinds[j], amount, values[j], begin)
            if d >= 0:
                mask = leases[slot, mask_at(k_count)]
                for other in range((node.shape[0] - begin) // WIDTH):
                    if node[begin + other * WIDTH + KIND] == kinds[j]:
                        mask &= ~(np.int64(1) << other)
                leases[slot, mask_at(k_count)] = mask | np.int64(1) << d


@njit(cache=True, nogil=True, error_model="numpy")
def total_fragments(nodes, node_count, k_count, mix):
    """Return the fragments of all nodes and their idle devices, in devices; ``often`` of the mix must be zero."""
    kinds = mix[KINDS]
    work = np.empty((WORK, mix[SHARES].shape[0]))
    lost = 0.0
    idle = 0.0
    for f in range(node_count):
        lost += fragment(nodes[f], f, k_count, mix, work)
        for j in range(kinds.shape[0]):
            idle += _idle(nodes[f], kinds[j], first_device(k_count)) / 1000.0
    return lost, idle
