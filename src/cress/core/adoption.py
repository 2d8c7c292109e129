"""Facts from outside: adopted tasks, foreign use, and nodes that change under their tasks.

Each of them may leave a node with less than its leases hold. Such a node takes no tasks until enough leases have
ended.
"""

from __future__ import annotations

import numpy as np

from cress.core.books import Books
from cress.core.claims import drop_claim, void_claims
from cress.core.combined_restarts import leave_units
from cress.core.job_times import last_end
from cress.core.jobs import Attempt, JobEntry, Stranger
from cress.core.limit_changes import drop_claims_beyond
from cress.core.queueing import out_of_queue
from cress.core.tables import devices
from cress.model.events import ForeignUse, TaskAdopted
from cress.model.times import NEVER


def adopt(core: Books, fact: TaskAdopted) -> None:
    """Enter a task that already runs, so that its job does not start it."""
    f = core.cluster.index[fact.node]
    mask, alone = devices.mask_for(core.cluster, f, fact.devices)
    amounts = fact.amounts
    if alone:
        # It holds its disks as a whole, and the use that was found if that is more.
        whole = devices.widened(core.cluster, f, amounts, mask)
        amounts = tuple(max(has, used) for has, used in zip(whole, amounts, strict=True))
    job = None if fact.job is None else core.jobs[fact.job]
    end = fact.end
    if end is None:
        end = NEVER if job is None or job.limit >= NEVER else fact.since + job.limit
    slot = core.leases.hold_amounts(f, amounts, min(end, NEVER), mask, alone)
    core.matching.touch(f)
    core.next_attempt = max(core.next_attempt, fact.attempt + 1)
    if job is None:
        stranger = Stranger(id=fact.attempt, name=fact.name, node=f, slot=slot, start=fact.since, ports=fact.ports)
        core.strangers[fact.attempt] = stranger
        core.set_holder(slot, stranger)
        core.relations.ports.take(f, fact.ports)
    else:
        _adopt_of(core, fact, job, f, slot, min(end, NEVER))
    # Its row in the table may come before those of attempts that started later.
    core.running.forget()
    check_room(core, f)


def _adopt_of(core: Books, fact: TaskAdopted, job: JobEntry, f: int, slot: int, end: int) -> None:
    """Enter the attempt of a known job."""
    if not job.cancelled:
        _take_out(core, job, fact.task)
    if job.waits_whole:
        core.units.begin(job)
    group = job.group
    charge = group.charge(fact.amounts, core.cluster.specs[f].capacity, f)
    attempt = Attempt(
        job=job, id=fact.attempt, task=fact.task, node=f, slot=slot, start=fact.since, charge=charge, expected=end,
        last_end=last_end(job, fact.since, end), amounts=fact.amounts, ports=fact.ports,
    )  # fmt: skip
    core.enter_attempt(attempt)
    if core.expected.limits_count and group.predicts:
        core.leases.set_end(slot, attempt.last_end)
    if attempt.expected <= core.now:
        core.expected.expect_last_end(attempt)
    if job.cancelled:
        core.let_stop(attempt)
    elif job.queued and out_of_queue(job) is not None:
        core.dequeue(job)
    elif job.queued:
        core.shapes.refit(job)
    core.groups.reorder(group)
    # It counts for a limit even if the limit was reached.
    drop_claims_beyond(core)


def _take_out(core: Books, job: JobEntry, task: int) -> None:
    """Remove a task from the queue or backoff in which it waits."""
    job.was_on.pop(task, None)
    if task in job.carried or task in job.companions:
        leave_units(core, job)
    for claim in list(job.claims):
        if task in claim.tasks:
            drop_claim(core, claim, again=True)
    if task in job.later:
        core.cancel_backoff(job, task)
    else:
        job.take(task)


def use(core: Books, fact: ForeignUse) -> None:
    """Set the foreign use of a node."""
    f = core.cluster.index[fact.name]
    before = core.foreign_use.pop(f, None)
    if before is not None:
        core.leases.release(before.slot)
        core.holders[before.slot] = None
    if any(fact.amounts) and not core.cluster.lost[f]:
        slot = core.leases.hold_amounts(f, fact.amounts, NEVER)
        core.foreign_use[f] = Stranger(id=0, name="", node=f, slot=slot, start=core.now)
        core.set_holder(slot, core.foreign_use[f])
    check_room(core, f)


def leave(core: Books, stranger: Stranger) -> None:
    """Release the lease of a foreign holder."""
    if stranger.id:
        del core.strangers[stranger.id]
    else:
        del core.foreign_use[stranger.node]
    core.relations.ports.give_back(stranger.node, stranger.ports)
    core.leases.release(stranger.slot)
    core.holders[stranger.slot] = None
    released(core, stranger.node)


def released(core: Books, f: int) -> None:
    """Check a node again that had too little room or removed devices, after a lease on it has ended."""
    if f in core.cluster.gone:
        core.cluster.drop_gone(f)
    if f in core.cluster.overdrawn:
        check_room(core, f)


def check_room(core: Books, f: int) -> None:
    """Close a node that has less than its leases hold, or open it again; drop the claims that lose their room."""
    cluster = core.cluster
    if np.any(cluster.left_on(f) < 0):
        # Only the holder of a lease needs its idle parts.
        core.pool.free_idle_on(f)
    cluster.set_overdrawn(f, bool(np.any(cluster.left_on(f) < 0)))
    void_claims(core, f)
    claims = [claim for claim in core.claims if claim.reservation.is_on(f)]
    if not claims:
        return
    left = cluster.free_now()[f] - core.timeline.kept_on(f, (claim.reservation for claim in claims))
    left += sum(amounts for node, amounts in core.coming_free() if node == f)
    if np.any(left < 0):
        for claim in claims:
            drop_claim(core, claim, again=True)
