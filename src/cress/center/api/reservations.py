"""Calls about advance reservations (design note 0032)."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response

from cress.center.api.bodies import read, reply
from cress.center.api.context import committer_of, user_of
from cress.center.api.errors import UnknownResource
from cress.center.api.routes import Routes
from cress.center.views.reservations import found_view, reservation_view, reservations_page
from cress.core.advance.given import reservation_of
from cress.lifecycle.reserving import checked
from cress.model.advancetext import ReservationText, free_name
from cress.model.events import AdvanceReservationRemoved, AdvanceReserved
from cress.model.units import closest
from cress.protocol.bodies import ReserveBody
from cress.protocol.calls import lease_calls

router = Routes()


@router.answers(lease_calls.RESERVATIONS)
async def reservations(request: Request) -> Response:
    """Return the advance reservations, ordered by their next start."""
    return reply(reservations_page(committer_of(request).machine.core))


@router.answers(lease_calls.RESERVE)
async def reserve(request: Request) -> Response:
    """Make an advance reservation, or with ``replace`` change the one with its name; a dry run shows the result."""
    committer = committer_of(request)
    body = await read(request, ReserveBody)
    core = committer.machine.core
    text = ReservationText(
        name=body.name or free_name(body.group, core.advance_reservations.by_name),
        group=body.group,
        nodes=tuple(body.nodes),
        count=body.count,
        resource=body.resource,
        requirement=body.requirement,
        start=body.start,
        until=body.until,
        length=body.length,
        every=body.every,
        at_end=body.at_end,
        by=user_of(request),
    )
    names = [name for name in core.cluster.names if name in committer.machine.nodes]
    now = time.time_ns() // 1_000
    spec = reservation_of(text, names, core.dimensions, now, core.groups.cluster_zone)
    found = checked(committer.machine, spec, replace=body.replace)
    if body.dry_run:
        return reply(found_view(core, found))
    await committer.submit(AdvanceReserved(reservation=spec, replace=body.replace))
    core = committer.machine.core
    kept = core.advance_reservations.by_name.get(spec.name)
    return reply(found_view(core, found) if kept is None else reservation_view(core, kept), 201)


@router.answers(lease_calls.UNRESERVE)
async def remove(request: Request, name: str) -> Response:
    """Remove an advance reservation; tasks that run in it go on."""
    committer = committer_of(request)
    known = committer.machine.core.advance_reservations.by_name
    if name not in known:
        near = closest(name, known)
        raise UnknownResource(f"there is no reservation {name[:100]}" + (f" (did you mean {near}?)" if near else ""))
    view = reservation_view(committer.machine.core, known[name])
    await committer.submit(AdvanceReservationRemoved(name=name, by=user_of(request)))
    return reply(view)
