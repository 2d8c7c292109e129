"""Checks: the agent probes whether the tasks of its node are ready and alive, and reports changes to the center.

The checks of an attempt are stored in the executor's directory (``checks/ATTEMPT``), out of reach of tasks, from the
start order to the end. So they survive a restart of the agent. Results from before a restart are found again by new
probes. Until then nothing is reported, and the center keeps the last results.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from cress.executor.exec.helper_process import HelperProcess
from cress.executor.probes import Target, ask, port_of
from cress.model.reports import Checked, Started
from cress.model.run import Check
from cress.model.times import SECOND
from cress.protocol.messages import Launches
from cress.protocol.regular_files import read_regular

# Most simultaneous probes, and those of the tasks of one user, who may let each hang for an hour. A probe needs up to
# three descriptors.
MOST_ASKED, MOST_OF_USER = 256, 64
# Seconds that a change waits for others, so that one message carries many.
PAUSE = 0.02
# Probes of attempts that start together are spread over at most this time (seconds).
SPREAD = 1.0


class Checking(msgspec.Struct, frozen=True):
    """The checks of one attempt of ``user``, the names and numbers of its ``ports``, the ``address`` of the node."""

    ready: Check | None
    alive: Check | None
    ports: tuple[tuple[str, int], ...]
    address: str = ""
    user: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Checking).decode


class Checks:
    """The checked attempts of an executor. They outlive connections to the center."""

    def __init__(self, folder: Path, helper: HelperProcess) -> None:
        self._folder = folder
        self._helper = helper
        self._ordered: dict[int, Checking] = {}
        self._watched: dict[int, _Watched] = {}
        self._stored: set[int] | None = None  # attempts with a file, once the folder was listed
        self._asking = asyncio.Semaphore(MOST_ASKED)
        # They live as long as a probe of the user runs or waits.
        self._users: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._changed = asyncio.Event()
        self._news: dict[int, None] = {}  # attempts with a state to report

    def ordered(self, order: Launches) -> None:
        """Store the checks of these attempts before they start."""
        checked = {run.job: run for run in order.runs if run.ready is not None or run.alive is not None}
        for launch in order.launches if checked else ():
            run = checked.get(launch.job)
            if run is None:
                continue
            ports = tuple((name, number) for (name, _), number in zip(run.ports, launch.ports, strict=False))
            checking = Checking(run.ready, run.alive, ports, order.address, run.user)
            self._ordered[launch.attempt] = checking
            # Without the file a new agent does not check the attempt, which is better than not starting it.
            with contextlib.suppress(OSError):
                self._folder.mkdir(mode=0o700, exist_ok=True)
                fresh = self._folder / f".{launch.attempt}"
                fresh.write_bytes(_encode(checking))
                fresh.replace(self._path(launch.attempt))
                self._files().add(launch.attempt)

    def started(self, report: Started) -> None:
        """Check the attempt from now on, since it runs. Idempotent."""
        if report.attempt in self._watched:
            return
        checking = self._ordered.pop(report.attempt, None) or self._kept(report.attempt)
        if checking is not None:
            target = Target(report.attempt, report.pid, checking.address)
            self._watched[report.attempt] = _Watched(self, checking, target, report.at)

    def ended(self, attempt: int) -> None:
        """Forget an attempt that has ended."""
        watched = self._watched.pop(attempt, None)
        self._ordered.pop(attempt, None)
        self._news.pop(attempt, None)
        if watched is not None:
            watched.close()
        # Most attempts have no checks: nothing of the system is asked for them.
        if attempt in self._files():
            self._files().discard(attempt)
            with contextlib.suppress(OSError):
                self._path(attempt).unlink()

    def known(self) -> tuple[Checked, ...]:
        """Return the state of all attempts, for a newly connected center.

        Afterwards none of it counts as a change.
        """
        self._news.clear()
        return self._reports(self._watched)

    async def news(self) -> tuple[Checked, ...]:
        """Wait for a change, and return the changes since the last report to the center."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(PAUSE)
            self._changed.clear()
            news, self._news = self._news, {}
            reports = self._reports(news)
            if reports:
                return reports

    def close(self) -> None:
        """Stop all checks."""
        for watched in self._watched.values():
            watched.close()
        self._watched.clear()

    def changed(self, attempt: int) -> None:
        """Note that the state of this attempt must be reported."""
        self._news[attempt] = None
        self._changed.set()

    async def ask(self, check: Check, port: int, target: Target, user: str) -> str:
        """Probe a task of a user once, when there is a place."""
        own = self._users.setdefault(user, asyncio.Semaphore(MOST_OF_USER))
        async with own, self._asking:
            return await ask(check, port, target, self._helper)

    def _reports(self, attempts: Iterable[int]) -> tuple[Checked, ...]:
        found = (self._watched[attempt].report() for attempt in attempts if attempt in self._watched)
        return tuple(report for report in found if report is not None)

    def _files(self) -> set[int]:
        """Return the attempts with a file, also those of an earlier agent: no other process makes or removes one."""
        if self._stored is None:
            self._stored = set()
            with contextlib.suppress(OSError):
                names = os.listdir(self._folder)  # noqa: PTH208
                self._stored.update(int(name) for name in names if name.isdecimal())
        return self._stored

    def _kept(self, attempt: int) -> Checking | None:
        if attempt not in self._files():
            return None
        with contextlib.suppress(OSError, msgspec.DecodeError):
            return _decode(read_regular(self._path(attempt)))
        return None

    def _path(self, attempt: int) -> Path:
        return self._folder / str(attempt)


class _Watched:
    """One checked attempt. ``ready`` and ``alive`` are None until they are known."""

    def __init__(self, checks: Checks, checking: Checking, target: Target, began: int) -> None:
        self._checks = checks
        self._checking = checking
        self._target = target
        self._began = began
        self._state: dict[str, bool | None] = {"ready": None, "alive": None}
        self._why = ""
        self._at = 0
        self._jobs = [
            asyncio.create_task(self._watch(name, check))
            for name, check in (("ready", checking.ready), ("alive", checking.alive))
            if check is not None
        ]

    def close(self) -> None:
        """Stop the checks."""
        for job in self._jobs:
            job.cancel()

    def report(self) -> Checked | None:
        """Return the state of the checks, or None while there is nothing to report."""
        ready, alive = self._state["ready"], self._state["alive"]
        if ready is None and self._checking.ready is not None and alive is not False:
            return None
        if ready is None and alive is None:
            return None
        return Checked(
            attempt=self._target.attempt,
            at=self._at,
            ready=bool(ready) if self._checking.ready is not None else True,
            alive=alive is not False,
            why=self._why,
        )

    async def _watch(self, name: str, check: Check) -> None:
        loop = asyncio.get_running_loop()
        port = port_of(check, self._checking.ports)
        interval = check.interval / SECOND
        due = (self._began + check.delay - time.time_ns() // 1000) / SECOND
        # Attempts that started together are not probed at the same moment each time.
        spread = min(interval, SPREAD) * (self._target.attempt % 101) / 101 if due <= 0 else 0.0
        await asyncio.sleep(max(0.0, min(due, check.delay / SECOND)) + spread)
        failed = 0
        while True:
            begin = loop.time()
            why = await self._checks.ask(check, port, self._target, self._checking.user)
            failed = failed + 1 if why else 0
            self._answered(name, why, failed, check.failures)
            await asyncio.sleep(max(0.0, begin + interval - loop.time()))

    def _answered(self, name: str, why: str, failed: int, most: int) -> None:
        if why and failed < most:
            return
        if why:
            self._why = why
        elif self._state["alive" if name == "ready" else "ready"] is not False:
            self._why = ""
        if self._state[name] is not (not why):
            self._state[name] = not why
            self._at = time.time_ns() // 1000
            self._checks.changed(self._target.attempt)
