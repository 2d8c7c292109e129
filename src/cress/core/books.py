"""Books of the core: nodes, groups, jobs, attempts and claims, and the queues in which jobs wait.

The ledger changes them by facts, the cycle reads them to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from heapq import heapify, heappop

from cress.core.accounts import AtBound
from cress.core.expected_ends import ExpectedEnds
from cress.core.future.advance_reservations import AdvanceReservations, Kept
from cress.core.future.plans import Plans
from cress.core.future.reservations import Reservations
from cress.core.future.timeline import Timeline
from cress.core.future.turns import Turns
from cress.core.groups.limits import never_lent, never_within_max
from cress.core.groups.shares import Groups
from cress.core.jobs import Attempt, ClaimEntry, GroupState, Holder, JobEntry, LeaseRow, Stranger
from cress.core.kernels.holding import AMOUNTS, END, HEAD, NEXT, NONE, USABLE
from cress.core.openings import Openings
from cress.core.placing.balance import Balance
from cress.core.placing.constraints import NO_WANTS, Constraints, Wants
from cress.core.placing.fit import Fit
from cress.core.placing.fragmentation import Fragmentation
from cress.core.placing.kinds import KindsConstraints, constraints_of, kinds_of, lasting_wants, request_and_wants
from cress.core.placing.matching import Matching
from cress.core.placing.mix import Mix
from cress.core.placing.node_choices import asker_of
from cress.core.placing.placement_clauses import relation_of
from cress.core.placing.shape import Shape
from cress.core.pool import Pool
from cress.core.queueing import out_of_queue
from cress.core.relaxation import RelaxationTimes
from cress.core.running_jobs import QueuedJobs
from cress.core.running_tasks import RunningTasks
from cress.core.tables.arrays import Ints
from cress.core.tables.cluster import Cluster
from cress.core.tables.dependencies import JobKey
from cress.core.tables.leases import LeaseTable
from cress.core.tables.measured_load import Loads
from cress.core.unit_constraints import beside_running, combination
from cress.model.advance import AdvanceReservation
from cress.model.errors import InputError
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job
from cress.model.options import Options
from cress.model.resources import Dimensions, ResourceVector
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
        self.reservations = Reservations(self.cluster, self.fit, self.timeline, quota_only=quota_only)
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
        self.expected = ExpectedEnds()
        # True while the head of a group is overdue: then time limits count in place of estimates.
        self.limits_count = False
        # Attempts that were told to stop and still hold their leases.
        self.leaving: dict[int, Attempt] = {}
        # The attempts among them whose stop ``decide`` has not proposed yet, with the time at which it became due.
        self.to_stop: dict[int, int] = {}
        self.claims: list[ClaimEntry] = []
        # The groups that were preempted once; ``None`` until they are looked up, after a claim or a change of groups.
        self.preempted: list[GroupState] | None = None
        self.timeline.claims = self.claims
        self.next_attempt = 1
        self.pass_number = 0
        # The number of times that jobs were put into queues.
        self.arrivals = 0
        # Tasks in backoff: a heap of time, job and task.
        self.later: list[tuple[int, int, int]] = []
        # True if a change may have formed or dissolved units of several jobs since the last check.
        self.units_in_doubt = False
        # Jobs that lead units of several jobs; below, the leaders with companions that still run.
        self.leaders: dict[int, JobEntry] = {}
        self.rejoining: dict[int, JobEntry] = {}
        self.turns = Turns()
        self.relaxing = RelaxationTimes()
        self.advance_reservations = AdvanceReservations(self.cluster, self.timeline, self.holders_on, lambda: self.now)

    # --- time --------------------------------------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Advance the time to ``now`` (µs), and apply everything due by then: quotas, queue keys, backoffs,
        relaxations.
        """
        if now < self.now:
            raise went_back(self.now, now)
        self.now = now
        if self.groups.tree.clock is not None:
            self.groups.advance(now)
        loosens = now >= self.groups.next_quota_change
        if loosens:
            self._follow_timetables(now)
        if now >= self.advance_reservations.next_change:
            ended = self.advance_reservations.over(now)
            self.end_reservations(ended)
            loosens = loosens or bool(ended)
        for group in self.groups.timed:
            loosens = group.policy.pass_time(now) or loosens
        if loosens:
            self.cluster.loosened += 1
        for attempt in self.expected.outlived(now):
            self.expect_last_end(attempt)
        while self.later and self.later[0][0] <= now:
            _, number, task = heappop(self.later)
            self._queue_again(self.jobs[number], task)
        if self.relaxing.times and self.relaxing.times[0][0] <= now:
            for job in self.relaxing.due(now):
                self.look_at(job)

    def end_reservations(self, ended: list[tuple[Kept, int, int]]) -> None:
        """Mark for a stop the tasks that must end with an occurrence of an advance reservation.

        The next ``decide`` proposes their stops.
        """
        for kept, start, _ in ended:
            group = self.groups.by_name.get(kept.spec.group)
            for attempt in self.advance_reservations.stops_at_end(
                kept, start, group.attempts.values() if group else ()
            ):
                self.let_stop(attempt)
                self.advance_reservations.ending[attempt.id] = kept.spec.name

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

    def first_shape(self, job: Job, constraints: Constraints | None) -> Shape:
        """Return the shape of a job that does not wait yet, its own constraints left out."""
        size = job.tasks if job.gang else 1
        return self.fit.shape(job.request, size) if constraints is None else Shape(job.request, size)

    def add_job(self, job: JobEntry) -> None:
        """Add a job."""
        self.jobs[job.job.id] = job
        job.group.jobs += 1
        job.find_accounts(self.relations.licences)
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
            if other is not None and other.queued:
                self.refit(other)
            elif other is not None and other.claims:
                self._refit(other)

    def drop_if_over(self, job: JobEntry) -> None:
        """Drop a job with no waiting and no running task."""
        if job.over:
            del self.jobs[job.job.id]
            job.group.jobs -= 1
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
        if attempt.ports:
            self.relations.ports.take(attempt.node, attempt.ports)
        if attempt.stopping:
            self.leaving[number] = attempt
        if self.live or self.counts:
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
        if attempt.ports:
            self.relations.ports.give_back(attempt.node, attempt.ports)
        if attempt.stopping:
            del self.leaving[number]
            self.to_stop.pop(number, None)
            self.advance_reservations.ending.pop(number, None)
        if self.live or self.counts:
            self.matching.moved(job, attempt.node, -1)

    def mark_leaving(self, attempt: Attempt) -> None:
        """Add an attempt to those that were told to stop."""
        attempt.stopping = True
        self.leaving[attempt.id] = attempt
        for account in attempt.job.accounts:
            account.leave(attempt)

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

        That is its row without the amounts that stay in held leases, plus the idle parts of a lease that ends with it.
        """
        free: Ints = self.cluster.leases[attempt.slot, AMOUNTS : AMOUNTS + self.cluster.k_count].copy()
        for lease, (_, amounts) in attempt.inside:
            if lease.is_held and not attempt.yields:
                free -= amounts
        own = self.pool.leases.get(attempt.id)
        if own is not None and own.holder is attempt:
            for part in own.idle.values():
                free += part.amounts
        return free

    def charge_ending_with(self, attempt: Attempt) -> tuple[int, ...]:
        """Return the charge that a group saves when an attempt ends.

        For the holder of a lease this includes the idle parts of the lease.
        """
        lease = self.pool.leases.get(attempt.id)
        if lease is None or lease.holder is not attempt:
            return attempt.charge
        return tuple(map(int.__add__, attempt.charge, lease.charge))

    def add_claim(self, claim: ClaimEntry) -> None:
        """Add the claim of a unit whose tasks have left their queue."""
        if (claim.job.constraints is not None or self.is_asked) and not claim.job.queued:
            self.reshape(claim.job, self.shape_of(claim.job, claim.job.shape.size, claim.tasks))
        self.claims.append(claim)
        claim.job.claims.append(claim)
        claim.job.group.claims.append(claim)
        for account in claim.job.accounts:
            account.claim(claim)
        claim.shape = self._claimed_shape(claim.job)
        self.fit.want(claim.shape)
        if claim.job.constraints is not None and not claim.job.queued:
            self.relaxing.note(claim.job, self.now)

    def remove_claim(self, claim: ClaimEntry) -> None:
        """Remove a claim because its unit starts or its room is lost."""
        self.timeline.drop(claim.reservation)
        self.cluster.loosened += 1
        self.claims.remove(claim)
        claim.job.claims.remove(claim)
        claim.job.group.claims.remove(claim)
        for account in claim.job.accounts:
            account.drop(claim)
        self.fit.unwant(claim.shape)
        if claim.job.constraints is not None and not claim.job.queued and not claim.job.claims:
            self.relaxing.leave(claim.job)
        self.groups.reorder(claim.job.group)

    def drop_claim(self, claim: ClaimEntry, again: bool) -> None:
        """Remove a claim that lost its room; its tasks wait again unless the job is cancelled."""
        self.remove_claim(claim)
        if again:
            for task in claim.tasks:
                claim.job.put_back(task, claim.since)
            if claim.job.queued:
                self.refit(claim.job)
            elif out_of_queue(claim.job) is None:
                self.enqueue(claim.job)

    def void_claims(self, f: int) -> None:
        """Drop the claims on node ``f`` if it takes no tasks any more.

        All claims survive on a node that is only away. Claims for moved tasks survive unless the node is lost.
        """
        if self.cluster.nodes[f, USABLE] or self.cluster.is_only_away(f):
            return
        for claim in list(self.claims):
            if (not claim.moves or self.cluster.lost[f]) and any(node == f for node, _ in claim.reservation.nodes):
                self.drop_claim(claim, again=True)

    def expect_last_end(self, attempt: Attempt) -> None:
        """Expect an attempt that outlived its estimate to run to its time limit."""
        self.expected.move(attempt, attempt.last_end, attempt.last_end)
        # While limits count, this end is entered already.
        if int(self.cluster.leases[attempt.slot, END]) != attempt.last_end:
            self.leases.set_end(attempt.slot, attempt.last_end)

    def count_limits(self, count: bool) -> None:
        """Switch between time limits and estimates as the expected ends, for running and for starting tasks."""
        if count is self.limits_count:
            return
        self.limits_count = count
        for group in self.groups:
            if not group.predicts:
                continue
            group.trusts = not count
            for attempt in group.attempts.values():
                if attempt.expected < attempt.last_end:
                    self.leases.set_end(attempt.slot, attempt.last_end if count else attempt.expected)
        self.cluster.loosened += 1

    def expected_end(self, job: JobEntry) -> int:
        """Return the expected end (µs) of a task that starts now, by its estimate even while limits count."""
        run = job.run if job.group.predicts else job.limit
        return NEVER if run >= NEVER else self.now + run

    def deadline_of(self, job: JobEntry) -> int:
        """Return the deadline of a job on the clock of the core (µs).

        NEVER if it has none, or while the wall clock is unknown.
        """
        offset = self.groups.wall_offset
        return NEVER if not job.job.deadline or offset is None else job.job.deadline - offset

    def overdue_at(self, job: JobEntry) -> int:
        """Return the time (µs) at which a job submitted now becomes overdue.

        That is now plus ``overdue_after`` plus the time for the work ahead of it and its own work.
        """
        group = job.group
        if not group.policy.timed:
            return NEVER
        running = self.expected.work_left(self.now) // max(1, self.cluster.total_of(0))
        work = group.policy.work() + job.waiting_work()
        return self.now + group.options.overdue_after + running + self.time_for(group, work)

    def time_for(self, group: GroupState, work: int, quotas: int | None = None) -> int:
        """Return the time (µs) that a group needs for ``work`` (µs × millicores) with its share of the cluster.

        The share is the part of ``quotas`` that its quota is, by default of the sum over all groups.
        """
        quotas = sum(each.quota[0] for each in self.groups) if quotas is None else quotas
        return work // max(1, self.cluster.total_of(0) * group.quota[0] // max(1, quotas))

    def end_of(self, job: JobEntry) -> int:
        """Return the predicted end (µs) of a task that starts now: its expected end, or now plus its time limit.

        NEVER if neither is known.
        """
        return NEVER if job.duration >= NEVER else self.now + job.duration

    def charge_of(self, job: JobEntry, nodes: list[tuple[int, int]]) -> tuple[int, ...]:
        """Return the charge of a number of tasks of the job on each of these nodes."""
        total = [0] * len(job.group.quota)
        kinds = job.shape.copies(nodes) if job.shape.kinds else ((None, f, count) for f, count in nodes)
        for kind, f, count in kinds:
            request = job.job.request if kind is None else kind.request
            for i, amount in enumerate(job.group.charge(request, self.cluster.specs[f].capacity, f)):
                total[i] += amount * count
        return tuple(total)

    # --- groups ------------------------------------------------------------------------------------------------

    def _follow_timetables(self, now: int) -> None:
        """Set every quota by its timetable.

        If past borrowing counts, each change takes effect at its own time.
        """
        if self.groups.tree.clock is not None:
            while self.groups.next_quota_change < now:
                moment = self.groups.next_quota_change
                self.groups.tree.clock.now = moment
                if self.groups.refresh_quotas(moment):
                    self.recharge()
            self.groups.tree.clock.now = now
        self.refresh_quotas_now()

    def refresh_quotas_now(self) -> None:
        """Set every quota to the value of its timetable now."""
        if self.groups.refresh_quotas(self.now):
            self.recharge()

    def recharge(self) -> None:
        """Charge everything again, after the groups, their measures, policies or limits have changed."""
        self.running.forget()
        for job in self.jobs.values():
            job.find_accounts(self.relations.licences)
        accounts = [self.relations.licences, *(account for group in self.groups for account in group.accounts)]
        for account in dict.fromkeys(accounts):
            account.forget()
        for group in self.groups:
            group.attempts, group.claims, group.waiting_jobs = {}, [], QueuedJobs()
        for attempt in self.attempts.values():
            group = attempt.job.group
            group.attempts[attempt.id] = attempt
            attempt.charge = group.charge(attempt.amounts, self.cluster.capacity_of(attempt.node), attempt.node)
            for account in attempt.job.accounts:
                account.begin(attempt)
        self.pool.recharge()
        for claim in self.claims:
            claim.job.group.claims.append(claim)
            claim.charge = self.charge_of(claim.job, claim.reservation.nodes)
            for account in claim.job.accounts:
                account.claim(claim)
        for group in self.groups:
            for job in group.policy if group.counters else ():
                group.waiting_jobs.add(job.owned)
        if self.groups.tree.follows:
            self.groups.tree.recount(self.groups)
        for group in self.groups:
            self.groups.reorder(group)

    def recharge_node(self, f: int) -> None:
        """Compute the charges of tasks and claims on node ``f`` again: they are shares of its capacity, which has
        changed.
        """
        capacity = self.cluster.capacity_of(f)
        for attempt in self.holders_on(f):
            if isinstance(attempt, LeaseRow) and attempt.lease is not None:
                self.pool.charge(attempt.lease)
            if not isinstance(attempt, Attempt):
                continue
            charge = attempt.job.group.charge(attempt.amounts, capacity, f)
            if charge != attempt.charge:
                attempt.charge_anew(charge)
        for claim in self.claims:
            if any(node == f for node, _ in claim.reservation.nodes):
                claim.charge_anew(self.charge_of(claim.job, claim.reservation.nodes))
        self.running.forget()
        for group in self.groups:
            self.groups.reorder(group)

    # --- queues ------------------------------------------------------------------------------------------------

    def enqueue(self, job: JobEntry) -> None:
        """Put a job into its queue."""
        job.foreseen.arrived = self.pass_number
        if job.constraints is not None:
            self._weigh(job)
        self.queue(job)

    def queue(self, job: JobEntry) -> None:
        """Put a job into its queue; neither its waiting time nor its soft clauses change."""
        job.queued = True
        self.arrivals += 1
        size = job.unit_size if job.job.gang else job.shape.size
        if job.constraints is not None or job.companions or job.shape.wants is not NO_WANTS or self.is_asked:
            self.reshape(job, self.shape_of(job, size))
            self.relaxing.note(job, self.now)
        elif job.shape.size != size or job.shape.row < 0:
            job.shape = self.fit.shape(job.job.request, size)
        self.fit.want(job.shape)
        if self.relations.dependencies.in_use and self.concerned(job):
            self.units_in_doubt = True
        group = job.group
        group.policy.add(job)
        if group.counters:
            group.waiting_jobs.add(job.owned)
        if group.key is None:
            self.groups.reorder(group)

    def dequeue(self, job: JobEntry) -> None:
        """Remove a job from its queue."""
        job.queued = False
        if self.turns.since:
            self.turns.forget(job)
        group = job.group
        group.policy.remove(job)
        if group.counters:
            group.waiting_jobs.remove(job.owned)
        self.fit.unwant(job.shape)
        job.foreseen.drain = []
        job.foreseen.held_since = None
        if (job.constraints is not None or job.companions) and not job.claims:
            self.relaxing.leave(job)
        if group.counters or not len(group.policy):
            self.groups.reorder(group)

    def cancel_backoff(self, job: JobEntry, task: int) -> None:
        """Remove a task from the backoff."""
        time = job.later.pop(task)
        self.later.remove((time, job.job.id, task))
        heapify(self.later)

    def _queue_again(self, job: JobEntry, task: int) -> None:
        """Move a task whose backoff is over into the queue of its job."""
        del job.later[task]
        self.wait_again(job, task)

    def queue_again(self, job: JobEntry) -> None:
        """Offer a job again if possible, after one of its tasks began to wait or ended."""
        if job.queued:
            if self.relations.dependencies.in_use and self.concerned(job):
                self.units_in_doubt = True
            if job.constraints is not None or job.companions:
                self.look_at(job)
        elif out_of_queue(job) is None:
            if job.job.gang:
                # A gang waits as a whole, from now on.
                job.queued_at = self.now
            self.enqueue(job)

    def wait_again(self, job: JobEntry, task: int) -> None:
        """Put a task into the queue of its job."""
        job.put_back(task, self.now)
        self.queue_again(job)

    def wait_elsewhere(self, job: JobEntry, task: int) -> None:
        """Remove a task that waits again from the queue of its job."""
        job.take_out(task)
        if job.queued and (not job.waiting or job.full):
            self.dequeue(job)
        else:
            self.refit(job)

    # --- constraints -------------------------------------------------------------------------------------------

    def shape_of(self, job: JobEntry, size: int, tasks: Sequence[int] = ()) -> Shape:
        """Return the shape of ``size`` tasks of the job, or of its next unit, under its current constraints.

        ``tasks``: the tasks meant, for a gang with parts.
        """
        request, wants = self.asked_by(job, size, tasks)
        return self.fit.shape(request, size, wants)

    def asked_by(self, job: JobEntry, size: int = 1, tasks: Sequence[int] = ()) -> tuple[ResourceVector, Wants]:
        """Return the amounts and the current constraints of the same unit."""
        companions = job.unit()
        if companions:
            home = job.foreseen.homes.get(job.upcoming)
            if home is not None:
                name = self.cluster.names[home]
                request, wants = beside_running(
                    self.relations.dependencies, job, companions, self.now, self.balance.utilisation, name
                )
            else:
                request, wants = combination(
                    self.relations.dependencies, job, companions, self.now, self.balance.utilisation
                )
            return request, self.unit_as_asked(job, wants)
        if job.constraints is None:
            return job.job.request, self.as_asked((job.job,), NO_WANTS)
        if isinstance(job.constraints, KindsConstraints):
            asked = (job.foreseen.soft, job.job.counted_as, job.group.name)
            kinds = job.constraints.of_tasks(tasks or job.next_unit(), *asked)
            request, wants = request_and_wants(kinds, job.job.licences)
            return request, self.as_asked((job.job,), wants)
        wants = job.constraints.wants(job.foreseen.soft, job.job.counted_as, job.group.name, size)
        return job.job.request, self.as_asked((job.job,), wants)

    @property
    def is_asked(self) -> bool:
        """True if nodes with choices, or jobs that exclude others, restrict any job."""
        return bool(self.relations.choices or self.relations.selections.repelling)

    def as_asked(self, jobs: Iterable[Job], wants: Wants) -> Wants:
        """Return the wants of a unit of these jobs, with the conditions of others added.

        Others are nodes with choices and jobs that exclude others.
        """
        choices, selections = self.relations.choices, self.relations.selections
        jobs = tuple(jobs)
        if wants.kinds:
            return self._kinds_as_asked(jobs[0], wants)
        if selections.repelling:
            avoids = dict.fromkeys(each for job in jobs for each in selections.avoided(job, self._group_of(job)))
            wants = replace(wants, avoids=tuple(avoids)) if avoids else wants
        if not choices:
            return wants
        return replace(wants, askers=tuple(dict.fromkeys(asker_of(choices, job, self.dimensions) for job in jobs)))

    def _kinds_as_asked(self, job: Job, wants: Wants) -> Wants:
        """Return ``as_asked`` for a gang of several kinds of tasks; each kind counts as a job by itself."""
        kinds = kinds_of(job, self.dimensions)
        asked = (each._replace(wants=self.as_asked((kinds[each.number].job,), each.wants)) for each in wants.kinds)
        return replace(wants, kinds=tuple(asked))

    def _group_of(self, job: Job) -> str:
        """Return the group of a job, also if the job has moved or is not submitted yet."""
        live = self.jobs.get(job.id)
        return live.group.name if live is not None else job.group or DEFAULT_GROUP

    def unit_as_asked(self, job: JobEntry, wants: Wants) -> Wants:
        """Return ``as_asked`` for the next unit of a job and its companions."""
        return self.as_asked((job.job, *(other.job for other, _ in job.unit())), wants)

    def ask_again(self) -> None:
        """Match all shapes again, because the choices of nodes have changed."""
        self.relations.choices.changed = False
        self.fit.rematch()
        for job in list(self.jobs.values()):
            if job.queued:
                self.refit(job)
            elif job.claims:
                self._refit(job)

    def concerned(self, job: JobEntry) -> bool:
        """Return True if a job depends on others, or others on it."""
        return self.relations.dependencies.concern(job.job.id, JobKey(job.group.name, job.job.name))

    def look_at(self, job: JobEntry) -> None:
        """Update the shape of a waiting job: clauses may have become soft or hard."""
        if job.companions:
            self.units_in_doubt = True
        if (job.constraints is not None and self._weigh(job)) or job.companions:
            self._refit(job)
        self.relaxing.note(job, self.now)

    def refit(self, job: JobEntry) -> None:
        """Update the shape of a job after its next unit has changed."""
        if job.queued:
            if job.constraints is not None:
                self._weigh(job)
            self._refit(job)
            self.relaxing.note(job, self.now)

    def _refit(self, job: JobEntry) -> None:
        old = job.shape
        shape = self.shape_of(job, job.unit_size if job.queued and job.job.gang else old.size)
        if shape is old:
            return
        self.reshape(job, shape)
        if job.queued:
            self.fit.want(job.shape)
            self.fit.unwant(old)
            job.group.policy.reshaped(job)
        # Earlier failures, reservations and plans belong to another shape.
        self.plans.forget(job)
        self.cluster.loosened += 1

    def _weigh(self, job: JobEntry) -> bool:
        """Make every clause of a job hard or soft as due now; return True if one has changed."""
        assert job.constraints is not None
        load = self.balance.utilisation() if job.constraints.by_load else 0.0
        soft = job.constraints.soft_now(self.now - job.since, load)
        changed = soft != job.foreseen.soft
        job.foreseen.soft = soft
        return changed

    def reshape(self, job: JobEntry, shape: Shape) -> None:
        """Give a job and its claims another shape."""
        if shape is job.shape:
            return
        job.shape = shape
        for claim in job.claims:
            own = self._claimed_shape(job)
            if own is not claim.shape:
                self.fit.want(own)
                self.fit.unwant(claim.shape)
                claim.shape = own

    def _claimed_shape(self, job: JobEntry) -> Shape:
        """Return the shape of a claimed unit of the job, which never starts together with other jobs."""
        if not job.companions or not job.unit():
            return job.shape
        wants = NO_WANTS
        if job.constraints is not None:
            wants = job.constraints.wants(job.foreseen.soft, job.job.counted_as, job.group.name)
        return self.fit.shape(job.job.request, 1, self.as_asked((job.job,), wants))

    # --- questions ---------------------------------------------------------------------------------------------

    def waiting(self) -> Iterator[JobEntry]:
        """Yield all jobs with a waiting task, in the order of their ids."""
        return (
            job for _, job in sorted(self.jobs.items()) if job.waiting or job.has_claimed or job.later or job.carried
        )

    def needs_estimate(self, job: Job) -> bool:
        """Return True if an estimate of a job counts: for the policy of its group, for loans or for its deadline.

        False if the group does not exist (any more).
        """
        group = self.groups.by_name.get(job.group or DEFAULT_GROUP)
        return group is not None and (group.policy.timed or self.pool.lends or bool(job.deadline))

    def settled(self, jobs: Iterable[int]) -> list[int]:
        """Return the jobs among these that have no waiting task."""
        entries = self.jobs
        return [number for number in jobs if (entry := entries.get(number)) is None or entry.waiting <= 0]

    def never_fits(self, job: Job) -> bool:
        """Return True if no present node could ever hold a task of ``job``, or all nodes together its gang.

        Only static clauses that never relax count; running tasks are ignored.
        """
        wants = self.as_asked((job,), lasting_wants(job, self.dimensions))
        if not self.fit.ever_fits(job.request, wants):
            return True
        constraints = constraints_of(job, self.dimensions) if job.gang else None
        tasks = job.tasks if constraints is None or not constraints.least else min(job.tasks, constraints.least)
        return job.gang and not self.fit.holds_when_empty(job.request, tasks, wants)

    def never_within_bounds(self, job: Job) -> AtBound | None:
        """Return the bound that ``job``, or its gang, exceeds even when it runs alone; ``None`` if there is none.

        A bound is a MaxQuota, or the capacity that other groups keep for themselves.
        """
        constraints = constraints_of(job, self.dimensions)
        shape = self.first_shape(job, constraints)
        entry = JobEntry.of(job, self.groups.get(job.group), shape, self.now, constraints=constraints)
        tasks = job.tasks if constraints is None or not constraints.least else min(job.tasks, constraints.least)
        wants = self.as_asked((job,), lasting_wants(job, self.dimensions)) if self.groups.kinds else NO_WANTS
        asked = (self.groups, entry, tasks if job.gang else 1, self.cluster, wants)
        return never_within_max(*asked) or never_lent(*asked)

    def fits_now(self, request: tuple[int, ...]) -> bool:
        """Return True if one task of ``request`` fits into the free amounts of some node."""
        return self.fit.fits_now(request)


def went_back(before: int, now: int) -> InputError:
    """Return the error for a time before the last one."""
    return InputError(f"time went back from {before} to {now} µs", hint="a clock that never does")
