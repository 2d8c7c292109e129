"""Limits on running jobs (design note 0031): which waiting jobs they let start.

A job that cannot start for a limit is passed over, as if it did not wait: it neither holds up others nor gets a
reservation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cress.core.jobs import GroupState, JobEntry
from cress.core.placing.vetoes import Reached
from cress.core.running_jobs import LimitTrial, Owned, first_reached


def members_of(job: JobEntry) -> list[Owned]:
    """Return the jobs of which a task starts with the next unit of a job."""
    return [job.owned, *(other.owned for other, _ in job.unit())] if job.companions else [job.owned]


def limit_reached(job: JobEntry) -> Reached | None:
    """Return the limit that keeps the next unit of a job from starting; ``None`` if none does."""
    counters = job.group.counters
    return first_reached(members_of(job), counters) if counters else None


def head_of(group: GroupState) -> JobEntry | None:
    """Return the first of the waiting jobs of a group that its limits let start."""
    return next(within(group, group.policy), None) if group.counters else group.policy.head()


def may_start_more(group: GroupState) -> bool:
    """Return whether a job waits in the queue of a group that its limits let start."""
    return len(group.policy) > 0 and (not group.counters or group.waiting_jobs.any_may_start(group.counters))


def that_may_start(group: GroupState, jobs: Iterable[JobEntry]) -> Iterator[JobEntry]:
    """Yield those of these waiting jobs of a group that its limits let start, one after the other."""
    if not group.counters:
        yield from jobs
        return
    trial = LimitTrial(group.counters)
    for job in jobs:
        if trial.take(members_of(job)):
            yield job


def within(group: GroupState, jobs: Iterable[JobEntry]) -> Iterator[JobEntry]:
    """Yield those of these waiting jobs of a group that its limits let start, each by itself."""
    return (job for job in jobs if limit_reached(job) is None) if group.counters else iter(jobs)
