"""Room for gangs with limits per node, per rack or per other domain: the nodes that stay open for any order of copies.

Nodes are in racks, racks in the cluster, and each has a limit of copies. With such nested limits tasks can be placed
one by one, each on any open node, and all find a place: a copy takes one from its node, its rack and the cluster, so
exactly one less is left. If domains of several attributes are compared, the number of tasks for each set of nodes with
the same domains is fixed before, which is a nested limit as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, islice

import numpy as np
import numpy.typing as npt

from cress.core.placing.constraints import Wants
from cress.core.placing.gang_rules import NO_RULES, AtMost, GangRules, Within, copied, fill, in_one
from cress.core.placing.placement_clauses import is_adjacent, near_whom, would_be_adjacent
from cress.core.placing.relations import Relations
from cress.core.placing.shape import Shape
from cress.core.tables.arrays import Ints
from cress.core.tables.racks import Racks

# The number of choices of racks tried for a gang that needs preemption.
MOST_CHOICES = 8


class GangRoom:
    """The copies that nodes can still take: ``copies`` (int64, per node), and ``left`` for all nodes ``of`` one
    number.

    A number stands for a rack, or for a set of nodes in the same domains of all compared attributes.
    """

    def __init__(self, of: Ints, copies: Ints, left: list[int]) -> None:
        self.of = of[: len(copies)]
        self.copies = copies.copy()
        self.left = left

    @property
    def total(self) -> int:
        """Return the number of copies that find a place."""
        return sum(self.left)

    def keep(self, numbers: Iterable[int]) -> None:
        """Close all other numbers."""
        kept = set(numbers)
        self.left = [each if r in kept else 0 for r, each in enumerate(self.left)]

    def is_open(self, f: int) -> bool:
        """Return True if node ``f`` can take one more copy."""
        return bool(self.copies[f] > 0) and self.left[self.of[f]] > 0

    def closed(self) -> npt.NDArray[np.bool_]:
        """Return, per node, True if it can take no further copy."""
        return (self.copies <= 0) | (np.array([*self.left, 0], np.int64)[self.of] <= 0)

    def open_copies(self) -> Ints:
        """Return the copies that each node can still take by itself."""
        return np.where(self.closed(), 0, self.copies)

    def take(self, f: int) -> None:
        """Place a copy on the open node ``f``."""
        self.copies[f] -= 1
        self.left[self.of[f]] -= 1

    def first(self, size: int) -> list[tuple[int, int]] | None:
        """Return nodes for ``size`` copies, filled in order; ``None`` if the room is too small."""
        if self.total < size:
            return None
        places: list[tuple[int, int]] = []
        left = self.left.copy()
        for f in np.flatnonzero(self.copies).tolist():
            r = int(self.of[f])
            count = min(int(self.copies[f]), left[r], size)
            if count > 0:
                places.append((f, count))
                left[r] -= count
                size -= count
        return places


def room_for(
    racks: Racks, copies: Ints, size: int, per_rack: int = 0, *, adjacent: bool = False, used: Iterable[int] = ()
) -> GangRoom | None:
    """Return the room within ``copies`` per node for a gang of ``size``; ``None`` if it does not fit.

    ``adjacent``: in racks near each other, and near the ``used`` ones of related tasks.
    """
    room = GangRoom(racks.of, copies, racks.room(copies, per_rack))
    if adjacent:
        chosen = racks.choose(room.left, size, used)
        if chosen is None:
            return None
        room.keep(chosen)
    return room if room.total >= size else None


def by_domains(shape: Shape) -> bool:
    """Return True if a gang has limits per rack or other domain, or needs racks near each other."""
    if shape.size == 1:
        return False
    return bool(shape.wants.per_rack or is_adjacent(shape.wants) or (shape.match is not None and shape.match.has_rules))


def gang_room(relations: Relations, shape: Shape, copies: Ints) -> GangRoom | None:
    """Return the room for a gang within these copies per node, which respect its limits; ``None`` if it does not fit.

    A gang that prefers adjacency gets it if possible.
    """
    wants = shape.wants
    copies = np.minimum(copies, shape.size)
    if shape.match is not None and (rules := shape.match.rules()):
        return next(ruled_rooms(relations, wants, shape.size, copies, rules), None)
    must = is_adjacent(wants)
    if must or would_be_adjacent(wants):
        used = near_whom(relations, wants)
        room = room_for(relations.racks, copies, shape.size, wants.per_rack, adjacent=True, used=used)
        if must or room is not None:
            return room
    return room_for(relations.racks, copies, shape.size, wants.per_rack)


def rooms_when_empty(relations: Relations, shape: Shape, copies: Ints) -> Iterator[GangRoom]:
    """Yield the room in each choice of racks and domains that could hold the gang when empty, best first.

    ``copies`` is the number that each node takes when empty. At most ``MOST_CHOICES`` are yielded.
    """
    size, wants = shape.size, shape.wants
    if shape.match is not None and (rules := shape.match.rules()):
        yield from islice(ruled_rooms(relations, wants, size, np.minimum(copies, size), rules), MOST_CHOICES)
        return
    racks = relations.racks
    per_rack = racks.room(copies, wants.per_rack)
    if not is_adjacent(wants):
        yield GangRoom(racks.of, copies, per_rack)
        return
    used = near_whom(relations, wants)
    near = racks.near_all(used)
    choices = [[r] for _, _, r in sorted((r not in used, per_rack[r], r) for r in near if per_rack[r] >= size)]
    if not choices:
        chosen = racks.choose(per_rack, size, used)
        choices = [] if chosen is None else [chosen]
    for chosen in choices[:MOST_CHOICES]:
        room = GangRoom(racks.of, np.where(np.isin(racks.of[: len(copies)], chosen), copies, 0), per_rack.copy())
        yield room


def holds_together(relations: Relations, copies: Ints, wants: Wants, size: int, rules: GangRules = NO_RULES) -> bool:
    """Return True if a gang of ``size`` fits into ``copies`` per node, with its clauses about racks and domains."""
    if rules.hard:
        hard = GangRules(rules.hard)
        return next(ruled_rooms(relations, wants, size, np.minimum(copies, size), hard, used=False), None) is not None
    if not (wants.per_rack or is_adjacent(wants)):
        return int(copies.sum()) >= size
    racks = relations.racks
    return room_for(racks, np.minimum(copies, size), size, wants.per_rack, adjacent=is_adjacent(wants)) is not None


def ruled_rooms(
    relations: Relations, wants: Wants, size: int, copies: Ints, rules: GangRules, *, used: bool = True
) -> Iterator[GangRoom]:
    """Yield the rooms of a gang with rules, best first: one for each choice of domains that holds it.

    ``used``: it must be near the running tasks.
    """
    racks = relations.racks
    hard = [each.counter(size) for each in rules.hard if not isinstance(each, Within)]
    soft = [each.counter(size) for each in rules.soft if not isinstance(each, Within)]
    if wants.per_rack:
        bound = np.full(len(racks) + 1, wants.per_rack, np.int64)
        hard.append(AtMost(racks.of[: len(copies)], np.zeros_like(bound), bound))
    for within in _chosen(rules, size, copies):
        for near in _adjacent(relations, wants, size, within, used=used):
            filled = fill(near, size, [copied(each) for each in hard], [copied(each) for each in soft])
            if filled is not None:
                of, left = filled
                yield GangRoom(of, near, left)


def _chosen(rules: GangRules, size: int, copies: Ints) -> Iterator[Ints]:
    """Yield the copies in the domains to which the gang is restricted, best choice first; preferred ones precede the
    rest.
    """
    if int(copies.sum()) < size:
        return
    asked = [each for each in rules.hard if isinstance(each, Within)]
    preferred = [each for each in rules.soft if isinstance(each, Within)]
    ways = [copies]
    for each in asked:
        ways = [way for before in ways for (way,) in in_one(each, [size], [before])]
    if not preferred:
        yield from ways
        return
    found = [(*_tightest(preferred[0], size, way), i) for i, way in enumerate(ways[:MOST_CHOICES])]
    for _, inside, _ in sorted(found, key=lambda each: (each[0], each[2])):
        tight = inside
        for other in preferred[1:]:
            tight = _tightest(other, size, tight)[1]
        yield tight
    yield from ways


def _tightest(rule: Within, size: int, copies: Ints) -> tuple[tuple[int, int, int], Ints]:
    """Return key and copies for the fewest and nearest domains that hold the gang.

    The key is their number, their distances and their copies.
    """
    domains = rule.domains
    room = domains.total(copies).tolist()[:-1]
    chosen = domains.tightest(room, size, rule.used)
    if chosen is None:
        return (len(room) + 1, 0, 0), copies
    inside = np.where(np.isin(domains.of[: len(copies)], chosen), copies, 0)
    length = sum(domains.distance(a, b) for a, b in combinations(chosen, 2))
    return (len(chosen), length, sum(room[d] for d in chosen)), inside


def _adjacent(relations: Relations, wants: Wants, size: int, copies: Ints, *, used: bool) -> Iterator[Ints]:
    """Yield the copies in racks near each other, if the gang wants that; if it only prefers it, then the rest as
    well.
    """
    must = is_adjacent(wants)
    if must or (used and would_be_adjacent(wants)):
        near = near_whom(relations, wants) if used else ()
        room = room_for(relations.racks, copies, size, wants.per_rack, adjacent=True, used=near)
        if room is not None:
            yield room.open_copies()
    if not must:
        yield copies
