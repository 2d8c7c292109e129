"""The most of one dimension with which a unit would have room now."""

from __future__ import annotations

import numpy as np

from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.kernels.holding import FREE
from cress.core.placing.together import Asked, copies_of
from cress.core.tables.arrays import Ints


def most_that_fits(core: Books, job: JobEntry, dimension: int) -> int | None:
    """Return the most of one dimension with which the whole unit has room; ``None`` if less of it does not help."""
    request = np.array(job.job.request, np.int64)
    if not request[dimension]:
        return None
    cluster, size = core.cluster, job.shape.size
    places = np.flatnonzero(cluster.usable() & ~core.fit.excluded(job.shape))
    free = cluster.nodes[places, FREE : FREE + cluster.k_count]

    def has_room(amount: int) -> bool:
        request[dimension] = amount
        return int(copies_of(free, Asked(request, size, _NO_CAPS)).sum()) >= size

    low, high = 0, int(request[dimension])
    if has_room(high) or not has_room(0):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if has_room(middle) else (low, middle)
    return low or None


_NO_CAPS: Ints = np.zeros(0, np.int64)
