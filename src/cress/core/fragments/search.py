"""The search for fragments: a workload's own, loans from others, and returns by borrowers (source F, design note
0024).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cress.core.books import Books
from cress.core.groups.running_limits import head_of
from cress.core.jobs import NO_DEVICE, Attempt, ClaimEntry, GroupWorkload, JobEntry, Piece, Reservation, WorkloadLease
from cress.core.kernels.devices import (
    ASKS,
    DISK_AMOUNTS,
    LEFT,
    MUST,
    WIDTH,
    choose_devices,
    device_copies,
    first_device,
    mask_at,
)
from cress.core.kernels.fragments import node_for_loan
from cress.core.kernels.holding import AMOUNTS, OUT, USABLE
from cress.core.kernels.timeline import B_FORCE
from cress.core.tables import devices
from cress.core.tables.arrays import Ints
from cress.model.decisions import LeasePart, LeaseReduced
from cress.model.job import KEPT_RUNNING
from cress.model.node import Allocated
from cress.model.resources import ResourceVector
from cress.model.times import NEVER

# The number of nodes with insufficient devices that the search for a loan examines.
_TRIES = 16

_NOTHING_BOOKED: Ints = np.zeros((0, 0), np.int64)


@dataclass(frozen=True)
class FragmentPlace:
    """A place for one task on node ``f``: the parts of leases that it takes, and its devices."""

    f: int
    parts: tuple[LeasePart, ...]
    devices: tuple[Allocated, ...]


def may_use(job: JobEntry) -> bool:
    """Return True if the next unit of a job may use fragments.

    It must be a single task without exclusive disks, not of a gang with parts, and not itself a lease.
    """
    return (
        not job.job.is_lease
        and not job.job.parts
        and job.shape.size == 1
        and not job.companions
        and not job.shape.ask[MUST]
    )


def own_room(core: Books, job: JobEntry, workload: GroupWorkload, *, held: bool = False) -> FragmentPlace | None:
    """Return room for the next task of a job in idle parts of its own workload; ``held``: only of held leases.

    The node where the least is left wins, the first among equals.
    """
    asked = [k for k, amount in enumerate(job.job.request) if amount]
    found: list[tuple[int, int]] = []
    for f, idle in workload.idle_sum.items():
        left = [idle[k] - job.job.request[k] for k in asked]
        if (not left or min(left) >= 0) and is_open(core, job, f):
            found.append((sum(left), f))
    for _, f in sorted(found):
        if workload.awaited and awaited_on(core, workload, f) not in (None, job):
            continue
        leases = [
            lease for lease in workload.idle_on[f].values() if not lease.is_ending and (lease.is_held or not held)
        ]
        room = _room_on(core, job, f, leases, [], None)
        if room is not None:
            return room
    return None


def awaited_on(core: Books, workload: GroupWorkload, f: int) -> JobEntry | None:
    """Return the job for whose next task others left leases of its workload on node ``f``.

    ``None`` if it no longer waits, or if idle and returning parts there are not enough.
    """
    job = core.jobs.get(workload.awaited.get(f, 0))
    if job is None or not job.queued or core.pool.workload(job) is not workload or not is_open(core, job, f):
        return None
    has = workload.idle_sum.get(f, [0] * core.cluster.k_count)
    for attempt, pieces in pieces_on(workload, f).items():
        if attempt.stopping:
            for _, amounts in pieces:
                has = list(map(int.__add__, has, amounts))
    return job if all(map(int.__ge__, has, job.job.request)) else None


def pieces_on(workload: GroupWorkload, f: int) -> dict[Attempt, list[Piece]]:
    """Return the parts that each task has of the leases of a workload on node ``f``; other workloads have them as
    loans.
    """
    found: dict[Attempt, list[Piece]] = {}
    for _, lease in sorted(workload.leases.items()):
        if lease.node != f or lease.is_ending:
            continue
        for attempt in lease.tasks.values():
            found.setdefault(attempt, []).extend(piece for of, piece in attempt.inside if of is lease)
        for part in lease.lent:
            assert part.borrower is not None
            found.setdefault(part.borrower, []).append((part.device, part.amounts))
    return found


def find_loan(core: Books, job: JobEntry) -> FragmentPlace | None:
    """Return room for the next task of a job with a short prediction, in idle parts of all workloads and unallocated
    amounts.
    """
    pool, cluster = core.pool, core.cluster
    # A task that must not be stopped cannot return a loan.
    stays = job.job.is_lease or job.job.type in KEPT_RUNNING
    if stays or not pool.idle_on or not may_use(job) or min(job.run, job.limit) > pool.limit.limit:
        return None
    pool.more_nodes()
    booked = booked_on(core)
    skipped = np.zeros(cluster.node_count, np.bool_)
    if core.advance_reservations:
        skipped |= core.advance_reservations.closed_to(job.group, core.now + min(job.limit, NEVER))
    own = core.pool.workload(job)
    end = core.now + min(job.run, job.limit)
    known: dict[tuple[str, str, int], bool] = {}

    def needed(workload: GroupWorkload, f: int) -> bool:
        key = (workload.group.name, workload.name, f)
        if key not in known:
            known[key] = _owner_fits_at(core, workload, f) < end
        return known[key]

    for _ in range(_TRIES):
        f = int(
            node_for_loan(
                job.shape.request_array, cluster.lack[job.shape.row], cluster.nodes, cluster.node_count, pool.lendable,
                booked, skipped,
            )
        )  # fmt: skip
        if f < 0:
            return None
        leases = [
            lease
            for lease in pool.idle_on[f].values()
            if pool.is_lent(lease) and not lease.is_ending and awaited_on(core, lease.workload, f) in (None, job)
        ]
        mine = [lease for lease in leases if lease.workload is own]
        others = [lease for lease in leases if lease.workload is not own and not needed(lease.workload, f)]
        spare = spare_on(core, booked, f)
        room = _room_on(core, job, f, mine, others, spare)
        if (
            room is not None
            and others
            and any(pool.leases[part.lease].is_held for part in room.parts if pool.leases[part.lease] in mine)
        ):
            # Its part of a held lease stays there, so it could not return its loan as a whole.
            mine = [lease for lease in mine if not lease.is_held]
            room = _room_on(core, job, f, mine, others, spare)
        if room is not None:
            return room
        skipped[f] = True
    return None


def _owner_fits_at(core: Books, workload: GroupWorkload, f: int) -> int:
    """Return when (µs) the waiting unit at the head of a workload's queue is expected to fit on node ``f``.

    Only amounts of its workload there count. NEVER if it does not fit, or if no unit waits.
    """
    head = head_of(workload.group)
    if head is None or core.pool.workload(head) is not workload or not may_use(head) or not is_open(core, head, f):
        return NEVER
    cluster = core.cluster
    missing = head.shape.request_array - cluster.free_now()[f]
    ends: list[tuple[int, ResourceVector]] = []
    for lease in workload.leases.values():
        if lease.node == f:
            for part in (*lease.idle.values(), *lease.lent):
                missing = missing - part.amounts
            ends += [(attempt.expected, attempt.amounts) for attempt in lease.tasks.values()]
    if (missing <= 0).all():
        return core.now
    for end, amounts in sorted(ends):
        missing = missing - amounts
        if (missing <= 0).all():
            return end
    return NEVER


def rest_of(core: Books, claim: ClaimEntry, f: int, slot: int, lease: int) -> tuple[LeasePart, ...]:
    """Return the parts of a claim's leases that its task, with its row in ``slot``, leaves unused and free on the
    node.
    """
    pool, cluster = core.pool, core.cluster
    mask, alone = devices.mask_of(cluster, slot)
    if alone or not claim.leased:
        return ()
    brought: dict[int, list[int]] = {}
    for part in claim.leased:
        device, amounts = pool.placed(f, part)
        _add(brought, device, amounts, 1)
    for device, amounts in pool.pieces(f, claim.job.job.request, mask):
        if device in brought:
            _add(brought, device, amounts, -1)
    # The room of the claim itself is already held.
    booked = booked_on(core, claim.reservation)
    spare = spare_on(core, booked, f).tolist()
    rest = []
    for device, left in brought.items():
        kept = [max(0, min(amount, has)) for amount, has in zip(left, spare, strict=True)]
        if device != NO_DEVICE:
            on = left_on_device(core, f, device)
            kept = [min(amount, on.get(k, 0)) for k, amount in enumerate(kept)]
        if any(kept):
            spare = [has - amount for has, amount in zip(spare, kept, strict=True)]
            rest.append(pool.named(lease, f, (device, tuple(kept))))
    return tuple(rest)


def given_back_from(lease: WorkloadLease) -> int:
    """Return the time (µs) from which the idle parts of a lease may return to the cluster; NEVER if it yields as a
    whole or never.

    A lease with a holder ends if it becomes empty, so its holder must use none of it.
    """
    holder = lease.holder
    if holder is None:
        return -NEVER
    if holder.stopping or any(holder.amounts) or lease.tasks or holder.job.job.gang:
        return NEVER
    return holder.start + holder.job.job.min_time


def returnable_for(core: Books, job: JobEntry, yielding: Container[str]) -> list[LeaseReduced]:
    """Return what leases of the yielding groups must return of their idle parts so that a task fits on one node, beside
    the bookings there.

    The node that needs the fewest leases wins. A lease returns what the task lacks, and devices one by one. A lease
    with a holder ends.
    """
    pool, booked = core.pool, booked_on(core)
    best: list[LeaseReduced] | None = None
    nodes: set[int] = set()
    for workload in pool.workloads.values():
        if workload.group.name in yielding:
            nodes.update(workload.idle_on)
    for f in sorted(nodes):
        leases = pool.idle_on[f]
        if not is_open(core, job, f):
            continue
        left = (spare_on(core, booked, f) - job.shape.request_array).tolist()
        needed: list[LeaseReduced] = []
        for lease in sorted(leases.values(), key=lambda lease: (-lease.idle_amounts()[0], lease.id)):
            if min(left) >= 0:
                break
            if lease.workload.group.name in yielding and given_back_from(lease) <= core.now:
                parts = _lacking_parts(core, lease, left)
                if parts:
                    needed.append(LeaseReduced(lease.id, parts if lease.holder is None else ()))
                    left = list(map(int.__add__, left, lease.idle_amounts()))
        if needed and min(left) >= 0 and (best is None or len(needed) < len(best)):
            best = needed
            if len(best) == 1:
                break
    return best or []


def _lacking_parts(core: Books, lease: WorkloadLease, left: Sequence[int]) -> tuple[LeasePart, ...]:
    """Return the idle parts of a lease that cover what ``left`` is below 0, or all that it has of it."""
    lacks = [max(0, -amount) for amount in left]
    parts = []
    for device, part in sorted(lease.idle.items()):
        gives = tuple(map(min, lacks, part.amounts))
        if device != NO_DEVICE and any(gives):
            # A task takes a share of one device, or whole devices.
            gives = part.amounts
        if any(gives):
            lacks = [max(0, lack - given) for lack, given in zip(lacks, gives, strict=True)]
            parts.append(core.pool.named(lease.id, lease.node, (device, gives)))
    return tuple(parts)


def is_open(core: Books, job: JobEntry, f: int) -> bool:
    """Return True if node ``f`` is open, and neither a clause of the job nor an advance reservation excludes it."""
    if core.advance_reservations.closes(job, f):
        return False
    return bool(core.cluster.nodes[f, USABLE]) and not core.cluster.lack[job.shape.row, f] & OUT


def booked_on(core: Books, but: Reservation | None = None) -> Ints:
    """Return, per node, the sum of all bookings in force at any time, except those of the reservation ``but``.

    Empty without bookings.
    """
    timeline = core.timeline
    if not timeline.any_booked:
        return _NOTHING_BOOKED
    counts = timeline.table[:, B_FORCE] > 0
    if but is not None:
        counts[but.rows] = False
    return timeline.amounts_of(np.flatnonzero(counts).tolist())


def spare_on(core: Books, booked: Ints, f: int) -> Ints:
    """Return the unallocated amounts on node ``f`` beside what is ``booked`` there, as a copy.

    Promises to others are served from these, not from leases.
    """
    free: Ints = core.cluster.free_now()[f]
    return np.maximum(free - booked[f], 0) if len(booked) else free.copy()


def left_on_device(core: Books, f: int, device: int) -> dict[int, int]:
    """Return the unallocated amounts of a device of node ``f`` by dimension; none for NO_DEVICE."""
    on, at = core.pool.dimensions_on(f, device), first_device(core.cluster.k_count) + device * WIDTH + LEFT
    return {k: int(core.cluster.nodes[f, at + i]) for i, k in enumerate(on)}


def device_row(core: Books, f: int, *, free: bool) -> Ints:
    """Return the row of node ``f`` as a copy; unless ``free``, without unallocated amounts of its devices."""
    row: Ints = core.cluster.nodes[f].copy()
    for at in range(first_device(core.cluster.k_count), 0 if free else len(row), WIDTH):
        row[at + LEFT : at + LEFT + DISK_AMOUNTS] = 0
    return row


def add_to_device(core: Books, row: Ints, f: int, device: int, amounts: ResourceVector, sign: int) -> None:
    """Add amounts of a device to such a row, or subtract them (``sign`` -1); nothing for NO_DEVICE."""
    on, at = core.pool.dimensions_on(f, device), first_device(core.cluster.k_count) + device * WIDTH + LEFT
    row[at : at + len(on)] += np.array([sign * amounts[k] for k in on], np.int64)


def _add(pieces: dict[int, list[int]], device: int, amounts: Iterable[int], sign: int) -> None:
    before = pieces.get(device)
    more = [sign * amount for amount in amounts]
    pieces[device] = more if before is None else list(map(int.__add__, before, more))


def _room_on(
    core: Books, job: JobEntry, f: int, own: list[WorkloadLease], others: list[WorkloadLease], spare: Ints | None
) -> FragmentPlace | None:
    """Return the place of a task on node ``f``; ``None`` if it does not fit.

    It takes first from leases of its own workload, then from ``spare`` unallocated amounts (``None``: nothing), then
    from other leases.
    """
    pool, cluster = core.pool, core.cluster
    request = job.job.request
    mask = 0
    if job.shape.ask[ASKS] and cluster.devices[f]:
        found = _devices_for(core, job, f, [*own, *others], free=spare is not None)
        if found is None:
            return None
        mask = found
    pieces = pool.pieces(f, request, mask)
    unallocated = None if spare is None else spare.tolist()
    parts: list[LeasePart] = []
    for device, amounts in pieces:
        left = _take(pool.named, parts, _in_turn(own, device, amounts), f, device, amounts)
        if unallocated is not None and any(left):
            on = left_on_device(core, f, device)
            for k, amount in enumerate(left):
                has = unallocated[k]
                used = min(amount, max(0, min(has, on.get(k, has))))
                left[k] -= used
                unallocated[k] -= used
        left = _take(pool.named, parts, _in_turn(others, device, left), f, device, left)
        if any(left):
            return None
    if not parts:
        return None
    return FragmentPlace(f, tuple(parts), devices.named(cluster, f, mask, request))


def _in_turn(leases: list[WorkloadLease], device: int, amounts: Sequence[int]) -> list[WorkloadLease]:
    """Return the leases with an idle part on a device: the smallest that holds all the amounts, then the largest
    first.
    """
    idle = [lease for lease in leases if device in lease.idle]
    enough = [lease for lease in idle if all(map(int.__ge__, lease.idle[device].amounts, amounts))]
    if enough:
        return [min(enough, key=lambda lease: (sum(lease.idle[device].amounts), lease.id))]
    return sorted(idle, key=lambda lease: (-sum(map(min, lease.idle[device].amounts, amounts)), lease.id))


def _take(
    named: Callable[[int, int, Piece], LeasePart], parts: list[LeasePart], leases: list[WorkloadLease], f: int,
    device: int, amounts: Sequence[int],
) -> list[int]:  # fmt: skip
    """Add to ``parts`` the available amounts of idle parts on a device; return the missing amounts."""
    left = list(amounts)
    for lease in leases:
        taken = tuple(map(min, left, lease.idle[device].amounts))
        if any(taken):
            parts.append(named(lease.id, f, (device, taken)))
            left = list(map(int.__sub__, left, taken))
    return left


def _devices_for(core: Books, job: JobEntry, f: int, leases: list[WorkloadLease], *, free: bool) -> int | None:
    """Return the devices of a task as a mask; ``None`` if they do not suffice.

    They come from idle parts of these leases and, if ``free``, from unallocated amounts.
    """
    k_count, row = core.cluster.k_count, device_row(core, f, free=free)
    for lease in leases:
        for device, part in lease.idle.items():
            add_to_device(core, row, f, device, part.amounts, 1)
    if not device_copies(row, job.shape.ask, k_count, False):
        return None
    chosen = np.zeros((1, core.cluster.leases.shape[1]), np.int64)
    chosen[0, AMOUNTS : AMOUNTS + k_count] = job.job.request
    ask = job.shape.ask.copy()
    choose_devices(0, row, ask, chosen, k_count)
    mask, alone = chosen[0, mask_at(k_count) :].tolist()
    return None if alone else int(mask)
