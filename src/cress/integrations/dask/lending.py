"""Reports of idle leases to the center, so that it lends them, and of their use when tasks come."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from typing import Any

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from cress.client.errors import ClientError
from cress.integrations.dask.ask import Ask
from cress.integrations.dask.holder import Holder
from cress.integrations.dask.lease import WorkerLease

logger = logging.getLogger(__name__)
# Seconds between two checks of the workers.
EVERY = 0.5
# Cores of a worker without tasks, for its connections.
IDLE_CORES = 0.1
# Factor on the memory of such a worker's process, and bytes to which the result is rounded up, so that the center does
# not get a report for each megabyte.
SPARE = 1.25
STEP = 64 * 2**20


class Lending(SchedulerPlugin):
    """Reports leases to the center as idle after ``after`` seconds without tasks, and as in use when tasks come."""

    def __init__(
        self, scheduler: Scheduler, holder: Holder, leases: Callable[[], Iterable[WorkerLease]], after: float
    ) -> None:
        self._scheduler = scheduler
        self._holder = holder
        self._leases = leases
        self._after = after
        self._news = asyncio.Event()
        # By worker: its lease that lends. By lease: the start of its time without tasks, and its reported use if that
        # is not all.
        self._lenders: dict[str, WorkerLease] = {}
        self._since: dict[WorkerLease, float] = {}
        self._told: dict[WorkerLease, tuple[int | None, int]] = {}

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Check at once when a worker of a lending lease gets a task."""
        if finish == "processing" and self._lenders:
            where = self._scheduler.tasks[key].processing_on
            if where is not None and str(where.name) in self._lenders:
                self._news.set()

    async def run(self) -> None:
        """Check the workers until cancelled."""
        while True:
            try:
                await self._look()
            except ClientError as error:
                logger.warning("the center could not be told what is used of leases: %s", error)
            except Exception:
                # Without further reports, loans would not be taken back when tasks come.
                logger.exception("the center could not be told what is used of leases")
            try:
                await asyncio.wait_for(self._news.wait(), EVERY)
            except TimeoutError:
                continue
            self._news.clear()

    async def _look(self) -> None:
        """Report the leases that have become idle or busy; the next check repeats reports that failed."""
        now, reports = asyncio.get_running_loop().time(), []
        workers = {str(worker.name): worker for worker in self._scheduler.workers.values()}
        held = [lease for lease in self._leases() if lease.view is not None and lease.view.state == "held"]
        for lease in held:
            there = [workers[name] for name in lease.workers if name in workers]
            busy = len(there) < len(lease.workers) or any(worker.processing or worker.actors for worker in there)
            since = self._since[lease] = math.inf if busy else min(self._since.get(lease, now), now)
            told = self._told_memory(lease)
            if busy and told is not None:
                reports.append(self._report_busy(lease))
            elif now - since >= self._after:
                memory = idle_memory(self._holder.ask, sum(int(worker.metrics.get("memory", 0)) for worker in there))
                if told is None or not told / 2 <= memory <= told:
                    reports.append(self._report_idle(lease, memory))
        for lease in set(self._since) - set(held):
            self._forget(lease)
        for outcome in await asyncio.gather(*reports, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _told_memory(self, lease: WorkerLease) -> int | None:
        """Return the memory (bytes) with which a lease was last reported idle; ``None`` if all of it counts as used."""
        assert lease.view is not None
        attempt, memory = self._told.get(lease, (None, None))
        # A lease that was taken and granted again counts as used.
        return memory if attempt == lease.view.attempt else None

    async def _report_busy(self, lease: WorkerLease) -> None:
        assert lease.view is not None
        ask = self._holder.ask
        await self._holder.use(lease.view, {"cpu": ask.cores, "memory": ask.memory})
        self._forget(lease)

    async def _report_idle(self, lease: WorkerLease, memory: int) -> None:
        view, ask = lease.view, self._holder.ask
        assert view is not None
        await self._holder.use(view, {"cpu": min(ask.cores, IDLE_CORES * ask.processes), "memory": memory})
        self._told[lease] = view.attempt, memory
        self._lenders |= dict.fromkeys(lease.workers, lease)

    def _forget(self, lease: WorkerLease) -> None:
        self._since.pop(lease, None)
        self._told.pop(lease, None)
        for name in lease.workers:
            self._lenders.pop(name, None)


def idle_memory(ask: Ask, measured: int) -> int:
    """Return the memory (bytes) that a lease needs while its workers have ``measured`` bytes and no tasks."""
    return min(ask.memory, math.ceil(measured * SPARE / STEP) * STEP)
