"""Earliest deadline first, for any length of job; jobs without a deadline come last, by submit time."""

from __future__ import annotations

from cress.core.groups.policies.queue import J, QueuedJob
from cress.core.groups.policies.urgency import UrgencyPolicy
from cress.core.job_times import least_left


def _measures(job: QueuedJob) -> tuple[int, ...]:
    return job.deadline, job.run, least_left(job)


class EdfPolicy(UrgencyPolicy[J]):
    """Policy that offers all jobs by deadline.

    With ``late`` best_effort, jobs that can no longer meet their deadline come last: those that are late even with as
    small a part of the time limit as one in ten such runs takes. With ``urgent`` they keep their place, as in textbook
    EDF.
    """

    by_deadline = True
    measures = staticmethod(_measures)
    columns = 3
