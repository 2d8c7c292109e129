"""Room in leases of workloads: a unit's own idle parts, loans from others, and returns by borrowers (source F)."""

from __future__ import annotations

from collections.abc import Container
from itertools import islice

from cress.core.books import Books
from cress.core.eviction import Eviction
from cress.core.fragments.reclaim import find_leaving, find_reclaim
from cress.core.fragments.search import find_loan, given_back_from, may_use, returnable_for
from cress.core.gates.rights import takers_for
from cress.core.groups.lenders import yielding_to
from cress.core.jobs import Attempt, JobEntry
from cress.core.making_room.own_parts import OwnParts
from cress.core.passes import Decided, Pass
from cress.core.placing.vetoes import Verdict
from cress.core.starting.claims import Claims
from cress.core.starting.starts import TaskStarts
from cress.model.times import NEVER

# The number of jobs of a group that are considered for loans.
_LOOKED_AT = 100


class InLeases:
    """Step f of the cycle: starts inside leases, and decisions that free room there."""

    def __init__(self, books: Books, decided: Decided, starts: TaskStarts, claims: Claims, own_parts: OwnParts) -> None:
        self._books = books
        self._own = own_parts
        self._decided = decided
        self._starts = starts
        self._claims = claims
        self._cluster = books.cluster
        self._pool = books.pool
        self._reservations = books.reservations

    def use(self, job: JobEntry, current: Pass) -> bool:
        """Use fragments for a blocked unit; return True if something was decided.

        Borrowers return room to its workload. Else it borrows, or groups above their quotas return idle parts. Else a
        unit behind it borrows.
        """
        group, now = job.group, current.now
        state = (job.job.id, self._books.arrivals, self._pool.stamp, self._cluster.loosened, current.ahead.sign)
        tried = group.tried.fragments
        if tried.still(state, now) and not current.gates.timed:
            current.wake_at(tried.until)
            return False
        tried.until = NEVER
        if may_use(job) and self._reclaim(job):
            return True
        if self._pool.lends:
            self._reservations.heed_for(group, current.ahead, now)
            if self._lend_to(job):
                return True
        # Nobody loses anything by a loan, so it comes first.
        if may_use(job) and self._return_for(job, current):
            return True
        if group.policy.offers_more and self._start_behind(job, current):
            return True
        tried.state = state
        current.wake_at(tried.until)
        return False

    def _lend_to(self, job: JobEntry) -> bool:
        room = find_loan(self._books, job)
        if room is None:
            return False
        self._starts.start_in(job, room)
        job.group.verdict = Verdict.PLACED
        return True

    def _start_behind(self, head: JobEntry, current: Pass) -> bool:
        """Start one of the first jobs behind the head in idle parts of its own workload, or as a borrower.

        Beside the reservation of the head. Of similar jobs only the first is tried.
        """
        group = head.group
        if self._pool.lends:
            self._reservations.heed_for(group, current.ahead.beside(head), current.now)
        tried: set[tuple[int, bool]] = set()
        for job in islice(group.policy, _LOOKED_AT):
            kind = (job.shape.row, min(job.run, job.limit) <= self._pool.limit.limit)
            if job is head or kind in tried or current.refuses(job):
                continue
            tried.add(kind)
            if self._own.start(job) or (self._pool.lends and self._lend_to(job)):
                return True
        return False

    def _reclaim(self, job: JobEntry) -> bool:
        """Stop borrowers from the unit's workload if the unit then fits on one of its nodes."""
        workload = self._pool.workload(job)
        if workload is None or not workload.lent_on:
            return False
        found = find_reclaim(self._books, job, workload)
        if found is None:
            return self.have_leave(job, self.find_leaving(job, ()) or [])
        self._claims.make(job, Eviction(found.attempts, [(found.f, 1)], found.leased))
        return True

    def _return_for(self, job: JobEntry, current: Pass) -> bool:
        """Let groups above their quotas return idle parts at once, if the unit of a group that may preempt then fits.

        It must fit beside the amounts that are kept for others.
        """
        group, now = job.group, current.now
        takers = takers_for(self._books, job)
        if not takers:
            return False
        yielding = list(yielding_to(self._books.groups, group, takers, lambda node: node.above_quota))
        if not yielding:
            return False
        if self._reservations.keep_off(job, current.ahead, now):
            return False
        names = {each.group.name for each in yielding}
        returned = returnable_for(self._books, job, names)
        for fact in returned:
            self._decided.do(fact)
        if not returned:
            owned = (lease for lease in self._pool.leases.values() if lease.workload.group.name in names)
            times = (given_back_from(lease) for lease in owned)
            group.tried.fragments.until = min((time for time in times if time > now), default=NEVER)
        return bool(returned)

    def find_leaving(self, job: JobEntry, may: Container[int]) -> list[Attempt] | None:
        """Return the tasks that have to leave held leases of the workload of a blocked unit (see ``reclaim``)."""
        workload = self._pool.workload(job)
        return None if workload is None or not may_use(job) else find_leaving(self._books, job, workload, may)

    def have_leave(self, job: JobEntry, attempts: list[Attempt]) -> bool:
        """Stop the tasks that have to leave leases of the unit's workload.

        Their amounts stay in the leases, so no claim is needed. Return True if there are any.
        """
        for attempt in attempts:
            self._decided.preempt(attempt, job)
        job.group.verdict = Verdict.VICTIMS
        return bool(attempts)
