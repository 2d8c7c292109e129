"""Limits of a job's tasks in one domain: ``max_per_node`` and ``max_per_rack``."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cress.core.kernels.domains import close_full
from cress.core.placing.constraints import TaskLimit, Wants
from cress.core.placing.context import ClauseContext
from cress.core.placing.gang_rules import Limit, Rule
from cress.core.placing.over_domains import OverDomain
from cress.core.placing.placement_clauses import parts_of
from cress.core.placing.predicates import Predicate
from cress.core.placing.relations import NODE, Own
from cress.core.tables.arrays import Bools, Ints
from cress.language.names import key_of


class FewTasks(OverDomain):
    """The limit of the job's tasks in one domain; ``tasks`` of them start together.

    Nodes without the attribute count as one domain. For a gang, a limit on single nodes is one of copies.
    """

    def __init__(self, context: ClauseContext, limit: TaskLimit, owner: int, tasks: int) -> None:
        where = "on one node" if key_of(limit.by) == NODE else f"in one {limit.by.lower()}"
        super().__init__(context, key_of(limit.by), limit.by, f"at most {limit.most} of its tasks {where}")
        self.watches = (Own(owner),)
        self.ruled = self.key != NODE
        self._limit = limit
        self._most = limit.most
        self._tasks = tasks

    def close(self, closed: Bools, changed: Ints) -> int:
        counts, most = self.running(), self._most - self._tasks
        return int(close_full(counts, most, bool(counts[-1] > most), closed, changed))

    def never(self, places: Ints) -> Bools:
        return np.full(len(places), self._tasks > self._most)

    def rules(self, *, empty: bool) -> tuple[Rule, ...]:
        return (Limit(self.domains, self._most, outside=True),) if self.ruled else ()

    def change(self, places: Ints) -> str:
        """Return the least limit that would let a task start on one of these nodes."""
        least = int(self.running()[self.domains.of[places]].min()) + self._tasks
        return f"with {self._limit.key} {least} one more would start"

    def caps(self, *, empty: bool) -> Ints | None:
        if self.ruled:
            return None
        left: Ints = np.maximum(0, self._most - self.running())[self.domains.of]
        return np.full(self.relations.node_count, self._most, np.int64) if empty else left


def limit_predicates(context: ClauseContext, wants: Wants) -> Iterable[Predicate]:
    """Yield the predicates of the limits of each job of a unit."""
    members = parts_of(wants)
    for part in dict.fromkeys(members):
        for limit in part.limits:
            yield FewTasks(context, limit, part.owner, members.count(part))
