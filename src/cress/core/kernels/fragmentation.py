"""Growth of what the likely mix of shapes cannot use of the devices, and the node where it grows least (design note 0026).

The mix has a row a shape: its amounts (``requests``), its parts of devices or whole ones per dimension (``asks``), its share
(``shares``, float32, sum 1), and per node whether its clauses allow it (``may``). ``asked`` are the dimensions of which a shape asks for some, ``kinds`` are the dimensions that have devices, and
``values`` what an idle amount of one device of each is worth to the mix (``filling``), in thousandths.

The **fragment** of a node, in devices, is what the shape could not use of the idle devices of the kinds that it asks for, Σ share × of it:
were one task to come next, plus ``often[0]`` × were as many of them to come as fit, so that cores and memory for
all idle devices count; plus ``often[1]`` × Σ (idle − its value) over the devices. All figures are float32, summed in the order of the loops.
"""

from __future__ import annotations

import numpy as np
from numba import njit

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
from cress.core.kernels.holding import FREE, REQUEST, STAMP, hold

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
def _usable(node, k, amount, begin):
    """Return what the next task that asks for ``amount`` could use of them, and the number of such tasks that they hold."""
    usable = 0
    whole = 0
    copies = 0
    for at in range(begin, node.shape[0], WIDTH):
        if node[at + KIND] == k:
            left = node[at + LEFT]
            whole += np.int64(left == WHOLE)
            if left >= min(amount, WHOLE):
                usable += left
                copies += left // amount
    if amount >= WHOLE:
        copies = whole * WHOLE // amount
    return (usable if copies > 0 else 0), copies


@njit(cache=True, nogil=True, error_model="numpy")
def fragment(node, f, k_count, requests, asks, shares, may, asked, kinds, values, often):
    """Return the fragment of a node (its row), which has the place ``f``, in devices."""
    begin = first_device(k_count)
    total = ZERO
    for j in range(kinds.shape[0]):
        k = kinds[j]
        idle = _idle(node, k, begin)
        if idle == 0:
            continue
        before = 0
        usable = 0
        most = 0
        for m in range(shares.shape[0]):
            amount = asks[m, PARTS + k]
            if amount == 0:
                continue
            if amount != before:
                # Shapes that ask for the same follow each other.
                usable, most = _usable(node, k, amount, begin)
                before = amount
            copies = most if may[m, f] != 0 else 0
            for i in range(asked.shape[0]):
                need = requests[m, asked[i]]
                if need > 0 and copies > 0 and node[FREE + asked[i]] < copies * need:
                    copies = max(0, node[FREE + asked[i]]) // need
            # For the next task, and for as many as fit.
            now = np.float32(idle - (usable if copies > 0 else 0))
            full = np.float32(idle - copies * amount)
            total += shares[m] * ((now + often[0] * full) / THOUSAND)
        lost = 0
        for at in range(begin, node.shape[0], WIDTH):
            if node[at + KIND] == k and node[at + LEFT] > 0:
                lost += node[at + LEFT] - values[j, node[at + LEFT]]
        total += often[1] * (np.float32(lost) / THOUSAND)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def best_part(node, k, amount, worth, begin):
    """Return the device of dimension ``k`` that loses least of its value to a task of ``amount``; of equal ones that with least left."""
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
    """Take one copy of a request from a copy of a node's row, devices of dimensions and all."""
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
def repair(
    r, nodes, node_count, rows, lack, blocked, growth, seen, before, known, requests, asks, shares, may, asked, kinds, values,
    often,
):  # fmt: skip
    """Bring row ``r`` of ``growth`` up to date on every node that fits and has changed since ``seen``.

    ``before`` is the fragment of each node as it is, at the stamps ``known``.
    """
    k_count = requests.shape[1]
    request = rows[r, REQUEST : REQUEST + k_count]
    ask = rows[r, REQUEST + 2 * k_count :]
    after = np.empty(nodes.shape[1], np.int64)
    for f in range(node_count):
        stamp = nodes[f, STAMP]
        if seen[r, f] == stamp or (lack[r, f] | blocked[f]) != 0:
            continue
        if known[f] != stamp:
            before[f] = fragment(nodes[f], f, k_count, requests, asks, shares, may, asked, kinds, values, often)
            known[f] = stamp
        after[:] = nodes[f]
        take(after, request, ask, k_count, kinds, values)
        growth[r, f] = fragment(after, f, k_count, requests, asks, shares, may, asked, kinds, values, often) - before[f]
        seen[r, f] = stamp


@njit(cache=True, nogil=True, error_model="numpy")
def least_growth(lack, blocked, growth, squares, node_count, weight):
    """Return the first node that fits with the least growth + ``weight`` × y, of which ``squares`` has the square; -1 if none fits."""
    best = -1
    least = ZERO
    for f in range(node_count):
        if (lack[f] | blocked[f]) != 0:
            continue
        score = growth[f] + weight * np.sqrt(squares[f])
        if best < 0 or score < least:
            best = f
            least = score
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def place(
    r, slot, end, nodes, leases, lack, rows, row_count, blocked, columns, then, node_count, totals, dims, squares,
    weight, growth, seen, before, known, requests, asks, shares, may, asked, kinds, values, often,
):  # fmt: skip
    """Choose a node and devices for one copy of the shape of row ``r``, and hold them until ``end``; -1 if it fits nowhere."""
    repair(
        r, nodes, node_count, rows, lack, blocked, growth, seen, before, known, requests, asks, shares, may, asked, kinds,
        values, often,
    )  # fmt: skip
    f = least_growth(lack[r], blocked, growth[r], squares, node_count, weight)
    if f >= 0:
        k_count = requests.shape[1]
        _name_devices(slot, nodes[f], rows[r, REQUEST + 2 * k_count :], leases, k_count, kinds, values)
        hold(slot, f, end, r, nodes, leases, totals, columns, then, dims, rows, row_count, lack)
    return f


@njit(cache=True, nogil=True, error_model="numpy")
def _name_devices(slot, node, ask, leases, k_count, kinds, values):
    """Write the devices of the lease into it; it takes parts where they lose least."""
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
def total_fragments(nodes, node_count, k_count, requests, asks, shares, may, asked, kinds, values):
    """Return what the mix cannot use of all nodes, and their idle devices, both in devices."""
    often = np.zeros(2, np.float32)
    lost = 0.0
    idle = 0.0
    for f in range(node_count):
        lost += fragment(nodes[f], f, k_count, requests, asks, shares, may, asked, kinds, values, often)
        for j in range(kinds.shape[0]):
            idle += _idle(nodes[f], kinds[j], first_device(k_count)) / 1000.0
    return lost, idle
