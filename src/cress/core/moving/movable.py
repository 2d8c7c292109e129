"""The choice of movable running tasks by the scheduler; the lifecycle adds readiness and updates."""

from __future__ import annotations

from collections import Counter

from cress.core.books import Books
from cress.core.jobs import Attempt
from cress.core.moving.plan import Candidates, Stays
from cress.core.tables import devices
from cress.model.job import JobType
from cress.model.node import DISK_KIND


def why_it_stays(core: Books, attempt: Attempt) -> Stays | None:
    """Return why a running task may not be moved, or not now; ``None`` if it may."""
    job = attempt.job
    spec = job.job
    if attempt.stopping:
        return Stays.STOPPING
    if spec.type is JobType.DATABASE:
        return Stays.DATABASE
    if spec.type is JobType.SERVICE:
        if spec.movable is False:
            return Stays.FORBIDDEN
    elif not spec.movable:
        return Stays.UNDECLARED if spec.type is JobType.BATCH else Stays.OTHERS
    if spec.gang:
        return Stays.GANG
    if attempt.parts or attempt.inside or attempt.id in core.pool.leases or spec.workload or spec.is_lease:
        return Stays.LEASE
    if job.companions or job.carried or job.beside or attempt.task in job.foreseen.homes:
        return Stays.TOGETHER
    if devices.mask_of(core.cluster, attempt.slot)[1]:
        return Stays.DISK
    if job.cancelled or job.held:
        return Stays.HELD
    group = job.group
    if group.kept.preempted_at is not None and core.now < group.cools_until():
        return Stays.COOLING
    return None


def lost_by(core: Books, attempt: Attempt) -> int:
    """Return the work that a task loses when it begins again (µs × millicores); 0 for a service."""
    if attempt.job.job.type is JobType.SERVICE:
        return 0
    return (core.now - attempt.start) * max(1, attempt.job.job.request[0])


def lost_devices_by(core: Books, attempt: Attempt) -> int:
    """Return the work of devices that a task loses likewise (µs × thousandths of a device)."""
    if attempt.job.job.type is JobType.SERVICE:
        return 0
    index = core.dimensions.index
    kinds = {device.kind for device in core.cluster.devices[attempt.node]} & set(index) - {DISK_KIND}
    return (core.now - attempt.start) * sum(attempt.job.job.request[index[kind]] for kind in kinds)


def cost_of(core: Books, attempt: Attempt) -> int:
    """Return the lost work of cores and devices together (``Move.cost``)."""
    return lost_by(core, attempt) + lost_devices_by(core, attempt)


def candidates(core: Books) -> Candidates:
    """Return the tasks that may move; every running task of a service counts as ready."""
    found = Candidates()
    running: Counter[int] = Counter(
        attempt.job.job.counted_as
        for attempt in core.attempts.values()
        if attempt.job.job.minimum and not attempt.stopping
    )
    for attempt in core.attempts.values():
        why = why_it_stays(core, attempt)
        spec = attempt.job.job
        if why is None and spec.minimum:
            why = Stays.MINIMUM if running[spec.counted_as] <= spec.minimum else None
        if why is None:
            found.lost[attempt.id] = cost_of(core, attempt)
        else:
            found.stays[why] += 1
    found.stays[Stays.FOREIGN] += len(core.strangers)
    return found
