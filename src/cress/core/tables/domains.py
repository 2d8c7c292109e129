"""Domains: the values of one attribute of nodes, as compared by limits, adjacency, spread, affinity and topology.

Racks are the domains of the attribute ``rack``, nodes those of ``name``. Values are compared without regard to case.
Domains are numbered by their first node, so that the numbers depend on the nodes only. A node without the attribute is
in no domain; its number is ``len(domains)``, the last one in all amounts per domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from cress.core.tables.arrays import Ints
from cress.model.node import Value

# The distances of pairs of values of one attribute; each pair is in lower case and sorted.
Distances: TypeAlias = Mapping[tuple[str, str], int]

# Domains at this distance are neighbours.
NEIGHBOURS = 1
# The limit of steps in the search for three or more neighbours, if the greedy choice finds none.
SEARCH_STEPS = 20_000


class Domains:
    """The domains of an attribute. ``of[f]`` is the number of node ``f``'s domain; ``len(domains)`` means none.

    Two domains are *near* if they are equal or neighbours. Nodes without the attribute are near each other only.
    """

    def __init__(self, values: Iterable[Value | None], distances: Distances | None = None) -> None:
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self._distances = distances or {}
        self.of: Ints = np.array([self._number(value) for value in values], np.int64)
        self.of[self.of < 0] = len(self.names)

    def _number(self, value: Value | None) -> int:
        """Return the number of a value, if necessary a new one; -1 without a value."""
        if value is None or value == "":
            return -1
        # As in a label.
        text = str(value).lower() if isinstance(value, bool) else str(value)
        d = self.index.setdefault(text.casefold(), len(self.names))
        if d == len(self.names):
            self.names.append(text)
        return d

    def with_node(self, value: Value | None) -> Domains:
        """Return the domains with one more node."""
        more = Domains((), self._distances)
        more.names, more.index = self.names.copy(), self.index.copy()
        more.of = np.append(np.where(self.of == len(self), -1, self.of), more._number(value))
        more.of[more.of < 0] = len(more)
        return more

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def sorted_nodes(self) -> tuple[Ints, Ints]:
        """The nodes sorted by domain, and the begin of each domain among them.

        The entry ``len(domains)`` is for nodes without a domain.
        """
        order = np.argsort(self.of, kind="stable")
        return order, np.searchsorted(self.of[order], np.arange(len(self) + 2))

    @cached_property
    def first(self) -> Ints:
        """The first node of each domain, and the first one without a domain, by which ties are decided."""
        order, bounds = self.sorted_nodes
        return np.append(order, len(order))[bounds[:-1]]

    def total(self, per_node: Ints) -> Ints:
        """Return the sums per domain of amounts per node; the last one is for nodes without a domain."""
        return np.bincount(self.of[: len(per_node)], per_node, len(self) + 1).astype(np.int64)

    # --- distances -------------------------------------------------------------------------------------------

    def distance(self, a: int, b: int) -> int:
        """Return the distance of two domains: 0 of one to itself, the configured one, else more than all configured
        ones.
        """
        if a == b:
            return 0
        one, other = sorted((self.names[a].casefold(), self.names[b].casefold()))
        return self._distances.get((one, other), self.far)

    @cached_property
    def far(self) -> int:
        """The distance of domains without a configured distance."""
        return max(self._distances.values(), default=0) + 1

    @cached_property
    def near(self) -> list[set[int]]:
        """The domains near each domain."""
        found = [{d} for d in range(len(self) + 1)]
        for (one, other), distance in self._distances.items():
            a, b = self.index.get(one), self.index.get(other)
            if distance <= NEIGHBOURS and a is not None and b is not None:
                found[a].add(b)
                found[b].add(a)
        return found

    def near_all(self, used: Iterable[int]) -> set[int]:
        """Return the domains near all of ``used``; all domains if ``used`` is empty."""
        found = set(range(len(self) + 1))
        for d in used:
            found &= self.near[d]
        return found

    # --- choices of domains ----------------------------------------------------------------------------------

    def tightest(self, room: Sequence[int], size: int, used: Iterable[int] = ()) -> list[int] | None:
        """Return the domains for ``size`` copies that are fewest, then nearest to each other, then smallest.

        ``None`` if all are too small. ``room`` are copies per domain. Domains already ``used`` come first. Several are
        chosen greedily from each possible first one: the nearest next, ties by room; the last one is the smallest that
        suffices.
        """
        there = [d for d in range(len(self)) if room[d] > 0]
        in_use = set(used)
        holding = [d for d in there if room[d] >= size]
        if holding:
            return [min(holding, key=lambda d: (d not in in_use, room[d], d))]
        if sum(room[d] for d in there) < size:
            return None
        best: tuple[int, int, int, list[int]] | None = None
        for first in there:
            chosen, total, length = [first], room[first], 0
            left = [d for d in there if d != first]
            while total < size:
                needed = size - total
                far = {d: sum(self.distance(d, each) for each in chosen) for d in left}
                nearest = min(far.values())
                close = [d for d in left if far[d] == nearest]
                d = _next(close, room, needed)
                chosen.append(d)
                left.remove(d)
                total += room[d]
                length += far[d]
            found = (len(chosen), length, total, sorted(chosen))
            best = found if best is None else min(best, found)
        return None if best is None else best[-1]

    def adjacent(self, room: Sequence[int], size: int, used: Iterable[int] = ()) -> list[int] | None:
        """Return the domains near each other, and near all ``used`` ones, for ``size`` copies; ``None`` if none hold
        them.

        ``room`` are copies per domain, the last one on nodes without one. A single domain wins, a used one if possible,
        and then the tightest. Else the fewest domains win. This is exact for two. For more, each possible first domain
        is extended greedily by the roomiest one near all chosen; if that fails, a search of bounded length follows.
        Ties go to the most used domains, then the least room left over, then the first node.
        """
        near_to = set(used)
        candidates = [d for d in sorted(self.near_all(near_to)) if room[d] > 0]
        holding = [d for d in candidates if room[d] >= size]
        if holding:
            return [min(holding, key=lambda d: (d not in near_to, room[d], self.first[d]))]
        among = set(candidates)
        if all(sum(room[other] for other in self.near[d] & among) < size for d in candidates):
            return None
        return (
            self._two(candidates, room, size, near_to)
            or self._greedy(candidates, room, size)
            or self._search(candidates, room, size)
        )

    def adjacent_sets(
        self, rooms: Sequence[Sequence[int]], sizes: Sequence[int], used: Iterable[int] = ()
    ) -> Iterator[list[int]]:
        """Yield sets of domains near each other, and near all ``used`` ones, with enough room for each of several kinds
        of copies by itself; ``rooms`` are the copies of each kind per domain.

        For one kind the only set is that of ``adjacent``. For several, each possible first domain is extended by the
        one near all chosen that takes most of what is missing, and then by the roomiest, since the kinds may need more
        room beside each other. Small sets come first, then those with the least room.
        """
        if len(sizes) == 1:
            chosen = self.adjacent(rooms[0], sizes[0], used)
            if chosen is not None:
                yield chosen
            return
        total = [sum(room[d] for room in rooms) for d in range(len(self) + 1)]
        candidates = {d for d in self.near_all(set(used)) if total[d] > 0}
        found: set[tuple[int, ...]] = set()
        for first in sorted(candidates):
            chosen, near = [first], self.near[first] & candidates - {first}
            while True:
                left = [size - sum(room[d] for d in chosen) for room, size in zip(rooms, sizes, strict=True)]
                missing = [(room, size) for room, size in zip(rooms, left, strict=True) if size > 0]
                if not missing:
                    found.add(tuple(sorted(chosen)))
                if not near:
                    break
                d = min(near, key=lambda d: (-sum(min(room[d], size) for room, size in missing), -total[d], d))
                chosen.append(d)
                near &= self.near[d] - {d}
        yield from map(list, sorted(found, key=lambda each: (len(each), sum(total[d] for d in each), each)))

    def _two(self, candidates: list[int], room: Sequence[int], size: int, used: set[int]) -> list[int] | None:
        among = set(candidates)
        fitting = (
            ((a not in used) + (b not in used), room[a] + room[b], a, b)
            for a in candidates
            for b in self.near[a] & among
            if a < b and room[a] + room[b] >= size
        )
        best = min(fitting, default=None)
        return None if best is None else list(best[2:])

    def _greedy(self, candidates: list[int], room: Sequence[int], size: int) -> list[int] | None:
        best: tuple[int, int, list[int]] | None = None
        for first in candidates:
            chosen, total = [first], room[first]
            left = self.near[first].intersection(candidates) - {first}
            while left and total < size:
                d = _next(left, room, size - total)
                chosen.append(d)
                total += room[d]
                left &= self.near[d] - {d}
            if total >= size:
                found = (len(chosen), total, sorted(chosen))
                best = found if best is None else min(best, found)
        return None if best is None else best[2]

    def _search(self, candidates: list[int], room: Sequence[int], size: int) -> list[int] | None:
        """Search domains near each other that hold the copies: depth first, roomiest first, pruned where the rest is
        too small.
        """
        order = sorted(candidates, key=lambda d: (-room[d], d))
        steps = SEARCH_STEPS
        stack: list[tuple[list[int], int, list[int]]] = [([], 0, order)]
        while stack and steps:
            steps -= 1
            chosen, total, left = stack.pop()
            if total >= size:
                return sorted(chosen)
            if not left or total + sum(room[d] for d in left) < size:
                continue
            d, *rest = left
            stack.append((chosen, total, rest))
            stack.append(([*chosen, d], total + room[d], [other for other in rest if other in self.near[d]]))
        return None


def _next(left: Iterable[int], room: Sequence[int], needed: int) -> int:
    """Return the smallest of these domains with ``needed`` copies, so that it is the last; else the roomiest."""
    enough = [d for d in left if room[d] >= needed]
    return min(enough, key=lambda d: (room[d], d)) if enough else min(left, key=lambda d: (-room[d], d))
