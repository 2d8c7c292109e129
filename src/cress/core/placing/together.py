"""Places for all tasks of a unit together, or none, whether they are alike or of several kinds (design notes 0035 and
0046).

The question "where does it fit" is asked of a *unit room*: the copies of each kind that nodes take beside the places
already taken, now, at a later time or on empty nodes. Packing different requests is hard in general: some orders of
kinds and nodes are tried, and a solution that all of them miss is not found.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice, permutations
from typing import NamedTuple, TypeAlias

import numpy as np

from cress.core.placing.gang_rules import MOST_CHOICES, NO_RULES, GangRules, alike, choices, fill
from cress.core.placing.gangs import GangRoom, ruled_rooms
from cress.core.tables.arrays import Ints, copies_in

# The number of orders of kinds that are tried in each choice of domains, each with two orders of nodes.
MOST_ORDERS = 24
MOST_DOMAINS = 16

# Nodes and their numbers of copies, in the order in which they are filled.
Places: TypeAlias = "list[tuple[int, int]]"


class Asked(NamedTuple):
    """One kind: its request (int64, K amounts), its number of tasks, and the limit of all tasks of the unit per node
    (empty: none).
    """

    request: Ints
    size: int
    caps: Ints

    def copies_in(self, levels: Ints) -> Ints:
        """Return the copies that these amounts (..., K) hold, at most its size."""
        return copies_in(levels, self.request, self.size)


class UnitRoom(ABC):
    """Room on nodes for one unit: its ``kinds`` in order, and ``rules`` for all its tasks together."""

    def __init__(self, kinds: Sequence[Asked], rules: GangRules = NO_RULES) -> None:
        self.kinds = kinds
        self.rules = rules

    @abstractmethod
    def copies(self, i: int) -> Ints:
        """Return the copies of kind ``i`` per node beside the places taken, at most its size."""

    @abstractmethod
    def copies_on(self, i: int, f: int) -> int:
        """Return the copies of kind ``i`` on node ``f`` beside the places taken, at most its size."""

    @abstractmethod
    def take(self, i: int, places: Places) -> None:
        """Take the places for kind ``i``."""

    @abstractmethod
    def clear(self) -> None:
        """Give back all places."""

    def order(self, i: int) -> Ints | None:
        """Return the nodes in the order in which kind ``i`` prefers them; ``None``: as they registered."""
        return None

    def holds(self, ways: Sequence[Places]) -> bool:
        """Return True if the places found, by kind, hold all tasks; there may be conditions besides amounts."""
        return True

    @property
    def sizes(self) -> list[int]:
        """The numbers of tasks by kind."""
        return [kind.size for kind in self.kinds]


class Levels(UnitRoom):
    """Nodes with these amounts (int64, K per node); ``alone``: the copies of each kind that nodes take of it alone."""

    def __init__(
        self, kinds: Sequence[Asked], alone: Sequence[Ints], levels: Ints, rules: GangRules = NO_RULES
    ) -> None:
        super().__init__(kinds, rules)
        self._alone = alone
        self._all = levels
        # What is left of the amounts; ``None`` while no place is taken.
        self._left: Ints | None = None

    def copies(self, i: int) -> Ints:
        """Return the copies of kind ``i`` per node beside the places taken, at most its size."""
        alone = self._alone[i]
        return alone if self._left is None else np.minimum(alone, self.kinds[i].copies_in(self._left))

    def copies_on(self, i: int, f: int) -> int:
        """Return the copies of kind ``i`` on node ``f`` beside the places taken, at most its size."""
        alone = int(self._alone[i][f])
        return alone if self._left is None else min(alone, int(self.kinds[i].copies_in(self._left[f])))

    def take(self, i: int, places: Places) -> None:
        """Take the places for kind ``i``."""
        if self._left is None:
            self._left = self._all.copy()
        for f, count in places:
            self._left[f] -= self.kinds[i].request * count

    def clear(self) -> None:
        """Give back all places."""
        self._left = None

    def at_most(self, levels: Ints) -> Levels:
        """Return the same room with at most these amounts on each node."""
        alone = [np.minimum(own, kind.copies_in(levels)) for own, kind in zip(self._alone, self.kinds, strict=True)]
        return Levels(self.kinds, alone, np.minimum(self._all, levels), self.rules)


# --- questions ---------------------------------------------------------------------------------------------------


def holds(room: UnitRoom) -> bool:
    """Return True if a unit fits into a room, its preferences left out."""
    if len(room.kinds) == 1 and not room.rules.hard:
        return int(room.copies(0).sum()) >= room.kinds[0].size
    room.rules = GangRules(room.rules.hard)
    return places_in(room) is not None


def has_places(room: UnitRoom, ways: Sequence[Places]) -> bool:
    """Return True if these places, by kind, have room; no place stays taken."""
    try:
        for i, places in enumerate(ways):
            if any(room.copies_on(i, f) < count for f, count in places):
                return False
            if i + 1 < len(ways):
                room.take(i, places)
    finally:
        room.clear()
    return True


def places_in(room: UnitRoom) -> list[Places] | None:
    """Return places by kind for a unit; ``None`` if no solution was found. No place stays taken."""
    return next(ways_in(room), None)


def ways_in(room: UnitRoom) -> Iterator[list[Places]]:
    """Yield places by kind for a unit, in at most ``MOST_DOMAINS`` choices of domains, best first. No place stays
    taken.
    """
    if len(room.kinds) == 1:
        size, nodes = room.kinds[0].size, room.order(0)
        rooms = islice(ruled_rooms(room.rules, size, room.copies(0)), MOST_DOMAINS)
        yield from ([places] for one in rooms if (places := one.first(size, nodes)) is not None)
        return
    alone = [room.copies(i) for i in range(len(room.kinds))]
    for among in islice(choices(room.rules, room.sizes, alone), MOST_DOMAINS):
        for ways in _tries(room, among):
            room.clear()
            if ways is not None and room.holds(ways):
                yield ways


def rooms_in(room: UnitRoom) -> Iterator[list[GangRoom]]:
    """Yield, for each choice of domains that holds a unit, best first, the nodes that stay open to each kind for any
    order of tasks.

    At most ``MOST_CHOICES`` are yielded. With several kinds and rules that count, the tasks of each kind in each set of
    nodes with the same domains are those of one solution.
    """
    alone = [room.copies(i) for i in range(len(room.kinds))]
    if len(alone) == 1:
        for one in islice(ruled_rooms(room.rules, room.kinds[0].size, alone[0]), MOST_CHOICES):
            yield [one]
        return
    size = sum(room.sizes)
    for among in islice(choices(room.rules, room.sizes, alone), MOST_CHOICES):
        if not room.rules.counting:
            none = np.zeros(len(among[0]), np.int64)
            yield [GangRoom(none, copies, copies.sum(keepdims=True)) for copies in among]
            continue
        ways = next((ways for ways in _tries(room, among) if ways is not None), None)
        room.clear()
        if ways is None:
            continue
        hard, soft = room.rules.counters(size)
        of, first = alike(np.sum(among, axis=0), [*hard, *soft])
        rooms = []
        for copies, places in zip(among, ways, strict=True):
            left = np.zeros(len(first) + 1, np.int64)
            for f, count in places:
                left[of[f]] += count
            rooms.append(GangRoom(of, copies, left))
        yield rooms


def joined(ways: Sequence[Places]) -> Places:
    """Return places by kind as one list, kind after kind."""
    return [place for places in ways for place in places]


# --- several kinds -------------------------------------------------------------------------------------------------


def _tries(room: UnitRoom, among: list[Ints]) -> Iterator[list[Places] | None]:
    """Yield ways to give nodes among these copies to the kinds, or ``None`` for a try that failed.

    The caller gives the places back.
    """
    others = _use_to_others(among)
    if room.rules.counting:
        if _may_fit(room, among):
            for scarce_first in (False, True):
                for spare in (False, True):
                    room.clear()
                    yield _Assignment(room, among, others if spare else None).run(scarce_first=scarce_first)
        return
    for order in _orders(room.kinds, among):
        for spare in (False, True):
            yield _one_way(room, order, among, others if spare else None)


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
    room: UnitRoom, order: tuple[int, ...], alone: Sequence[Ints], others: list[Ints] | None
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
        found[i] = filled(_nodes(room, i, len(copies), others), copies, kind.size)
        for f, count in found[i]:
            placed[f] += count
        if number < len(order) - 1:
            room.take(i, found[i])
    return found


def _nodes(room: UnitRoom, i: int, count: int, others: list[Ints] | None) -> Ints:
    preferred = room.order(i)
    nodes = np.arange(count) if preferred is None else preferred
    return nodes if others is None else nodes[np.argsort(others[i][nodes], kind="stable")]


def filled(nodes: Ints, copies: Ints, size: int) -> Places:
    """Return the places of ``size`` tasks on nodes with so many ``copies``, filled in the order of ``nodes``; fewer if
    these have no room for all.
    """
    places: Places = []
    for f in nodes[copies[nodes] > 0].tolist():
        count = min(int(copies[f]), size)
        places.append((f, count))
        size -= count
        if not size:
            break
    return places


def _may_fit(room: UnitRoom, among: list[Ints]) -> bool:
    """Return False if the tasks of all kinds together could not keep a rule, even if all were alike."""
    size, total = sum(room.sizes), np.sum(among, axis=0)
    return all(fill(total, size, [counter], []) is not None for counter in room.rules.counters(size)[0])


class _Assignment:
    """Tasks of several kinds that get nodes one by one, while counters keep the rules of the whole unit.

    Nodes in the same domains have one number, as in ``fill``.
    """

    def __init__(self, room: UnitRoom, among: list[Ints], others: list[Ints] | None) -> None:
        self.room = room
        self._copies = [copies.copy() for copies in among]
        self._limits = [kind.caps for kind in room.kinds]
        for copies, limit in zip(self._copies, self._limits, strict=True):
            if len(limit):
                np.minimum(copies, limit[: len(copies)], out=copies)
        self._hard, self._soft = room.rules.counters(sum(room.sizes))
        counters = [*self._hard, *self._soft]
        self._of, first = alike(np.sum(among, axis=0), counters)
        self._where = [counter.of[first] for counter in counters]
        # Copies by kind in the nodes of each number.
        count = len(first)
        self._by_number = np.array(
            [np.bincount(self._of, copies, count + 1)[:count] for copies in self._copies]
        ).astype(np.int64)
        self._nodes = [_nodes(room, i, len(among[0]), others) for i in range(len(among))]
        self._placed = np.zeros(len(among[0]), np.int64)
        self._left = np.array(room.sizes, np.int64)

    def run(self, *, scarce_first: bool) -> list[Places] | None:
        """Return the places by kind; ``None`` if some task finds none.

        The least full domains come first and take the kind with the least room to spare; ``scarce_first``: that kind
        comes first, and takes the least full domain.
        """
        found: list[dict[int, int]] = [{} for _ in self._left]
        while self._left.any():
            chosen = self._next(scarce_first=scarce_first)
            if chosen is None:
                return None
            i, number = chosen
            nodes = self._nodes[i]
            f = int(nodes[np.argmax((self._of[nodes] == number) & (self._copies[i][nodes] > 0))])
            found[i][f] = found[i].get(f, 0) + 1
            self._take(i, f, number)
        return [list(places.items()) for places in found]

    def _next(self, *, scarce_first: bool) -> tuple[int, int] | None:
        """Return the kind of the next task, and the number of its nodes."""
        may = np.ones(self._by_number.shape[1], np.bool_)
        level = np.zeros(len(may))
        for counter, domain in zip((*self._hard, *self._soft), self._where, strict=True):
            level += counter.level()[domain]
        for counter, domain in zip(self._hard, self._where, strict=False):
            may &= counter.open()[domain]
        room = self._by_number * may
        fits = (room > 0) & (self._left > 0)[:, None]
        kinds, numbers = np.nonzero(fits)
        if not len(kinds):
            return None
        slack = room.sum(axis=1) - self._left
        keys = (slack[kinds], level[numbers]) if scarce_first else (level[numbers], slack[kinds])
        best = np.lexsort((numbers, kinds, -room[kinds, numbers], keys[1], keys[0]))[0]
        return int(kinds[best]), int(numbers[best])

    def _take(self, i: int, f: int, number: int) -> None:
        self.room.take(i, [(f, 1)])
        self._left[i] -= 1
        self._placed[f] += 1
        for counter, domain in zip((*self._hard, *self._soft), self._where, strict=True):
            counter.take(int(domain[number]))
        for j, copies in enumerate(self._copies):
            left = min(int(copies[f]), self.room.copies_on(j, f))
            if len(self._limits[j]):
                left = min(left, max(0, int(self._limits[j][f] - self._placed[f])))
            if j == i:
                left = min(left, int(copies[f]) - 1)
            self._by_number[j, number] += left - copies[f]
            copies[f] = left
