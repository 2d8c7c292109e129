"""Priority: the highest job priority first, then submit time; waiting may raise the priority."""

from __future__ import annotations

from typing import Self

from cress.core.groups.policies.base import Policy
from cress.core.groups.policies.queue import J
from cress.core.placing.fit import Fit
from cress.model.group import Group
from cress.model.options import Options
from cress.model.times import HOUR

# Ageing is kept in thousandths of a priority point per hour, so that keys are integers.
_STEP = 1000


class PriorityPolicy(Policy[J]):
    """Policy that offers only the head, by priority.

    priority + ageing × (now − submitted) orders as priority − ageing × submitted at every ``now``: a static key.
    """

    def __init__(self, ageing: float) -> None:
        super().__init__()
        self._ageing = round(ageing * _STEP)

    @classmethod
    def of(cls, group: Group, options: Options, fit: Fit) -> Self:
        return cls(options.priority_ageing)

    def key(self, job: J) -> tuple[int, int]:
        rank = job.job.priority * _STEP * HOUR - self._ageing * job.submitted
        # Jobs of one rank go by submit time, then id; both fit into one integer behind the rank.
        return (-rank, (job.submitted << 64) + job.job.id)

    def outranks(self, job: J, other: J, start: int) -> bool:
        """Return True if ``job`` has a higher priority than a task of ``other`` that started at ``start``.

        The task keeps the points gained by waiting. Without them, ageing would put it first only to have it preempted
        at once.
        """
        gained = self._ageing * max(0, start - other.submitted)
        return (job.job.priority - other.job.priority) * _STEP * HOUR > gained
