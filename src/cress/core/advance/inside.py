"""Room inside the advance reservations of a group that are in force: the unused part, whatever is foreseen for
others.
"""

from __future__ import annotations

import numpy as np

from cress.core.advance.telling import first_blocked
from cress.core.books import Books
from cress.core.jobs import JobEntry
from cress.core.kernels.devices import MUST
from cress.core.kernels.holding import AMOUNTS, FREE, OUT, USABLE
from cress.core.kernels.timeline import B_AMOUNTS, B_NODE
from cress.core.placing.gangs import by_domains
from cress.core.tables.arrays import Ints


def copies_inside(core: Books, job: JobEntry) -> dict[int, int]:
    """Return the copies of a unit, by node, that fit into the unused part of its group's reservations.

    Empty if the unit does not fit as a whole.
    """
    shape, cluster, k = job.shape, core.cluster, core.cluster.k_count
    if job.companions or by_domains(shape) or (shape.size > 1 and shape.ask[MUST]):
        return {}
    request = shape.request_array
    asked = request > 0
    found: dict[int, int] = {}
    for f, left in _left(core, job).items():
        if not cluster.nodes[f, USABLE] or cluster.lack[shape.row, f] & OUT:
            continue
        room = np.minimum(left, cluster.nodes[f, FREE : FREE + k] - _claimed(core, f))
        copies = min(shape.size, max(0, int(np.min(room[asked] // request[asked], initial=2**31))))
        if copies and first_blocked(core, job, f) is None:
            found[f] = copies
    caps = core.fit.caps_now(shape)
    if len(caps):
        found = {f: min(copies, int(caps[f])) for f, copies in found.items() if caps[f] > 0}
    return found if sum(found.values()) >= shape.size else {}


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
            left[attempt.node] = left[attempt.node] - cluster.leases[attempt.slot, AMOUNTS : AMOUNTS + cluster.k_count]
    return dict(sorted(left.items()))


def _claimed(core: Books, f: int) -> Ints:
    claimed = np.zeros(core.cluster.k_count, np.int64)
    for claim in core.claims:
        for row in claim.reservation.rows:
            if core.timeline.table[row, B_NODE] == f:
                claimed += core.timeline.table[row, B_AMOUNTS:]
    return claimed
