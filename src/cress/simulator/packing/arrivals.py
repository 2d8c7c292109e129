"""The order in which pods arrive: the list, shuffled; then random pods of it again until the requests suffice."""

from __future__ import annotations

import numpy as np

from cress.simulator.traces.openb import GPU
from cress.simulator.workload import Workload


def arrivals(work: Workload, seed: int, share: float) -> list[int]:
    """Return the positions of the pods as they arrive, until they request ``share`` of the GPUs.

    The list is sorted by name before it is shuffled. If the whole list requests more than ``share``, its last pods
    do not arrive; if it requests less, random pods of it arrive again. The last pod may exceed ``share``.
    """
    rng = np.random.default_rng(seed)
    gpu = work.cluster.dimensions.index[GPU]
    asks = np.array(work.requests, dtype=np.int64)[work.request_index, gpu]
    by_name = sorted(range(len(work)), key=work.ids.__getitem__)
    order: list[int] = rng.permutation(np.array(by_name, dtype=np.int64)).tolist()
    whole = share * work.cluster.total()[gpu]
    if not asks.any():
        return order
    reached = np.flatnonzero(np.cumsum(asks[order]) >= whole)
    if len(reached):
        return order[: int(reached[0]) + 1]
    arrived = int(asks.sum())
    while arrived < whole:
        order.append(int(rng.integers(len(work))))
        arrived += int(asks[order[-1]])
    return order
