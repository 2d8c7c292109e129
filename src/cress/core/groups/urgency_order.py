"""The order of groups by their first jobs: by urgency (source S) or by deadline (design note 0023)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

from cress.core.groups.running_limits import head_of
from cress.core.job_times import longest_left, nearness, next_late, next_urgency_bend, presses_at, urgency_of
from cress.core.jobs import GroupState
from cress.core.kernels.urgency import passes_at
from cress.model.times import NEVER


def by_urgency(groups: Iterable[GroupState], now: int) -> tuple[list[GroupState], int]:
    """Return the groups in order, and the next time (µs) at which the order may change by itself.

    Groups not above their quota come first; both classes are ordered by urgency, and ties keep their place.
    """
    ordered = sorted(
        ((group.above_quota, -_urgency(group, now), i, group) for i, group in enumerate(groups)),
        key=lambda each: each[:3],
    )
    change = NEVER
    for _, urgency, _, group in ordered:
        head = head_of(group)
        if head is not None and urgency < 0:
            change = min(change, next_urgency_bend(head, now))
    for (above, more, _, ahead), (also, less, _, behind) in pairwise(ordered):
        first, second = head_of(ahead), head_of(behind)
        if above is also and more > -1 and less < 0 and first is not None and second is not None:
            passes = passes_at(second.deadline, longest_left(second), first.deadline, longest_left(first), now)
            change = min(change, int(passes))
    return [group for *_, group in ordered], change


def by_deadline(groups: Iterable[GroupState], now: int) -> tuple[list[GroupState], int]:
    """Return the groups in order, and the next time (µs) at which the order may change by itself.

    Groups not above their quota with a pressing first job come first. The others, and groups above their quota, go by
    deadline. Ties keep their place.
    """
    keys: list[tuple[bool, float, int, GroupState]] = []
    change = NEVER
    for i, group in enumerate(groups):
        head = head_of(group)
        waits, near = group.above_quota, 0.0
        if group.claims:
            near = math.inf
        elif head is not None:
            near = nearness(head, now)
            change = min(change, next_late(head, now))
            presses = presses_at(head)
            if not waits and presses > now:
                waits = True
                change = min(change, presses)
        keys.append((waits, -near, i, group))
    keys.sort(key=lambda each: each[:3])
    return [group for *_, group in keys], change


def _urgency(group: GroupState, now: int) -> float:
    """Return the urgency of the first job of a group; units with claimed room come before all others."""
    if group.claims:
        return 2.0
    head = head_of(group)
    return 0.0 if head is None else urgency_of(head, now)
