"""The unfinished jobs of each group, and of each user in it: an index derived from the jobs, for limits (design note
0031).

Jobs with tasks of their own count: a batch job or array, a lease, a service or database with all its tasks, a run of a
cron job, a step of a dag. Cron jobs and dags themselves do not count.
"""

from __future__ import annotations

from cress.core.accounts import Numbers
from cress.model.family import Database, Service
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job


def counts(job: Job) -> bool:
    """Return whether a job counts: it has tasks of its own, and is not a replica."""
    return job.counted_as == job.id if job.plan is None else isinstance(job.plan, Service | Database)


class GroupLoad:
    """The number of unfinished jobs, by group, and by group and user."""

    def __init__(self) -> None:
        self._groups: dict[str, Numbers] = {}

    def of(self, group: str, user: str | None = None) -> int:
        """Return the number of jobs of a group, or of a user in it."""
        return self._groups[group].of(user) if group in self._groups else 0

    def add(self, job: Job, sign: int = 1) -> None:
        """Count a new job; ``sign`` -1: remove an ended one."""
        if not counts(job):
            return
        group = job.group or DEFAULT_GROUP
        self._groups.setdefault(group, Numbers()).add(job.user, sign)
        if not self._groups[group].total:
            del self._groups[group]

    def items(self) -> dict[str, dict[str, int]]:
        """Return all counts, for comparisons."""
        return {group: numbers.users for group, numbers in self._groups.items()}
