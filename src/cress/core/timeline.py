"""The time axis: bookings beside leases, and "the earliest time at which this fits".

Reservations, backfill, conservative plans and expected starts all ask this one object.
"""

from __future__ import annotations

import numpy as np

from cress.core.cluster import Cluster, Ints, Shape, grown
from cress.core.jobs import JobState
from cress.core.kernels import timeline as loops
from cress.core.kernels.timeline import B_AMOUNTS, B_FORCE, B_NODE
from cress.model.times import NEVER


class Slot:
    """A place in time: ``start``, and how many copies on which nodes."""

    __slots__ = ("nodes", "start")

    def __init__(self, start: int, nodes: list[tuple[int, int]]) -> None:
        self.start = start
        self.nodes = nodes


class Reservation:
    """A slot that is kept for a unit of a job; ``rows`` are its bookings, empty while none is known.

    ``stamp`` is the cluster's at the time when it was last known to hold.
    """

    __slots__ = ("in_force", "job", "nodes", "rows", "stamp", "start")

    def __init__(self, job: JobState, start: int, nodes: list[tuple[int, int]], stamp: int) -> None:
        self.job = job
        self.start = start
        self.nodes = nodes
        self.rows: list[int] = []
        self.in_force = False
        self.stamp = stamp


class Timeline:
    """Bookings on the nodes of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.table: Ints = np.zeros((16, B_AMOUNTS + cluster.k_count), np.int64)
        self._free_rows = list(range(15, -1, -1))
        self._force_on: dict[int, int] = {}
        self._booked: Ints | None = None

    # --- bookings ------------------------------------------------------------------------------------------

    def reserve(self, reservation: Reservation, duration: int) -> None:
        """Book the reservation's nodes from its start for ``duration``, in force at once."""
        request = reservation.job.shape.request_array
        end = min(reservation.start + duration, NEVER)
        for f, count in reservation.nodes:
            amounts = request if count == 1 else request * count
            reservation.rows.append(self._book(f, amounts, reservation.start, end))
        self.enforce(reservation, True)

    def drop(self, reservation: Reservation) -> None:
        """The reservation is void; others may use what it kept."""
        self.enforce(reservation, False)
        for row in reservation.rows:
            self._unbook(row)
        reservation.rows.clear()

    def enforce(self, reservation: Reservation, on: bool) -> None:
        """Heed the reservation, or not for the moment."""
        if reservation.in_force == on:
            return
        reservation.in_force = on
        for row in reservation.rows:
            f = int(self.table[row, B_NODE])
            self.table[row, B_FORCE] = on
            count = self._force_on.get(f, 0) + (1 if on else -1)
            if count:
                self._force_on[f] = count
            else:
                del self._force_on[f]
                self.cluster.blocked[f] = 0
        self._booked = None

    def _book(self, f: int, amounts: Ints, start: int, end: int) -> int:
        if not self._free_rows:
            n = len(self.table)
            self.table = grown(self.table, 2 * n)
            self._free_rows = list(range(2 * n - 1, n - 1, -1))
        row = self._free_rows.pop()
        loops.book(row, f, amounts, start, end, self.cluster.nodes, self.table)
        return row

    def _unbook(self, row: int) -> None:
        loops.unbook(row, self.cluster.nodes, self.table)
        self._free_rows.append(row)

    @property
    def any_booked(self) -> bool:
        """Whether some booking is in force."""
        return bool(self._force_on)

    @property
    def booked(self) -> Ints:
        """Indices of the nodes with a booking in force, ascending."""
        if self._booked is None:
            self._booked = np.array(sorted(self._force_on), np.int64)
        return self._booked

    # --- questions -----------------------------------------------------------------------------------------

    def screen(self, shape: Shape, duration: int, now: int) -> int:
        """Mark in ``cluster.blocked`` the nodes on which the shape fits now but would delay a booking.

        Returns how many those are. The marks are right until the next change of nodes or bookings.
        """
        if not self._force_on:
            return 0
        cluster = self.cluster
        return int(
            loops.block_booked(
                self.booked,
                cluster.lack[shape.row],
                shape.request_array,
                duration,
                now,
                cluster.nodes,
                cluster.leases,
                self.table,
                cluster.k_count,
                cluster.blocked,
            )
        )

    def copies_now(self, shape: Shape, duration: int, most: int, now: int) -> Ints:
        """Copies of the shape per node that may start now for ``duration``, up to ``most`` in all."""
        cluster = self.cluster
        out = np.zeros(cluster.node_count, np.int64)
        loops.total_copies_at(
            now, shape.request_array, duration, most, now, cluster.nodes, cluster.node_count, cluster.leases,
            self.table, cluster.k_count, out,
        )  # fmt: skip
        return out

    def earliest(self, shape: Shape, duration: int, now: int) -> Slot | None:
        """The earliest slot for one unit of ``shape`` (all tasks of a gang together) beside the bookings in force.

        ``None`` if no known end will ever make room.
        """
        return (
            self._earliest_one(shape, duration, now) if shape.size == 1 else self._earliest_gang(shape, duration, now)
        )

    def _earliest_one(self, shape: Shape, duration: int, now: int) -> Slot | None:
        cluster = self.cluster
        if shape.early is None or len(shape.early) < len(cluster.nodes):
            shape.early = np.full(len(cluster.nodes), loops.UNKNOWN, np.int64)
            shape.seen = -1
        time, f = loops.earliest_one(
            shape.request_array, duration, now, cluster.nodes, cluster.node_count, cluster.leases, self.table,
            cluster.k_count, shape.early, shape.seen,
        )  # fmt: skip
        shape.seen = cluster.stamp
        return None if f < 0 else Slot(int(time), [(int(f), 1)])

    def _earliest_gang(self, shape: Shape, duration: int, now: int) -> Slot | None:
        cluster = self.cluster
        size = shape.size
        out = np.zeros(cluster.node_count, np.int64)

        def copies(t: int) -> int:
            return int(
                loops.total_copies_at(
                    t,
                    shape.request_array,
                    duration,
                    size,
                    now,
                    cluster.nodes,
                    cluster.node_count,
                    cluster.leases,
                    self.table,
                    cluster.k_count,
                    out,
                )
            )

        times = self._change_times(shape, now)
        first = 0
        if not self._force_on:
            # Without bookings more and more is free as time goes on, so the first time can be bisected.
            last = len(times)
            while first < last:
                middle = (first + last) // 2
                if copies(int(times[middle])) >= size:
                    last = middle
                else:
                    first = middle + 1
        for t in times[first:]:
            if copies(int(t)) >= size:
                return Slot(int(t), [(f, int(out[f])) for f in np.flatnonzero(out).tolist()])
        return None

    def _change_times(self, shape: Shape, now: int) -> Ints:
        """``now`` and every known time at which something gets freer, ascending."""
        cluster = self.cluster
        out = np.zeros(256, np.int64)
        while True:
            n = int(
                loops.change_times(
                    now,
                    cluster.nodes,
                    cluster.node_count,
                    cluster.leases,
                    self.table,
                    shape.request_array,
                    cluster.k_count,
                    out,
                )
            )
            if n <= len(out):
                break
            out = np.zeros(n, np.int64)
        return np.concatenate((np.array([now], np.int64), np.unique(out[:n])))

    def holds(self, reservation: Reservation, duration: int, now: int) -> bool:
        """Whether a reservation that is not in force still fits where and when it was made."""
        cluster = self.cluster
        request = reservation.job.shape.request_array
        return all(
            cluster.node_stamp(f) <= reservation.stamp
            or loops.copies_at(
                f, max(reservation.start, now), request, duration, count, now, cluster.nodes, cluster.leases,
                self.table, cluster.k_count,
            )
            >= count
            for f, count in reservation.nodes
        )  # fmt: skip
