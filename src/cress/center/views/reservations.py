"""Advance reservations as views."""

from __future__ import annotations

from collections.abc import Iterable

from cress.core.advance.choice import FoundNodes, leaving_for
from cress.core.future.advance_reservations import Kept
from cress.core.jobs import Attempt
from cress.core.scheduler import Scheduler
from cress.model.advance import AdvanceReservation, known
from cress.model.advancetext import say_every
from cress.model.times import NEVER, SECOND
from cress.model.vectors import format_vector
from cress.protocol.lease_views import ReservationsPage, ReservationView

ACTIVE, COMING, SHORT = "active", "coming", "short"


def reservations_page(core: Scheduler) -> ReservationsPage:
    """Return all reservations, ordered by their next start."""
    views = [reservation_view(core, kept) for kept in core.advance_reservations.by_name.values()]
    return ReservationsPage(reservations=tuple(sorted(views, key=lambda view: (view.start or 0, view.name))))


def reservation_view(core: Scheduler, kept: Kept) -> ReservationView:
    """Return one existing reservation."""
    spec, cluster = kept.spec, core.cluster
    nodes = {f for f, _ in kept.places}
    active = kept.is_active(core.now)
    leaving = len(leaving_for(core.books, spec))
    group = core.groups.by_name.get(spec.group)
    used = sum(1 for attempt in group.attempts.values() if attempt.node in nodes) if group is not None else 0
    stopping = active and any(
        attempt.node in nodes and not _is_inside(kept, attempt) for attempt in core.books.leaving.values()
    )
    gone = any(cluster.lost[f] or (cluster.cordoned[f] is not None and not spec.is_maintenance) for f in nodes)
    state = SHORT if gone or (leaving and active) or stopping else ACTIVE if active else COMING
    return view_of(core, spec, kept.times, state=state, used=used, leaving=leaving)


def found_view(core: Scheduler, found: FoundNodes) -> ReservationView:
    """Return a reservation that could be made."""
    offset = core.groups.wall_offset or 0
    zone = core.advance_reservations.zone_of(found.reservation)
    times = [(start - offset, end - offset) for start, end in known(found.reservation, core.now + offset, zone)]
    return view_of(core, found.reservation, times, state=COMING, used=0, leaving=len(found.attempts))


def view_of(
    core: Scheduler, spec: AdvanceReservation, times: Iterable[tuple[int, int]], *, state: str, used: int, leaving: int
) -> ReservationView:
    """Return the view of a reservation with these times, on the clock of the core."""
    moments = [(start, end) for start, end in times]
    first = moments[0] if moments else (None, None)
    return ReservationView(
        name=spec.name,
        group=spec.group,
        state=state,
        start=_seconds(core, first[0]),
        until=_seconds(core, first[1]),
        next=_seconds(core, moments[1][0]) if len(moments) > 1 else None,
        every=say_every(spec.days),
        zone=spec.zone,
        nodes=dict(spec.places),
        resource=format_vector(spec.amounts, core.dimensions) if spec.amounts else "",
        count=spec.count,
        requirement=spec.requirement,
        at_end=spec.at_end,
        by=spec.by,
        used=used,
        leaving=leaving,
    )


def _seconds(core: Scheduler, time: int | None) -> float | None:
    return None if time is None or time >= NEVER else (time + (core.groups.wall_offset or 0)) / SECOND


def _is_inside(kept: Kept, attempt: Attempt) -> bool:
    return attempt.job.group.name == kept.spec.group
