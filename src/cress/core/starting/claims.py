"""Claims: room kept for a unit while its victims stop, and the start of the unit there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cress.core.books import Books
from cress.core.eviction import Eviction
from cress.core.jobs import ClaimEntry, GroupState, JobEntry
from cress.core.kernels.holding import FIRST_END
from cress.core.passes import Decided
from cress.core.placing.vetoes import Verdict
from cress.core.starting.starts import Basis, TaskStarts
from cress.core.tables import devices
from cress.core.tables.arrays import Ints, suffices
from cress.model.decisions import Claim, ClaimDropped
from cress.model.times import NEVER


class Claims:
    """Makes claims, starts claimed units whose victims have ended, and drops claims that lost their room."""

    def __init__(self, books: Books, decided: Decided, starts: TaskStarts) -> None:
        self._books = books
        self._decided = decided
        self._starts = starts
        self._cluster = books.cluster
        self._fit = books.fit
        self._claims = books.claims
        self._leaving = books.leaving
        self._reserved = books.advance_reservations
        books.timeline.claimed = self._claimed_late
        # The last result of ``_claimed_late``, after the state for which it holds.
        self._late: tuple[tuple[int, int, int, int], dict[int, Ints]] = ((-1, -1, 0, 0), {})
        # By job, the last time in this run at which a claim was made and dropped at once.
        self.dropped_at: dict[int, int] = {}

    def make(self, job: JobEntry, eviction: Eviction) -> None:
        """Take the unit out of its queue, claim the resources that its victims will free, and signal the victims."""
        names, victims = self._cluster.names, eviction.attempts
        nodes = tuple((names[f], count) for f, count in eviction.nodes)
        tasks = tuple(job.next_tasks(sum(count for _, count in nodes)))
        self._decided.do(
            Claim(
                job=job.job.id,
                tasks=tasks,
                nodes=nodes,
                victims=tuple(victim.id for victim in victims),
                expected=self._books.now + max(victim.grace(self._books.options) for victim in victims),
                leased=eviction.leased,
            )
        )
        for victim in victims:
            self._decided.preempt(victim, job)
        job.group.verdict = Verdict.VICTIMS

    def start_first(self, group: GroupState, is_undone: Callable[[JobEntry], bool]) -> bool:
        """Start a unit of the group whose victims have ended; its resources were booked, so no other unit has them.

        A unit whose start would be undone at once gives up its claim: whoever would take its room has it first. Return
        True if something was decided.
        """
        begun = len(self._decided.items)
        for claim in list(group.claims):
            if claim.tasks and self._may_start_now(claim):
                if claim.in_turn and is_undone(claim.job):
                    self._drop(claim)
                    continue
                self._start(claim)
                group.verdict = Verdict.PLACED
                break
        return len(self._decided.items) > begun

    def start_moved(self) -> None:
        """Start the moved tasks whose attempts have ended.

        They wait for no turn, because they take no more than they had.
        """
        for claim in list(self._claims):
            if not claim.in_turn and claim.tasks and self._may_start_now(claim):
                self._start(claim)

    def drop_void(self) -> None:
        """Drop the claims whose victims are gone while a clause excludes one of the nodes of the unit."""
        for claim in [claim for claim in self._claims if self._is_void(claim)]:
            self._drop(claim)

    def _start(self, claim: ClaimEntry) -> None:
        self._starts.start_at(claim.job, claim.reservation.nodes, Basis(kept=claim.kept, claim=claim))

    def _may_start_now(self, claim: ClaimEntry) -> bool:
        """Return True if the room of a claim is free; give up a claim that has lost its room."""
        if claim.tried == self._cluster.loosened:
            return False
        claim.tried = self._cluster.loosened
        nodes = claim.reservation.nodes
        if self._lost_its_devices(claim):
            self._drop(claim)
            return False
        if not self._fit.has_room(claim.shape, nodes) or not self._may_start(claim):
            return False
        if self._reserved and not self._beside_reservations(claim):
            if not self._waits(claim):
                # Its victims took so long that the unit would run into a reservation.
                self._drop(claim)
            return False
        return True

    def _drop(self, claim: ClaimEntry) -> None:
        """Drop a claim; if it was made at this time, its job makes no other claim before the time advances."""
        if claim.reservation.start == self._books.now:
            self.dropped_at[claim.job.job.id] = self._books.now
        self._decided.do(ClaimDropped(claim.job.job.id, tuple(claim.tasks)))

    def _claimed_late(self) -> dict[int, Ints]:
        """Return amounts by node, for nodes on which claims wait for overdue tasks.

        They are the amounts that stopping tasks will free, less the claimed amounts.
        """
        books = self._books
        state = (books.pass_number, books.now, len(self._claims), len(self._leaving))
        if self._late[0] == state:
            return self._late[1]
        nodes, k = self._cluster.nodes, self._cluster.k_count
        found: dict[int, Ints] = {
            f: np.zeros(k, np.int64)
            for claim in self._claims
            for f, _ in claim.reservation.nodes
            # The timeline takes a task that ends by then for one that gives back its room before a claim needs it.
            if nodes[f, FIRST_END] <= books.now + 1
        }
        for claim in self._claims if found else ():
            for f, amounts in claim.needs().items():
                if f in found:
                    found[f] -= amounts
        for f, amounts in books.coming_free() if found else ():
            if f in found:
                found[f] += amounts
        self._late = (state, found)
        return found

    def _beside_reservations(self, claim: ClaimEntry) -> bool:
        """Return True if a claimed unit that starts now leaves room for the advance reservations of others."""
        job, cluster = claim.job, self._cluster
        kept = self._reserved.kept_from(job.group, self._books.now + min(job.limit, NEVER))
        return all(suffices(cluster.free_now()[f] - kept[f], needed) for f, needed in claim.needs().items())

    def _waits(self, claim: ClaimEntry) -> bool:
        """Return True if some of the victims still run."""
        return any(victim in self._leaving for victim in claim.victims)

    def _may_start(self, claim: ClaimEntry) -> bool:
        """Return True if no other claim competes for the room: its victims have ended, or no other claim has its
        nodes.
        """
        if not self._waits(claim):
            return True
        nodes = {f for f, _ in claim.reservation.nodes}
        return not any(f in nodes for other in self._claims if other is not claim for f, _ in other.reservation.nodes)

    def _lost_its_devices(self, claim: ClaimEntry) -> bool:
        """Return True if the victims have ended and other tasks got their devices, since bookings keep amounts only."""
        shape, cluster = claim.shape, self._cluster
        return (
            any(devices.cares(cluster, kind.ask) for kind in shape.every_kind)
            and not self._waits(claim)
            and any(
                devices.copies_on(cluster, kind.ask, f) < count
                for kind, f, count in shape.copies(claim.reservation.nodes)
            )
        )

    def _is_void(self, claim: ClaimEntry) -> bool:
        return (
            claim.shape.match is not None
            and not self._waits(claim)
            and self._fit.excludes_any(claim.shape, claim.reservation.nodes)
        )
