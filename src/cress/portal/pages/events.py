"""Events as they happen."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.portal.sessions import BrowserSession
from cress.portal.web import page, signed_in

# Events that are shown.
SHOWN = 100


@signed_in
async def events(request: Request, session: BrowserSession) -> Response:
    """Show the latest events, newest first."""
    given = request.query_params
    chosen = {name: given.get(name, "").strip() for name in ("kind", "group", "job", "node")}
    recent = await session.viewer.recent_events()
    shown = [
        one
        for one in recent
        if one.kind.startswith(chosen["kind"])
        and (not chosen["group"] or one.group == chosen["group"])
        and (not chosen["job"] or str(one.job) == chosen["job"])
        and (not chosen["node"] or one.node == chosen["node"])
    ]
    kinds = ("job", "task", "node", "group", "reservation", "lease", "config", "center")
    return await page(request, session, "events.html", events=shown[:SHOWN], chosen=chosen, kinds=kinds, about="")


ROUTES = [Route("/events", events, methods=["GET"])]
