"""Openings: the times at which running tasks leave room for a task, by one of their estimates (design note 0023).

Only amounts count. Devices, domains and bookings can delay a start further, but nothing starts without the amounts.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

import numpy as np

from cress.core.jobs import Attempt
from cress.core.kernels.holding import END, NODE, NONE, OUT
from cress.core.placing.shape import Shape
from cress.core.tables.arrays import Ints, copies_in
from cress.core.tables.cluster import Cluster
from cress.model.times import NEVER

# The number of ends that a search considers; without room by then it returns the last of these ends.
MOST_ENDS = 5_000


class EndsBy(Enum):
    """Estimates for the ends of running tasks."""

    OPTIMISTIC = 0
    MEAN = 1
    PESSIMISTIC = 2
    LIMIT = 3


class Openings:
    """The running tasks as columns, by the slots of their leases; rewritten when the cluster has changed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stamp = -1
        # By slot: start, optimistic, mean and pessimistic estimate, and the latest end of the task.
        self._columns: Ints = np.zeros((5, 0), np.int64)

    def of(self, shape: Shape, number: int, by: EndsBy, attempts: Collection[Attempt], now: int) -> list[int]:
        """Return the times (µs) at which the first ``number`` tasks of a shape find amounts, ascending.

        Fewer if known ends make no room for more.
        """
        cluster = self._cluster
        n, may = cluster.node_count, cluster.usable()
        if not shape.kinds:
            may &= cluster.lack[shape.row, :n] & OUT == 0
        places = np.flatnonzero(may)
        asked = np.flatnonzero(shape.request_array)
        request = shape.request_array[asked]
        free = cluster.free_now()[:, asked]
        copies = np.zeros(n, np.int64)
        copies[places] = copies_in(free[places], request, number)
        times = [now] * min(number, int(copies.sum()))
        if len(times) == number:
            return times
        ends = self._ends(by, attempts, now)
        slots = np.flatnonzero((cluster.leases[:, NODE] != NONE) & (ends < NEVER))
        slots = slots[may[cluster.leases[slots, NODE]]]
        for slot in slots[np.argsort(ends[slots], kind="stable")].tolist()[:MOST_ENDS]:
            f = cluster.leases[slot, NODE]
            free[f] += cluster.held_in(slot)[asked]
            more = int(copies_in(free[f], request, number)) - int(copies[f])
            if more > 0:
                copies[f] += more
                times += [int(ends[slot])] * more
                if len(times) >= number:
                    return times[:number]
        if len(slots) > MOST_ENDS:
            times += [int(np.sort(ends[slots])[MOST_ENDS])] * (number - len(times))
        return times

    def _ends(self, by: EndsBy, attempts: Collection[Attempt], now: int) -> Ints:
        """Return, by slot, the end of the task there (µs).

        A task that outlived an estimate ends by the next one, at last by its limit.
        """
        if self._stamp != self._cluster.stamp or self._columns.shape[1] != len(self._cluster.leases):
            self._write(attempts)
        start, *estimates, last = self._columns
        ends = last
        for estimate in reversed(estimates[by.value :]):
            ends = np.where(now < start + estimate, start + estimate, ends)
        if by is EndsBy.OPTIMISTIC:
            # It may end at any time once it has run for the shortest estimate.
            ends = start + estimates[0]
        found: Ints = np.minimum(np.maximum(ends, now + 1), NEVER)
        return found

    def _write(self, attempts: Collection[Attempt]) -> None:
        leases = self._cluster.leases
        columns = np.zeros((5, len(leases)), np.int64)
        # A holder other than a task may end at once, and is planned until the end of its lease.
        columns[4] = leases[:, END]
        slots = [attempt.slot for attempt in attempts]
        columns[:, slots] = np.array([_times(attempt) for attempt in attempts], np.int64).reshape(-1, 5).T
        self._columns = columns
        self._stamp = self._cluster.stamp


def _times(attempt: Attempt) -> tuple[int, int, int, int, int]:
    """Return the start, the estimates and the last end of an attempt; a stopping one may end at any time."""
    job = attempt.job
    shortest = 0 if attempt.stopping else job.shortest
    return attempt.start, shortest, min(job.mean, NEVER), min(job.longest, NEVER), attempt.last_end
