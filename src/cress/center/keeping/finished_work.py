"""Finished work in the store, read in threads, so that the event loop never waits for a disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from cress.model.records import AttemptRecord, JobRecord
from cress.store.base import FinishedReader, JobFilter, Store, StoreError

# Concurrent queries; further ones wait.
THREADS = 2

_T = TypeVar("_T")


class Finished:
    """The readers of a store, one for each thread; every query raises StoreError if it fails."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="finished")
        self._local = threading.local()
        self._readers: list[FinishedReader] = []
        self._closed = False

    def close(self) -> None:
        """Close the readers; the store must be closed after them."""
        self._closed = True
        self._threads.shutdown(cancel_futures=True)
        for reader in self._readers:
            reader.close()

    async def job(self, job: int) -> JobRecord | None:
        """Return a finished job; None if it is not stored."""
        return await self._ask(lambda reader: reader.job(job))

    async def some(self, ids: Sequence[int]) -> list[JobRecord]:
        """Return the stored ones of these jobs."""
        return await self._ask(lambda reader: reader.some(ids)) if ids else []

    async def runs(self, jobs: Iterable[int]) -> dict[int, bytes]:
        """Return the stored runs, by job."""
        wanted = sorted(set(jobs))

        def read(reader: FinishedReader) -> dict[int, bytes]:
            return {job: run for job in wanted if (run := reader.run(job)) is not None}

        return await self._ask(read)

    async def jobs(self, filters: JobFilter, *, limit: int, before: int | None) -> list[JobRecord]:
        """Return finished jobs, newest first; see ``FinishedReader.jobs``."""
        return await self._ask(lambda reader: reader.jobs(filters, limit=limit, before=before))

    async def attempts(self, job: int, first: int, last: int) -> list[AttemptRecord]:
        """Return the finished attempts of some tasks of a job, by task, oldest first."""
        return await self._ask(lambda reader: reader.attempts(job, first, last))

    async def attempts_on(self, nodes: Sequence[str], *, since: int, until: int, limit: int) -> list[AttemptRecord]:
        """Return finished attempts on nodes; see ``FinishedReader.attempts_on``."""
        return await self._ask(lambda reader: reader.attempts_on(nodes, since=since, until=until, limit=limit))

    async def oldest(self, most: int) -> tuple[list[JobRecord], list[AttemptRecord]]:
        """Return work that may move to the history; see ``FinishedReader.finished``."""
        return await self._ask(lambda reader: reader.finished(most))

    async def _ask(self, question: Callable[[FinishedReader], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, partial(self._answer, question))
        except RuntimeError:
            if not self._closed:
                raise
            raise StoreError("the center is stopping; try again") from None

    def _answer(self, question: Callable[[FinishedReader], _T]) -> _T:
        reader: FinishedReader | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = self._store.reader()
            self._readers.append(reader)
        return question(reader)
