"""Reasons that keep a job out of its queue."""

from __future__ import annotations

from cress.core.jobs import JobEntry
from cress.core.placing.vetoes import Verdict
from cress.model.times import NEVER


def out_of_queue(job: JobEntry) -> Verdict | None:
    """Return the reason why a job offers no unit; ``None`` if it may offer one.

    A gang that starts as a whole offers one only while none of its tasks runs.
    """
    if job.held:
        return Verdict.HELD
    if job.behind is not None:
        return Verdict.AFTER
    incomplete = job.job.gang and (job.attempts or job.claims or job.later)
    if not job.waiting or (incomplete and (job.claims or not job.starts_in_part)):
        return _busy(job)
    return Verdict.FULL if job.full else None


def has_unreleased(job: JobEntry) -> bool:
    """Return whether tasks of a job wait for single tasks of another one, besides any in backoff."""
    return bool(job.later) and next(iter(job.later.values())) == NEVER


def _busy(job: JobEntry) -> Verdict:
    """Return the state of the tasks of a job that has none to offer."""
    if job.has_claimed:
        return Verdict.VICTIMS
    if job.job.gang and job.attempts:
        return Verdict.GANG_RUNS
    if job.later:
        # Tasks that are not released were entered with the job, before those in backoff; an invariant holds that.
        return Verdict.AFTER_TASKS if job.later[next(reversed(job.later))] == NEVER else Verdict.BACKOFF
    return Verdict.TOGETHER if job.carried else Verdict.FULL
