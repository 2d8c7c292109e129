"""Starts of waiting units: single tasks, gangs, units inside advance reservations."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np

from cress.core.advance.inside import room_inside
from cress.core.books import Books
from cress.core.charging import charge_of
from cress.core.future.together import RoomAt
from cress.core.gates.pending import Pending
from cress.core.groups.guarantees import cheapest_first
from cress.core.jobs import GroupState, JobEntry, Reservation
from cress.core.passes import Decided, Pass
from cress.core.placing.fit import rules_of_unit
from cress.core.placing.gangs import in_any_order, ruled_rooms
from cress.core.placing.shape import Shape
from cress.core.placing.together import joined, places_in, ways_in
from cress.core.placing.vetoes import Verdict
from cress.core.starting.starts import NOWHERE, Basis, TaskStarts, members_of
from cress.core.tables import devices
from cress.core.tables.arrays import Bools, Closed, Ints

# The number of jobs of a group that are considered for its advance reservations, or while it cools off.
LOOKED_AT = 100


class Starter:
    """Starts the next unit of a job, if it fits beside the reservations in force."""

    def __init__(self, books: Books, decided: Decided, starts: TaskStarts, pending: Pending) -> None:
        self._books = books
        self._decided = decided
        self._starts = starts
        self._pending = pending
        self._timeline = books.timeline
        self._fit = books.fit
        self._rejoining = books.units.rejoining
        self._reserved = books.advance_reservations

    def start_one(self, job: JobEntry, now: int, *, due: bool, but: Bools | None = None) -> bool:
        """Start a single task, or a unit of several jobs, ``but`` not on these nodes; return True if something was
        decided.
        """
        shape, closed = job.shape, self._books.cluster.none_closed
        if self._timeline.any_booked:
            delaying, closed = self._timeline.screen(shape, job.duration, now, job.group.asker)
            if delaying and delaying >= self._fit.fitting(shape):
                return False
        if but is not None:
            closed = closed.copy()
            closed[: len(but)][but] = 1
        if self._rejoining and self.gather(job, now):
            return True
        if not self._place_preferring(job, closed, due=due):
            return False
        job.group.verdict = Verdict.PLACED
        return True

    def start_gang(self, job: JobEntry, now: int, *, due: bool) -> bool:
        """Start all tasks of a gang, if they fit together; return True if they started."""
        shape, timeline, asker = job.shape, self._timeline, job.group.asker
        if shape.kinds:
            return self._start_kinds(job, now, due=due)
        if shape.match is not None:
            copies = timeline.copies_at(shape, now, job.duration, now, asker)
            devices.cap_exclusive(self._books.cluster, shape.request_array, shape.ask, copies)
            room = next(ruled_rooms(rules_of_unit(shape), shape.size, np.minimum(copies, shape.size)), None)
            if room is None:
                return False
            if job.constraints is not None and job.constraints.whole:
                # As soon as its first task runs, the rest may start in part, and then its clauses mean something else.
                self._starts.start_at(job, room.first(shape.size) or [], Basis(due=due))
            else:
                self._starts.place_in(job, room, now, due=due)
        elif timeline.copies_at(shape, now, job.duration, now, asker, most=shape.size).sum() < shape.size:
            return False
        elif timeline.any_booked:
            for member in members_of(job):
                _, closed = timeline.screen(shape, job.duration, now, asker)
                placed = self._place_preferring(job, closed, member, due=due)
                assert placed, f"a gang of {shape.size} that was found to fit does not"
        else:
            self._starts.place_all(job, due=due)
        job.group.verdict = Verdict.PLACED
        return True

    def start_gang_within(self, job: JobEntry, now: int, may: Callable[[tuple[int, ...]], bool], *, due: bool) -> bool:
        """Start all tasks of a gang on the cheapest nodes, if they fit together there and ``may`` allows their charge.

        Of nodes that cost the same, those in an advance reservation of its group that is in force come first. Return
        True if they started.
        """
        self._pending.count()
        cluster, balance = self._books.cluster, self._books.balance
        own = self._reserved.active_nodes(job.group)

        def cheapest(shape: Shape) -> Ints:
            nodes = balance.preferred(shape)
            return cheapest_first(job, cluster, shape, nodes[np.argsort(~np.isin(nodes, own), kind="stable")])

        room = RoomAt(self._timeline, job.shape, now, job.duration, now, job.group.asker, prefer=cheapest)
        for places in map(joined, ways_in(room)):
            if may(charge_of(cluster, job, places)):
                self._starts.start_at(job, places, Basis(due=due))
                job.group.verdict = Verdict.PLACED
                return True
        return False

    def start_inside(self, group: GroupState, current: Pass) -> bool:
        """Start the first unit of a group that fits into the rest of its advance reservations.

        It takes no room that is foreseen for others. Return True if a unit started.
        """
        if not self._reserved.active_nodes(group):
            return False
        for job in islice(group.policy, LOOKED_AT):
            if (self._rejoining and job.moving) or current.refuses(job):
                continue
            if self._place_inside(job):
                group.verdict = Verdict.PLACED
                return True
            if not group.policy.offers_more and not group.policy.plans and not current.gates.passed_over(job):
                return False
        return False

    def _place_inside(self, job: JobEntry) -> bool:
        """Start the next unit of a job inside the advance reservations of its group; return True if it started."""
        room = room_inside(self._books, job)
        if room is None:
            return False
        if in_any_order(job.shape):
            copies = room.copies(0)
            open_to = {int(f): int(copies[f]) for f in np.flatnonzero(copies)}
            return self._starts.place_on(job, open_to)
        found = places_in(room)
        if found is not None:
            self._starts.start_at(job, joined(found), Basis())
        return found is not None

    def start_planned(self, unit: Reservation) -> None:
        """Start a unit on the nodes of its plan."""
        job, basis = unit.job, Basis(kept=("planned", 0))
        if job.shares_node and job.unit():
            self._starts.start_unit(job, unit.nodes[0][0], basis)
        else:
            self._starts.start_at(job, unit.nodes, basis)
        job.group.verdict = Verdict.PLACED

    def gather(self, job: JobEntry, now: int) -> bool:
        """Stop the running companions of the job's next unit, unless it starts beside them; return True if any were
        stopped.
        """
        running = job.still_running() if job.upcoming not in job.foreseen.homes else []
        for attempt in running:
            self._decided.stop(attempt, now + attempt.job.job.stop_grace)
        if running:
            job.group.verdict = Verdict.MOVING
        return bool(running)

    def _start_kinds(self, job: JobEntry, now: int, *, due: bool) -> bool:
        """Start a gang of several kinds of tasks if all tasks fit together."""
        self._pending.count()
        prefer = self._books.balance.preferred
        room = RoomAt(self._timeline, job.shape, now, job.duration, now, job.group.asker, prefer=prefer)
        found = places_in(room)
        if found is None:
            return False
        self._starts.start_at(job, joined(found), Basis(due=due))
        job.group.verdict = Verdict.PLACED
        return True

    def _place_preferring(
        self, job: JobEntry, closed: Closed, member: tuple[JobEntry, int] | None = None, *, due: bool
    ) -> bool:
        """Start the next task of a job on the best node for it that is not closed; return False if no node fits.

        Nodes in an advance reservation of its group that is in force come first.
        """
        own = self._reserved.active_nodes(job.group)
        if own:
            own_only = np.ones_like(closed)
            own_only[own] = closed[own]
            if self._starts.place(job, own_only, member, due=due) != NOWHERE:
                return True
        return self._starts.place(job, closed, member, due=due) != NOWHERE
