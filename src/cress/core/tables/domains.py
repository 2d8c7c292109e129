"""Domains: the values of one attribute of nodes, as compared by spread, affinity and topology.

Values are compared without regard to case. Domains are numbered by their first node, so that the numbers depend on the
nodes only; a node without the attribute is in no domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from cress.core.tables.arrays import Ints
from cress.model.node import Value

# The distances of pairs of values of one attribute; each pair is in lower case and sorted.
Distances: TypeAlias = Mapping[tuple[str, str], int]


def value_text(value: Value) -> str:
    """Return the text of a value, as in a label."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Domains:
    """The domains of an attribute. ``of[f]`` is the number of node ``f``'s domain; ``len(domains)`` means none."""

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
        # The nodes sorted by domain, and the begin of each domain among them; computed when first needed.
        self._order: Ints | None = None
        self._bounds: Ints = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def sorted_nodes(self) -> tuple[Ints, Ints]:
        """Return the nodes sorted by domain, and the begin of each domain among them.

        The entry ``len(domains)`` is for nodes without a domain.
        """
        if self._order is None:
            self._order = np.argsort(self.of, kind="stable")
            self._bounds = np.searchsorted(self.of[self._order], np.arange(len(self) + 2))
        return self._order, self._bounds

    def total(self, per_node: Ints) -> Ints:
        """Return the sums per domain of amounts per node; the last one is for nodes without a domain."""
        return np.bincount(self.of[: len(per_node)], per_node, len(self) + 1).astype(np.int64)

    def distance(self, a: int, b: int) -> int:
        """Return the distance of two domains: 0 of one to itself, the configured one, else more than all configured
        ones.
        """
        if a == b:
            return 0
        one, other = sorted((self.names[a].casefold(), self.names[b].casefold()))
        return self._distances.get((one, other), self.far)

    @property
    def far(self) -> int:
        """The distance of domains without a configured distance."""
        return max(self._distances.values(), default=0) + 1

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
                enough = [d for d in close if room[d] >= needed]
                d = min(enough, key=lambda d: (room[d], d)) if enough else min(close, key=lambda d: (-room[d], d))
                chosen.append(d)
                left.remove(d)
                total += room[d]
                length += far[d]
            found = (len(chosen), length, total, sorted(chosen))
            best = found if best is None else min(best, found)
        return None if best is None else best[-1]
