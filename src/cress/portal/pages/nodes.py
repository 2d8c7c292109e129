"""Nodes: a heat map with a table, and the page of one node."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.client import calls
from cress.client.errors import ClientError
from cress.model.access import Role, role_of
from cress.model.errors import InputError
from cress.model.units import parse_duration
from cress.model.whole_numbers import whole_number
from cress.portal.dimensions import measured
from cress.portal.drawings import curve
from cress.portal.nodes_view import SMALL, STATES, AllNodes, NodeMap, all_nodes, chosen, map_of, used_dimensions
from cress.portal.pages.overview import FULL
from cress.portal.sessions import BrowserSession
from cress.portal.trials import TrialResult, tried_if_possible
from cress.portal.web import FormError, back_to, changing, page, query, signed_in
from cress.protocol.access_views import CallerView
from cress.protocol.cluster_views import NodeView

# Rows of the table: drawing a hundred, with their bars, took longer than all the rest of a click.
ROWS = 30
LOAD_KINDS = ("cpu", "memory", "network", "disk")


def may_steer(caller: CallerView) -> bool:
    """Return whether the buttons of a node are shown; the center decides anyway."""
    return role_of(caller.role).rank >= Role.OPERATOR.rank


class _Wanted(NamedTuple):
    """The nodes that an address asks for: all of them, those that match, how they lie on the map, by what they are
    coloured, and the problem of the filter.
    """

    every: AllNodes
    shown: list[NodeView]
    drawn: NodeMap
    by: str
    group: str
    problem: str


async def _wanted(request: Request, session: BrowserSession) -> _Wanted:
    given = request.query_params
    where, state, name = (given.get(key, "").strip() for key in ("where", "state", "name"))
    problem = ""
    try:
        found = await all_nodes(session.viewer, where)
    except Exception as error:
        if not where:
            raise
        # A mistake in the filter: the page shows it beside the text, and all nodes.
        problem = str(error)
        found = await all_nodes(session.viewer, "")
    by, group = given.get("by", ""), given.get("group", "")
    by = by if by in found.dimensions else next(iter(found.dimensions), "cpu")
    group = group if group in found.attributes else ""
    shown = chosen(found.nodes, state, name)
    return _Wanted(found, shown, map_of(shown, group), by, group, problem)


@signed_in
async def nodes(request: Request, session: BrowserSession) -> Response:
    """Show the nodes: map, filter, table."""
    given, wanted = request.query_params, await _wanted(request, session)
    every = wanted.every
    first = whole_number(given.get("from", "")) or 0
    rows = wanted.drawn.nodes[first : first + ROWS]
    names = used_dimensions(rows, every.dimensions)
    asked = {key: given.get(key, "").strip() for key in ("where", "state", "name")}
    return await page(
        request,
        session,
        "nodes.html",
        nodes=[(node, [one for one in measured(node.capacity, node.used) if one.name in names]) for node in rows],
        count=len(wanted.shown),
        total=len(every.nodes),
        notes=every.notes,
        problem=wanted.problem,
        chosen={**asked, "by": wanted.by, "group": wanted.group},
        attributes=every.attributes,
        dimensions=every.dimensions,
        states=STATES,
        first=first,
        rows=ROWS,
        map={"parts": wanted.drawn.parts, "count": len(wanted.shown)},
        about="",
        pause=3 if len(every.nodes) <= SMALL else 10,
    )


@signed_in
async def heat_map(request: Request, session: BrowserSession) -> Response:
    """Return the nodes of the map as columns.

    The script of the page asks for them when the page is there: those of 10,000 nodes are larger than all the rest.
    With the version that it has in ``since`` it gets what changed; 204 if nothing did.
    """
    wanted = await _wanted(request, session)
    asked = query({**request.query_params, "since": ""})
    answer = session.viewer.maps.answer(asked, wanted.drawn.columns(wanted.by), request.query_params.get("since", ""))
    headers = {"Cache-Control": "no-store"}
    if answer is None:
        return Response(status_code=204, headers=headers)
    return Response(answer, media_type="application/json", headers=headers)


@signed_in
async def node(request: Request, session: BrowserSession) -> Response:
    """Show one node: its use, tasks, devices, attributes."""
    return await _node(request, session)


async def _node(
    request: Request, session: BrowserSession, trial: TrialResult | None = None, form: Mapping[str, str] | None = None
) -> Response:
    """Return the page of a node; with a ``trial`` it shows what the drain of the form would do."""
    viewer, now = session.viewer, time.time()
    caller = await viewer.caller()
    view = await viewer.ask(calls.node(request.path_params["name"]))
    explanation = None
    with suppress(ClientError):
        explanation = await viewer.ask(calls.node_explanation(view.name), fresh=5.0)
    loads = viewer.note_load(view.name, view.load, now)
    return await page(
        request,
        session,
        "node.html",
        node=view,
        measures=measured(view.capacity, view.used),
        curves={kind: curve([(at, getattr(load, kind)) for at, load in loads]) for kind in LOAD_KINDS},
        explanation=explanation,
        nearly_full=FULL,
        steer=may_steer(caller),
        trial=trial,
        form=form or {},
        now=now,
        about=f"node:{view.name}" if trial is None else None,
    )


async def _drain(request: Request, session: BrowserSession, form: Mapping[str, str]) -> Response:
    """Drain a node; with ``preview`` only show what that would do."""
    name, viewer = request.path_params["name"], session.viewer
    try:
        deadline = parse_duration(form.get("deadline", "") or "10min") / 1e6
    except InputError as error:
        raise error.at(field="deadline") from None
    if "preview" in form:
        trial = await tried_if_possible(viewer, {"drain": {name: deadline}})
        return await _node(request, session, trial, form)
    await viewer.change(calls.drain(name, deadline, form.get("reason", "")))
    told = f"{name} is draining: it gets no new tasks, and is empty by the deadline"
    return back_to(request.url.path.rpartition("/")[0], session, told)


@changing
async def change(request: Request, session: BrowserSession, form: dict[str, str]) -> Response:
    """Cordon, uncordon or drain a node, then show it."""
    name, viewer = request.path_params["name"], session.viewer
    match request.path_params["change"]:
        case "cordon":
            await viewer.change(calls.cordon(name, form.get("reason", "")))
            told = f"{name} is cordoned: it gets no new tasks; running tasks go on"
        case "uncordon":
            await viewer.change(calls.uncordon(name))
            told = f"{name} may have tasks again"
        case "drain":
            return await _drain(request, session, form)
        case other:
            raise FormError(f"a node has no change {other[:40]!r}", 404)
    return back_to(request.url.path.rpartition("/")[0], session, told)


ROUTES = [
    Route("/nodes", nodes, methods=["GET"]),
    Route("/map", heat_map, methods=["GET"]),
    Route("/nodes/{name}", node, methods=["GET"]),
    Route("/nodes/{name}/{change}", change, methods=["POST"]),
]
