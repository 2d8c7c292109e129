"""Earliest deadline first, whatever a job takes; jobs without a deadline come last, by submit time."""

from __future__ import annotations

from cress.core.groups.policies.queue import J, QueuedJob
from cress.core.groups.policies.urgency import UrgencyPolicy


def _measures(job: QueuedJob) -> tuple[int, ...]:
    return job.deadline, job.run, job.least_left()


class EdfPolicy(UrgencyPolicy[J]):
    """Policy that offers all jobs by deadline.

    Those that cannot meet it any more, even if they take as small a part of their time limit as one of ten such runs,
    come last with ``late`` best_effort; with ``urgent`` that does not matter, as in EDF by the book.
    """

    by_deadline = True
    measures = staticmethod(_measures)
    columns = 3
