"""The unfinished jobs of each group, and of each user in it: an index derived from the jobs, for limits (design note
0031).

Jobs with tasks of their own count: a batch job or array, a lease, a service or database with all its tasks, a run of a
cron job, a step of a dag. Cron jobs and dags themselves do not count.
"""

from __future__ import annotations

from collections import Counter

from cress.model.family import Database, Service
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job


def counts(job: Job) -> bool:
    """Return whether a job counts: it has tasks of its own, and is not a replica."""
    return job.counted_as == job.id if job.plan is None else isinstance(job.plan, Service | Database)


class GroupLoad:
    """The number of unfinished jobs, by group, and by group and user."""

    def __init__(self) -> None:
        self._groups: Counter[str] = Counter()
        self._users: Counter[tuple[str, str]] = Counter()

    def of(self, group: str, user: str | None = None) -> int:
        """Return the number of jobs of a group, or of a user in it."""
        return self._groups[group] if user is None else self._users[group, user]

    def add(self, job: Job, number: int = 1) -> None:
        """Count a new job; ``number`` -1: remove an ended one."""
        if not counts(job):
            return
        group = job.group or DEFAULT_GROUP
        self._groups[group] += number
        self._users[group, job.user] += number
        assert self._users[group, job.user] >= 0, f"a job of {job.user} in group {group} ends that was not counted"
        if not self._users[group, job.user]:
            del self._users[group, job.user]
        if not self._groups[group]:
            del self._groups[group]

    def items(self) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
        """Return all counts, for comparisons."""
        return dict(self._groups), dict(self._users)
