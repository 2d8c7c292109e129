"""Room for a blocked unit: from fragments (source F), or by preemption (sources G and S)."""

from __future__ import annotations

from cress.core.books import Books
from cress.core.eviction import Eviction
from cress.core.gates.rights import claims_wait, takers_for
from cress.core.jobs import Attempt, GroupState, JobEntry
from cress.core.kernels.holding import FITTING
from cress.core.making_room.evictions import Evictions
from cress.core.making_room.in_leases import InLeases
from cress.core.passes import Decided, Pass
from cress.core.placing.vetoes import Verdict
from cress.core.preemption import leave_to
from cress.core.starting.claims import Claims
from cress.model.decisions import WouldPreempt
from cress.model.times import NEVER, SECOND

# Victims for an urgent unit also depend on time: after a failed search the next one waits for this time (µs).
LOOK_AGAIN = 30 * SECOND


class RoomMaker:
    """Steps f and g of the cycle."""

    def __init__(
        self, books: Books, decided: Decided, claims: Claims, in_leases: InLeases, evictions: Evictions
    ) -> None:
        self._books = books
        self._decided = decided
        self._claims = claims
        self._in_leases = in_leases
        self._evictions = evictions
        self._cluster = books.cluster
        self._pool = books.pool
        self._reservations = books.reservations
        # Of the running tasks that started lately, after the state for which they were found: the end of the time for
        # which they are spared, the start, and the last attempt with both.
        self._spared: tuple[tuple[int, int], list[tuple[int, int, int]]] = (-1, 0), []
        # The next time at which a running task is no longer too young, after the state for which it was found.
        self._mature: tuple[tuple[int, int], int] = (-1, 0), NEVER

    def start_claimed(self, group: GroupState, current: Pass) -> bool:
        """Start a unit of a group with claims in the room that was made for it; return True if something was decided.

        With quotas for kinds of nodes, units beyond the quota wait until all groups that may take room were served. If
        one gives up its room, the pass begins again: a unit that was tried before may have that room.
        """
        if current.serving and claims_wait(group):
            return False
        return self._claims.start_first(
            group, lambda job: self._evictions.taken_back_by(job, current, claimed=True) is not None
        )

    def make_room(self, job: JobEntry, current: Pass) -> bool:
        """Make room for a blocked unit, from fragments or else by preemption; return True if something was decided."""
        if self._pool.leases and not job.group.policy.plans:
            if self._in_leases.use(job, current):
                return True
            if self._in_leases.find_leaving(job, ()) == []:
                # It starts inside a lease of its workload as soon as the stopping tasks there have ended.
                job.group.verdict = Verdict.VICTIMS
                return False
        return self._preempt_for(job, current)

    def exchange(self, job: JobEntry, bounded: str, current: Pass) -> bool:
        """Let a unit that the MaxQuota of a group above its own refuses take its guaranteed room from others in that
        group.

        They then have less in its place. Return True if something was decided.
        """
        group, now = job.group, current.now
        if group.options.preemption != "on" or job.shares_node:
            return False
        find = self._evictions.below(job, bounded)
        if find is None:
            return False
        state = (job.job.id, self._cluster.stamp, self._cluster.loosened, bounded)
        tried = group.tried.exchange
        if tried.still(state, now):
            current.wake_at(tried.until)
            return False
        eviction = find()
        if eviction is None or not self._within_round(len(eviction.attempts)):
            tried.note(state, self._next_victim_at(job, now))
            current.wake_at(tried.until)
            return False
        self._claims.make(job, eviction)
        return True

    def _preempt_for(self, job: JobEntry, current: Pass) -> bool:
        """Step g: find victims for a blocked unit, stop them, and claim their resources for the unit."""
        group, now = job.group, current.now
        mode = group.options.preemption
        if mode == "off" or not self._evictions.may_have_victims(job, current):
            return False
        within = group.options.preempt_within != "off" or self._pool.lends
        urgent = self._evictions.is_urgent(job, current)
        others = group.jobs < len(self._books.jobs)
        entitled = takers_for(self._books, job) if others else []
        if not (entitled or within or urgent):
            return False
        # It may fit into free room that is kept for units ahead.
        fits = bool(self._cluster.rows[job.shape.row, FITTING])
        sign = current.ahead.sign
        # A unit that becomes urgent looks again; no job has the id 0.
        beside = (0, *sign) if urgent else sign if within or fits else ()
        state = (job.job.id, self._cluster.stamp, self._cluster.loosened, beside)
        tried = group.tried.victims
        if tried.still(state, now):
            current.wake_at(tried.until)
            return False
        eviction = self._evictions.by_urgency(job, current) if urgent else None
        if eviction is None and entitled:
            if fits:
                self._reservations.heed_for(group, current.ahead, now)
            eviction = self._evictions.in_others(job, spares_new=True)
        if eviction is None and within:
            leaving = self._leaving_by_priority(job, current) if mode == "on" else []
            if leaving:
                return self._in_leases.have_leave(job, leaving)
            eviction = self._evictions.in_own(job, current, entitled)
        undone = eviction is not None and current.several and self._evictions.is_undone(job, eviction, current)
        if eviction is None or undone or not self._within_round(len(eviction.attempts)):
            again = now + LOOK_AGAIN if urgent or undone else NEVER
            tried.note(state, min(self._next_victim_at(job, now), again))
            current.wake_at(tried.until)
            return False
        if mode == "observe":
            tried.note(state)
            self._observe(job, eviction)
            return False
        self._claims.make(job, eviction)
        return True

    def _observe(self, job: JobEntry, eviction: Eviction) -> None:
        """Say once for each unit which victims it would have."""
        if job.would_preempt:
            return
        for victim in eviction.attempts:
            name = self._cluster.names[victim.node]
            self._decided.do(WouldPreempt(victim.id, victim.job.job.id, victim.task, name, job.job.id))

    def _leaving_by_priority(self, job: JobEntry, current: Pass) -> list[Attempt]:
        """Return the tasks of lower priority that must leave held leases of the unit's workload, so that the unit fits
        inside.
        """
        workload = self._pool.workload(job)
        if workload is None or not any(lease.is_held for lease in workload.leases.values()):
            return []
        if self._reservations.keep_off(job, current.ahead, current.now):
            return []
        choices = (self._in_leases.find_leaving(job, may) for may in leave_to(self._books, job))
        found = next((tasks for tasks in choices if tasks), [])
        return found if self._within_round(len(found)) else []

    def _within_round(self, number: int) -> bool:
        """Return True if ``number`` more victims may stop now: up to a share of the running tasks, but always those of
        one unit.
        """
        books = self._books
        under_way = sum(not attempt.job.cancelled for attempt in books.leaving.values())
        return not under_way or under_way + number <= books.options.max_per_round * len(books.attempts)

    def _spared_until(self, job: JobEntry, now: int) -> int:
        """Return the first time (µs) at which a task that is spared a unit of a job now is spared no more."""
        books = self._books
        state = (books.pass_number, len(self._decided.items))
        if self._spared[0] != state:
            longest = books.groups.longest_grace
            lasts: dict[tuple[int, int], int] = {}
            for attempt in books.attempts.values():
                if attempt.start + longest > now and (until := attempt.start + attempt.start_grace) > now:
                    key = until, attempt.start
                    lasts[key] = max(lasts.get(key, 0), attempt.id)
            self._spared = state, sorted((until, start, last) for (until, start), last in lasts.items())
        known = (job.submitted, job.first_attempt)
        return next((until for until, start, last in self._spared[1] if known <= (start, last)), NEVER)

    def _next_victim_at(self, job: JobEntry, now: int) -> int:
        """Return the time (µs) at which the next running task has run long enough to be a victim for a unit of a
        job.
        """
        own, times = job.group, [self._spared_until(job, now), self._mature_at(now)]
        if own.options.preempt_within != "off":
            keeps = (attempt.keeps_until for attempt in own.attempts.values() if attempt.due)
            times += [time for time in keeps if time > now]
        return min(times)

    def _mature_at(self, now: int) -> int:
        """Return the time (µs) at which the next running task has run long enough to be a victim for any unit.

        It is the same for each of thousands of blocked units of a pass.
        """
        books = self._books
        state = (books.pass_number, len(self._decided.items))
        if self._mature[0] != state:
            times = [
                attempt.start + group.options.min_runtime
                for group in books.groups
                if group.options.min_runtime
                for attempt in group.attempts.values()
            ]
            times += [
                holder.start + holder.job.job.min_time + holder.job.group.options.min_runtime
                for holder in self._pool.holders()
                if holder.job.job.min_time
            ]
            self._mature = state, min((time for time in times if time > now), default=NEVER)
        return self._mature[1]
