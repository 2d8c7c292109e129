"""Leases held by outside frameworks: tasks of jobs that are leases, which report their own use (design note 0024)."""

from __future__ import annotations

from collections.abc import Iterable

from cress.core.books import Books
from cress.core.jobs import NO_DEVICE, Attempt, WorkloadLease
from cress.core.kernels.holding import NONE
from cress.core.tables import devices
from cress.model.decisions import LeasePart
from cress.model.resources import ResourceVector


def enter_holder(core: Books, attempt: Attempt, mask: int) -> None:
    """Make the lease of a holder that has just started; at first the holder uses all of it."""
    lease = core.pool.found(attempt.id, attempt.job, attempt.node)
    lease.holder, lease.wanted, lease.mask = attempt, attempt.amounts, mask
    core.pool.expect(lease)


def use_by_holder(core: Books, number: int, amounts: ResourceVector) -> int:
    """Set the amounts that the holder of a lease uses itself; return the node.

    The rest is idle. If the holder wants more, borrowers give it back.
    """
    lease = core.pool.leases.get(number)
    if lease is None or lease.holder is None or lease.holder.stopping:
        # It was released, its node was lost, or it is ending: then all its amounts may be promised to others.
        return NONE
    lease.wanted = amounts
    settle(core, lease)
    if any(_missing(core, lease)):
        _recall(core, lease)
    return lease.node


def reduce_lease(core: Books, number: int, parts: Iterable[LeasePart] = ()) -> int:
    """Return these idle ``parts`` of a lease to the cluster, or all of them; an empty lease ends. Return the node."""
    lease = core.pool.leases.get(number)
    if lease is None:
        return NONE
    if parts:
        core.pool.reduce_by(lease, [core.pool.placed(lease.node, part) for part in parts])
    else:
        core.pool.reduce(number)
    holder = lease.holder
    if holder is not None and not any(holder.amounts) and not lease.tasks and not holder.stopping:
        core.let_stop(holder)
    return lease.node


def leave_node(core: Books, f: int) -> None:
    """End the leases on a node whose devices change; idle parts then belong to their holders' own rows."""
    for lease in [lease for lease in core.pool.leases.values() if lease.node == f and lease.holder is not None]:
        assert lease.holder is not None
        lease.wanted = lease.holder.job.job.request
        settle(core, lease)
    held = [lease.holder for lease in core.pool.leases.values() if lease.node == f and lease.holder is not None]
    core.pool.close_on(f)
    for holder in held:
        if holder.amounts != holder.job.job.request:
            core.pool.resized[holder.id] = None


def settle(core: Books, lease: WorkloadLease) -> None:
    """Give the holder the idle parts of its lease that it wants, and make idle what it does not use."""
    pool, holder, f = core.pool, lease.holder, lease.node
    assert holder is not None
    mask, _ = devices.mask_of(core.cluster, holder.slot)
    has = dict(pool.pieces(f, holder.amounts, mask)) if any(holder.amounts) else {}
    nothing = (0,) * core.cluster.k_count
    core.leases.release(holder.slot)
    held = {}
    for device, wanted in _wanted(core, lease).items():
        own = has.get(device, nothing)
        idle = lease.idle[device].amounts if device in lease.idle else nothing
        more = tuple(max(0, min(want - have, there)) for want, have, there in zip(wanted, own, idle, strict=True))
        less = tuple(max(0, have - want) for want, have in zip(wanted, own, strict=True))
        if any(more):
            pool.take(lease, (device, more))
        if any(less):
            pool.put(lease, (device, less))
        held[device] = tuple(have + plus - minus for have, plus, minus in zip(own, more, less, strict=True))
    holder.amounts = tuple(map(sum, zip(*held.values(), strict=True)))
    mask = sum(1 << device for device, amounts in held.items() if device != NO_DEVICE and any(amounts))
    end = holder.last_end if core.expected.limits_count and holder.job.group.predicts else holder.expected
    holder.slot = core.leases.hold_amounts(f, holder.amounts, end, mask)
    core.set_holder(holder.slot, holder)
    group = holder.job.group
    holder.charge_anew(group.charge(holder.amounts, core.cluster.specs[f].capacity, f))
    core.running.forget()
    core.groups.reorder(group)


def _wanted(core: Books, lease: WorkloadLease) -> dict[int, ResourceVector]:
    """Return the amounts that the holder wants on each device of its lease, and besides devices.

    A device is used as a whole or not at all.
    """
    assert lease.holder is not None
    found: dict[int, ResourceVector] = {}
    for device, amounts in core.pool.pieces(lease.node, lease.holder.job.job.request, lease.mask):
        on = core.pool.dimensions_on(lease.node, device)
        if device == NO_DEVICE:
            found[device] = tuple(map(min, amounts, lease.wanted))
        else:
            found[device] = amounts if any(lease.wanted[k] for k in on) else (0,) * len(amounts)
    return found


def _missing(core: Books, lease: WorkloadLease) -> ResourceVector:
    """Return the amounts that the holder wants and does not have."""
    assert lease.holder is not None
    wanted = map(sum, zip(*_wanted(core, lease).values(), strict=True))
    return tuple(max(0, want - have) for want, have in zip(wanted, lease.holder.amounts, strict=True))


def _recall(core: Books, lease: WorkloadLease) -> None:
    """Stop borrowers until their return covers all that the holder misses, those that lose the least work first."""
    missing = _missing(core, lease)
    borrowers = {part.borrower.id: part.borrower for part in lease.lent if part.borrower is not None}
    coming = [0] * len(missing)
    order = sorted(borrowers.values(), key=lambda each: ((core.now - each.start) * max(1, each.amounts[0]), -each.id))
    for borrower in sorted(order, key=lambda each: not each.stopping):
        if all(map(int.__ge__, coming, missing)):
            return
        gives = [part.amounts for part in lease.lent if part.borrower is borrower]
        if not any(
            lack > has and any(amounts[k] for amounts in gives)
            for k, (lack, has) in enumerate(zip(missing, coming, strict=True))
        ):
            continue
        coming = list(map(sum, zip(coming, *gives, strict=True)))
        if not borrower.stopping:
            borrower.keeps = True
            core.let_stop(borrower)
