"""Groups: the tree with use and quotas, usage by the hour, reservations."""

from __future__ import annotations

import time
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.client import calls
from cress.client.errors import ClientError
from cress.portal.groups_view import rows_of
from cress.portal.sessions import BrowserSession
from cress.portal.web import page, signed_in
from cress.protocol.cluster_views import UsagePage
from cress.protocol.queries import UsageQuery

HOURS = 24
# Size of the drawing of usage, height of a row of it.
WIDTH, HEIGHT = 960, 34


class UsageColumn(NamedTuple):
    """The usage of one hour: its place, its height, and its text."""

    x: float
    y: float
    width: float
    height: float
    text: str


def columns_of(page: UsagePage, since: float) -> dict[str, list[UsageColumn]]:
    """Return the core hours of each group by the hour, as columns of a drawing; all groups have one scale."""
    most = max((row.core_seconds for row in page.usage), default=0.0)
    columns: dict[str, list[UsageColumn]] = {}
    for row in page.usage:
        hour = int((row.start - since) // 3600)
        if most <= 0 or not 0 <= hour < HOURS:
            continue
        height = max(1.0, row.core_seconds / most * (HEIGHT - 2))
        width = WIDTH / HOURS
        text = f"{row.core_seconds / 3600:.2f} core hours, {row.succeeded} succeeded, {row.failed} failed"
        columns.setdefault(row.group, []).append(
            UsageColumn(round(hour * width, 1), round(HEIGHT - height, 1), round(width - 2, 1), round(height, 1), text)
        )
    return columns


@signed_in
async def groups(request: Request, session: BrowserSession) -> Response:
    """Show the groups and the reservations."""
    viewer, now = session.viewer, time.time()
    found = await viewer.ask(calls.groups())
    since = (now // 3600 - HOURS + 1) * 3600
    problem = ""
    columns: dict[str, list[UsageColumn]] = {}
    try:
        columns = columns_of(await viewer.ask(calls.usage(UsageQuery(since=since)), fresh=30.0), since)
    except ClientError as error:
        problem = str(error)
    reservations = (await viewer.ask(calls.reservations(), fresh=5.0)).reservations
    return await page(
        request,
        session,
        "groups.html",
        groups=rows_of(found.groups),
        zone=found.zone,
        text=found.text,
        columns=columns,
        problem=problem,
        reservations=reservations,
        now=now,
        about="",
    )


ROUTES = [Route("/groups", groups, methods=["GET"])]
