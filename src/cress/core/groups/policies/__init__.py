"""Level two: the order of the jobs inside a group. A new policy is one file here and one line in ``make_policy``."""

from __future__ import annotations

from cress.core.groups.policies.backfill import BackfillPolicy
from cress.core.groups.policies.base import Policy
from cress.core.groups.policies.capacity import CapacityPolicy
from cress.core.groups.policies.fifo import FifoPolicy
from cress.core.groups.policies.priority import PriorityPolicy
from cress.core.groups.policies.queue import J
from cress.core.placing.fit import Fit
from cress.model.errors import InputError
from cress.model.group import Group, SchedPolicy
from cress.model.options import Options

__all__ = ["Policy", "make_policy"]


def make_policy(group: Group, options: Options, fit: Fit) -> Policy[J]:
    """The policy that ``group`` asks for, with the group's own options."""
    match group.policy:
        case SchedPolicy.FIFO:
            return FifoPolicy()
        case SchedPolicy.PRIORITY:
            return PriorityPolicy(options.priority_ageing)
        case SchedPolicy.CAPACITY:
            return CapacityPolicy(dict(group.user_weights), options.user_limit_factor)
        case SchedPolicy.BACKFILL:
            return BackfillPolicy(fit, options.backfill_depth, conservative=options.backfill == "conservative")
        case SchedPolicy.URGENCY:
            raise InputError(
                "the policy Urgency needs deadlines, which are not known yet",
                hint="FIFO, Priority, Capacity or BackFill",
                field=group.name,
            )
