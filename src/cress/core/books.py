"""Books of the core: nodes, groups, jobs, attempts and claims, and the queues in which jobs wait.

The ledger changes them by facts, the cycle reads them to decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo
from heapq import heapify

import numpy as np

from cress.core.asking import Asking
from cress.core.expected_ends import ExpectedEnds
from cress.core.future.advance_reservations import AdvanceReservations
from cress.core.future.plans import Plans
from cress.core.future.reservations import Reservations
from cress.core.future.timeline import Timeline
from cress.core.future.turns import Turns
from cress.core.groups.shares import Groups
from cress.core.jobs import Attempt, ClaimEntry, GroupState, Holder, JobEntry, Stranger
from cress.core.kernels.holding import HEAD, NEXT, NONE
from cress.core.openings import Openings
from cress.core.placing.balance import Balance
from cress.core.placing.fit import Fit
from cress.core.placing.fragmentation import Fragmentation
from cress.core.placing.matching import Matching
from cress.core.placing.mix import Mix
from cress.core.placing.placement_clauses import relation_of
from cress.core.pool import Pool
from cress.core.queueing import out_of_queue
from cress.core.relaxation import RelaxationTimes
from cress.core.running_tasks import RunningTasks
from cress.core.shapes import Shapes
from cress.core.tables.arrays import Ints
from cress.core.tables.cluster import Cluster
from cress.core.tables.leases import LeaseTable
from cress.core.tables.measured_load import Loads
from cress.core.units import Units
from cress.model.advance import AdvanceReservation
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.times import NEVER


class Books:
    """The state of one cluster."""

    def __init__(self, dimensions: Dimensions, options: Options, zone: tzinfo = UTC) -> None:
        self.dimensions = dimensions
        self.options = options
        self.now = -(2**62)
        self.cluster = Cluster(dimensions, options.balance_dimensions)
        self.leases = LeaseTable(self.cluster)
        self.matching = Matching(self.cluster)
        self.fit = Fit(self.cluster, self.matching)
        self.timeline = Timeline(self.cluster, self.fit)
        quota_only = options.behind_blocked == "quota_only"
        # Attempts that were told to stop and still hold their leases.
        self.leaving: dict[int, Attempt] = {}
        self.reservations = Reservations(
            self.cluster, self.fit, self.timeline, self.holders_on, self.leaving, quota_only=quota_only
        )
        self.plans = Plans(self.cluster, self.fit, self.timeline)
        self.mix = Mix(options.mix_tasks)
        self.fragmentation = Fragmentation(self.cluster, self.matching, self.mix, options)
        self.balance = Balance(self.cluster, self.fit, self.fragmentation, options)
        self.groups = Groups(options, dimensions, self.cluster, self.fit, zone)
        self.groups.apply((), 0)
        self.jobs: dict[int, JobEntry] = {}
        self.relations = self.matching.relations
        self.relations.jobs = self.jobs
        # Both are empty while every job asks for amounts only.
        self.live, self.counts = self.matching.live, self.relations.counts
        self.loads = Loads(self.cluster, options)
        self.attempts: dict[int, Attempt] = {}
        # The holder of the lease in each slot.
        self.holders: list[Holder | None] = []
        # Foreign tasks by attempt, and other foreign use by node.
        self.strangers: dict[int, Stranger] = {}
        self.foreign_use: dict[int, Stranger] = {}
        self.running = RunningTasks()
        self.openings = Openings(self.cluster)
        self.pool = Pool(self.cluster, self.leases, self.groups, options, self.running, self.set_holder)
        self.expected = ExpectedEnds(self.cluster, self.leases, self.groups)
        # The attempts in ``leaving`` whose stop ``decide`` has not proposed yet, with the time at which it became due.
        self.to_stop: dict[int, int] = {}
        self.claims: list[ClaimEntry] = []
        # The groups that may be in their cooling-off; ``None`` until they are looked up, after a claim or a change of
        # groups.
        self.preempted: list[GroupState] | None = None
        self.timeline.claims = self.claims
        self.next_attempt = 1
        self.pass_number = 0
        # The number of times that jobs were put into queues.
        self.arrivals = 0
        # Tasks in backoff: a heap of time, job and task.
        self.later: list[tuple[int, int, int]] = []
        self.units = Units(self.relations.dependencies)
        self.turns = Turns()
        self.relaxing = RelaxationTimes()
        self.asking = Asking(dimensions, self.relations, self.jobs)
        self.shapes = Shapes(self, self.fit, self.balance, self.plans, self.relaxing, self.asking, self.units)
        self.advance_reservations = AdvanceReservations(self.cluster, self.timeline, self.holders_on, lambda: self.now)

    # --- advance reservations ----------------------------------------------------------------------------------

    def reserve_in_advance(self, spec: AdvanceReservation) -> None:
        """Keep an advance reservation from now on."""
        self.advance_reservations.put(spec, self.now)
        self.reservations.reserved = self.advance_reservations.closed_to
        self.number_groups()

    def number_groups(self) -> None:
        """Number the groups with advance reservations, as the timeline needs it."""
        for group in self.groups:
            group.asker = self.advance_reservations.number_of(group)

    def forget_foreseen(self) -> None:
        """Drop reservations and plans; they are made again when needed."""
        self.reservations.forget()
        self.plans.keep([])

    # --- jobs --------------------------------------------------------------------------------------------------

    def add_job(self, job: JobEntry) -> None:
        """Add a job."""
        self.jobs[job.job.id] = job
        job.group.jobs += 1
        job.find_accounts(self.relations.licences)
        self.units.enter(job)
        if self._is_related(job):
            self.relations.add_job(job, relation_of(job.job, job.constraints, job.group.name))
            self._ask_others()

    def forget_relations(self, job: JobEntry) -> None:
        """Drop the index entries of a job that has ended or leaves its group."""
        if self._is_related(job):
            self.relations.remove_job(job)
            self._ask_others()

    def _is_related(self, job: JobEntry) -> bool:
        """Return True if relations concern a job: it refers to other jobs, or other jobs may refer to it."""
        relations = self.relations
        related = job.constraints is not None or job.job.application or relations.dependencies.followed
        return bool(related or relations.selections)

    def _ask_others(self) -> None:
        """Match the waiting jobs again whose conflicts with other jobs have changed."""
        if not self.relations.selections.touched:
            return
        for number in self.relations.selections.take_touched():
            other = self.jobs.get(number)
            if other is not None:
                # The unit of its leaders avoids what it avoids.
                for job in dict.fromkeys((other, *other.carried.values(), *other.beside.values())):
                    self.shapes.renew(job)

    def drop_if_over(self, job: JobEntry) -> None:
        """Drop a job with no waiting and no running task."""
        if job.over:
            del self.jobs[job.job.id]
            job.group.jobs -= 1
            self.units.leave(job)
            self.forget_relations(job)

    # --- leases ------------------------------------------------------------------------------------------------

    def holders_on(self, f: int) -> Iterator[Holder]:
        """Yield the holders of the leases on node ``f``, in the order of the ends of the leases."""
        leases = self.cluster.leases
        slot = int(self.cluster.nodes[f, HEAD])
        while slot != NONE:
            holder = self.holders[slot]
            assert holder is not None, f"lease has no holder: {slot}"
            slot = int(leases[slot, NEXT])
            yield holder

    def set_holder(self, slot: int, holder: Holder) -> None:
        """Set the holder of the lease in ``slot``."""
        if slot >= len(self.holders):
            self.holders.extend([None] * (len(self.cluster.leases) - len(self.holders)))
        self.holders[slot] = holder

    # --- attempts and claims -----------------------------------------------------------------------------------

    def enter_attempt(self, attempt: Attempt) -> None:
        """Enter an attempt that holds its lease, and charge it."""
        number, job = attempt.id, attempt.job
        self.attempts[number] = job.attempts[number] = job.group.attempts[number] = attempt
        self.expected.add(attempt)
        self.set_holder(attempt.slot, attempt)
        for account in job.accounts:
            account.begin(attempt)
        self.relations.ports.take(attempt.node, attempt.ports)
        if attempt.stopping:
            self.leaving[number] = attempt
        self.matching.moved(job, attempt.node, 1)

    def remove_attempt(self, attempt: Attempt) -> None:
        """Remove an attempt that has ended, take back its charge, and release its lease."""
        number, job = attempt.id, attempt.job
        del self.attempts[number], job.attempts[number], job.group.attempts[number]
        self.expected.remove(attempt)
        self.leases.release(attempt.slot)
        self.holders[attempt.slot] = None
        for account in job.accounts:
            account.end(attempt)
        self.relations.ports.give_back(attempt.node, attempt.ports)
        if attempt.stopping:
            del self.leaving[number]
            self.to_stop.pop(number, None)
            self.advance_reservations.ending.pop(number, None)
        self.matching.moved(job, attempt.node, -1)

    def mark_leaving(self, attempt: Attempt) -> None:
        """Add an attempt to those that were told to stop."""
        job = attempt.job
        attempt.stopping = True
        self.leaving[attempt.id] = attempt
        for account in job.accounts:
            account.leave(attempt)
        if job.job.gang and job.queued and out_of_queue(job) is not None:
            # It ran in part and offered the rest: now it starts again as a whole.
            self.dequeue(job)

    def let_stop(self, attempt: Attempt) -> None:
        """Count an attempt as stopping; the next ``decide`` proposes its stop."""
        self.mark_leaving(attempt)
        self.to_stop[attempt.id] = self.now

    def stop_all(self, job: JobEntry) -> None:
        """Count all running tasks of a job as stopping; the next ``decide`` proposes their stops."""
        for attempt in job.attempts.values():
            if not attempt.stopping:
                self.let_stop(attempt)

    def freed_by(self, attempt: Attempt) -> Ints:
        """Return the amounts that the end of an attempt frees on its node.

        That is its row without the amounts that stay in held leases, or in all leases of a borrower that gives back its
        loan, plus the idle parts of a lease that ends with it.
        """
        free: Ints = self.cluster.held_in(attempt.slot).copy()
        for lease, (_, amounts) in attempt.inside:
            if attempt.keeps or (lease.is_held and not attempt.yields):
                free -= amounts
        own = self.pool.leases.get(attempt.id)
        if own is not None and own.holder is attempt:
            for part in own.idle.values():
                free += part.amounts
        return free

    def coming_free(self) -> Iterator[tuple[int, Ints]]:
        """Yield what tasks that were told to stop will free, by node: claims rely on it.

        A task that is only expected to end may go on, and does not count.
        """
        for attempt in self.leaving.values():
            yield attempt.node, self.freed_by(attempt)
            for part in attempt.parts:
                if part.lease is None:
                    # A loan from a lease that has ended goes back to the node.
                    yield attempt.node, np.array(part.amounts, np.int64)

    # --- queues ------------------------------------------------------------------------------------------------

    def enqueue(self, job: JobEntry) -> None:
        """Put a job into its queue."""
        job.foreseen.arrived = self.pass_number
        self.shapes.weigh(job)
        self.queue(job)

    def queue(self, job: JobEntry) -> None:
        """Put a job into its queue; neither its waiting time nor its soft clauses change."""
        job.queued = True
        self.arrivals += 1
        self.units.enter(job)
        self.shapes.enter(job)
        if self.relations.dependencies.in_use:
            self.units.doubt(job)
        group = job.group
        group.policy.add(job)
        if job.is_part:
            group.parts_queued.setdefault(job.workload, {})[job.job.id] = job
        for counts in group.queue_counts:
            counts.add(job.owned)
        if group.key is None:
            self.groups.reorder(group)

    def dequeue(self, job: JobEntry) -> None:
        """Remove a job from its queue."""
        job.queued = False
        if self.turns.since:
            self.turns.forget(job)
        group = job.group
        group.policy.remove(job)
        if job.is_part:
            alike = group.parts_queued[job.workload]
            del alike[job.job.id]
            if not alike:
                del group.parts_queued[job.workload]
        for counts in group.queue_counts:
            counts.remove(job.owned)
        self.fit.unwant(job.shape)
        job.foreseen.drain = []
        job.foreseen.held_since = None
        if not job.claims:
            self.relaxing.leave(job)
        if group.counters or not len(group.policy):
            self.groups.reorder(group)

    def cancel_backoff(self, job: JobEntry, task: int) -> None:
        """Remove a task from the backoff, or from those that wait until they are released."""
        time = job.later.pop(task)
        if time < NEVER:
            self.later.remove((time, job.job.id, task))
            heapify(self.later)

    def queue_again(self, job: JobEntry) -> None:
        """Offer a job again if possible, after one of its tasks began to wait or ended."""
        if job.queued:
            if self.relations.dependencies.in_use:
                self.units.doubt(job)
            self.shapes.look_at(job)
        elif out_of_queue(job) is None:
            if job.job.gang:
                # A gang waits as a whole, from now on.
                job.queued_at = self.now
            self.enqueue(job)

    def end_backoff(self, job: JobEntry, task: int) -> None:
        """Move a task whose backoff is over into the queue of its job."""
        del job.later[task]
        job.put_back(task, self.now)
        self.queue_again(job)

    def wait_elsewhere(self, job: JobEntry, task: int) -> None:
        """Remove a task that waits again from the queue of its job."""
        if task in job.again:
            job.take_out(task)
        else:
            job.take(task)
        if job.queued and (not job.waiting or job.full):
            self.dequeue(job)
        else:
            self.shapes.refit(job)

    # --- questions ---------------------------------------------------------------------------------------------

    def waiting(self) -> Iterator[JobEntry]:
        """Yield all jobs with a waiting task, in the order of their ids."""
        return (job for _, job in sorted(self.jobs.items()) if job.is_waiting)
