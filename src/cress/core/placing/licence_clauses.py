"""Licences as a predicate: a unit that needs more of a licence than is free fits on no node.

It is passed over like a job that waits for another job, and no task is preempted for it. Shapes that need a licence
are evaluated again when the free number becomes sufficient or too small.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cress.core.placing.constraints import Wants
from cress.core.placing.context import ClauseContext
from cress.core.placing.predicates import Predicate
from cress.core.placing.relations import Relations
from cress.core.tables.arrays import Bools, Ints
from cress.core.tables.licences import Amounts, Licence


class Licensed(Predicate):
    """The predicate "enough of each licence is free", equal for all nodes."""

    of_nodes = False

    def __init__(self, relations: Relations, wanted: Amounts) -> None:
        self.text = " and ".join(f"licence {name}" for name, _ in wanted)
        self.watches = tuple(Licence(name) for name, _ in wanted)
        self._relations = relations
        self._wanted = wanted

    def excludes(self, places: Ints) -> Bools:
        return np.full(len(places), bool(self._relations.licences.short(self._wanted)))

    def never(self, places: Ints) -> Bools:
        return np.full(len(places), bool(self._relations.licences.never(self._wanted)))


def licence_predicates(context: ClauseContext, wants: Wants) -> Iterable[Predicate]:
    """Yield the predicate for the licences of a unit."""
    if wants.licences:
        yield Licensed(context.relations, wants.licences)
