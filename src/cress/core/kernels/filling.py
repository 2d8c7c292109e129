"""Values of the idle parts of devices for the likely tasks: the best filling, by dual prices of a cutting-stock
problem.

A device is a stock of 1,000 thousandths; the tasks of the mix are pieces cut from it. The fewest devices that serve
the mix are a linear program over patterns, whose dual prices (Gilmore and Gomory, 1961) are the worth of a piece of
each size, in devices. So 530 idle thousandths are worth a half where pieces of 470 are common, and 190 are worth
nothing where few pieces are that small.
"""

from __future__ import annotations

import numpy as np
from numba import njit

WHOLE = 1000
# Pivots of the simplex method at most: some tens suffice for as many sizes.
MOST_PIVOTS = 500
# A pattern must be worth this much more than the device that it uses, and a price this much more than none.
WORTH = 1e-7
EXACT = 1e-12


@njit(cache=True, nogil=True, error_model="numpy")
def fill(sizes, prices, values, last):
    """Compute the best filling of every idle amount: its value into ``values``, its last piece (or -1) into
    ``last``.
    """
    values[0] = 0.0
    last[0] = -1
    for left in range(1, WHOLE + 1):
        values[left] = values[left - 1]
        last[left] = -1
        for i in range(sizes.shape[0]):
            size = sizes[i]
            if size <= left and values[left - size] + prices[i] > values[left] + EXACT:
                values[left] = values[left - size] + prices[i]
                last[left] = i


@njit(cache=True, nogil=True, error_model="numpy")
def fill_values(sizes, wanted, out):
    """Write the value of every idle amount of a device (0 … 1,000) into ``out``, in thousandths.

    ``wanted`` is the number of pieces of each of ``sizes``. Column generation: the simplex method over patterns, each
    found as the best filling under the present prices.
    """
    n = sizes.shape[0]
    inverse = np.zeros((n, n))
    amounts = np.zeros(n)
    prices = np.zeros(n)
    values = np.zeros(WHOLE + 1)
    last = np.zeros(WHOLE + 1, np.int64)
    pattern = np.zeros(n)
    column = np.zeros(n)
    for i in range(n):
        copies = WHOLE // sizes[i]
        inverse[i, i] = 1.0 / copies
        amounts[i] = wanted[i] / copies
    for _ in range(MOST_PIVOTS):
        for i in range(n):
            price = 0.0
            for j in range(n):
                price += inverse[j, i]
            prices[i] = max(0.0, price)
        fill(sizes, prices, values, last)
        if values[WHOLE] <= 1.0 + WORTH:
            break
        pattern[:] = 0.0
        left = WHOLE
        while left > 0:
            if last[left] < 0:
                left -= 1
            else:
                pattern[last[left]] += 1.0
                left -= sizes[last[left]]
        leaves = -1
        least = 0.0
        for i in range(n):
            weight = 0.0
            for j in range(n):
                weight += inverse[i, j] * pattern[j]
            column[i] = weight
            if weight > WORTH and (leaves < 0 or amounts[i] / weight < least):
                leaves = i
                least = amounts[i] / weight
        if leaves < 0:
            break
        for j in range(n):
            inverse[leaves, j] /= column[leaves]
        amounts[leaves] = least
        for i in range(n):
            if i != leaves and column[i] != 0.0:
                for j in range(n):
                    inverse[i, j] -= column[i] * inverse[leaves, j]
                amounts[i] = max(0.0, amounts[i] - column[i] * least)
    for left in range(WHOLE + 1):
        # Without a full device's worth of pieces nothing is worth more than another.
        out[left] = np.int64(np.floor(values[left] / values[WHOLE] * WHOLE + 0.5)) if values[WHOLE] > 0.0 else 0
