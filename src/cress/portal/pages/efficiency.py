"""Efficiency: what finished work asked for and what it used."""

from __future__ import annotations

import time
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.client import calls
from cress.portal.sessions import BrowserSession
from cress.portal.texts import share
from cress.portal.web import page, signed_in
from cress.protocol.cluster_views import EfficiencyView

WAYS = ("name", "user", "group")
# Days that can be chosen, and rows that are shown.
DAYS = (1, 7, 30)
SHOWN = 200


class EfficiencyRow(NamedTuple):
    """Work with its used shares of processor time and of memory, from 0 to 1; memory: the largest peak of a task."""

    view: EfficiencyView
    cpu: float
    memory: float
    unused: float


def row_of(view: EfficiencyView) -> EfficiencyRow:
    """Return a row; ``unused`` are core hours that were held and not used."""
    held = view.held.get("cpu", 0.0)
    return EfficiencyRow(
        view,
        share(view.cpu_seconds, held),
        share(view.memory_peak, view.memory_asked),
        max(0.0, held - view.cpu_seconds) / 3600,
    )


@signed_in
async def efficiency(request: Request, session: BrowserSession) -> Response:
    """Show finished work, that with the most unused core hours first."""
    given = request.query_params
    by = given.get("by", "name") if given.get("by", "name") in WAYS else "name"
    days = int(given.get("days", "30")) if given.get("days", "30") in map(str, DAYS) else 30
    user, group = given.get("user", "").strip(), given.get("group", "").strip()
    # A minute as step, so that pages share one answer.
    since = (time.time() - days * 86400) // 60 * 60
    found = await session.viewer.ask(calls.efficiency(by=by, user=user, group=group, since=since), fresh=20.0)
    return await page(
        request,
        session,
        "efficiency.html",
        rows=[row_of(view) for view in found.work[:SHOWN]],
        total=len(found.work),
        chosen={"by": by, "days": days, "user": user, "group": group},
        ways=WAYS,
        days=DAYS,
        about="",
        pause=30,
    )


ROUTES = [Route("/efficiency", efficiency, methods=["GET"])]
