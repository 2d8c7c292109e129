"""The most of one dimension with which a unit would have room now."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.kernels.holding import FREE, OUT, USABLE
from cress.core.tables.arrays import Ints


class Beside(NamedTuple):
    """The free amounts of the nodes that the clauses of a unit allow, ``[nodes, dimensions]``, and the nodes."""

    free: Ints
    places: Ints


def allowed(core: Books, job: JobEntry) -> Beside:
    """Return the free amounts of usable nodes that satisfy the clauses of a unit."""
    cluster, shape = core.cluster, job.shape
    n = cluster.node_count
    may = cluster.nodes[:n, USABLE] != 0
    if not shape.kinds:
        may = may & (cluster.lack[shape.row, :n] & OUT == 0)
    places = np.flatnonzero(may)
    return Beside(np.asarray(cluster.nodes[places, FREE : FREE + cluster.k_count], np.int64), places)


def room_for(core: Books, job: JobEntry) -> int:
    """Return the number of tasks of a unit that have room now, by amounts."""
    return _copies(allowed(core, job).free, np.array(job.job.request, np.int64))


def most_that_fits(core: Books, job: JobEntry, dimension: int) -> int | None:
    """Return the most of one dimension with which the whole unit has room; ``None`` if less of it does not help."""
    request = np.array(job.job.request, np.int64)
    if not request[dimension]:
        return None
    free, size = allowed(core, job).free, job.shape.size
    asked = request.copy()
    asked[dimension] = 0
    if _copies(free, request) >= size or _copies(free, asked) < size:
        return None
    low, high = 0, int(request[dimension])
    while high - low > 1:
        middle = asked[dimension] = (low + high) // 2
        if _copies(free, asked) >= size:
            low = middle
        else:
            high = middle
    return low or None


def _copies(free: Ints, request: Ints) -> int:
    used = np.flatnonzero(request)
    if not len(used):
        return len(free) * 2**20
    return int(np.maximum(0, (free[:, used] // request[used]).min(axis=1)).sum()) if len(free) else 0
