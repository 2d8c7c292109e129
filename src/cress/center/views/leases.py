"""Views of leases: their amounts, their users, and their loans."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from cress.center.access.redaction import redacted
from cress.center.views.jobs import moment, resources
from cress.lifecycle.tables.timers import TERM
from cress.model.group import DEFAULT_GROUP
from cress.model.times import SECOND
from cress.protocol.lease_views import LeaseTask, LeaseView, WorkloadView

if TYPE_CHECKING:
    from cress.center.committing.committer import Committer
    from cress.core.jobs import Attempt, WorkloadLease
    from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
    from cress.model.resources import ResourceVector

# Returns whether the caller sees the job with a number.
Sees = Callable[[int], bool]


def leases_of_job(committer: Committer, job: LiveJob, sees: Sees) -> list[LeaseView]:
    """Return the leases of one request: waiting ones as one entry, then held ones, by task."""
    waiting = [_waiting(committer, job)] if job.waiting and not job.ending else []
    return waiting + [_held(committer, job, task, sees) for task in _by_task(job)]


def _by_task(job: LiveJob) -> list[LiveAttempt]:
    return sorted(job.attempts.values(), key=lambda attempt: attempt.task)


def kept_lease(committer: Committer, lease: WorkloadLease, sees: Sees) -> LeaseView:
    """Return a lease that the center keeps for a workload itself."""
    dimensions = committer.machine.core.dimensions
    tasks, lent = _inside(committer, lease, sees), _lent(committer, lease, sees)
    return LeaseView(
        id=f"@{lease.id}",
        job=None,
        task=None,
        workload=lease.workload.name,
        group=lease.workload.group.name,
        state="kept",
        node=committer.machine.core.cluster.names[lease.node],
        holds=resources(_sum(_beside(lease)), dimensions),
        idle=resources(lease.idle_amounts(), dimensions),
        tasks=tasks,
        lent=lent,
        attempt=lease.id,
    )


class WorkloadSums:
    """Adds up what each workload holds, lease by lease."""

    def __init__(self, committer: Committer) -> None:
        self._core = committer.machine.core
        self._views: dict[tuple[str, str], WorkloadView] = {}
        self._amounts: dict[tuple[str, str], dict[str, ResourceVector]] = {}
        self._nodes: dict[tuple[str, str], dict[str, ResourceVector]] = {}

    def add_request(self, job: LiveJob) -> None:
        """Add the leases of one request."""
        key = (job.job.group or DEFAULT_GROUP, job.job.workload)
        self._count(key, waiting=job.waiting if not job.ending else 0)
        for attempt in job.attempts.values():
            known = self._core.attempts.get(attempt.id)
            uses = job.job.request if known is None else known.amounts
            self._add(key, attempt.node, uses, self._core.pool.leases.get(attempt.id))

    def add_kept(self, lease: WorkloadLease) -> None:
        """Add a lease that the center keeps."""
        key = (lease.workload.group.name, lease.workload.name)
        self._count(key, kept=1)
        self._add(key, self._core.cluster.names[lease.node], (), lease)

    def views(self, wanted: Callable[[str, str], bool]) -> list[WorkloadView]:
        """Return the sums, by group and workload, also of workloads that only borrow."""
        for lease in self._core.pool.leases.values():
            for part in lease.lent:
                assert part.borrower is not None
                job = part.borrower.job
                if job.is_part and wanted(job.group.name, job.workload):
                    self._count((job.group.name, job.workload))
                    self._plus((job.group.name, job.workload), "borrows", part.amounts)
        dimensions = self._core.dimensions
        return [
            msgspec.structs.replace(
                view,
                **{name: resources(amounts, dimensions) for name, amounts in self._amounts[key].items()},
                nodes={node: resources(amounts, dimensions) for node, amounts in sorted(self._nodes[key].items())},
            )
            for key, view in sorted(self._views.items())
        ]

    def _count(self, key: tuple[str, str], *, kept: int = 0, waiting: int = 0) -> None:
        view = self._views.get(key)
        if view is None:
            view = WorkloadView(group=key[0], workload=key[1])
            self._amounts[key], self._nodes[key] = {}, {}
        self._views[key] = msgspec.structs.replace(view, kept=view.kept + kept, waiting=view.waiting + waiting)

    def _add(self, key: tuple[str, str], node: str, uses: ResourceVector, lease: WorkloadLease | None) -> None:
        parts = {"uses": uses}
        if lease is not None:
            parts["idle"] = lease.idle_amounts()
            parts["tasks"] = _sum([amounts for _, amounts in _pieces(lease)])
            parts["lent"] = _sum([part.amounts for part in lease.lent])
        for name, amounts in parts.items():
            self._plus(key, name, amounts)
        holds = _sum(list(parts.values()))
        self._plus(key, "holds", holds)
        self._nodes[key][node] = _sum([self._nodes[key].get(node, ()), holds])
        self._views[key] = msgspec.structs.replace(self._views[key], leases=self._views[key].leases + 1)

    def _plus(self, key: tuple[str, str], name: str, amounts: ResourceVector) -> None:
        self._amounts[key][name] = _sum([self._amounts[key].get(name, ()), amounts])


def stamp_of(leases: Iterable[LeaseView]) -> str:
    """Return a text that changes with these leases, apart from their remaining time."""
    digest = hashlib.sha256()
    for lease in leases:
        digest.update(msgspec.json.encode(msgspec.structs.replace(lease, expires=None)))
    return digest.hexdigest()[:16]


def _common(committer: Committer, job: LiveJob) -> dict[str, object]:
    spec, machine = job.job, committer.machine
    ends = machine.timers.get(TERM, str(spec.id))
    return {
        "workload": spec.workload,
        "group": spec.group or DEFAULT_GROUP,
        "user": spec.user,
        "name": spec.name,
        "term": spec.term / SECOND if spec.term else None,
        "expires": None if ends is None else (ends - machine.now + machine.utc) / SECOND,
    }


def _waiting(committer: Committer, job: LiveJob) -> LeaseView:
    machine, number = committer.machine, job.job.id
    return LeaseView(
        id=str(number),
        job=number,
        task=None,
        state="waiting",
        count=job.waiting,
        holds=resources(job.job.request, machine.core.dimensions),
        reason=redacted(machine.reason(number, committer.clock.now())),
        **_common(committer, job),  # type: ignore[arg-type]
    )


def _held(committer: Committer, job: LiveJob, attempt: LiveAttempt, sees: Sees) -> LeaseView:
    core = committer.machine.core
    dimensions, request = core.dimensions, job.job.request
    lease = core.pool.leases.get(attempt.id)
    known = core.attempts.get(attempt.id)
    uses = request if known is None else known.amounts
    stopping = attempt.halted or job.ending
    grace = job.job.stop_grace if attempt.grace is None else attempt.grace
    return LeaseView(
        id=f"{job.job.id}.{attempt.task}",
        job=job.job.id,
        task=attempt.task,
        state="stopping" if stopping else "held" if attempt.started else "starting",
        node=attempt.node,
        holds=resources(uses if lease is None else _sum([uses, *_beside(lease)]), dimensions),
        uses=resources(uses, dimensions),
        wants=resources(uses if lease is None else lease.wanted, dimensions),
        idle=resources(() if lease is None else lease.idle_amounts(), dimensions),
        tasks=() if lease is None else _inside(committer, lease, sees),
        lent=() if lease is None else _lent(committer, lease, sees),
        since=moment(attempt.placed),
        stops_at=moment(attempt.halted_at + grace) if attempt.halted_at else None,
        reason=redacted(job.reason if job.ending else attempt.halted_for),
        attempt=attempt.id,
        **_common(committer, job),  # type: ignore[arg-type]
    )


def _beside(lease: WorkloadLease) -> list[ResourceVector]:
    """Return the parts of a lease beside its holder's own use: idle parts, tasks, loans."""
    return [lease.idle_amounts(), *(piece for _, piece in _pieces(lease)), *(part.amounts for part in lease.lent)]


def _pieces(lease: WorkloadLease) -> Iterator[tuple[Attempt, ResourceVector]]:
    """Yield the workload's tasks in a lease, each with its part of the lease."""
    for attempt in lease.tasks.values():
        for where, (_, amounts) in attempt.inside:
            if where is lease:
                yield attempt, amounts


def _inside(committer: Committer, lease: WorkloadLease, sees: Sees) -> tuple[LeaseTask, ...]:
    return _tasks(committer, _pieces(lease), sees)


def _lent(committer: Committer, lease: WorkloadLease, sees: Sees) -> tuple[LeaseTask, ...]:
    parts = ((part.borrower, part.amounts) for part in lease.lent if part.borrower is not None)
    return _tasks(committer, parts, sees)


def _tasks(committer: Committer, parts: Iterable[tuple[Attempt, ResourceVector]], sees: Sees) -> tuple[LeaseTask, ...]:
    found: dict[int, tuple[Attempt, list[ResourceVector]]] = {}
    for attempt, amounts in parts:
        found.setdefault(attempt.id, (attempt, []))[1].append(amounts)
    return tuple(
        LeaseTask(
            job=attempt.job.job.id if sees(attempt.job.job.id) else None,
            task=attempt.task if sees(attempt.job.job.id) else None,
            group=attempt.job.group.name,
            amounts=resources(_sum(pieces), committer.machine.core.dimensions),
        )
        for attempt, pieces in found.values()
    )


def _sum(amounts: Sequence[ResourceVector]) -> ResourceVector:
    return tuple(map(sum, zip(*(amount for amount in amounts if amount), strict=True)))
