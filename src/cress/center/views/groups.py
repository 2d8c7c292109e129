"""Views of groups: their use, their guarantees, and their place in the tree."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from cress.center.committing.committer import Committer
from cress.center.views.jobs import moment
from cress.core.groups.guarantees import capacity_in
from cress.core.jobs import GroupState
from cress.core.scheduler import Scheduler
from cress.core.tree.amounts import UNBOUNDED, Amounts, InnerGroup
from cress.core.tree.tree import holds
from cress.model.groups.limits import limit_values
from cress.model.groups.measures import split
from cress.model.groups.quota_text import SCALE, format_measures, format_resource_quota
from cress.model.groups.timetable import next_change
from cress.model.resources import Dimensions
from cress.model.units import format_amount, format_share
from cress.protocol.cluster_views import GroupView, NodeKindView


def group_view(committer: Committer, group: GroupState, waiting: int, priority: str, running_jobs: int) -> GroupView:
    """Return a group with its use and its limits."""
    return GroupView(
        policy=group.spec.policy.value,
        users=group.spec.users,
        running=len(group.attempts),
        waiting=waiting,
        priority=priority,
        cooling=committer.clock.now() < group.cools_until(),
        jobs=committer.machine.group_load.of(group.name),
        running_jobs=running_jobs,
        **_of_any(committer, group),
    )


def inner_view(committer: Committer, group: InnerGroup, leaves: list[GroupView]) -> GroupView:
    """Return a group that contains others; ``leaves`` are the groups below it that take jobs."""
    return GroupView(
        policy="",
        users=(),
        running=sum(leaf.running for leaf in leaves),
        waiting=sum(leaf.waiting for leaf in leaves),
        jobs=sum(leaf.jobs for leaf in leaves),
        running_jobs=sum(leaf.running_jobs for leaf in leaves),
        inner=True,
        **_of_any(committer, group),
    )


def _of_any(committer: Committer, group: Amounts) -> dict[str, Any]:
    """Return the fields common to groups with and without groups below them."""
    core, spec = committer.machine.core, group.spec
    return {
        "name": group.name,
        "quota": _amounts(group, group.quota, core.dimensions),
        "used": _amounts(group, group.used, core.dimensions),
        "ratio": round(float(group.ratio()), 6),
        "weight": spec.weight,
        "timetable": _timetable(group, core.dimensions),
        "until": moment(next_change(spec, committer.clock.utc(), core.groups.zone) or 0),
        "limits": limit_values(spec.limits, core.options.accounting, core.dimensions),
        "closed": spec.closed,
        "closed_since": moment(spec.closed_at),
        "admins": spec.admins,
        "preempt_priority": spec.preempt_priority,
        **_in_tree(core, group),
    }


def _in_tree(core: Scheduler, group: Amounts) -> dict[str, Any]:
    """Return the fields of a view about the group's place in the tree, its bounds, and its borrowing and lending."""
    capacity = capacity_in(group, core.cluster)
    parent = group.parent
    beyond = [max(0, used - quota) for used, quota in zip(group.used, group.quota, strict=True)]
    # Without the parts that the groups below keep.
    lends = [max(0, quota - held) for quota, held in zip(group.quota, holds(group), strict=True)]
    return {
        "parent": group.spec.parent,
        "max_quota": "" if group.most is None else _amounts(group, group.most, core.dimensions),
        "lendable": "" if group.lendable is None else _amounts(group, group.lendable, core.dimensions),
        "share_of_parent": None if parent is None else _share(group.quota, parent.quota),
        "share_of_cluster": _share(group.quota, capacity),
        "borrowed": _amounts(group, beyond, core.dimensions),
        "lends": _amounts(group, lends, core.dimensions),
        "kinds": _kinds(group, core.dimensions),
    }


def _share(quota: Sequence[int], whole: Sequence[int]) -> float | None:
    """Return the largest share of a quota in its measures; None for an empty whole."""
    shares = [part / total for part, total in zip(quota, whole, strict=True) if total]
    return round(max(shares), 6) if shares else None


def used_resource(group: Amounts, dimensions: Dimensions) -> int | str:
    """Return the use of a group in the measures of its quota: one number, or the text of a vector."""
    return format_measures(_by_measure(group, group.used, dimensions), dimensions) if group.vector else group.used[0]


def _timetable(group: Amounts, dimensions: Dimensions) -> str:
    if not group.spec.windows:
        return ""
    return format_resource_quota(group.spec.quota, group.spec.windows, group.options.accounting, dimensions)


def _amounts(group: Amounts, amounts: list[int], dimensions: Dimensions) -> str:
    if group.vector:
        return format_measures(_by_measure(group, amounts, dimensions), dimensions)
    return format_share(Decimal(amounts[0]) / SCALE[group.options.accounting])


def _by_measure(group: Amounts, amounts: list[int], dimensions: Dimensions) -> dict[str, int]:
    """Return amounts by measure, without kinds of nodes that no bound names."""
    names = (*(dimensions.names[k] for k in group.dims), *(group.kinds.names if group.kinds is not None else ()))
    return {name: amount for name, amount in zip(names, amounts, strict=True) if amount < UNBOUNDED}


def _kinds(group: Amounts, dimensions: Dimensions) -> dict[str, NodeKindView]:
    """Return the use, quota and maximum of a group for each kind of nodes that it uses or has a quota of."""
    if group.kinds is None:
        return {}

    def text(amounts: Sequence[int] | None, j: int, name: str) -> str:
        if amounts is None or amounts[group.base + j] >= UNBOUNDED:
            return ""
        return format_amount(amounts[group.base + j], dimensions.measure(split(name)[0]))

    return {
        name: NodeKindView(
            quota=text(group.quota, j, name), used=text(group.used, j, name), max_quota=text(group.most, j, name)
        )
        for j, name in enumerate(group.kinds.names)
        if group.used[group.base + j] or group.quota[group.base + j]
    }
