"""Level two: the order of the jobs inside a group. A new policy is one file here and one line in ``POLICIES``."""

from __future__ import annotations

from typing import Any

from cress.core.groups.policies.backfill import BackfillPolicy
from cress.core.groups.policies.base import Policy
from cress.core.groups.policies.capacity import CapacityPolicy
from cress.core.groups.policies.fifo import FifoPolicy
from cress.core.groups.policies.priority import PriorityPolicy
from cress.core.groups.policies.queue import J
from cress.core.groups.policies.ranked_backfill import RankedBackfill
from cress.core.placing.fit import Fit
from cress.model.errors import InputError
from cress.model.group import Group, SchedPolicy
from cress.model.options import Options

__all__ = ["POLICIES", "Policy", "make_policy"]

POLICIES: dict[SchedPolicy, type[Policy[Any]]] = {
    SchedPolicy.FIFO: FifoPolicy,
    SchedPolicy.PRIORITY: PriorityPolicy,
    SchedPolicy.CAPACITY: CapacityPolicy,
    SchedPolicy.BACKFILL: BackfillPolicy,
}


def make_policy(group: Group, options: Options, fit: Fit) -> Policy[J]:
    """Return the policy of ``group``, with the group's own options."""
    kind = POLICIES.get(group.policy)
    if kind is None:
        *others, last = (each.value for each in POLICIES)
        raise InputError(
            f"the policy {group.policy.value} needs deadlines, which are not known yet",
            hint=f"{', '.join(others)} or {last}",
            field=group.name,
        )
    by_estimates = options.estimates != "requested" or options.backfill_order != "submit"
    if kind is not BackfillPolicy or not by_estimates:
        return kind.of(group, options, fit)
    if options.backfill != "easy":
        raise InputError(
            f"backfill={options.backfill} plans every job in the order of submission, by the limits that users request",
            hint="backfill=easy, or estimates=requested and backfill_order=submit",
            field=group.name,
        )
    predicts = options.estimates == "predicted"
    return RankedBackfill(fit, options.backfill_depth, order=options.backfill_order, predicts=predicts)
