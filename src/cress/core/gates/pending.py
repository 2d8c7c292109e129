"""The number of jobs that wait for lack of a dimension, which weighs the dimensions of the balance (source B's r_i)."""

from __future__ import annotations

from itertools import islice

import numpy as np

from cress.core.books import Books
from cress.core.gates.limits import UserLimit
from cress.core.groups.policies.queue import MOST_PENDING
from cress.core.groups.running_limits import head_of, within
from cress.core.jobs import GroupState, Rights
from cress.core.kernels.holding import count_lacks_of_rows
from cress.core.tables.arrays import Ints


class Pending:
    """Counters, per balanced dimension, of the jobs that wait only for lack of it.

    Jobs behind a head count as well, because the next passes offer them. Jobs of groups that cool off, of users at
    their limit and of groups behind a blocked unit (``quota_only``) wait for other reasons.
    """

    def __init__(self, core: Books, user_limit: UserLimit) -> None:
        self._core = core
        self._user_limit = user_limit
        self._quota_only = core.options.behind_blocked == "quota_only"

    def count(self) -> None:
        """Pass the counts to the balance."""
        balance, cluster = self._core.balance, self._core.cluster
        if balance.use_pending and cluster.node_count > 1 and (cluster.starved or balance.any_pending):
            balance.set_pending(self.jobs_lacking())

    def jobs_lacking(self) -> tuple[int, ...]:
        """Return, per balanced dimension, the number of jobs that wait only for lack of it."""
        core = self._core
        counts = np.zeros(len(core.dimensions), np.int64)
        blocked = False
        for group in core.groups.waiting():
            if blocked and not group.below_quota:
                break
            if group.held_to is not Rights.ANY:
                continue
            if group.counters:
                self._count_within(group, counts)
            elif group.policy.limits_users:
                for job in group.policy.looked_at():
                    if self._user_limit.find(job) is None:
                        group.policy.count_behind(job, core.fit, counts)
            else:
                group.policy.count_lacking(core.fit, counts)
            head = head_of(group)
            blocked = self._quota_only and (blocked or (head is not None and not core.fit.fitting(head.shape)))
        return tuple(counts[core.cluster.dims].tolist())

    def _count_within(self, group: GroupState, counts: Ints) -> None:
        """Add the counts of a group with limits on running jobs: only for jobs that the limits let start."""
        policy, fit = group.policy, self._core.fit
        jobs = policy.looked_at() if policy.offers_more and not policy.limits_users else policy
        most = len(policy) if policy.offers_more else MOST_PENDING
        may = (job for job in within(group, jobs) if self._user_limit.find(job) is None)
        rows = np.fromiter((job.shape.row for job in islice(may, most)), np.int64)
        count_lacks_of_rows(np.bincount(rows, minlength=1), fit.rows, self._core.cluster.usable_count, counts)
