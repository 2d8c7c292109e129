"""The waits of recorded jobs, by group: what did happen, beside what a simulation says."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cress.model.events import Outcome
from cress.model.group import DEFAULT_GROUP
from cress.past.recorded_work import RecordedJob, RecordedWork

ALL = ""


class RecordedWaits(msgspec.Struct, kw_only=True):
    """The waits of the jobs of a group that started, in seconds; ``None`` if none did.

    ``preemptions`` are of attempts.
    """

    jobs: int
    started: int
    mean: float | None
    p95: float | None
    longest: float | None
    preemptions: int


def waits_of(work: RecordedWork) -> dict[str, RecordedWaits]:
    """Return the waits by group, those of all jobs under the name ``""``."""
    groups = sorted({job.job.group or DEFAULT_GROUP for job in work.jobs.values()})
    found = {ALL: _waits(work, work.jobs.values())}
    for name in groups:
        found[name] = _waits(work, (job for job in work.jobs.values() if (job.job.group or DEFAULT_GROUP) == name))
    return found


def _waits(work: RecordedWork, jobs: Iterable[RecordedJob]) -> RecordedWaits:
    kept = list(jobs)
    waits = sorted((job.started - max(job.submitted, work.since)) / 1e6 for job in kept if job.started is not None)
    waits = [max(0.0, wait) for wait in waits]
    preempted = sum(attempt.outcome is Outcome.PREEMPTED for job in kept for attempt in job.attempts)
    return RecordedWaits(
        jobs=len(kept),
        started=len(waits),
        mean=sum(waits) / len(waits) if waits else None,
        p95=waits[min(len(waits) - 1, round(0.95 * (len(waits) - 1)))] if waits else None,
        longest=waits[-1] if waits else None,
        preemptions=preempted,
    )
