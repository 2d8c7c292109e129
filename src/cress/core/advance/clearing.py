"""Decisions for advance reservations in force: tasks of others stop, claims of others are dropped, lost nodes are
replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from cress.core.advance.choice import other_places
from cress.core.advance.victims import leaving
from cress.core.books import Books
from cress.core.tables.arrays import Ints
from cress.model.decisions import AdvanceReservationMoved, ClaimDropped, LeaseReduced, Stop


def clearing(core: Books) -> Iterable[AdvanceReservationMoved | Stop | ClaimDropped | LeaseReduced]:
    """Return the decisions that replace lost nodes of reservations, and clear the nodes of those in force.

    The caller applies each decision before it asks for the next.
    """
    return chain(_replaced(core), _cleared(core)) if core.advance_reservations.by_name else ()


def _replaced(core: Books) -> Iterator[AdvanceReservationMoved]:
    """Yield the reservations with replacements for absent or cordoned nodes.

    Only chosen nodes are replaced.
    """
    reservations, cluster = core.advance_reservations, core.cluster
    for kept in list(reservations.by_name.values()):
        if not kept.spec.count or kept.spec.is_maintenance or kept.tried == cluster.loosened:
            # An operator who cordons a node for its maintenance window means that node.
            continue
        if not any(cluster.lost[f] or cluster.cordoned[f] is not None for f, _ in kept.places):
            continue
        places = other_places(core, kept)
        if places is None:
            kept.tried = cluster.loosened
        else:
            yield AdvanceReservationMoved(kept.spec.name, places)


def _cleared(core: Books) -> Iterator[Stop | ClaimDropped | LeaseReduced]:
    """Yield the decisions that make room for the reservations in force."""
    reservations, cluster = core.advance_reservations, core.cluster
    active = reservations.active()
    if not active:
        return
    seen, reservations.cleared = reservations.cleared, cluster.stamp
    for f in sorted({f for kept in active for f, _ in kept.places}):
        if cluster.lost[f] or cluster.node_stamp(f) <= seen:
            continue
        here = [kept for kept in active if any(f == place for place, _ in kept.places)]
        for claim in [each for each in core.claims if each.tasks]:
            needed = claim.needs().get(f)
            others: Ints = sum(
                (reservations.amounts_on(each, f) for each in here if not each.is_of(claim.job.group)),
                np.zeros(cluster.k_count, np.int64),
            )
            capacity: Ints = np.array(cluster.specs[f].capacity, np.int64)
            if needed is not None and others.any() and np.any(capacity - others < needed):
                yield ClaimDropped(claim.job.job.id, tuple(claim.tasks))
        found = leaving(core, f, here, core.now)
        for lease in found.leases:
            yield LeaseReduced(lease)
        for attempt in found.attempts:
            yield Stop(
                attempt.id, attempt.job.job.id, attempt.task, cluster.names[attempt.node],
                core.now + attempt.grace(core.options), here[0].spec.name,
            )  # fmt: skip
