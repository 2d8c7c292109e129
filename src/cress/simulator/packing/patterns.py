"""An upper bound by patterns: the requested parts that single GPUs can hold, regardless of the nodes.

A pattern is a set of parts that one GPU holds at once (470 + 470). The relaxation uses a fractional number of patterns,
at most one on each GPU, and no part more often than it arrived; a pod with several GPUs counts as that many whole
parts. Nodes, cores, memory and models are left out. The linear program is solved by column generation (Gilmore and
Gomory): its next pattern is the best filling of a GPU with parts at their present prices. Any non-negative prices give
an upper bound (weak duality), so rounding errors and an early end make the bound weaker, never wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Thousandths of a GPU.
WHOLE = 1000
MOST_PIVOTS = 2000
# Prices are whole numbers of this fraction of a thousandth.
FINE = 1_000_000
CLOSE = 1e-9


def most_by_patterns(parts: Mapping[int, int], devices: int) -> int:
    """Return a bound, in thousandths of GPUs, for the parts of each size on this number of GPUs.

    Sizes are 1 to 1,000 thousandths.
    """
    sizes = np.array(sorted(size for size, number in parts.items() if number), np.int64)
    if not len(sizes) or not devices:
        return 0
    numbers = np.array([parts[size] for size in sizes.tolist()], np.int64)
    return min(
        _bound(sizes, numbers, devices, prices) for prices in (np.zeros(len(sizes)), _prices(sizes, numbers, devices))
    )


def _bound(sizes: Ints, numbers: Ints, devices: int, prices: Floats) -> int:
    """Return the bound that these prices of the parts prove, rounded up."""
    fine = np.clip(np.rint(prices * FINE), 0, WHOLE * FINE).astype(np.int64)
    gain, _ = fill(sizes, sizes * FINE - fine)
    total: int = devices * int(gain) + sum(a * b for a, b in zip(fine.tolist(), numbers.tolist(), strict=True))
    return -(-total // FINE)


def fill(sizes: Ints, values: Ints | Floats) -> tuple[float, Ints]:
    """Return the most value of parts that one GPU holds, and the number of parts of each size.

    This is an unbounded knapsack, exact for whole values.
    """
    worth: list[float] = values.tolist()
    best: list[float] = [0] * (WHOLE + 1)
    chosen = [-1] * (WHOLE + 1)
    step = int(np.gcd.reduce(np.append(sizes, WHOLE)))
    for room in range(step, WHOLE + 1, step):
        best[room] = best[room - step]
        for i, size in enumerate(sizes.tolist()):
            if size <= room and best[room - size] + worth[i] > best[room]:
                best[room], chosen[room] = best[room - size] + worth[i], i
    counts, room = np.zeros(len(sizes), np.int64), WHOLE
    while room > 0:
        if chosen[room] < 0:
            room -= step
            continue
        counts[chosen[room]] += 1
        room -= int(sizes[chosen[room]])
    return best[WHOLE], counts


def _prices(sizes: Ints, numbers: Ints, devices: int) -> Floats:
    """Return approximate prices of the parts at the optimum of the linear program.

    The revised simplex method, with patterns as columns. Rows are the parts, at most ``numbers`` of each, and the GPUs.
    It begins with nothing placed.
    """
    m = len(sizes) + 1
    left = np.append(numbers, devices).astype(np.float64)
    # The tiny differences prevent cycling when several rows are used up at once.
    left *= 1 + 1e-7 * np.arange(1, m + 1) / m
    inverse, gains = np.eye(m), np.zeros(m)
    duals = np.zeros(m)
    for _ in range(MOST_PIVOTS):
        duals = gains @ inverse
        lowest = int(np.argmin(duals))
        if duals[lowest] < -CLOSE * WHOLE:
            # This row should be used less.
            column, worth = np.eye(m)[lowest], 0.0
        else:
            gain, counts = fill(sizes, sizes - duals[:-1])
            column, worth = np.append(counts, 1).astype(np.float64), float(counts @ sizes)
            if gain <= duals[-1] + CLOSE * WHOLE:
                break
        direction = inverse @ column
        steps = np.divide(left, direction, out=np.full(m, np.inf), where=direction > CLOSE)
        row = int(np.argmin(steps))
        step = float(steps[row])
        left -= step * direction
        left[row] = step
        pivot = inverse[row] / direction[row]
        inverse -= np.outer(direction, pivot)
        inverse[row] = pivot
        gains[row] = worth
    return np.maximum(0.0, duals[:-1])
