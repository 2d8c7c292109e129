"""Capacity: the users of the group share it; the user with the smallest used/weight goes first."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from cress.core.cluster import Cluster
from cress.core.jobs import JobState
from cress.core.policies.base import Policy, count_lack
from cress.core.policies.queue import Queue


class CapacityPolicy(Policy):
    """FIFO inside a user; every user's head is offered.

    ``limit_factor`` > 0 bounds what one user may use: that many times his share of the quota, which is divided
    among the users with waiting or running jobs by their weights. Equal users go by name.
    """

    offers_more = True

    def __init__(self, weights: dict[str, int], limit_factor: float) -> None:
        super().__init__()
        self._weights = weights
        self._limit_factor = Fraction(str(limit_factor))
        self.limits_users = limit_factor > 0
        self._queues: dict[str, Queue] = {}
        self._used: dict[str, list[int]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[JobState]:
        # Users' heads first: they are what is offered.
        order = self._order()
        for user in order:
            head = self._queues[user].head()
            if head is not None:
                yield head
        for user in order:
            yield from (job for job in self._queues[user] if job is not self._queues[user].head())

    def add(self, job: JobState) -> None:
        job.key = self.key(job)
        self._queues.setdefault(job.job.user, Queue()).add(job)
        self._count += 1

    def remove(self, job: JobState) -> None:
        queue = self._queues[job.job.user]
        queue.remove(job)
        if not queue:
            del self._queues[job.job.user]
        self._count -= 1

    def head(self) -> JobState | None:
        for user in self._order():
            return self._queues[user].head()
        return None

    def later(self, head: JobState, memo: tuple[int, int] | None) -> Iterator[JobState]:
        for user in self._order():
            job = self._queues[user].head()
            if job is not None and job is not head:
                yield job

    def looked_at(self) -> list[JobState]:
        heads = (self._queues[user].head() for user in self._order())
        return [head for head in heads if head is not None]

    def count_lacking(self, cluster: Cluster, counts: list[int]) -> None:
        for queue in self._queues.values():
            head = queue.head()
            if head is not None:
                count_lack(cluster, head, counts)

    def charged(self, job: JobState, change: tuple[int, ...]) -> None:
        used = self._used.setdefault(job.job.user, [0] * len(change))
        for i, amount in enumerate(change):
            used[i] += amount
        if not any(used):
            del self._used[job.job.user]

    def forget_charges(self) -> None:
        self._used.clear()

    def may_use_more(self, job: JobState, charge: tuple[int, ...], quota: list[int]) -> bool:
        if not self._limit_factor:
            return True
        active = sorted({*self._queues, *self._used, job.job.user})
        share = Fraction(self._weight(job.job.user), sum(self._weight(user) for user in active))
        used = self._used.get(job.job.user, [0] * len(charge))
        return all(
            have + more <= self._limit_factor * share * limit
            for have, more, limit in zip(used, charge, quota, strict=True)
        )

    def _weight(self, user: str) -> int:
        return self._weights.get(user, 1)

    def _order(self) -> list[str]:
        def place(user: str) -> tuple[Fraction, str]:
            # With a vector quota the largest amount decides; amounts of one dimension are compared with each other.
            return (Fraction(max(self._used.get(user, [0])), self._weight(user)), user)

        return sorted(self._queues, key=place)
