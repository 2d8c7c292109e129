"""The stream of server-sent events that keeps an open page up to date."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from cress.model.whole_numbers import whole_number
from cress.portal.sessions import BrowserSession
from cress.portal.web import event, signed_in
from cress.protocol.cluster_views import EventView

# Seconds between two signs of life, and the least time between two updates of one page.
ALIVE, PAUSE = 15.0, 1.0
# Seconds after which the stream of events is connected.
SETTLE = 0.7


def wanted(about: str) -> Callable[[EventView], bool]:
    """Return whether an event changes a page: ``job:12`` is the page of that job, ``node:n1`` of that node."""
    kind, _, name = about.partition(":")
    if kind == "job" and (number := whole_number(name)) is not None:
        return lambda told: told.job == number
    if kind == "node":
        return lambda told: told.node == name
    return lambda _: True


@signed_in
async def live(request: Request, session: BrowserSession) -> Response:
    """Stream ``changed`` whenever the page should be read again, ``away`` and ``back`` for the center."""
    about = request.query_params.get("about", "")
    try:
        pause = min(60.0, max(PAUSE, float(request.query_params.get("pause", PAUSE))))
    except ValueError:
        pause = PAUSE

    async def stream() -> AsyncIterator[str]:
        viewer, away = session.viewer, ""
        yield event("alive", {})
        async with viewer.feed(wanted(about)) as feed:
            made = viewer.made_at(request.query_params.get("made", ""))
            changed, told = False, made or 0.0
            if made is None:
                # What happened between the making of the page and this moment has told no feed: read it again, once.
                await feed.wait(SETTLE)
                viewer.outdate()
                changed = True
            while True:
                if viewer.away and not away:
                    yield event("away", {"why": viewer.away})
                elif away and not viewer.away:
                    yield event("back", {})
                away = viewer.away
                if changed and not away:
                    yield event("changed", {})
                    told = time.monotonic()
                    await asyncio.sleep(pause)
                # The page may show an answer that is old, because it is kept for a while: it is read again after that.
                again = viewer.stale_until > told
                rest = min(ALIVE, max(0.0, viewer.stale_until - time.monotonic())) if again else ALIVE
                changed = await feed.wait(rest) or (again and time.monotonic() >= viewer.stale_until)
                if not changed:
                    yield event("alive", {})

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


ROUTES = [Route("/live", live)]
