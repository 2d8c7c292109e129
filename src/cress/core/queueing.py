"""Reasons for which a job is in no queue."""

from __future__ import annotations

from cress.core.jobs import JobEntry
from cress.core.placing.vetoes import Verdict


def out_of_queue(job: JobEntry) -> Verdict | None:
    """Return why no unit of a job may be offered; ``None`` if one may. A gang may only when none of its tasks runs."""
    if job.held:
        return Verdict.HELD
    if job.behind is not None:
        return Verdict.AFTER
    incomplete = job.job.gang and (job.attempts or job.claims or job.later)
    if not job.waiting or (incomplete and (job.claims or not job.starts_in_part)):
        return _busy(job)
    return Verdict.FULL if job.full else None


def _busy(job: JobEntry) -> Verdict:
    """Return what all tasks of a job do that has none to offer."""
    if job.has_claimed:
        return Verdict.VICTIMS
    if job.job.gang and job.attempts:
        return Verdict.GANG_RUNS
    if job.later:
        return Verdict.BACKOFF
    return Verdict.TOGETHER if job.carried else Verdict.FULL
