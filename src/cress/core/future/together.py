"""Units on the timeline: places for all tasks together, now or later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cress.core.placing.fit import Fit, asked_of, rules_of_unit
from cress.core.placing.shape import Shape
from cress.core.placing.together import Places, UnitRoom
from cress.core.tables import devices
from cress.core.tables.arrays import Ints
from cress.core.tables.cluster import Cluster
from cress.model.times import NEVER

# A booking that begins now counts from the next microsecond.
_LEAST = 2


class Bookable(Protocol):
    """The methods of a timeline that a room on it uses."""

    cluster: Cluster
    fit: Fit

    def copies_at(self, shape: Shape, t: int, duration: int, now: int, asker: int) -> Ints:
        """Return the copies of a shape per node during [t, t + duration) (µs)."""

    def copies_on(self, shape: Shape, f: int, t: int, duration: int, now: int, asker: int) -> int:
        """Return the copies of a shape on one node during [t, t + duration) (µs), at most its size."""

    def book_for_all(self, f: int, amounts: Ints, start: int, end: int) -> int:
        """Book amounts on a node for all views; return the row."""

    def unbook(self, row: int) -> None:
        """Remove a booking."""


class RoomAt(UnitRoom):
    """Room on nodes for a unit during [t, t + duration) (µs), beside leases and bookings.

    Places that are taken are booked for the length of the question. ``prefer`` returns the nodes for a kind in the
    order of preference; without it nodes come as they registered.
    """

    def __init__(
        self,
        timeline: Bookable,
        shape: Shape,
        t: int,
        duration: int,
        now: int,
        asker: int,
        prefer: Callable[[Shape], Ints] | None = None,
    ) -> None:
        super().__init__(asked_of(shape), rules_of_unit(shape))
        self._timeline = timeline
        self._shapes = shape.every_kind
        self._when = (t, max(duration, _LEAST), now, asker)
        self._prefer = prefer
        self._orders: dict[int, Ints] = {}
        self._rows: list[int] = []
        self._taken: dict[int, Ints] = {}

    def copies(self, i: int) -> Ints:
        """Return the copies of kind ``i`` per node beside the places taken, at most its size."""
        t, duration, now, asker = self._when
        found = self._timeline.copies_at(self._shapes[i], t, duration, now, asker)
        if t == now:
            devices.cap_exclusive(self._timeline.cluster, self.kinds[i].request, self._shapes[i].ask, found)
            for f in self._taken:
                found[f] = min(int(found[f]), self._left_now(i, f))
        return found

    def copies_on(self, i: int, f: int) -> int:
        """Return the copies of kind ``i`` on node ``f`` beside the places taken, at most its size."""
        t, duration, now, asker = self._when
        found = self._timeline.copies_on(self._shapes[i], f, t, duration, now, asker)
        return min(found, self._left_now(i, f)) if t == now and f in self._taken else found

    def _left_now(self, i: int, f: int) -> int:
        """Return the copies of kind ``i`` in what the places taken on node ``f`` leave free now.

        Bookings count from the next microsecond, when leases that outlived their ends may be over.
        """
        taken = self._taken[f]
        left = self._timeline.cluster.free_now()[f] - taken
        return int(self.kinds[i].copies_in(left))

    def take(self, i: int, places: Places) -> None:
        """Take the places for kind ``i``."""
        t, duration, _, _ = self._when
        request = self.kinds[i].request
        for f, count in places:
            self._rows.append(self._timeline.book_for_all(f, request * count, t, min(t + duration, NEVER)))
            self._taken[f] = self._taken.get(f, 0) + request * count

    def clear(self) -> None:
        """Give back all places."""
        for row in reversed(self._rows):
            self._timeline.unbook(row)
        self._rows.clear()
        self._taken.clear()

    def order(self, i: int) -> Ints | None:
        """Return the nodes in the order in which kind ``i`` prefers them; ``None``: as they registered."""
        if self._prefer is None:
            return None
        if i not in self._orders:
            self._orders[i] = self._prefer(self._shapes[i])
        return self._orders[i]

    def holds(self, ways: Sequence[Places]) -> bool:
        """Return True if tasks that start now find their devices beside each other; for later times only amounts are
        known.
        """
        t, _, now, _ = self._when
        cluster = self._timeline.cluster
        if t != now or not any(devices.cares(cluster, kind.ask) for kind in self._shapes):
            return True
        on: dict[int, list[Shape]] = {}
        for kind, places in zip(self._shapes, ways, strict=True):
            for f, count in places:
                on.setdefault(f, []).extend([kind] * count)
        return all(
            devices.unit_fits(cluster, [(kind.request, kind.ask) for kind in members], f, empty=False)
            for f, members in on.items()
            if cluster.devices[f] and len(members) > 1
        )
