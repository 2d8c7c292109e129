"""The waiter: looks from time to time for what jobs wait for, while its center leads."""

from __future__ import annotations

import asyncio
import logging

from cress.center.committing.committer import Committer, NotStored
from cress.center.process.line_process import converse
from cress.center.waiting.looks import LookerSettings, LookOrder, decode_result, encode
from cress.lifecycle.inputs import Awaited
from cress.model.errors import InputError
from cress.model.waits import TIME, WaitFor

LOOKER = "cress.center.waiting.looker"
# Seconds between two looks at the waiting jobs, and before a process that ended is started again.
STEP, PAUSE = 0.5, 5.0
# Looks in progress; further ones have their turn later.
MOST_OPEN = 256

_log = logging.getLogger("cress.center")


class Waiter:
    """Looks for each thing once for all jobs that wait for it."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        settings = committer.settings
        self._settings = LookerSettings(settings.wait_hosts, settings.wait_folders)
        self._due: dict[tuple[str, str], int] = {}  # the time of the next look, on the center's clock
        self._open: dict[int, tuple[str, str]] = {}
        self._count = 0

    async def run(self) -> None:
        """Work until cancelled; the process starts with the first job that waits for something."""
        while True:
            await asyncio.sleep(STEP)
            if not self._wanted():
                continue
            try:
                await converse(LOOKER, encode(self._settings), self._ask, self._take)
            except (OSError, ValueError) as error:
                _log.warning("nothing is looked for, since the process for it cannot be used: %s", error)
            self._open.clear()
            await asyncio.sleep(PAUSE)

    async def _ask(self, pipe: asyncio.StreamWriter) -> None:
        while True:
            now = self._committer.clock.now()
            wanted = self._wanted()
            self._due = {key: due for key, due in self._due.items() if key in wanted}
            under_way = set(self._open.values())
            for key, every in wanted.items():
                if key in under_way or self._due.get(key, 0) > now or len(self._open) >= MOST_OPEN:
                    continue
                self._count += 1
                self._due[key] = now + every
                self._open[self._count] = key
                pipe.write(encode(LookOrder(self._count, *key)) + b"\n")
                await pipe.drain()
            await asyncio.sleep(STEP)

    def _wanted(self) -> dict[tuple[str, str], int]:
        """Return the things that jobs wait for, with the time between two looks for each (µs)."""
        machine = self._committer.machine
        found: dict[tuple[str, str], int] = {}
        for number in machine.awaiting:
            job = machine.jobs.get(number)
            for thing in job.awaits if job is not None and not job.held else ():
                if thing.kind == TIME:
                    continue  # the machine knows when it comes
                key = thing.kind, thing.name
                found[key] = min(thing.every, found.get(key, thing.every))
        return found

    async def _take(self, line: bytes) -> None:
        result = decode_result(line)
        key = self._open.pop(result.id, None)
        if key is None or not (result.found or result.problem):
            return
        machine = self._committer.machine
        waiting = [
            (number, thing)
            for number in machine.awaiting
            for thing in (machine.jobs[number].awaits if number in machine.jobs else ())
            if (thing.kind, thing.name) == key
        ]
        for number, thing in waiting:
            await self._tell(number, thing, result.problem)

    async def _tell(self, number: int, thing: WaitFor, problem: str) -> None:
        try:
            await self._committer.submit(Awaited(job=number, what=thing, problem=problem))
        except (InputError, NotStored) as error:
            # The next look finds it again.
            _log.info("%s is there, and job %d does not know it yet: %s", thing, number, error)
            self._due.pop((thing.kind, thing.name), None)
