"""Expected starts, foretold by forked processes whenever jobs wait and something has changed.

A fork has the state of one moment, and its runs forward change nothing here. The next ones begin when twenty times the
time of the last ones has passed, so they take at most a tenth of one processor.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from functools import partial

import msgspec

from cress.center.committing.committer import Committer
from cress.center.committing.lookup import recent_job
from cress.center.process.forked_work import ForkedWork
from cress.center.process.forks import Fork
from cress.core.answers.forward import Forecast
from cress.core.openings import EndsBy
from cress.lifecycle.foretelling import foretold
from cress.lifecycle.machine import Machine
from cress.model.records import JobRecord
from cress.store.base import StoreError

# Seconds between two looks, and until what has not changed is foretold again.
LOOK, OLD = 1.0, 60.0
# Seconds that a run forward may take, and how much longer the next one is put off.
PATIENCE, PAUSE = 5.0, 20

_log = logging.getLogger("cress.center")


class _Foretold(msgspec.Struct, frozen=True):
    """The starts of waiting jobs, by both expectations of the ends of others.

    ``fresh`` are the jobs that start for the first time; what runs in part is no example for the others.
    """

    by_means: dict[int, Forecast] = {}
    by_limits: dict[int, Forecast] = {}
    fresh: list[int] = []


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Foretold).decode


class Foreteller:
    """Foretells the starts of waiting jobs while its center leads."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        # Of the last forecast: the stamp of the cluster, the number of jobs and the last one; whether a job waited.
        self._seen = (-1, 0, 0)
        self._waited = False
        self._since = 0.0

    async def run(self) -> None:
        """Work until cancelled."""
        pause = LOOK
        while True:
            await asyncio.sleep(pause)
            pause = LOOK
            try:
                self._learn()
                if self._is_due():
                    begin = time.monotonic()
                    last = next(reversed(self._committer.machine.core.jobs), 0)
                    await self._foretell()
                    took = time.monotonic() - begin
                    self._committer.expected_starts.took(took, PATIENCE, last)
                    pause = max(LOOK, PAUSE * took)
            except StoreError as error:
                _log.warning("no starts are foretold this time: %s", error)
            except Exception:  # noqa: BLE001 – tried again at the next look
                _log.exception("no starts are foretold this time")

    def _is_due(self) -> bool:
        """Return whether jobs wait, and what waits or runs has changed, or the last run is old."""
        core = self._committer.machine.core
        # Not all jobs are looked at each second: there may be a hundred thousand.
        seen = (core.cluster.stamp, len(core.jobs), next(reversed(core.jobs), 0))
        if seen == self._seen and (not self._waited or time.monotonic() - self._since < OLD):
            return False
        waited, self._waited = self._waited, bool(core.books.later) or any(job.waiting for job in core.jobs.values())
        self._seen, self._since = seen, time.monotonic()
        return waited or self._waited

    async def _foretell(self) -> None:
        committer = self._committer
        machine, starts = committer.machine, committer.expected_starts
        utc = machine.utc
        if not self._waited:
            starts.foretold(utc, {}, {}, set())
            return
        work = ForkedWork(partial(_foretold, machine, os.getpid()), committer.settings.data / "starts.new", "starts")

        def told() -> None:
            data = work.result()
            found = _Foretold() if data is None else _decode(data)
            starts.foretold(utc, found.by_means, found.by_limits, set(found.fresh))

        await asyncio.to_thread(told)

    def _learn(self) -> None:
        """Learn from the jobs that have started since the last look, or ended without a start."""
        committer = self._committer
        errors, utc = committer.expected_starts.errors, committer.machine.utc
        for number in errors.awaited():
            job = recent_job(committer, number)
            if job is not None and job.started:
                errors.started(number, job.started)
            elif job is None or isinstance(job, JobRecord):
                errors.dropped(number)
        errors.waits(utc)


def _foretold(machine: Machine, center: int) -> bytes:
    """Run forward twice, in this fork and in one of it: each run consumes the scheduler.

    Without a fork, in the process ``center`` itself, nothing is foretold.
    """
    if os.getpid() == center:
        return _encode(_Foretold())
    until = time.monotonic() + PATIENCE

    def starts(by: EndsBy) -> dict[int, Forecast]:
        return foretold(machine, by, lambda: time.monotonic() < until)

    fresh = [
        number
        for number, job in machine.core.jobs.items()
        if job.waiting and number in machine.jobs and not machine.jobs[number].started
    ]
    limits = Fork(lambda: _encode(_Foretold(by_limits=starts(EndsBy.LIMIT))))
    found = _Foretold(starts(EndsBy.MEAN), fresh=fresh)
    data = limits.result()
    return _encode(msgspec.structs.replace(found, by_limits=_decode(data).by_limits if data else {}))
