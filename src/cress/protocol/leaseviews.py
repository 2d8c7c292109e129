"""Leases of workloads as the API shows them."""

from __future__ import annotations

import msgspec

from cress.protocol.views import Resources, View


class LeaseTask(View, frozen=True):
    """A task that uses a part of a lease: ``amounts`` of it. ``job`` is ``None`` for who may not see that job."""

    job: int | None
    task: int | None
    group: str
    amounts: Resources


class LeaseView(View, frozen=True):
    """A lease of a workload, or ``count`` leases of one request that wait.

    ``id`` is JOB.TASK of the job that holds it (JOB of those that wait), or ``@ATTEMPT`` of one that the center keeps
    for a workload itself. ``state`` is waiting, starting, held, stopping or kept. ``holds`` is all of it: what its
    holder ``uses`` by itself, what is ``idle``, what ``tasks`` of the workload have, and what is ``lent``; ``wants`` is
    what the holder asked to use, more than ``uses`` while borrowers give back. A lease that is stopping ends at
    ``stops_at``, for ``reason``; of one that waits that is why. It ends at ``expires`` unless its holder is heard of
    before, ``term`` seconds after the last time. Times are seconds since the epoch.
    """

    id: str
    job: int | None
    task: int | None
    workload: str
    group: str
    state: str
    holds: Resources
    user: str = ""
    name: str = ""
    count: int = 1
    node: str = ""
    uses: Resources = msgspec.field(default_factory=dict)
    wants: Resources = msgspec.field(default_factory=dict)
    idle: Resources = msgspec.field(default_factory=dict)
    tasks: tuple[LeaseTask, ...] = ()
    lent: tuple[LeaseTask, ...] = ()
    since: float | None = None
    stops_at: float | None = None
    reason: str = ""
    term: float | None = None
    expires: float | None = None
    attempt: int | None = None


class LeasesPage(View, frozen=True):
    """Leases, those that wait first, then by age. ``stamp`` is new whenever one of them changes; ``next`` is ``after``
    of the following page.

    ``note``, of a request: remarks on it, as on a submit.
    """

    leases: tuple[LeaseView, ...]
    stamp: str = ""
    next: int | None = None
    note: str = ""
