"""Policies: the interface to the cycle, with first come, first served as the default."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice, takewhile
from typing import Any, Generic, Self, TypeAlias

from cress.core.accounts import Account, AtBound
from cress.core.groups.policies.queue import J, Queue
from cress.core.placing.fit import Fit
from cress.core.tables.arrays import Ints
from cress.model.group import Group
from cress.model.options import Options
from cress.model.times import NEVER

# The number of jobs ahead that a forecast examines; further jobs count as the average of these.
MOST_AHEAD = 200

# Tells whether a waiting job waits for something other than room. Such a job is offered, but takes no place of another.
PassedOver: TypeAlias = Callable[[Any], bool]


def nobody(_job: object) -> bool:
    """Return False: no job is passed over."""
    return False


def first_places(jobs: Iterable[J], places: int, passed_over: PassedOver) -> Iterator[J]:
    """Yield the jobs up to the one that takes the last of these ``places``; jobs passed over take none."""
    for job in jobs:
        yield job
        places -= not passed_over(job)
        if places <= 0:
            return


class Policy(Generic[J]):
    """First come, first served over one queue; other policies change the key or offer more than the head."""

    # True if jobs behind the head are offered when the head does not fit.
    offers_more = False
    # True if jobs that wait for less time may pass the head, so that it does not keep its turn by itself.
    overtakes = False
    # True if users have limits, so that a head may be passed over.
    limits_users = False
    # True if, among similar jobs, none starts before one that is ``ahead`` of it, has at most its planned duration and
    # can still be in time.
    keeps_order = False
    # True if every waiting job has a planned start.
    plans = False
    # The accounts of its own that tasks of the group are charged to.
    accounts: tuple[Account, ...] = ()
    # True if keys change with time; each is valid until ``key_until``.
    timed = False

    def __init__(self) -> None:
        self.queue: Queue[J] = Queue()
        # Set by the cycle when the last job from ``later`` was passed over for its user or group, which says nothing
        # about similar jobs.
        self.spared = False
        # The time at which keys were computed; below, the earliest time at which one may change.
        self.now = 0
        self._change = NEVER

    @classmethod
    def of(cls, group: Group, options: Options, fit: Fit) -> Self:
        """Make the policy of a group, with its own options; ``fit`` is the fit table of the cluster."""
        return cls()

    def __len__(self) -> int:
        return self.queue.count

    def __iter__(self) -> Iterator[J]:
        """Yield the waiting jobs in their order."""
        return iter(self.queue)

    def key(self, job: J) -> tuple[int, int]:
        """Return the sort key of a job at ``self.now``: unique, and unchanged until ``key_until``."""
        return (job.submitted, job.job.id)

    def key_until(self, job: J) -> int:
        """Return the time (µs) until which the key of a job is valid; only for ``timed`` policies."""
        return NEVER

    def next_change(self) -> int:
        """Return the earliest time (µs) at which a key may change; NEVER while none changes by itself."""
        return self._change

    def pass_time(self, now: int) -> bool:
        """Advance the time to ``now`` (µs), and update keys that may have changed; return True if there were any."""
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
        """Replace the waiting jobs by these, with their keys as of now."""
        for job in jobs:
            job.key = self.key(job)
            if self.timed:
                self._change = min(self._change, self.key_until(job))
        self.queue.fill(jobs)

    def remove(self, job: J) -> None:
        """Remove a job without waiting tasks."""
        self.queue.remove(job)

    def reshaped(self, job: J) -> None:
        """Update the shape of a waiting job."""
        self.queue.reshaped(job)

    def revalued(self, job: J) -> None:
        """Update the estimate of a waiting job."""

    def work(self) -> int:
        """Return the work of the waiting jobs (µs × millicores), for policies that bound waiting times by it."""
        return 0

    def ahead(self, job: J) -> tuple[list[J], int]:
        """Return the first ``MOST_AHEAD`` waiting jobs that probably precede this one, and the number of all of them.

        The job itself need not be queued. Beyond ``MOST_AHEAD`` the number may be too large.
        """
        found = list(islice(takewhile(lambda other: other is not job, self), MOST_AHEAD))
        return found, len(found) if len(found) < MOST_AHEAD else len(self)

    def head_is_overdue(self) -> bool:
        """Return True if a wrong estimate must delay the head no longer; only for ``timed`` policies."""
        return False

    def head(self) -> J | None:
        """Return the job whose next unit is offered first."""
        return self.queue.head

    def later(self, head: J, memo: tuple[int, tuple[int, ...]] | None, passed_over: PassedOver = nobody) -> Iterator[J]:
        """Yield the jobs that are offered when ``head`` does not fit; only for policies with ``offers_more``.

        ``memo`` identifies the state of the cluster; while it stays the same, a job that was offered and not placed
        need not be offered again. With ``None`` all jobs are offered.
        """
        return iter(())

    def looked_at(self, passed_over: PassedOver = nobody) -> list[J]:
        """Return the jobs that may be offered at all, in order."""
        return list(first_places(self.queue.first_ones(), 1, passed_over))

    def looks_at(self, job: J, passed_over: PassedOver = nobody) -> bool:
        """Return True if the job may be offered at all."""
        return job is self.head() or (passed_over is not nobody and job in self.looked_at(passed_over))

    def outranks(self, job: J, other: J, start: int) -> bool:
        """Return True if ``job`` has a higher priority than a task of ``other`` that started at ``start``, before the
        job came.

        A task that started while the job waited was preferred by the policy; to stop it would undo that decision.
        """
        return job.job.priority > other.job.priority and start < job.since

    def set_quota(self, quota: list[int]) -> None:
        """Take over the quota of the group, in its measures."""

    def count_lacking(self, fit: Fit, counts: Ints) -> None:
        """Add to ``counts``, per dimension, the jobs offered in this pass and the next ones that lack it on every
        node.

        At most ``MOST_PENDING`` jobs of a queue are examined.
        """
        self.queue.count_lacking(fit, counts)

    def count_behind(self, head: J, fit: Fit, counts: Ints) -> None:
        """Do ``count_lacking`` for ``head``, one of ``looked_at``, and the jobs behind it only."""
        self.queue.count_lacking(fit, counts)

    def user_at_bound(self, job: J, charge: tuple[int, ...]) -> AtBound | None:
        """Return the bound on the use of one user that keeps a unit with this charge from starting; only if
        ``limits_users``.
        """
        return None
