"""What is true: nodes, groups, jobs, attempts, claims, and how events and decisions change them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, tzinfo
from heapq import heapify, heappop, heappush

from cress.core.admission import check_events
from cress.core.combined_restarts import combination, dissolve_hopeless, leave_units
from cress.core.future.plans import Plans
from cress.core.future.reservations import Reservations
from cress.core.future.timeline import Timeline
from cress.core.groups.shares import Groups, GroupState
from cress.core.jobs import Attempt, JobState
from cress.core.kernels.holding import END, USABLE
from cress.core.placing import data_clauses, licence_clauses
from cress.core.placing.balance import Balance
from cress.core.placing.constraints import NO_WANTS, Constraints, Wants, constraints_of, lasting_wants
from cress.core.placing.placement_clauses import all_ports, relation_of
from cress.core.placing.relaxation import Relaxing
from cress.core.preemption import Claim
from cress.core.tables import devices, measured_load
from cress.core.tables.cluster import Cluster, Shape
from cress.core.tables.running_tasks import Running
from cress.model.decisions import Decision, Start, Stop
from cress.model.errors import InputError
from cress.model.events import (
    ClockSet,
    DataLocated,
    Event,
    GroupsApplied,
    JobAfter,
    JobCancelled,
    JobHeld,
    JobSubmitted,
    LicencesSet,
    LoadSeen,
    NodeAdded,
    NodeChanged,
    NodeCordoned,
    NodeLost,
    Outcome,
    PortsSeen,
    RacksSet,
    TaskEnded,
)
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job
from cress.model.options import Options
from cress.model.resources import Dimensions, ResourceVector
from cress.model.times import NEVER


class Ledger:
    """The state of one cluster. ``Scheduler`` adds the decisions."""

    def __init__(self, dimensions: Dimensions, options: Options, zone: tzinfo = UTC) -> None:
        self.dimensions = dimensions
        self.options = options
        self.now = -(2**62)
        self.cluster = Cluster(dimensions, options.balance_dimensions)
        self.timeline = Timeline(self.cluster)
        self.reservations = Reservations(self.cluster, self.timeline)
        self.plans = Plans(self.cluster, self.timeline)
        self.balance = Balance(self.cluster, options)
        self.groups = Groups(options, dimensions, self.cluster, zone)
        self.groups.apply((), 0)
        self.jobs: dict[int, JobState] = {}
        self.relations = self.cluster.matching.relations
        self.relations.jobs = self.jobs
        # Both are empty while nobody asks for more than amounts.
        self._live, self._counts = self.cluster.matching.live, self.relations.counts
        self.loads = measured_load.Loads()
        self.attempts: dict[int, Attempt] = {}
        self.running = Running()
        # Attempts that were told to stop and still hold their leases.
        self.leaving: dict[int, Attempt] = {}
        self.claims: list[Claim] = []
        self.next_attempt = 1
        self.pass_number = 0
        # Tasks that are queued again at a time: a heap of time, job, task.
        self.later: list[tuple[int, int, int]] = []
        # Tasks that were lost since the last pass and wait again: job, task, the node that they were on.
        self.lost: list[tuple[int, int, int]] = []
        # Decisions that events led to, handed out by the next ``decide``.
        self.outbox: list[Decision] = []
        self.wake = NEVER
        self.relaxing = Relaxing()
        self._by_cpu = options.accounting == "cpu"

    # --- events ----------------------------------------------------------------------------------------------

    def observe(self, now: int, events: Sequence[Event]) -> None:
        """Take in what happened, in this order, all at time ``now``; raises ``InputError`` before anything changes."""
        self._check_time(now)
        check_events(self, events)
        self._at(now)
        nodes_changed = False
        for event in events:
            match event:
                case TaskEnded():
                    self._task_ended(event)
                case JobSubmitted():
                    self._submitted(event)
                case JobCancelled():
                    self._cancelled(event.job)
                case JobHeld() | JobAfter():
                    self._let_wait(event)
                case NodeAdded():
                    self.cluster.add_node(event.node)
                    nodes_changed = True
                case NodeLost():
                    self._node_lost(event.name)
                    nodes_changed = True
                case NodeCordoned():
                    f = self.cluster.index[event.name]
                    self.cluster.cordon(f, event.reason if event.cordoned else None)
                    self.void_claims(f)
                case NodeChanged() | PortsSeen() | RacksSet() | LoadSeen() | DataLocated() | LicencesSet():
                    self._found_out(event)
                case GroupsApplied():
                    self._groups_applied(event)
                case ClockSet():
                    self.groups.wall_offset = event.utc - now
                    self._refresh_quotas()
        if nodes_changed:
            # Once for all nodes of the batch: thousands may register together.
            self._nodes_changed()
        if self._live:
            self.cluster.matching.flush()

    def _at(self, now: int) -> None:
        self._check_time(now)
        self.now = now
        if now >= self.groups.next_quota_change:
            self._refresh_quotas()
        while self.later and self.later[0][0] <= now:
            _, number, task = heappop(self.later)
            self._queue_again(self.jobs[number], task)
        if self.relaxing.times and self.relaxing.times[0][0] <= now:
            for job in self.relaxing.due(now):
                self.look_at(job)

    def _check_time(self, now: int) -> None:
        if now < self.now:
            raise InputError(f"time went back from {self.now} to {now} µs", hint="a clock that never does")

    def _submitted(self, event: JobSubmitted) -> None:
        job = event.job
        group = self.groups.get(job.group)
        constraints = constraints_of(job)
        state = JobState(job, group, self.first_shape(job, constraints), self.now, event.behind, constraints)
        self.add_job(state)
        if self.can_wait(state):
            self.enqueue(state)

    def first_shape(self, job: Job, constraints: Constraints | None) -> Shape:
        """The shape of a job that does not wait yet; what constraints ask for is seen when it does."""
        size = job.tasks if job.gang else 1
        return self.cluster.shape(job.request, size) if constraints is None else Shape(job.request, size)

    def add_job(self, job: JobState) -> None:
        """A job lives from now on."""
        self.jobs[job.job.id] = job
        job.group.jobs += 1
        if job.constraints is not None or job.job.application or self.relations.dependencies.followed:
            self.relations.add_job(job, relation_of(job.job, job.constraints, job.group.name))

    def _forget(self, job: JobState) -> None:
        if job.constraints is not None or job.job.application or self.relations.dependencies.followed:
            self.relations.remove_job(job)

    def _found_out(self, event: NodeChanged | PortsSeen | RacksSet | LoadSeen | DataLocated | LicencesSet) -> None:
        """Nodes are otherwise than was thought: only those who ask for it are concerned."""
        cluster = self.cluster
        match event:
            case NodeChanged():
                measured_load.judge(self, cluster.change_node(event.node))
            case PortsSeen():
                f = cluster.index[event.name]
                self.relations.ports.see(f, event.ports)
                cluster.matching.touch(f)
            case RacksSet():
                self.relations.racks.set_neighbours(event.neighbours)
                cluster.matching.redo_racks()
            case LoadSeen():
                self.void_claims(measured_load.see(self, event))
            case DataLocated():
                data_clauses.see(self, event)
            case LicencesSet():
                licence_clauses.set_counts(self, event)
        # What a gang has room for may be more, although no clause says anything else of any node.
        cluster.loosened += 1

    def _cancelled(self, job_id: int) -> None:
        job = self.jobs.get(job_id)
        if job is None or job.cancelled:
            return
        job.cancelled = True
        leave_units(self, job)
        for claim in list(job.claims):
            self._drop_claim(claim, again=False)
        if job.queued:
            self._dequeue(job)
        job.waiting = 0
        job.again.clear()
        if job.later:
            self.later = [each for each in self.later if each[1] != job_id]
            heapify(self.later)
            job.later.clear()
        for attempt in job.attempts.values():
            if not attempt.stopping:
                self.leave(attempt, self.now + job.group.options.grace)
                name = self.cluster.names[attempt.node]
                self.outbox.append(Stop(attempt.id, job.job.id, attempt.task, name))
        self._maybe_over(job)

    def _let_wait(self, event: JobHeld | JobAfter) -> None:
        """A job has a reason not to be offered, or has it no longer."""
        job = self.jobs.get(event.job)
        if job is None or job.cancelled:
            return
        if isinstance(event, JobHeld):
            job.held = event.held
        else:
            job.behind = event.behind
        if self.can_wait(job):
            if not job.queued:
                self.enqueue(job)
        elif job.held or job.behind is not None:
            leave_units(self, job)
            for claim in list(job.claims):
                self._drop_claim(claim, again=True)
            if job.queued:
                self._dequeue(job)

    def _task_ended(self, event: TaskEnded) -> None:
        attempt = self.attempts.get(event.attempt)
        if attempt is None:
            # Reported twice, or its node was declared lost before.
            return
        again, after = event.again, event.after
        # A victim is always queued again, however its end is called; a cancelled job takes nothing back.
        victim = attempt.stopping and event.outcome is not Outcome.SUCCEEDED
        lost = event.outcome is Outcome.LOST and (attempt.job.job.job_failure or again)
        if victim or lost or event.outcome is Outcome.PREEMPTED:
            again, after = True, 0
        if event.outcome is Outcome.LOST and again and not after:
            self.lost.append((attempt.job.job.id, attempt.task, attempt.node))
        self._give_back(attempt, again, after)

    def _node_lost(self, name: str) -> None:
        f = self.cluster.index[name]
        if self.cluster.lost[f]:
            return
        for attempt in [attempt for attempt in self.attempts.values() if attempt.node == f]:
            again = attempt.stopping or attempt.job.job.job_failure
            if again:
                self.lost.append((attempt.job.job.id, attempt.task, f))
            self._give_back(attempt, again)
        self.relations.ports.forget(f)
        measured_load.forget(self, f)
        self.cluster.lose_node(f)
        self.void_claims(f)

    def _nodes_changed(self) -> None:
        self.balance.refresh()
        self.balance.cursor %= max(1, self.cluster.node_count)
        dissolve_hopeless(self)
        if self.groups.default_is_implied():
            self._refresh_quotas()

    def _groups_applied(self, event: GroupsApplied) -> None:
        kept = {group.name for group in event.groups} | {DEFAULT_GROUP}
        moves = dict(event.moves)
        moving = [job for job in self.jobs.values() if job.group.name not in kept]
        targets = [(job, moves[job.group.name]) for job in moving]
        for job in moving:
            leave_units(self, job)
        for job in moving:
            if job.queued:
                self._dequeue(job)
            self._forget(job)
            job.group.jobs -= 1
        touched = self.groups.apply(event.groups, self.now)
        self.running.forget()
        for job, name in targets:
            job.group = self.groups.get(name)
            self.add_job(job)
            touched.append(job.group)
        self._groups_moved(targets)
        for job, _ in targets:
            if self.can_wait(job):
                since = job.since
                self.enqueue(job)
                self.waits_since(job, since)
        self.plans.keep([group.name for group in self.groups if group.policy.plans])
        self.cluster.loosened += 1
        self._recharge(touched)

    def _groups_moved(self, moved: Sequence[object]) -> None:
        """Names of jobs mean others when jobs are of other groups."""
        if moved:
            self.relations.forget_counts()
            self.cluster.matching.redo_all()

    def _refresh_quotas(self) -> None:
        self.cluster.loosened += 1
        self._recharge(self.groups.refresh_quotas(self.now))

    def _recharge(self, groups: list[GroupState]) -> None:
        """Work out again what these groups use: their measures or policies are others now."""
        wanted = {group.name for group in groups}
        if not wanted:
            return
        self.running.forget()
        for group in groups:
            group.attempts = {}
            group.policy.forget_charges()
            zero = [0] * len(group.quota)
            group.used, group.leaving, group.claimed = zero, zero.copy(), zero.copy()
        for attempt in self.attempts.values():
            group = attempt.job.group
            if group.name in wanted:
                group.attempts[attempt.id] = attempt
                attempt.charge = group.charge(attempt.job.job.request, self.cluster.capacity_of(attempt.node))
                group.add_used(attempt.job, attempt.charge)
                if attempt.stopping:
                    _add(group.leaving, attempt.charge)
        for group in groups:
            group.claims.clear()
        for claim in self.claims:
            group = claim.job.group
            if group.name in wanted:
                group.claims.append(claim)
                claim.charge = self.charge_of(claim.job, claim.reservation.nodes)
                _add(group.claimed, claim.charge)
        for group in groups:
            self.groups.reorder(group)

    # --- queues ----------------------------------------------------------------------------------------------

    def can_wait(self, job: JobState) -> bool:
        """Whether a unit of the job may be offered: a gang only when nothing of it runs any more."""
        if not job.waiting or job.held or job.behind is not None or job.full:
            return False
        return not (job.job.gang and (job.attempts or job.claims or job.later))

    def enqueue(self, job: JobState) -> None:
        """A unit of the job waits from now on."""
        job.since = self.now
        job.arrived = self.pass_number
        if job.constraints is not None:
            self._weigh(job)
        self.queue(job)

    def queue(self, job: JobState) -> None:
        """Put a job into its queue, with the time since which it waits and the sides of its clauses as they are."""
        job.queued = True
        size = job.waiting if job.job.gang else job.shape.size
        if job.constraints is not None or job.companions or job.shape.wants.parts:
            self._reshape(job, self.shape_of(job, size))
            self.relaxing.note(job, self.now)
        elif job.shape.size != size or job.shape.row < 0:
            job.shape = self.cluster.shape(job.job.request, size)
        self.cluster.want(job.shape)
        group = job.group
        group.policy.add(job)
        if group.key is None:
            self.groups.reorder(group)

    def _dequeue(self, job: JobState) -> None:
        job.queued = False
        job.group.policy.remove(job)
        self.cluster.unwant(job.shape)
        job.drain = []
        job.held_since = None
        if (job.constraints is not None or job.companions) and not job.claims:
            self.relaxing.leave(job)
        if not len(job.group.policy):
            self.groups.reorder(job.group)

    def _queue_again(self, job: JobState, task: int) -> None:
        """The time of a task has come: it waits like any other."""
        del job.later[task]
        self.wait_again(job, task)

    # --- constraints -----------------------------------------------------------------------------------------

    def shape_of(self, job: JobState, size: int) -> Shape:
        """The shape of ``size`` tasks of the job with what it wants while ``job.soft`` are soft, or of its next unit."""
        request, wants = self.asked_by(job, size)
        return self.cluster.shape(request, size, wants)

    def asked_by(self, job: JobState, size: int = 1) -> tuple[ResourceVector, Wants]:
        """The amounts and the wants of that shape."""
        companions = job.unit()
        if companions:
            return combination(self, job, companions)
        if job.constraints is None:
            return job.job.request, NO_WANTS
        return job.job.request, job.constraints.wants(job.soft, job.job.counted_as, job.group.name, size)

    def waits_since(self, job: JobState, since: int) -> None:
        """The job got a task into its queue at another time than was thought."""
        job.since = since
        if job.constraints is not None or job.companions:
            self.look_at(job)

    def look_at(self, job: JobState) -> None:
        """A waiting job as its constraints are at this moment: clauses may have changed sides."""
        if (job.constraints is not None and self._weigh(job)) or job.companions:
            self._refit(job)
        self.relaxing.note(job, self.now)

    def refit(self, job: JobState) -> None:
        """The next unit of a job may be another one than before."""
        if job.queued:
            self._refit(job)
            self.relaxing.note(job, self.now)

    def _refit(self, job: JobState) -> None:
        old = job.shape
        shape = self.shape_of(job, old.size)
        if shape is old:
            return
        self._reshape(job, shape)
        if job.queued:
            self.cluster.want(job.shape)
            self.cluster.unwant(old)
            job.group.policy.reshaped(job)
        # It may fit where it did not, and what was reserved or planned for it was for another shape.
        self.plans.forget(job)
        self.cluster.loosened += 1

    def wait_again(self, job: JobState, task: int) -> None:
        """A task waits in the queue of its job from now on."""
        job.put_back(task)
        if job.queued:
            self.waits_since(job, self.now)
        elif self.can_wait(job):
            self.enqueue(job)

    def wait_elsewhere(self, job: JobState, task: int) -> None:
        """A task that was queued again waits in the queue of its job no longer."""
        job.take_out(task)
        if job.queued and (not job.waiting or job.full):
            self._dequeue(job)
        else:
            self.refit(job)

    def _weigh(self, job: JobState) -> bool:
        """Put every clause of a job on its side; returns whether one changed it."""
        assert job.constraints is not None
        load = self.balance.utilisation() if job.constraints.by_load else 0.0
        soft = job.constraints.soft_now(self.now - job.since, load)
        changed = soft != job.soft
        job.soft = soft
        return changed

    def _reshape(self, job: JobState, shape: Shape) -> None:
        if shape is job.shape:
            return
        for _ in job.claims:
            self.cluster.want(shape)
            self.cluster.unwant(job.shape)
        job.shape = shape

    def _maybe_over(self, job: JobState) -> None:
        if job.over:
            del self.jobs[job.job.id]
            job.group.jobs -= 1
            self._forget(job)

    # --- attempts --------------------------------------------------------------------------------------------

    def end_of(self, job: JobState) -> int:
        """The predicted end of a task that starts now: start + time limit; none given = no known end."""
        return NEVER if job.limit >= NEVER else self.now + job.limit

    def start(self, job: JobState, task: int, f: int, slot: int) -> Start:
        """A task starts on node ``f`` inside the lease in ``slot``: its charge, its attempt."""
        group = job.group
        charge = job.cpu_charge if self._by_cpu else group.charge(job.job.request, self.cluster.specs[f].capacity)
        number = self.next_attempt
        self.next_attempt = number + 1
        attempt = Attempt(number, job, task, f, slot, self.now, charge)
        self.attempts[number] = attempt
        job.attempts[number] = attempt
        group.attempts[number] = attempt
        group.add_used(job, charge)
        if job.constraints is not None:
            self._take_ports(attempt)
        if self._live or self._counts:
            self.cluster.matching.moved(job, f, 1)
        name = self.cluster.names[f]
        has = devices.allocated(self.cluster, slot, f) if self.cluster.devices[f] else ()
        if not attempt.ports and not has:
            return Start(number, job.job.id, task, name)
        return Start(number, job.job.id, task, name, attempt.ports[: len(job.job.ports)], devices=has)

    def _take_ports(self, attempt: Attempt) -> None:
        job, f = attempt.job, attempt.node
        assert job.constraints is not None
        wants = job.constraints.wants(job.soft, job.job.counted_as, job.group.name)
        attempt.ports = self.relations.ports.give(f, all_ports(wants))
        if job.job.licences:
            licence_clauses.take(self, job.job.licences)

    def _give_back(self, attempt: Attempt, again: bool, after: int = 0) -> None:
        """An attempt is over: its lease and charge are given back, its task is done or waits again, ``after`` µs."""
        job = attempt.job
        group = job.group
        del self.attempts[attempt.id]
        del job.attempts[attempt.id]
        del group.attempts[attempt.id]
        if job.constraints is not None:
            self.relations.ports.give_back(attempt.node, attempt.ports)
            if job.job.licences:
                licence_clauses.give_back(self, job.job.licences)
        self.cluster.release(attempt.slot)
        if self._live or self._counts:
            self.cluster.matching.moved(job, attempt.node, -1)
        group.add_used(job, tuple(-amount for amount in attempt.charge))
        if attempt.stopping:
            del self.leaving[attempt.id]
            _add(group.leaving, tuple(-amount for amount in attempt.charge))
        if again and not job.cancelled:
            if after:
                job.later[attempt.task] = self.now + after
                heappush(self.later, (self.now + after, job.job.id, attempt.task))
            else:
                job.put_back(attempt.task)
            if job.job.gang:
                self._stop_rest(job)
        if job.queued:
            if again and not after:
                self.waits_since(job, self.now)
        elif self.can_wait(job):
            self.enqueue(job)
        elif not job.attempts:
            self._maybe_over(job)
        if group.key is not None:
            self.groups.reorder(group)

    def _stop_rest(self, job: JobState) -> None:
        """A gang lost a task: the others stop too, so that it starts again as a whole."""
        for attempt in job.attempts.values():
            if not attempt.stopping:
                self.leave(attempt, self.now + job.group.options.grace)
                name = self.cluster.names[attempt.node]
                self.outbox.append(Stop(attempt.id, job.job.id, attempt.task, name))

    def leave(self, attempt: Attempt, end: int) -> None:
        """An attempt was told to stop; what it holds is expected back at ``end``."""
        self.mark_leaving(attempt)
        if int(self.cluster.leases[attempt.slot, END]) > end:
            self.cluster.set_end(attempt.slot, end)

    def mark_leaving(self, attempt: Attempt) -> None:
        """Count the attempt among those that were told to stop."""
        attempt.stopping = True
        self.leaving[attempt.id] = attempt
        _add(attempt.job.group.leaving, attempt.charge)

    # --- claims ----------------------------------------------------------------------------------------------

    def charge_of(self, job: JobState, nodes: list[tuple[int, int]]) -> tuple[int, ...]:
        """What so many tasks of the job on these nodes cost its group."""
        total = [0] * len(job.group.quota)
        for f, count in nodes:
            for i, amount in enumerate(job.group.charge(job.job.request, self.cluster.specs[f].capacity)):
                total[i] += amount * count
        return tuple(total)

    def add_claim(self, claim: Claim) -> None:
        """Victims make room for a unit that left its queue."""
        if claim.job.constraints is not None and not claim.job.queued:
            self._reshape(claim.job, self.shape_of(claim.job, claim.job.shape.size))
            self.relaxing.note(claim.job, self.now)
        self.claims.append(claim)
        claim.job.claims.append(claim)
        claim.job.group.claims.append(claim)
        _add(claim.job.group.claimed, claim.charge)
        self.cluster.want(claim.job.shape)

    def _remove_claim(self, claim: Claim) -> None:
        self.timeline.drop(claim.reservation)
        self.cluster.loosened += 1
        self.claims.remove(claim)
        claim.job.claims.remove(claim)
        claim.job.group.claims.remove(claim)
        _add(claim.job.group.claimed, tuple(-amount for amount in claim.charge))
        self.cluster.unwant(claim.job.shape)
        if claim.job.constraints is not None and not claim.job.queued and not claim.job.claims:
            self.relaxing.leave(claim.job)
        self.groups.reorder(claim.job.group)

    def _drop_claim(self, claim: Claim, again: bool) -> None:
        """The claim is void; its tasks wait again unless the job is cancelled."""
        self._remove_claim(claim)
        if again:
            for task in claim.tasks:
                claim.job.put_back(task)
            if not claim.job.queued and self.can_wait(claim.job):
                self.enqueue(claim.job)

    def void_claims(self, f: int) -> None:
        """If node ``f`` takes no tasks any more, nothing can be kept on it."""
        if self.cluster.nodes[f, USABLE]:
            return
        for claim in list(self.claims):
            if any(node == f for node, _ in claim.reservation.nodes):
                self._drop_claim(claim, again=True)

    # --- questions -------------------------------------------------------------------------------------------

    def waiting(self) -> Iterator[JobState]:
        """All jobs with a task that waits, by id."""
        return (job for _, job in sorted(self.jobs.items()) if job.waiting or job.claims or job.later or job.carried)

    def never_fits(self, job: Job) -> bool:
        """Whether no node that is there could ever hold a task of ``job``, or not all nodes together its gang.

        What clauses that never relax say of what nodes are counts; who runs where does not.
        """
        wants = lasting_wants(job)
        if not self.cluster.ever_fits(job.request, wants):
            return True
        return job.gang and not self.cluster.holds_when_empty(job.request, job.tasks, wants)

    def fits_now(self, request: tuple[int, ...]) -> bool:
        """Whether one task of ``request`` fits into what is free on some node."""
        return self.cluster.fits_now(request)


def _add(amounts: list[int], change: tuple[int, ...]) -> None:
    for i, amount in enumerate(change):
        amounts[i] += amount
