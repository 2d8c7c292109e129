"""Starts of units: on the best node, in room chosen before, or in claimed room."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo
from itertools import islice

import numpy as np

from cress.core.advance.inside import copies_inside
from cress.core.fragments.search import FragmentPlace, rest_of
from cress.core.future.reservations import Ahead, drain_due
from cress.core.future.together import RoomAt
from cress.core.gates.gates import Gates
from cress.core.jobs import Attempt, ClaimEntry, GroupState, JobEntry
from cress.core.kernels.holding import FIRST_END, FREE, NONE
from cress.core.ledger import Ledger
from cress.core.placing.constraints import NO_WANTS
from cress.core.placing.gangs import GangRoom, gang_room
from cress.core.placing.placement_clauses import all_ports
from cress.core.placing.together import joined, places_in
from cress.core.placing.vetoes import Verdict
from cress.core.preemption import (
    Eviction,
)
from cress.core.tables import devices
from cress.core.tables.arrays import Closed, Ints
from cress.model.decisions import (
    Choice,
    Claim,
    ClaimDropped,
    Decision,
    Kept,
    Preempt,
    Start,
    Stop,
)
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.times import NEVER

# The number of jobs of a group that are considered for its advance reservations.
LOOKED_AT = 100


class Placements(Ledger):
    """The ledger, with the application of decisions to it."""

    def __init__(self, dimensions: Dimensions, options: Options, zone: tzinfo = UTC) -> None:
        super().__init__(dimensions, options, zone)
        self._decided: list[Decision] = []
        # By job, the last time in this run at which a claim was made and dropped at once.
        self.dropped_at: dict[int, int] = {}
        self.timeline.claimed = self._claimed_late
        # The last result of ``_claimed_late``, after the state for which it holds.
        self._late: tuple[tuple[int, int, int, int], dict[int, Ints]] = ((-1, -1, 0, 0), {})
        # True while starts happen because their unit is due.
        self._due_starts = False
        self._quota_only = options.behind_blocked == "quota_only"
        self.gates = Gates(self)

    def _do(self, fact: Decision) -> None:
        """Apply a proposal, which makes it a decision."""
        self.apply_fact(fact)
        self._decided.append(fact)

    def _wake_at(self, time: int) -> None:
        self.wake = min(self.wake, time)

    def _must_wait(self, group: GroupState, job: JobEntry | None) -> bool:
        """Return True if a unit ahead without a known start blocks this group, or this unit of it.

        Then only groups below their quota go on.
        """
        if self._quota_only or group.below_quota:
            return False
        return self.reservations.unknown_below_quota(group, None if job is None else job.shape)

    def _heeded(self, group: GroupState, ahead: Ahead, now: int) -> list[JobEntry]:
        """Return the jobs whose reservations count.

        These are all jobs ahead. With ``quota_only`` they are those of the group, those with drained nodes and moving
        ones.
        """
        if not self._quota_only:
            return ahead.jobs
        return [job for job in ahead.jobs if job.group is group or drain_due(job, now) or job.moving]

    def _start_one(self, job: JobEntry, now: int) -> bool:
        shape, closed = job.shape, self.cluster.none_closed
        if self.timeline.any_booked:
            delaying, closed = self.timeline.screen(shape, job.duration, now, job.group.asker)
            if delaying and delaying >= self.fit.fitting(shape):
                return False
        if self.rejoining and self._gather(job, now):
            return True
        if not self._place_preferring(job, closed):
            return False
        job.group.verdict = Verdict.PLACED
        return True

    def _start_inside(self, group: GroupState, now: int) -> bool:
        """Start the first unit of a group that fits into the rest of its advance reservations.

        It takes no room that is foreseen for others. Return True if a unit started.
        """
        if not self.advance_reservations.active_nodes(group):
            return False
        for job in islice(group.policy, LOOKED_AT):
            if (self.rejoining and job.moving) or self._passed_over(job):
                continue
            copies = copies_inside(self, job)
            if copies and self._place_inside(job, copies):
                group.verdict = Verdict.PLACED
                return True
            if not group.policy.offers_more and not group.policy.plans:
                return False
        return False

    def _place_inside(self, job: JobEntry, copies: dict[int, int]) -> bool:
        """Start the tasks of a unit on nodes with room for ``copies`` by node; return True if they started."""
        placed = False
        for _ in range(job.shape.size):
            closed = np.ones_like(self.cluster.none_closed)
            closed[[f for f, left in copies.items() if left]] = 0
            placed = self._place(job, closed)
            assert placed or job.shape.size == 1, f"a gang of {job.shape.size} that was found to fit does not"
            if placed:
                copies[self.attempts[self.next_attempt - 1].node] -= 1
        return placed

    def _place_preferring(self, job: JobEntry, closed: Closed) -> bool:
        """Start the next task of a job on the best node for it that is not closed; return False if no node fits.

        Nodes in an advance reservation of its group that is in force come first.
        """
        own = self.advance_reservations.active_nodes(job.group) if job.group.asker else []
        if own:
            own_only = np.ones_like(closed)
            own_only[own] = closed[own]
            if self._place(job, own_only):
                return True
        return self._place(job, closed)

    def _start_gang(self, job: JobEntry, now: int) -> bool:
        shape = job.shape
        if shape.kinds:
            return self._start_kinds(job, now)
        timeline = self.timeline
        if shape.match is not None:
            copies = timeline.all_copies_now(shape, job.duration, now, job.group.asker)
            devices.cap_exclusive(self.cluster, shape.request_array, shape.ask, copies)
            room = gang_room(shape, copies)
            if room is None:
                return False
            self._place_in(job, room, now)
        elif timeline.copies_now(shape, job.duration, shape.size, now, job.group.asker).sum() < shape.size:
            return False
        elif timeline.any_booked:
            for _ in range(shape.size):
                _, closed = timeline.screen(shape, job.duration, now, job.group.asker)
                placed = self._place_preferring(job, closed)
                assert placed, f"a gang of {shape.size} that was found to fit does not"
        else:
            self._place_all(job)
        job.group.verdict = Verdict.PLACED
        return True

    def _start_kinds(self, job: JobEntry, now: int) -> bool:
        """Start a gang of several kinds of tasks if all tasks fit together."""
        self.gates.pending.count()
        room = RoomAt(self.timeline, job.shape, now, job.duration, now, job.group.asker, prefer=self.balance.preferred)
        found = places_in(room)
        if found is None:
            return False
        self._start_at(job, joined(found))
        job.group.verdict = Verdict.PLACED
        return True

    def _start_at(
        self, job: JobEntry, nodes: list[tuple[int, int]], kept: Kept | None = None, claim: ClaimEntry | None = None
    ) -> None:
        """Start the tasks of a ``claim``, or all tasks of a gang of several kinds, at these places, by task number."""
        end = self.end_of(job)
        asked = tuple(claim.tasks) if claim is not None else job.next_unit()
        tasks = job.by_kind(range(job.job.tasks) if asked is None else asked)
        shape = job.shape if claim is None else claim.shape
        places = [(kind, f) for kind, f, count in shape.copies(nodes) for _ in range(count)]
        slots = [NONE] * len(places)
        for i in devices.in_turn([kind.ask for kind, _ in places]):
            kind, f = places[i]
            slots[i] = self.leases.hold(f, kind.row, end)
        for task, (_, f), slot in sorted(zip(tasks, places, slots, strict=True), key=lambda each: each[0]):
            self._start(job, task, f, slot, kept=kept, claim=claim)

    def _place_in(self, job: JobEntry, room: GangRoom, now: int) -> None:
        """Start all waiting tasks of a gang in its room, one by one, each on the best open node."""
        for _ in range(job.shape.size):
            _, delaying = self.timeline.screen(job.shape, job.duration, now, job.group.asker)
            closed = delaying.copy()
            closed[: self.cluster.node_count][room.closed()] = 1
            placed = self._place(job, closed)
            assert placed, f"a gang of {job.shape.size} that was found to fit does not"
            room.take(self.attempts[self.next_attempt - 1].node)

    def _place(self, job: JobEntry, closed: Closed) -> bool:
        """Start the next task of the job on the best node for it that is not closed; return False if no node fits."""
        self.gates.pending.count()
        end = self.end_of(job)
        slot = self.leases.take_slot(end)
        f = self.balance.place(job.shape, slot, end, closed)
        if f < 0:
            self.leases.return_slot(slot, end)
            return False
        if job.companions and job.unit():
            # The node was chosen for the unit as a whole, but each member has its own lease.
            self.leases.release(slot)
            self._start_unit(job, f, chosen=self.balance.choice)
        else:
            self._start(job, job.upcoming, f, slot, chosen=self.balance.choice)
        return True

    def _start(
        self,
        job: JobEntry,
        task: int,
        f: int,
        slot: int,
        *,
        leader: int | None = None,
        claim: ClaimEntry | None = None,
        room: FragmentPlace | None = None,
        chosen: Choice | None = None,
        kept: Kept | None = None,
    ) -> None:
        """Start a task on node ``f``, in the lease already held for it, or in ``room`` that is not held yet."""
        cluster = self.cluster
        parts = () if room is None else room.parts
        if room is not None:
            has = room.devices
        else:
            has = devices.allocated(cluster, slot, f) if cluster.devices[f] else ()
        claimed = claim is not None
        rest = () if claim is None else rest_of(self, claim, f, slot, self.next_attempt)
        if job.constraints is None:
            start = Start(
                self.next_attempt,
                job.job.id,
                task,
                cluster.names[f],
                (),
                leader,
                has,
                (),
                claimed,
                parts,
                rest,
                chosen,
                kept,
                self._due_starts,
            )
        else:
            wants = job.wants_of(task)
            ports = self.relations.ports.choose(f, all_ports(wants))
            own = len(job.job.ports)
            start = Start(
                self.next_attempt, job.job.id, task, cluster.names[f], ports[:own], leader, has, ports[own:], claimed,
                parts, rest, chosen, kept, self._due_starts,
            )  # fmt: skip
        self.apply_fact(start, slot)
        self._decided.append(start)

    def _start_unit(self, job: JobEntry, f: int, *, chosen: Choice | None = None, kept: Kept | None = None) -> None:
        """Start the next task of a job and its companions on one node."""
        task = job.upcoming
        members = [(job, task), *((other, each) for other, each in job.companions[task] if each in other.carried)]
        slots = self._hold_members([member for member, _ in members], f)
        for (member, its_task), slot in zip(members, slots, strict=True):
            leader = None if member is job else job.job.id
            self._start(member, its_task, f, slot, leader=leader, chosen=chosen, kept=kept)

    def _gather(self, job: JobEntry, now: int) -> bool:
        """Stop the running companions of the job's next unit, unless it starts beside them; return True if any were
        stopped.
        """
        running = job.still_running() if job.upcoming not in job.foreseen.homes else []
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
                wants = member.constraints.wants(member.foreseen.soft, member.job.counted_as, member.group.name)
            shapes.append(self.fit.shape(member.job.request, 1, wants))
        slots = [0] * len(members)
        for i in devices.in_turn([shape.ask for shape in shapes]):
            self.fit.want(shapes[i])
            slots[i] = self.leases.hold(f, shapes[i].row, self.end_of(members[i]))
            self.fit.unwant(shapes[i])
        return slots

    def _place_all(self, job: JobEntry) -> None:
        """Start all waiting tasks of a gang that is known to fit, one by one, each on the best node."""
        self.gates.pending.count()
        end = self.end_of(job)
        slots = [self.leases.take_slot(end) for _ in range(job.shape.size)]
        places = self.balance.place_many(job.shape, slots, end)
        started = zip(job.next_tasks(len(slots)), places, slots, self.balance.choices, strict=True)
        for task, f, slot, chosen in started:
            self._start(job, task, f, slot, chosen=chosen)

    def _start_on(self, job: JobEntry, task: int, f: int, kept: Kept, claim: ClaimEntry | None = None) -> None:
        """Start a task on a chosen node."""
        shape = job.shape if claim is None else claim.shape
        slot = self.leases.hold(f, shape.row, self.end_of(job))
        self._start(job, task, f, slot, claim=claim, kept=kept)

    def _free(self, group: GroupState, first: JobEntry) -> Iterator[JobEntry]:
        """Yield the jobs of a group behind its ``first`` one that no gate refuses, in the order of its policy."""
        return (job for job in group.policy if job is not first and not self._passed_over(job))

    def _passed_over(self, job: JobEntry) -> bool:
        """Return True if a gate refuses a unit: then every policy passes it over, as if it did not wait."""
        until = self.gates.refuse(job)
        if until is None:
            return False
        self._wake_at(until)
        return True

    def _claim(self, job: JobEntry, eviction: Eviction, now: int) -> None:
        """Take the unit out of its queue, claim the resources that its victims will free, and signal the victims."""
        names = self.cluster.names
        victims = eviction.attempts
        nodes = tuple((names[f], count) for f, count in eviction.nodes)
        tasks = tuple(job.next_tasks(sum(count for _, count in nodes)))
        expected = now + max(self._grace_of(victim) for victim in victims)
        self._do(Claim(job.job.id, tasks, nodes, tuple(victim.id for victim in victims), expected, eviction.leased))
        for each in victims:
            grace = self._grace_of(each)
            self._do(Preempt(each.id, each.job.job.id, each.task, names[each.node], grace, job.job.id))

    def _grace_of(self, victim: Attempt) -> int:
        """Return the time (µs) that a victim gets after its signal.

        That is the grace of its job, bounded by the grace of its group, or by that of loans.
        """
        most = self.options.reclaim_grace if victim.parts else victim.job.group.options.grace
        return min(victim.job.job.stop_grace, most)

    def _start_claim(self, group: GroupState, now: int) -> bool:
        """Start a unit of the group whose victims have ended; its resources were booked, so no other unit has them."""
        for claim in list(group.claims):
            if claim.tasks and self._start_claimed(claim):
                group.verdict = Verdict.PLACED
                return True
        return False

    def _start_claimed(self, claim: ClaimEntry) -> bool:
        if claim.tried == self.cluster.loosened:
            return False
        claim.tried = self.cluster.loosened
        nodes = claim.reservation.nodes
        if self._lost_its_devices(claim):
            self._give_up(claim)
            return False
        if not self.fit.has_room(claim.shape, nodes) or not self._may_start(claim):
            return False
        if self.advance_reservations and not self._beside_reservations(claim):
            if not any(victim in self.leaving for victim in claim.victims):
                # Its victims took so long that the unit would run into a reservation.
                self._give_up(claim)
            return False
        kept = why_kept(claim)
        if claim.shape.kinds:
            self._start_at(claim.job, nodes, kept, claim)
            return True
        places = [f for f, count in nodes for _ in range(count)]
        for task, f in zip(tuple(claim.tasks), places, strict=True):
            self._start_on(claim.job, task, f, kept, claim)
        return True

    def _give_up(self, claim: ClaimEntry) -> None:
        """Drop a claim on the turn of its group; this pass then considers its tasks like other waiting ones."""
        self._drop(claim)
        claim.job.foreseen.arrived = self.pass_number - 1

    def _drop(self, claim: ClaimEntry) -> None:
        """Drop a claim; if it was made at this time, its job makes no other claim before the time advances."""
        if claim.reservation.start == self.now:
            self.dropped_at[claim.job.job.id] = self.now
        self._do(ClaimDropped(claim.job.job.id, tuple(claim.tasks)))

    def _claimed_late(self) -> dict[int, Ints]:
        """Return amounts by node, for nodes on which claims wait for overdue tasks.

        They are the amounts that stopping tasks will free, less the claimed amounts.
        """
        state = (self.pass_number, self.now, len(self.claims), len(self.leaving))
        if self._late[0] == state:
            return self._late[1]
        nodes, k = self.cluster.nodes, self.cluster.k_count
        found: dict[int, Ints] = {
            f: np.zeros(k, np.int64)
            for claim in self.claims
            for f, _ in claim.reservation.nodes
            if nodes[f, FIRST_END] <= self.now
        }
        for claim in self.claims if found else ():
            for f, amounts in claim.needs().items():
                if f in found:
                    found[f] -= amounts
        for attempt in self.leaving.values() if found else ():
            if attempt.node in found:
                found[attempt.node] += self.freed_by(attempt)
                for part in attempt.parts:
                    if part.lease is None:
                        found[attempt.node] += part.amounts
        self._late = (state, found)
        return found

    def _beside_reservations(self, claim: ClaimEntry) -> bool:
        """Return True if a claimed unit that starts now leaves room for the advance reservations of others."""
        job, cluster = claim.job, self.cluster
        kept = self.advance_reservations.kept_from(job.group, self.now + min(job.limit, NEVER))
        for f, needed in claim.needs().items():
            left = cluster.nodes[f, FREE : FREE + cluster.k_count] - kept[f] - needed
            if np.any(left[needed > 0] < 0):
                return False
        return True

    def _may_start(self, claim: ClaimEntry) -> bool:
        """Return True if no other claim competes for the room: its victims have ended, or no other claim has its
        nodes.
        """
        if not any(victim in self.leaving for victim in claim.victims):
            return True
        nodes = {f for f, _ in claim.reservation.nodes}
        return not any(f in nodes for other in self.claims if other is not claim for f, _ in other.reservation.nodes)

    def _lost_its_devices(self, claim: ClaimEntry) -> bool:
        """Return True if the victims have ended and other tasks got their devices, since bookings keep amounts only."""
        shape = claim.shape
        return (
            any(devices.cares(self.cluster, each.ask) for each in shape.kinds or (shape,))
            and not any(victim in self.leaving for victim in claim.victims)
            and any(
                devices.copies_on(self.cluster, each.ask, f) < count
                for each, f, count in shape.copies(claim.reservation.nodes)
            )
        )


def why_kept(claim: ClaimEntry) -> Kept:
    """Return why room was kept for the tasks of a claim."""
    if claim.moved is not None:
        return "moved", 0
    return "moves" if claim.moves else "preempted", len(claim.victims)
