"""Running tasks as a table for the search for victims, with one row per lease slot."""

from __future__ import annotations

from itertools import takewhile

import numpy as np

from cress.core.groups.shares import Groups
from cress.core.jobs import Attempt, WorkloadLease
from cress.core.kernels.victims import ALONE, NEVER_YIELDS, R_CHARGE, R_GROUP, R_ID, R_YIELDS, WHOLE
from cress.core.tables.arrays import Ints, grown
from cress.core.tables.cluster import Cluster
from cress.model.job import JobType


class RunningTasks:
    """Rows of attempts that hold a lease; rows of free slots are undefined.

    Attempts are numbered as they start, so those without a row are the last ones. An attempt that ends returns its
    slot, and the next attempt in that slot overwrites the row.
    """

    def __init__(self) -> None:
        self.table: Ints = np.zeros((0, R_CHARGE + 1), np.int64)
        self._last = 0
        # The number of columns for base measures; those for kinds of nodes follow.
        self.base = 1

    def forget(self) -> None:
        """Mark all rows as stale after a change of charges, groups, deadlines or estimates; they are rewritten when
        needed.
        """
        self._last = 0

    def refresh(self, cluster: Cluster, groups: Groups, attempts: dict[int, Attempt], others: list[int]) -> None:
        """Write the rows of attempts started since the last call, and of slots with ``others`` as holders."""
        kinds = len(groups.kinds)
        measures = groups.most_measures
        if self.base != measures - kinds:
            self.base = measures - kinds
            self._last = 0
        if self._last == 0 or self.table.shape[1] != R_CHARGE + measures:
            self.table = np.zeros((0, R_CHARGE + measures), np.int64)
            self._last = 0
        slots = len(cluster.leases)
        if len(self.table) < slots:
            self.table = grown(self.table, slots)
        if others:
            self.table[others] = 0
            self.table[others, R_YIELDS] = NEVER_YIELDS
        place = {name: i for i, name in enumerate(groups.by_name)}
        new = list(takewhile(lambda attempt: attempt.id > self._last, reversed(attempts.values())))
        if not new:
            return
        rows = np.zeros((len(new), self.table.shape[1]), np.int64)
        rows[:, R_ID:R_CHARGE] = [
            (
                attempt.id,
                attempt.start + attempt.job.job.min_time,
                attempt.job.job.counted_as,
                attempt.job.job.priority,
                place[attempt.job.group.name],
                _how_it_yields(attempt),
                attempt.job.job.minimum,
                attempt.job.deadline,
                attempt.job.shortest,
                attempt.job.longest,
                attempt.job.limit,
            )
            for attempt in new
        ]
        for m in range(measures):
            if kinds:
                rows[:, R_CHARGE + m] = [self._charged(attempt.charge, m, kinds) for attempt in new]
            else:
                rows[:, R_CHARGE + m] = [attempt.charge[m] if m < len(attempt.charge) else 0 for attempt in new]
        self.table[[attempt.slot for attempt in new]] = rows
        self._last = max(attempt.id for attempt in new)

    def write_idle(self, groups: Groups, leases: list[WorkloadLease]) -> None:
        """Write the groups and the charges of the idle parts of these leases, the charge in one row of each lease."""
        kinds = len(groups.kinds)
        place = {name: i for i, name in enumerate(groups.by_name)}
        for lease in leases:
            slots = [part.slot for part in lease.idle.values()]
            if not slots:
                continue
            self.table[slots, R_GROUP] = place[lease.workload.group.name]
            for m in range(self.table.shape[1] - R_CHARGE):
                self.table[slots[0], R_CHARGE + m] = self._charged(lease.charge, m, kinds)

    def _charged(self, charge: tuple[int, ...], m: int, kinds: int) -> int:
        """Return the charge of a task in column ``m``."""
        if m >= self.base:
            return charge[m - self.base - kinds]
        return charge[m] if m < len(charge) - kinds else 0


def _how_it_yields(attempt: Attempt) -> int:
    job = attempt.job.job
    if job.type is JobType.DATABASE:
        return NEVER_YIELDS
    return WHOLE if job.gang else ALONE
