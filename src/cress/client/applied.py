"""Services and databases that were applied: whether the version of the file is ready, or has failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cress.client import calls
from cress.client.effects import Operation, RetryBudget, Sleep, retried
from cress.client.errors import JobFailed
from cress.client.waiting import Waiting, logger
from cress.model.records import OVER_WORDS
from cress.protocol.views import AppliedJob, JobView

# Between two looks. Seconds.
PAUSE = 0.25
# So many failures in a row are enough, as for a rollback.
UNFIT = 3
_AGAIN = "there is no earlier version to go back to, so that it is tried again and again (stop: cress cancel {})"


class Progress(NamedTuple):
    """State of a job on its way: ready, or failed because of a ``problem`` (``late``: it may still be ready), or what
    it ``waits`` for.

    A first version whose task does not become ready is ``failing``, after so many ``failures`` in a row: there is
    nothing to go back to, and it may only be early for another job of the file.
    """

    ready: bool = False
    problem: str = ""
    waits: str = ""
    late: bool = False
    failing: bool = False
    failures: int = 0


def progress_of(job: AppliedJob, view: JobView) -> Progress:
    """Return how far the applied version of a job is."""
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


def follow(
    applied: Sequence[AppliedJob],
    timeout: float | None,
    budget: RetryBudget,
    tell: Callable[[AppliedJob, Progress], None],
) -> Operation[None]:
    """Follow jobs until each is ready or has failed, as one that is not ready after ``timeout`` seconds; ``tell`` gets
    each of these ends, and before them what a job waits for when that has lasted for a while.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    left = [(job, Waiting()) for job in applied]
    # How often a task had failed when another job became ready, which it may need.
    before: dict[int, int] = {}
    first = True
    while left:
        late = deadline is not None and time.monotonic() >= deadline
        looked: list[tuple[AppliedJob, Waiting, Progress]] = []
        for job, waiting in left:
            found = progress_of(job, (yield from retried(calls.job(job.id), budget)))
            if late and found.waits:
                found = Progress(
                    problem=f"not ready after {timeout:g} s: {found.waits}; what was applied goes on", late=True
                )
            looked.append((job, waiting, found))
        early = any(found.waits and not found.failing for _, _, found in looked)
        if not first and any(found.ready for _, _, found in looked):
            before = {job.id: found.failures for job, _, found in looked}
        first = False
        left = []
        for job, waiting, found in looked:
            # It fails, or runs for too long without being ready.
            enough = found.failures < UNFIT or found.failures - before.get(job.id, 0) >= UNFIT
            if found.failing and not early and enough:
                tell(job, Progress(problem=f"{found.waits}; {_AGAIN.format(job.id)}"))
            elif not found.waits:
                tell(job, found)
            else:
                left.append((job, waiting))
                if waiting.tells(found.waits):
                    tell(job, found)
        if left:
            yield Sleep(PAUSE)


def ready(applied: Sequence[AppliedJob], timeout: float | None, budget: RetryBudget) -> Operation[None]:
    """Wait until all are ready. Raises JobFailed or TimeoutError for the first that is not, when no other is left."""
    failed: list[tuple[AppliedJob, Progress]] = []

    def tell(job: AppliedJob, progress: Progress) -> None:
        if progress.waits:
            logger.warning("job %d (%s) is not ready: %s", job.id, job.name, progress.waits)
        elif progress.problem:
            failed.append((job, progress))

    yield from follow(applied, timeout, budget, tell)
    for job, progress in failed:
        sentence = f"job {job.id} ({job.name}): {progress.problem}"
        if progress.late:
            raise TimeoutError(sentence)
        raise JobFailed(sentence, (yield from retried(calls.job(job.id), budget)), {}, "")
