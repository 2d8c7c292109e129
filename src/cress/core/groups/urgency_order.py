"""The order of groups by urgency: those not above their quota first, in both classes by the urgency of their first job (source S)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from cress.core.jobs import GroupState
from cress.core.kernels.urgency import passes_at
from cress.model.times import NEVER


def by_urgency(groups: Iterable[GroupState], now: int) -> tuple[list[GroupState], int]:
    """Return the groups in their order, equal ones as they come, and the next time (µs) at which it may change by itself."""
    ordered = sorted(
        ((group.above_quota, -_urgency(group, now), i, group) for i, group in enumerate(groups)),
        key=lambda each: each[:3],
    )
    change = NEVER
    for _, urgency, _, group in ordered:
        head = group.policy.head()
        if head is not None and urgency < 0:
            change = min(change, head.next_urgency_bend(now))
    for (above, more, _, ahead), (also, less, _, behind) in pairwise(ordered):
        first, second = ahead.policy.head(), behind.policy.head()
        if above is also and more > -1 and less < 0 and first is not None and second is not None:
            passes = passes_at(second.deadline, second.longest_left(), first.deadline, first.longest_left(), now)
            change = min(change, int(passes))
    return [group for *_, group in ordered], change


def _urgency(group: GroupState, now: int) -> float:
    """Return the urgency of the first job of a group; units that have claimed their room come before all."""
    if group.claims:
        return 2.0
    head = group.policy.head()
    return 0.0 if head is None else head.urgency(now)
