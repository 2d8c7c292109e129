"""Guarantees: the demand of groups up to their quotas, and the units that it leaves no room for (design note 0011)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from cress.core.charges import MILLION
from cress.core.groups.lenders import Taker
from cress.core.groups.running_limits import that_may_start
from cress.core.groups.shares import Groups
from cress.core.jobs import GroupState, JobEntry, is_mixed
from cress.core.placing.constraints import Wants
from cress.core.placing.shape import Shape
from cress.core.tables.arrays import Bools, Ints
from cress.core.tables.cluster import Cluster
from cress.core.tree.amounts import Amounts, InnerGroup
from cress.model.resources import ResourceVector


class ForbiddenBy(msgspec.Struct, frozen=True):
    """The guarantee that keeps a unit from starting, in raw amounts of one measure.

    ``measure`` is a dimension or a kind, or "" for the scalar one. The unit of a group with this ``quota`` ``asks``
    for more, and the demand of other groups up to their quotas leaves only ``left``.
    """

    group: str
    measure: str
    quota: int
    asks: int
    left: int


class Guarantees:
    """The demand of every group up to its quota, at one moment; only groups with the same measures are compared."""

    def __init__(self, groups: Groups, cluster: Cluster) -> None:
        self._groups = groups
        self._cluster = cluster
        # Demands by group, computed when first needed.
        self._demands: dict[str, list[int]] = {}
        # Their sums, by the sort of measures and the index; kinds of nodes by their own index.
        self._totals: dict[tuple[tuple[int, ...] | None, int], int] = {}

    def forbid(self, job: JobEntry) -> bool:
        """Return True if the demand of other groups up to their quotas leaves no room for a unit larger than its
        group's quota.
        """
        return self.against(job) is not None

    def against(self, job: JobEntry) -> ForbiddenBy | None:
        """Return the guarantee that leaves no room for a unit larger than its group's quota; ``None`` if there is
        none.

        In a tree there is room if the quota of a group above leaves it, beside the demand of the other groups in that
        group.
        """
        group = job.group
        unit = charge_of_tasks(job, job.shape.size, self._cluster)
        if _is_up_to_quota(group, unit):
            return None
        if self._groups.tree.inner:
            return self._against_in_tree(job, unit)
        if not self._demands:
            self._demands = {each.name: _demand(each, self._cluster) for each in self._groups}
        capacity = capacity_in(group, self._cluster)
        for i, (amount, quota) in enumerate(zip(unit, group.quota, strict=True)):
            if amount > quota and amount > (left := capacity[i] - self._demand_of_others(group, i)):
                return ForbiddenBy(group.name, measure_of(self._groups, group, i), quota, amount, max(0, left))
        return None

    def _demand_of_others(self, group: GroupState, i: int) -> int:
        """Return the demand of the other groups in measure ``i`` of a group."""
        # The sum over all groups is the same for thousands of blocked units.
        measure = (group.sort, i) if i < group.base else (None, i - group.base)
        total = self._totals.get(measure)
        if total is None:
            places = ((each, place_in(each, group, i)) for each in self._groups)
            total = sum(self._demands[each.name][place] for each, place in places if place is not None)
            self._totals[measure] = total
        return total - self._demands[group.name][i]

    def _against_in_tree(self, job: JobEntry, unit: tuple[int, ...]) -> ForbiddenBy | None:
        group: Amounts = job.group
        outermost = [each for each in (*self._groups, *self._groups.tree.upwards) if each.parent is None]
        for i, amount in enumerate(unit):
            node, need = group, amount
            while need > node.quota[i]:
                siblings = node.parent.children if node.parent is not None else outermost
                need += sum(
                    self._demand_in_tree(each)[at]
                    for each in siblings
                    if each is not node and (at := place_in(each, node, i)) is not None
                )
                if node.parent is None:
                    if need > (capacity := capacity_in(job.group, self._cluster)[i]):
                        measure, left = measure_of(self._groups, job.group, i), max(0, capacity - need + amount)
                        return ForbiddenBy(job.group.name, measure, job.group.quota[i], amount, left)
                    break
                node = node.parent
        return None

    def _demand_in_tree(self, node: Amounts) -> list[int]:
        """Return the use and the waiting requests of a group and those below it, at most its quota."""
        found = self._demands.get(node.name)
        if found is None:
            if isinstance(node, InnerGroup):
                inside = [self._demand_up_to(each, node) for each in node.children]
                total = [sum(amounts) for amounts in zip(*inside, strict=True)]
                found = [min(amount, quota) for amount, quota in zip(total, node.quota, strict=True)]
            else:
                found = _demand(node, self._cluster)
            self._demands[node.name] = found
        return found

    def _demand_up_to(self, node: Amounts, top: Amounts) -> list[int]:
        """Return the use and the waiting requests of the groups in ``node``.

        Each counts up to the quota of ``top``, which a group may get if the others leave it.
        """
        if not isinstance(node, InnerGroup):
            return _demand(node, self._cluster, top.quota)
        inside = [self._demand_up_to(each, top) for each in node.children]
        return [sum(amounts) for amounts in zip(*inside, strict=True)]


def may_be_within_quota(job: JobEntry, cluster: Cluster) -> bool:
    """Return True if the next unit of a job is no larger than the quota of its group, so that it fits there alone."""
    return _is_up_to_quota(job.group, charge_of_tasks(job, job.shape.size, cluster))


def _is_up_to_quota(group: GroupState, unit: tuple[int, ...]) -> bool:
    if len(unit) == 1:
        return unit[0] <= group.quota[0]
    return all(amount <= quota for amount, quota in zip(unit, group.quota, strict=True))


def measure_of(groups: Groups, node: Amounts, i: int) -> str:
    """Return the name of a measure of a group: a dimension or a kind of node, or "" for the scalar one."""
    if i >= node.base:
        return groups.kinds.names[i - node.base]
    return groups.dimensions.names[node.dims[i]] if node.vector else ""


def capacity_in(group: Amounts, cluster: Cluster) -> tuple[int, ...]:
    """Return the capacity of the cluster in the measures of a group."""
    total = cluster.capacity()
    kinds = group.kinds.capacity() if group.kinds is not None else ()
    if group.vector:
        return (*(total[k] for k in group.dims), *kinds)
    return ((total[0],) if group.counts_cores else (MILLION * cluster.usable_count,)) + kinds


def place_in(other: Amounts, group: Amounts, i: int) -> int | None:
    """Return the index in ``other`` of measure ``i`` of a group; ``None`` if their amounts cannot be added."""
    if i >= group.base:
        return i - group.base + other.base
    return i if other.sort == group.sort else None


def charge_of_tasks(job: JobEntry, tasks: int, cluster: Cluster) -> tuple[int, ...]:
    """Return the charge of ``tasks`` tasks on the cheapest nodes; those of a gang need room there at the same time.

    A kind of node is charged only if the clauses or the size of the job leave no other kind.
    """
    if tasks > 1 and job.shape.size > 1 and _fixed_charge(job, job.job.request) is None:
        return _least_together(job, tasks, cluster)
    if job.group.counts_cores and not is_mixed(job):
        # The most frequent case, asked for each unit that is offered.
        stamp, least = job.shape.least_cores
        if stamp != cluster.usable_changes:
            least = _total(job, 1, cluster, job.shape.wants, most=False)[0]
            job.shape.least_cores = cluster.usable_changes, least
        return (least * tasks,)
    return _total(job, tasks, cluster, job.shape.wants, most=False)


def most_charge_of(job: JobEntry, tasks: int, cluster: Cluster, wants: Wants | None = None) -> tuple[int, ...]:
    """Return the charge of ``tasks`` tasks on the most expensive node that could hold one.

    A kind of node is charged as soon as the clauses (``wants``, else those of the shape) allow such a node.
    """
    return _total(job, tasks, cluster, job.shape.wants if wants is None else wants, most=True)


def charge_where_it_fits(job: JobEntry, cluster: Cluster, *, claimed: bool = False) -> tuple[int, ...]:
    """Return the charge of the next unit of a job, or (``claimed``) of its first claim.

    Where quotas name kinds of nodes, it counts in each kind that has room for it.
    """
    kinds, shape = job.group.kinds, job.shape
    if kinds is not None and claimed and job.claims:
        return job.claims[0].charge
    charge = charge_of_tasks(job, shape.size, cluster)
    if kinds is None or is_mixed(job):
        return charge
    room = cluster.lack_of(shape.row) == 0
    here: list[bool] = np.any(kinds.masks()[:, room], axis=1).tolist()
    base = job.group.base
    more = [
        job.job.request[k] * shape.size if there else least
        for k, there, least in zip(kinds.dims, here, charge[base:], strict=True)
    ]
    return (*charge[:base], *more)


def dearest_charge(job: JobEntry, cluster: Cluster) -> tuple[int, ...]:
    """Return the charge of the next unit of a job on the dearest nodes, with the least in kinds of nodes."""
    base, tasks = job.group.base, job.shape.size
    return (*most_charge_of(job, tasks, cluster)[:base], *charge_of_tasks(job, tasks, cluster)[base:])


def _fixed_charge(job: JobEntry, request: ResourceVector) -> tuple[int, ...] | None:
    """Return the charge of a request in the base measures if it is the same on every node; ``None`` if it is a share
    of the node.
    """
    group = job.group
    if group.vector:
        return group.charge(request, (), None)
    return (group.counts_cores and job.cpu_charge) or None


def may_be_dear(job: JobEntry, cluster: Cluster) -> bool:
    """Return True if the charge of a gang depends on its nodes, and would take its group above its quota on some."""
    group = job.group
    if group.vector or job.shape.size == 1:
        return False
    most = dearest_charge(job, cluster)
    return not group.may_take(most, to_quota=True) and most != charge_of_tasks(job, job.shape.size, cluster)


def cheapest_first(job: JobEntry, cluster: Cluster, shape: Shape, nodes: Ints) -> Ints:
    """Return the ``nodes`` in the order of the charge of a task of this shape, equal ones in their order."""
    group = job.group
    capacities = [cluster.specs[f].capacity for f in nodes.tolist()]
    charge = {capacity: group.charge(shape.request, capacity, None)[0] for capacity in set(capacities)}
    charges = np.array([charge[capacity] for capacity in capacities], np.int64)
    found: Ints = nodes[np.argsort(charges, kind="stable")]
    return found


def too_dear_on(job: JobEntry, cluster: Cluster, *, to_quota: bool = True) -> Bools | None:
    """Return the nodes ``[n]`` on which the next unit of a job costs more than on others and would take its group above
    its quota (or quota × B); a gang as if all its tasks were on nodes alike.

    What a task is charged depends on its node: it is a share of the node, or of its memory. ``None`` if this makes no
    difference, for gangs of several kinds of tasks, and for a quota of several dimensions.
    """
    return too_dear_for([Taker(job.group, to_quota)], job, cluster)


def too_dear_for(takers: Sequence[Taker], job: JobEntry, cluster: Cluster) -> Bools | None:
    """Return the nodes ``[n]`` on which the next unit of a job costs more than on others and which none of ``takers``
    may take for it; ``None`` as ``too_dear_on``.
    """
    tasks, share, request = job.shape.size, job.group.share, job.job.request
    if _fixed_charge(job, request) is not None or is_mixed(job) or (tasks == 1 and job.companions):
        return None
    least, most = cluster.least_charge(request, share), cluster.most_charge(request, share)
    if least == most or not takers:
        return None

    def may_take(charge: int) -> bool:
        return any(
            taker.group.vector or taker.group.may_take_of(0, charge * tasks, to_quota=taker.to_quota)
            for taker in takers
        )

    if may_take(most):
        return None
    capacities = [spec.capacity for spec in cluster.specs]
    dear = {
        capacity: (charge := share(request, capacity)) > least and not may_take(charge) for capacity in set(capacities)
    }
    return np.array([dear[capacity] for capacity in capacities], np.bool_)


def _total(job: JobEntry, tasks: int, cluster: Cluster, wants: Wants, *, most: bool) -> tuple[int, ...]:
    """Return the charge of ``tasks`` tasks with these clauses, each on the cheapest node that could hold it, or
    (``most``) on the dearest; for a gang of several kinds of tasks, that of its next unit.
    """
    group, kinds = job.group, job.group.kinds
    on = cluster.most_charge if most else cluster.least_charge
    total = [0] * len(group.quota)
    for request, wanted, number in _counted_requests(job, tasks, wants):
        charge = _fixed_charge(job, request)
        if charge is None:
            charge = (on(request, group.share),)
        if kinds is not None:
            charge += (kinds.most if most else kinds.least)(request, wanted)
        for i, amount in enumerate(charge):
            total[i] += amount * number
    return tuple(total)


def _counted_requests(job: JobEntry, tasks: int, wants: Wants) -> Iterable[tuple[ResourceVector, Wants, int]]:
    """Return the requests of ``tasks`` tasks of a job, or of the next unit of a gang of several kinds, with their
    clauses and numbers.
    """
    if not is_mixed(job):
        return [(job.job.request, wants, tasks)]
    if wants.kinds:
        return [(kind.request, kind.wants, kind.size) for kind in wants.kinds]
    return [(request, wants, number) for request, number in job.unit_requests()]


def _least_together(job: JobEntry, tasks: int, cluster: Cluster) -> tuple[int, ...]:
    """Return the charge of tasks that run at the same time on the cheapest nodes, as if each kind of tasks had the
    nodes alone.
    """
    kinds, charges = job.group.kinds, []
    for request, wants, number in _counted_requests(job, tasks, job.shape.wants):
        least = () if kinds is None else kinds.least(request, wants)
        together = cluster.least_charge_of(number, request, job.group.share)
        charges.append((together, *(amount * number for amount in least)))
    return tuple(map(sum, zip(*charges, strict=True)))


def _demand(group: Amounts, cluster: Cluster, most: list[int] | None = None) -> list[int]:
    """Return the use and the waiting requests of a group, at most its quota, or ``most``."""
    assert isinstance(group, GroupState), f"{group.name} takes no jobs"
    bound = most or group.quota
    demand = [used + claimed for used, claimed in zip(group.used, group.claimed, strict=True)]
    for job in that_may_start(group, group.policy):
        if all(amount >= quota for amount, quota in zip(demand, bound, strict=True)):
            break
        for i, amount in enumerate(charge_of_tasks(job, job.startable, cluster)):
            demand[i] += amount
    return [min(amount, quota) for amount, quota in zip(demand, bound, strict=True)]
