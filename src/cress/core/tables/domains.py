"""Domains: the values of one attribute of the nodes, which spread, affinity and topology compare.

Values are compared without regard to capitals. Domains are numbered by their first node, so that the numbers follow
from the nodes alone; a node without the attribute is in none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from cress.core.tables.arrays import Ints
from cress.model.node import Value

# Of one attribute: the distances of pairs of values, each without capitals and in order.
Distances: TypeAlias = Mapping[tuple[str, str], int]


def value_text(value: Value) -> str:
    """Return the text of a value, as a label has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Domains:
    """The domains of an attribute. ``of[f]`` is the number of that of node ``f``; ``len(domains)`` stands for none."""

    def __init__(self, values: Iterable[Value | None], distances: Distances | None = None) -> None:
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self._distances = distances or {}
        numbers: list[int] = []
        for value in values:
            if value is None or value == "":
                numbers.append(-1)
                continue
            text = value_text(value)
            d = self.index.setdefault(text.casefold(), len(self.names))
            if d == len(self.names):
                self.names.append(text)
            numbers.append(d)
        self.of: Ints = np.array(numbers, np.int64)
        self.of[self.of < 0] = len(self.names)
        # The nodes by their domains, and where each domain begins among them; made when they are first needed.
        self._order: Ints | None = None
        self._bounds: Ints = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def sorted_nodes(self) -> tuple[Ints, Ints]:
        """The nodes sorted by their domains, and where each domain begins among them; ``len(domains)`` stands for those
        without one.
        """
        if self._order is None:
            self._order = np.argsort(self.of, kind="stable")
            self._bounds = np.searchsorted(self.of[self._order], np.arange(len(self) + 2))
        return self._order, self._bounds

    def total(self, per_node: Ints) -> Ints:
        """Return the sums per domain of amounts per node; the last one is that of nodes without a domain."""
        return np.bincount(self.of[: len(per_node)], per_node, len(self) + 1).astype(np.int64)

    def distance(self, a: int, b: int) -> int:
        """Return the distance of two domains: 0 of one to itself, what is told, else more than all that is told."""
        if a == b:
            return 0
        one, other = sorted((self.names[a].casefold(), self.names[b].casefold()))
        return self._distances.get((one, other), self.far)

    @property
    def far(self) -> int:
        """The distance of domains of which nothing is told."""
        return max(self._distances.values(), default=0) + 1

    def tightest(self, room: Sequence[int], size: int, used: Iterable[int] = ()) -> list[int] | None:
        """Return the domains for ``size`` copies that are fewest, then nearest to each other, then smallest; ``None``
        if all are too small.

        ``room`` are copies per domain. Those ``used`` already come first. Several are chosen from each first one: the
        nearest next, of equals the roomiest; the last one is the smallest that suffices.
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
                enough = [d for d in close if room[d] >= needed]
                d = min(enough, key=lambda d: (room[d], d)) if enough else min(close, key=lambda d: (-room[d], d))
                chosen.append(d)
                left.remove(d)
                total += room[d]
                length += far[d]
            found = (len(chosen), length, total, sorted(chosen))
            best = found if best is None else min(best, found)
        return None if best is None else best[-1]
