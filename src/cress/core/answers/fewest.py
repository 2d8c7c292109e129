"""The most of one dimension with which a unit would have room now."""

from __future__ import annotations

import numpy as np

from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.placing.constraints import Wants
from cress.core.tables.arrays import copies_in
from cress.model.resources import ResourceVector


def most_that_fits(core: Books, job: JobEntry, dimension: int) -> int | None:
    """Return the most of one dimension with which the whole unit has room; ``None`` if less of it does not help."""
    request = np.array(job.job.request, np.int64)
    if not request[dimension]:
        return None
    cluster, size = core.cluster, job.shape.size
    places = np.flatnonzero(cluster.usable() & ~core.fit.excluded(job.shape))
    free = cluster.free_now()[places]

    def has_room(amount: int) -> bool:
        request[dimension] = amount
        return int(copies_in(free, request, size).sum()) >= size

    low, high = 0, int(request[dimension])
    if has_room(high) or not has_room(0):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if has_room(middle) else (low, middle)
    return low or None


def most_that_ever_fits(core: Books, request: ResourceVector, wants: Wants) -> tuple[tuple[str, int], ...]:
    """Return, for each dimension whose reduction alone would let a task fit an empty node, its name and the most of
    it; devices and lasting clauses count.
    """
    capacities = core.cluster.capacities()[core.cluster.present()]
    small = capacities < np.array(request, np.int64)
    found = []
    for i, name in enumerate(core.dimensions.names):
        # Only this dimension is too small there.
        only = small[:, i] & (small.sum(axis=1) == 1)
        most = int(capacities[only, i].max(initial=0))
        if most and core.fit.ever_fits((*request[:i], most, *request[i + 1 :]), wants):
            found.append((name, most))
    return tuple(found)


def most_tasks_when_empty(core: Books, request: ResourceVector, tasks: int, wants: Wants) -> int:
    """Return the most tasks of a gang that all nodes together could hold when they are empty; 0 if not even one."""
    low, high = 0, tasks
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if core.fit.holds_when_empty(request, middle, wants) else (low, middle)
    return low
