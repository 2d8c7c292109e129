"""Facts about claims, units of several jobs, and leases of workloads."""

from __future__ import annotations

from functools import partial

from cress.core import adoption
from cress.core.books import Books
from cress.core.charging import charge_of
from cress.core.claims import add_claim, drop_claim
from cress.core.combined_restarts import dissolve, join, start_unit
from cress.core.facts.attempts import AttemptAppliers
from cress.core.facts.rows import BY_TABLES, Rows
from cress.core.fragments.holders import reduce_lease, use_by_holder
from cress.core.fragments.use import give_to_claim
from cress.core.jobs import ClaimEntry, JobEntry, Reservation
from cress.core.queueing import out_of_queue
from cress.model.decisions import Claim, ClaimDropped, LeaseReduced, UnitDissolved, UnitFormed, WouldPreempt
from cress.model.events import LeaseUsed
from cress.model.times import NEVER


class ClaimAppliers:
    """Room is claimed and given up; units form and dissolve; leases change."""

    def __init__(self, books: Books, attempts: AttemptAppliers) -> None:
        self._books = books
        self._attempts = attempts
        self._cluster = books.cluster
        self._jobs = books.jobs

    def rows(self) -> Rows:
        """Return the rows of the ledger's table."""
        return {
            Claim: (self._claimed, BY_TABLES),
            ClaimDropped: (self._dropped, BY_TABLES),
            WouldPreempt: (self._would_preempt, BY_TABLES),
            UnitFormed: (partial(join, self._books), BY_TABLES),
            UnitDissolved: (self._unit_dissolved, BY_TABLES),
            LeaseReduced: (self._lease_reduced, BY_TABLES),
            LeaseUsed: (self._lease_used, BY_TABLES),
        }

    def _claimed(self, fact: Claim) -> None:
        books, attempts = self._books, self._books.attempts
        job = self._jobs[fact.job]
        if fact.moves and fact.victims and attempts[fact.victims[0]].job is job:
            claim = self._claim(fact, job, [], books.now, fact.tasks[0])
            books.groups.reorder(job.group)
        else:
            claim = self._take_out(fact, job)
        if job.group.count_alike:
            books.groups.reorder(job.group)
        books.timeline.reserve(claim.reservation, NEVER, claim.shape)
        giving_back = give_to_claim(books, fact, job, claim.reservation.nodes[0][0])
        books.preempted = None
        for number in fact.victims:
            victim = attempts[number]
            # From now on its amounts are booked for the unit, whenever they become free.
            self._attempts.leave(victim, books.now)
            if victim.job.group is not job.group and number not in giving_back and not fact.moves:
                victim.job.group.kept.preempted_at, victim.job.group.kept.preempted_for = books.now, job.job.counted_as

    def _take_out(self, fact: Claim, job: JobEntry) -> ClaimEntry:
        """Enter the claim of waiting tasks, which leave their queue."""
        books, since = self._books, job.since
        for task in fact.tasks:
            job.take(task)
            if job.shares_node:
                start_unit(books, job, task)
        claim = self._claim(fact, job, list(fact.tasks), since)
        if out_of_queue(job) is not None:
            books.dequeue(job)
        else:
            # Its next task may have waited for a shorter time, or may start with others.
            books.shapes.refit(job)
        return claim

    def _claim(self, fact: Claim, job: JobEntry, tasks: list[int], since: int, moved: int | None = None) -> ClaimEntry:
        """Enter a claim of these tasks, which wait since then, or of the target of a task that is to be ``moved``."""
        nodes = [(self._cluster.index[name], count) for name, count in fact.nodes]
        reservation = Reservation(job=job, start=self._books.now, nodes=nodes, stamp=self._cluster.stamp)
        claim = ClaimEntry(
            job=job, tasks=tasks, reservation=reservation, shape=job.shape,
            charge=charge_of(self._cluster, job, nodes), victims=list(fact.victims), expected=fact.expected,
            since=since, leased=fact.leased, moved=moved, moves=fact.moves,
        )  # fmt: skip
        add_claim(self._books, claim)
        return claim

    def _dropped(self, fact: ClaimDropped) -> None:
        drop_claim(self._books, self._jobs[fact.job].claim_of(fact.tasks[0]), again=True)

    def _would_preempt(self, fact: WouldPreempt) -> None:
        self._jobs[fact.by].would_preempt = True

    def _unit_dissolved(self, fact: UnitDissolved) -> None:
        dissolve(self._books, self._jobs[fact.job], fact.task)

    def _lease_reduced(self, fact: LeaseReduced) -> None:
        self._check_overdrawn(reduce_lease(self._books, fact.lease, fact.parts))

    def _lease_used(self, event: LeaseUsed) -> None:
        self._check_overdrawn(use_by_holder(self._books, event.lease, event.amounts))

    def _check_overdrawn(self, f: int) -> None:
        """Check a node that had too little room, after a lease on it has changed."""
        if f in self._cluster.overdrawn:
            adoption.check_room(self._books, f)
