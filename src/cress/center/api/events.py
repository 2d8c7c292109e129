"""Events as a stream (server-sent events); their numbers let an interrupted reader resume."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cress.center.access.redaction import redacted
from cress.center.api.context import committer_of, sees_number, sight_of, user_of
from cress.center.api.routes import Routes, query_of
from cress.center.api.stream import HEARTBEAT, Stream
from cress.model.errors import InputError
from cress.model.whole_numbers import whole_number
from cress.protocol.calls import cluster_calls
from cress.protocol.cluster_views import EventView
from cress.protocol.queries import EventsQuery
from cress.protocol.views import to_json

# Most events in one part, which bounds the memory of a reader.
CHUNK = 256
# Events whose user is the owner of the job; most jobs for which a reader remembers its right to see them.
_WITH_OWNER = frozenset({"job.submitted", "job.ended"})
MOST_KNOWN = 10_000

router = Routes()


@router.answers(cluster_calls.EVENTS)
async def events(request: Request) -> Response:
    """Stream the events after number ``after``, by default the new ones, as server-sent events.

    The header ``Last-Event-ID``, which clients send by themselves, overrides ``after``. Without ``follow`` the answer
    ends with the latest event and, without ``after``, begins with the oldest one kept. With ``last`` it begins at most
    so many events before the latest one.
    """
    committer, query = committer_of(request), query_of(request, EventsQuery)
    known, after = committer.events, query.after
    last = request.headers.get("last-event-id", "")
    if last:
        after = whole_number(last)
        if after is None:
            raise InputError(f"{last[:40]!r} is not a number of an event", hint="a whole number", field="Last-Event-ID")
    if after is None:
        after = known.last if query.follow else known.first - 1
    # A number beyond the last one: the cluster is new, or was restored from a backup.
    after = min(after, known.last)
    if query.last is not None:
        after = max(after, known.last - query.last)
    return EventStream(request, after, job=query.job, group=query.group, follow=query.follow)


class EventStream(Stream):
    """A stream of events; its only state is a position among the kept events."""

    def __init__(self, request: Request, after: int, *, job: int | None, group: str, follow: bool) -> None:
        super().__init__(committer_of(request), user_of(request))
        self._request, self._sight = request, sight_of(request)
        # Jobs and the reader's right to see them, which may be unknown when the last events are read.
        self._known: dict[int, bool] = {}
        self._at = after
        self._job = job
        self._group = group
        self._follow = follow

    def greeting(self) -> bytes:
        """Return the first message for the reader."""
        return b": numbered events; resume with Last-Event-ID\n\n"

    def sign(self) -> bytes:
        """Return a sign of life, from which a reader can also resume."""
        return b"id: %d\n: \n\n" % self._at

    def over(self) -> bool:
        """Return whether the stream ends: the center stops, or the reader does not follow."""
        return super().over() or not self._follow

    async def wait(self) -> None:
        """Wait for an event after the last one sent."""
        await self.committer.events.wait(self._at, HEARTBEAT)

    def part(self) -> bytes:
        """Return the next events that pass the filters; empty at the end."""
        known = self.committer.events
        lines: list[bytes] = []
        if self._at < known.first - 1:
            self._at = known.first - 1
            lines.append(_line(EventView(number=self._at, kind="gap", at=self.committer.clock.utc() / 1e6)))
        while not lines and (found := known.after(self._at, CHUNK)):
            self._at = found[-1].number
            lines += self._lines(found)
        return b"".join(lines)

    def _lines(self, found: Iterable[EventView]) -> list[bytes]:
        return [
            _line(self._shown(event))
            for event in found
            if (self._job is None or event.job == self._job)
            and (not self._group or event.group == self._group)
            and (event.job is None or self._sees(event, event.job))
        ]

    def _shown(self, event: EventView) -> EventView:
        text = event.text if self._sight.everything else redacted(event.text)
        return event if text == event.text else msgspec.structs.replace(event, text=text)

    def _sees(self, event: EventView, job: int) -> bool:
        """Return whether the reader sees the job of an event."""
        if self._sight.everything:
            return True
        if event.kind in _WITH_OWNER:
            seen = self._known[job] = self._sight.has(event.user, event.group)
            if len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
            return seen
        seen_before = self._known.get(job)
        return sees_number(self._request, job) if seen_before is None else seen_before


def _line(event: EventView) -> bytes:
    # Encoded JSON contains no line breaks.
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.number, event.kind.encode(), to_json(event))
