"""Places for a gang of several kinds of tasks: all of them at once, or none (design note 0035).

The kinds get nodes one after the other in a *room*, which knows the copies of a kind that each node takes beside the
earlier kinds. Packing different requests is hard in general: some orders of kinds and nodes are tried, and a solution
that all of them miss is not found. A gang that must be within one domain of an attribute is tried in each domain with
enough room for every kind by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice, permutations
from typing import NamedTuple, TypeAlias

import numpy as np

from cress.core.placing.gang_rules import NO_RULES, GangRules, Within
from cress.core.tables.arrays import Ints

# The number of orders of kinds that are tried in each choice of domains, each with two orders of nodes.
MOST_ORDERS = 24
MOST_DOMAINS = 16

# Nodes and their numbers of copies, in the order in which they are filled.
Places: TypeAlias = "list[tuple[int, int]]"


class Asked(NamedTuple):
    """One kind: its request (int64, K amounts), its number of tasks, and the limit of all tasks of the gang per node
    (empty: none).
    """

    request: Ints
    size: int
    caps: Ints


class KindsRoom(ABC):
    """Room on nodes for the kinds of one gang: ``kinds`` in order, and ``rules`` for all of them together."""

    def __init__(self, kinds: Sequence[Asked], rules: GangRules = NO_RULES) -> None:
        self.kinds = kinds
        self.rules = rules

    @abstractmethod
    def copies(self, i: int) -> Ints:
        """Return the copies of kind ``i`` per node beside the places taken, at most its size."""

    @abstractmethod
    def take(self, i: int, places: Places) -> None:
        """Take the places for kind ``i``."""

    @abstractmethod
    def clear(self) -> None:
        """Give back all places."""

    def order(self, i: int) -> Ints:
        """Return the nodes in the order in which kind ``i`` prefers them."""
        return np.arange(len(self.copies(i)))

    def holds(self, ways: Sequence[Places]) -> bool:
        """Return True if the places found, by kind, hold all tasks; there may be conditions besides amounts."""
        return True


class Levels(KindsRoom):
    """Nodes with these amounts (int64, K per node); ``alone``: the copies of each kind that nodes take of it alone."""

    def __init__(
        self, kinds: Sequence[Asked], alone: Sequence[Ints], levels: Ints, rules: GangRules = NO_RULES
    ) -> None:
        super().__init__(kinds, rules)
        self._alone = alone
        self._all = levels
        self._levels = levels.copy()
        self._some = False

    def copies(self, i: int) -> Ints:
        """Return the copies of kind ``i`` per node beside the places taken, at most its size."""
        return np.minimum(self._alone[i], copies_of(self._levels, self.kinds[i])) if self._some else self._alone[i]

    def take(self, i: int, places: Places) -> None:
        """Take the places for kind ``i``."""
        self._some = True
        for f, count in places:
            self._levels[f] -= self.kinds[i].request * count

    def hold(self, ways: Sequence[Places]) -> bool:
        """Return True if these places, by kind, have room."""
        found = True
        for i, places in enumerate(ways):
            copies = self.copies(i)
            found = found and all(copies[f] >= count for f, count in places)
            self.take(i, places)
        self.clear()
        return found

    def clear(self) -> None:
        """Give back all places."""
        if self._some:
            self._levels[:] = self._all
            self._some = False


def copies_of(levels: Ints, kind: Asked) -> Ints:
    """Return the copies of a kind that these amounts hold, per node, at most its size."""
    asked = kind.request > 0
    if not asked.any():
        return np.full(len(levels), kind.size, np.int64)
    found: Ints = (levels[:, asked] // kind.request[asked]).min(axis=1)
    return np.clip(found, 0, kind.size)


def places_in(room: KindsRoom) -> list[Places] | None:
    """Return places by kind for all kinds; ``None`` if no solution was found. No place stays taken."""
    alone = [room.copies(i) for i in range(len(room.kinds))]
    for among in islice(domains_of(room.rules, [kind.size for kind in room.kinds], alone), MOST_DOMAINS):
        others = _use_to_others(among)
        for order in _orders(room.kinds, among):
            for spare in (False, True):
                found = _one_way(room, order, among, others if spare else None)
                room.clear()
                if found is not None and room.holds(found):
                    return found
    return None


def domains_of(rules: GangRules, sizes: Sequence[int], alone: list[Ints]) -> Iterator[list[Ints]]:
    """Yield the copies by kind in each choice of domains for the gang, preferred ones first; without rules all copies.

    Each choice has enough room for every kind by itself.
    """
    ways = [alone] if _enough(sizes, alone) else []
    for rule in (each for each in rules.hard if isinstance(each, Within)):
        ways = [way for before in ways for way in rule.single(sizes, before)]
    preferred = [each for each in rules.soft if isinstance(each, Within)]
    for rule in preferred:
        for way in ways:
            yield from rule.single(sizes, way)
    yield from ways


def _enough(sizes: Sequence[int], alone: Sequence[Ints]) -> bool:
    return all(int(copies.sum()) >= size for copies, size in zip(alone, sizes, strict=True))


def _orders(kinds: Sequence[Asked], alone: Sequence[Ints]) -> Iterator[tuple[int, ...]]:
    """Yield orders of the kinds, first the one that begins with the kind with the least room to spare."""
    spare = [int(copies.sum()) / kind.size for copies, kind in zip(alone, kinds, strict=True)]
    first = sorted(range(len(kinds)), key=lambda i: (spare[i], i))
    return islice(permutations(first), MOST_ORDERS)


def _use_to_others(alone: Sequence[Ints]) -> list[Ints]:
    """Return, by kind, the number of other kinds that each node could hold."""
    useful = [(copies > 0).astype(np.int64) for copies in alone]
    total = np.sum(useful, axis=0)
    return [total - each for each in useful]


def _one_way(
    room: KindsRoom, order: tuple[int, ...], alone: Sequence[Ints], others: list[Ints] | None
) -> list[Places] | None:
    """Assign nodes to the kinds in this order; ``others``: first the nodes that suit the fewest other kinds."""
    found: list[Places] = [[] for _ in order]
    placed = np.zeros(len(alone[0]), np.int64)
    for number, i in enumerate(order):
        kind = room.kinds[i]
        copies = np.minimum(room.copies(i), alone[i]) if number else alone[i]
        if len(kind.caps):
            copies = np.minimum(copies, np.maximum(kind.caps[: len(copies)] - placed, 0))
        if int(copies.sum()) < kind.size:
            return None
        nodes = room.order(i)
        if others is not None:
            nodes = nodes[np.argsort(others[i][nodes], kind="stable")]
        found[i] = _fill(nodes, copies, kind.size)
        for f, count in found[i]:
            placed[f] += count
        if number < len(order) - 1:
            room.take(i, found[i])
    return found


def _fill(nodes: Ints, copies: Ints, size: int) -> Places:
    places: Places = []
    for f in nodes[copies[nodes] > 0].tolist():
        count = min(int(copies[f]), size)
        places.append((f, count))
        size -= count
        if not size:
            break
    return places


def joined(ways: Sequence[Places]) -> Places:
    """Return places by kind as one list, kind after kind."""
    return [place for places in ways for place in places]
