"""Claims in the books: they are added, and removed when their unit starts or their room is lost."""

from __future__ import annotations

from cress.core.books import Books
from cress.core.jobs import ClaimEntry, JobEntry
from cress.core.kernels.holding import USABLE
from cress.core.queueing import out_of_queue


def add_claim(core: Books, claim: ClaimEntry) -> None:
    """Add the claim of a unit whose tasks have left their queue."""
    if not claim.job.queued:
        core.shapes.reshape(claim.job, core.shapes.shape_of(claim.job, claim.job.shape.size, claim.tasks))
    core.claims.append(claim)
    claim.job.claims.append(claim)
    claim.job.group.claims.append(claim)
    for account in claim.job.accounts:
        account.claim(claim)
    claim.shape = core.shapes.claimed(claim.job)
    core.fit.want(claim.shape)
    if not claim.job.queued:
        core.relaxing.note(claim.job, core.now)


def remove_claim(core: Books, claim: ClaimEntry) -> None:
    """Remove a claim because its unit starts or its room is lost."""
    core.timeline.drop(claim.reservation)
    core.cluster.loosened += 1
    core.claims.remove(claim)
    claim.job.claims.remove(claim)
    claim.job.group.claims.remove(claim)
    for account in claim.job.accounts:
        account.drop(claim)
    core.fit.unwant(claim.shape)
    if not claim.job.queued and not claim.job.claims:
        core.relaxing.leave(claim.job)
    core.groups.reorder(claim.job.group)


def drop_claim(core: Books, claim: ClaimEntry, again: bool) -> None:
    """Remove a claim that lost its room; its tasks wait again unless the job is cancelled."""
    remove_claim(core, claim)
    if again:
        for task in claim.tasks:
            claim.job.put_back(task, claim.since)
        if claim.job.queued:
            core.shapes.refit(claim.job)
        elif out_of_queue(claim.job) is None:
            core.enqueue(claim.job)


def drop_claims(core: Books, job: JobEntry, again: bool) -> None:
    """Remove all claims of a job."""
    for claim in list(job.claims):
        drop_claim(core, claim, again)


def void_claims(core: Books, f: int) -> None:
    """Drop the claims on node ``f`` if it takes no tasks any more.

    All claims survive on a node that is only away. Claims for moved tasks survive unless the node is lost.
    """
    if core.cluster.nodes[f, USABLE] or core.cluster.is_only_away(f):
        return
    for claim in list(core.claims):
        if claim.reservation.is_on(f) and not claim.stays(lost=bool(core.cluster.lost[f])):
            drop_claim(core, claim, again=True)
