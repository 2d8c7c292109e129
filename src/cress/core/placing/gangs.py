"""Room for gangs whose tasks are counted per node and per rack: the nodes that stay open, however copies are placed.

Nodes are in racks, racks in the cluster, and each has a limit of copies: with such nested bounds tasks can be
placed one after the other, each on any open node, and all of them find a place. A copy on an open node takes one from
its node, its rack and the cluster, so exactly one less is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from cress.core.placing.constraints import Wants
from cress.core.placing.placement_clauses import is_adjacent, near_whom, would_be_adjacent
from cress.core.placing.relations import Relations
from cress.core.placing.shape import Shape
from cress.core.tables.arrays import Ints
from cress.core.tables.racks import Racks

# Choices of racks that are tried for a gang that needs preemption.
MOST_CHOICES = 8


class Room:
    """The copies that nodes can still take: ``copies`` (int64, per node), and per rack at most ``per_rack`` (0: any number)."""

    def __init__(self, racks: Racks, copies: Ints, per_rack: int = 0) -> None:
        self.racks = racks
        self.copies = copies.copy()
        self.left = racks.room(copies, per_rack)

    @property
    def total(self) -> int:
        """Return the number of copies that find a place."""
        return sum(self.left)

    def keep(self, racks: Iterable[int]) -> None:
        """Close all other racks."""
        kept = set(racks)
        self.left = [each if r in kept else 0 for r, each in enumerate(self.left)]

    def is_open(self, f: int) -> bool:
        """Return whether node ``f`` can take one more copy."""
        return bool(self.copies[f] > 0) and self.left[self.racks.rack_of(f)] > 0

    def closed(self) -> npt.NDArray[np.bool_]:
        """Return, per node, whether it can take no further copy."""
        of = self.racks.of[: len(self.copies)]
        return (self.copies <= 0) | (np.array([*self.left, 0], np.int64)[of] <= 0)

    def take(self, f: int) -> None:
        """Place a copy on node ``f``, which is open."""
        self.copies[f] -= 1
        self.left[self.racks.rack_of(f)] -= 1

    def first(self, size: int) -> list[tuple[int, int]] | None:
        """Return nodes for ``size`` copies, filled in their order; ``None`` if there is not room for all."""
        if self.total < size:
            return None
        places: list[tuple[int, int]] = []
        left = self.left.copy()
        for f in np.flatnonzero(self.copies).tolist():
            r = self.racks.rack_of(f)
            count = min(int(self.copies[f]), left[r], size)
            if count > 0:
                places.append((f, count))
                left[r] -= count
                size -= count
        return places


def room_for(
    racks: Racks, copies: Ints, size: int, per_rack: int = 0, *, adjacent: bool = False, used: Iterable[int] = ()
) -> Room | None:
    """Return the room that a gang of ``size`` may use of ``copies`` per node; ``None`` if it does not fit.

    ``adjacent``: in racks that are near each other, and near those ``used`` by tasks that it belongs with.
    """
    room = Room(racks, copies, per_rack)
    if adjacent:
        chosen = racks.choose(room.left, size, used)
        if chosen is None:
            return None
        room.keep(chosen)
    return room if room.total >= size else None


def by_racks(shape: Shape) -> bool:
    """Return whether the racks of a gang are counted, or must be near each other."""
    return shape.size > 1 and bool(shape.wants.per_rack or is_adjacent(shape.wants))


def gang_room(relations: Relations, shape: Shape, copies: Ints) -> Room | None:
    """Return the room that a gang may use of these copies per node, which respect its caps; ``None`` if it does not fit.

    A gang that prefers adjacency gets it if possible.
    """
    wants = shape.wants
    copies = np.minimum(copies, shape.size)
    must = is_adjacent(wants)
    if must or would_be_adjacent(wants):
        used = near_whom(relations, wants)
        room = room_for(relations.racks, copies, shape.size, wants.per_rack, adjacent=True, used=used)
        if must or room is not None:
            return room
    return room_for(relations.racks, copies, shape.size, wants.per_rack)


def caps_by_racks(relations: Relations, shape: Shape, room: Ints) -> Iterator[Ints]:
    """Yield, per choice of racks that could hold the gang when empty, the tasks that each node may take.

    ``room`` is the number that each node takes when empty. Tightest racks first, ``MOST_CHOICES`` of them at most.
    """
    size, wants = shape.size, shape.wants
    of = relations.racks.of[: len(room)]
    per_rack = relations.racks.room(room, wants.per_rack)
    if not is_adjacent(wants):
        yield room
        return
    used = near_whom(relations, wants)
    near = relations.racks.near_all(used)
    choices = [[r] for _, _, r in sorted((r not in used, per_rack[r], r) for r in near if per_rack[r] >= size)]
    if not choices:
        chosen = relations.racks.choose(per_rack, size, used)
        choices = [] if chosen is None else [chosen]
    for racks in choices[:MOST_CHOICES]:
        yield np.where(np.isin(of, racks), room, 0)


def holds_together(racks: Racks, copies: Ints, wants: Wants, size: int) -> bool:
    """Return whether a gang of ``size`` finds room in ``copies`` per node, in racks that are near each other if they must be."""
    if not (wants.per_rack or is_adjacent(wants)):
        return int(copies.sum()) >= size
    return room_for(racks, np.minimum(copies, size), size, wants.per_rack, adjacent=is_adjacent(wants)) is not None
