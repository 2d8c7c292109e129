"""The cycle: ``decide`` runs passes (source G, figure 3); a pass makes one proposal and applies it as a fact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, tzinfo

from cress.core.advance.clearing import cleared, replaced
from cress.core.combined_restarts import changed_units
from cress.core.future.reservations import Ahead, drain_due
from cress.core.gates.rights import is_within_quota
from cress.core.groups.guarantees import may_be_within_quota
from cress.core.groups.running_limits import head_of, within
from cress.core.groups.urgency_order import by_deadline, by_urgency
from cress.core.jobs import ClaimEntry, GroupState, JobEntry, Rights
from cress.core.kernels.holding import FITTING
from cress.core.making_room import MakingRoom
from cress.core.placing.vetoes import Verdict
from cress.core.tree.kinds import is_guaranteed
from cress.core.tree.tree import below_quota_against
from cress.core.unit_homes import choose_homes
from cress.model.decisions import (
    Claim,
    Decision,
    Decisions,
    LeaseReduced,
    Start,
    Stop,
)
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.times import NEVER


class Cycle(MakingRoom):
    """The ledger and the choice of the next decision: a proposal only reads the ledger, and is then applied."""

    def __init__(self, dimensions: Dimensions, options: Options, zone: tzinfo = UTC) -> None:
        super().__init__(dimensions, options, zone)
        # The unit that ended the last pass (``quota_only``), or that held other groups to their quota.
        self.last_blocked: JobEntry | None = None
        self._expired_at = -1
        # The number of the last pass that served the groups which may take room.
        self._served = -1
        # True if units take turns in this pass: they are in several queues, or in one queue whose order changes.
        self._takes_turns = False
        # Decisions to apply first: moves of running tasks, as claims and stops.
        self._proposed: list[Decision] = []
        self._order = {"urgency": by_urgency, "deadline": by_deadline}.get(options.order)

    def decide(self, now: int, budget: int = 2**31) -> Decisions:
        """Run passes until one places nothing, at most ``budget`` of them; return the decisions in order."""
        self.advance(now)
        decided: list[Decision] = []
        self._decided = decided
        for fact in self._proposed:
            self._do(fact)
        self._proposed = []
        if self.to_stop:
            self._stop_attempts()
        if self.advance_reservations:
            self._keep_reservations()
        if self.claims:
            self._start_moved()
        if self.pool.waiting:
            for lease in self.pool.due(now):
                self._do(LeaseReduced(lease))
        if self.units_in_doubt:
            for changed in changed_units(self):
                self._do(changed)
            self.units_in_doubt = False
        if now != self._expired_at:
            # Once for each time, because decisions must not depend on the number of calls.
            self.reservations.expire(now)
            self._expired_at = now
        more = True
        while more and budget > 0:
            budget -= 1
            more = self._pass(now)
        if self.to_stop:
            # A decision may have ended a lease.
            self._stop_attempts()
        self.gates.rest()
        if self.live:
            self.matching.flush()
        return Decisions(decided, more=more)

    def propose(self, facts: Iterable[Decision]) -> None:
        """Let the next ``decide`` begin with these decisions, which were checked against the present state."""
        self._proposed += facts

    def _start_moved(self) -> None:
        """Start the moved tasks whose attempts have ended.

        They wait for no turn, because they take no more than they had.
        """
        if self.live:
            self._follow()
        for claim in list(self.claims):
            if claim.moved is not None and claim.tasks:
                self._start_claimed(claim)

    def _keep_reservations(self) -> None:
        """Replace lost nodes of advance reservations, and clear the nodes of those in force."""
        for moved in replaced(self):
            self._do(moved)
        for fact in cleared(self):
            self._do(fact)

    def _stop_attempts(self) -> None:
        ending = self.advance_reservations.ending
        for number, due in list(self.to_stop.items()):
            attempt = self.attempts[number]
            # A borrower returns its loan to the owner.
            grace = self._grace_of(attempt) if attempt.parts else attempt.job.job.stop_grace
            end = due + grace
            name, of = self.cluster.names[attempt.node], ending.get(number, "")
            self._do(Stop(number, attempt.job.job.id, attempt.task, name, end, of))

    def _pass(self, now: int) -> bool:
        """Run one pass of the cycle: place one unit, or make room for one. Return True if it did.

        1. nothing was tried yet;          2. groups in the order of used / quota;
        3. for each group in that order:
           a. while it cools off and others wait for room, it is offered nothing beyond its quota;
           b. skip it if none of its jobs waits (then it has no place in the order);
           c. behind a blocked unit, only groups below their quota go on (``quota_only``), or every group beside the
              reservations of the units ahead (``reserve``);
           d. its policy offers units;     e. the first unit that fits starts, and the pass ends;
           f. else fragments may make room for the blocked unit;
           g. else it may take room from other groups, or from lower priorities of its own, which ends the pass; a unit
              passed over for the MaxQuota of an ancestor group may take room from others in that group;
           h. else it is one more blocked unit ahead of the next group.
        4. nothing placed: wait for an event.
        """
        if self.live:
            self._follow()
        self.wake = NEVER
        self.last_blocked = None
        self.owed.clear()
        ahead = Ahead()
        self.pass_number += 1
        self.gates.guarantees.begin_pass()
        self._follow_heads(ahead)
        if self.preempted != []:
            self.gates.hold_cooling_groups()
        groups = self.groups
        groups.tree.settle()
        order = groups.tree.order
        several = bool(order) and groups.several_wait()
        self.gates.begin_pass(several=several)
        if self._start_before_others(ahead, now):
            return True
        if not order:
            return False
        first = groups.first()
        # A single queue keeps the turn of its first unit anyway, unless other units of the queue may take its room.
        takes_turns = several or first.policy.overtakes or first.options.preempt_within != "off"
        self._takes_turns = takes_turns
        blocked: list[JobEntry] = []
        if several and self._serve_owed(ahead, blocked, now):
            return True
        for group in self._groups_in_order(now) if several else (first,):
            group.visited = self.pass_number
            if blocked and self._is_held_to_quota(group, blocked):
                if self.others_may_be_below_quota():
                    continue
                return False
            if self._consider(group, ahead, blocked, now):
                return True
        return False

    def _consider(self, group: GroupState, ahead: Ahead, blocked: list[JobEntry], now: int) -> bool:
        """Run steps d to h for one group; return True if something was decided.

        A blocked unit is added to ``blocked``, and may be put ``ahead`` of others.
        """
        group.beyond = None
        if self._offer(group, ahead, now):
            return True
        if group.beyond is not None and self._exchange(group, *group.beyond, now):
            return True
        offered = group.offered
        if offered is None:
            return False
        blocked.append(offered)
        if self._make_room(group, offered, ahead, now):
            return True
        # Only units of other groups must check whether they would be stopped for this one.
        if self.groups.several_wait() and offered not in self.owed and self._is_owed(group, offered, now):
            self.owed.append(offered)
        if self._may_be_ahead(offered, ahead, now):
            ahead.append(offered)
            if self.leases.endless:
                self._maybe_drain(offered, ahead, now)
        return False

    def _serve_owed(self, ahead: Ahead, blocked: list[JobEntry], now: int) -> bool:
        """Serve the groups that may take room, before other groups start anything above their quotas.

        Return True if something was decided. Without this, the next step would take back what those groups started.
        Units within quotas come first, because room beyond a quota can be taken too.
        """
        if self._served == self.pass_number:
            return False
        self._served = self.pass_number
        self._takes_turns = True
        inner = bool(self.groups.tree.inner)
        for rights in (Rights.QUOTA, Rights.OWN, Rights.ABOVE) if inner else (Rights.QUOTA, Rights.OWN):
            for group in self._groups_in_order(now):
                if self._may_be_owed(group, rights, now):
                    group.visited, before = self.pass_number, group.held_to
                    group.held_to = rights
                    head, begun = group.policy.head(), len(self._decided)
                    decided = self._consider(group, ahead, blocked, now)
                    group.held_to = before
                    if decided:
                        others_first = head is not None and head.queued and not _concern(head, self._decided[begun:])
                        if head is not None and others_first and may_be_within_quota(head, self.cluster):
                            # It would never be the first blocked unit of a pass.
                            self._wake_at(self.turns.note(head, now))
                        return True
                elif not group.below_quota and self._order is None and self.groups.are_in_order_of_need:
                    # All groups behind it are above their quotas.
                    break
        return False

    def _may_be_owed(self, group: GroupState, rights: Rights, now: int) -> bool:
        """Return True if a group may take room for some unit, before the unit itself is examined."""
        if group.options.preemption != "on":
            return False
        if group.kinds is not None or group.needs_preemption():
            return True
        if rights is Rights.ABOVE and any(node.needs_preemption() for node in group.path()):
            return True
        head = head_of(group)
        return head is not None and self._may_take_as_urgent(group, head, now)

    def others_may_be_below_quota(self) -> bool:
        """Return True if groups below their quotas may come after a group above its own.

        So it is in a tree, where deadlines order the groups, and where quotas name kinds of nodes.
        """
        return bool(self.groups.tree.inner) or self._order is not None or bool(self.groups.kinds)

    def _is_held_to_quota(self, group: GroupState, blocked: list[JobEntry]) -> bool:
        """Return True if blocked units let only groups below their quotas go on, and this group is above its own."""
        if not self._quota_only:
            return False
        head = head_of(group) if self.groups.kinds else None
        shape = None if head is None else head.shape
        # In a flat list every blocked unit gives the same answer.
        behind = next((each for each in reversed(blocked) if not below_quota_against(group, each.group, shape)), None)
        if behind is None:
            return False
        group.visited = 0
        group.held_behind = self.last_blocked = behind
        return True

    def _groups_in_order(self, now: int) -> Iterable[GroupState]:
        if self._order is None:
            found = self.groups.in_order()
            return self._owed_first(found) if self.groups.kinds and not self.groups.tree.inner else found
        groups, change = self._order(self.groups.in_order(), now)
        self._wake_at(change)
        return groups

    def _owed_first(self, groups: Iterable[GroupState]) -> list[GroupState]:
        """Return the groups, those first whose next unit is guaranteed.

        Where quotas name kinds of nodes, used / quota alone does not give this order.
        """
        heads = ((group, head_of(group)) for group in groups)
        owed = [(head is not None and not is_guaranteed(group, head.shape), group) for group, head in heads]
        return [group for _, group in sorted(owed, key=lambda each: each[0])]

    def _follow_heads(self, ahead: Ahead) -> None:
        """Update everything that depends on overdue heads and on moving units."""
        if self.groups.timed:
            self._follow_overdue()
        if self.rejoining:
            self._follow_units(ahead)

    def _follow_overdue(self) -> None:
        """Let limits count while the head of a group is overdue."""
        overdue = False
        for group in self.groups.timed:
            late = group.policy.head_is_overdue()
            # A unit kept back by a limit of its group is not late because of a wrong estimate.
            overdue = overdue or (late and (not group.counters or head_of(group) is group.policy.head()))
        self.count_limits(overdue)

    def _may_be_ahead(self, blocked: JobEntry, ahead: Ahead, now: int) -> bool:
        """Return True if a blocked unit may delay others; note the turn of the first such unit, where units take
        turns.
        """
        if not self._takes_turns:
            return True
        if self.gates.guarantees.find(blocked) is not None:
            return False
        if not ahead.jobs:
            due = self.turns.note(blocked, now)
            if due > now:
                self._wake_at(due)
        return True

    def _start_before_others(self, ahead: Ahead, now: int) -> bool:
        """Start a unit in the advance reservation of its group or in its leases, in any order of groups, or the due
        unit.

        Return True if one started.
        """
        if self.advance_reservations:
            for group in self._groups_in_order(now):
                if group.asker and self._start_inside(group, now):
                    return True
        if self.pool.leases and self._start_inside_leases(now):
            return True
        return bool(self.turns.since) and self._start_due(ahead, now)

    def _start_due(self, ahead: Ahead, now: int) -> bool:
        """Start the due unit if it fits, else put it ahead of all others; return True if it started."""
        for job in self.turns.due(self.jobs, now):
            group = job.group
            gates = self.gates
            if self._passed_over(job) or gates.guarantees.find(job) is not None:
                continue
            # Only other groups can take the room of a group beyond its quota. Where quotas name kinds of nodes, another
            # kind may be owed to the group.
            if group.jobs < len(self.jobs) and group.kinds is None and may_be_within_quota(job, self.cluster):
                gates.keep_quota_for(job)
            several = self.groups.several_wait()
            if several and not is_within_quota(self, job) and self._serve_owed(ahead, [], now):
                return True
            if not group.policy.plans:
                self._due_starts = True
                started = self._try(job, ahead, now)
                self._due_starts = False
                if started:
                    return True
            ahead.append(job)
            return False
        return False

    def _is_planned(self, job: JobEntry) -> bool:
        """Return True if a unit may have a planned start.

        No gate refuses it. If the guarantees of others forbid its start, it must have room now.
        """
        if self._passed_over(job):
            return False
        return self.gates.guarantees.find(job) is None or self.fit.copies_free(job.shape) >= job.shape.size

    def _follow_units(self, ahead: Ahead) -> None:
        """Choose the homes of units, and keep the room of units whose companions are being stopped."""
        choose_homes(self)
        for job in self.rejoining.values():
            if job.moving and job.queued:
                ahead.append(job)

    def _follow(self) -> None:
        """Update jobs that depend on the load, and clauses and claims, before a pass."""
        if self.relaxing.by_load:
            self.relaxing.follow(self.balance.utilisation(), self.look_at)
        self.matching.flush()
        for claim in [claim for claim in self.claims if self._is_void(claim)]:
            self._drop(claim)

    def _offer(self, group: GroupState, ahead: Ahead, now: int) -> bool:
        """Steps d and e: start the first unit of the group that fits; return True if one started.

        Else ``group.offered`` is the blocked unit, or ``None`` if every unit was passed over.
        """
        if group.claims and self._start_claim(group, now):
            return True
        group.offered = None
        policy = group.policy
        if policy.plans:
            return self._offer_planned(group, ahead, now)
        head, free = policy.head(), None
        if head is not None and self._passed_over(head):
            free = self._free(group, head)
            head = next(free, None)
        if head is None:
            return False
        # The due unit was already tried.
        due = ahead.jobs[0] if ahead.jobs else None
        if head is not due and self._try(head, ahead, now):
            return True
        if self._waits_for_no_room(head, ahead, now):
            if self._make_room(group, head, ahead, now):
                return True
            started, head = self._offer_behind(head, free or self._free(group, head), ahead, due, now)
            if started or head is None:
                return started
        group.offered = head
        if not policy.offers_more:
            return False
        beside = ahead.beside(head)
        # The balance gate changes its answer with time, so no failure is remembered.
        memo = None if self.gates.timed else (self.cluster.loosened, beside.sign)
        for job in policy.later(head, memo):
            if job is due or job is head or self._passed_over(job):
                continue
            if self._try(job, beside, now):
                return True
        group.offered = head
        return False

    def _offer_behind(
        self, first: JobEntry, behind: Iterator[JobEntry], ahead: Ahead, due: JobEntry | None, now: int
    ) -> tuple[bool, JobEntry | None]:
        """Start the next unit behind ``first`` that fits, as if ``first`` did not wait.

        Return True if one started; else False and the unit that waits for room, or ``None``.
        """
        failed = {first.shape: first.duration}
        for job in behind:
            # A unit with the shape and at least the duration of a failed one fails as well.
            if job is first or (job.shape in failed and failed[job.shape] <= job.duration):
                continue
            if job is not due and self._try(job, ahead, now):
                return True, None
            if not self._waits_for_no_room(job, ahead, now):
                return False, job
            failed[job.shape] = job.duration
        return False, None

    def _waits_for_no_room(self, job: JobEntry, ahead: Ahead, now: int) -> bool:
        """Return True if a unit that failed to start waits for something other than room; then it delays no job of its
        group.

        It waits for nodes to open, for the guarantees of others to shrink, or for advance reservations to end. In the
        last case its foreseen reservation binds others.
        """
        gate = self.gates.refused_without_room(job)
        if gate is self.gates.reserved_nodes and self._may_be_ahead(job, ahead, now):
            ahead.append(job)
        return gate is not None

    def _try(self, job: JobEntry, ahead: Ahead, now: int) -> bool:
        """Match one unit beside the reservations of the units ahead, and start it if it fits."""
        group = job.group
        cluster = self.cluster
        if self.pool.leases and self._start_in_own(job):
            return True
        if not cluster.rows[job.shape.row, FITTING]:
            group.verdict = Verdict.NO_ROOM
            return False
        if self.rejoining and job.moving:
            group.verdict = Verdict.MOVING
            return False
        situation = (job.job.id, cluster.loosened, ahead.sign)
        if group.tried.start.still(situation, now):
            return False
        if ahead.jobs or self.reservations.kept:
            self.reservations.heed(self._heeded(group, ahead, now), now)
            if self._must_wait(group, job):
                group.verdict = Verdict.QUOTA
                self.last_blocked = ahead.jobs[0]
                return False
        if self.owed and self.taken_back_by(job) is not None:
            group.verdict = Verdict.OWED
            group.policy.spared = True
            return False
        if job.shape.size == 1:
            if self._start_one(job, now):
                return True
            group.verdict = Verdict.RESERVED
        else:
            if self._start_gang(job, now):
                return True
            group.verdict = Verdict.NO_ROOM_TOGETHER
        group.tried.start.note(situation)
        return False

    def _maybe_drain(self, job: JobEntry, ahead: Ahead, now: int) -> None:
        """Keep nodes free for a unit without a known start, once it has waited for ``drain_after``."""
        if drain_due(job, now):
            self.reservations.heed(self._heeded(job.group, ahead, now), now)
        else:
            self._wake_at(job.since + job.group.options.drain_after)

    def _is_void(self, claim: ClaimEntry) -> bool:
        """Return True if all victims are gone and a clause excludes one of the nodes of the unit."""
        return (
            claim.shape.match is not None
            and not any(victim in self.leaving for victim in claim.victims)
            and self.fit.excludes_any(claim.shape, claim.reservation.nodes)
        )

    def _offer_planned(self, group: GroupState, ahead: Ahead, now: int) -> bool:
        """Start the first waiting unit whose planned start has come."""
        self.reservations.heed([job for job in self._heeded(group, ahead, now) if job.group is not group], now)
        if self._must_wait(group, head_of(group)):
            group.offered = head_of(group)
            group.verdict = Verdict.QUOTA
            self.last_blocked = ahead.jobs[0]
            return False
        # A delayed start may run into an advance reservation.
        beside_others = bool(self.reservations.kept) or bool(self.advance_reservations)
        unit = self.plans.due(group, now, beside_others=beside_others, passes=self._is_planned)
        if unit is not None and self.owed and self.taken_back_by(unit.job) is not None:
            group.offered = unit.job
            group.verdict = Verdict.OWED
            return False
        if unit is not None and self.rejoining and unit.job.still_running():
            if unit.job.moving:
                unit = None
            elif self._gather(unit.job, now):
                return True
        if unit is None:
            # A unit without a plan, because too many wait before it, must not delay others either.
            jobs = within(group, group.policy.looked_at())
            group.offered = next((job for job in jobs if self._is_planned(job)), None)
            group.verdict = Verdict.PLANNED
        else:
            self.plans.started(group, unit)
            job = unit.job
            if job.shape.kinds:
                self._start_at(job, unit.nodes, ("planned", 0))
                group.verdict = Verdict.PLACED
                return True
            for f, count in unit.nodes:
                for _ in range(count):
                    if job.unit():
                        self._start_unit(job, f, kept=("planned", 0))
                    else:
                        self._start_on(job, job.upcoming, f, ("planned", 0))
            group.verdict = Verdict.PLACED
        return unit is not None

    def next_wakeup(self) -> int | None:
        """Return the earliest time (µs) at which something changes by itself, as known after the last ``decide``;
        ``None`` if there is none.
        """
        retry = self.later[0][0] if self.later else NEVER
        wake = min(
            self.wake, self.groups.next_quota_change, retry, self.relaxing.next() if self.relaxing.times else NEVER
        )
        if self.pool.waiting:
            wake = min(wake, self.pool.next_return())
        wake = min(wake, self.advance_reservations.next_change)
        self.groups.tree.settle()
        if self.groups.order:
            # Expected ends and past borrowing matter only to waiting jobs.
            wake = min(wake, self.expected.next(), self.groups.tree.next_tick(self.groups))
        for group in self.groups.timed:
            wake = min(wake, group.policy.next_change())
        return None if wake >= NEVER else wake


def _concern(job: JobEntry, decided: list[Decision]) -> bool:
    """Return True if one of these decisions starts a task of a job, or claims room for one."""
    return any(isinstance(fact, Start | Claim) and fact.job == job.job.id for fact in decided)
