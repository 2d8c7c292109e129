"""``DataLocality = "…"`` as a predicate: the nodes that have some of the data, and how much of it (algorithms §8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cress.core.placing.matching import CLAUSES, Bools, Matching, Predicate
from cress.core.tables.data_locations import WHOLE, DataOf, is_local
from cress.language.clauses import Kind
from cress.model.events import DataLocated

if TYPE_CHECKING:
    from cress.core.ledger import Ledger
    from cress.core.tables.cluster import Floats, Ints


# Of so few nodes each is looked up by its names; of more, each host among the nodes.
FEW = 8


class Lies(Predicate):
    """Some of the data lies there. What is not known, or not to be found, lies nowhere; no node is ruled out for ever."""

    def __init__(self, matching: Matching, data: str, text: str) -> None:
        self.text = text
        self._matching = matching
        self._data = data
        self.watches = (DataOf(data),)

    def shares(self, places: Ints) -> Ints:
        """Per node of ``places``, how much of the data it has, in thousandths."""
        known = self._matching.relations.locations
        out = np.zeros(self._matching.cluster.node_count, np.int64)
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
        # It may come to any node.
        return np.zeros(len(places), np.bool_)

    def suits(self, places: Ints) -> Floats:
        return (self.shares(places) / WHOLE).astype(np.float32)


def see(core: Ledger, event: DataLocated) -> None:
    """Data lies elsewhere than was thought, or is to be forgotten."""
    core.relations.locations.told(event.data, event.places, event.problem)
    for shape in core.relations.watchers(DataOf(event.data)):
        core.cluster.matching.redo(shape)


CLAUSES[Kind.DATA] = lambda matching, clause, wants: Lies(matching, str(clause.value), str(clause))  # noqa: ARG005
