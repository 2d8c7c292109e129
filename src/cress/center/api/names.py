"""The name service: the places of the running tasks of a job, once or as a stream of changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response

from cress.center.access.rights import Sight
from cress.center.api.bodies import reply
from cress.center.api.context import caller_of, committer_of, sight_of, user_of
from cress.center.api.errors import Forbidden
from cress.center.api.routes import Routes, query_of
from cress.center.api.stream import HEARTBEAT, Stream
from cress.center.process.turns import in_turns
from cress.center.settings import CenterSettings
from cress.center.views.jobs import place_view
from cress.lifecycle.name_service import Place
from cress.lifecycle.name_table import NamesRevision, PlaceChange, parse_revision
from cress.model.errors import InputError
from cress.model.group import DEFAULT_GROUP
from cress.protocol.calls import cluster_calls
from cress.protocol.cluster_views import PlacesChange, PlacesPage
from cress.protocol.queries import PlacesQuery, PlacesStreamQuery
from cress.protocol.views import to_json

# Seconds between two messages to one reader, so that thousands of tasks that start together need few messages.
PACE = 0.05

router = Routes()


@router.answers(cluster_calls.RESOLVE)
async def names(request: Request, name: str) -> Response:
    """Return the running tasks of the jobs with a name, in one group or all: node, rack, address, ports."""
    committer = committer_of(request)
    group, sight = _asked(request, query_of(request, PlacesQuery).group)
    async with committer.turns.long_answer():
        table, domain = committer.names.table, domain_of(committer.settings)
        revision = str(table.revision)
        seen = [place for place in table.places(name, group) if sight.has(place.user, place.group)]
        views = [place_view(place, domain) async for place in in_turns(seen)]
        return reply(PlacesPage(places=tuple(views), revision=revision))


@router.answers(cluster_calls.WATCH_NAME)
async def watch(request: Request, name: str) -> Response:
    """Stream the running tasks of the jobs with a name as server-sent events: first all of them, then every change.

    With the revision ``after`` the stream resumes there if the later changes are still kept. The header
    ``Last-Event-ID``, which clients send by themselves, overrides it. Without ``follow`` the answer ends with the
    present state.
    """
    query = query_of(request, PlacesStreamQuery)
    last = request.headers.get("last-event-id", "") or query.after
    revision = parse_revision(last) if last else None
    if last and revision is None:
        raise InputError(f"{last[:40]!r} is not a revision", hint="one that an answer about names had", field="after")
    return PlacesStream(request, name, _asked(request, query.group), revision, follow=query.follow)


def _asked(request: Request, group: str) -> tuple[str | None, Sight]:
    """Return the group whose names are asked for, if it is one, and the jobs that are seen. Raises Forbidden.

    A job token asks about the group of its job, and sees all names there, as DNS shows them.
    """
    caller = caller_of(request)
    if not caller.attempt:
        return group or None, sight_of(request)
    machine = committer_of(request).machine
    attempt = machine.attempts.get(caller.attempt)
    job = None if attempt is None else machine.jobs.get(attempt.job)
    own = DEFAULT_GROUP if job is None else job.job.group or DEFAULT_GROUP
    if group not in ("", own):
        raise Forbidden(f"the token of job {caller.job} finds names of group {own} only")
    return own, Sight(everything=False, groups=(own,))


def domain_of(settings: CenterSettings) -> str:
    """Return the domain of the DNS responder; empty if there is none."""
    return settings.dns_domain if settings.dns is not None else ""


class PlacesStream(Stream):
    """A stream of places; its only state is the last revision sent."""

    def __init__(
        self,
        request: Request,
        name: str,
        asked: tuple[str | None, Sight],
        after: NamesRevision | None,
        *,
        follow: bool,
    ) -> None:
        """``asked`` are the group and the jobs that the reader sees."""
        super().__init__(committer_of(request), user_of(request))
        self._group, self._sight = asked
        self._domain = domain_of(self.committer.settings)
        self._follow = follow
        self._name = name
        self._told = after
        self._next_at = 0.0

    def greeting(self) -> bytes:
        """Return the first message for the reader."""
        return b": all places first, then changes; resume with Last-Event-ID\n\n"

    def sign(self) -> bytes:
        """Return a sign of life, from which a reader can also resume."""
        return b": \n\n" if self._told is None else b"id: %s\n: \n\n" % str(self._told).encode()

    def over(self) -> bool:
        """Return whether the stream ends: the center stops or loses the lead, or the reader does not follow."""
        return super().over() or not self._follow or self.committer.loop.is_aside

    def part(self) -> bytes:
        """Return all places, or the changes since the last part; empty without changes."""
        table = self.committer.names.table
        changes = None if self._told is None else table.since(self._name, self._told)
        self._told = table.revision
        if changes is None:
            places = [place for place in table.places(self._name) if self._shows(place)]
            return self._message(places, (), whole=True)
        fresh: dict[int, Place] = {}
        gone: dict[int, None] = {}
        for change in changes:
            self._count(change, fresh, gone)
        return self._message(fresh.values(), gone, whole=False) if fresh or gone else b""

    async def wait(self) -> None:
        """Wait for a change of the name."""
        loop, names = asyncio.get_running_loop(), self.committer.names
        if self._told is not None:
            await names.wait(self._name, self._told, HEARTBEAT)
        early = self._next_at - loop.time()
        if early > 0 and not self.committer.stopping:
            await asyncio.sleep(early)
        self._next_at = loop.time() + PACE

    def _shows(self, place: Place | None) -> bool:
        """Return whether the reader requested a place and may see it."""
        if place is None or self._group not in (None, place.group):
            return False
        return self._sight.has(place.user, place.group)

    def _count(self, change: PlaceChange, fresh: dict[int, Place], gone: dict[int, None]) -> None:
        """Note the effect of a change on the reader's places."""
        if change.after is not None and self._shows(change.after):
            fresh[change.after.attempt] = change.after
            gone.pop(change.after.attempt, None)
        elif change.before is not None and self._shows(change.before):
            fresh.pop(change.before.attempt, None)
            gone[change.before.attempt] = None

    def _message(self, places: Iterable[Place], gone: Iterable[int], *, whole: bool) -> bytes:
        revision = str(self._told)
        views = tuple(place_view(place, self._domain) for place in places)
        change = PlacesChange(places=views, gone=tuple(gone), all=whole, revision=revision)
        return b"id: %s\nevent: places\ndata: %s\n\n" % (revision.encode(), to_json(change))
