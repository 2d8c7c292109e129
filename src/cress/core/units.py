"""Units of several jobs: who leads one, and whether any may have formed or dissolved (design note 0016)."""

from __future__ import annotations

from cress.core.jobs import JobEntry
from cress.core.tables.dependencies import DependencyTable, JobKey


class Units:
    """Jobs that lead units of several jobs."""

    def __init__(self, dependencies: DependencyTable) -> None:
        self.dependencies = dependencies
        # True if a change may have formed or dissolved units since the last check.
        self.in_doubt = False
        # Jobs that lead units; below, the leaders with companions that still run.
        self.leaders: dict[int, JobEntry] = {}
        self.rejoining: dict[int, JobEntry] = {}
        # Jobs that wait to start together, by their sets; below, the sets that may have changed since the last check.
        self.sets: dict[int, dict[int, JobEntry]] = {}
        self.changed_sets: set[int] = set()

    def enter(self, job: JobEntry) -> None:
        """Enter a job in its set, if it waits to start with others."""
        if job.job.starts_with and not job.begun:
            self.sets.setdefault(job.job.starts_with, {})[job.job.id] = job
            self.changed_sets.add(job.job.starts_with)

    def leave(self, job: JobEntry) -> None:
        """Remove a job from its set, if it is in one."""
        jobs = self.sets.get(job.job.starts_with)
        if jobs is not None and jobs.pop(job.job.id, None) is not None and not jobs:
            del self.sets[job.job.starts_with]

    def begin(self, job: JobEntry) -> None:
        """Let a job start by itself from now on: it has started, or the others of its unit have."""
        job.begun = True
        self.leave(job)

    def concern(self, job: JobEntry) -> bool:
        """Return True if a job depends on others, or others on it."""
        return self.dependencies.concern(job.job.id, JobKey(job.group.name, job.job.name))

    def doubt(self, job: JobEntry) -> None:
        """Let units be checked if they may concern a job, which changed."""
        if self.concern(job):
            self.in_doubt = True
