"""Past runs: a new leader learns run times of tasks from finished jobs."""

from __future__ import annotations

import logging

from cress.center.committing.committer import Committer
from cress.model.job import JobType
from cress.model.records import JobRecord
from cress.store.base import JobFilter, StoreError

# Newest finished jobs that are read.
MOST = 2_000

_log = logging.getLogger(__name__)


async def learn_past_runs(committer: Committer) -> None:
    """Let the estimator learn from finished jobs: those of one task, and gangs, whose run time is that of each task."""
    batch = JobFilter(type=JobType.BATCH.value)
    try:
        found = [
            *await committer.finished.jobs(batch, limit=MOST, before=None),
            *await committer.history.jobs(batch, limit=MOST, before=None),
        ]
    except StoreError as error:
        _log.warning("estimates of runs begin without what ran before: %s", error)
        return
    newest: dict[int, JobRecord] = {job.id: job for job in sorted(found, key=lambda job: job.ended)[-MOST:]}
    for job in newest.values():
        if job.started and (job.tasks == 1 or job.gang) and job.succeeded + job.failed:
            key = (job.user, job.name, job.group)
            committer.machine.estimator.recall(key, job.request, job.time_limit, max(0, job.ended - job.started))
