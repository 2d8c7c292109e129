"""Calls about advance reservations, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict
from urllib.parse import quote

from cress.client.calls import Call
from cress.protocol.reservationviews import ReservationsPage, ReservationView

_PATH = "/v1/reservations"
# What is called otherwise in a request, since these are words of Python.
_NAMES = {"start": "from", "length": "for"}


class ReservationKeys(TypedDict, total=False):
    """An advance reservation: texts as on the command line; ``start`` is ``--from``, ``length`` is ``--for``."""

    group: str
    nodes: Sequence[str]
    count: int
    resource: str | Mapping[str, object]
    requirement: str
    start: str
    until: str
    length: str
    every: str
    at_end: str
    replace: bool
    dry_run: bool


def reserve(name: str, fields: ReservationKeys) -> Call[ReservationView]:
    """Make a reservation of these fields."""
    body = {"name": name, **{_NAMES.get(key, key): value for key, value in fields.items()}}
    return Call(ReservationView, "POST", _PATH, body=body, again=False)


def reservations() -> Call[ReservationsPage]:
    """List the reservations."""
    return Call(ReservationsPage, "GET", _PATH)


def remove(name: str) -> Call[ReservationView]:
    """Remove a reservation."""
    return Call(ReservationView, "DELETE", f"{_PATH}/{quote(name, safe='')}", again=False)
