"""Reservations of blocked units while later units start, and nodes drained for units without a reservation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized

import msgspec
import numpy as np

from cress.core.future.timeline import Timeline
from cress.core.jobs import Attempt, GroupState, Holder, JobEntry, Reservation
from cress.core.kernels.holding import OUT
from cress.core.placing.fit import Fit, capped
from cress.core.placing.gangs import by_domains
from cress.core.placing.shape import Shape
from cress.core.placing.together import filled, has_places, joined, places_in
from cress.core.tables.arrays import Bools, Ints, copies_in
from cress.core.tables.cluster import Cluster
from cress.core.tree.tree import below_quota_against
from cress.model.job import KEPT_RUNNING
from cress.model.times import NEVER


class Ahead(msgspec.Struct, eq=False):
    """The blocked units of a pass so far, in its order; ``numbers`` has the ids of their jobs in this order.

    A pass has as many as there are groups, so that adding one must not cost more with each.
    """

    jobs: list[JobEntry] = []
    numbers: dict[int, None] = {}
    _sign: tuple[int, ...] = ()

    @property
    def sign(self) -> tuple[int, ...]:
        """Return the ids of the jobs, in order."""
        if len(self._sign) != len(self.numbers):
            self._sign = tuple(self.numbers)
        return self._sign

    def append(self, job: JobEntry) -> None:
        """Add a blocked unit, unless it is in the list."""
        if job.job.id not in self.numbers:
            self.jobs.append(job)
            self.numbers[job.job.id] = None

    def beside(self, job: JobEntry) -> Ahead:
        """Return a copy of the list with one more unit at its end, unless it is in the list."""
        if job.job.id in self.numbers:
            return self
        return Ahead([*self.jobs, job], {**self.numbers, job.job.id: None})


class Reservations:
    """Reservations of blocked units, made only when a later unit could take their place.

    A reservation lasts until an event that may let its unit start earlier (``cluster.loosened``), until the unit
    starts, or until the units ahead of it change.
    """

    def __init__(
        self,
        cluster: Cluster,
        fit: Fit,
        timeline: Timeline,
        holders_on: Callable[[int], Iterator[Holder]],
        leaving: Sized,
        *,
        quota_only: bool,
    ) -> None:
        self.cluster = cluster
        self._holders_on = holders_on
        # The tasks that were told to stop and still hold their leases.
        self._leaving = leaving
        self.fit = fit
        self.timeline = timeline
        # True if only groups below their quota go on behind a blocked unit, so that most reservations bind one group.
        self.quota_only = quota_only
        self.kept: list[Reservation] = []
        self.loosened = -1
        # The time of the last check for reservations whose start has passed (µs).
        self.expired_at = -1
        # The nodes reserved in advance for others before a time; ``None`` without any advance reservation.
        self.reserved: Callable[[GroupState, int], Bools] | None = None
        # What services leave of each node, after the state for which it was found.
        self._left: tuple[tuple[int, int], Ints] = ((-1, -1), np.zeros((0, 0), np.int64))

    def heed_for(self, group: GroupState, ahead: Ahead, now: int) -> None:
        """Put exactly the reservations of the units ahead in force that bind a group.

        These are all of them. With ``quota_only`` they are those of the group, those with drained nodes and of moving
        units.
        """
        jobs = ahead.jobs
        if self.quota_only:
            jobs = [job for job in jobs if job.group is group or self._binds_all(job, now)]
        self.heed(jobs, now)

    def keep_off(self, job: JobEntry, ahead: Ahead, now: int) -> bool:
        """Do ``heed_for`` for the group of a unit, then ``hold_back`` for the unit."""
        self.heed_for(job.group, ahead, now)
        return self.hold_back(job.group, job.shape)

    def heed_others(self, group: GroupState, ahead: Ahead, now: int) -> None:
        """Put exactly those reservations of other groups in force that bind a group."""
        jobs = [job for job in ahead.jobs if job.group is not group]
        self.heed([job for job in jobs if self._binds_all(job, now)], now)

    def _binds_all(self, job: JobEntry, now: int) -> bool:
        """Return True if the reservation of a unit binds all groups."""
        return not self.quota_only or drain_due(job, now) or job.moving

    def heed(self, ahead: list[JobEntry], now: int) -> None:
        """Put exactly the reservations of the units ``ahead`` in force."""
        if self.loosened != self.cluster.loosened:
            self.forget()
            self.loosened = self.cluster.loosened
        kept = self.kept
        if len(kept) > len(ahead):
            for reservation in kept[len(ahead) :]:
                self.timeline.enforce(reservation, False)
        n = 0
        for job, reservation in zip(ahead, kept, strict=False):
            if reservation.job is not job or self._must_be_made_again(reservation, now):
                break
            if not reservation.in_force:
                if not self.timeline.holds(reservation, job.duration, now):
                    break
                self.timeline.enforce(reservation, True)
            reservation.stamp = self.cluster.stamp
            n += 1
        if n < len(ahead):
            for reservation in kept[n:]:
                self.timeline.drop(reservation)
            del kept[n:]
            for job in ahead[n:]:
                kept.append(self._make(job, now))

    def _must_be_made_again(self, reservation: Reservation, now: int) -> bool:
        """Return True if a reservation is out of date: nodes are due to be drained, or a clause excludes one of its
        nodes.
        """
        if reservation.job.shape.match is not None and self.fit.excludes_any(reservation.job.shape, reservation.nodes):
            return True
        unknown = not reservation.rows and not reservation.hopeless
        return unknown and drain_due(reservation.job, now)

    def expire(self, now: int) -> None:
        """Drop the reservations whose start has passed without their unit, because a task outlived its predicted
        end.
        """
        if now == self.expired_at:
            # Once for each time, because decisions must not depend on the number of calls.
            return
        self.expired_at = now
        for kept in self.kept:
            if kept.rows and kept.start <= now and not kept.lasting:
                self.forget()
                self.cluster.loosened += 1
                return

    def forget(self) -> None:
        """Drop all reservations; they are made again when needed."""
        for reservation in self.kept:
            self.timeline.drop(reservation)
        self.kept.clear()

    def hold_back(self, group: GroupState, shape: Shape | None) -> bool:
        """Return True if a group above its quota, or its unit of this shape, must wait for a unit ahead.

        That has no known start although its group is below its quota. It is unknown which starts would delay such a
        unit, so only groups below their quota may go on (G, step n). In a tree, where the two paths part, a group also
        counts as below if a group above it is. A unit for which the nodes that its clauses allow now are too small,
        each or (for a gang) together, delays no other unit.
        """
        if self.quota_only or group.below_quota:
            return False
        return any(
            reservation.in_force
            and not reservation.rows
            and not reservation.hopeless
            and reservation.job.group is not group
            and below_quota_against(reservation.job.group, group, reservation.job.shape)
            and not below_quota_against(group, reservation.job.group, shape)
            for reservation in self.kept
        )

    def of(self, job: JobEntry) -> Reservation | None:
        """Return the reservation of a job's next unit; ``None`` without one."""
        return next((reservation for reservation in self.kept if reservation.job is job), None)

    def in_force(self, but: JobEntry) -> list[Reservation]:
        """Return the reservations in force for units of jobs other than ``but``."""
        return [reservation for reservation in self.kept if reservation.in_force and reservation.job is not but]

    def _make(self, job: JobEntry, now: int) -> Reservation:
        slot = self.timeline.earliest(job.shape, job.duration, now, asker=job.group.asker)
        if slot is not None:
            job.foreseen.drain = []
            reservation = Reservation(job=job, start=slot.start, nodes=slot.nodes, stamp=self.cluster.stamp)
            self.timeline.reserve(reservation, job.duration)
        elif drain_due(job, now) and not any(kept.lasting for kept in self.kept) and (drain := self._drain(job)):
            # Nodes are drained for one unit at a time.
            job.foreseen.drain = drain
            reservation = Reservation(job=job, start=now, nodes=drain, stamp=self.cluster.stamp, lasting=True)
            self.timeline.reserve(reservation, NEVER)
        else:
            job.foreseen.drain = []
            reservation = Reservation(job=job, start=NEVER, nodes=[], stamp=self.cluster.stamp, in_force=True)
        # A unit that waits for its turn to drain nodes, or that no drained node would hold, delays no other unit.
        waits = slot is None and not reservation.lasting and drain_due(job, now)
        reservation.hopeless = waits or (slot is None and not self.fit.could_ever_fit(job.shape))
        return reservation

    def _drain(self, job: JobEntry) -> list[tuple[int, int]]:
        """Return nodes to drain for a unit that fits at no known end: the present ones while they suffice.

        Else they are usable nodes that are large enough beside their services, and that no clause excludes: first those
        without bookings, then those that lack the smallest share of their capacity; ties go to the node that registered
        first. Empty if no nodes suffice.
        """
        if job.shape.kinds or by_domains(job.shape):
            return self._drain_together(job)
        cluster, shape = self.cluster, job.shape
        fit = cluster.usable() & (cluster.lack_of(shape.row) & OUT == 0)
        if self.reserved is not None:
            # A node reserved in advance for others cannot be kept free until it has room.
            fit &= ~self.reserved(job.group, NEVER)
        present, request = job.foreseen.drain, shape.request_array
        if present and all(fit[f] and copies_in(self._left_on(f), request, n) >= n for f, n in present):
            return present
        room = capped(copies_in(self._left_by_services(), request, shape.size), self.fit.caps(shape)) * fit
        if room.sum() < shape.size:
            return []
        places, asked = np.flatnonzero(room), request > 0
        lacks = request[asked] - cluster.free_now()[places][:, asked]
        missing = (lacks / cluster.capacities()[places][:, asked]).max(axis=1, initial=-np.inf)
        order = np.lexsort((missing, np.isin(places, self.timeline.booked)))
        return filled(places[order], room, shape.size)

    def _drain_together(self, job: JobEntry) -> list[tuple[int, int]]:
        """Return nodes to drain for a gang with several kinds of tasks or with rules for domains: the present ones
        while they suffice, else new ones.

        New ones hold the gang beside their services when all else has ended.
        """
        closed = None if self.reserved is None else self.reserved(job.group, NEVER)
        room = self.fit.when_empty(job.shape, closed).at_most(self._left_by_services())
        if job.foreseen.drain and has_places(room, job.shape.by_kind(job.foreseen.drain)):
            return job.foreseen.drain
        return joined(places_in(room) or [])

    def _left_by_services(self) -> Ints:
        """Return the amounts of each node (N, K) that services and databases leave, which do not end by themselves.

        Every blocked unit that is due asks for them, so they are found once for each state. A task that is told to stop
        changes no lease, and one that has stopped does.
        """
        state = self.cluster.stamp, len(self._leaving)
        if self._left[0] != state:
            left = self.cluster.capacities().copy()
            for f in range(len(left)):
                for amounts in self._services_on(f):
                    left[f] -= amounts
            self._left = state, np.maximum(left, 0)
        return self._left[1]

    def _left_on(self, f: int) -> Ints:
        """Return the amounts that they leave of one node."""
        left = self.cluster.capacities()[f].copy()
        for amounts in self._services_on(f):
            left -= amounts
        found: Ints = np.maximum(left, 0)
        return found

    def _services_on(self, f: int) -> Iterator[Ints]:
        """Yield the amounts of each task of a service or database on a node that is not told to stop."""
        for holder in self._holders_on(f):
            if isinstance(holder, Attempt) and holder.job.job.type in KEPT_RUNNING and not holder.stopping:
                yield np.array(holder.amounts, np.int64)


def drain_due(job: JobEntry, now: int) -> bool:
    """Return True if a blocked unit has waited for ``drain_after``, so that nodes are drained for it."""
    return now >= job.since + job.group.options.drain_after
