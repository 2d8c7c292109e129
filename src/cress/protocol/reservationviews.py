"""Advance reservations as the API shows them."""

from __future__ import annotations

import msgspec

from cress.protocol.views import View


class ReservationView(View, frozen=True):
    """An advance reservation of a ``group``; without one it is for maintenance.

    ``state`` is active, coming, or short: nodes of it are away, cordoned or not yet empty. ``start`` and ``until``
    (seconds since the epoch) are those of the present or next time, ``next`` the start of the one after. ``nodes`` are
    its nodes, with how often it has ``resource`` there; an empty resource: whole nodes. Nodes were chosen if there is a
    ``count``. ``used`` is the number of running tasks of its group there, ``leaving`` that of the tasks of others that
    have to stop at its start unless they end before.
    """

    name: str
    group: str = ""
    state: str = "coming"
    start: float | None = None
    until: float | None = None
    next: float | None = None
    every: str = ""
    zone: str = ""
    nodes: dict[str, int] = msgspec.field(default_factory=dict)
    resource: str = ""
    count: int = 0
    requirement: str = ""
    at_end: str = "keep"
    by: str = ""
    used: int = 0
    leaving: int = 0


class ReservationsPage(View, frozen=True):
    """The advance reservations of a cluster, by their starts."""

    reservations: tuple[ReservationView, ...] = ()
