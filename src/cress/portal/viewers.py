"""Viewers: one for each credential at the center, shared by all pages of its user.

A viewer asks the center with the credential of its user. So the portal can show and change only what the user may.
Twenty open pages of one user ask the center once: answers are kept for a moment, and one stream of events serves all.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from cress.client import calls
from cress.client.aio.http import AsyncHttp
from cress.client.calls import PreparedCall
from cress.client.errors import ClientError, Unauthorized
from cress.portal.map_changes import MapVersions
from cress.protocol.access_views import CallerView
from cress.protocol.cluster_views import EventView, LoadView

# Seconds for which an answer of the center is shown again, by default.
FRESH = 1.0
# An answer is kept for so many times the time that it took, but for no longer than so many seconds.
TIMES, LONGEST = 60.0, 20.0
# An answer that took longer than SLOW seconds is shown until its successor is there, if it is not older than OLDEST.
SLOW, OLDEST = 0.1, 60.0
# Seconds for which a page waits for an answer that it can do without, and in which a kept one is found.
MOMENT, NO_MOMENT = 0.06, 0.001
# Most answers that are kept for one viewer, and most events.
MOST_KEPT, MOST_EVENTS = 200, 500
# The first part of the keys of answers that are large: events do not make them old, only time does.
LARGE = "large"
# Seconds between two tries to reach a center that is away.
RETRY = 1.0
# Nodes whose loads are kept, and samples of each.
MOST_NODES, MOST_SAMPLES = 200, 360

_T = TypeVar("_T")


class KeptAnswer:
    """An answer of the center, or the wait for it, since ``at``; ``old``: something has happened since then."""

    def __init__(self, at: float, future: asyncio.Future[Any]) -> None:
        self.at, self.future, self.old = at, future, False
        self._took = 0.0
        # True while its successor is being made.
        self.renewed = False
        future.add_done_callback(self._note)

    @property
    def failed(self) -> bool:
        """True if the call has failed."""
        return self.future.done() and (self.future.cancelled() or self.future.exception() is not None)

    @property
    def least_until(self) -> float:
        """Return the time until which the answer is kept whatever happens; one that is still awaited is kept."""
        if not self.future.done():
            return float("inf")
        return self.at + self._took + min(LONGEST, TIMES * self._took)

    def serves_meanwhile(self, now: float) -> bool:
        """Return whether it is shown while its successor is made."""
        return self.future.done() and self._took > SLOW and now < self.at + OLDEST

    def _note(self, _: asyncio.Future[Any]) -> None:
        self._took = time.monotonic() - self.at


class PageFeed:
    """The events that one open page waits for: whether something changed, and whether the center is there."""

    def __init__(self, wanted: Callable[[EventView], bool]) -> None:
        self._wanted = wanted
        self._changed = asyncio.Event()
        self.away = ""

    def tell(self, event: EventView | None) -> None:
        """Note an event, or with None a change of the connection to the center."""
        if event is None or self._wanted(event):
            self._changed.set()

    async def wait(self, seconds: float) -> bool:
        """Return whether something changed within ``seconds``."""
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        self._changed.clear()
        return True


class Viewer:
    """One user at the center. ``close`` it after the last page."""

    def __init__(self, client: AsyncHttp) -> None:
        self.client = client
        self.events: deque[EventView] = deque(maxlen=MOST_EVENTS)
        # Measured loads of nodes whose pages were open, each with its time, by the name of the node.
        self.loads: dict[str, deque[tuple[float, LoadView]]] = {}
        # What its pages have of the map of nodes.
        self.maps = MapVersions()
        # Why the center cannot be reached; empty while it can.
        self.away = ""
        # When an answer that was shown although it was old may be asked anew (of the clock of ``time.monotonic``):
        # pages made before it are read again then.
        self.stale_until = 0.0
        # When something last happened (of the same clock).
        self._outdated = 0.0
        self._answers: dict[tuple[str, str], KeptAnswer] = {}
        # Seconds that the last answer of each kind took which pages can do without.
        self._took: dict[str, float] = {}
        self._feeds: set[PageFeed] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._last: int | None = None

    async def ask(self, call: PreparedCall[_T], fresh: float = FRESH) -> _T:
        """Return the answer to a call that changes nothing; one that is younger than ``fresh`` seconds is kept."""
        return await self.keep((call.path, repr(sorted(call.query.items()))), lambda: self.client.ask(call), fresh)

    async def keep(self, key: tuple[str, str], make: Callable[[], Awaitable[_T]], fresh: float) -> _T:
        """Return what ``make`` returned less than ``fresh`` seconds ago, or make it anew, once for all who wait.

        An answer that took long is kept for longer, so that open pages cost the center little, however large it is.
        After that it is shown once more, at once, and open pages are told when its successor is there.
        """
        now = time.monotonic()
        found = self._answers.get(key)
        if found is not None and not found.failed:
            least = found.least_until
            if now < least or (not found.old and now < max(least, found.at + fresh)):
                answer: _T = await asyncio.shield(found.future)
                if found.old:
                    self.stale_until = max(self.stale_until, found.least_until)
                return answer
            if found.serves_meanwhile(now):
                if not found.renewed:
                    found.renewed = True
                    self._renew(key, make, found)
                kept: _T = found.future.result()
                return kept
        if len(self._answers) >= MOST_KEPT:
            self._answers = {key: kept for key, kept in self._answers.items() if now - kept.at < FRESH}
        made = KeptAnswer(now, asyncio.ensure_future(make()))
        self._answers[key] = made
        return await asyncio.shield(made.future)

    def _renew(self, key: tuple[str, str], make: Callable[[], Awaitable[Any]], old: KeptAnswer) -> None:
        """Make the successor of an answer, and tell open pages when it is there."""
        made = KeptAnswer(time.monotonic(), asyncio.ensure_future(make()))

        def renewed(_: asyncio.Future[Any]) -> None:
            failed = made.failed
            # A page that is still on its way may show the old answer, and has no feed yet: it is read again.
            self.stale_until = max(self.stale_until, time.monotonic())
            # After a change by the user, or a failure, the next page asks anew.
            if self._answers.get(key) is not old:
                return
            del self._answers[key]
            if not failed:
                made.old = key[0] != LARGE and self._outdated > made.at
                self._answers[key] = made
                self._tell(None)

        made.future.add_done_callback(renewed)

    async def soon(self, key: tuple[str, str], make: Callable[[], Awaitable[_T]], fresh: float, kind: str) -> _T | None:
        """Return an answer as ``keep``, or None if it is not there in a moment; it is made meanwhile.

        If the last answer of its ``kind`` was slow, only a kept one is returned: the moment would pass in vain.
        """

        async def timed() -> _T:
            begin = time.monotonic()
            try:
                return await make()
            finally:
                self._took[kind] = time.monotonic() - begin

        waited = asyncio.ensure_future(self.keep(key, timed, fresh))
        # A failure after this moment is told when the answer is asked for again.
        waited.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait({waited}, timeout=MOMENT if self._took.get(kind, 0.0) <= SLOW else NO_MOMENT)
        return waited.result() if waited.done() else None

    async def change(self, call: PreparedCall[_T]) -> _T:
        """Return the answer to a call that changes something; kept answers are forgotten."""
        try:
            return await self.client.ask(call)
        finally:
            self.forget()

    def forget(self) -> None:
        """Forget the kept answers."""
        self._answers = {}

    def outdate(self) -> None:
        """Note that something has happened: answers are old, but for large ones, which only time makes old."""
        self._outdated = time.monotonic()
        for key, kept in self._answers.items():
            if key[0] != LARGE:
                kept.old = True

    def moment(self) -> str:
        """Return this moment as a page keeps it: the number of the latest event, and the time of the clock."""
        return f"{self._last}:{time.monotonic():.3f}" if self._last is not None else ""

    def made_at(self, moment: str) -> float | None:
        """Return the time at which a page was made if all events since then will be told to its feed, else None."""
        number, _, at = moment.partition(":")
        try:
            return float(at) if number == str(self._last) else None
        except ValueError:
            return None

    async def caller(self) -> CallerView:
        """Return the user as the center knows it."""
        return await self.ask(calls.whoami(), fresh=5.0)

    @asynccontextmanager
    async def feed(self, wanted: Callable[[EventView], bool]) -> AsyncIterator[PageFeed]:
        """Yield a feed of the events that are ``wanted``; the stream of events runs while there is a feed."""
        feed = PageFeed(wanted)
        self._feeds.add(feed)
        if not self._tasks:
            self._tasks = {asyncio.create_task(self._follow())}
        try:
            yield feed
        finally:
            self._feeds.discard(feed)
            if not self._feeds:
                self._stop()

    def note_load(self, name: str, load: LoadView | None, now: float) -> list[tuple[float, LoadView]]:
        """Keep the measured load of a node, and return what is kept of it, oldest first."""
        if load is not None:
            if name not in self.loads and len(self.loads) >= MOST_NODES:
                self.loads.pop(next(iter(self.loads)))
            kept = self.loads.setdefault(name, deque(maxlen=MOST_SAMPLES))
            if not kept or now - kept[-1][0] >= 1.0:
                kept.append((now, load))
        return list(self.loads.get(name, ()))

    async def recent_events(self) -> list[EventView]:
        """Return the latest events, newest first."""
        if not self.events:
            async for event in self.client.events(after=0, follow=False):
                self.events.append(event)
        return [*reversed(self.events)]

    async def close(self) -> None:
        """Close the connections to the center."""
        self._stop()
        await self.client.close()

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = set()

    async def _follow(self) -> None:
        """Read the center's events for all feeds, for ever; a center that is away is asked again and again."""
        while True:
            try:
                await self.client.health()
                if self.away:
                    self.away = ""
                    self.forget()
                    self._tell(None)
                # The latest event of all says from where to go on, should no page be open for a while.
                begin, last = (0, 1) if self._last is None else (self._last, None)
                async for event in self.client.events(after=begin, last=last):
                    self._last = event.number
                    if self.events and event.number > self.events[-1].number:
                        self.events.append(event)
                    self.outdate()
                    self._tell(event)
            except Unauthorized:
                self.away = "the center no longer accepts your sign-in; sign in again"
                self._tell(None)
            except ClientError as error:
                if not self.away:
                    self.away = str(error)
                    self._tell(None)
            await asyncio.sleep(RETRY)

    def _tell(self, event: EventView | None) -> None:
        for feed in self._feeds:
            feed.tell(event)
