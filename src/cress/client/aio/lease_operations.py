"""Operations on leases that need several calls."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Iterable

from cress.client import calls
from cress.client.aio.patient import AsyncPatientHttp
from cress.client.errors import NotFound, Refused, Unauthorized
from cress.client.lease_changes import changes, job_of
from cress.model.errors import InputError
from cress.protocol.lease_views import LeasesPage, LeaseView

# Seconds that the center may wait for a change; it answers as soon as a lease has changed.
LONG_WAIT = 20.0
# Least seconds to wait for, so that the center can wait for a change at all.
SHORT_WAIT = 0.05
# Renewals by a watcher within a term.
RENEWALS = 3


async def listed(workload: str, group: str, center: AsyncPatientHttp) -> list[LeaseView]:
    """Return all leases, or those of a workload or group."""
    page = await center.ask(calls.leases(workload, group))
    return await _rest(page, workload, group, center)


async def _rest(page: LeasesPage, workload: str, group: str, center: AsyncPatientHttp) -> list[LeaseView]:
    """Return the leases of a page and of all following pages."""
    found = list(page.leases)
    while page.next is not None:
        page = await center.ask(calls.leases(workload, group, after=page.next))
        found += page.leases
    return found


async def watched(
    ids: tuple[str, ...], workload: str, group: str, center: AsyncPatientHttp, *, renews: bool
) -> AsyncGenerator[LeaseView, None]:
    """Yield the present leases, then each one that has changed (``changes``).

    An ended lease comes once more, with its last view and the state ``over``. ``renews`` says that the caller is their
    holder; the leases are then renewed several times within each term.
    """
    if len(ids) > 1:
        raise InputError("give a lease or a workload, not both", field="id")
    known: dict[str, LeaseView] = {}
    stamp, wait = "", 0.0
    renewed = -math.inf
    while True:
        call = (
            calls.lease(ids[0], stamp=stamp, wait=wait)
            if ids
            else calls.leases(workload, group, stamp=stamp, wait=wait)
        )
        page = await center.ask(call)
        leases = await _rest(page, workload, group, center)
        now = {lease.id: lease for lease in leases}
        if page.stamp != stamp:
            for change in changes(known, now):
                yield change
        known, stamp = now, page.stamp
        if ids and not now:
            return
        wait = LONG_WAIT
        terms = [lease.term for lease in now.values() if lease.job is not None and lease.term]
        if renews and terms:
            # Renewals follow the clock, since there may be many changes.
            every = min(terms) / RENEWALS
            if time.monotonic() - renewed >= every:
                await _renew((lease for lease in now.values() if lease.job is not None), center)
                renewed = time.monotonic()
            wait = max(SHORT_WAIT, min(LONG_WAIT, renewed + every - time.monotonic()))


async def _renew(views: Iterable[LeaseView], center: AsyncPatientHttp) -> None:
    """Renew one lease of each holder, which renews all of its workload."""
    for view in {(view.group, view.workload, view.user): view for view in views}.values():
        try:
            await center.ask(calls.renew_lease(job_of(view.id)))
        except (Refused, NotFound, Unauthorized):
            # The lease has ended, or belongs to another user.
            continue
