"""Calls about the centers that share a store."""

from __future__ import annotations

from fastapi import Request, Response

from cress.center.api.bodies import reply
from cress.center.api.routes import Routes
from cress.center.leading.leadership import Leadership
from cress.protocol.calls import cluster_calls
from cress.protocol.leadership import CentersPage, CenterView, HandedOver

router = Routes()


def _leadership(request: Request) -> Leadership:
    leadership: Leadership = request.app.state.leadership
    return leadership


@router.answers(cluster_calls.CENTERS)
async def centers(request: Request) -> Response:
    """Return the centers that share the store: the one that leads first, then those that stand by."""
    leadership = _leadership(request)
    leader, here = leadership.leader, leadership.address
    known = {leader: True} if leader else {}
    for address in (here, *await leadership.others()):
        known.setdefault(address, False)
    views = (CenterView(address=each, leads=leads, here=each == here) for each, leads in known.items())
    return reply(CentersPage(centers=tuple(views), age=round(leadership.age, 3)))


@router.answers(cluster_calls.HAND_OVER)
async def hand_over(request: Request) -> Response:
    """Have another center lead. Calls and tasks go on; this center stands by then."""
    return reply(HandedOver(leader=await _leadership(request).hand_over()))
