"""``NetworkAdjacent = True`` as a predicate: racks near all racks in which the job or its application runs."""

from __future__ import annotations

import numpy as np

from cress.core.placing.constraints import Wants
from cress.core.placing.context import ClauseContext
from cress.core.placing.gang_rules import Rule, Within
from cress.core.placing.over_domains import OverDomain, owners_of, take_over
from cress.core.placing.relations import RACK, belongs_with
from cress.core.tables.arrays import Bools, Floats, Ints
from cress.language.clauses import Clause

# The value of a soft NetworkAdjacent in a neighbouring rack; in the same rack it is 1.
NEIGHBOUR = 0.5


class Adjacent(OverDomain):
    """The predicate "the rack is near all racks with tasks of the job or its application". Those racks come first.

    Nodes without a rack are near each other.
    """

    orders = True

    def __init__(self, context: ClauseContext, clause: Clause, wants: Wants) -> None:
        super().__init__(context, RACK, "Rack", str(clause))
        jobs = (self.relations.job_of(each.job) for each in owners_of(clause, wants))
        self.watches = tuple(dict.fromkeys(belongs_with(job) for job in jobs if job is not None))

    def used(self) -> list[int]:
        # Nodes without a rack are like one rack.
        used: list[int] = np.flatnonzero(self.running()).tolist()
        return used

    def close(self, closed: Bools, changed: Ints) -> int:
        far = np.ones(len(closed), np.bool_)
        far[list(self.domains.near_all(self.used()))] = False
        return take_over(far, closed, changed)

    def never(self, places: Ints) -> Bools:
        return np.zeros(len(places), np.bool_)

    def values(self) -> Floats:
        """Return 1 for a rack in use, 0.5 for a neighbouring one, else 0."""
        used = self.used()
        value = np.zeros(len(self.domains) + 1, np.float32)
        for d in used:
            value[list(self.domains.near[d])] = NEIGHBOUR
        value[used] = 1
        return value

    def detail(self) -> str:
        """Return a sentence about the racks in use."""
        used = [d for d in self.used() if d < len(self.domains)]
        return f"its tasks run in rack {self.shown_domains(used)}" if used else ""

    def rules(self, *, empty: bool) -> tuple[Rule, ...]:
        return (Within(self.domains, () if empty else tuple(self.used()), adjacent=True),)
