"""The progress of applied services and databases: whether the applied version is ready or has failed."""

from __future__ import annotations

from typing import NamedTuple

from cress.model.records import OVER_WORDS
from cress.protocol.job_views import AppliedJob, JobView

# Seconds between two checks.
PAUSE = 0.25
# Successive failures that count as final, as for a rollback.
UNFIT = 3
AGAIN = "there is no earlier version to restore, so it is tried again and again (stop: cress cancel {})"


class Progress(NamedTuple):
    """The progress of a job: ready, failed because of a ``problem``, or waiting for the reason ``waits``.

    After a ``late`` problem the job may still become ready. A first version whose task does not become ready after
    ``failures`` in a row is ``failing``: there is no version to return to, and it may only wait for another job of the
    file.
    """

    ready: bool = False
    problem: str = ""
    waits: str = ""
    late: bool = False
    failing: bool = False
    failures: int = 0


def progress_of(job: AppliedJob, view: JobView) -> Progress:
    """Return the progress of the applied version of a job."""
    service = view.service
    if view.state in OVER_WORDS:
        again = view.reason.startswith(view.state)
        return Progress(problem=view.reason if again else f"it is {view.state}{view.reason and f': {view.reason}'}")
    if job.version is None or service is None:
        return Progress(ready=True)
    if service.returned and service.returned_version == job.version:
        return Progress(problem=service.returned_because)
    if service.version != job.version:
        return Progress(
            problem=f"version {service.version} has taken the place of version {job.version} before that was ready; "
            "the job was applied or updated again"
        )
    if not service.updating and min(service.ready, service.updated) >= service.wanted:
        return Progress(ready=True)
    if service.failing:
        return Progress(waits=service.failing, failing=True, failures=service.failures)
    return Progress(waits=service.waits or view.reason or f"{service.ready} of {service.wanted} tasks are ready")
