"""Operations on leases, shared by the blocking and the asyncio client (see ``effects``)."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from cress.client import lease_calls as calls
from cress.client.effects import Emit, Operation, RetryBudget, retried
from cress.client.errors import NotFound, Refused, Unauthorized
from cress.client.jobs import checked, mapping_of, plain_keys
from cress.client.lease_keywords import LeaseKeys
from cress.model.errors import InputError
from cress.protocol.leaseviews import LeasesPage, LeaseView

# The center answers as soon as a lease has changed. Seconds.
LONG_WAIT = 20.0
# What it is asked for at least, so that it has a chance to answer late.
SHORT_WAIT = 0.05
# A watcher renews so often within a term.
RENEWALS = 3

_KEYS = frozenset({*LeaseKeys.__annotations__, "workload", "resource", "count", "command", "group", "name", "gang"})
# Leases as they are now.
Views: TypeAlias = list[LeaseView]
_ALL = _KEYS | {"min_time", "term", "uses"}


def body_of(keys: Mapping[str, object]) -> dict[str, object]:
    """Return the body of a request from keywords, without those that are ``None``; programs start in the current
    directory. Raises ``InputError``.
    """
    given = checked("a lease", keys, _ALL)
    return mapping_of(given) if "command" in given else plain_keys(given)


def listed(workload: str, group: str, budget: RetryBudget) -> Operation[list[LeaseView]]:
    """Return all leases of a workload, or of all."""
    page = yield from retried(calls.leases(workload, group), budget)
    return (yield from _rest(page, workload, group, budget))


def _rest(page: LeasesPage, workload: str, group: str, budget: RetryBudget) -> Operation[list[LeaseView]]:
    """Return the leases of a page and of all that follow it."""
    found = list(page.leases)
    while page.next is not None:
        page = yield from retried(calls.leases(workload, group, after=page.next), budget)
        found += page.leases
    return found


def watched(ids: tuple[str, ...], workload: str, group: str, budget: RetryBudget, *, renews: bool) -> Operation[None]:
    """Emit leases as they are at first, then each that has changed (``changes``); of one that is over, its last view
    with the state ``over``.

    ``renews``: the caller is their holder, whose terms begin anew several times within each of them.
    """
    if len(ids) > 1:
        raise InputError("one request is watched, or a workload", field="id")
    known: dict[str, LeaseView] = {}
    stamp, wait = "", 0.0
    renewed = -math.inf
    while True:
        call = (
            calls.lease(ids[0], stamp=stamp, wait=wait)
            if ids
            else calls.leases(workload, group, stamp=stamp, wait=wait)
        )
        page = yield from retried(call, budget)
        leases = yield from _rest(page, workload, group, budget)
        now = {each.id: each for each in leases}
        if page.stamp != stamp:
            for each in changes(known, now):
                yield Emit(each)
        known, stamp = now, page.stamp
        if ids and not now:
            return
        wait = LONG_WAIT
        terms = [each.term for each in now.values() if each.job is not None and each.term]
        if renews and terms:
            # Changes may be many: they do not renew more often than time does.
            every = min(terms) / RENEWALS
            if time.monotonic() - renewed >= every:
                yield from _renew((each for each in now.values() if each.job is not None), budget)
                renewed = time.monotonic()
            wait = max(SHORT_WAIT, min(LONG_WAIT, renewed + every - time.monotonic()))


def _renew(views: Iterable[LeaseView], budget: RetryBudget) -> Operation[None]:
    """Renew one lease of each holder, which stands for all of its workload."""
    for view in {(view.group, view.workload, view.user): view for view in views}.values():
        try:
            yield from retried(calls.renew(job_of(view.id)), budget)
        except (Refused, NotFound, Unauthorized):
            # It is over by now, or somebody else's.
            continue


def changes(known: Mapping[str, LeaseView], now: Mapping[str, LeaseView]) -> list[LeaseView]:
    """Return the leases that have changed between two looks: those that are over or wait again first.

    One that waits again has its own id and the reason of its request; what waited and has started is told by the leases
    that it became.
    """
    # By request: how many of its leases wait that did not before, and have not started since.
    again: Counter[int | None] = Counter({each.job: each.count for each in now.values() if each.task is None})
    again.subtract({each.job: each.count for each in known.values() if each.task is None})
    again.update(each.job for id, each in now.items() if each.task is not None and id not in known)
    there, found = {each.job for each in now.values()}, []
    for id, before in known.items():
        if id in now or (before.task is None and before.job is not None and before.job in there):
            continue
        if before.task is not None and again[before.job] > 0:
            again[before.job] -= 1
            request = now[str(before.job)]
            found.append(msgspec.structs.replace(request, id=id, task=before.task, count=1))
        else:
            found.append(over(before))
    return found + [each for id, each in now.items() if id not in known or stripped(known[id]) != stripped(each)]


def over(view: LeaseView) -> LeaseView:
    """Return the last view of a lease that is over."""
    return msgspec.structs.replace(view, state="over")


def stripped(view: LeaseView) -> LeaseView:
    """Return a view without the time that is left."""
    return msgspec.structs.replace(view, expires=None)


def job_of(id: str | int) -> str:
    """Return the job of a lease."""
    return str(id).partition(".")[0]
