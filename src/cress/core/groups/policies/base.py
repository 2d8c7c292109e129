"""Policies: the interface to the cycle, with first come, first served as its default."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice, takewhile
from typing import Generic, Self

from cress.core.groups.policies.queue import J, Queue
from cress.core.placing.fit import Fit
from cress.core.tables.arrays import Ints
from cress.model.group import Group
from cress.model.options import Options
from cress.model.times import NEVER

# Jobs ahead of one that a forecast looks at: of more, the others count as these do.
MOST_AHEAD = 200


class Policy(Generic[J]):
    """First come, first served over one queue; the other policies change the key or offer more than the head."""

    # Whether jobs behind the head are offered when the head does not fit.
    offers_more = False
    # Whether the head may be passed by jobs that wait for less time, so that it does not keep its turn by itself.
    overtakes = False
    # Whether users have limits, so that a head may be passed over.
    limits_users = False
    # Whether of jobs that are alike none starts before one that is ``ahead`` of it, is planned for no longer and can
    # still be in time.
    keeps_order = False
    # Whether every waiting job has a planned start.
    plans = False
    # Whether keys change with time; each is valid until ``key_until``.
    timed = False

    def __init__(self) -> None:
        self.queue: Queue[J] = Queue()
        # Set by the cycle when the job that ``later`` yielded last was passed over for its user or group: that says
        # nothing of jobs like it.
        self.spared = False
        # The time at which keys were computed, and the first one at which one of them may change.
        self.now = 0
        self._change = NEVER

    @classmethod
    def of(cls, group: Group, options: Options, fit: Fit) -> Self:
        """Make the policy of a group, with the group's own options; ``fit`` is the fit table of the cluster."""
        return cls()

    def __len__(self) -> int:
        return len(self.queue)

    def __iter__(self) -> Iterator[J]:
        """Yield the waiting jobs in their order."""
        return iter(self.queue)

    def key(self, job: J) -> tuple[int, int]:
        """Return the place of a job in the order at ``self.now``: unique, and unchanged until ``key_until``."""
        return (job.submitted, job.job.id)

    def key_until(self, job: J) -> int:
        """Return the time (µs) until which the key of a job is valid; only for policies that are ``timed``."""
        return NEVER

    def next_change(self) -> int:
        """Return the earliest time at which a key may change; NEVER while none changes by itself."""
        return self._change

    def pass_time(self, now: int) -> bool:
        """Advance the time to ``now``, and compute keys that may have changed again. Return whether there were any."""
        self.now = now
        if now < self._change:
            return False
        self._change = NEVER
        self.fill(list(self))
        return True

    def add(self, job: J) -> None:
        """Add a job that has a waiting task (again)."""
        job.key = self.key(job)
        if self.timed:
            self._change = min(self._change, self.key_until(job))
        self.queue.add(job)

    def fill(self, jobs: Collection[J]) -> None:
        """Take these as the waiting jobs, with their keys as of now."""
        for job in jobs:
            job.key = self.key(job)
            if self.timed:
                self._change = min(self._change, self.key_until(job))
        self.queue.fill(jobs)

    def remove(self, job: J) -> None:
        """Remove a job that has no waiting task left."""
        self.queue.remove(job)

    def reshaped(self, job: J) -> None:
        """Take note of the new shape of a waiting job."""
        self.queue.reshaped(job)

    def revalued(self, job: J) -> None:
        """Take note of the new estimate of a waiting job."""

    def work(self) -> int:
        """Return the work of the waiting jobs (µs of a millicore), for policies that bound waits by it."""
        return 0

    def ahead(self, job: J) -> tuple[list[J], int]:
        """Return the first ``MOST_AHEAD`` waiting jobs that are likely to go before this one, and their whole number.

        The job itself need not be queued.
        The number may be too large if there are more than these.
        """
        found = list(islice(takewhile(lambda other: other is not job, self), MOST_AHEAD))
        return found, len(found) if len(found) < MOST_AHEAD else len(self)

    def head_is_overdue(self) -> bool:
        """Return whether the head must not be delayed by a wrong estimate any more; only for policies that are
        ``timed``.
        """
        return False

    def head(self) -> J | None:
        """Return the job whose next unit is offered first."""
        return self.queue.head()

    def later(self, head: J, memo: tuple[int, tuple[int, ...]] | None) -> Iterator[J]:
        """Yield the jobs that are offered when ``head`` does not fit; only for policies with ``offers_more``.

        ``memo`` identifies the state of the cluster; as long as it stays the same, a job
        that was offered and not placed need not come again. With ``None`` all jobs are offered.
        """
        return iter(())

    def looked_at(self) -> list[J]:
        """Return the jobs that may be offered at all, in order."""
        head = self.head()
        return [] if head is None else [head]

    def looks_at(self, job: J) -> bool:
        """Return whether the job may be offered at all."""
        return job is self.head()

    def outranks(self, job: J, other: J, start: int) -> bool:
        """Return whether ``job`` has a higher priority than a task of ``other`` that started at ``start``, before the
        job came.

        A task that started while the job waited was put before it by the policy: to stop it would undo that decision.
        """
        return job.job.priority > other.job.priority and start < job.since

    def set_quota(self, quota: list[int]) -> None:
        """Take over the quota of the group, in its measures."""

    def count_lacking(self, fit: Fit, counts: Ints) -> None:
        """Add to ``counts``, per dimension, the jobs that are offered in this pass and the next ones and lack it
        everywhere.

        At most ``MOST_PENDING`` of a queue are looked at.
        """
        self.queue.count_lacking(fit, counts)

    def count_behind(self, head: J, fit: Fit, counts: Ints) -> None:
        """``count_lacking`` for ``head``, one of ``looked_at``, and the jobs that wait behind it alone."""
        self.queue.count_lacking(fit, counts)

    def charged(self, job: J, change: tuple[int, ...]) -> None:
        """Add a charge, which may be negative, to the user of ``job``."""

    def forget_charges(self) -> None:
        """Reset the charges of users, before they are charged again."""

    def may_use_more(self, job: J, charge: tuple[int, ...], quota: list[int]) -> bool:
        """Return whether the policy's own limit lets the user of ``job`` start one more unit."""
        return True
