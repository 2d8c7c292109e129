"""Views of groups: what they have, what they are guaranteed, and their place in the tree."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from cress.center.committer import Committer
from cress.center.show.jobs import moment
from cress.core.groups.guarantees import capacity_in
from cress.core.jobs import GroupState
from cress.core.scheduler import Scheduler
from cress.core.tree.amounts import Amounts, InnerGroup
from cress.model.groups.limits import limit_values
from cress.model.groups.quota_text import SCALE, format_resource_quota
from cress.model.groups.timetable import next_change
from cress.model.resources import Dimensions, ResourceVector
from cress.model.units import format_share
from cress.model.vectors import format_vector
from cress.protocol.views import GroupView


def group_view(committer: Committer, group: GroupState, waiting: int, priority: str) -> GroupView:
    """Return a group with its use and its limits."""
    return GroupView(
        policy=group.spec.policy.value,
        users=group.spec.users,
        running=len(group.attempts),
        waiting=waiting,
        priority=priority,
        cooling=group.preempted_at is not None and committer.clock.now() < group.cools_until(),
        jobs=committer.machine.group_load.of(group.name),
        running_jobs=len({attempt.job.job.counted_as for attempt in group.attempts.values()}),
        **_of_any(committer, group),
    )


def inner_view(committer: Committer, group: InnerGroup, leaves: list[GroupView]) -> GroupView:
    """Return a group with groups in it; ``leaves`` are those in it that take jobs."""
    return GroupView(
        policy="",
        users=(),
        running=sum(each.running for each in leaves),
        waiting=sum(each.waiting for each in leaves),
        jobs=sum(each.jobs for each in leaves),
        running_jobs=sum(each.running_jobs for each in leaves),
        inner=True,
        **_of_any(committer, group),
    )


def _of_any(committer: Committer, group: Amounts) -> dict[str, Any]:
    """Return the fields of a view that groups with and without groups in them have alike."""
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
    """Return the fields of a view about the place of a group in the tree, its bounds, and what it borrows and lends."""
    capacity = capacity_in(group, core.cluster)
    parent = group.parent
    beyond = [max(0, used - quota) for used, quota in zip(group.used, group.quota, strict=True)]
    unused = [
        max(0, quota - used - claimed)
        for quota, used, claimed in zip(group.quota, group.used, group.claimed, strict=True)
    ]
    lends = unused if group.lendable is None else [min(each) for each in zip(unused, group.lendable, strict=True)]
    return {
        "parent": group.spec.parent,
        "max_quota": "" if group.most is None else _amounts(group, group.most, core.dimensions),
        "lendable": "" if group.lendable is None else _amounts(group, group.lendable, core.dimensions),
        "share_of_parent": None if parent is None else _share(group.quota, parent.quota),
        "share_of_cluster": _share(group.quota, capacity),
        "borrowed": _amounts(group, beyond, core.dimensions),
        "lends": _amounts(group, lends, core.dimensions),
    }


def _share(quota: Sequence[int], whole: Sequence[int]) -> float | None:
    """Return the largest share of a quota in its measures; None of nothing."""
    shares = [part / total for part, total in zip(quota, whole, strict=True) if total]
    return round(max(shares), 6) if shares else None


def used_resource(group: Amounts, dimensions: Dimensions) -> int | ResourceVector:
    """Return the use of a group in the measures of its quota: one number, or a vector."""
    return dimensions.vector(**_by_dimension(group, group.used, dimensions)) if group.dims else group.used[0]


def _timetable(group: Amounts, dimensions: Dimensions) -> str:
    if not group.spec.windows:
        return ""
    return format_resource_quota(group.spec.quota, group.spec.windows, group.options.accounting, dimensions)


def _amounts(group: Amounts, amounts: list[int], dimensions: Dimensions) -> str:
    if group.dims:
        return format_vector(dimensions.vector(**_by_dimension(group, amounts, dimensions)), dimensions)
    return format_share(Decimal(amounts[0]) / SCALE[group.options.accounting])


def _by_dimension(group: Amounts, amounts: list[int], dimensions: Dimensions) -> dict[str, int]:
    return {dimensions.names[k]: amount for k, amount in zip(group.dims, amounts, strict=True)}
