"""The time axis: bookings beside leases, and the earliest time at which a request fits.

Reservations, backfill, conservative plans and expected starts all use this one object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cress.core.future.together import RoomAt
from cress.core.jobs import ClaimEntry, Reservation
from cress.core.kernels import timeline as loops
from cress.core.kernels.holding import END, NODE, NONE
from cress.core.kernels.timeline import ASKER, B_AMOUNTS, B_END, B_FORCE, B_NODE
from cress.core.placing.fit import Fit
from cress.core.placing.gangs import by_domains
from cress.core.placing.shape import Shape
from cress.core.placing.together import has_places, joined, places_in
from cress.core.tables.arrays import Closed, Ints, copies_in, grown
from cress.core.tables.cluster import Cluster
from cress.model.times import NEVER

# Bookings of force ALL count for every view; a higher number is the view of one group's plan; NO_PLAN has no plan.
NO_PLAN, ALL = 0, 1

# The number of times tried for a gang with rules for domains, if halving finds none.
MOST_TIMES = 256


class Slot(NamedTuple):
    """The earliest fit of a unit: its ``start`` (µs), and the number of copies on each node."""

    start: int
    nodes: list[tuple[int, int]]


class Timeline:
    """Bookings on the nodes of one cluster.

    ``view`` selects the bookings that count beside those for all: the plan of one group, or none. ``asker`` is the
    number of the unit's group: amounts kept for that group bind others only (``core.advance``); 0 without any.
    """

    def __init__(self, cluster: Cluster, fit: Fit) -> None:
        self.cluster = cluster
        self.fit = fit
        self.table: Ints = np.zeros((16, B_AMOUNTS + cluster.k_count), np.int64)
        self.view = NO_PLAN
        self._free_rows = list(range(15, -1, -1))
        # The number of bookings in force that count for all, by node.
        self._force_on: dict[int, int] = {}
        self._booked: Ints | None = None
        # The nodes that the last ``screen`` closed; all of them are ``booked``.
        self._delaying: Closed = np.zeros(1, np.int32)
        # Updates bookings that depend on running tasks; ``None`` without any.
        self.prepare: Callable[[], None] | None = None
        # By node on which claims wait for overdue tasks: the amounts that stopping tasks will free, less the claimed
        # ones. The end of overdue tasks is unknown, so claims do not rely on them.
        self.claimed: Callable[[], dict[int, Ints]] = dict
        # All claims.
        self.claims: Sequence[ClaimEntry] = ()

    # --- bookings ------------------------------------------------------------------------------------------

    def reserve(self, reservation: Reservation, duration: int, shape: Shape | None = None) -> None:
        """Book the reservation's nodes from its start for ``duration`` (µs), in force at once.

        For copies of ``shape``, by default that of its job.
        """
        end = min(reservation.start + duration, NEVER)
        for kind, f, count in (shape or reservation.job.shape).copies(reservation.nodes):
            amounts = kind.request_array if count == 1 else kind.request_array * count
            reservation.rows.append(self.book(f, amounts, reservation.start, end, 0))
        self.enforce(reservation, True)

    def drop(self, reservation: Reservation) -> None:
        """Remove the bookings of a reservation, so that others may use their amounts."""
        self.enforce(reservation, False)
        for row in reservation.rows:
            self.unbook(row)
        reservation.rows.clear()

    def enforce(self, reservation: Reservation, on: bool) -> None:
        """Put the bookings of a reservation in force, or suspend them (``on`` False)."""
        if reservation.in_force == on:
            return
        reservation.in_force = on
        for row in reservation.rows:
            self.table[row, B_FORCE] = reservation.view if on else 0
        if reservation.view == ALL and reservation.rows:
            self.count_nodes(reservation.nodes, 1 if on else -1)

    def amounts_of(self, rows: Sequence[int]) -> Ints:
        """Return the amounts (N, K) of these bookings, whenever they keep them."""
        found = np.zeros((self.cluster.node_count, self.cluster.k_count), np.int64)
        booked = self.table[rows]
        np.add.at(found, booked[:, B_NODE], booked[:, B_AMOUNTS:])
        return found

    def kept_by(self, reservations: Iterable[Reservation]) -> Ints:
        """Return the amounts (N, K) that these reservations keep, whenever they do."""
        return self.amounts_of([row for reservation in reservations for row in reservation.rows])

    def kept_on(self, f: int, reservations: Iterable[Reservation]) -> Ints:
        """Return the amounts (K) that these reservations keep on one node, whenever they do."""
        booked = self.table[[row for reservation in reservations for row in reservation.rows]]
        found: Ints = booked[booked[:, B_NODE] == f, B_AMOUNTS:].sum(axis=0)
        return found

    def count_nodes(self, nodes: Iterable[tuple[int, int]], change: int) -> None:
        """Change the number of bookings in force on each of these nodes, for bookings that count for all; how many
        copies a booking has there makes no difference.
        """
        for f, _ in nodes:
            count = self._force_on.get(f, 0) + change
            assert count >= 0, f"node {f} has fewer bookings in force than none"
            if count:
                self._force_on[f] = count
            else:
                del self._force_on[f]
        self._booked = None

    def book(self, f: int, amounts: Ints, start: int, end: int, force: int) -> int:
        """Book amounts on a node; return the row."""
        if not self._free_rows:
            n = len(self.table)
            self.table = grown(self.table, 2 * n)
            self._free_rows = list(range(2 * n - 1, n - 1, -1))
        row = self._free_rows.pop()
        loops.book(row, f, amounts, start, end, self.cluster.nodes, self.table)
        self.table[row, B_FORCE] = force
        return row

    def book_for_all(self, f: int, amounts: Ints, start: int, end: int) -> int:
        """Book amounts on a node for all views, in force at once; return the row."""
        row = self.book(f, amounts, start, end, 0)
        self.table[row, B_FORCE] = ALL
        return row

    def unbook(self, row: int) -> None:
        """Remove a booking."""
        loops.unbook(row, self.cluster.nodes, self.table)
        # Ends of bookings in force are candidate times for gangs, and this one is no longer a candidate.
        self.table[row, B_FORCE] = 0
        self._free_rows.append(row)

    def _seen_by(self, asker: int) -> int:
        """Return the view for a unit of a group, with all bookings updated."""
        if self.prepare is not None:
            self.prepare()
        return self.view | asker << ASKER

    @property
    def any_booked(self) -> bool:
        """True if some booking that counts for all is in force."""
        return bool(self._force_on)

    @property
    def booked(self) -> Ints:
        """Indices of the nodes with a booking in force that counts for all, ascending."""
        if self._booked is None:
            self._booked = np.array(sorted(self._force_on), np.int64)
            self._delaying = np.zeros(len(self.cluster.nodes), np.int32)
        return self._booked

    # --- questions -----------------------------------------------------------------------------------------

    def screen(self, shape: Shape, duration: int, now: int, asker: int = 0) -> tuple[int, Closed]:
        """Return the nodes, closed, on which the shape fits now but would delay a booking, after their number.

        They are valid until the next call, and the next change of nodes or bookings.
        """
        if not self._force_on:
            return 0, self.cluster.none_closed
        cluster, view = self.cluster, self._seen_by(asker)
        # Room for a gang is counted by requests, so devices must hold for each of its tasks.
        ask = shape.ask if shape.size == 1 else np.zeros_like(shape.ask)
        booked, lack = self.booked, cluster.lack[shape.row]
        if len(self._delaying) < cluster.node_count:
            self._delaying = np.zeros(len(cluster.nodes), np.int32)
        closed = self._delaying
        count: int = loops.block_booked(
            booked, lack, shape.request_array, ask, duration, now, cluster.nodes, cluster.leases, self.table, view,
            cluster.k_count, closed,
        )  # fmt: skip
        for f, copies in self._beside_claims(shape) if self.claims else ():
            if copies < 1 and lack[f] == 0 and not closed[f]:
                closed[f] = 1
                count += 1
        return count, closed

    def _beside_claims(self, shape: Shape) -> Iterator[tuple[int, int]]:
        """Yield nodes on which claims wait for overdue tasks, with the copies of the shape that leave these claims
        their room.
        """
        for f, coming in self.claimed().items():
            yield f, int(copies_in(self.cluster.free_now()[f] + coming, shape.request_array, shape.size))

    def copies_at(
        self, shape: Shape, t: int, duration: int, now: int, asker: int = 0, *, most: int | None = None
    ) -> Ints:
        """Return the copies of the shape per node during [t, t + ``duration``) (µs): at most ``most`` in total, or as
        many as each node takes of the gang.
        """
        cluster, view = self.cluster, self._seen_by(asker)
        caps = self.fit.caps(shape)
        if most is None:
            most = cluster.node_count * shape.size
            caps = np.minimum(caps, shape.size) if len(caps) else np.full(cluster.node_count, shape.size, np.int64)
        beside = list(self._beside_claims(shape)) if self.claims and t == now else []
        if beside:
            caps = caps.copy() if len(caps) else np.full(cluster.node_count, most, np.int64)
            for f, copies in beside:
                caps[f] = min(caps[f], copies)
        out = np.zeros(cluster.node_count, np.int64)
        loops.total_copies_at(
            t, shape.request_array, shape.ask, cluster.lack[shape.row], caps, duration, most, now, cluster.nodes,
            cluster.node_count, cluster.leases, self.table, view, cluster.k_count, out,
        )  # fmt: skip
        return out

    def earliest(self, shape: Shape, duration: int, now: int, before: int = NEVER, asker: int = 0) -> Slot | None:
        """Return the earliest fit of one unit of ``shape`` (all tasks of a gang together) beside the bookings in
        force.

        ``None`` if no known end makes room before ``before`` (µs).
        """
        if shape.size > 1:
            return self._earliest_gang(shape, duration, now, before, asker)
        cluster, view = self.cluster, self._seen_by(asker)
        if shape.early is None or len(shape.early) < len(cluster.nodes):
            shape.early = np.full(len(cluster.nodes), loops.UNKNOWN, np.int64)
            shape.seen = -1
        time, f = loops.earliest_one(
            shape.request_array, shape.ask, cluster.lack[shape.row], duration, now, cluster.nodes, cluster.node_count,
            cluster.leases, self.table, view, cluster.k_count, shape.early, shape.seen,
        )  # fmt: skip
        shape.seen = cluster.stamp
        return None if time >= before else Slot(time, [(f, 1)])

    def earliest_among(self, places: Ints, shape: Shape, duration: int, now: int, asker: int = 0) -> Slot | None:
        """Return the earliest fit of one task on one of the nodes ``places``; ``None`` if no known end makes room."""
        cluster, view = self.cluster, self._seen_by(asker)
        time, f = loops.earliest_among(
            places,
            shape.request_array,
            shape.ask,
            cluster.lack[shape.row],
            duration,
            now,
            cluster.nodes,
            cluster.leases,
            self.table,
            view,
            cluster.k_count,
        )
        return None if f < 0 else Slot(time, [(f, 1)])

    def _earliest_gang(self, shape: Shape, duration: int, now: int, before: int, asker: int) -> Slot | None:
        if shape.kinds or by_domains(shape):
            return self._earliest_by_domains(shape, duration, now, before, asker)
        t = self._earliest_together(shape, duration, now, before, asker)
        if t >= NEVER:
            return None
        copies = self.copies_at(shape, t, duration, now, asker, most=shape.size)
        return Slot(t, [(f, int(copies[f])) for f in np.flatnonzero(copies).tolist()])

    def _earliest_together(self, shape: Shape, duration: int, now: int, before: int, asker: int) -> int:
        cluster, view = self.cluster, self._seen_by(asker)
        return loops.earliest_together(  # type: ignore[no-any-return]
            shape.request_array,
            shape.ask,
            cluster.lack[shape.row],
            self.fit.caps(shape),
            shape.size,
            duration,
            now,
            before,
            cluster.nodes,
            cluster.node_count,
            cluster.leases,
            self.table,
            view,
            cluster.k_count,
        )

    def _earliest_by_domains(self, shape: Shape, duration: int, now: int, before: int, asker: int) -> Slot | None:
        """Find the earliest fit of a gang of several kinds or with rules for domains, at a known end of a lease or
        booking.

        Room grows as leases end, so the first end with enough of it is found by halving. A booking that begins later
        may hide an earlier start, or leave no fit at the last end: then at most ``MOST_TIMES`` ends are tried.
        """
        cluster = self.cluster
        self._seen_by(asker)
        booked = self.table[:, B_FORCE] != 0
        ends = np.concatenate([cluster.leases[cluster.leases[:, NODE] != NONE, END], self.table[booked, B_END]])
        times = np.unique(np.append(np.maximum(ends, now + 1), now))
        # Enough room in all domains together is a necessary condition.
        at_least = max(self._earliest_together(kind, duration, now, before, asker) for kind in shape.every_kind)
        times = times[(times >= at_least) & (times < min(before, NEVER))]
        found = self._first_by_domains(shape, times, duration, now, asker)
        if found is None and booked.any():
            some = times[:: 1 + len(times) // MOST_TIMES].tolist()
            found = next((slot for t in some if (slot := self._slot_by_domains(shape, t, duration, now, asker))), None)
        return found

    def _first_by_domains(self, shape: Shape, times: Ints, duration: int, now: int, asker: int) -> Slot | None:
        """Return the fit at the first of these times with room in domains; ``None`` if the last one has none."""
        found: Slot | None = None
        low, high = 0, len(times) - 1
        while low <= high:
            middle = (low + high) // 2 if found is not None else high
            slot = self._slot_by_domains(shape, int(times[middle]), duration, now, asker)
            if slot is not None:
                found, high = slot, middle - 1
            elif found is None:
                return None
            else:
                low = middle + 1
        return found

    def _slot_by_domains(self, shape: Shape, t: int, duration: int, now: int, asker: int) -> Slot | None:
        found = places_in(RoomAt(self, shape, t, duration, now, asker))
        return None if found is None else Slot(t, joined(found))

    def holds(self, reservation: Reservation, duration: int, now: int) -> bool:
        """Return True if a reservation that is not in force still fits on its nodes at its time."""
        shape, start = reservation.job.shape, max(reservation.start, now)
        changed = [
            [(f, count) for f, count in places if self.cluster.node_stamp(f) > reservation.stamp]
            for places in shape.by_kind(reservation.nodes)
        ]
        if not any(changed):
            return True
        return has_places(RoomAt(self, shape, start, duration, now, reservation.job.group.asker), changed)

    def copies_on(self, shape: Shape, f: int, t: int, duration: int, now: int, asker: int = 0) -> int:
        """Return the copies of a shape on one node during [t, t + ``duration``) (µs), at most its size."""
        cluster, view = self.cluster, self._seen_by(asker)
        found: int = loops.copies_at(
            f, t, shape.request_array, shape.ask, cluster.lack[shape.row], duration, shape.size, now, cluster.nodes,
            cluster.leases, self.table, view, cluster.k_count, np.empty(cluster.k_count, np.int64),
        )  # fmt: skip
        return found
