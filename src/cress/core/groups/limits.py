"""Bounds of groups (design note 0030): MaxQuota, and the capacity that others keep for themselves (Lendable)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec
import numpy as np

from cress.core.accounts import AtBound
from cress.core.groups.guarantees import capacity_in, charge_of_tasks, measure_of, most_charge_of, place_in
from cress.core.groups.shares import Groups
from cress.core.jobs import GroupState, JobEntry
from cress.core.kernels.holding import NONE
from cress.core.placing.constraints import Wants
from cress.core.tables.cluster import Cluster
from cress.core.tree.amounts import Amounts, InnerGroup, add_amounts
from cress.core.tree.tree import holds
from cress.model.groups.tree import NO_QUOTA

# The most groups that one reason names.
_MOST_TOLD = 3


def over_max(groups: Groups, job: JobEntry, cluster: Cluster) -> AtBound | None:
    """Return the MaxQuota that the next unit of a job would break: of its group, a group above it, or those of
    companions.
    """
    more: dict[str, tuple[Amounts, list[int]]] = {}
    for group, charge in _charges(job, cluster):
        for node in group.path():
            total = more.setdefault(node.name, (node, [0] * len(charge)))[1]
            add_amounts(total, charge)
    return next((found for node, total in more.values() if (found := _beyond_most(groups, node, total))), None)


def never_within_max(groups: Groups, job: JobEntry, tasks: int, cluster: Cluster, wants: Wants) -> AtBound | None:
    """Return the MaxQuota that ``tasks`` tasks of a job with these lasting clauses exceed even alone; ``None`` if
    none.
    """
    charge = list(most_charge_of(job, tasks, cluster, wants))
    nodes = (node for node in job.group.path() if node.most is not None)
    found = next((found for node in nodes if (found := _beyond_most(groups, node, charge, alone=True))), None)
    return None if found is None else msgspec.structs.replace(found, room=found.most)


def never_lent(groups: Groups, job: JobEntry, tasks: int, cluster: Cluster, wants: Wants) -> AtBound | None:
    """Return the capacity kept by other groups that excludes ``tasks`` tasks of a job even on an empty cluster.

    ``wants`` are the lasting clauses. ``None`` if there is room at some time of the week.
    """
    if not groups.tree.keeps:
        return None
    # The kind of its node is still open, so only unavoidable kinds count.
    charge, least = most_charge_of(job, tasks, cluster, wants), charge_of_tasks(job, tasks, cluster)
    for i, more in enumerate((*charge[: job.group.base], *least[job.group.base :])):
        found = _against_kept(groups, job.group, more, i, cluster) if more else None
        if found is not None:
            return found
    return None


def _against_kept(groups: Groups, group: GroupState, more: int, i: int, cluster: Cluster) -> AtBound | None:
    node: Amounts = group
    kept, room = 0, 0
    while more + kept > (quota := _quota_of_week(node, i)[1]):
        room = max(room, quota - kept)
        parent = node.parent
        if parent is None:
            outermost = [other for other in (*groups, *groups.tree.upwards) if other.parent is None]
            others = [other for other in outermost if other is not node]
            kept += sum(_keeps(other)[at] for other in others if (at := place_in(other, node, i)) is not None)
            capacity = capacity_in(group, cluster)[i]
            if more + kept <= capacity:
                return None
            keeping = _keeping(groups, group, i, idle=True)
            if not keeping:
                # The cluster is too small, whatever groups keep.
                return None
            measure, room = measure_of(groups, node, i), max(room, capacity - kept)
            return AtBound("", capacity, kept, more, measure=measure, keeping=keeping, room=room)
        kept += sum(_keeps(other)[i] for other in parent.children if other is not node)
        node = parent
    return None


def _quota_of_week(node: Amounts, i: int) -> tuple[int, int]:
    """Return the smallest and the largest quota of a group in a measure at any time of the week."""
    if not isinstance(node, InnerGroup) or node.spec.quota != NO_QUOTA or node.spec.windows:
        return node.week[i]
    # Its quota is the sum of those below it.
    places = [(child, at) for child in node.children if (at := place_in(child, node, i)) is not None]
    below = [_quota_of_week(child, at) for child, at in places]
    return sum(least for least, _ in below), sum(most for _, most in below)


def _keeps(node: Amounts) -> list[int]:
    """Return, per measure, the amount that a group, or the groups below it, keep for themselves at any time of the week
    when nothing runs.
    """
    kept = [0] * len(node.quota)
    if node.lendable is not None:
        kept = [max(0, _quota_of_week(node, i)[0] - lent) for i, lent in enumerate(node.lendable)]
    if isinstance(node, InnerGroup):
        below = [sum(amounts) for amounts in zip(*(_keeps(child) for child in node.children), strict=True)]
        kept = [max(own, inside) for own, inside in zip(kept, below, strict=True)]
    return kept


def _charges(job: JobEntry, cluster: Cluster) -> Iterator[tuple[GroupState, tuple[int, ...]]]:
    """Yield the groups that the next unit of a job charges, with the charges."""
    yield job.group, most_charge_of(job, job.shape.size, cluster)
    for other, task in job.unit() if job.shares_node else ():
        if task in other.carried:
            yield other.group, most_charge_of(other, 1, cluster)


def _beyond_most(groups: Groups, node: Amounts, charge: list[int], *, alone: bool = False) -> AtBound | None:
    if node.most is None:
        return None
    for i, (used, claimed, more, most) in enumerate(zip(node.used, node.claimed, charge, node.most, strict=True)):
        has = 0 if alone else used + claimed
        if more and has + more > most:
            return AtBound(node.name, most, has, more, measure=measure_of(groups, node, i))
    return None


def kept_for_others(groups: Groups, job: JobEntry, cluster: Cluster, charge: tuple[int, ...] = ()) -> AtBound | None:
    """Return the bound that the next unit of a job breaks if it would take capacity kept by other groups.

    ``charge``: that on its nodes if they are known; else it counts as on the dearest ones.
    The unit is within the guarantees if its group, or one above it, needs at most its quota with the unit added; all
    that the groups below have or keep counts. Else all groups together must have or keep at most the capacity of the
    cluster. Kinds of nodes without room for the unit are ignored while others have room, since it starts on none of
    them.
    """
    full = () if charge else _kinds_without_room(job, cluster)
    charge = charge or most_charge_of(job, job.shape.size, cluster)
    for i, more in enumerate(charge):
        if more and i not in full and (found := _against(groups, job.group, charge, i, cluster)):
            return found
    return None


def _kinds_without_room(job: JobEntry, cluster: Cluster) -> Collection[int]:
    """Return the measures of the kinds of nodes without room for a unit now, while other kinds have room."""
    kinds, shape = job.group.kinds, job.shape
    if kinds is None or shape.kinds or shape.row == NONE:
        return ()
    fits = cluster.lack_of(shape.row) == 0
    if not fits.any():
        return ()
    return [job.group.base + j for j in np.flatnonzero(~kinds.masks()[:, fits].any(axis=1)).tolist()]


def _against(groups: Groups, group: GroupState, charge: tuple[int, ...], i: int, cluster: Cluster) -> AtBound | None:
    node: Amounts = group
    need = node.used[i] + node.claimed[i] + charge[i]
    while need > node.quota[i]:
        before, parent = node.held[i], node.parent
        if parent is None:
            total = _held_by_all(groups, node, i) - before + max(need, before)
            capacity = capacity_in(group, cluster)[i]
            keeping = _keeping(groups, group, i) if total > capacity else ()
            if not keeping:
                # Otherwise the whole capacity is in use and nothing is kept.
                return None
            measure = measure_of(groups, node, i)
            return AtBound("", capacity, total - charge[i], charge[i], measure=measure, keeping=keeping)
        below = parent.held_below[i] - before + max(need, before)
        need = max(parent.used[i] + parent.claimed[i] + charge[i], below)
        node = parent
    return None


def _held_by_all(groups: Groups, node: Amounts, i: int) -> int:
    """Return the total that the outermost groups have or keep in a measure; groups of all sorts count for a kind of
    node.
    """
    held = groups.tree.held
    if i < node.base:
        return held[node.sort][i]
    return sum(amounts[i - node.base - len(groups.kinds)] for amounts in held.values())


def _keeping(groups: Groups, group: GroupState, i: int, *, idle: bool = False) -> tuple[tuple[str, int], ...]:
    """Return the groups with the same measures that keep more than they use, those that keep most first.

    ``idle``: as if nothing ran.
    """
    found = []
    for node in (*groups, *groups.tree.upwards):
        at = place_in(node, group, i)
        if node.lendable is not None and at is not None and node is not group:
            has = 0 if idle else node.used[at] + node.claimed[at]
            kept = (_quota_of_week(node, at)[0] if idle else node.quota[at]) - node.lendable[at] - has
            if kept > 0:
                found.append((node.name, kept))
    return tuple(sorted(found, key=lambda each: (-each[1], each[0]))[:_MOST_TOLD])


def wrong_sums(groups: Groups) -> Iterator[str]:
    """Yield the sums that are not maintained correctly: in the tree, and of the amounts that groups have or keep."""
    tree = groups.tree
    for inner in tree.upwards:
        for what in ("used", "leaving", "claimed"):
            total = [sum(amounts) for amounts in zip(*(getattr(child, what) for child in inner.children), strict=True)]
            if total != getattr(inner, what):
                yield f"groups in {inner.name} have {what} {total}, counted {getattr(inner, what)}"
        waiting = sorted(child.key for child in inner.children if child.key is not None)
        if waiting != inner.order or (inner.key is not None) != bool(waiting):
            yield f"the groups in {inner.name} that wait are not in its order"
    if not tree.keeps:
        return
    outermost: dict[tuple[int, ...], list[int]] = {}
    for node in (*groups, *tree.upwards):
        if node.held != holds(node):
            yield f"group {node.name} has or keeps {holds(node)}, counted {node.held}"
        if node.parent is None:
            add_amounts(outermost.setdefault(node.sort, [0] * len(node.quota)), tuple(node.held))
    for inner in tree.upwards:
        below = [sum(amounts) for amounts in zip(*(child.held for child in inner.children), strict=True)]
        if below != inner.held_below:
            yield f"groups in {inner.name} have or keep {below}, counted {inner.held_below}"
    if outermost != tree.held:
        yield f"outermost groups have or keep {outermost}, counted {tree.held}"
