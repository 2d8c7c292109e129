"""Follows applied services and databases until they are ready or have failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from cress.client import calls
from cress.client.aio.patient import AsyncPatientHttp
from cress.client.aio.runtime import sleep
from cress.client.applied import AGAIN, PAUSE, UNFIT, Progress, progress_of
from cress.client.errors import JobFailed
from cress.client.waiting import Waiting, logger
from cress.protocol.job_views import AppliedJob


async def follow(
    applied: Sequence[AppliedJob],
    timeout: float | None,
    center: AsyncPatientHttp,
    tell: Callable[[AppliedJob, Progress], None],
) -> None:
    """Follow jobs until each is ready or has failed; after ``timeout`` seconds a job has failed.

    ``tell`` receives each of these ends. Before that it receives the reason why a job waits, if the wait is long.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    left = [(job, Waiting()) for job in applied]
    # By job, its failures when another job became ready, on which it may depend.
    before: dict[int, int] = {}
    first = True
    while left:
        late = deadline is not None and time.monotonic() >= deadline
        looked: list[tuple[AppliedJob, Waiting, Progress]] = []
        for job, waiting in left:
            found = progress_of(job, await center.ask(calls.job(job.id)))
            if late and found.waits:
                found = Progress(
                    problem=f"not ready after {timeout:g} s: {found.waits}; the applied changes go on", late=True
                )
            looked.append((job, waiting, found))
        early = any(found.waits and not found.failing for _, _, found in looked)
        if not first and any(found.ready for _, _, found in looked):
            before = {job.id: found.failures for job, _, found in looked}
        first = False
        left = []
        for job, waiting, found in looked:
            # The job fails, or runs for too long without being ready.
            enough = found.failures < UNFIT or found.failures - before.get(job.id, 0) >= UNFIT
            if found.failing and not early and enough:
                tell(job, Progress(problem=f"{found.waits}; {AGAIN.format(job.id)}"))
            elif not found.waits:
                tell(job, found)
            else:
                left.append((job, waiting))
                if waiting.tells(found.waits):
                    tell(job, found)
        if left:
            await sleep(PAUSE)


async def ready(applied: Sequence[AppliedJob], timeout: float | None, center: AsyncPatientHttp) -> None:
    """Wait until all are ready. Raises JobFailed or TimeoutError for the first failed job, once all have ended."""
    failed: list[tuple[AppliedJob, Progress]] = []

    def tell(job: AppliedJob, progress: Progress) -> None:
        if progress.waits:
            logger.warning("job %d (%s) is not ready: %s", job.id, job.name, progress.waits)
        elif progress.problem:
            failed.append((job, progress))

    await follow(applied, timeout, center, tell)
    for job, progress in failed:
        sentence = f"job {job.id} ({job.name}): {progress.problem}"
        if progress.late:
            raise TimeoutError(sentence)
        raise JobFailed(sentence, await center.ask(calls.job(job.id)), {}, "")
