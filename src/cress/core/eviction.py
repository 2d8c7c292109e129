"""An eviction: the victims of one unit, and its places."""

from __future__ import annotations

from dataclasses import dataclass

from cress.core.charging import charge_of
from cress.core.groups.lenders import Taker
from cress.core.jobs import Attempt, JobEntry
from cress.core.tables.cluster import Cluster
from cress.model.decisions import LeasePart


@dataclass(slots=True)
class Eviction:
    """The cheapest set of victims, in the order in which they were taken, and the nodes of the unit.

    ``leased`` are the parts that leases of the unit's workload contribute. ``takers`` are the groups that take the
    room.
    """

    attempts: list[Attempt]
    nodes: list[tuple[int, int]]
    leased: tuple[LeasePart, ...] = ()
    takers: tuple[Taker, ...] = ()

    def is_allowed(self, cluster: Cluster, job: JobEntry, less: tuple[int, ...] = ()) -> bool:
        """Return True if the groups for which others yield may take the unit on these nodes, ``less`` a charge that
        ends in its own group.
        """
        charge = charge_of(cluster, job, self.nodes)
        if less:
            charge = tuple(map(int.__sub__, charge, less))
        return all(taker.may_take(charge) for taker in self.takers)
