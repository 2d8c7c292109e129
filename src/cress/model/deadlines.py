"""Deadlines of finished jobs."""

from __future__ import annotations

from cress.model.job import JobType
from cress.model.records import JobRecord, JobState
from cress.model.run import Run


def deadline_of(job: JobRecord, run: Run) -> int:
    """Return the deadline of a finished job in µs since the epoch; 0 if it had none."""
    if job.type == JobType.CRON.value:
        return 0
    return run.deadline or (job.submitted + run.within if run.within else 0)


def met(job: JobRecord, run: Run) -> bool | None:
    """Return whether a job succeeded by its deadline; ``None`` if it had none or was cancelled before it."""
    deadline = deadline_of(job, run)
    if not deadline or (job.state is JobState.CANCELLED and job.ended <= deadline):
        return None
    return job.state is JobState.SUCCEEDED and job.ended <= deadline
