"""The cycle: ``decide`` runs passes (source G, figure 3), each of which works out one proposal and applies it as a fact."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, tzinfo

import numpy as np

from cress.core.combined_restarts import changed_units
from cress.core.future.reservations import Ahead, drain_due
from cress.core.groups.guarantees import Guarantees, charge_of_tasks
from cress.core.groups.urgency_order import by_deadline, by_urgency
from cress.core.jobs import Attempt, ClaimEntry, GroupState, JobEntry
from cress.core.kernels.holding import FITTING
from cress.core.ledger import Ledger
from cress.core.placing.constraints import NO_WANTS
from cress.core.placing.gangs import Room, gang_room
from cress.core.placing.placement_clauses import all_ports
from cress.core.placing.vetoes import Verdict
from cress.core.preemption import Eviction, find_eviction, find_eviction_by_urgency, find_eviction_within
from cress.core.tables import devices
from cress.core.unit_homes import choose_homes
from cress.model.decisions import Claim, ClaimDropped, Decision, Decisions, Preempt, Start, Stop, WouldPreempt
from cress.model.group import SchedPolicy
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.times import NEVER, SECOND

# Victims of an urgent unit depend on times too: where none was found, after so long they are looked for again.
LOOK_AGAIN = 30 * SECOND


class Cycle(Ledger):
    """The ledger and what to do next: proposals only read it, and are applied one by one."""

    def __init__(self, dimensions: Dimensions, options: Options, zone: tzinfo = UTC) -> None:
        super().__init__(dimensions, options, zone)
        self._decided: list[Decision] = []
        # The unit that ended the last pass (``quota_only``), or because of which other groups were held to their quota.
        self.last_blocked: JobEntry | None = None
        self._expired_at = -1
        self._quota_only = options.behind_blocked == "quota_only"
        self._order = {"urgency": by_urgency, "deadline": by_deadline}.get(options.order)
        self._gate = options.balance_gate == "on"

    # --- the cycle -------------------------------------------------------------------------------------------

    def decide(self, now: int, budget: int = 2**31) -> Decisions:
        """Run passes until one places nothing, at most ``budget`` of them; return what was decided, in order."""
        self.advance(now)
        decided: list[Decision] = []
        self._decided = decided
        if self.to_stop:
            self._stop_attempts()
        if self.units_in_doubt:
            for changed in changed_units(self):
                self._do(changed)
            self.units_in_doubt = False
        if now != self._expired_at:
            # Once at a time: what is decided must not depend on the number of calls.
            self.reservations.expire(now)
            self._expired_at = now
        more = True
        while more and budget > 0:
            budget -= 1
            more = self._pass(now)
        if self.live:
            self.matching.flush()
        return Decisions(decided, more=more)

    def _do(self, fact: Decision) -> None:
        """Apply a proposal: it is decided."""
        self.apply_fact(fact)
        self._decided.append(fact)

    def _stop_attempts(self) -> None:
        for number, due in list(self.to_stop.items()):
            attempt = self.attempts[number]
            end = due + attempt.job.job.stop_grace
            self._do(Stop(number, attempt.job.job.id, attempt.task, self.cluster.names[attempt.node], end))

    def _pass(self, now: int) -> bool:
        """One pass of the cycle: place one unit, or make room for one. Returns whether it did.

        1. nothing was tried yet;          2. groups in the order of used / quota;
        3. for each group in that order:
           a. skip it while it cools off;  b. skip it if nothing of it waits (it has no place in the order then);
           c. behind a blocked unit, only groups below their quota go on (``quota_only``), or anyone beside the
              reservations of the units ahead (``reserve``);
           d. its policy offers units;     e. the first one that fits starts, and the pass ends;
           g. else it may take room from other groups, or from lower priorities of its own, which ends the pass;
           h. else it is one more blocked unit ahead of the next group.
        4. nothing placed: wait for an event.
        """
        if self.live:
            self._follow()
        self.wake = NEVER
        self.last_blocked = None
        ahead = Ahead()
        self.pass_number += 1
        if self.groups.timed:
            self._follow_overdue()
        if self.rejoining:
            self._follow_units(ahead)
        if self.turns.since and self._start_due(ahead, now):
            return True
        order = self.groups.order
        if not order:
            return False
        first = self.groups.by_name[order[0][-1]]
        # Alone in the order, the first unit of one queue keeps its turn anyway.
        several = len(order) > 1
        takes_turns = several or first.policy.overtakes
        guarantees = Guarantees(self.groups, self.cluster) if takes_turns else None
        blocked: JobEntry | None = None
        for group in self._groups_in_order(now) if several else (first,):
            group.visited = self.pass_number
            if group.preempted_at is not None and self._cools(group, now):
                continue
            if blocked is not None and self._quota_only and not group.below_quota:
                group.visited = 0
                self.last_blocked = blocked
                return False
            if self._offer(group, ahead, now):
                return True
            offered = group.offered
            if offered is None:
                continue
            blocked = offered
            if self._preempt_for(group, offered, ahead, now):
                return True
            if guarantees is not None and not self._may_be_ahead(offered, ahead, guarantees, now):
                continue
            ahead.append(offered)
            if self.leases.endless:
                self._maybe_drain(offered, ahead, now)
        return False

    def _groups_in_order(self, now: int) -> Iterable[GroupState]:
        if self._order is None:
            return self.groups.in_order()
        groups, change = self._order(self.groups.in_order(), now)
        self._wake_at(change)
        return groups

    def _follow_overdue(self) -> None:
        """Let limits count while the head of a group is overdue."""
        overdue = False
        for group in self.groups.timed:
            overdue = overdue or group.policy.head_is_overdue()
        self.count_limits(overdue)

    def _may_be_ahead(self, blocked: JobEntry, ahead: Ahead, guarantees: Guarantees, now: int) -> bool:
        """Return whether a blocked unit may hold up others; if it is the first that may, note its turn."""
        if guarantees.forbid(blocked):
            return False
        if not ahead.jobs:
            due = self.turns.note(blocked, now)
            if due > now:
                self._wake_at(due)
        return True

    def _start_due(self, ahead: Ahead, now: int) -> bool:
        """Start the due unit if it fits; else put it ahead of all others. Return whether it started."""
        for job in self.turns.due(self.jobs, now):
            group = job.group
            if group.preempted_at is not None and self._cools(group, now):
                continue
            if (
                self.fit.waits_for_node(job.shape)
                or self._passed_over(job, now)
                or Guarantees(self.groups, self.cluster).forbid(job)
            ):
                continue
            if not group.policy.plans and self._try(job, ahead, now):
                return True
            ahead.append(job)
            return False
        return False

    def _follow_units(self, ahead: Ahead) -> None:
        """Choose the homes of units, and keep the room of those whose companions are being stopped."""
        choose_homes(self)
        for job in self.rejoining.values():
            if job.moving and job.queued:
                ahead.append(job)

    def _follow(self) -> None:
        """Bring jobs that depend on the load, clauses and claims up to date before a pass."""
        if self.relaxing.by_load:
            self.relaxing.follow(self.balance.utilisation(), self.look_at)
        self.matching.flush()
        for claim in [claim for claim in self.claims if self._is_void(claim)]:
            self._do(ClaimDropped(claim.job.job.id, tuple(claim.tasks)))

    def _cools(self, group: GroupState, now: int) -> bool:
        until = group.cools_until()
        if now >= until:
            return False
        group.verdict = Verdict.COOLING
        group.offered = None
        self._wake_at(until)
        return True

    def _offer(self, group: GroupState, ahead: Ahead, now: int) -> bool:
        """Step d and e: start the first unit of the group that fits.

        Without one, ``group.offered`` is the unit that is blocked, or ``None`` if all are passed over.
        """
        if group.claims and self._start_claim(group, now):
            return True
        group.offered = None
        policy = group.policy
        if policy.plans:
            return self._offer_planned(group, ahead, now)
        head = policy.head()
        if head is None:
            return False
        asks = head.shape.match is not None
        if self._gate or policy.limits_users or (asks and not self.fit.within_reach(head.shape)):
            head = self._first_free(group, now)
            if head is None:
                return False
        # The due unit was tried already.
        due = ahead.jobs[0] if ahead.jobs else None
        if head is not due and self._try(head, ahead, now):
            return True
        if head.shape.open_at != self.cluster.usable_changes and self.fit.waits_for_node(head.shape):
            head = self._first_free(group, now)
            if head is None:
                return False
            if head is not due and self._try(head, ahead, now):
                return True
        group.offered = head
        if not policy.offers_more:
            return False
        beside = ahead.beside(head)
        # The decision of the gate changes with time, so no failure is remembered.
        memo = None if self._gate else (self.cluster.loosened, beside.sign)
        for job in policy.later(head, memo):
            if job is due or self._passed_over(job, now):
                continue
            if self._try(job, beside, now):
                return True
        group.offered = head
        return False

    def _try(self, job: JobEntry, ahead: Ahead, now: int) -> bool:
        """Match one unit, beside the reservations of the units ahead, and start it if it fits."""
        group = job.group
        cluster = self.cluster
        if not cluster.rows[job.shape.row, FITTING]:
            group.verdict = Verdict.NO_ROOM
            return False
        if self.rejoining and job.moving:
            group.verdict = Verdict.MOVING
            return False
        situation = (job.job.id, cluster.loosened, ahead.sign)
        if situation == group.failed:
            return False
        if ahead.jobs or self.reservations.kept:
            self.reservations.heed(self._heeded(group, ahead, now), now)
            if self._must_wait(group):
                group.verdict = Verdict.QUOTA
                self.last_blocked = ahead.jobs[0]
                return False
        if job.shape.size == 1:
            if self._start_one(job, now):
                return True
            group.verdict = Verdict.RESERVED
        else:
            if self._start_gang(job, now):
                return True
            group.verdict = Verdict.NO_ROOM_TOGETHER
        group.failed = situation
        return False

    def _must_wait(self, group: GroupState) -> bool:
        """Return whether a unit ahead without a known start blocks the group: then only groups below their quota go on."""
        return not self._quota_only and not group.below_quota and self.reservations.unknown_below_quota(group)

    def _heeded(self, group: GroupState, ahead: Ahead, now: int) -> list[JobEntry]:
        """Return the jobs whose reservations count: all ahead; with ``quota_only`` those of the group, and drained nodes."""
        if not self._quota_only:
            return ahead.jobs
        return [job for job in ahead.jobs if job.group is group or drain_due(job, now) or job.moving]

    def _start_one(self, job: JobEntry, now: int) -> bool:
        shape = job.shape
        if self.timeline.any_booked:
            delaying = self.timeline.screen(shape, job.duration, now)
            if delaying and delaying >= self.fit.fitting(shape):
                return False
        if self.rejoining and self._gather(job, now):
            return True
        if not self._place(job):
            return False
        job.group.verdict = Verdict.PLACED
        return True

    def _start_gang(self, job: JobEntry, now: int) -> bool:
        shape = job.shape
        timeline = self.timeline
        if shape.match is not None:
            room = gang_room(self.relations, shape, timeline.all_copies_now(shape, job.duration, now))
            if room is None:
                return False
            self._place_in(job, room, now)
        elif timeline.copies_now(shape, job.duration, shape.size, now).sum() < shape.size:
            return False
        elif timeline.any_booked:
            for _ in range(shape.size):
                timeline.screen(shape, job.duration, now)
                placed = self._place(job)
                assert placed, f"a gang of {shape.size} that was found to fit does not"
        else:
            self._place_all(job)
        job.group.verdict = Verdict.PLACED
        return True

    def _place_in(self, job: JobEntry, room: Room, now: int) -> None:
        """Start all waiting tasks of a gang in its room, one after the other, each on the best open node."""
        blocked = self.cluster.blocked[: self.cluster.node_count]
        for _ in range(job.shape.size):
            self.timeline.screen(job.shape, job.duration, now)
            blocked[room.closed()] = 1
            placed = self._place(job)
            assert placed, f"a gang of {job.shape.size} that was found to fit does not"
            room.take(self.attempts[self.next_attempt - 1].node)
        blocked[:] = 0

    def _place(self, job: JobEntry) -> bool:
        """Start the next task of the job on the best node for it, if there is one."""
        self._count_pending()
        end = self.end_of(job)
        slot = self.leases.take_slot(end)
        f = self.balance.place(job.shape, slot, end)
        if f < 0:
            self.leases.return_slot(slot, end)
            return False
        if job.companions and job.unit():
            # The node was chosen for the unit; each member has its own lease.
            self.leases.release(slot)
            self._start_unit(job, f)
        else:
            self._start(job, job.upcoming, f, slot)
        return True

    def _start(
        self, job: JobEntry, task: int, f: int, slot: int, *, leader: int | None = None, claimed: bool = False
    ) -> None:
        """Start a task on node ``f`` in the lease that is held for it already."""
        cluster = self.cluster
        has = devices.allocated(cluster, slot, f) if cluster.devices[f] else ()
        if job.constraints is None:
            start = Start(self.next_attempt, job.job.id, task, cluster.names[f], (), leader, has, (), claimed)
        else:
            wants = job.constraints.wants(job.soft, job.job.counted_as, job.group.name)
            ports = self.relations.ports.choose(f, all_ports(wants))
            own = len(job.job.ports)
            start = Start(
                self.next_attempt, job.job.id, task, cluster.names[f], ports[:own], leader, has, ports[own:], claimed
            )
        self.apply_fact(start, slot)
        self._decided.append(start)

    def _start_unit(self, job: JobEntry, f: int) -> None:
        """Start the next task of a job and its companions on one node."""
        task = job.upcoming
        members = [(job, task), *((other, each) for other, each in job.companions[task] if each in other.carried)]
        slots = self._hold_members([member for member, _ in members], f)
        for (member, its_task), slot in zip(members, slots, strict=True):
            self._start(member, its_task, f, slot, leader=None if member is job else job.job.id)

    def _gather(self, job: JobEntry, now: int) -> bool:
        """Stop the companions of the job's next unit that still run, unless it starts beside them; return whether it did."""
        running = job.still_running() if job.upcoming not in job.homes else []
        for each in running:
            end = now + each.job.job.stop_grace
            self._do(Stop(each.id, each.job.job.id, each.task, self.cluster.names[each.node], end))
        if running:
            job.group.verdict = Verdict.MOVING
        return bool(running)

    def _hold_members(self, members: list[JobEntry], f: int) -> list[int]:
        """Hold a lease for each member on one node; tasks with an exclusive disk choose their devices first."""
        shapes = []
        for member in members:
            wants = NO_WANTS
            if member.constraints is not None:
                wants = member.constraints.wants(member.soft, member.job.counted_as, member.group.name)
            shapes.append(self.fit.shape(member.job.request, 1, wants))
        slots = [0] * len(members)
        for i in devices.in_turn([shape.ask for shape in shapes]):
            self.fit.want(shapes[i])
            slots[i] = self.leases.hold(f, shapes[i].row, self.end_of(members[i]))
            self.fit.unwant(shapes[i])
        return slots

    def _place_all(self, job: JobEntry) -> None:
        """Start all waiting tasks of a gang that is known to fit, one after the other, each on the best node."""
        self._count_pending()
        end = self.end_of(job)
        slots = [self.leases.take_slot(end) for _ in range(job.shape.size)]
        places = self.balance.place_many(job.shape, slots, end)
        for task, f, slot in zip(job.next_tasks(len(slots)), places, slots, strict=True):
            self._start(job, task, f, slot)

    def _start_on(self, job: JobEntry, task: int, f: int, *, claimed: bool = False) -> None:
        """Start a task on a node that was chosen before."""
        self._start(job, task, f, self.leases.hold(f, job.shape.row, self.end_of(job)), claimed=claimed)

    def _count_pending(self) -> None:
        balance, cluster = self.balance, self.cluster
        if balance.use_pending and cluster.node_count > 1 and (cluster.starved or balance.any_pending):
            balance.set_pending(self._jobs_lacking())

    def _jobs_lacking(self) -> tuple[int, ...]:
        """Count, per balanced dimension, the jobs that wait only for lack of it (B's r_i).

        Jobs behind a head count as well, as they are offered in the next passes. Groups that cool off, users at their
        limit and groups behind a blocked unit (``quota_only``) wait for those reasons.
        """
        counts = np.zeros(len(self.dimensions), np.int64)
        blocked = False
        for key in self.groups.order:
            group = self.groups.by_name[key[3]]
            if blocked and not group.below_quota:
                break
            if group.preempted_at is not None and self.now < group.cools_until():
                continue
            if group.policy.limits_users:
                for job in group.policy.looked_at():
                    if self.within_limit(job):
                        group.policy.count_behind(job, self.fit, counts)
            else:
                group.policy.count_lacking(self.fit, counts)
            head = group.policy.head()
            blocked = self._quota_only and (blocked or (head is not None and not self.fit.fitting(head.shape)))
        return tuple(counts[self.cluster.dims].tolist())

    def _first_free(self, group: GroupState, now: int) -> JobEntry | None:
        """Return the first job of the group that waits for room, and that its clauses, limits and the gate let pass."""
        for job in group.policy:
            if self.fit.waits_for_node(job.shape):
                group.verdict = Verdict.NO_NODE
            elif not self._passed_over(job, now):
                return job
        return None

    def _passed_over(self, job: JobEntry, now: int) -> bool:
        group = job.group
        if job.shape.match is not None and not self.fit.within_reach(job.shape):
            # It waits for another job, a port, a label: not for room. A later job may be the one it waits for.
            group.verdict = Verdict.UNSATISFIED
            return True
        if group.policy.limits_users and not self.within_limit(job):
            group.verdict = Verdict.USER_LIMIT
            return True
        if not self._gate:
            return False
        hold = self.options.gate_hold
        if job.held_since is not None and now >= job.held_since + hold:
            return False
        # A unit that was held and meanwhile fits nowhere stays held: it must not block units that balance better.
        stays = job.held_since is not None and not self.fit.fitting(job.shape)
        if not stays:
            self._count_pending()
            if not self.balance.holds_back(job.shape):
                return False
        if job.held_since is None:
            job.held_since = now
        group.verdict = Verdict.GATE
        self._wake_at(job.held_since + hold)
        return True

    def within_limit(self, job: JobEntry) -> bool:
        """Return whether the user of the job may start one more unit of it.

        The unit is counted as on the nodes where it costs least; on others it may cost more.
        """
        group = job.group
        return group.policy.may_use_more(job, charge_of_tasks(job, job.shape.size, self.cluster), group.quota)

    def _maybe_drain(self, job: JobEntry, ahead: Ahead, now: int) -> None:
        """Keep nodes free for a unit that no known end frees, once it has waited long enough."""
        if drain_due(job, now):
            self.reservations.heed(self._heeded(job.group, ahead, now), now)
        else:
            self._wake_at(job.since + job.group.options.drain_after)

    # --- preemption ------------------------------------------------------------------------------------------

    def _preempt_for(self, group: GroupState, job: JobEntry, ahead: Ahead, now: int) -> bool:
        """Step g: find victims for the group's blocked unit, stop them, and claim their resources for the unit."""
        mode = group.options.preemption
        # A unit of several jobs preempts nobody, except a leader alone that starts beside its companions.
        if mode == "off" or (
            job.companions and job.unit() and (job.upcoming not in job.homes or job.shape.wants.parts)
        ):
            return False
        within = group.options.preempt_within != "off"
        urgent = self._is_urgent(group, job, now)
        entitled = (
            group.jobs < len(self.jobs)
            and group.needs_preemption()
            and group.may_take(charge_of_tasks(job, job.shape.size, self.cluster))
        )
        if not (entitled or within or urgent):
            return False
        # A unit that becomes urgent looks again; no job has the id 0.
        beside = (0, *ahead.sign) if urgent else ahead.sign if within else ()
        state = (job.job.id, self.cluster.stamp, self.cluster.loosened, beside)
        if group.no_victims == state and now < group.retry_victims_at:
            self._wake_at(group.retry_victims_at)
            return False
        eviction = self._evict_by_urgency(group, job, ahead, now) if urgent else None
        if eviction is None and entitled:
            eviction = find_eviction(self, job)
            if eviction is not None and not group.may_take(self.charge_of(job, eviction.nodes)):
                # On these nodes it costs more than where it costs least.
                eviction = None
        if eviction is None and within:
            eviction = self._evict_within(group, job, ahead, now, entitled=entitled)
        if eviction is None or not self._within_round(len(eviction.attempts)):
            group.no_victims = state
            group.retry_victims_at = min(self._next_victim_at(now), now + LOOK_AGAIN if urgent else NEVER)
            self._wake_at(group.retry_victims_at)
            return False
        if mode == "observe":
            group.no_victims = state
            group.retry_victims_at = NEVER
            if not job.would_preempt:
                for victim in eviction.attempts:
                    name = self.cluster.names[victim.node]
                    self._do(WouldPreempt(victim.id, victim.job.job.id, victim.task, name, job.job.id))
            return False
        self._claim(job, eviction, now)
        group.verdict = Verdict.VICTIMS
        return True

    def _is_urgent(self, group: GroupState, job: JobEntry, now: int) -> bool:
        """Return whether a blocked unit may take room from less urgent tasks (source S); if not yet, wake up when it may."""
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
        """Return less urgent victims, beside the reservations of the units ahead: of groups above their quota if the group is not, then its own."""
        self.reservations.heed(self._heeded(group, ahead, now), now)
        if self._must_wait(group):
            return None
        charge = charge_of_tasks(job, job.shape.size, self.cluster)
        others = group.jobs < len(self.jobs) and not group.claims_above_quota and group.may_take(charge)
        eviction = find_eviction_by_urgency(self, job, others=others)
        if eviction is None or all(victim.job.group is group for victim in eviction.attempts):
            return eviction
        return (
            eviction
            if group.may_take(self.charge_of(job, eviction.nodes))
            else find_eviction_by_urgency(self, job, others=False)
        )

    def _evict_within(
        self, group: GroupState, job: JobEntry, ahead: Ahead, now: int, *, entitled: bool
    ) -> Eviction | None:
        """Return victims of lower priority in the unit's own group, beside the reservations of the units ahead."""
        self.reservations.heed(self._heeded(group, ahead, now), now)
        if self._must_wait(group):
            return None
        return find_eviction_within(self, job, others=entitled)

    def _claim(self, job: JobEntry, eviction: Eviction, now: int) -> None:
        """Take the unit out of its queue, claim for it the resources that its victims will free, and signal the victims."""
        names = self.cluster.names
        victims = eviction.attempts
        nodes = tuple((names[f], count) for f, count in eviction.nodes)
        tasks = tuple(job.next_tasks(sum(count for _, count in nodes)))
        expected = now + max(self._grace_of(victim) for victim in victims)
        self._do(Claim(job.job.id, tasks, nodes, tuple(victim.id for victim in victims), expected))
        for each in victims:
            grace = self._grace_of(each)
            self._do(Preempt(each.id, each.job.job.id, each.task, names[each.node], grace, job.job.id))

    def _grace_of(self, victim: Attempt) -> int:
        """Return how long a victim may go on after its signal: the grace of its job, at most that of its group."""
        return min(victim.job.job.stop_grace, victim.job.group.options.grace)

    def _within_round(self, number: int) -> bool:
        """Return whether ``number`` more victims may stop at the same time: up to a share of the running tasks, or those of one unit."""
        under_way = sum(not attempt.job.cancelled for attempt in self.leaving.values())
        return not under_way or under_way + number <= self.options.max_per_round * len(self.attempts)

    def _next_victim_at(self, now: int) -> int:
        """Return the time at which the next running task has run long enough to be a victim."""
        times = (
            attempt.start + group.options.min_runtime
            for group in self.groups
            if group.options.min_runtime
            for attempt in group.attempts.values()
        )
        return min((time for time in times if time > now), default=NEVER)

    def _start_claim(self, group: GroupState, now: int) -> bool:
        """Start a unit whose victims are gone; their resources were booked for it, so no other unit has them."""
        for claim in list(group.claims):
            if claim.tried == self.cluster.loosened:
                continue
            claim.tried = self.cluster.loosened
            nodes = claim.reservation.nodes
            if self._lost_its_devices(claim):
                self._do(ClaimDropped(claim.job.job.id, tuple(claim.tasks)))
                continue
            if not self.fit.has_room(claim.job.shape, nodes) or not self._may_start(claim):
                continue
            places = [f for f, count in nodes for _ in range(count)]
            for task, f in zip(tuple(claim.tasks), places, strict=True):
                self._start_on(claim.job, task, f, claimed=True)
            group.verdict = Verdict.PLACED
            return True
        return False

    def _may_start(self, claim: ClaimEntry) -> bool:
        """Return whether no other claim competes for the room: its victims are gone, or no other claim is on its nodes."""
        if not any(victim in self.leaving for victim in claim.victims):
            return True
        nodes = {f for f, _ in claim.reservation.nodes}
        return not any(f in nodes for other in self.claims if other is not claim for f, _ in other.reservation.nodes)

    def _lost_its_devices(self, claim: ClaimEntry) -> bool:
        """Return whether the victims are gone and other tasks got their devices: bookings keep amounts only."""
        return (
            devices.cares(self.cluster, claim.job.shape.ask)
            and not any(victim in self.leaving for victim in claim.victims)
            and any(
                devices.copies_on(self.cluster, claim.job.shape.ask, f) < count for f, count in claim.reservation.nodes
            )
        )

    def _is_void(self, claim: ClaimEntry) -> bool:
        """Return whether the victims are gone, and a clause keeps the unit off one of its nodes."""
        return (
            claim.job.constraints is not None
            and not any(victim in self.leaving for victim in claim.victims)
            and self.fit.excludes_any(claim.job.shape, claim.reservation.nodes)
        )

    # --- conservative backfill -------------------------------------------------------------------------------

    def _offer_planned(self, group: GroupState, ahead: Ahead, now: int) -> bool:
        """Start the first waiting unit whose planned start has come."""
        self.reservations.heed([job for job in self._heeded(group, ahead, now) if job.group is not group], now)
        if self._must_wait(group):
            group.offered = group.policy.head()
            group.verdict = Verdict.QUOTA
            self.last_blocked = ahead.jobs[0]
            return False
        unit = self.plans.due(group, now, beside_others=bool(self.reservations.kept))
        if unit is not None and self.rejoining and unit.job.still_running():
            if unit.job.moving:
                unit = None
            elif self._gather(unit.job, now):
                return True
        if unit is None:
            group.offered = group.policy.head()
            group.verdict = Verdict.PLANNED
        else:
            self.plans.started(group, unit)
            job = unit.job
            for f, count in unit.nodes:
                for _ in range(count):
                    if job.unit():
                        self._start_unit(job, f)
                    else:
                        self._start_on(job, job.upcoming, f)
            group.verdict = Verdict.PLACED
        return unit is not None

    # --- wake-ups --------------------------------------------------------------------------------------------

    def _wake_at(self, time: int) -> None:
        self.wake = min(self.wake, time)

    def next_wakeup(self) -> int | None:
        """Return the earliest time at which something changes by itself, as known after the last ``decide``."""
        retry = self.later[0][0] if self.later else NEVER
        wake = min(
            self.wake, self.groups.next_quota_change, retry, self.relaxing.next() if self.relaxing.times else NEVER
        )
        if self.groups.order:
            # Only what waits cares how long others go on.
            wake = min(wake, self.expected.next())
        for group in self.groups.timed:
            wake = min(wake, group.policy.next_change())
        return None if wake >= NEVER else wake
