"""Usage: the amounts that finished work held, by group, user, job or the value of a label, with their cost."""

from __future__ import annotations

import time
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.client import calls
from cress.model.errors import InputError
from cress.model.prices import cost_of, parse_prices
from cress.portal.sessions import BrowserSession
from cress.portal.texts import share
from cress.portal.web import page, signed_in
from cress.protocol.cluster_views import EfficiencyView

# Ways to add up work, with their words in the API. The last one is followed by the name of a label.
WAYS = {"group": "group", "user": "user", "job": "name", "label": "label:"}
# Days that can be chosen, and rows that are shown.
DAYS = (1, 7, 30, 90)
SHOWN = 200
GB = 2**30
# Dimensions that have columns of their own.
OWN = ("cpu", "memory")


class UsageRow(NamedTuple):
    """Work of one group, user, name of jobs or value of a label: its share of all core hours, hours and cost."""

    view: EfficiencyView
    title: str
    share: float
    cores: float
    memory: float
    others: dict[str, float]
    cost: float


def rows_of(work: tuple[EfficiencyView, ...], by: str, prices: dict[str, float]) -> list[UsageRow]:
    """Return the rows, the largest share of the core hours first."""
    whole = sum(view.held.get("cpu", 0.0) for view in work)
    rows = [
        UsageRow(
            view,
            view.label if by == "label" else str(getattr(view, WAYS[by])),
            share(view.held.get("cpu", 0.0), whole),
            view.held.get("cpu", 0.0) / 3600,
            view.held.get("memory", 0.0) / 3600 / GB,
            {name: amount / 3600 for name, amount in view.held.items() if name not in OWN},
            cost_of(view.held, prices),
        )
        for view in work
    ]
    return sorted(rows, key=lambda row: (-row.cores, row.title))


@signed_in
async def usage(request: Request, session: BrowserSession) -> Response:
    """Show the usage of finished work."""
    given = request.query_params
    by = given.get("by", "group") if given.get("by", "group") in WAYS else "group"
    days = int(given.get("days", "30")) if given.get("days", "30") in map(str, DAYS) else 30
    label, weights = given.get("label", "").strip(), given.get("weights", "").strip()
    work: tuple[EfficiencyView, ...] = ()
    mistakes: list[str] = []
    prices: dict[str, float] = {}
    if by != "label" or label:
        # A minute as step, so that pages share one answer.
        since = (time.time() - days * 86400) // 60 * 60
        call = calls.efficiency(by=WAYS[by] + label if by == "label" else WAYS[by], since=since)
        work = (await session.viewer.ask(call, fresh=20.0)).work
        try:
            prices = parse_prices(weights, sorted({name for view in work for name in view.held}), "cost of an hour")
        except InputError as error:
            mistakes = [str(error)]
    rows = rows_of(work, by, prices)
    return await page(
        request,
        session,
        "usage.html",
        rows=rows[:SHOWN],
        total=len(rows),
        dimensions=sorted({name for row in rows for name in row.others}),
        prices=prices,
        cost=sum(row.cost for row in rows),
        mistakes=mistakes,
        chosen={"by": by, "days": days, "label": label, "weights": weights},
        ways=WAYS,
        days=DAYS,
        about="",
        pause=30,
    )


ROUTES = [Route("/usage", usage, methods=["GET"])]
