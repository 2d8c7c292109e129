"""The groups and tasks that yield where quotas name kinds of nodes (design note 0034).

The right of a group to take room, and the duty of another to give it, depend on the kind of the node. So only tasks on
nodes to which the taker is entitled are victims, and a task that is charged in kinds yields for these only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cress.core.books import Books
from cress.core.groups.guarantees import charge_of_tasks
from cress.core.groups.lenders import Taker, Yielding, yielding_to
from cress.core.jobs import GroupState, JobEntry, Rights, is_mixed
from cress.core.kernels.holding import NODE, NONE
from cress.core.kernels.victims import LOSS, OF, R_GROUP, UNSET
from cress.core.tables.arrays import Bools, Ints
from cress.core.tree.amounts import Amounts
from cress.core.tree.kinds import Entitled, entitled, excess_in, named_kinds, within_on, yields_somewhere
from cress.model.resources import ResourceVector


class Growth(NamedTuple):
    """Growth of the use of a group by a start: the ``charge``, and the ``nodes`` ``[n]`` of one kind on which it is.

    Without ``nodes`` it is on any nodes with room; then the charge counts in each kind of these.
    """

    charge: tuple[int, ...]
    nodes: Bools | None = None


def rights_of(core: Books, job: JobEntry, tasks: int, *, to_quota: bool) -> list[tuple[Taker, Entitled]]:
    """Return the groups that may take room for ``tasks`` tasks of a job, from its own upwards, with the nodes they may
    take.
    """
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
    """Return the total request of ``tasks`` tasks; for a gang of several kinds, that of its next unit."""
    asked = job.unit_requests() if is_mixed(job) else ((job.job.request, tasks),)
    return tuple(sum(request[k] * number for request, number in asked) for k in range(len(job.job.request)))


def groups_that_yield_kinds(core: Books, job: JobEntry, takers: list[Taker], *, to_quota: bool) -> list[Yielding]:
    """Return the groups that may be preempted for a unit, in the order of a cluster without kinds.

    With equal priority and level, the group comes first that is furthest above its quotas in the kinds guaranteed to
    the taker.
    """
    wanted = {taker.group.name: named_kinds(taker.group, _asked(job, job.shape.size)) for taker in takers}
    every: Bools = np.any(list(wanted.values()), axis=0) if wanted else np.zeros(len(core.groups.kinds), np.bool_)
    found = yielding_to(core.groups, job.group, takers, lambda node: yields_somewhere(node, every, to_quota=to_quota))

    def order(giver: Yielding) -> Any:
        priority, level, excess, names = giver.order
        kinds = [excess_in(node, wanted[giver.taker.group.name]) for node in reversed(giver.chain)]
        return priority, level, [(not none, -far) for none, far in kinds], excess, names

    return sorted(found, key=order)


def keep_to_kinds(
    core: Books, job: JobEntry, yielding: list[Yielding], victims: Ints, *, by_urgency: bool, to_quota: bool
) -> None:
    """Remove the victims on nodes to which the taker is not entitled; let the others count in the kinds that protect
    them.

    In a kind that no group on its way up names, a task counts only if that kind is guaranteed to the taker. Else it
    yields for its charge in the measures of all nodes.
    """
    leases, table = core.cluster.leases, core.running.table
    place = {name: i for i, name in enumerate(core.groups.by_name)}
    asked = _asked(job, job.shape.size)
    found = [] if by_urgency else rights_of(core, job, job.shape.size, to_quota=to_quota)
    rights = {taker.group.name: right.nodes for taker, right in found}
    n = min(len(leases), len(victims))
    node_of = leases[:n, NODE]
    for giver in yielding:
        slots = np.flatnonzero((node_of != NONE) & (table[:n, R_GROUP] == place[giver.group.name]))
        named = np.zeros(len(core.groups.kinds), np.bool_)
        for node in giver.chain:
            named |= np.array(node.quota[node.base :]) > 0
        begin = LOSS + core.running.base
        for j in np.flatnonzero(~named & ~named_kinds(giver.taker.group, asked)).tolist():
            victims[slots, begin + j] = 0
        if not by_urgency:
            victims[slots[~rights[giver.taker.group.name][node_of[slots]]], OF] = UNSET


def not_entitled_on(core: Books, job: JobEntry) -> Bools | None:
    """Return the nodes ``[n]`` on which no group may take room for the next task of a job.

    ``None`` where quotas name no kinds of nodes, and for gangs, whose tasks are on several nodes.
    """
    if job.group.kinds is None or job.shape.size > 1:
        return None
    closed: Bools = np.ones(core.cluster.node_count, np.bool_)
    for to_quota in (False, True):
        for _, right in rights_of(core, job, 1, to_quota=to_quota):
            closed &= ~right.nodes
    return closed


def yields_kinds(core: Books, job: JobEntry, group: GroupState, start: Growth, *, to_quota: bool) -> bool:
    """Return True if what a group has just started so (its use counts it already) would yield to a unit.

    The kernel asks the same of a running task: on a node to which the unit is entitled, every group on the way must be
    above its quota in each kind in which the task is charged there, or in a measure of all nodes if it is charged in
    none.
    """
    rights = rights_of(core, job, job.shape.size, to_quota=to_quota)
    asked = _asked(job, job.shape.size)
    entitled_on = {taker.group.name: right.nodes for taker, right in rights}
    takers = [taker for taker, _ in rights]
    masks = core.groups.kinds.masks()
    for giver in groups_that_yield_kinds(core, job, takers, to_quota=to_quota):
        if giver.group is not group:
            continue
        where = entitled_on[giver.taker.group.name]
        if start.nodes is not None:
            where = where & start.nodes
        counts = np.array(start.charge[group.base :]) > 0
        named = named_kinds(giver.taker.group, asked)
        for node in giver.chain:
            named |= np.array(node.quota[node.base :]) > 0
        for kind in np.unique(masks[:, where], axis=1).T:
            charged = np.flatnonzero(kind & counts & named).tolist()
            if all(_is_above(node, charged, to_quota=to_quota) for node in giver.chain):
                return True
    return False


def _is_above(node: Amounts, charged: list[int], *, to_quota: bool) -> bool:
    """Return True if a group is so far above its quota in each of these kinds, or without any in a measure of all
    nodes, that it yields.
    """
    if charged:
        return all(node.yields_of(node.base + j, to_quota=to_quota) for j in charged)
    return any(node.yields_of(i, to_quota=to_quota) for i in range(node.base))


def kinds_with_room(core: Books, job: JobEntry, among: Bools | None = None) -> list[Bools]:
    """Return the nodes ``[n]`` with room for a task of a job, ``among`` these only, those of each kind apart.

    None for a gang of several kinds of tasks, and without quotas for kinds.
    """
    if job.group.kinds is None or is_mixed(job):
        return []
    places = core.cluster.lack[job.shape.row, : core.cluster.node_count] == 0
    if among is not None:
        places &= among
    masks = job.group.kinds.masks()
    return [places & np.all(masks == kind[:, None], axis=0) for kind in np.unique(masks[:, places], axis=1).T]


def beyond_by_kind(core: Books, job: JobEntry, *, any_owed: bool, taken_back: Callable[[Growth], bool]) -> Bools | None:
    """Return the nodes ``[n]`` on which a task may not start now; ``None`` without any.

    There it would take its group beyond its quota, and the group is held to its rights, or (``any_owed``) a unit of
    another group could take the room back. ``taken_back`` tells so for a start on the nodes of one kind.
    """
    group, cluster, kinds = job.group, core.cluster, job.group.kinds
    rights = group.held_to
    if kinds is None or (rights is Rights.ANY and not any_owed):
        return None
    beyond = ~within_on(group, job.job.request, charge_of_tasks(job, 1, cluster))
    if not beyond.any() or rights is Rights.QUOTA:
        return beyond if beyond.any() else None
    closed: Bools = np.zeros_like(beyond)
    for alike in kinds_with_room(core, job, beyond) if any_owed else ():
        charge = group.charge(job.job.request, cluster.largest_capacity(), int(np.flatnonzero(alike)[0]))
        if taken_back(Growth(charge, alike)):
            closed |= alike
    if rights is not Rights.ANY:
        for taker, right in rights_of(core, job, 1, to_quota=False):
            if rights is Rights.ABOVE or taker.group is group:
                beyond = beyond & ~right.nodes
        closed |= beyond
    return closed if closed.any() else None
