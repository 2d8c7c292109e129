"""The time line of nodes: running tasks with their expected ends, and reservations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.client import calls
from cress.portal.drawings import ROW, Bar, Label, TimelineDrawing, TimeScale
from cress.portal.nodes_view import FRESH, all_nodes
from cress.portal.sessions import BrowserSession
from cress.portal.texts import segment
from cress.portal.web import page, signed_in
from cress.protocol.cluster_views import NodeView
from cress.protocol.job_views import JobView
from cress.protocol.lease_views import ReservationView
from cress.protocol.queries import JobsQuery

# Nodes of one page; tasks that are drawn of one node.
NODES, TASKS = 20, 8
# Spans that can be chosen, in seconds; one part of five lies in the past.
SPANS = {"1h": 3600, "6h": 6 * 3600, "24h": 86400, "7d": 7 * 86400}


def drawn(
    nodes: Sequence[NodeView],
    jobs: Mapping[int, JobView],
    reservations: Sequence[ReservationView],
    scale: TimeScale,
    now: float,
) -> TimelineDrawing:
    """Return nodes over time: each running task until now, lighter until its expected end, and reservations."""
    bars: list[Bar] = []
    labels: list[Label] = []
    y = 0
    for node in nodes:
        labels.append(Label(y, node.name, f"/nodes/{segment(node.name)}"))
        rows = 0
        for reservation in reservations:
            begin, end = reservation.start, reservation.until
            if node.name not in reservation.nodes or begin is None or end is None:
                continue
            if end > scale.begin and begin < scale.end:
                text = f"reservation {reservation.name} of {reservation.group or 'maintenance'}"
                bars.append(_bar(scale, begin, end, y, "reserved", text))
                rows = max(rows, 1)
        for row, task in enumerate(node.tasks[:TASKS]):
            job, started = jobs.get(task.job), task.started or now
            href = f"/jobs/{task.job}"
            told = f"{task.name or 'job'} {task.job}.{task.task} on {node.name}"
            bars.append(_bar(scale, started, now, y + row * ROW, "run", f"{told}, running", href))
            ends = expected_end(job, started)
            if ends is not None and ends > now:
                bars.append(_bar(scale, now, ends, y + row * ROW, "expected", f"{told}, expected until its end", href))
            rows = max(rows, row + 1)
        y += max(rows, 1) * ROW
    return TimelineDrawing(tuple(bars), tuple(labels), scale.marks(), scale.begin, scale.end, y + 20, scale.x(now))


def expected_end(job: JobView | None, begin: float) -> float | None:
    """Return the end of a task that is expected: by the estimate, else at the latest by its time limit."""
    if job is None:
        return None
    length = job.estimate.median if job.estimate is not None else job.time_limit
    return None if length is None else begin + length


def _bar(scale: TimeScale, begin: float, end: float, y: float, tone: str, text: str, href: str = "") -> Bar:
    x = scale.x(begin)
    return Bar(x, max(2.0, round(scale.x(end) - x, 1)), y, tone, text, href)


@signed_in
async def timeline(request: Request, session: BrowserSession) -> Response:
    """Show the time line of some nodes."""
    viewer, now, given = session.viewer, time.time(), request.query_params
    span = given.get("span", "1h") if given.get("span", "1h") in SPANS else "1h"
    first = int(given.get("from", "0")) if given.get("from", "0").isdigit() else 0
    nodes = (await all_nodes(viewer, "")).nodes
    shown = await asyncio.gather(*(viewer.ask(calls.node(node.name), FRESH) for node in nodes[first : first + NODES]))
    running = await viewer.ask(calls.jobs(JobsQuery(limit=1000, state="running")), FRESH)
    reservations = (await viewer.ask(calls.reservations(), FRESH)).reservations
    scale = TimeScale(now - SPANS[span] / 5, now + 4 * SPANS[span] / 5)
    jobs = {job.id: job for job in running.jobs}
    return await page(
        request,
        session,
        "timeline.html",
        drawn=drawn(shown, jobs, reservations, scale, now) if shown else None,
        span=span,
        spans=SPANS,
        first=first,
        size=NODES,
        total=len(nodes),
        about="",
        pause=3,
    )


ROUTES = [Route("/timeline", timeline, methods=["GET"])]
