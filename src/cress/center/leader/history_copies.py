"""Copies of finished work in the history of a standby: it also keeps the work that the leader moves away."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import groupby
from operator import itemgetter

from cress.center.committing.committer import Committer
from cress.center.leader.mover import BATCH, weight_of, with_runs
from cress.lifecycle.tables.rows import LiveJob
from cress.model.records import AttemptRecord, JobRecord
from cress.store.base import Batch, FinishedReader, StoreError
from cress.store.replicated import ReplicatedStore
from cress.store.usage import Weight

_log = logging.getLogger("cress.center")


class HistoryCopies:
    """Copies finished work into the history of this center before it leaves the replica.

    Runs in the thread that follows the log. With a history that all centers share there is nothing to do, since the
    leader writes it.
    """

    def __init__(self, committer: Committer, store: ReplicatedStore, live: Callable[[int], LiveJob | None]) -> None:
        """``live`` returns a job that has not ended, as far as this center has followed."""
        self._committer = committer
        self._store = store
        self._live = live
        self._problem = ""
        if not committer.settings.history:
            store.leaving = self.take

    def take(self, batch: Batch | None) -> None:
        """Copy the work that this batch removes; for None, all finished work.

        Following goes on if the history cannot be written.
        """
        try:
            with closing(self._store.reader()) as reader:
                for jobs, attempts in _all(reader) if batch is None else _removed(reader, batch):
                    self._copy(reader, jobs, attempts)
        except StoreError as error:
            if self._problem != str(error):
                _log.warning("finished work is not kept on this machine: %s", error)
            self._problem = str(error)
        else:
            self._problem = ""

    def _copy(self, reader: FinishedReader, jobs: list[JobRecord], attempts: list[AttemptRecord]) -> None:
        committer = self._committer
        over = {job.id: job for job in jobs}
        weights: dict[int, Weight] = {}
        for attempt in attempts:
            if attempt.job not in weights:
                found = self._live(attempt.job) or over.get(attempt.job) or reader.job(attempt.job)
                weights[attempt.job] = weight_of(attempt, found)
        wanted = sorted({job.template or job.id for job in jobs})
        runs = {number: run for number in wanted if (run := reader.run(number)) is not None}
        settings, utc = committer.settings, committer.clock.utc()
        committer.history.copy(
            *with_runs(jobs, runs), attempts, weights, utc - settings.keep_history, utc - settings.keep_usage
        )


def _removed(reader: FinishedReader, batch: Batch) -> Iterator[tuple[list[JobRecord], list[AttemptRecord]]]:
    """Yield the finished work that a batch removes."""
    attempts: list[AttemptRecord] = []
    for job, keys in groupby(sorted(batch.moved_attempts), key=itemgetter(0)):
        tasks = {(task, attempt) for _, task, attempt in keys}
        first, last = min(tasks)[0], max(tasks)[0]
        attempts += (
            attempt for attempt in reader.attempts(job, first, last) if (attempt.task, attempt.attempt) in tasks
        )
    jobs = reader.some(batch.moved_jobs)
    if jobs or attempts:
        yield jobs, attempts


def _all(reader: FinishedReader) -> Iterator[tuple[list[JobRecord], list[AttemptRecord]]]:
    """Yield all finished jobs with their attempts, some at a time."""
    before: int | None = None
    while jobs := reader.jobs(limit=BATCH, before=before):
        before = jobs[-1].id
        yield jobs, list(_attempts(reader, jobs))


def _attempts(reader: FinishedReader, jobs: Iterable[JobRecord]) -> Iterator[AttemptRecord]:
    for job in jobs:
        yield from reader.attempts(job.id, 0, job.tasks - 1)
