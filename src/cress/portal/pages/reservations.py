"""Advance reservations: a calendar of the week, a form to make one, and a button to cancel one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.client import calls
from cress.client.errors import ClientError
from cress.model.access import Role, role_of
from cress.model.errors import InputError
from cress.portal.pages.jobs import number_of
from cress.portal.sessions import BrowserSession
from cress.portal.web import back_to, changing, page, sentences, signed_in, status_of
from cress.portal.weeks import calendar_of
from cress.protocol.lease_views import ReservationView

# Fields of the form: name, what is sent, and an example.
FIELDS = (
    ("name", "Name", "exam"),
    ("nodes", "Nodes", "n1, n[2-5]"),
    ("count", "Or a number of nodes", "4"),
    ("resource", "Only these amounts of each", "<4, 8G>"),
    ("requirement", "On nodes with", "Memory >= 8G"),
    ("start", "From", "18:00, 2026-12-01 18:00, +2h"),
    ("length", "For", "4h"),
    ("until", "Or until", "22:00"),
    ("every", "Every", "day, week, mon-fri"),
)

TEXTS = ("group", "resource", "requirement", "start", "length", "until", "every", "at_end")


@signed_in
async def reservations(request: Request, session: BrowserSession) -> Response:
    """Show the reservations of a week."""
    return await _page(request, session, {})


async def _page(
    request: Request,
    session: BrowserSession,
    form: Mapping[str, str],
    *,
    planned: ReservationView | None = None,
    mistakes: list[str] | None = None,
    status: int = 200,
) -> Response:
    viewer = session.viewer
    caller = await viewer.caller()
    found = (await viewer.ask(calls.reservations())).reservations
    groups = await viewer.ask(calls.groups(), fresh=5.0)
    zone = zone_of(groups.zone)
    today = datetime.now(zone).date()
    monday = monday_of(request.query_params.get("week", ""), today)
    return await page(
        request,
        session,
        "reservations.html",
        status,
        reservations=found,
        drawn=calendar_of((*found, *((planned,) if planned else ())), monday, zone),
        monday=monday,
        earlier=monday - timedelta(days=7),
        later=monday + timedelta(days=7),
        zone=str(zone),
        admin=role_of(caller.role) is Role.ADMIN,
        groups=[group.name for group in groups.groups if not group.inner],
        fields=FIELDS,
        form=form,
        planned=planned,
        mistakes=mistakes or [],
        about="" if not form else None,
    )


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone of the cluster; UTC if this machine does not know it."""
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")


def monday_of(text: str, today: date) -> date:
    """Return the Monday of the week that an address names, else of this week. Raises InputError."""
    try:
        day = date.fromisoformat(text) if text else today
        return day - timedelta(days=day.weekday())
    except (ValueError, OverflowError):
        raise InputError(f"{text[:40]!r} is not a day", hint="such as 2026-12-01", field="week") from None


def asked_of(form: Mapping[str, str]) -> tuple[str, calls.ReservationKeys]:
    """Return the name and the fields of a reservation in a form. Raises InputError."""
    given: dict[str, Any] = {key: form[key].strip() for key in TEXTS if form.get(key, "").strip()}
    nodes = [name for name in form.get("nodes", "").replace(",", " ").split() if name]
    if nodes:
        given["nodes"] = nodes
    if form.get("count", "").strip():
        given["count"] = number_of(form["count"].strip(), "count", 1)
    return form.get("name", "").strip(), calls.ReservationKeys(**given)  # type: ignore[typeddict-item]


@changing
async def make(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """Make a reservation; with ``preview`` only show which nodes it would have, and who would have to leave."""
    looks = "preview" in form
    try:
        name, asked = asked_of(form)
        if looks:
            asked["dry_run"] = True
            planned = await session.viewer.client.ask(calls.reserve(name, asked))
            return await _page(request, session, form, planned=planned)
        made = await session.viewer.change(calls.reserve(name, asked))
    except (InputError, ClientError) as error:
        return await _page(request, session, form, mistakes=sentences(error), status=status_of(error))
    return back_to("/reservations", session, f"reservation {made.name} is made")


@changing
async def remove(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """Remove a reservation; what runs in it goes on."""
    name = request.path_params["name"]
    await session.viewer.change(calls.remove_reservation(name))
    return back_to("/reservations", session, f"reservation {name} is removed")


ROUTES = [
    Route("/reservations", reservations, methods=["GET"]),
    Route("/reservations", make, methods=["POST"]),
    Route("/reservations/{name}/remove", remove, methods=["POST"]),
]
