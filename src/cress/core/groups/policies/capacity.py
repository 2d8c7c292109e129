"""Capacity: users share the group; the user with the smallest use / weight goes first."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator
from fractions import Fraction
from typing import Self

from cress.core.accounts import Account, AtBound, ChargedAttempt
from cress.core.groups.policies.base import PassedOver, Policy, first_places, nobody
from cress.core.groups.policies.queue import J, Queue
from cress.core.placing.fit import Fit
from cress.core.tables.arrays import Ints
from cress.model.group import Group
from cress.model.options import Options

# Products of quota and weight stay far below 2^120, so this scale keeps different shares apart.
_SCALE = 120


class UseByUser(Account):
    """The amounts that each user of a group uses, in its measures; ``changed`` is told each user whose use changes."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self.used: dict[str, list[int]] = {}
        self._changed = changed

    def begin(self, attempt: ChargedAttempt) -> None:
        self._change(attempt, 1)

    def end(self, attempt: ChargedAttempt) -> None:
        self._change(attempt, -1)

    def _change(self, attempt: ChargedAttempt, sign: int) -> None:
        user, charge = attempt.job.job.user, attempt.charge
        used = self.used.setdefault(user, [0] * len(charge))
        for i, amount in enumerate(charge):
            used[i] += sign * amount
        if not any(used):
            del self.used[user]
        self._changed(user)

    def forget(self) -> None:
        users = list(self.used)
        self.used.clear()
        for user in users:
            self._changed(user)


class CapacityPolicy(Policy[J]):
    """Policy that offers the head of every user; FIFO for each user.

    The share of a user is the used part of the group's quota, in the measure where it is largest, divided by the
    user's weight; ties go by name. ``limit_factor`` > 0 bounds the use to that many times the user's part of the
    quota, which is divided by weight among the users with waiting or running jobs. A user without any use may always
    start one unit.
    """

    offers_more = True
    overtakes = True

    def __init__(self, group: str, weights: dict[str, int], limit_factor: float) -> None:
        super().__init__()
        self._group = group
        self._weights = weights
        self._limit_factor = Fraction(str(limit_factor))
        self.limits_users = limit_factor > 0
        self._quota: list[int] = [1]
        self._queues: dict[str, Queue[J]] = {}
        self._use = UseByUser(self._place)
        self.accounts = (self._use,)
        # The users with waiting jobs in order, and the key of each.
        self._order: list[tuple[int, str]] = []
        self._keys: dict[str, tuple[int, str]] = {}
        self._count = 0

    @classmethod
    def of(cls, group: Group, options: Options, fit: Fit) -> Self:
        return cls(group.name, dict(group.user_weights), options.user_limit_factor)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[J]:
        # The heads of users are offered first.
        yield from self.looked_at()
        for _, user in self._order:
            yield from (job for job in self._queues[user] if job is not self._queues[user].head)

    def add(self, job: J) -> None:
        job.key = self.key(job)
        user = job.job.user
        self._queues.setdefault(user, Queue()).add(job)
        self._count += 1
        self._place(user)

    def fill(self, jobs: Collection[J]) -> None:
        by_user: dict[str, list[J]] = {}
        for job in jobs:
            job.key = self.key(job)
            by_user.setdefault(job.job.user, []).append(job)
        self._count = len(jobs)
        users = {**self._queues, **by_user}
        self._queues = {user: Queue() for user in by_user}
        for user, theirs in by_user.items():
            self._queues[user].fill(theirs)
        for user in users:
            self._place(user)

    def remove(self, job: J) -> None:
        user = job.job.user
        self._queues[user].remove(job)
        if not self._queues[user]:
            del self._queues[user]
        self._count -= 1
        self._place(user)

    def head(self) -> J | None:
        return self._queues[self._order[0][1]].head if self._order else None

    def later(self, head: J, memo: tuple[int, tuple[int, ...]] | None, passed_over: PassedOver = nobody) -> Iterator[J]:
        for _, user in self._order:
            yield from (job for job in first_places(self._queues[user], 1, passed_over) if job is not head)

    def looked_at(self, passed_over: PassedOver = nobody) -> list[J]:
        queues = (self._queues[user] for _, user in self._order)
        return [job for queue in queues for job in first_places(queue.first_ones(), 1, passed_over)]

    def looks_at(self, job: J, passed_over: PassedOver = nobody) -> bool:
        queue = self._queues.get(job.job.user)
        if queue is None:
            return False
        if passed_over is nobody:
            return queue.head is job
        return queue.head is job or job in first_places(queue.first_ones(), 1, passed_over)

    def count_lacking(self, fit: Fit, counts: Ints) -> None:
        for _, user in self._order:
            self._queues[user].count_lacking(fit, counts)

    def count_behind(self, head: J, fit: Fit, counts: Ints) -> None:
        self._queues[head.job.user].count_lacking(fit, counts)

    def reshaped(self, job: J) -> None:
        self._queues[job.job.user].reshaped(job)

    def set_quota(self, quota: list[int]) -> None:
        if quota != self._quota:
            self._quota = quota
            for user in list(self._queues):
                self._place(user)

    def user_at_bound(self, job: J, charge: tuple[int, ...]) -> AtBound | None:
        user = job.job.user
        used = self._use.used.get(user)
        if not self._limit_factor or used is None:
            return None
        active = {*self._queues, *self._use.used}
        part = self._limit_factor * Fraction(self._weight(user), sum(map(self._weight, active)))
        for has, more, quota in zip(used, charge, self._quota, strict=True):
            if quota and has + more > part * quota:
                return AtBound(self._group, int(part * quota), has, more, user)
        return None

    def _weight(self, user: str) -> int:
        return self._weights.get(user, 1)

    def _place(self, user: str) -> None:
        """Move a user to the place of its share; remove a user without waiting jobs."""
        old = self._keys.pop(user, None)
        if old is not None:
            del self._order[bisect_left(self._order, old)]
        if user in self._queues:
            weight = self._weight(user)
            used = self._use.used.get(user, ())
            share = max(
                ((have << _SCALE) // (quota * weight) for have, quota in zip(used, self._quota, strict=False) if quota),
                default=0,
            )
            self._keys[user] = (share, user)
            insort(self._order, self._keys[user])
