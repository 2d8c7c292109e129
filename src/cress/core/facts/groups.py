"""Facts about groups, the wall clock and advance reservations."""

from __future__ import annotations

import msgspec

from cress.core import adoption
from cress.core.books import Books
from cress.core.charging import recharge, refresh_quotas_now
from cress.core.combined_restarts import leave_units
from cress.core.facts.rows import LOOSENS, Rows
from cress.core.job_ends import deadline_of
from cress.core.limit_changes import drop_claims_beyond
from cress.core.passing_time import end_reservations
from cress.core.queueing import out_of_queue
from cress.model.decisions import AdvanceReservationMoved
from cress.model.events import AdvanceReservationRemoved, AdvanceReserved, ClockSet, GroupsApplied, ZoneSet
from cress.model.groups.tree import leaf_names
from cress.model.zones import zone_of


class GroupAppliers:
    """Groups and their quotas change; room is reserved in advance."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._groups = books.groups
        self._jobs = books.jobs
        self._advance_reservations = books.advance_reservations

    def rows(self) -> Rows:
        """Return the rows of the ledger's table."""
        return {
            GroupsApplied: (self._applied, LOOSENS),
            AdvanceReserved: (lambda event: self._books.reserve_in_advance(event.reservation), LOOSENS),
            AdvanceReservationRemoved: (lambda event: self._advance_reservations.remove(event.name), LOOSENS),
            AdvanceReservationMoved: (self._advance_reservation_moved, LOOSENS),
            ClockSet: (self._clock_set, LOOSENS),
            ZoneSet: (self._zone_set, LOOSENS),
        }

    def _applied(self, event: GroupsApplied) -> None:
        books, groups = self._books, self._groups
        books.preempted = None
        # A change of their options may affect the ends of running tasks.
        books.expected.count_limits(False)
        kept = leaf_names(event.groups)
        moves = dict(event.moves)
        gone = {group.name for group in groups if group.jobs} - kept
        moving = [job for job in self._jobs.values() if job.group.name in gone] if gone else []
        targets = [(job, moves[job.group.name]) for job in moving]
        for job in moving:
            leave_units(books, job)
        for job in moving:
            if job.queued:
                books.dequeue(job)
            books.forget_relations(job)
            job.group.jobs -= 1
        books.pool.close_but_of(kept)
        groups.apply(event.groups, books.now, event.zone)
        if self._advance_reservations:
            books.number_groups()
        books.running.forget()
        for job, name in targets:
            job.group = groups.get(name)
            books.add_job(job)
        if targets:
            # Job names refer to other jobs once jobs change groups.
            books.relations.forget_counts()
            books.fit.rematch()
        for job, _ in targets:
            if out_of_queue(job) is None:
                books.enqueue(job)
        books.plans.keep([group.name for group in groups if group.policy.plans])
        recharge(books)
        drop_claims_beyond(books)
        for f in list(books.cluster.overdrawn):
            # The leases of removed groups have ended.
            adoption.check_room(books, f)

    def _advance_reservation_moved(self, fact: AdvanceReservationMoved) -> None:
        spec = self._advance_reservations.by_name[fact.name].spec
        self._advance_reservations.put(msgspec.structs.replace(spec, places=fact.places), self._books.now)

    def _clock_set(self, event: ClockSet) -> None:
        books, offset = self._books, event.utc - self._books.now
        self._groups.wall_offset = offset
        end_reservations(books, self._advance_reservations.set_clock(offset, books.now))
        books.running.forget()
        for job in self._jobs.values():
            if job.job.deadline:
                job.deadline = deadline_of(books, job)
                if job.queued:
                    job.group.policy.revalued(job)
        refresh_quotas_now(books)

    def _zone_set(self, event: ZoneSet) -> None:
        self._groups.cluster_zone = zone_of(event.zone)
        refresh_quotas_now(self._books)
