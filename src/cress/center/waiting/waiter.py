"""The waiter: looks from time to time for what jobs wait for, while its center leads."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from cress.center.committing.committer import Committer, NotStored
from cress.center.process.line_process import converse
from cress.center.process.turns import in_turns
from cress.center.waiting.looks import LookerSettings, LookOrder, decode_result, encode
from cress.lifecycle.inputs import Awaited
from cress.model.errors import InputError
from cress.model.waits import TIME, WaitFor

LOOKER = "cress.center.waiting.looker"
# Seconds between two looks at the waiting jobs, and before a process that ended is started again.
STEP, PAUSE = 0.5, 5.0
# Looks in progress, and those of one user; further ones have their turn later.
MOST_OPEN, MOST_OF_USER = 256, 32

_log = logging.getLogger("cress.center")


class WantedThing(NamedTuple):
    """The time between two looks for a thing (µs), and the users whose jobs wait for it."""

    every: int
    users: frozenset[str]


class LooksInProgress:
    """The looks in progress by number: the thing, and the user whose turn it is."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[tuple[str, str], str]] = {}
        self._of_user: Counter[str] = Counter()
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Return whether no look can begin, whoever's it is."""
        return len(self._open) >= MOST_OPEN

    def begin(self, key: tuple[str, str], users: Collection[str]) -> LookOrder | None:
        """Begin a look for a thing, on account of the user with the fewest; ``None``: it has to wait for its turn."""
        if self.is_full:
            return None
        user = min(users, key=lambda name: (self._of_user[name], name))
        if self._of_user[user] >= MOST_OF_USER:
            return None
        self._count += 1
        self._open[self._count] = key, user
        self._of_user[user] += 1
        return LookOrder(self._count, *key, user)

    def end(self, number: int) -> tuple[str, str] | None:
        """End a look; return its thing."""
        key, user = self._open.pop(number, (None, ""))
        if key is not None:
            self._of_user[user] -= 1
            self._of_user += Counter()  # without those that have none
        return key

    def things(self) -> set[tuple[str, str]]:
        """Return the things that are looked for at this moment."""
        return {key for key, _ in self._open.values()}


class Waiter:
    """Looks for each thing once for all jobs that wait for it."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        settings = committer.settings
        self._settings = LookerSettings(settings.wait_hosts, settings.wait_folders)
        self._due: dict[tuple[str, str], int] = {}  # the time of the next look, on the center's clock
        self._open = LooksInProgress()

    async def run(self) -> None:
        """Work until cancelled; the process starts with the first job that waits for something."""
        while True:
            await asyncio.sleep(STEP)
            if not await self._wanted():
                continue
            try:
                await converse(LOOKER, encode(self._settings), self._ask, self._take)
            except (OSError, ValueError) as error:
                _log.warning("nothing is looked for, since the process for it cannot be used: %s", error)
            self._open = LooksInProgress()
            await asyncio.sleep(PAUSE)

    async def _ask(self, pipe: asyncio.StreamWriter) -> None:
        while True:
            now = self._committer.clock.now()
            wanted = await self._wanted()
            self._due = {key: self._due.get(key, 0) for key in wanted}
            under_way = self._open.things()
            ready = [key for key, due in self._due.items() if due <= now and key not in under_way]
            # What was due first has its turn first: a thing that is looked for often takes none from the others.
            async for key in in_turns(sorted(ready, key=self._due.__getitem__)):
                if self._open.is_full:
                    break
                order = self._open.begin(key, wanted[key].users)
                if order is not None:
                    self._due[key] = now + wanted[key].every
                    pipe.write(encode(order) + b"\n")
                    await pipe.drain()
            await asyncio.sleep(STEP)

    async def _wanted(self) -> dict[tuple[str, str], WantedThing]:
        """Return the things that jobs wait for."""
        machine = self._committer.machine
        found: dict[tuple[str, str], WantedThing] = {}
        async for number in in_turns(list(machine.awaiting)):
            job = machine.jobs.get(number)
            if job is None or job.held:
                continue
            for thing in job.awaits:
                if thing.kind == TIME:
                    continue  # the machine knows when it comes
                key, user = (thing.kind, thing.name), job.job.user
                known = found.get(key, WantedThing(thing.every, frozenset((user,))))
                found[key] = WantedThing(min(thing.every, known.every), known.users | {user})
        return found

    async def _take(self, line: bytes) -> None:
        result = decode_result(line)
        key = self._open.end(result.id)
        if key is None or not (result.found or result.problem):
            return
        machine = self._committer.machine
        async for number in in_turns(list(machine.awaiting)):
            job = machine.jobs.get(number)
            for thing in job.awaits if job is not None else ():
                if (thing.kind, thing.name) == key:
                    await self._tell(number, thing, result.problem)

    async def _tell(self, number: int, thing: WaitFor, problem: str) -> None:
        try:
            await self._committer.submit(Awaited(job=number, what=thing, problem=problem))
        except (InputError, NotStored) as error:
            # The next look finds it again.
            _log.info("%s is there, and job %d does not know it yet: %s", thing, number, error)
            self._due.pop((thing.kind, thing.name), None)
