"""The mover: moves finished work from the store into the history, and removes expired records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial

from cress.center.committing.committer import Committer, NotStored
from cress.center.committing.lookup import group_of
from cress.center.keeping import event_log as eventlog
from cress.lifecycle.tables.rows import LiveJob
from cress.model.deadlines import met
from cress.model.records import AttemptRecord, JobRecord
from cress.model.resources import Dimensions
from cress.shell.center.runs import decode_run, encode_run, run_of
from cress.store.base import Batch, StoreError
from cress.store.usage import Weight

# Attempts moved together, and seconds between two moves, in which other commits take place.
BATCH, PAUSE = 500, 0.1
# Seconds between two checks, and after a failure to write the history.
INTERVAL, RETRY = 10.0, 30.0
# Seconds between two checks for expired records.
RETENTION = 600.0

# Indexes of the dimensions that every cluster has, which come before custom ones.
INDEX = Dimensions().index

_log = logging.getLogger("cress.center")


class Mover:
    """Moves and removes records while ``run`` runs; ``problem`` says why the history cannot be written."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self.problem = ""
        self._next_retention = 0.0

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await asyncio.sleep(RETRY if self.problem else INTERVAL)
            try:
                await self.work()
            except (StoreError, NotStored, OSError) as error:
                if self.problem != str(error):
                    _log.warning("finished work stays in the store: %s", error)
                self.problem = str(error)
            except Exception:  # noqa: BLE001 – tried again as long as the center runs
                self.problem = "the mover failed; see the center's log"
                _log.exception(self.problem)
            else:
                self.problem = ""

    async def work(self) -> None:
        """Move all finished work, then remove expired records if that is due."""
        while await self.move():  # noqa: ASYNC110 – the pause makes room, it waits for nothing
            await asyncio.sleep(PAUSE)
        now = asyncio.get_running_loop().time()
        if now >= self._next_retention:
            await self.retain()
            self._next_retention = now + RETENTION

    async def move(self) -> bool:
        """Copy one batch into the history, then remove it from the store; return whether there was one."""
        committer = self._committer
        jobs, attempts = await committer.finished.oldest(BATCH)
        if not jobs and not attempts:
            return False
        weights: dict[int, Weight] = {}
        over = {job.id: job for job in jobs}
        for attempt in attempts:
            if attempt.job not in weights:
                weights[attempt.job] = await self._weight(attempt, over)
        runs = await committer.finished.runs(job.template or job.id for job in jobs)
        found, due = await asyncio.to_thread(with_runs, jobs, runs)
        await committer.history.add(found, attempts, weights, due)
        await committer.tidy(
            Batch(
                moved_jobs=[job.id for job in jobs],
                moved_attempts=[(attempt.job, attempt.task, attempt.attempt) for attempt in attempts],
            )
        )
        return True

    async def _weight(self, attempt: AttemptRecord, over: dict[int, JobRecord]) -> Weight:
        """Return the resources of an attempt, from its live or finished job."""
        committer = self._committer
        live = committer.machine.jobs.get(attempt.job)
        found: LiveJob | JobRecord | None = live or over.get(attempt.job) or committer.uncommitted.jobs.get(attempt.job)
        found = found or await committer.finished.job(attempt.job)
        if found is None:
            found = await committer.history.job(attempt.job)
        return weight_of(attempt, found)

    async def retain(self) -> None:
        """Remove records beyond the retention settings: history, usage, files of the event log."""
        settings, utc = self._committer.settings, self._committer.clock.utc()
        while await self._committer.history.prune(utc - settings.keep_history, utc - settings.keep_usage):  # noqa: ASYNC110
            await asyncio.sleep(PAUSE)
        prune = partial(
            eventlog.prune,
            self._committer.log.folder,
            now=utc,
            keep_age=settings.keep_events,
            keep_size=settings.keep_events_size,
        )
        await asyncio.to_thread(prune)


def weight_of(attempt: AttemptRecord, job: LiveJob | JobRecord | None) -> Weight:
    """Return the resources of an attempt; none if its job is unknown."""
    if job is None:
        return Weight("", 0, 0)
    request = job.job.request_of(attempt.task) if isinstance(job, LiveJob) else job.request
    return Weight(group_of(job), request[INDEX["cpu"]], request[INDEX["memory"]])


def with_runs(
    jobs: Sequence[JobRecord], runs: Mapping[int, bytes]
) -> tuple[list[tuple[JobRecord, bytes | None]], dict[int, bool]]:
    """Return each job with its run for the history, and whether jobs with deadlines met them.

    A member of a family gets a copy of its template's run.
    """
    found: list[tuple[JobRecord, bytes | None]] = []
    due: dict[int, bool] = {}
    for job in jobs:
        data = runs.get(job.template or job.id)
        if data is None:
            found.append((job, None))
            continue
        run = decode_run(data)
        found.append((job, encode_run(run_of(job, run)) if job.template else data))
        verdict = met(job, run)
        if verdict is not None:
            due[job.id] = verdict
    return found, due
