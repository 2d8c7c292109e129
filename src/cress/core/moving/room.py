"""Room for tasks beside everything that is promised or foreseen for others."""

from __future__ import annotations

from cress.core.books import Books
from cress.core.jobs import Attempt, GroupState, JobEntry, Reservation
from cress.core.placing.constraints import NO_WANTS
from cress.core.placing.shape import Shape
from cress.core.tables.arrays import Ints
from cress.model.times import NEVER


def promised(core: Books, but: JobEntry | None = None) -> Ints:
    """Return the amounts, per node and dimension, kept by claims, reservations, plans and advance reservations.

    They may be kept for now or later; those for the job ``but`` are left out.
    """
    kept: list[Reservation] = [claim.reservation for claim in core.claims]
    kept += [reservation for reservation in core.reservations.kept if reservation.job is not but]
    kept += [
        unit
        for plan in core.plans.by_group.values()
        for units in plan.units.values()
        for unit in units
        if unit.job is not but
    ]
    amounts = core.timeline.kept_by(kept)
    if core.advance_reservations:
        amounts += core.advance_reservations.kept_from(None, NEVER)
    return amounts


def shape_of_moved(core: Books, job: JobEntry) -> Shape:
    """Return the shape of one task of a running job for its target node.

    All its clauses are hard there, and so are the conditions of nodes and other jobs.
    """
    wants = NO_WANTS
    if job.constraints is not None:
        wants = job.constraints.wants(0, job.job.counted_as, job.group.name, 1)
    if core.asking.is_asked:
        wants = core.asking.as_asked((job.job,), wants)
    return core.fit.shape(job.job.request, 1, wants)


def within_quota(core: Books, attempt: Attempt, f: int) -> bool:
    """Return True if a charge for node ``f`` keeps the group of a task within its quota.

    A task that takes a large part of a small node is charged for that part.
    """
    group = attempt.job.group
    charge = group.charge(attempt.amounts, core.cluster.specs[f].capacity, f)
    return charge == attempt.charge or (
        all(
            new <= old or used > quota or used - old + new <= quota
            for new, old, used, quota in zip(charge, attempt.charge, group.used, group.quota, strict=True)
        )
        and (group.kinds is None or not _beyond_most(group, attempt.charge, charge))
    )


def _beyond_most(group: GroupState, old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Return True if a change of a charge takes a group, or one above it, beyond its MaxQuota of a kind of node."""
    return any(
        more > before and used + claimed - before + more > most
        for node in group.path()
        if node.most is not None
        for before, more, used, claimed, most in zip(old, new, node.used, node.claimed, node.most, strict=True)
    )
