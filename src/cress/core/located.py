"""``DataLocality = "…"`` as a predicate: the nodes that have some of the data, and how much of it (algorithms §8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cress.core.locations import WHOLE, DataOf, Places, is_local
from cress.core.matching import CLAUSES, Bools, Matching, Predicate
from cress.language.addresses import parse_address
from cress.language.clauses import Kind
from cress.model.events import DataLocated

if TYPE_CHECKING:
    from cress.core.cluster import Floats, Ints
    from cress.core.ledger import Ledger


class Lies(Predicate):
    """Some of the data lies there. What is not known, or not to be found, lies nowhere; no node is ruled out for ever."""

    def __init__(self, matching: Matching, data: str, text: str) -> None:
        self.text = text
        self._matching = matching
        self._data = data
        self.watches = (DataOf(data),)
        # The shares by host, made from these places.
        self._shares: tuple[Places, dict[object, int]] = (), {}

    def shares(self, places: Ints) -> Ints:
        """Per node of ``places``, how much of the data it has, in thousandths."""
        known = self._matching.relations.locations
        if is_local(self._data):
            has = known.holders(self._data)
            return np.array([WHOLE if f in has else 0 for f in places.tolist()], np.int64)
        told = known.places.get(self._data, ())
        if not told:
            return np.zeros(len(places), np.int64)
        if self._shares[0] is not told:
            self._shares = told, {_host(host): share for host, share in reversed(told)}
        shares = self._shares[1]
        nodes = self._matching.columns.attributes
        return np.array([_share(shares, nodes[f]) for f in places.tolist()], np.int64)

    def excludes(self, places: Ints) -> Bools:
        return np.asarray(self.shares(places) == 0, np.bool_)

    def never(self, places: Ints) -> Bools:
        # It may come to any node.
        return np.zeros(len(places), np.bool_)

    def suits(self, places: Ints) -> Floats:
        return (self.shares(places) / WHOLE).astype(np.float32)


def _share(shares: dict[object, int], has: dict[str, object]) -> int:
    """What a node has under any of its names: two of them may be told of one host."""
    names = (has.get(key) for key in ("name", "hostname", "address"))
    return max(shares.get(_host(name), 0) if isinstance(name, str) else 0 for name in names)


def _host(name: str) -> object:
    """A host as it is compared: an address as a number, since it is written in several ways."""
    return (parse_address(name) if "0" <= name[:1] <= "9" or ":" in name else None) or name.casefold()


def see(core: Ledger, event: DataLocated) -> None:
    """Data lies elsewhere than was thought, or is to be forgotten."""
    core.relations.locations.told(event.data, event.places, event.problem)
    for shape in core.relations.watchers(DataOf(event.data)):
        core.cluster.matching.redo(shape)


CLAUSES[Kind.DATA] = lambda matching, clause, wants: Lies(matching, str(clause.value), str(clause))  # noqa: ARG005
