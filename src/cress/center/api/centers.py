"""Calls about the centers that share a store."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from cress.center.access.rights import Action
from cress.center.api.bodies import reply
from cress.center.api.context import demand
from cress.center.leading.leadership import Leadership
from cress.protocol.leadership import CentersPage, CenterView, HandedOver

router = APIRouter(prefix="/v1")


def _leadership(request: Request) -> Leadership:
    leadership: Leadership = request.app.state.leadership
    return leadership


@router.get("/centers")
async def centers(request: Request) -> Response:
    """Return the centers that share the store: the one that leads first, then those that stand by."""
    leadership = _leadership(request)
    leader, here = leadership.leader, leadership.address
    known = {leader: True} if leader else {}
    for address in (here, *await leadership.others()):
        known.setdefault(address, False)
    views = (CenterView(address=each, leads=leads, here=each == here) for each, leads in known.items())
    return reply(CentersPage(centers=tuple(views), age=round(leadership.age, 3)))


@router.post("/centers/hand-over")
async def hand_over(request: Request) -> Response:
    """Have another center lead. Calls and tasks go on; this center stands by then."""
    demand(request, Action.HAND_OVER)
    return reply(HandedOver(leader=await _leadership(request).hand_over()))
