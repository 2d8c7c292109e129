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

    def concern(self, job: JobEntry) -> bool:
        """Return True if a job depends on others, or others on it."""
        return self.dependencies.concern(job.job.id, JobKey(job.group.name, job.job.name))

    def doubt(self, job: JobEntry) -> None:
        """Let units be checked if they may concern a job, which changed."""
        if self.concern(job):
            self.in_doubt = True
