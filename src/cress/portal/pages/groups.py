"""Groups: the tree with use and quotas, usage by the hour, and the page of one group, where it is edited."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.client import calls
from cress.client.errors import ClientError
from cress.model.access import Role, role_of
from cress.portal.group_texts import KEYWORDS, LIMITS, changed_text, keywords_of
from cress.portal.groups_view import rows_of
from cress.portal.past import SPANS, past_curves, span_of
from cress.portal.sessions import BrowserSession
from cress.portal.texts import segment
from cress.portal.trials import TrialResult, tried_if_possible
from cress.portal.web import FormError, back_to, changing, page, sentences, signed_in, status_of
from cress.portal.weeks import timetable_of
from cress.protocol.access_views import CallerView
from cress.protocol.cluster_views import Applied, UsagePage
from cress.protocol.queries import UsageQuery

HOURS = 24
# Groups that are found without a search.
FEW = 12
# Size of the drawing of usage, height of a row of it.
WIDTH, HEIGHT = 960, 34


class UsageColumn(NamedTuple):
    """The usage of one hour: its place, its height, and its text."""

    x: float
    y: float
    width: float
    height: float
    text: str


def columns_of(page: UsagePage, since: float) -> dict[str, list[UsageColumn]]:
    """Return the core hours of each group by the hour, as columns of a drawing; all groups have one scale."""
    most = max((row.core_seconds for row in page.usage), default=0.0)
    columns: dict[str, list[UsageColumn]] = {}
    for row in page.usage:
        hour = int((row.start - since) // 3600)
        if most <= 0 or not 0 <= hour < HOURS:
            continue
        height = max(1.0, row.core_seconds / most * (HEIGHT - 2))
        width = WIDTH / HOURS
        text = f"{row.core_seconds / 3600:.2f} core hours, {row.succeeded} succeeded, {row.failed} failed"
        columns.setdefault(row.group, []).append(
            UsageColumn(round(hour * width, 1), round(HEIGHT - height, 1), round(width - 2, 1), round(height, 1), text)
        )
    return columns


async def usage_of(session: BrowserSession) -> tuple[dict[str, list[UsageColumn]], str]:
    """Return the usage of the last hours by group, and why it is not known."""
    since = (time.time() // 3600 - HOURS + 1) * 3600
    try:
        return columns_of(await session.viewer.ask(calls.usage(UsageQuery(since=since)), fresh=30.0), since), ""
    except ClientError as error:
        return {}, str(error)


@signed_in
async def groups(request: Request, session: BrowserSession) -> Response:
    """Show the groups."""
    found = await session.viewer.ask(calls.groups())
    columns, problem = await usage_of(session)
    name, rows = request.query_params.get("name", "").strip(), rows_of(found.groups)
    return await page(
        request,
        session,
        "groups.html",
        groups=[row for row in rows if name.lower() in row.view.name.lower()],
        total=len(rows),
        few=FEW,
        name=name,
        text=found.text,
        columns=columns,
        problem=problem,
        about="",
    )


def may_edit(caller: CallerView, name: str) -> tuple[str, ...]:
    """Return the keywords of a group that the caller may change; the center decides anyway."""
    if role_of(caller.role) is Role.ADMIN:
        return (*KEYWORDS, *LIMITS)
    return LIMITS if name in caller.administers else ()


@signed_in
async def group(request: Request, session: BrowserSession) -> Response:
    """Show one group, with a form; parameters of the address are first values of its fields."""
    return await _group(request, session, dict(request.query_params))


async def _group(
    request: Request,
    session: BrowserSession,
    asked: Mapping[str, str],
    *,
    applied: Applied | None = None,
    trial: TrialResult | None = None,
    values: Mapping[str, str | None] | None = None,
    mistakes: list[str] | None = None,
    status: int = 200,
) -> Response:
    viewer, name = session.viewer, request.path_params["name"]
    caller = await viewer.caller()
    found = await viewer.ask(calls.groups())
    view = next((one for one in found.groups if one.name == name), None)
    if view is None:
        raise FormError(f"there is no group {name[:40]!r}", 404)
    columns, problem = await usage_of(session)
    written, editable = keywords_of(found.text, name), may_edit(caller, name)
    others = tuple(key for key in written if key not in editable) if editable else ()
    explanation = None
    if view.waiting:
        try:
            explanation = await viewer.ask(calls.group_explanation(name), fresh=5.0)
        except ClientError as error:
            problem = str(error)
    return await page(
        request,
        session,
        "group.html",
        status,
        group=view,
        row=next(row for row in rows_of([view])),
        zone=found.zone,
        week=timetable_of(view.timetable or written.get("ResourceQuota", "")),
        columns=columns,
        problem=problem,
        explanation=explanation,
        past=await past_curves(viewer, span_of(request.query_params.get("span", "")), name),
        spans=SPANS,
        fields=[(key, asked.get(key, written.get(key, "")), written.get(key, "")) for key in editable],
        others=[(key, written[key]) for key in others],
        proposed={key: asked[key] for key in editable if key in asked},
        applied=applied,
        trial=trial,
        values=values or {},
        mistakes=mistakes or [],
        about="" if applied is None else None,
    )


def values_of(form: Mapping[str, str], written: Mapping[str, str]) -> dict[str, str | None]:
    """Return the keywords that a form changes; an empty field removes the keyword."""
    given = {key: form[key].strip() for key in (*KEYWORDS, *LIMITS) if key in form}
    return {key: value or None for key, value in given.items() if value != written.get(key, "")}


@changing
async def preview(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """Check a change of a group, and show what it would do; nothing is changed."""
    viewer, name = session.viewer, request.path_params["name"]
    text = (await viewer.client.ask(calls.groups())).text
    values = values_of(form, keywords_of(text, name))
    if not values:
        return back_to(f"/groups/{segment(name)}", session, "nothing was changed in the form")
    try:
        applied = await viewer.client.ask(calls.set_group(name, values, dry_run=True))
    except ClientError as error:
        return await _group(request, session, form, mistakes=sentences(error), status=status_of(error))
    trial = await tried_if_possible(viewer, {"groups": changed_text(text, name, values)})
    return await _group(request, session, form, applied=applied, trial=trial, values=values)


@changing
async def change(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """Change keywords of a group: those that the form has, empty ones are removed."""
    name = request.path_params["name"]
    values: dict[str, Any] = {key: form[key].strip() or None for key in (*KEYWORDS, *LIMITS) if key in form}
    try:
        applied = await session.viewer.change(calls.set_group(name, values))
    except ClientError as error:
        return await _group(request, session, form, mistakes=sentences(error), status=status_of(error))
    what = f"{applied.changes} change{'' if applied.changes == 1 else 's'} made to group {name}"
    return back_to(f"/groups/{segment(name)}", session, what)


ROUTES = [
    Route("/groups", groups, methods=["GET"]),
    Route("/groups/{name}", group, methods=["GET"]),
    Route("/groups/{name}/preview", preview, methods=["POST"]),
    Route("/groups/{name}/change", change, methods=["POST"]),
]
