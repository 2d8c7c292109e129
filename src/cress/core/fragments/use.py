"""Changes of leases by facts: tasks take parts of them and give them back, claims take them over (design note 0024)."""

from __future__ import annotations

from cress.core.books import Books
from cress.core.fragments.holders import enter_holder, settle
from cress.core.jobs import NO_DEVICE, Attempt, JobEntry
from cress.core.kernels.holding import END
from cress.core.tables import devices
from cress.model.decisions import Claim, LeasePart, Start
from cress.model.resources import ResourceVector


def _borrowed(core: Books, fact: Start, job: JobEntry) -> list[LeasePart]:
    """Return the parts of a start that belong to other workloads."""
    workload = core.pool.workload(job) if fact.parts else None
    return [part for part in fact.parts if core.pool.leases[part.lease].workload is not workload]


def row_beside_loan(core: Books, fact: Start, job: JobEntry, f: int, mask: int) -> ResourceVector | None:
    """Return the amounts in the row of a task with a loan; ``None`` without a loan.

    These are the amounts that are not borrowed, without devices, because devices are held one by one.
    """
    borrowed = _borrowed(core, fact, job)
    if not borrowed:
        return None
    row = dict(core.pool.pieces(f, job.job.request_of(fact.task), mask)).get(NO_DEVICE, (0,) * core.cluster.k_count)
    for part in borrowed:
        if not part.kind:
            row = tuple(map(int.__sub__, row, part.amounts))
    return row


def use_leases(core: Books, fact: Start, attempt: Attempt) -> None:
    """Enter the parts of leases that a newly started task uses, or the lease that it creates."""
    pool, job, f = core.pool, attempt.job, attempt.node
    keeps = (job.job.workload or job.job.is_lease) and not job.group.policy.plans
    if not (keeps or fact.parts or fact.rest):
        return
    workload = pool.workload(job)
    if fact.parts and workload is not None and workload.awaited.get(f) == job.job.id:
        del workload.awaited[f]
    mask, alone = devices.mask_of(core.cluster, attempt.slot)
    if job.job.is_lease:
        if not alone:
            enter_holder(core, attempt, mask)
        return
    if fact.rest or (not fact.parts and not alone):
        lease = pool.found(attempt.id, job, f)
        for piece in pool.pieces(f, attempt.amounts, mask):
            pool.add_task(lease, attempt, piece)
        for part in fact.rest:
            pool.put(lease, pool.placed(f, part))
        return
    borrowed = _borrowed(core, fact, job)
    for part in fact.parts:
        if part not in borrowed:
            pool.add_task(pool.leases[part.lease], attempt, pool.placed(f, part))
    if borrowed:
        _borrow(core, fact, attempt, borrowed)


def _borrow(core: Books, fact: Start, attempt: Attempt, borrowed: list[LeasePart]) -> None:
    """Hold the parts of a task beside its row: its loan, and the rest of its devices."""
    pool, f = core.pool, attempt.node
    lent: dict[int, ResourceVector] = {}
    for part in borrowed:
        device, amounts = pool.placed(f, part)
        pool.lend(pool.leases[part.lease], (device, amounts), attempt)
        before = lent.get(device)
        lent[device] = amounts if before is None else tuple(map(int.__add__, before, amounts))
    mask, _ = devices.mask_for(core.cluster, f, fact.devices)
    for device, amounts in pool.pieces(f, attempt.amounts, mask):
        if device != NO_DEVICE:
            left = tuple(map(int.__sub__, amounts, lent.get(device, (0,) * len(amounts))))
            if any(left):
                pool.hold_beside(attempt, (device, left), int(core.cluster.leases[attempt.slot, END]))


def leave_leases(core: Books, attempt: Attempt, again: bool) -> None:
    """Return the parts of leases of an ended task; ``again``: it has to run again."""
    if not (attempt.parts or attempt.inside or attempt.id in core.pool.leases):
        return
    if core.pool.lends:
        work = (core.now - attempt.start) * max(1, attempt.amounts[0])
        # A part already returned to its owner belongs to no lease any more, but it was a loan too.
        core.pool.limit.ended(work, loan=bool(attempt.parts), again=again and not attempt.job.cancelled)
    core.pool.resized.pop(attempt.id, None)
    if attempt.id in core.pool.leases and core.pool.leases[attempt.id].holder is attempt:
        core.pool.close(core.pool.leases[attempt.id])
    lenders = {part.lease.id: part.lease for part in attempt.parts if part.lease is not None}
    core.pool.ended(attempt, core.now)
    for lease in lenders.values():
        if lease.holder is not None:
            settle(core, lease)


def give_to_claim(core: Books, fact: Claim, job: JobEntry, f: int) -> list[int]:
    """Free the idle parts that a claim on node ``f`` takes over, and note what its victims yield.

    Return the victims that only return a loan to its owner.
    """
    pool = core.pool
    workload = pool.workload(job) if fact.leased else None
    for part in fact.leased:
        if part.lease:
            pool.take_for_claim(part.lease, pool.placed(f, part))
    giving_back = []
    for number in fact.victims:
        victim = core.attempts[number]
        owned = [loan for loan in victim.parts if loan.lease is not None and loan.lease.workload is workload]
        for loan in owned:
            pool.leave_to_borrower(loan)
        victim.yields, victim.keeps = True, bool(owned)
        if owned:
            giving_back.append(number)
    return giving_back
