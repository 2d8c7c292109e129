"""The choice of the node where a loan leaves the least (design note 0024)."""

from __future__ import annotations

import numpy as np
from numba import njit

from cress.core.kernels.holding import FREE, OUT, USABLE


@njit(cache=True, nogil=True, error_model="numpy")
def node_for_loan(request, lack, nodes, node_count, lendable, booked, skipped):
    """Return the first node where ``request`` fits with the lendable amounts and leaves the least of them; -1 without
    one.

    ``lendable`` and ``booked`` (node × K) are the idle parts that can be lent, and the free amounts that bookings
    need, if any; nodes in ``skipped`` are left out. The rest is measured in thousandths of the node, in the dimensions
    of the request.
    """
    k_count = request.shape[0]
    best = np.int64(-1)
    least = np.int64(2**62)
    for f in range(node_count):
        if nodes[f, USABLE] == 0 or lack[f] & OUT != 0 or skipped[f]:
            continue
        some = False
        fits = True
        over = np.int64(0)
        for k in range(k_count):
            if request[k] == 0:
                continue
            free = nodes[f, FREE + k]
            if booked.shape[0] > 0:
                free = max(np.int64(0), free - booked[f, k])
            left = free + lendable[f, k] - request[k]
            if left < 0:
                fits = False
                break
            some = some or lendable[f, k] > 0
            over += left * 1000 // max(np.int64(1), nodes[f, FREE + k_count + k])
        if fits and some and over < least:
            best = np.int64(f)
            least = over
    return best
