"""Calls about the usage of groups over time, and about what work asked for and used."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cress.center.api.bodies import reply
from cress.center.api.context import committer_of, sight_of
from cress.center.api.routes import Routes, query_of
from cress.center.committing.committer import Committer
from cress.center.committing.lookup import group_of
from cress.center.process.turns import in_turns
from cress.center.views.efficiency import efficiency_views
from cress.model.errors import InputError
from cress.model.times import SECOND
from cress.model.units import one_of
from cress.protocol.calls import cluster_calls
from cress.protocol.cluster_views import EfficiencyPage, PastUsePage, UsagePage, UsageView
from cress.protocol.queries import EfficiencyQuery, PastUseQuery, UsageQuery
from cress.shell.center.past_use import GROUP, TASKS, USE
from cress.shell.center.past_use import SPANS as PAST_SPANS
from cress.store.base import JobFilter
from cress.store.usage import Usage, Used, Weight, add_usage

# Seconds of a span, and the number of spans without ``since``.
SPANS = {"hour": 3600, "day": 86_400}
DEFAULT_SPANS = {"hour": 24, "day": 30}
# The ways in which work is added up.
WAYS = ("name", "user", "group")
# Followed by a colon and the name of a label: by its values.
LABEL = "label"
# Most hours of one answer; later ones are on the next page.
MOST_HOURS = 24 * 62

router = Routes()


@router.answers(cluster_calls.USAGE)
async def usage(request: Request) -> Response:
    """Return the usage of groups by hour or day (UTC), in the spans that overlap ``since`` to ``until``.

    Times are seconds since the epoch; the default is the last 24 hours or 30 days. ``next`` of a page is ``since`` of
    the following one.
    """
    query = query_of(request, UsageQuery)
    group, by = query.group, query.by
    if by not in SPANS:
        raise InputError(f"{by[:40]!r} is not a span of time", hint=one_of(by, SPANS), field="by")
    committer = committer_of(request)
    span = SPANS[by]
    end = committer.clock.utc() / SECOND if query.until is None else query.until
    begin = end - DEFAULT_SPANS[by] * span if query.since is None else query.since
    first = int(begin // span) * span
    last = max(first, -int(-end // span) * span)
    page = min(last, first + MOST_HOURS * 3600 // span * span)
    found = await committer.history.usage(since=first, until=page, group=group)
    total: Usage = {}
    for usage in (found, await running(committer, group)):
        for (hour, name), used in usage.items():
            if first <= hour < page:
                total.setdefault((hour // span * span, name), Used()).add(used)
    views = (
        UsageView(start=float(start), group=name, **msgspec.structs.asdict(total[start, name]))
        for start, name in sorted(total)
    )
    return reply(UsagePage(usage=tuple(views), span=float(span), next=float(page) if page < last else None))


@router.answers(cluster_calls.PAST_USE)
async def past_use(request: Request) -> Response:
    """Return the use of the cluster and its groups over the past hour, day or week."""
    query, committer = query_of(request, PastUseQuery), committer_of(request)
    if query.span not in PAST_SPANS:
        raise InputError(f"{query.span[:40]!r} is not a span", hint=one_of(query.span, PAST_SPANS), field="span")
    now = committer.clock.utc() / SECOND
    found: dict[str, dict[str, tuple[float | None, ...]]] = {USE: {}, GROUP: {}, TASKS: {}}
    async for (kind, name), points in in_turns(committer.past_use.curves(query.span, now)):
        # The file may have been written by another release, which may know further kinds.
        if kind in found and (not query.group or (kind == GROUP and name == query.group)):
            found[kind][name] = tuple(points)
    page = PastUsePage(
        begin=committer.past_use.begin(query.span, now),
        step=float(PAST_SPANS[query.span].step),
        use=found[USE],
        groups=found[GROUP],
        tasks=found[TASKS],
    )
    return reply(page)


@router.answers(cluster_calls.EFFICIENCY)
async def efficiency(request: Request) -> Response:
    """Return what finished jobs asked for and used, those with the most unused core-seconds first.

    Times are seconds since the epoch; the default is the last 30 days. Of jobs that the caller does not see nothing is
    told.
    """
    query = query_of(request, EfficiencyQuery)
    by, _, label = query.by.partition(":")
    if query.by not in WAYS and not (by == LABEL and label):
        ways = (*WAYS, f"{LABEL}:NAME")
        raise InputError(f"{query.by[:40]!r} is no way to add up", hint=one_of(query.by, ways), field="by")
    committer, sight = committer_of(request), sight_of(request)
    until = committer.clock.utc() / SECOND if query.until is None else query.until
    since = until - DEFAULT_SPANS["day"] * SPANS["day"] if query.since is None else query.since
    filters = JobFilter(
        user=query.user,
        group=query.group,
        name=query.name,
        seen=None if sight.everything else (sight.user, sight.groups),
    )
    span = round(since * SECOND), round(until * SECOND)
    work = await committer.history.work_done(filters, since=span[0], until=span[1], label=label)
    dimensions = committer.machine.core.dimensions
    views = await asyncio.to_thread(efficiency_views, work, by, dimensions)
    return reply(EfficiencyPage(work=tuple(views), since=since, until=until))


async def running(committer: Committer, group: str) -> Usage:
    """Return the usage of running attempts so far, by hour."""
    usage: Usage = {}
    index = committer.machine.core.dimensions.index
    utc = committer.clock.utc()
    counts = await committer.work_counter.counts(committer.machine)
    async for job in in_turns(counts.busy):
        name = group_of(job)
        if group and name != group:
            continue
        async for attempt in in_turns(list(job.attempts.values())):
            request = job.job.request_of(attempt.task)
            weight = Weight(name, request[index["cpu"]], request[index["memory"]])
            add_usage(usage, weight, attempt.placed, max(utc, attempt.placed), 0)
    return usage
