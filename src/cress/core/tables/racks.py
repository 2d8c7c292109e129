"""Racks, their neighbours, and the choice of racks for gangs with adjacent tasks (source E §2.3).

Two racks are *near* if they are equal or neighbours. All nodes without a rack share one. Racks are numbered in the
order in which they are first named, and are never removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

# The limit of steps in the search for three or more racks, if the greedy choice finds none.
SEARCH_STEPS = 20_000

Pairs = tuple[tuple[str, str], ...]


class Racks:
    """The racks of a cluster. ``of[f]`` is the number of node ``f``'s rack; nodes are added in their order."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self.of: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.neighbours: Pairs = ()
        self._near: list[set[int]] = []

    def __len__(self) -> int:
        return len(self.names)

    def put(self, f: int, name: str) -> None:
        """Set the rack of node ``f``."""
        if f >= len(self.of):
            self.of = np.concatenate([self.of, np.zeros(max(16, f + 1, len(self.of)), np.int64)])
        self.of[f] = self.number(name)

    def number(self, name: str) -> int:
        """Return the number of a rack; a new rack gets the next one."""
        r = self.index.get(name)
        if r is None:
            r = self.index[name] = len(self.names)
            self.names.append(name)
            self._near.append({r})
            for one, other in self.neighbours:
                if name in (one, other):
                    self._join(one, other)
        return r

    def set_neighbours(self, pairs: Pairs) -> None:
        """Set the whole list of pairs of neighbours, which may include racks without nodes."""
        self.neighbours = pairs
        self._near = [{r} for r in range(len(self.names))]
        for one, other in pairs:
            self._join(one, other)

    def _join(self, one: str, other: str) -> None:
        a, b = self.index.get(one), self.index.get(other)
        if a is not None and b is not None:
            self._near[a].add(b)
            self._near[b].add(a)

    def rack_of(self, f: int) -> int:
        """Return the number of the rack of node ``f``."""
        return int(self.of[f])

    def near(self, a: int, b: int) -> bool:
        """Return True if two racks are equal or neighbours."""
        return b in self._near[a]

    def near_all(self, used: Iterable[int]) -> set[int]:
        """Return the racks near all of ``used``, in which a further task stays adjacent; all racks if ``used`` is
        empty.
        """
        found = set(range(len(self.names)))
        for r in used:
            found &= self._near[r]
        return found

    def room(self, copies: npt.NDArray[np.int64], most: int = 0) -> list[int]:
        """Return the copies per rack: the sums of those per node, at most ``most`` in one rack (0: no limit)."""
        total = np.zeros(len(self.names), np.int64)
        np.add.at(total, self.of[: len(copies)], copies)
        return [min(each, most) if most else each for each in total.tolist()]

    def choose(self, room: Sequence[int], size: int, used: Iterable[int] = ()) -> list[int] | None:
        """Return the racks for a gang of ``size`` adjacent tasks; ``None`` if no racks near each other hold it.

        ``room`` are copies per rack, ``used`` the racks with tasks to which it must be adjacent. A single rack wins, a
        used one if possible, and then the tightest. Else the fewest racks that are all near each other win. This is
        exact for two. For more, each possible first rack is extended greedily by the roomiest one near all chosen; if
        that fails, a search of bounded length follows. Ties go to the most used racks, then the least room left over,
        then the order of names.
        """
        near_to = set(used)
        candidates = [r for r in sorted(self.near_all(near_to)) if room[r] > 0]
        holding = [r for r in candidates if room[r] >= size]
        if holding:
            return [min(holding, key=lambda r: (r not in near_to, room[r], r))]
        among = set(candidates)
        if all(sum(room[other] for other in self._near[r] & among) < size for r in candidates):
            return None
        return (
            self._two(candidates, room, size, near_to)
            or self._greedy(candidates, room, size)
            or self._search(candidates, room, size)
        )

    def _two(self, candidates: list[int], room: Sequence[int], size: int, used: set[int]) -> list[int] | None:
        among = set(candidates)
        fitting = (
            ((a not in used) + (b not in used), room[a] + room[b], a, b)
            for a in candidates
            for b in self._near[a] & among
            if a < b and room[a] + room[b] >= size
        )
        best = min(fitting, default=None)
        return None if best is None else list(best[2:])

    def _greedy(self, candidates: list[int], room: Sequence[int], size: int) -> list[int] | None:
        best: tuple[int, int, list[int]] | None = None
        for first in candidates:
            chosen, total = [first], room[first]
            left = self._near[first].intersection(candidates) - {first}
            while left and total < size:
                # The last one may be the tightest that suffices.
                enough = [r for r in left if total + room[r] >= size]
                r = min(enough, key=lambda r: (room[r], r)) if enough else min(left, key=lambda r: (-room[r], r))
                chosen.append(r)
                total += room[r]
                left &= self._near[r] - {r}
            if total >= size:
                found = (len(chosen), total, sorted(chosen))
                best = found if best is None else min(best, found)
        return None if best is None else best[2]

    def _search(self, candidates: list[int], room: Sequence[int], size: int) -> list[int] | None:
        """Search racks near each other that hold the gang: depth first, roomiest first, pruned where the rest is too
        small.
        """
        order = sorted(candidates, key=lambda r: (-room[r], r))
        steps = SEARCH_STEPS
        stack: list[tuple[list[int], int, list[int]]] = [([], 0, order)]
        while stack and steps:
            steps -= 1
            chosen, total, left = stack.pop()
            if total >= size:
                return sorted(chosen)
            if not left or total + sum(room[r] for r in left) < size:
                continue
            r, *rest = left
            stack.append((chosen, total, rest))
            stack.append(([*chosen, r], total + room[r], [other for other in rest if other in self._near[r]]))
        return None
