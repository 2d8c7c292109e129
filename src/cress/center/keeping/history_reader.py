"""The history of finished work, read in threads, so that the event loop never waits for a slow database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from cress.model.records import AttemptRecord, JobRecord
from cress.model.run import Run
from cress.store.base import JobFilter, StoreError
from cress.store.history_mark import FILE as MARK
from cress.store.history_mark import Mark, check_history, read_mark, write_mark

if TYPE_CHECKING:
    from cress.store.history import BlockCounts, History
    from cress.store.usage import Usage, Weight
    from cress.store.work_done import WorkDone

FILE = "history.db"
# Concurrent queries; further ones wait.
THREADS = 4
# Seconds before readers try again to reach a database that failed.
REST = 5.0

_T = TypeVar("_T")
_decode_run = msgspec.msgpack.Decoder(Run).decode


class HistoryJob(JobRecord, frozen=True, kw_only=True):
    """A job of the history, with its run."""

    run: Run | None


class HistoryReader:
    """The history of a center, opened on first use, since most centers rarely read it."""

    def __init__(self, data: Path, url: str = "") -> None:
        self.url = url
        self._file = data / FILE
        self._mark = data / MARK
        self._history: History | None = None
        self._opening = threading.Lock()
        self._failed: tuple[float, StoreError] | None = None
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="history")
        self._closed = False

    @property
    def is_empty(self) -> bool:
        """True when the history is a file that does not exist."""
        return self._history is None and not self.url and not self._file.exists()

    def check(self) -> None:
        """Raise InputError if the address of the database is not valid, and Damaged if its file has lost data."""
        if self.url:
            from cress.store.history import check_url

            check_url(self.url)
        else:
            check_history(self._file, self._mark, deep=False)

    def close(self) -> None:
        """Close the database."""
        self._closed = True
        self._threads.shutdown(cancel_futures=True)
        if self._history is not None:
            self._history.close()

    async def job(self, id: int) -> HistoryJob | None:
        """Return a job and its run; None if it is unknown. Raises StoreError, as all methods here do."""
        if self.is_empty:
            return None
        found = await self._ask(lambda history: history.job(id))
        return _past(*found) if found else None

    async def some(self, ids: Sequence[int]) -> list[HistoryJob]:
        """Return the jobs that the history has."""
        if self.is_empty or not ids:
            return []
        return await self._ask(lambda history: [_past(*pair) for pair in history.some(ids)])

    async def jobs(self, filters: JobFilter, *, limit: int, before: int | None) -> list[HistoryJob]:
        """Return jobs, newest first; see ``History.jobs``."""
        if self.is_empty:
            return []

        def work(history: History) -> list[HistoryJob]:
            return [_past(*pair) for pair in history.jobs(filters, limit=limit, before=before)]

        return await self._ask(work)

    async def attempts(self, job: int, first: int, last: int) -> list[AttemptRecord]:
        """Return the attempts of some tasks of a job, by task, oldest first."""
        if self.is_empty:
            return []
        return await self._ask(lambda history: history.attempts(job, first, last))

    async def attempts_on(self, nodes: Sequence[str], *, since: int, until: int, limit: int) -> list[AttemptRecord]:
        """Return attempts on nodes; see ``FinishedReader.attempts_on``."""
        if self.is_empty:
            return []
        return await self._ask(lambda history: history.attempts_on(nodes, since=since, until=until, limit=limit))

    async def usage(self, *, since: int, until: int, group: str) -> Usage:
        """Return the usage of groups by hour (seconds since the epoch)."""
        if self.is_empty:
            return {}
        return await self._ask(lambda history: history.usage(since=since, until=until, group=group))

    async def work_done(self, filters: JobFilter, *, since: int, until: int, label: str = "") -> list[WorkDone]:
        """Return the work of jobs that ended in a span of time; see ``History.work_done``."""
        if self.is_empty:
            return []
        return await self._ask(lambda history: history.work_done(filters, since=since, until=until, label=label))

    async def add(
        self,
        jobs: Sequence[tuple[JobRecord, bytes | None]],
        attempts: Sequence[AttemptRecord],
        weights: Mapping[int, Weight],
        met: Mapping[int, bool],
    ) -> None:
        """Add finished work; see ``History.add``."""
        mark = await self._ask(lambda history: history.add(jobs, attempts, weights, met), patient=True)
        await asyncio.to_thread(write_mark, self._mark, msgspec.structs.replace(mark, file=not self.url))

    def copy(
        self,
        jobs: Sequence[tuple[JobRecord, bytes | None]],
        met: Mapping[int, bool],
        attempts: Sequence[AttemptRecord],
        weights: Mapping[int, Weight],
        before: int,
        usage_before: int,
    ) -> None:
        """Add finished work, and remove as much work older than these times (µs).

        Runs in the thread that follows the leader.
        """

        def work(history: History) -> Mark:
            mark = history.add(jobs, attempts, weights, met)
            removed = 0
            while removed <= len(jobs) and (count := history.prune(before)):
                removed += count
            history.prune_usage(usage_before)
            return mark

        mark = self._answer(work)
        write_mark(self._mark, msgspec.structs.replace(mark, file=not self.url))

    async def blocks(self, since: int) -> list[BlockCounts]:
        """Return how much finished work each block of ids has; see ``History.blocks``."""
        return [] if self.is_empty else await self._ask(lambda history: history.blocks(since))

    async def block(
        self, number: int, *, since: int, after: int, limit: int
    ) -> tuple[list[tuple[JobRecord, bytes | None]], list[AttemptRecord]]:
        """Return finished work of a block; see ``History.block``."""
        if self.is_empty:
            return [], []
        return await self._ask(lambda history: history.block(number, since=since, after=after, limit=limit))

    async def prune(self, before: int, usage_before: int) -> int:
        """Remove some older jobs; return their number, 0 when none is left."""

        def work(history: History) -> int:
            count = history.prune(before)
            if not count:
                history.prune_usage(usage_before)
            return count

        return 0 if self.is_empty else await self._ask(work, patient=True)

    async def _ask(self, question: Callable[[History], _T], *, patient: bool = False) -> _T:
        loop = asyncio.get_running_loop()
        if self._failed is not None and not patient and loop.time() < self._failed[0]:
            raise self._failed[1]
        try:
            found = await loop.run_in_executor(self._threads, partial(self._answer, question))
        except StoreError as error:
            self._failed = loop.time() + REST, error
            raise
        except RuntimeError:
            if not self._closed:
                raise
            raise StoreError("the center is stopping; try again") from None
        self._failed = None
        return found

    def _answer(self, question: Callable[[History], _T]) -> _T:
        from cress.store.history import History, check_url

        with self._opening:
            if self._history is None:
                history = History(check_url(self.url) if self.url else f"sqlite:///{self._file}")
                try:
                    self._compare(history)
                except StoreError:
                    history.close()
                    raise
                self._history = history
        return question(self._history)

    def _compare(self, history: History) -> None:
        """Raise Damaged if finished work was moved to another database, or this one has lost some of it."""
        mark = read_mark(self._mark)
        if mark is not None:
            there = history.mark()
            mark.compare(history.name, there.identity, there.additions, self._mark)


def _past(record: JobRecord, run: bytes | None) -> HistoryJob:
    return HistoryJob(**msgspec.structs.asdict(record), run=None if run is None else _decode_run(run))
