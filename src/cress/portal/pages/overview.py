"""The overview: how much is used, what waits and why, what needs a person."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cress.client import calls
from cress.client.errors import ClientError
from cress.portal.dimensions import measured
from cress.portal.groups_view import GroupRow, rows_of
from cress.portal.job_view import waiting_jobs
from cress.portal.nodes_view import SMALL, all_nodes, nodes_soon
from cress.portal.past import SPANS, past_curves, span_of
from cress.portal.sessions import BrowserSession
from cress.portal.viewers import Viewer
from cress.portal.web import page, signed_in
from cress.protocol.cluster_views import EventView, NodeView, StateView
from cress.protocol.job_views import JobsPage, JobView
from cress.protocol.queries import JobsQuery, UsageQuery

# Waiting jobs whose reasons are counted; the page says so if there are more. With more nodes than SMALL a reason takes
# some milliseconds of the center, so fewer are counted.
WAITING, OF_MANY_NODES = 500, 100
# Seconds for which lists of jobs are kept.
FRESH = 3.0
# Preemptions and groups that are listed.
PREEMPTIONS, MOST_GROUPS = 5, 20
# The sum of the quotas that is the whole cluster, but for rounding.
WHOLE = 1.005
# The used part from which a disk is nearly full.
FULL = 0.95
NUMBERS = re.compile(r"\d[\d,.]*")


class Reason(NamedTuple):
    """A reason of waiting jobs: how many have it, one of them, and its sentence."""

    jobs: int
    tasks: int
    first: int
    text: str


class Attention(NamedTuple):
    """Something that needs a person: what it is, where it is shown, and what would help."""

    what: str
    help: str
    href: str = ""


def reasons_of(jobs: Iterable[JobView]) -> list[Reason]:
    """Return the reasons of waiting jobs, the most frequent first; sentences that differ in numbers are one."""
    count: Counter[str] = Counter()
    tasks: Counter[str] = Counter()
    first: dict[str, JobView] = {}
    for job in jobs:
        if not job.reason or job.cron is not None:
            continue  # a cron job waits for its next moment, which is as it should be
        kind = NUMBERS.sub("N", job.reason)
        count[kind] += 1
        tasks[kind] += job.tasks.waiting
        first.setdefault(kind, job)
    return [Reason(number, tasks[kind], first[kind].id, first[kind].reason) for kind, number in count.most_common(8)]


def troubles_of(state: StateView, nodes: Sequence[NodeView], groups: Sequence[GroupRow], late: int) -> list[Attention]:
    """Return what needs a person, the worst first; ``nodes`` is empty while they are not known."""
    found: list[Attention] = []
    if state.problem:
        found.append(Attention(f"the center cannot store changes: {state.problem}", "free space on its disk"))
    if not state.nodes:
        found.append(Attention("the cluster has no node", "start an executor: `cress executor`", "/nodes"))
    for word, remedy in (
        ("away", "its executor does not answer: look at the machine, or declare it dead"),
        ("overloaded", "its measured load is too high for new tasks"),
        ("cordoned", "uncordon it when it may have tasks again"),
        ("draining", "its tasks end, or are stopped at the deadline"),
        ("drained", "nothing runs there: work on it, then uncordon it"),
    ):
        names = [node.name for node in nodes if node.state == word]
        if names:
            listed = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
            found.append(Attention(f"{word}: {listed}", remedy, f"/nodes?state={word}"))
    full = [f"{node.name} ({100 * node.load.full:.0f} %)" for node in nodes if node.load and node.load.full >= FULL]
    if full:
        listed = ", ".join(full[:5]) + (f" and {len(full) - 5:,} more" if len(full) > 5 else "")
        found.append(
            Attention(f"the disk is nearly full: {listed}", "tasks may fail there: free space on it, or drain the node")
        )
    unlimited = [node.name for node in nodes if node.unlimited]
    if unlimited:
        found.append(Attention(f"limits are not enforced on {', '.join(unlimited[:5])}", "the node's page says which"))
    found += [
        Attention(
            f"group {row.view.name} accepts no new jobs", "`cress groups set NAME Submit=open` opens it", "/groups"
        )
        for row in groups
        if row.view.closed
    ]
    promised = sum(row.view.share_of_cluster or 0.0 for row in groups if row.depth == 0)
    if promised > WHOLE:
        found.append(
            Attention(
                f"the quotas of all groups are {100 * promised:.0f} % of the cluster",
                "not all can be kept at once: groups share in proportion to their quotas",
                "/groups",
            )
        )
    if late:
        found.append(Attention(f"{late:,} deadlines at risk or missed", "look at these jobs", "/jobs?state=waiting"))
    if state.delay is not None and state.delay.length >= 1:
        found.append(
            Attention(f"the center answered nobody for {state.delay.length:.1f} s in the last hour", state.delay.what)
        )
    return found


def busiest(groups: Sequence[GroupRow]) -> list[GroupRow]:
    """Return the groups that the overview lists, in their order: all, or those that use most of their quotas."""
    chosen = set(sorted(range(len(groups)), key=lambda i: (not groups[i].over, -groups[i].share, i))[:MOST_GROUPS])
    return [row for number, row in enumerate(groups) if number in chosen]


async def preemptions_of(viewer: Viewer) -> list[EventView]:
    """Return the latest preemptions, the newest first; none if the events are not there in a moment."""
    events = [*reversed(viewer.events)] or await viewer.soon(("events", ""), viewer.recent_events, FRESH, "events")
    return [event for event in events or () if event.kind == "task.preempted"][:PREEMPTIONS]


async def deadlines_of(viewer: Viewer) -> tuple[int, int]:
    """Return how many jobs with deadlines met and missed them in the last 24 hours; none if that is not known."""
    since = (time.time() // 3600 - 23) * 3600
    try:
        usage = (await viewer.ask(calls.usage(UsageQuery(since=since)), fresh=30.0)).usage
    except ClientError:
        return 0, 0
    return sum(row.met for row in usage), sum(row.missed for row in usage)


async def _waiting(viewer: Viewer, *, whole: bool) -> JobsPage | None:
    nodes = (await viewer.ask(calls.state())).nodes
    return await waiting_jobs(viewer, WAITING if nodes <= SMALL else OF_MANY_NODES, whole=whole)


@signed_in
async def overview(request: Request, session: BrowserSession) -> Response:
    """Show the overview."""
    viewer, whole = session.viewer, "whole" in request.query_params
    # Each of them takes some milliseconds, and two may be waited for in vain: none waits for another one.
    (state, found, nodes, waiting), (running, ended), (deadlines, preempted, past) = await asyncio.gather(
        asyncio.gather(
            viewer.ask(calls.state()),
            viewer.ask(calls.groups()),
            all_nodes(viewer, "") if whole else nodes_soon(viewer),
            _waiting(viewer, whole=whole),
        ),
        asyncio.gather(
            viewer.ask(calls.jobs(JobsQuery(limit=8, state="running")), fresh=FRESH),
            viewer.ask(calls.jobs(JobsQuery(limit=8, state="failed")), fresh=FRESH),
        ),
        asyncio.gather(
            deadlines_of(viewer),
            preemptions_of(viewer),
            past_curves(viewer, span_of(request.query_params.get("span", ""))),
        ),
    )
    groups = rows_of(found.groups)
    late = sum(
        job.deadline is not None and job.deadline.forecast in LATE
        for job in (*(waiting.jobs if waiting else ()), *running.jobs)
    )
    return await page(
        request,
        session,
        "overview.html",
        state=state,
        measures=measured(state.capacity, state.used),
        past=past,
        spans=SPANS,
        groups=busiest(groups),
        every_group=len(groups),
        deadlines=deadlines,
        preempted=preempted,
        counting=waiting is None,
        looking=nodes is None,
        reasons=reasons_of(waiting.jobs) if waiting else [],
        counted=len(waiting.jobs) if waiting else 0,
        more=waiting is not None and waiting.next is not None,
        running=running.jobs,
        failed=[job for job in ended.jobs if time.time() - (job.ended or 0) < 86400],
        troubles=troubles_of(state, nodes.nodes if nodes else (), groups, late),
        now=time.time(),
        about="",
        pause=3,
    )


LATE = ("at_risk", "cannot_be_met", "missed")
ROUTES = [Route("/", overview, methods=["GET"])]
