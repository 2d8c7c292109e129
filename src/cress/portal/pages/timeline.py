"""The time line of nodes: past and running attempts with their expected ends, reservations, and expected starts."""

from __future__ import annotations

import asyncio
import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.client import calls
from cress.model.whole_numbers import whole_number
from cress.portal.drawings import TimeScale
from cress.portal.gantt import GanttWork, gantt_of
from cress.portal.job_view import waiting_jobs
from cress.portal.nodes_view import FRESH, all_nodes, chosen
from cress.portal.sessions import BrowserSession
from cress.portal.web import page, signed_in

# Nodes of one page; attempts that are asked for.
NODES, ATTEMPTS = 20, 2000
# Waiting jobs whose expected starts are asked for.
JOBS = 200
# Spans that can be chosen, in seconds.
SPANS = {"1h": 3600, "6h": 6 * 3600, "24h": 86400, "7d": 7 * 86400}
# The part of the span that lies in the past, by name of the view.
PARTS = {"past": 1.0, "now": 0.5, "future": 0.2}


@signed_in
async def timeline(request: Request, session: BrowserSession) -> Response:
    """Show some nodes over time."""
    viewer, now, given = session.viewer, time.time(), request.query_params
    span = given.get("span", "1h") if given.get("span", "1h") in SPANS else "1h"
    part = given.get("part", "now") if given.get("part", "now") in PARTS else "now"
    name, where = given.get("name", "").strip(), given.get("where", "").strip()
    first = whole_number(given.get("from", "")) or 0
    found = await all_nodes(viewer, where)
    nodes = chosen(found.nodes, "", name)
    shown = nodes[first : first + NODES]
    begin = now - SPANS[span] * PARTS[part]
    scale = TimeScale(begin, begin + SPANS[span])
    drawn = more = None
    pending = False
    if shown:
        # A minute as step, so that pages that open at about the same time share one answer.
        since, until = begin // 60 * 60, min(scale.end, now) // 60 * 60 + 60
        attempts, waiting, reserved, _ = await asyncio.gather(
            viewer.ask(calls.node_attempts([node.name for node in shown], max(0.0, since), until, ATTEMPTS), FRESH),
            waiting_jobs(viewer, JOBS, whole="whole" in given),
            viewer.ask(calls.reservations(), FRESH),
            viewer.caller(),
        )
        work = GanttWork(attempts.attempts, waiting.jobs if waiting else (), reserved.reservations)
        pending = waiting is None
        drawn, more = gantt_of([node.name for node in shown], work, scale, now), attempts.more
    return await page(
        request,
        session,
        "timeline.html",
        drawn=drawn,
        more=more,
        pending=pending,
        chosen={"span": span, "part": part, "name": name, "where": where},
        spans=SPANS,
        parts=PARTS,
        first=first,
        size=NODES,
        count=len(nodes),
        total=len(found.nodes),
        about="",
        pause=3,
    )


ROUTES = [Route("/timeline", timeline, methods=["GET"])]
