"""Counters of running jobs, for the limits of groups on all users and on each user (design note 0031).

A job runs while one of its attempts runs, or while it has a claim. All tasks of a service or database are one job. A
running job takes no further place of a limit, so its other tasks may start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from cress.core.accounts import Account, AtBound, Charged, Owned
from cress.model.group import Group

_Key = TypeVar("_Key")


class RunningJobs(Account):
    """The jobs that count for the limits of one group: those of the group and of groups below it."""

    __slots__ = ("_jobs", "_jobs_of", "group", "most", "most_per_user", "users")

    def __init__(self, group: str, most: int | None, most_per_user: int | None) -> None:
        self.group = group
        self.most = most
        self.most_per_user = most_per_user
        self.forget()

    def forget(self) -> None:
        # Attempts and claims of each job, and of each job by user, because an update may give a service another user.
        self._jobs: dict[int, int] = {}
        self._jobs_of: dict[Owned, int] = {}
        # The number of running jobs of each user.
        self.users: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def begin(self, attempt: Charged) -> None:
        job = attempt.job.owned
        number, user = job
        self._jobs[number] = self._jobs.get(number, 0) + 1
        count = self._jobs_of.get(job, 0)
        self._jobs_of[job] = count + 1
        if not count:
            self.users[user] = self.users.get(user, 0) + 1

    def end(self, attempt: Charged) -> None:
        job = attempt.job.owned
        number, user = job
        _less(self._jobs, number)
        if _less(self._jobs_of, job):
            _less(self.users, user)

    # A claim counts like an attempt.
    claim, drop = begin, end

    def running(self) -> Iterable[int]:
        """Return the running jobs."""
        return self._jobs.keys()

    def has_place(self, user: str) -> bool:
        """Return True if one more job of a user may run."""
        return (self.most is None or len(self._jobs) < self.most) and (
            self.most_per_user is None or self.users.get(user, 0) < self.most_per_user
        )

    def is_over(self, user: str) -> bool:
        """Return True if the running jobs, of all users or of this one, exceed the limit."""
        return (self.most is not None and len(self._jobs) > self.most) or (
            self.most_per_user is not None and self.users.get(user, 0) > self.most_per_user
        )

    def reached(self, job: Owned, more: Taken) -> AtBound | None:
        """Return the limit that keeps a task of a job from starting, beside the places in ``more``; ``None`` without
        one.
        """
        number, user = job
        jobs = len(self._jobs) + len(more.jobs)
        if self.most is not None and jobs >= self.most and number not in self._jobs and number not in more.jobs:
            return AtBound(self.group, self.most, jobs)
        if self.most_per_user is None:
            return None
        theirs = self.users.get(user, 0) + more.users.get(user, 0)
        if theirs >= self.most_per_user and job not in self._jobs_of and job not in more.jobs_of:
            return AtBound(self.group, self.most_per_user, theirs, user=user)
        return None

    def take(self, job: Owned, more: Taken) -> None:
        """Add the places that a job needs, if any, to ``more``."""
        number, user = job
        if number not in self._jobs:
            more.jobs.add(number)
        if job not in self._jobs_of and job not in more.jobs_of:
            more.jobs_of.add(job)
            more.users[user] = more.users.get(user, 0) + 1

    def counts(self) -> tuple[dict[int, int], dict[Owned, int], dict[str, int]]:
        """Return all counts, for comparison."""
        return self._jobs, self._jobs_of, self.users


def counter_of(spec: Group) -> RunningJobs | None:
    """Return a counter for the limits on running jobs of a group; ``None`` if it has none."""
    limits = spec.limits
    return RunningJobs(spec.name, limits.running, limits.running_per_user) if limits.at_start else None


class Taken:
    """Places of a limit that several jobs would take, if started together or one by one."""

    __slots__ = ("jobs", "jobs_of", "users")

    def __init__(self, other: Taken | None = None) -> None:
        self.jobs: set[int] = set() if other is None else set(other.jobs)
        self.jobs_of: set[Owned] = set() if other is None else set(other.jobs_of)
        self.users: dict[str, int] = {} if other is None else dict(other.users)


_NOTHING = Taken()


class LimitTrial:
    """A trial of units that start one by one, as far as limits allow."""

    def __init__(self, counters: Sequence[RunningJobs]) -> None:
        self._counters = [(counter, Taken()) for counter in counters]

    def take(self, members: Sequence[Owned]) -> bool:
        """Let a unit of these jobs start if the limits allow it; return True if they do."""
        after = []
        for counter, before in self._counters:
            more = before if len(members) == 1 else Taken(before)
            for job in members:
                if counter.reached(job, more) is not None:
                    return False
                if len(members) > 1:
                    counter.take(job, more)
            after.append((counter, more))
        if len(members) == 1:
            for counter, more in after:
                counter.take(members[0], more)
        self._counters = after
        return True


def first_reached(members: Sequence[Owned], counters: Sequence[RunningJobs]) -> AtBound | None:
    """Return the first limit that keeps a unit of these jobs from starting; ``None`` if none does."""
    for counter in counters:
        more = _NOTHING if len(members) == 1 else Taken()
        for job in members:
            limit = counter.reached(job, more)
            if limit is not None:
                return limit
            if len(members) > 1:
                counter.take(job, more)
    return None


class QueuedJobs:
    """The jobs in the queue of a group with limits: their number by job and by user."""

    __slots__ = ("_jobs", "_users")

    def __init__(self) -> None:
        self._jobs: dict[int, dict[str, int]] = {}
        self._users: dict[str, int] = {}

    def add(self, job: Owned) -> None:
        """Count a queued job."""
        number, user = job
        users = self._jobs.setdefault(number, {})
        users[user] = users.get(user, 0) + 1
        self._users[user] = self._users.get(user, 0) + 1

    def remove(self, job: Owned) -> None:
        """Count a job that leaves the queue."""
        number, user = job
        _less(self._jobs[number], user)
        if not self._jobs[number]:
            del self._jobs[number]
        _less(self._users, user)

    def any_may_start(self, counters: Sequence[RunningJobs]) -> bool:
        """Return True if the limits allow a task of any of these jobs to start."""
        if any(all(counter.has_place(user) for counter in counters) for user in self._users):
            return True
        # Running jobs need no further place.
        running = min(counters, key=len).running()
        return any(
            first_reached([(number, user)], counters) is None
            for number in running
            for user in self._jobs.get(number, ())
        )


def _less(counts: dict[_Key, int], key: _Key) -> bool:
    """Subtract one; return True if the count is zero and the key removed."""
    counts[key] -= 1
    if counts[key]:
        return False
    del counts[key]
    return True
