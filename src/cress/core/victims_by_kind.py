"""The groups and tasks that yield to others where quotas name kinds of nodes (design note 0034).

Whether a group may take room, and whether another one has to give it, depends on the kind of the node. So for each
group that yields only those of its tasks are victims whose node its taker is entitled to, and a task that is charged in
kinds yields for these alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cress.core.books import Books
from cress.core.groups.guarantees import charge_of_tasks
from cress.core.groups.lenders import Taker, Yielding, yielding_to
from cress.core.jobs import JobEntry
from cress.core.kernels.holding import NODE, NONE
from cress.core.kernels.victims import LOSS, OF, R_GROUP, UNSET
from cress.core.tables.arrays import Bools, Ints
from cress.core.tree.kinds import Entitled, entitled, excess_in, named_kinds, yields_somewhere
from cress.model.resources import ResourceVector


def rights_of(core: Books, job: JobEntry, tasks: int, *, to_quota: bool) -> list[tuple[Taker, Entitled]]:
    """Return the groups that may take room for so many tasks of a job, from its own upwards, and where."""
    asked, least = _asked(job, tasks), charge_of_tasks(job, tasks, core.cluster)
    rights: list[tuple[Taker, Entitled]] = []
    below: Bools | None = None
    for node in job.group.path():
        own = entitled(node, asked, least, None, to_quota=to_quota)
        right = own if below is None else entitled(node, asked, least, below, to_quota=to_quota)
        if right.nodes.any():
            rights.append((Taker(node, to_quota or not own.nodes.any()), right))
            below = right.nodes if below is None else below | right.nodes
    return rights


def _asked(job: JobEntry, tasks: int) -> ResourceVector:
    """Return what so many tasks ask for together; of a gang with parts its next unit."""
    asked = job.unit_requests() if job.job.parts else ((job.job.request, tasks),)
    return tuple(sum(request[k] * number for request, number in asked) for k in range(len(job.job.request)))


def groups_that_yield_kinds(core: Books, job: JobEntry, takers: list[Taker], *, to_quota: bool) -> list[Yielding]:
    """Return the groups that may be preempted for a unit, as in a cluster without kinds; of equal priority and level
    those first that have most, beyond their quotas, of the kinds that the taker is guaranteed.
    """
    wanted = {taker.group.name: named_kinds(taker.group, _asked(job, job.shape.size)) for taker in takers}
    every: Bools = np.any(list(wanted.values()), axis=0) if wanted else np.zeros(len(core.groups.kinds), np.bool_)
    found = yielding_to(core.groups, job.group, takers, lambda node: yields_somewhere(node, every, to_quota=to_quota))

    def order(each: Yielding) -> Any:
        priority, level, excess, names = each.order
        kinds = [excess_in(node, wanted[each.taker.group.name]) for node in reversed(each.chain)]
        return priority, level, [(not none, -far) for none, far in kinds], excess, names

    return sorted(found, key=order)


def keep_to_kinds(
    core: Books, job: JobEntry, yielding: list[Yielding], victims: Ints, *, by_urgency: bool, to_quota: bool
) -> None:
    """Take those out of the table of victims whose taker is not entitled to their node, and make the others count in
    the kinds that protect them.

    In a kind that no group on its way up names a task counts only if the taker is guaranteed that kind; else it yields
    for what it costs in the measures of all nodes.
    """
    leases, table = core.cluster.leases, core.running.table
    place = {name: i for i, name in enumerate(core.groups.by_name)}
    asked = _asked(job, job.shape.size)
    found = [] if by_urgency else rights_of(core, job, job.shape.size, to_quota=to_quota)
    rights = {taker.group.name: right.nodes for taker, right in found}
    n = min(len(leases), len(victims))
    node_of = leases[:n, NODE]
    for each in yielding:
        slots = np.flatnonzero((node_of != NONE) & (table[:n, R_GROUP] == place[each.group.name]))
        named = np.zeros(len(core.groups.kinds), np.bool_)
        for node in each.chain:
            named |= np.array(node.quota[node.base :]) > 0
        begin = LOSS + core.running.base
        for j in np.flatnonzero(~named & ~named_kinds(each.taker.group, asked)).tolist():
            victims[slots, begin + j] = 0
        if not by_urgency:
            victims[slots[~rights[each.taker.group.name][node_of[slots]]], OF] = UNSET
