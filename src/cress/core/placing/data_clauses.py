"""``DataLocality = "…"`` as a predicate: nodes with some of the data, and their shares of it (algorithms §8)."""

from __future__ import annotations

import numpy as np

from cress.core.placing.constraints import Wants
from cress.core.placing.context import ClauseContext
from cress.core.placing.predicates import Predicate
from cress.core.tables.arrays import Bools, Floats, Ints
from cress.core.tables.data_locations import WHOLE, DataOf, is_local
from cress.language.clauses import Clause

# Up to this number, the names of each node are looked up among the hosts; above it, each host among the nodes.
FEW = 8


class DataLocality(Predicate):
    """The predicate "some of the data is on the node"; nodes with more of it come first.

    Data with unknown location is nowhere. No node is excluded permanently.
    """

    orders = True

    def __init__(self, context: ClauseContext, clause: Clause, wants: Wants) -> None:
        self.text = str(clause)
        self._context = context
        self._data = str(clause.value)
        self.watches = (DataOf(self._data),)

    def shares(self, places: Ints) -> Ints:
        """Return the share of the data on each node of ``places``, in thousandths."""
        known = self._context.relations.locations
        out = np.zeros(self._context.cluster.node_count, np.int64)
        if is_local(self._data):
            out[list(known.holders(self._data))] = WHOLE
            return out[places]
        shares = known.shares.get(self._data, {})
        if len(places) < FEW:
            return np.array(
                [max((shares.get(name, 0) for name in known.names[f]), default=0) for f in places.tolist()], np.int64
            )
        pairs = [(f, share) for name, share in shares.items() for f in known.nodes.get(name, ())]
        if pairs:
            nodes, parts = np.array(pairs, np.int64).T
            np.maximum.at(out, nodes, parts)
        return out[places]

    def excludes(self, places: Ints) -> Bools:
        return np.asarray(self.shares(places) == 0, np.bool_)

    def never(self, places: Ints) -> Bools:
        # Data may be copied to any node.
        return np.zeros(len(places), np.bool_)

    def suits(self, places: Ints) -> Floats:
        return (self.shares(places) / WHOLE).astype(np.float32)
