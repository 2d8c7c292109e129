"""Limits on running jobs (design note 0031): the waiting jobs that they let start.

A job kept back by a limit is passed over as if it did not wait: it delays no other job and gets no reservation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cress.core.accounts import AtBound, Owned
from cress.core.jobs import GroupState, JobEntry
from cress.core.running_jobs import LimitTrial, first_reached


def members_of(job: JobEntry) -> list[Owned]:
    """Return the jobs with a task in the next unit of a job."""
    return [job.owned, *(other.owned for other, _ in job.unit())] if job.companions else [job.owned]


def limit_reached(job: JobEntry) -> AtBound | None:
    """Return the limit that keeps the next unit of a job from starting; ``None`` without one."""
    counters = job.group.counters
    return first_reached(members_of(job), counters) if counters else None


def head_of(group: GroupState) -> JobEntry | None:
    """Return the first waiting job of a group that its limits let start; ``None`` without one."""
    return next(within(group, group.policy), None) if group.counters else group.policy.head()


def may_start_more(group: GroupState) -> bool:
    """Return True if the limits of a group let a job in its queue start."""
    if not group.counters:
        return len(group.policy) > 0
    return len(group.policy) > 0 and group.queue_counts[0].any_may_start(group.counters)


def may_run(group: GroupState) -> bool:
    """Return True if a group has jobs that hold room or whose start its limits allow."""
    return group.jobs > 0 and bool(not group.counters or group.attempts or group.claims or may_start_more(group))


def that_may_start(group: GroupState, jobs: Iterable[JobEntry]) -> Iterator[JobEntry]:
    """Yield the waiting jobs among these that the limits of a group let start one after the other."""
    if not group.counters:
        yield from jobs
        return
    trial = LimitTrial(group.counters)
    for job in jobs:
        if trial.take(members_of(job)):
            yield job


def within(group: GroupState, jobs: Iterable[JobEntry]) -> Iterator[JobEntry]:
    """Yield the waiting jobs among these that the limits of a group let start, each by itself."""
    return (job for job in jobs if limit_reached(job) is None) if group.counters else iter(jobs)
