"""Level two: the order of the jobs inside a group. A new policy is one file here and one line in ``POLICIES``."""

from __future__ import annotations

from typing import Any

from cress.core.groups.policies.backfill import BackfillPolicy
from cress.core.groups.policies.base import Policy
from cress.core.groups.policies.capacity import CapacityPolicy
from cress.core.groups.policies.edf import EdfPolicy
from cress.core.groups.policies.fifo import FifoPolicy
from cress.core.groups.policies.priority import PriorityPolicy
from cress.core.groups.policies.queue import J
from cress.core.groups.policies.ranked_backfill import RankedBackfill
from cress.core.groups.policies.urgency import UrgencyPolicy
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
    SchedPolicy.URGENCY: UrgencyPolicy,
    SchedPolicy.EDF: EdfPolicy,
}


def make_policy(group: Group, options: Options, fit: Fit) -> Policy[J]:
    """Return the policy of ``group``, with its own options."""
    kind = POLICIES[group.policy]
    by_estimates = options.estimates != "requested" or options.backfill_order != "submit"
    if kind is not BackfillPolicy or not by_estimates:
        # Without backfill only the order of submission remains.
        kind = FifoPolicy if kind is BackfillPolicy and options.backfill == "off" else kind
        return kind.of(group, options, fit)
    if options.backfill != "easy":
        does = "starts" if options.backfill == "off" else "plans"
        raise InputError(
            (
                f"backfill={options.backfill} {does} every job in the order of submission, by the limits that "
                "users request"
            ),
            hint="backfill=easy, or estimates=requested and backfill_order=submit",
            field=group.name,
        )
    predicts = options.estimates == "predicted"
    return RankedBackfill(fit, options.backfill_depth, order=options.backfill_order, predicts=predicts)
