"""Room for a blocked unit: from fragments (source F), or by preemption (sources G and S)."""

from __future__ import annotations

from collections.abc import Callable, Container
from datetime import UTC, tzinfo
from itertools import islice, takewhile

from cress.core.fragments.reclaim import find_leaving, find_reclaim
from cress.core.fragments.search import awaited_on, find_loan, given_back_from, may_use, own_room, returnable_for
from cress.core.future.reservations import Ahead
from cress.core.gates.rights import is_within_quota, takers_for
from cress.core.groups.guarantees import charge_of_tasks
from cress.core.groups.lenders import Taker, yielding_to
from cress.core.jobs import Attempt, GroupState, JobEntry
from cress.core.kernels.holding import FITTING, NONE
from cress.core.placements import Placements
from cress.core.placing.vetoes import Verdict
from cress.core.preemption import (
    Eviction,
    find_eviction,
    find_eviction_by_urgency,
    find_eviction_in_workload,
    find_eviction_within,
    find_exchange,
    leave_to,
)
from cress.core.tree.amounts import add_amounts
from cress.model.decisions import (
    LeaseReduced,
    Preempt,
    WouldPreempt,
)
from cress.model.group import SchedPolicy
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.times import NEVER, SECOND

# Victims for an urgent unit also depend on time: after a failed search the next one waits for this time (µs).
LOOK_AGAIN = 30 * SECOND
# The number of jobs of a group that are considered for loans.
_LOOKED_AT = 100


class MakingRoom(Placements):
    """Steps f and g of the cycle."""

    def __init__(self, dimensions: Dimensions, options: Options, zone: tzinfo = UTC) -> None:
        super().__init__(dimensions, options, zone)
        # The blocked units of this pass that may take room from other groups, but found none.
        self.owed: list[JobEntry] = []
        # The result of the last ``taken_back_by``: its state, and the unit that would take a start back.
        self._taken_back: tuple[object, JobEntry | None] = (), None

    def _make_room(self, group: GroupState, job: JobEntry, ahead: Ahead, now: int) -> bool:
        """Make room for the blocked unit of the group, from fragments or else by preemption; return True if something
        was decided.
        """
        if self.pool.leases and not group.policy.plans:
            if self._use_fragments(group, job, ahead, now):
                return True
            if self._find_leaving(job, ()) == []:
                # It starts inside a lease of its workload as soon as the stopping tasks there have ended.
                group.verdict = Verdict.VICTIMS
                return False
        return self._preempt_for(group, job, ahead, now)

    def _start_inside_leases(self, now: int) -> bool:
        """Start a task inside a lease, in any order of groups.

        Other tasks left leases of its workload for it, or its group cools off.
        """
        for workload in self.pool.workloads.values():
            for f in workload.awaited:
                job = awaited_on(self, workload, f)
                if job is not None and not self._passed_over(job) and self._start_in_own(job):
                    return True
        return any(self._start_while_cooling(group, now) for group in self.groups)

    def _start_while_cooling(self, group: GroupState, now: int) -> bool:
        """Start one of the first jobs of a group that cools off, inside the leases that the group holds.

        It takes no room from others.
        """
        if group.kept.preempted_at is None or now >= group.cools_until():
            return False
        workloads = [each for (name, _), each in self.pool.workloads.items() if name == group.name and each.idle_on]
        if not any(lease.is_held for each in workloads for lease in each.leases.values()):
            return False
        tried: set[tuple[str, int]] = set()
        for job in islice(group.policy, _LOOKED_AT):
            kind = (job.workload, job.shape.row)
            workload = self.pool.workload(job)
            if kind in tried or workload not in workloads or not may_use(job) or self._passed_over(job):
                continue
            tried.add(kind)
            room = own_room(self, job, workload, held=True)
            if room is not None:
                self._start(job, job.upcoming, room.f, NONE, room=room)
                group.verdict = Verdict.PLACED
                return True
        return False

    def _find_leaving(self, job: JobEntry, may: Container[int]) -> list[Attempt] | None:
        """Return the tasks that have to leave held leases of the workload of a blocked unit (see ``find_leaving``)."""
        workload = self.pool.workload(job)
        return None if workload is None or not may_use(job) else find_leaving(self, job, workload, may)

    def _have_leave(self, job: JobEntry, attempts: list[Attempt]) -> bool:
        """Stop the tasks that have to leave leases of the unit's workload.

        Their amounts stay in the leases, so no claim is needed. Return True if there are any.
        """
        for each in attempts:
            name = self.cluster.names[each.node]
            self._do(Preempt(each.id, each.job.job.id, each.task, name, self._grace_of(each), job.job.id))
        job.group.verdict = Verdict.VICTIMS
        return bool(attempts)

    def _start_in_own(self, job: JobEntry) -> bool:
        """Start the next task of a job in idle parts of leases of its own workload, if they have room."""
        workload = self.pool.workload(job)
        if workload is None or not workload.idle_on or not may_use(job):
            return False
        asks = job.shape.match is not None
        sign = (workload.stamp, job.job.id, self.cluster.loosened, self.cluster.stamp if asks else 0)
        if sign == workload.no_room:
            return False
        room = own_room(self, job, workload)
        if room is None:
            workload.no_room = sign
            return False
        self._start(job, job.upcoming, room.f, NONE, room=room)
        job.group.verdict = Verdict.PLACED
        return True

    def _use_fragments(self, group: GroupState, job: JobEntry, ahead: Ahead, now: int) -> bool:
        """Step f: use fragments for the blocked unit; return True if something was decided.

        Borrowers return room to its workload, or groups above their quotas return idle parts. Else it borrows, or a
        unit behind it does.
        """
        state = (job.job.id, self.arrivals, self.pool.stamp, self.cluster.loosened, ahead.sign)
        tried = group.tried.fragments
        if tried.still(state, now) and not self.gates.timed:
            self._wake_at(tried.until)
            return False
        tried.until = NEVER
        if may_use(job) and (self._reclaim(job, now) or self._return_for(group, job, ahead, now)):
            return True
        if self.pool.lends:
            self.reservations.heed(self._heeded(group, ahead, now), now)
            if self._lend_to(job):
                return True
        if group.policy.offers_more and self._start_behind(group, job, ahead, now):
            return True
        tried.state = state
        self._wake_at(tried.until)
        return False

    def _lend_to(self, job: JobEntry) -> bool:
        room = find_loan(self, job)
        if room is None:
            return False
        self._start(job, job.upcoming, room.f, NONE, room=room)
        job.group.verdict = Verdict.PLACED
        return True

    def _start_behind(self, group: GroupState, head: JobEntry, ahead: Ahead, now: int) -> bool:
        """Start one of the first jobs behind the head in idle parts of its own workload, or as a borrower.

        Beside the reservation of the head. Of similar jobs only the first is tried.
        """
        if self.pool.lends:
            self.reservations.heed(self._heeded(group, ahead.beside(head), now), now)
        tried: set[tuple[int, bool]] = set()
        for job in islice(group.policy, _LOOKED_AT):
            kind = (job.shape.row, min(job.run, job.limit) <= self.pool.limit.limit)
            if job is head or kind in tried or self._passed_over(job):
                continue
            tried.add(kind)
            if self._start_in_own(job) or (self.pool.lends and self._lend_to(job)):
                return True
        return False

    def _reclaim(self, job: JobEntry, now: int) -> bool:
        """Stop borrowers from the unit's workload if the unit then fits on one of its nodes."""
        workload = self.pool.workload(job)
        if workload is None or not workload.lent_on:
            return False
        found = find_reclaim(self, job, workload)
        if found is None:
            return self._have_leave(job, self._find_leaving(job, ()) or [])
        self._claim(job, Eviction(found.attempts, [(found.f, 1)], found.leased), now)
        job.group.verdict = Verdict.VICTIMS
        return True

    def _return_for(self, group: GroupState, job: JobEntry, ahead: Ahead, now: int) -> bool:
        """Let groups above their quotas return idle parts at once, if the unit of a group that may preempt then fits.

        It must fit beside the amounts that are kept for others.
        """
        takers = takers_for(self, job, 1)
        if not takers:
            return False
        yielding = list(yielding_to(self.groups, group, takers, lambda node: node.above_quota))
        if not yielding:
            return False
        self.reservations.heed(self._heeded(group, ahead, now), now)
        if self._must_wait(group, job):
            return False
        leases = returnable_for(self, job, {each.group.name for each in yielding})
        for lease in leases:
            self._do(LeaseReduced(lease))
        if not leases:
            names = {each.group.name for each in yielding}
            owned = (lease for lease in self.pool.leases.values() if lease.workload.group.name in names)
            times = (given_back_from(lease) for lease in owned)
            group.tried.fragments.until = min((time for time in times if time > now), default=NEVER)
        return bool(leases)

    def _preempt_for(self, group: GroupState, job: JobEntry, ahead: Ahead, now: int) -> bool:
        """Step g: find victims for the group's blocked unit, stop them, and claim their resources for the unit."""
        mode = group.options.preemption
        if mode == "off" or not self._may_preempt(job):
            return False
        within = group.options.preempt_within != "off" or self.pool.lends
        urgent = self._is_urgent(group, job, now)
        entitled = takers_for(self, job, job.shape.size) if group.jobs < len(self.jobs) else []
        if not (entitled or within or urgent):
            return False
        # It may fit into free room that is kept for units ahead.
        fits = bool(self.cluster.rows[job.shape.row, FITTING])
        # A unit that becomes urgent looks again; no job has the id 0.
        beside = (0, *ahead.sign) if urgent else ahead.sign if within or fits else ()
        state = (job.job.id, self.cluster.stamp, self.cluster.loosened, beside)
        tried = group.tried.victims
        if tried.still(state, now):
            self._wake_at(tried.until)
            return False
        eviction = self._evict_by_urgency(group, job, ahead, now) if urgent else None
        if eviction is None and entitled:
            if fits:
                self.reservations.heed(self._heeded(group, ahead, now), now)
            eviction = self._evict(job, lambda takers, to_quota: find_eviction(self, job, takers, to_quota=to_quota))
        if eviction is None and within:
            leaving = self._leaving_by_priority(group, job, ahead, now) if mode == "on" else []
            if leaving:
                return self._have_leave(job, leaving)
            eviction = self._evict_within(group, job, ahead, now, entitled)
        if eviction is None or not self._within_round(len(eviction.attempts)):
            tried.note(state, min(self._next_victim_at(group, now), now + LOOK_AGAIN if urgent else NEVER))
            self._wake_at(tried.until)
            return False
        if mode == "observe":
            tried.note(state)
            if not job.would_preempt:
                for victim in eviction.attempts:
                    name = self.cluster.names[victim.node]
                    self._do(WouldPreempt(victim.id, victim.job.job.id, victim.task, name, job.job.id))
            return False
        self._claim(job, eviction, now)
        group.verdict = Verdict.VICTIMS
        return True

    def _may_preempt(self, job: JobEntry) -> bool:
        """Return True if a unit may have victims.

        A unit of several jobs may not, except for a single leader that starts beside its companions. Neither may a
        unit whose claim was made and dropped at this time: its victims would start and be stopped again without end.
        """
        if self.dropped_at.get(job.job.id) == self.now:
            self._wake_at(self.now + SECOND)
            return False
        return not (job.companions and job.unit() and (job.upcoming not in job.foreseen.homes or job.shape.wants.parts))

    def _exchange(self, group: GroupState, job: JobEntry, bounded: str, now: int) -> bool:
        """Let a unit that the MaxQuota of a group above its own refuses take its guaranteed room from others in that
        group.

        They then have less in its place. Return True if something was decided.
        """
        if group.options.preemption != "on" or job.companions:
            return False
        below = list(takewhile(lambda node: node.name != bounded, group.path()))
        if not any(taker.group in below for taker in takers_for(self, job, job.shape.size)):
            return False
        state = (job.job.id, self.cluster.stamp, self.cluster.loosened, bounded)
        tried = group.tried.exchange
        if tried.still(state, now):
            self._wake_at(tried.until)
            return False

        def within_bounds(takers: list[Taker], to_quota: bool) -> Eviction | None:
            found = find_exchange(self, job, [each for each in takers if each.group in below], to_quota=to_quota)
            return found if found is not None and self._keeps_bounds(job, found) else None

        eviction = self._evict(job, within_bounds)
        if eviction is None or not self._within_round(len(eviction.attempts)):
            tried.note(state, self._next_victim_at(group, now))
            self._wake_at(tried.until)
            return False
        self._claim(job, eviction, now)
        group.verdict = Verdict.VICTIMS
        return True

    def _keeps_bounds(self, job: JobEntry, eviction: Eviction) -> bool:
        """Return True if every group of a unit keeps to its MaxQuota with the unit in place of its victims."""
        charge = self.charge_of(job, eviction.nodes)
        for node in job.group.path():
            lost = [0] * len(charge)
            for victim in eviction.attempts:
                if node in victim.job.group.path():
                    add_amounts(lost, self.charge_ending_with(victim))
            amounts = zip(node.used, node.claimed, node.leaving, lost, charge, node.most or (), strict=False)
            if any(
                used + claimed - leaving - less + more > most
                for used, claimed, leaving, less, more, most in amounts
                if more
            ):
                return False
        return True

    def _evict(self, job: JobEntry, find: Callable[[list[Taker], bool], Eviction | None]) -> Eviction | None:
        """Return victims for a unit, from groups above quota × B.

        If these make too little room: from groups furthest above their quota, while the groups of the unit stay within
        theirs.
        """
        for to_quota in (False, True):
            takers = takers_for(self, job, job.shape.size, to_quota=to_quota)
            found = find(takers, to_quota) if takers else None
            # On these nodes the unit may cost more than on the cheapest ones.
            if found is not None and self._may_take(job, found):
                return found
        return None

    def _may_take(self, job: JobEntry, eviction: Eviction) -> bool:
        """Return True if the groups for which others yield may take the unit on these nodes, less its victims in its
        own group.
        """
        charge = self.charge_of(job, eviction.nodes)
        for victim in eviction.attempts:
            if victim.job.group is job.group:
                charge = tuple(map(int.__sub__, charge, self.charge_ending_with(victim)))
        return all(taker.may_take(charge) for taker in eviction.takers)

    def _is_urgent(self, group: GroupState, job: JobEntry, now: int) -> bool:
        """Return True if a blocked unit may take room from less urgent tasks (source S).

        If not yet, wake up when it may.
        """
        if group.spec.policy is not SchedPolicy.URGENCY or job.deadline >= NEVER:
            return False
        threshold = group.options.urgency_threshold
        if job.urgency(now) > threshold:
            return True
        due = job.urgent_at(threshold)
        if due > now:
            self._wake_at(due)
        return False

    def _evict_by_urgency(self, group: GroupState, job: JobEntry, ahead: Ahead, now: int) -> Eviction | None:
        """Return less urgent victims, beside the reservations of the units ahead.

        They come from groups above their quota if the unit's group is not above its own, and then from its own group.
        """
        self.reservations.heed(self._heeded(group, ahead, now), now)
        if self._must_wait(group, job):
            return None
        charge = charge_of_tasks(job, job.shape.size, self.cluster)
        others = group.jobs < len(self.jobs)
        free = [each for each in group.path() if others and not each.claims_above_quota]
        takers = [Taker(each, to_quota=False) for each in free if each.may_take(charge)]
        eviction = find_eviction_by_urgency(self, job, takers)
        if eviction is None or all(victim.job.group is group for victim in eviction.attempts):
            return eviction
        return eviction if self._may_take(job, eviction) else find_eviction_by_urgency(self, job, [])

    def _evict_within(
        self, group: GroupState, job: JobEntry, ahead: Ahead, now: int, entitled: list[Taker]
    ) -> Eviction | None:
        """Return victims of lower priority in the unit's own group, beside the reservations of the units ahead."""
        self.reservations.heed(self._heeded(group, ahead, now), now)
        if self._must_wait(group, job):
            return None
        if group.options.preempt_within != "off":

            def with_own(takers: list[Taker], to_quota: bool) -> Eviction | None:
                return find_eviction_within(self, job, takers, to_quota=to_quota)

            return (self._evict(job, with_own) if entitled else None) or find_eviction_within(self, job, [])
        return find_eviction_in_workload(self, job)

    def _is_owed(self, group: GroupState, job: JobEntry, now: int) -> bool:
        """Return True if a unit may take room from other groups: room guaranteed to its group, or room for an urgent
        unit.
        """
        if group.options.preemption != "on" or not self._may_preempt(job):
            return False
        return bool(takers_for(self, job, job.shape.size)) or self._may_take_as_urgent(group, job, now)

    def _may_take_as_urgent(self, group: GroupState, job: JobEntry, now: int) -> bool:
        return (
            self._is_urgent(group, job, now)
            and not group.claims_above_quota
            and group.may_take(charge_of_tasks(job, job.shape.size, self.cluster))
        )

    def taken_back_by(self, job: JobEntry) -> JobEntry | None:
        """Return a blocked unit of this pass that would find victims once ``job`` has started above the quota of its
        group.

        Either this start or an older task would then be stopped at once. ``None`` if there is no such unit.
        """
        if not self.owed or is_within_quota(self, job):
            return None
        group, charge = job.group, charge_of_tasks(job, job.shape.size, self.cluster)
        owed = [each for each in self.owed if each.group is not group]
        state = (self.pass_number, self.cluster.stamp, self.cluster.loosened, group.name, charge, len(owed))
        if self._taken_back[0] != state:
            self._taken_back = (
                state,
                next((each for each in owed if self._would_find_victims(each, group, charge)), None),
            )
        return self._taken_back[1]

    def _would_find_victims(self, owed: JobEntry, group: GroupState, charge: tuple[int, ...]) -> bool:
        """Return True if a unit would find victims if the use of a group grew by ``charge``.

        The room of that use is still counted as free.
        """
        if self.fit.copies_free(owed.shape) >= owed.shape.size:
            # It has room, but reservations for others keep it out; without the room it would look for victims.
            return True
        nodes = list(group.path())
        for node in nodes:
            add_amounts(node.used, charge)
        try:
            found = self._evict(owed, lambda takers, to_quota: find_eviction(self, owed, takers, to_quota=to_quota))
            if found is None and self._is_urgent(owed.group, owed, self.now):
                beside = [Taker(node, to_quota=False) for node in owed.group.path() if not node.claims_above_quota]
                found = find_eviction_by_urgency(self, owed, beside)
            return found is not None
        finally:
            for node in nodes:
                add_amounts(node.used, tuple(-amount for amount in charge))

    def _leaving_by_priority(self, group: GroupState, job: JobEntry, ahead: Ahead, now: int) -> list[Attempt]:
        """Return the tasks of lower priority that must leave held leases of the unit's workload, so that the unit fits
        inside.
        """
        workload = self.pool.workload(job)
        if workload is None or not any(lease.is_held for lease in workload.leases.values()):
            return []
        self.reservations.heed(self._heeded(group, ahead, now), now)
        if self._must_wait(group, job):
            return []
        found = self._find_leaving(job, leave_to(self, job)) or []
        return found if self._within_round(len(found)) else []

    def _within_round(self, number: int) -> bool:
        """Return True if ``number`` more victims may stop now: up to a share of the running tasks, but always those of
        one unit.
        """
        under_way = sum(not attempt.job.cancelled for attempt in self.leaving.values())
        return not under_way or under_way + number <= self.options.max_per_round * len(self.attempts)

    def _next_victim_at(self, own: GroupState, now: int) -> int:
        """Return the time (µs) at which the next running task has run long enough to be a victim for a unit of group
        ``own``.
        """
        times = [
            attempt.start + group.options.min_runtime
            for group in self.groups
            if group.options.min_runtime
            for attempt in group.attempts.values()
        ]
        if own.options.preempt_within != "off":
            times += [attempt.keeps_until for attempt in own.attempts.values() if attempt.due]
        holders = [lease.holder for lease in self.pool.leases.values() if lease.holder is not None]
        times += [
            each.start + each.job.job.min_time + each.job.group.options.min_runtime
            for each in holders
            if each.job.job.min_time
        ]
        return min((time for time in times if time > now), default=NEVER)
