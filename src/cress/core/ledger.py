"""The ledger: ``apply_fact`` is the only function that changes the books, for events and for decisions.

A fact contains its whole change: node, devices, ports, task, charge, claims and cooling-off. Two ledgers in the same
state are in the same state after the same fact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from heapq import heapify, heappush
from typing import Any, TypeAlias

import msgspec

from cress.core import adoption
from cress.core.admission import check_events
from cress.core.books import Books, went_back
from cress.core.combined_restarts import dissolve, has_ended, join, leave_units, start_unit
from cress.core.fragments.holders import leave_node, reduce_lease, use_by_holder
from cress.core.fragments.use import give_to_claim, leave_leases, row_beside_loan, take_parts, use_leases
from cress.core.jobs import Attempt, ClaimEntry, JobEntry, LeaseRow, Reservation, Stranger
from cress.core.kernels.holding import END, NONE
from cress.core.limit_changes import drop_claims_beyond
from cress.core.placing.kinds import constraints_of
from cress.core.placing.mix import asks_for_devices
from cress.core.queueing import out_of_queue
from cress.core.tables import devices
from cress.model.decisions import (
    AdvanceReservationMoved,
    Claim,
    ClaimDropped,
    Decision,
    LeaseReduced,
    Preempt,
    Start,
    Stop,
    UnitDissolved,
    UnitFormed,
    WouldPreempt,
)
from cress.model.events import (
    AdvanceReservationRemoved,
    AdvanceReserved,
    ClockSet,
    DataLocated,
    Event,
    ForeignUse,
    GroupsApplied,
    JobAfter,
    JobCancelled,
    JobHeld,
    JobSubmitted,
    LeaseUsed,
    LicencesSet,
    LoadSeen,
    NodeAdded,
    NodeChanged,
    NodeCordoned,
    NodeLost,
    Outcome,
    PortsSeen,
    RacksSet,
    RunEstimated,
    TaskAdopted,
    TaskEnded,
    ZoneSet,
)
from cress.model.groups.tree import leaf_names
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.times import NEVER
from cress.model.zones import zone_of

Fact: TypeAlias = Event | Decision

# What a fact does to waiting units that fitted nowhere: it may let them fit, or only the tables that it changes know
# (leases, usable nodes, claims, shapes of jobs), and raise ``cluster.loosened`` themselves.
LOOSENS, BY_TABLES = True, False


class Ledger(Books):
    """Books that are changed by facts."""

    def __init__(self, dimensions: Dimensions, options: Options, zone: tzinfo = UTC) -> None:
        super().__init__(dimensions, options, zone)
        # True if nodes joined or left in the batch: the consequences for the whole cluster are computed once, at its
        # end.
        self._nodes_moved = False
        # True if the order of nodes needs the mix of likely shapes.
        self._learns = options.node_order == "fragmentation"
        self._appliers: dict[type[Any], tuple[Callable[[Any], None], bool]] = {
            JobSubmitted: (self._submitted, BY_TABLES),
            RunEstimated: (self._run_estimated, BY_TABLES),
            JobCancelled: (self._cancelled, BY_TABLES),
            JobHeld: (self._held_or_released, BY_TABLES),
            JobAfter: (self._held_or_released, BY_TABLES),
            TaskEnded: (self._task_ended, BY_TABLES),
            TaskAdopted: (lambda fact: adoption.adopt(self, fact), LOOSENS),
            ForeignUse: (lambda fact: adoption.use(self, fact), LOOSENS),
            NodeAdded: (self._node_added, BY_TABLES),
            NodeLost: (self._node_lost, BY_TABLES),
            NodeCordoned: (self._node_cordoned, BY_TABLES),
            NodeChanged: (self._node_changed, LOOSENS),
            PortsSeen: (self._ports_seen, LOOSENS),
            # Gangs may have more room although no clause changes on any node.
            RacksSet: (self._racks_set, LOOSENS),
            LoadSeen: (self._load_seen, LOOSENS),
            DataLocated: (self.matching.locate, LOOSENS),
            LicencesSet: (self._licences_set, LOOSENS),
            GroupsApplied: (self._groups_applied, LOOSENS),
            AdvanceReserved: (self._reserved_in_advance, LOOSENS),
            AdvanceReservationRemoved: (lambda fact: self.advance_reservations.remove(fact.name), LOOSENS),
            AdvanceReservationMoved: (self._advance_reservation_moved, LOOSENS),
            ClockSet: (self._clock_set, LOOSENS),
            ZoneSet: (self._zone_set, LOOSENS),
            Stop: (self._stopped, BY_TABLES),
            Claim: (self._claimed, BY_TABLES),
            ClaimDropped: (self._claim_dropped, BY_TABLES),
            UnitFormed: (lambda fact: join(self, fact), BY_TABLES),
            UnitDissolved: (lambda fact: dissolve(self, self.jobs[fact.job], fact.task), BY_TABLES),
            WouldPreempt: (self._would_preempt, BY_TABLES),
            Preempt: (self._preempted, BY_TABLES),
            LeaseReduced: (self._lease_reduced, BY_TABLES),
            LeaseUsed: (self._lease_used, BY_TABLES),
        }

    # --- facts -------------------------------------------------------------------------------------------------

    def apply_fact(self, fact: Fact, slot: int = NONE) -> None:
        """Change the books by one fact.

        ``slot`` is the lease of a start if it is already held: the kernel that chooses a node also holds the lease.
        """
        if type(fact) is Start:
            if self._nodes_moved:
                # Only a batch of another scheduler has both.
                self.settle_batch()
            self._started(fact, slot)
        else:
            apply, loosens = self._appliers[type(fact)]
            apply(fact)
            if loosens:
                self.cluster.loosened += 1

    def observe(self, now: int, events: Sequence[Event]) -> None:
        """Apply events in this order, all at time ``now`` (µs).

        Raises ``InputError`` before anything changes.
        """
        if now < self.now:
            raise went_back(self.now, now)
        check_events(self, events)
        self.advance(now)
        for event in events:
            self.apply_fact(event)
        if self._nodes_moved or self.live:
            self.settle_batch()

    def settle_batch(self) -> None:
        """Compute the consequences of a batch of facts for the whole cluster.

        Once for each batch, because thousands of nodes may register together.
        """
        if self._nodes_moved:
            self._nodes_moved = False
            self.balance.refresh()
            self.balance.cursor %= max(1, self.cluster.node_count)
            self.units_in_doubt = True
            if self.groups.default_is_implied():
                self.refresh_quotas_now()
            if self.relations.choices.changed:
                self.ask_again()
        if self.live:
            self.matching.flush()

    # --- jobs --------------------------------------------------------------------------------------------------

    def _submitted(self, event: JobSubmitted) -> None:
        job = event.job
        group = self.groups.get(job.group)
        constraints = constraints_of(job, self.dimensions)
        shape = self.first_shape(job, constraints)
        state = JobEntry.of(
            job, group, shape, self.now, behind=event.behind, constraints=constraints, estimate=event.estimate
        )
        state.overdue_at = self.overdue_at(state)
        state.deadline = self.deadline_of(state)
        self.add_job(state)
        if out_of_queue(state) is None:
            self.enqueue(state)
        if self._learns and asks_for_devices(job):
            self.mix.arrive(job)
            if self.mix.due(len(self.jobs)):
                self.mix.renew((each.job, each.waiting) for each in self.jobs.values() if asks_for_devices(each.job))

    def _run_estimated(self, event: RunEstimated) -> None:
        for number in event.jobs:
            job = self.jobs.get(number)
            if job is None or job.estimate == event.estimate:
                continue
            before = job.duration
            job.expect(event.estimate)
            # It may now be short enough for a loan.
            self.pool.stamp += 1
            if job.attempts:
                self.running.forget()
            if job.queued:
                job.group.policy.revalued(job)
                if job.duration != before:
                    # Earlier failures and reservations belong to another duration.
                    self.cluster.loosened += 1

    def _cancelled(self, event: JobCancelled) -> None:
        job = self.jobs.get(event.job)
        if job is None or job.cancelled:
            return
        job.cancelled = True
        leave_units(self, job)
        for claim in list(job.claims):
            self.drop_claim(claim, again=False)
        if job.queued:
            self.dequeue(job)
        job.waiting = 0
        job.again.clear()
        job.waits.clear()
        if job.later:
            self.later = [each for each in self.later if each[1] != event.job]
            heapify(self.later)
            job.later.clear()
        self._stop_all(job)
        self.drop_if_over(job)

    def _stop_all(self, job: JobEntry) -> None:
        """Count all running tasks of a job as stopping; the next ``decide`` proposes their stops."""
        for attempt in job.attempts.values():
            if not attempt.stopping:
                self.mark_leaving(attempt)
                self.to_stop[attempt.id] = self.now

    def _held_or_released(self, event: JobHeld | JobAfter) -> None:
        job = self.jobs.get(event.job)
        if job is None or job.cancelled:
            return
        offered = not job.held and job.behind is None
        if isinstance(event, JobHeld):
            job.held = event.held
        else:
            job.behind = event.behind
        if not offered:
            job.wait_anew(self.now)
        if out_of_queue(job) is None:
            if not job.queued:
                self.enqueue(job)
        elif job.held or job.behind is not None:
            leave_units(self, job)
            for claim in list(job.claims):
                self.drop_claim(claim, again=True)
            if job.queued:
                self.dequeue(job)

    # --- nodes -------------------------------------------------------------------------------------------------

    def _node_added(self, event: NodeAdded) -> None:
        self.cluster.add_node(event.node)
        self._nodes_moved = True

    def _node_lost(self, event: NodeLost) -> None:
        f = self.cluster.index[event.name]
        self._nodes_moved = True
        if self.cluster.lost[f]:
            return
        self.pool.close_on(f)
        for attempt in sorted(self.holders_on(f), key=lambda holder: holder.id):
            if isinstance(attempt, LeaseRow):
                # It leaves together with its task.
                continue
            if isinstance(attempt, Stranger):
                adoption.leave(self, attempt)
                continue
            again = attempt.stopping or attempt.job.job.job_failure
            self._give_back(attempt, again)
        self.relations.ports.forget(f)
        self.loads.forget(f)
        self.cluster.lose_node(f)
        self.void_claims(f)

    def _node_cordoned(self, event: NodeCordoned) -> None:
        f = self.cluster.index[event.name]
        self.cluster.cordon(f, event.reason if event.cordoned else None, away=event.cordoned and event.away)
        self.void_claims(f)

    def _node_changed(self, event: NodeChanged) -> None:
        f = self.cluster.index[event.node.name]
        if self.pool.leases and self.cluster.differs(event.node):
            # The indexes of its devices may change.
            leave_node(self, f)
        kinds = self.groups.kinds.on(f) if self.groups.kinds else ()
        changed = self.cluster.change_node(event.node)
        other_kind = bool(kinds) and self.groups.kinds.on(f) != kinds
        if (changed or other_kind) and not self.cluster.lost[f]:
            self.recharge_node(f)
        if changed:
            self._nodes_moved = True
            if not self.cluster.lost[f]:
                adoption.check_room(self, f)
        if self.relations.choices.changed:
            self._nodes_moved = True
        self.loads.judge(f)
        self.void_claims(f)

    def _ports_seen(self, event: PortsSeen) -> None:
        f = self.cluster.index[event.name]
        self.relations.ports.see(f, event.ports)
        self.matching.touch(f)

    def _racks_set(self, event: RacksSet) -> None:
        self.relations.set_topology(event.neighbours, event.distances)
        self.matching.redo_domains()
        self.plans.reconsider()

    def _load_seen(self, event: LoadSeen) -> None:
        self.void_claims(self.loads.see(event))

    def _licences_set(self, event: LicencesSet) -> None:
        self.matching.set_licences(event.counts)
        self.plans.reconsider()
        self.units_in_doubt = True

    # --- groups ------------------------------------------------------------------------------------------------

    def _clock_set(self, event: ClockSet) -> None:
        self.groups.wall_offset = event.utc - self.now
        self.end_reservations(self.advance_reservations.set_clock(self.groups.wall_offset, self.now))
        self.running.forget()
        for job in self.jobs.values():
            if job.job.deadline:
                job.deadline = self.deadline_of(job)
                if job.queued:
                    job.group.policy.revalued(job)
        self.refresh_quotas_now()

    def _reserved_in_advance(self, event: AdvanceReserved) -> None:
        self.reserve_in_advance(event.reservation)

    def _advance_reservation_moved(self, fact: AdvanceReservationMoved) -> None:
        spec = self.advance_reservations.by_name[fact.name].spec
        self.advance_reservations.put(msgspec.structs.replace(spec, places=fact.places), self.now)

    def _zone_set(self, event: ZoneSet) -> None:
        self.groups.cluster_zone = zone_of(event.zone)
        self.refresh_quotas_now()

    def _groups_applied(self, event: GroupsApplied) -> None:
        self.preempted = None
        # A change of their options may affect the ends of running tasks.
        self.count_limits(False)
        kept = leaf_names(event.groups)
        moves = dict(event.moves)
        gone = {group.name for group in self.groups if group.jobs} - kept
        moving = [job for job in self.jobs.values() if job.group.name in gone] if gone else []
        targets = [(job, moves[job.group.name]) for job in moving]
        for job in moving:
            leave_units(self, job)
        for job in moving:
            if job.queued:
                self.dequeue(job)
            self.forget_relations(job)
            job.group.jobs -= 1
        self.pool.close_but_of(kept)
        self.groups.apply(event.groups, self.now, event.zone)
        if self.advance_reservations:
            self.number_groups()
        self.running.forget()
        for job, name in targets:
            job.group = self.groups.get(name)
            self.add_job(job)
        if targets:
            # Job names refer to other jobs once jobs change groups.
            self.relations.forget_counts()
            self.fit.rematch()
        for job, _ in targets:
            if out_of_queue(job) is None:
                self.enqueue(job)
        self.plans.keep([group.name for group in self.groups if group.policy.plans])
        self.recharge()
        drop_claims_beyond(self)
        for f in list(self.cluster.overdrawn):
            # The leases of removed groups have ended.
            adoption.check_room(self, f)

    # --- attempts ----------------------------------------------------------------------------------------------

    def _started(self, fact: Start, slot: int) -> None:
        job = self.jobs[fact.job]
        group = job.group
        cluster = self.cluster
        f = cluster.index[fact.node]
        assert fact.attempt not in self.attempts, f"attempt {fact.attempt} starts twice"
        retried = bool(job.again)
        take_parts(self, fact, f)
        if slot == NONE:
            slot = self._hold(fact, job, f)
        claim, leads = None, False
        if fact.claimed:
            claim = self._claim_of(job, fact.task)
            claim.tasks.remove(fact.task)
        elif fact.leader is not None:
            del job.carried[fact.task]
        else:
            job.take(fact.task)
            leads = bool(job.companions) and start_unit(self, job, fact.task)
        self._enter(fact, job, f, slot)
        if claim is not None:
            if not claim.tasks:
                self.remove_claim(claim)
                if not job.queued and out_of_queue(job) is None:
                    self.enqueue(job)
        elif fact.leader is not None:
            if group.key is not None or group.count_alike:
                self.groups.reorder(group)
        elif not (job.job.gang and job.waiting) or job.starts_in_part:
            # A gang starts as a whole, so its last task takes it out of the queue.
            self._after_start(job, changed=leads or job.job.gang or (retried and job.constraints is not None))
        if self.relations.dependencies.in_use:
            self._doubt_units(job, fact.task, None)
        if cluster.gone or (fact.devices and devices.takes_disk(fact.devices)):
            self._check_room(claim, f)

    def _enter(self, fact: Start, job: JobEntry, f: int, slot: int) -> None:
        """Enter the attempt of a start."""
        group = job.group
        fixed = self._by_cpu and job.cpu_charge
        charge = fixed or group.charge(job.job.request_of(fact.task), self.cluster.specs[f].capacity, f)
        number = fact.attempt
        self.next_attempt = max(self.next_attempt, number + 1)
        attempt = Attempt.of(
            job, id=number, task=fact.task, node=f, slot=slot, start=self.now, charge=charge,
            expected=self.expected_end(job), ports=fact.ports + fact.more_ports, due=fact.due,
        )  # fmt: skip
        self.enter_attempt(attempt)
        if fact.parts or fact.rest or ((job.job.workload or job.job.is_lease) and not group.policy.plans):
            use_leases(self, fact, attempt)

    def _check_room(self, claim: ClaimEntry | None, f: int) -> None:
        """Check the room on a node after a start.

        A whole device, beside a removed one or reduced since, may exceed the amounts left on the node.
        """
        if claim is None:
            adoption.check_room(self, f)
        elif not claim.tasks:
            # Until its last task has started, its nodes hold both the started tasks and the bookings for it.
            for node, _ in claim.reservation.nodes:
                adoption.check_room(self, node)

    def _after_start(self, job: JobEntry, *, changed: bool) -> None:
        """Remove a job from its queue after its unit has started, or update its next unit.

        ``changed``: the next unit may have another shape.
        """
        if not job.waiting or job.full:
            self.dequeue(job)
        else:
            self.turns.forget(job)
            if changed or job.companions:
                self.refit(job)
        self.groups.reorder(job.group)

    def _hold(self, fact: Start, job: JobEntry, f: int) -> int:
        """Hold the lease of a start that was decided by another scheduler."""
        mask, alone = devices.mask_for(self.cluster, f, fact.devices)
        row = row_beside_loan(self, fact, job, f, mask)
        if row is not None:
            return self.leases.hold_amounts(f, row, self.end_of(job))
        request = job.job.request_of(fact.task)
        amounts = devices.widened(self.cluster, f, request, mask) if alone else request
        return self.leases.hold_amounts(f, amounts, self.end_of(job), mask, alone)

    def _task_ended(self, event: TaskEnded) -> None:
        attempt = self.attempts.get(event.attempt)
        if attempt is None:
            stranger = self.strangers.get(event.attempt)
            if stranger is not None:
                adoption.leave(self, stranger)
            # The end was reported twice, or the node had been declared lost.
            return
        again, after = event.again, event.after
        # A victim is queued again whatever its outcome; a task of a cancelled job is not.
        victim = attempt.stopping and event.outcome is not Outcome.SUCCEEDED
        lost = event.outcome is Outcome.LOST and (attempt.job.job.job_failure or again)
        if victim or lost or event.outcome is Outcome.PREEMPTED:
            again, after = True, 0
        self._give_back(attempt, again, after)

    def _give_back(self, attempt: Attempt, again: bool, after: int = 0) -> None:
        """Release lease and charge of an ended attempt; its task is done, or waits again after ``after`` µs."""
        job = attempt.job
        group = job.group
        self.remove_attempt(attempt)
        if attempt.parts or attempt.inside or attempt.id in self.pool.leases:
            leave_leases(self, attempt, again)
        if self.cluster.gone or self.cluster.overdrawn:
            adoption.released(self, attempt.node)
        again = again and not job.cancelled
        if self.relations.dependencies.in_use:
            self._doubt_units(job, attempt.task, attempt.node if again else None)
        if attempt.task in job.beside:
            has_ended(self, job, attempt.task, again)
        elif not (job.claims and self._arrives(attempt, again)) and again:
            self._wait_again(job, attempt.task, after)
        if job.queued or (job.waiting and out_of_queue(job) is None):
            if again or not job.queued:
                self.queue_again(job)
        elif not job.attempts:
            self.drop_if_over(job)
        if group.key is not None or group.counters:
            self.groups.reorder(group)

    def _arrives(self, attempt: Attempt, again: bool) -> bool:
        """Return True if the ended attempt was moved and its task runs ``again``: the task is claimed now."""
        claim = next((each for each in attempt.job.claims if attempt.id in each.victims and not each.tasks), None)
        if claim is None:
            return False
        if again:
            claim.tasks.append(attempt.task)
        else:
            self.remove_claim(claim)
        return True

    def _wait_again(self, job: JobEntry, task: int, after: int) -> None:
        """Let a task wait again, ``after`` µs from now; a gang starts again as a whole."""
        if after:
            job.later[task] = self.now + after
            heappush(self.later, (self.now + after, job.job.id, task))
        else:
            job.put_back(task, self.now)
        if job.job.gang:
            self._stop_all(job)
            if job.queued and out_of_queue(job) is not None:
                self.dequeue(job)

    def _doubt_units(self, job: JobEntry, task: int, f: int | None) -> None:
        """Mark the units for a check, because a task has started, has ended, or waits again after it ran on node
        ``f``.
        """
        if self.concerned(job):
            self.units_in_doubt = True
            if f is None:
                job.was_on.pop(task, None)
            else:
                job.was_on[task] = f

    def _stopped(self, fact: Stop) -> None:
        attempt = self.attempts.get(fact.attempt)
        if attempt is not None:
            self.to_stop.pop(fact.attempt, None)
            self.advance_reservations.ending.pop(fact.attempt, None)
            self._leave(attempt, fact.end)

    def _leave(self, attempt: Attempt, end: int) -> None:
        """Count an attempt as stopping; its lease is expected back at ``end`` (µs)."""
        if not attempt.stopping:
            self.mark_leaving(attempt)
        if attempt.last_end > end:
            self.expected.move(attempt, min(attempt.expected, end), end)
            if int(self.cluster.leases[attempt.slot, END]) > end:
                self.leases.set_end(attempt.slot, end)
        for part in attempt.parts:
            if part.lease is None and int(self.cluster.leases[part.slot, END]) > end:
                self.leases.set_end(part.slot, end)

    # --- claims and units --------------------------------------------------------------------------------------

    def _claimed(self, fact: Claim) -> None:
        job = self.jobs[fact.job]
        nodes = [(self.cluster.index[name], count) for name, count in fact.nodes]
        moved = fact.tasks[0] if fact.moves and fact.victims and self.attempts[fact.victims[0]].job is job else None
        since = job.since if moved is None else self.now
        tasks = fact.tasks if moved is None else ()
        for task in tasks:
            job.take(task)
            if job.companions:
                start_unit(self, job, task)
        reservation = Reservation(job=job, start=self.now, nodes=nodes, stamp=self.cluster.stamp)
        claim = ClaimEntry(
            job=job, tasks=list(tasks), reservation=reservation, charge=self.charge_of(job, nodes), shape=job.shape,
            victims=list(fact.victims), expected=fact.expected, since=since, leased=fact.leased, moved=moved,
            moves=fact.moves,
        )  # fmt: skip
        self.add_claim(claim)
        if moved is not None:
            self.groups.reorder(job.group)
        elif out_of_queue(job) is not None:
            self.dequeue(job)
        elif job.constraints is not None or job.companions:
            # Its next task may have waited for a shorter time, or may start with others.
            self.refit(job)
        if job.group.count_alike:
            self.groups.reorder(job.group)
        self.timeline.reserve(reservation, NEVER, claim.shape)
        giving_back = give_to_claim(self, fact, job, nodes[0][0])
        self.preempted = None
        for number in fact.victims:
            victim = self.attempts[number]
            # From now on its amounts are booked for the unit, whenever they become free.
            self._leave(victim, self.now)
            if victim.job.group is not job.group and number not in giving_back and not fact.moves:
                victim.job.group.kept.preempted_at, victim.job.group.kept.preempted_for = self.now, job.job.id

    def _lease_reduced(self, fact: LeaseReduced) -> None:
        f = reduce_lease(self, fact.lease)
        if f in self.cluster.overdrawn:
            adoption.check_room(self, f)

    def _lease_used(self, event: LeaseUsed) -> None:
        f = use_by_holder(self, event.lease, event.amounts)
        if f in self.cluster.overdrawn:
            adoption.check_room(self, f)

    def _claim_of(self, job: JobEntry, task: int) -> ClaimEntry:
        return next(claim for claim in job.claims if task in claim.tasks)

    def _claim_dropped(self, fact: ClaimDropped) -> None:
        self.drop_claim(self._claim_of(self.jobs[fact.job], fact.tasks[0]), again=True)

    def _would_preempt(self, fact: WouldPreempt) -> None:
        self.jobs[fact.by].would_preempt = True

    def _preempted(self, fact: Preempt) -> None:
        """Count an attempt as stopping that leaves a lease to another task of its workload; victims of a claim already
        count.
        """
        attempt = self.attempts[fact.attempt]
        if not attempt.stopping:
            self._leave(attempt, self.now + fact.grace)
            workload = self.pool.workload(self.jobs[fact.by])
            if workload is not None:
                workload.awaited[attempt.node] = fact.by
