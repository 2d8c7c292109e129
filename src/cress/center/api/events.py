"""Events as a stream (server-sent events): numbered, so that who was cut off goes on where it was."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from cress.center.api.context import engine_of
from cress.center.engine import Engine, NotStored
from cress.center.security import Receive, Scope, Send
from cress.model.errors import InputError
from cress.protocol.views import EventView, to_json

# Seconds: a sign of life goes out at least this often; a reader that takes nothing for so long is let go.
HEARTBEAT, STALLED = 15.0, 30.0
# Events in one piece; a reader costs no more memory than that.
CHUNK = 256
MOST_READERS = 500
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]

router = APIRouter(prefix="/v1")


@router.get("/events")
async def events(
    request: Request,
    after: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
    job: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
    group: str = "",
    follow: bool = True,
) -> Response:
    """What happens, as server-sent events: those behind number ``after``, else those from now on.

    The header ``Last-Event-ID``, which clients send by themselves, counts for more than ``after``. Without ``follow``
    the answer ends with the latest event, and begins, without ``after``, with the oldest that is kept.
    """
    engine = engine_of(request)
    known = engine.events
    last = request.headers.get("last-event-id", "")
    if last:
        if not (last.isascii() and last.isdigit() and len(last) < 19):
            raise InputError(f"{last[:40]!r} is no number of an event", hint="a whole number", field="Last-Event-ID")
        after = int(last)
    if after is None:
        after = known.last if follow else known.first - 1
    # Numbers that are not there yet: the cluster was made anew, or taken back from a backup.
    after = min(after, known.last)
    if known.readers >= MOST_READERS:
        raise NotStored(f"{MOST_READERS} readers follow the events already; try again")
    return EventStream(engine, after, job=job, group=group, follow=follow)


class EventStream(Response):
    """The answer: it has a place among the kept events and nothing else, so a slow reader costs no memory."""

    def __init__(self, engine: Engine, after: int, *, job: int | None, group: str, follow: bool) -> None:
        super().__init__(media_type="text/event-stream")
        self._engine = engine
        self._at = after
        self._job = job
        self._group = group
        self._follow = follow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the reader goes, takes nothing any more, or nothing is left to send."""
        gone = asyncio.ensure_future(_until_gone(receive))
        self._engine.events.readers += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            # The beginning of the answer at once, even if nothing happens for long.
            part = b": numbered events; resume with Last-Event-ID\n\n"
            while not gone.done():
                async with asyncio.timeout(STALLED):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                part = self._part()
                if not part:
                    if self._engine.stopping or not self._follow:
                        await send({"type": "http.response.body", "body": b"", "more_body": False})
                        return
                    await self._wait(gone)
                    part = self._part() or b"id: %d\n: \n\n" % self._at
        except TimeoutError:
            # It resumes when it reads again; until then nothing is kept for it.
            return
        finally:
            self._engine.events.readers -= 1
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gone

    async def _wait(self, gone: asyncio.Future[None]) -> None:
        news = asyncio.ensure_future(self._engine.events.wait(self._at, HEARTBEAT))
        try:
            await asyncio.wait((news, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()

    def _part(self) -> bytes:
        """The next events that pass the filters; empty at the end."""
        known = self._engine.events
        lines: list[bytes] = []
        if self._at < known.first - 1:
            self._at = known.first - 1
            lines.append(_line(EventView(number=self._at, kind="gap", at=self._engine.clock.utc() / 1e6)))
        while not lines and (found := known.after(self._at, CHUNK)):
            self._at = found[-1].number
            lines += self._lines(found)
        return b"".join(lines)

    def _lines(self, found: Iterable[EventView]) -> list[bytes]:
        return [
            _line(each)
            for each in found
            if (self._job is None or each.job == self._job) and (not self._group or each.group == self._group)
        ]


def _line(event: EventView) -> bytes:
    # JSON has no line breaks of its own.
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.number, event.kind.encode(), to_json(event))


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
