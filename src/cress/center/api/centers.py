"""Calls about the centers that share a store."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from cress.center.api.bodies import reply
from cress.center.api.context import committer_of
from cress.center.api.routes import Routes, query_of
from cress.center.leader.failover import Failover
from cress.center.leader.history_exchange import blocks_of, rows_of
from cress.protocol.calls import cluster_calls
from cress.protocol.centers import CentersPage, CenterView, HandedOver, HistoryRowsView
from cress.protocol.queries import HistoryRowsQuery

router = Routes()


def _failover(request: Request) -> Failover:
    failover: Failover = request.app.state.failover
    return failover


@router.answers(cluster_calls.CENTERS)
async def centers(request: Request) -> Response:
    """Return the centers that share the store: the leader first, then the standbys."""
    failover = _failover(request)
    leader, here = failover.leader, failover.address
    known = {leader: True} if leader else {}
    for address in (here, *await failover.others()):
        known.setdefault(address, False)
    views = (CenterView(address=address, leads=leads, here=address == here) for address, leads in known.items())
    return reply(CentersPage(centers=tuple(views), age=round(failover.age, 3)))


@router.answers(cluster_calls.HAND_OVER)
async def hand_over(request: Request) -> Response:
    """Make another center the leader. Calls and tasks go on; this center becomes a standby."""
    return reply(HandedOver(leader=await _failover(request).hand_over()))


@router.answers(cluster_calls.HISTORY_ROWS)
async def history_rows(request: Request) -> Response:
    """Return finished work of the history of this center, for another center that lacks it."""
    query, committer = query_of(request, HistoryRowsQuery), committer_of(request)
    if query.block is None:
        return reply(HistoryRowsView(blocks=await blocks_of(committer, query.since)))
    return reply(await rows_of(committer, query.block, since=query.since, after=query.after))
