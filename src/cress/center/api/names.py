"""The name service: the places of the running tasks of a job, once or as a stream of changes."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from cress.center.api.bodies import reply
from cress.center.api.context import committer_of, sees_number
from cress.center.api.stream import HEARTBEAT, Stream
from cress.center.show.jobs import place_view
from cress.center.turns import chunks, in_turns
from cress.lifecycle.name_service import Place, candidates, order, places, resolve
from cress.protocol.views import PlacesChange, PlacesPage, to_json

# Seconds between two messages to one reader: thousands of tasks that start together need a few messages.
PACE = 0.2

router = APIRouter(prefix="/v1/names")


@router.get("/{name}")
async def names(request: Request, name: str, group: str = "") -> Response:
    """Return the running tasks of the jobs of a name, in one group or in all: node, rack, address, ports."""
    committer = committer_of(request)
    async with committer.turns.long_answer():
        machine = committer.machine
        found: list[Place] = []
        async for part in in_turns(chunks(candidates(machine, name, group or None))):
            found += (place for place in places(machine, part) if sees_number(request, place.job))
        views = [place_view(each) async for each in in_turns(sorted(found, key=order))]
        return reply(PlacesPage(places=tuple(views)))


@router.get("/{name}/watch")
async def watch(request: Request, name: str, group: str = "", follow: bool = True) -> Response:
    """Stream the running tasks of the jobs of a name as server-sent events: first all of them, then every change.

    A reader that was cut off calls again, and begins with all of them. Without ``follow`` the answer ends there.
    """
    return PlacesStream(request, name, group or None, follow=follow)


class PlacesStream(Stream):
    """The answer; it knows the attempts that it has sent."""

    def __init__(self, request: Request, name: str, group: str | None, *, follow: bool) -> None:
        super().__init__(committer_of(request))
        self._request = request
        self._follow = follow
        self._name = name
        self._group = group
        self._told: dict[int, Place] | None = None
        self._next = b""

    def greeting(self) -> bytes:
        """Return the first message for the reader."""
        return b": all places first, then changes\n\n"

    def over(self) -> bool:
        """Return whether the stream is over: the center stops, or the reader does not follow."""
        return super().over() or not self._follow

    def part(self) -> bytes:
        """Return the changes since the last part; empty if there are none."""
        part, self._next = self._next or self._look(), b""
        return part

    async def wait(self) -> None:
        """Wait until something has changed."""
        news, loop = self.committer.events, asyncio.get_running_loop()
        until = loop.time() + HEARTBEAT
        while not self._next and not self.committer.stopping and loop.time() < until:
            # Every step counts, also one without an event: a task that was ordered to stop.
            await news.wait(news.last, until - loop.time())
            if not self.committer.stopping:
                await asyncio.sleep(PACE)
                self._next = self._look()

    def _look(self) -> bytes:
        found = resolve(self.committer.machine, self._name, self._group)
        now = {place.attempt: place for place in found if sees_number(self._request, place.job)}
        told, self._told = self._told, now
        known = told or {}
        fresh = [place for attempt, place in now.items() if known.get(attempt) != place]
        gone = [attempt for attempt in known if attempt not in now]
        if told is not None and not fresh and not gone:
            return b""
        change = PlacesChange(places=tuple(map(place_view, fresh)), gone=tuple(gone), all=told is None)
        return b"event: places\ndata: %s\n\n" % to_json(change)
