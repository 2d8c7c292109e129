"""Room for gangs with rules for domains: the nodes that stay open for any order of copies.

Nodes are in the domains of one attribute, these in the cluster, and each has a limit of copies. With such nested limits
tasks can be placed one by one, each on any open node, and all find a place: a copy takes one from its node, its domain
and the cluster, so exactly one less is left. With other rules, or rules for several attributes, the number of tasks for
each set of nodes with the same domains is fixed before, which is a nested limit as well.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cress.core.placing.gang_rules import GangRules, Limit, choices, fill, room_in
from cress.core.placing.shape import Shape
from cress.core.tables.arrays import Bools, Ints


class GangRoom:
    """The copies that nodes can still take: ``copies`` (int64, per node), and ``left`` (int64) for all nodes ``of`` one
    number.

    A number stands for a domain, or for a set of nodes in the same domains of all compared attributes.
    """

    def __init__(self, of: Ints, copies: Ints, left: Ints) -> None:
        self.of = of[: len(copies)]
        self.copies = copies.copy()
        self.left = left

    @property
    def total(self) -> int:
        """Return the number of copies that find a place."""
        return int(self.left.sum())

    def closed(self) -> Bools:
        """Return, per node, True if it can take no further copy."""
        found: Bools = (self.copies <= 0) | (self.left[self.of] <= 0)
        return found

    def open_copies(self) -> Ints:
        """Return the copies that each node can still take by itself."""
        return np.where(self.closed(), 0, self.copies)

    def take(self, f: int) -> None:
        """Place a copy on the open node ``f``."""
        self.copies[f] -= 1
        self.left[self.of[f]] -= 1

    def first(self, size: int, nodes: Ints | None = None) -> list[tuple[int, int]] | None:
        """Return nodes for ``size`` copies, filled in the order of ``nodes``, by default that of their registration;
        ``None`` if the room is too small.
        """
        if self.total < size:
            return None
        places: list[tuple[int, int]] = []
        left = self.left.copy()
        open_to = np.flatnonzero(self.copies) if nodes is None else nodes[self.copies[nodes] > 0]
        for f in open_to.tolist():
            r = int(self.of[f])
            count = min(int(self.copies[f]), int(left[r]), size)
            if count > 0:
                places.append((f, count))
                left[r] -= count
                size -= count
        return places


def by_domains(shape: Shape) -> bool:
    """Return True if it is a gang with hard rules for domains."""
    return shape.size > 1 and any(kind.match is not None and kind.match.has_rules for kind in shape.every_kind)


def in_any_order(shape: Shape) -> bool:
    """Return True if the tasks are alike and no rule binds them together: then each may take any open node."""
    return not shape.kinds and not by_domains(shape)


def ruled_rooms(rules: GangRules, size: int, copies: Ints) -> Iterator[GangRoom]:
    """Yield the rooms of a gang with rules, best first: one for each choice of domains that holds it."""
    for (among,) in choices(rules, [size], [copies]):
        room = _room(rules, size, among)
        if room is not None:
            yield room


def _room(rules: GangRules, size: int, copies: Ints) -> GangRoom | None:
    """Return the room within these copies by the rules that count; ``None`` if it is too small."""
    hard, soft = rules.counters(size)
    limits = [rule for rule in rules.hard if isinstance(rule, Limit)]
    if soft or len(limits) < len(hard) or any(rule.domains is not limits[0].domains for rule in limits):
        filled = fill(copies, size, hard, soft)
        return None if filled is None else GangRoom(filled[0], copies, np.array(filled[1], np.int64))
    if limits:
        domains = limits[0].domains
        room = GangRoom(domains.of, copies, room_in(domains, copies, limits))
    else:
        room = GangRoom(np.zeros(len(copies), np.int64), copies, copies.sum(keepdims=True))
    return room if room.total >= size else None
