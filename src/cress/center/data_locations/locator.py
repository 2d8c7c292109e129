"""The locator: finds the locations of live jobs' data, and refreshes them while a job waits."""

from __future__ import annotations

import asyncio
import logging

from cress.center.committing.committer import Committer
from cress.center.data_locations.hdfs import Hdfs, UnlocatedError
from cress.center.data_locations.webhdfs import Places
from cress.core.tables.data_locations import DataOf, Locations, is_local
from cress.model.datanames import parse_data_name
from cress.model.errors import InputError
from cress.model.events import DataLocated
from cress.model.times import SECOND

# Seconds between two attempts to find a location, at first and at most.
RETRY, LONGEST_RETRY = 1.0, 30.0
# Seconds between two checks for waiting jobs, and between two checks for new data.
LOOK, PAUSE = 1.0, 0.05
# Concurrent queries to one server, so that one that hangs does not block the others.
AT_ONCE = 4
# Concurrent queries to all servers, so that the center has connections left.
AT_ONCE_IN_ALL = 32

_log = logging.getLogger("cress.center")


class _Entry:
    """The location of one piece of data, or the problem, and the time of the next query (the loop's clock)."""

    __slots__ = ("due", "failures", "found", "post_again", "task")

    def __init__(self, due: float) -> None:
        self.due = due
        self.failures = 0
        self.found: tuple[Places | None, str] | None = None
        self.post_again = 0.0
        self.task: asyncio.Task[None] | None = None


class Locator:
    """Queries locations while ``run`` runs; ``age`` (µs) is the greatest age of a location while a job waits for it."""

    def __init__(self, committer: Committer, hdfs: Hdfs, age: int) -> None:
        self._committer = committer
        self._hdfs = hdfs
        self._age = age / SECOND
        self._entries: dict[str, _Entry] = {}
        self._gates: dict[str, asyncio.Semaphore] = {}
        self._gate = asyncio.Semaphore(AT_ONCE_IN_ALL)
        # The locations of the core at the last synchronisation; a reload of the state replaces them.
        self._seen: tuple[Locations | None, int] = (None, 0)
        self._next = 0.0

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                events = self._committer.events
                await events.wait(events.last, LOOK)
                try:
                    self._look()
                except Exception:  # noqa: BLE001 – tried again as long as the center runs
                    _log.exception("the locations of data cannot be kept up to date")
                # Steps may follow each other every millisecond.
                await asyncio.sleep(PAUSE)
        finally:
            for entry in self._entries.values():
                if entry.task is not None:
                    entry.task.cancel()
            await self._hdfs.close()

    @property
    def _known(self) -> Locations:
        return self._committer.machine.core.relations.locations

    def _look(self) -> None:
        known, now = self._known, asyncio.get_running_loop().time()
        new = self._seen != (known, known.stamp)
        if not new and now < self._next:
            return
        self._seen, self._next = (known, known.stamp), now + LOOK
        if new:
            self._synchronise(known, now)
        for data, entry in self._entries.items():
            if entry.task is not None:
                continue
            self._tell(data, entry, now)
            if now >= entry.due and (entry.found is None or self._is_waited_for(data)):
                entry.task = asyncio.create_task(self._find(data, entry), name=f"where {data} lies")

    def _synchronise(self, known: Locations, now: float) -> None:
        """Remove data that no live job names, here and in the core."""
        wanted = {data for data in known.wanted if not is_local(data)}
        for data in [data for data in self._entries if data not in wanted]:
            entry = self._entries.pop(data)
            if entry.task is not None:
                entry.task.cancel()
        for data in [*known.places, *known.problems]:
            if data not in wanted:
                self._committer.post(DataLocated(data=data, places=None))
        for data in wanted - self._entries.keys():
            self._entries[data] = _Entry(now)
        if not self._entries:
            self._gates.clear()

    def _is_waited_for(self, data: str) -> bool:
        return bool(self._committer.machine.core.books.matching.watchers(DataOf(data)))

    def _tell(self, data: str, entry: _Entry, now: float) -> None:
        """Tell the core a location that it lacks; a step that was not stored may have lost it."""
        known = self._known
        if entry.found is None or now < entry.post_again:
            return
        if entry.found != (known.places.get(data), known.problems.get(data, "")):
            places, problem = entry.found
            self._committer.post(DataLocated(data=data, places=places, problem=problem))
            entry.post_again = now + LOOK

    async def _find(self, data: str, entry: _Entry) -> None:
        loop = asyncio.get_running_loop()
        try:
            name = parse_data_name(data)
            async with self._gates.setdefault(name.place, asyncio.Semaphore(AT_ONCE)), self._gate:
                entry.found = await self._hdfs.places(name), ""
        except (UnlocatedError, InputError) as error:
            self._failed(data, entry, str(error), lasting=getattr(error, "lasting", True))
        except Exception:  # noqa: BLE001 – tried again
            _log.exception("the location of %s cannot be determined", data)
            self._failed(data, entry, "the location could not be determined; see the center's log", lasting=False)
        else:
            entry.failures, entry.due = 0, loop.time() + self._age
        finally:
            entry.task = None
        entry.post_again = 0.0
        if self._entries.get(data) is entry:
            self._tell(data, entry, loop.time())

    def _failed(self, data: str, entry: _Entry, why: str, *, lasting: bool) -> None:
        """Keep the last known location while no server answers."""
        before = self._known.places.get(data)
        entry.found = (None, why) if lasting or before is None else (before, "")
        wait = min(LONGEST_RETRY, RETRY * 2.0**entry.failures)
        entry.failures = min(entry.failures + 1, 10)
        entry.due = asyncio.get_running_loop().time() + wait
