"""Calls about nodes, and key figures of the cluster."""

from __future__ import annotations

import time

import msgspec
from starlette.requests import Request
from starlette.responses import Response

import cress
from cress.center.access.redaction import redacted
from cress.center.api.bodies import read, reply
from cress.center.api.context import committer_of, sees_number, user_of
from cress.center.api.errors import UnknownResource
from cress.center.api.routes import Routes, query_of
from cress.center.committing.committer import Committer
from cress.center.committing.lookup import state_of
from cress.center.process.turns import chunks, in_turns
from cress.center.views.jobs import is_up, match_views, node_view, resources, whole_node_view
from cress.core.diagnostics.match_report import remarks_on
from cress.lifecycle.inputs import Drain, NodeDead
from cress.lifecycle.tables.rows import LiveNode
from cress.model.errors import InputError
from cress.model.events import NodeCordoned
from cress.model.records import JobState
from cress.model.times import SECOND, seconds
from cress.model.units import one_of
from cress.protocol.bodies import Body, CordonBody, DrainBody
from cress.protocol.calls import cluster_calls
from cress.protocol.cluster_views import DelayView, NodesPage, StateView
from cress.protocol.queries import NodesQuery

MOST_REASON = 1_000
# Most nodes of one page, even with a higher limit.
MOST_PAGE = 1_000
# Seconds in a year.
MOST_DEADLINE = 366 * 86_400

router = Routes()


@router.answers(cluster_calls.NODES)
async def nodes(request: Request) -> Response:
    """List nodes in the order of their registration; ``next`` of a page is ``after`` of the following one.

    With ``where`` (a requirement) or ``rank`` each node shows whether it satisfies the one, and its value in
    the other.
    """
    committer, query = committer_of(request), query_of(request, NodesQuery)
    matches = match_views(committer, query.where, query.rank) if query.where or query.rank else {}
    known = list(committer.machine.nodes.values())
    first = 0
    if query.after:
        names = list(committer.machine.nodes)
        first = names.index(query.after) + 1 if query.after in names else len(names)
    page = known[first : first + min(query.limit, MOST_PAGE)]
    more = page[-1].node.name if first + len(page) < len(known) else None
    async with committer.turns.long_answer():
        made = [node_view(committer, live) async for live in in_turns(page)]
    views = (msgspec.structs.replace(view, match=matches.get(view.name)) for view in made)
    notes = tuple(map(redacted, remarks_on(committer.machine.core.books, query.where, query.rank))) if matches else ()
    return reply(NodesPage(nodes=tuple(views), next=more, notes=notes))


@router.answers(cluster_calls.NODE)
async def node(request: Request, name: str) -> Response:
    """Return one node, with its tasks and the ports in use."""
    committer = committer_of(request)
    view = whole_node_view(committer, known_node(committer, name))
    seen = tuple(task for task in view.tasks if sees_number(request, task.job))
    devices = tuple(
        msgspec.structs.replace(device, tasks=tuple(task for task in device.tasks if sees_number(request, task.job)))
        for device in view.devices
    )
    return reply(msgspec.structs.replace(view, tasks=seen, devices=devices))


@router.answers(cluster_calls.CORDON)
async def cordon(request: Request, name: str) -> Response:
    """Cordon a node: it gets no new tasks; running tasks go on."""
    return await _cordon(request, name, cordoned=True)


@router.answers(cluster_calls.UNCORDON)
async def uncordon(request: Request, name: str) -> Response:
    """Uncordon a node: it gets tasks again."""
    return await _cordon(request, name, cordoned=False)


@router.answers(cluster_calls.DRAIN)
async def drain(request: Request, name: str) -> Response:
    """Drain a node: it gets no new tasks; tasks that still run at a deadline are stopped and run elsewhere."""
    committer = committer_of(request)
    body = await read(request, DrainBody)
    known_node(committer, name)
    if body.deadline is not None and not 0 <= body.deadline <= MOST_DEADLINE:
        hint = f"0 to {MOST_DEADLINE} seconds, or null for none"
        raise InputError(f"{body.deadline:g} is not a deadline", hint=hint, field="deadline")
    deadline = None if body.deadline is None else seconds(body.deadline)
    reason = body.reason[:MOST_REASON]
    await committer.submit(Drain(name=name, deadline=deadline, reason=reason, by=user_of(request)))
    return reply(node_view(committer, known_node(committer, name)))


@router.answers(cluster_calls.FORGET)
async def forget(request: Request, name: str) -> Response:
    """Declare a node dead: its tasks are lost and run elsewhere, regardless of their jobs' settings.

    The node leaves the cluster until its executor joins again. Refused while the executor is connected.
    """
    committer = committer_of(request)
    await read(request, Body)
    view = node_view(committer, known_node(committer, name))
    await committer.submit(NodeDead(name=name, forget=True))
    return reply(view)


@router.answers(cluster_calls.STATE)
async def state(request: Request) -> Response:
    """Return key figures of the cluster."""
    committer = committer_of(request)
    machine = committer.machine
    dimensions = machine.core.dimensions
    capacity = used = (0,) * len(dimensions)
    up, cluster = 0, machine.core.cluster
    async for nodes in in_turns(chunks(list(machine.nodes.values()))):
        there = [live.node for live in nodes if is_up(committer, live)]
        up += len(there)
        known = [cluster.index[node.name] for node in there if node.name in cluster.index]
        capacity = tuple(map(sum, zip(capacity, *(node.capacity for node in there), strict=True)))
        used = tuple(map(sum, zip(used, cluster.used_on(known), strict=True)))
    # A service, database, cron job or dag counts as one job, regardless of its members.
    counts = await committer.work_counter.counts(machine)
    single, running = counts.alone, counts.running
    async for family in in_turns(list(machine.families.values())):
        single += 1
        running += state_of(committer, family) is JobState.RUNNING
    return reply(
        StateView(
            version=cress.__version__,
            epoch=committer.epoch,
            started=committer.started / SECOND,
            now=committer.clock.utc() / SECOND,
            nodes=len(machine.nodes),
            nodes_up=up,
            jobs_waiting=single - running,
            jobs_running=running,
            tasks_waiting=counts.waiting.total(),
            tasks_running=len(machine.attempts),
            capacity=resources(capacity, dimensions),
            used=resources(used, dimensions),
            # Standing by is not a problem: the leader stores the changes.
            problem="" if committer.loop.is_aside else committer.problem,
            delay=_delay(committer),
        )
    )


def _delay(committer: Committer) -> DelayView | None:
    """Return the longest time of the last hour in which the center answered no request."""
    worst = committer.watchdog.worst()
    if worst is None:
        return None
    ago = time.monotonic() - worst.at
    return DelayView(at=committer.clock.utc() / SECOND - ago, length=worst.length, what=worst.what)


@router.answers(cluster_calls.HEALTH)
async def health() -> Response:
    """Answer that the center is alive; needs no token and reveals nothing."""
    return Response(b'{"status":"ok"}', media_type="application/json")


async def _cordon(request: Request, name: str, *, cordoned: bool) -> Response:
    committer = committer_of(request)
    body = await read(request, CordonBody)
    known_node(committer, name)
    await committer.submit(
        NodeCordoned(name=name, cordoned=cordoned, reason=body.reason[:MOST_REASON] if cordoned else "")
    )
    return reply(node_view(committer, known_node(committer, name)))


def known_node(committer: Committer, name: str) -> LiveNode:
    """Return the node with that name. Raises NotFound."""
    nodes = committer.machine.nodes
    if name not in nodes:
        hint = one_of(name, list(nodes)[:20]) if nodes else "no node has registered yet"
        raise UnknownResource(f"there is no node {name[:100]!r} ({hint})")
    return nodes[name]
