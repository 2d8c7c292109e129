"""Nodes in the same state: equal free amounts, equal idle devices, and open to the same shapes of the mix.

A task changes the fragment of each of them equally, so the change is computed once for each **state**
(``fragmentation``). Tables:

* ``state_of``: per node its state, valid at the stamp ``known``;
* ``states``: per state its description: the shapes that may use the node, its free amounts in the dimensions ``asked``,
  and per device the dimension and the rest, −1 and 0 for a device outside the dimensions ``kinds``;
* ``table``: the states by their hash, open addressing, −1 for an empty place; its length is a power of two;
* ``clock``: the number of states, the stamp of the cluster up to which all nodes have theirs, and a node that has
  changed since, or −1.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.core.kernels.devices import KIND, LEFT, WIDTH, first_device
from cress.core.kernels.holding import FREE, STAMP

COUNT, UNTIL, CHANGED = range(3)
NOBODY = -1


@njit(cache=True, nogil=True, error_model="numpy")
def describe(node, allowed, k_count, asked, kinds, state):
    """Write the state of a node (its row) into ``state``; return its hash."""
    state[0] = allowed
    at = 1
    for i in range(asked.shape[0]):
        state[at] = node[FREE + asked[i]]
        at += 1
    for device in range(first_device(k_count), node.shape[0], WIDTH):
        state[at] = NOBODY
        state[at + 1] = 0
        for j in range(kinds.shape[0]):
            if node[device + KIND] == kinds[j]:
                state[at] = kinds[j]
                state[at + 1] = node[device + LEFT]
        at += 2
    # FNV-1a, a word at a time.
    key = np.int64(-3750763034362895579)
    for i in range(at):
        key = (key ^ state[i]) * np.int64(1099511628211)
    return key ^ (key >> 29)


@njit(cache=True, nogil=True, error_model="numpy")
def find(state, key, states, table, clock):
    """Return the index of this state among the ``states``; a new state is added."""
    mask = table.shape[0] - 1
    at = key & mask
    while table[at] >= 0:
        if (states[table[at]] == state).all():
            return table[at]
        at = (at + 1) & mask
    s = clock[COUNT]
    states[s] = state
    table[at] = s
    clock[COUNT] += 1
    return s


@njit(cache=True, nogil=True, error_model="numpy")
def follow(nodes, node_count, k_count, stamp, allowed, asked, kinds, state_of, known, states, table, clock):
    """Update the state of every node that has changed since the last call; ``stamp`` is that of the cluster.

    Returns True if all states were dropped before.
    """
    forgotten = clock[COUNT] + node_count > states.shape[0]
    if forgotten:
        table[:] = -1
        known[:] = -1
        clock[COUNT] = 0
        clock[UNTIL] = -1
    first, last = 0, node_count
    if clock[UNTIL] == stamp:
        # Nothing but the last task that was placed changed a node.
        first = max(0, clock[CHANGED])
        last = clock[CHANGED] + 1
    state = np.empty(states.shape[1], np.int64)
    for f in range(first, last):
        if known[f] != nodes[f, STAMP]:
            key = describe(nodes[f], allowed[f], k_count, asked, kinds, state)
            state_of[f] = find(state, key, states, table, clock)
            known[f] = nodes[f, STAMP]
    clock[UNTIL] = stamp
    clock[CHANGED] = NOBODY
    return forgotten
