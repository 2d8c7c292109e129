"""Room inside the advance reservations of a group that are in force: the unused part, whatever is foreseen for
others.
"""

from __future__ import annotations

import numpy as np

from cress.core.advance.telling import first_blocked
from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.kernels.devices import MUST
from cress.core.kernels.holding import OUT, USABLE
from cress.core.placing.fit import asked_of, capped, rules_of_unit
from cress.core.placing.together import Levels
from cress.core.tables.arrays import Ints


def room_inside(core: Books, job: JobEntry) -> Levels | None:
    """Return the room for a unit in the unused part of its group's reservations; ``None`` if it is too small."""
    shape, cluster, k = job.shape, core.cluster, core.cluster.k_count
    if job.shares_node or (shape.size > 1 and any(kind.ask[MUST] for kind in shape.every_kind)):
        return None
    levels = np.zeros((cluster.node_count, k), np.int64)
    free = cluster.free_now() - core.timeline.kept_by(claim.reservation for claim in core.claims)
    for f, left in _left(core, job).items():
        if cluster.nodes[f, USABLE] and first_blocked(core, job, f) is None:
            levels[f] = np.maximum(0, np.minimum(left, free[f]))
    asked, alone = asked_of(shape), []
    for kind, own in zip(asked, shape.every_kind, strict=True):
        copies = np.where(levels.any(axis=1), kind.copies_in(levels), 0)
        copies[cluster.lack[own.row, : len(copies)] & OUT != 0] = 0
        alone.append(capped(copies, np.maximum(0, core.fit.caps_now(own))))
    enough = all(int(copies.sum()) >= kind.size for copies, kind in zip(alone, asked, strict=True))
    return Levels(asked, alone, levels, rules_of_unit(shape)) if enough else None


def _left(core: Books, job: JobEntry) -> dict[int, Ints]:
    """Return the amounts, by node, that its group has reserved and does not hold."""
    reservations, cluster, group = core.advance_reservations, core.cluster, job.group
    left: dict[int, Ints] = {}
    for kept in reservations.active():
        if kept.is_of(group):
            for f, _ in kept.places:
                left[f] = left.get(f, 0) + reservations.amounts_on(kept, f)
    for attempt in group.attempts.values():
        if attempt.node in left:
            left[attempt.node] = left[attempt.node] - cluster.held_in(attempt.slot)
    return dict(sorted(left.items()))
