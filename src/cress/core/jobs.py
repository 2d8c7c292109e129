"""Jobs, attempts, leases of workloads, reservations, claims and groups: records that refer to each other."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from heapq import heapify, heappop, heappush, nsmallest
from typing import Generic, TypeAlias, TypeVar

import msgspec

from cress.core.accounts import Account, Owned
from cress.core.groups.policies.base import Policy
from cress.core.groups.policies.queue import QueuedJob
from cress.core.placing.constraints import NO_WANTS, Constraints, Wants
from cress.core.placing.kinds import KindsConstraints
from cress.core.placing.shape import Shape
from cress.core.placing.vetoes import Verdict
from cress.core.running_jobs import QueuedJobs, RunningJobs, counter_of
from cress.core.stored.fields import (
    ForeseenJob,
    KeptAttempt,
    KeptClaim,
    KeptGroup,
    KeptJob,
    KeptLease,
    KeptReservation,
    KeptStranger,
)
from cress.core.tables.arrays import Ints
from cress.core.tree.amounts import Amounts
from cress.model.decisions import Kept
from cress.model.estimates import RunEstimate
from cress.model.group import Group, Quota
from cress.model.job import Job, JobType
from cress.model.options import Options
from cress.model.resources import Dimensions, ResourceVector
from cress.model.times import DAY, NEVER, SECOND

MILLI = 1_000

# In the order by expansion factor: the exponent of the size, and the shortest and longest mean that count (design note
# 0022).
_SIZE_EXPONENT = 0.3
_LEAST_MEAN = 10 * SECOND
_MOST_MEAN = 1000 * DAY
# The shortest planned run (µs). A booking made now counts from the next microsecond, so a task that ended then would
# seem to fit before it.
_LEAST_RUN = 2

# The index of a device on its node; NO_DEVICE: a piece without a device.
NO_DEVICE = -1
# The first character of the name of a built-in workload.
_BUILT_IN = "/"
_BUILT_IN_OF = {type_: _BUILT_IN + type_.value for type_ in JobType}

# A piece of a part: the index of its device or NO_DEVICE, and its amounts.
Piece: TypeAlias = tuple[int, ResourceVector]
# The state of a failed try: the job, and counters that grow with every change that could help.
_State = TypeVar("_State", bound=tuple[object, ...])


class JobEntry(KeptJob, QueuedJob, kw_only=True, eq=False):
    """A job with tasks that wait or run. An array of any length is one object until its tasks start.

    ``constraints`` are those besides amounts; the present soft clauses hold until one changes by itself at
    ``relaxes_at``. ``companions`` are the tasks of other jobs that start together with a task in ``again``, or with a
    claimed one: on its node, or each on its own if the job ``waits_whole``.
    ``carried`` are the job's own tasks that are companions, with the leading job; ``beside`` are the running ones
    among them.

    A task is expected to run for ``run`` µs by the ``estimate``; ``cost`` is its weight in the order by expansion
    factor, ``work`` its part of the work ahead of jobs submitted later. ``deadline`` holds for all tasks together, on
    the clock of the core. ``cpu_charge`` is the charge of a task in the accounting ``cpu`` if it is the same on every
    node, because the job asks for cores only. The name of a built-in ``workload`` begins with a character that no
    other has; a job that names its workload ``is_part`` of a framework. Its tasks and claims are charged to its
    ``accounts``.
    """

    job: Job
    group: GroupState
    shape: Shape
    constraints: Constraints | None = None
    accounts: tuple[Account, ...] = ()
    foreseen: ForeseenJob = msgspec.field(default_factory=ForeseenJob)
    relaxes_at: int = NEVER
    limit: int = NEVER
    deadline: int = NEVER
    run: int = NEVER
    cost: int = 0
    work: int = 0
    cpu_charge: tuple[int, ...] = ()
    most: int = 0
    workload: str = ""
    is_part: bool = False
    queued: bool = False
    key: tuple[int, int] = (0, 0)
    attempts: dict[int, Attempt] = {}
    claims: list[ClaimEntry] = []
    companions: dict[int, list[tuple[JobEntry, int]]] = {}
    carried: dict[int, JobEntry] = {}
    beside: dict[int, JobEntry] = {}
    waits: OrderedDict[int, int] = msgspec.field(default_factory=OrderedDict)

    @classmethod
    def of(
        cls, job: Job, group: GroupState, shape: Shape, submitted: int, *, behind: int | None = None,
        constraints: Constraints | None = None, estimate: RunEstimate | None = None,
    ) -> JobEntry:  # fmt: skip
        """Return a job that is submitted now; it waits ``behind`` another job."""
        return cls(
            job=job, group=group, shape=shape, constraints=constraints, submitted=submitted, queued_at=submitted,
            waiting=job.tasks, held=job.hold, behind=behind, estimate=estimate,
        )  # fmt: skip

    def __post_init__(self) -> None:
        describe(self)

    def find_accounts(self, licences: Account) -> None:
        """Find the accounts of the job, when it enters its group or its group has changed."""
        self.accounts = (*self.group.accounts, licences) if self.job.licences else self.group.accounts

    def expect(self, estimate: RunEstimate | None) -> None:
        """Take over an estimate; without one, tasks are expected to run to their limits."""
        self.estimate = estimate
        self.run = self.limit if estimate is None else min(self.limit, max(_LEAST_RUN, estimate.run))
        mean = min(self.limit if estimate is None else estimate.mean, _MOST_MEAN)
        self.cost = max(mean, _LEAST_MEAN) * _size(self.job.total(0) if self.job.gang else self.job.request[0])

    @property
    def upcoming(self) -> int:
        """The task that starts next: first the tasks queued again; if clauses change with time, the longest waiting
        task.

        Otherwise a retried task would keep clauses hard for tasks that have waited longer.
        """
        if not self.again:
            return self.next_task
        least = self.again[0]
        if self.job.gang or self.constraints is None or not self.constraints.by_time:
            return least
        longest = next(iter(self.waits))
        if self.next_task < self.job.tasks and self.queued_at <= self.waits[longest]:
            return self.next_task
        return least if self.waits[least] == self.waits[longest] else longest

    @property
    def since(self) -> int:
        """The time (µs) since which the next task, or the claimed unit, waits."""
        if self.again and not self.job.gang:
            return self.waits.get(self.upcoming, self.queued_at)
        return self.claims[0].since if self.claims and not self.waiting else self.queued_at

    def wait_anew(self, now: int) -> None:
        """Let all waiting tasks of the job wait from now on."""
        self.queued_at = now
        for task in self.waits:
            self.waits[task] = now

    def next_unit(self) -> list[int] | None:
        """Return the tasks of the next unit, or those of its claim if none waits; ``None`` means all, or that all
        run.
        """
        if not self.waiting:
            return list(self.claims[0].tasks) or None if self.claims else None
        size = self.unit_size
        return None if size == self.job.tasks else self.next_tasks(size)

    def by_kind(self, tasks: Iterable[int]) -> list[int]:
        """Sort tasks by kind, like the places of a shape."""
        return self.constraints.by_kind(tasks) if isinstance(self.constraints, KindsConstraints) else list(tasks)

    def unit_requests(self) -> Iterable[tuple[ResourceVector, int]]:
        """Return the requests of the tasks of the next unit, with the number of tasks for each.

        Companions of other jobs are not included.
        """
        if not self.job.parts:
            return ((self.job.request, self.shape.size),)
        tasks = self.next_unit()
        return self.job.requests if tasks is None else Counter(map(self.job.request_of, tasks)).items()

    def wants_of(self, task: int) -> Wants:
        """Return the wants of one task now."""
        if self.constraints is None:
            return NO_WANTS
        asked = (self.foreseen.soft, self.job.counted_as, self.group.name)
        if isinstance(self.constraints, KindsConstraints):
            return self.constraints.wants_of(task, *asked)
        return self.constraints.wants(*asked)

    def next_tasks(self, number: int) -> list[int]:
        """Return the next ``number`` waiting tasks in the order in which they start; at least as many must wait.

        Of a unit of several jobs, only the task of this one.
        """
        if number == 1 or self.waits_whole:
            return [self.upcoming]
        again = nsmallest(number, self.again)
        return [*again, *range(self.next_task, self.next_task + number - len(again))]

    def take(self, task: int) -> None:
        """Remove a task from the waiting ones."""
        self.waiting -= 1
        self.would_preempt = False
        if self.waits:
            self.waits.pop(task, None)
        if self.again and self.again[0] == task:
            heappop(self.again)
        elif task == self.next_task:
            self.next_task += 1
        elif task < self.next_task:
            self.again.remove(task)
            heapify(self.again)
        else:
            # Skipped tasks wait like tasks that already had an attempt.
            for skipped in range(self.next_task, task):
                self._wait(skipped, self.queued_at)
            self.next_task = task + 1
        self._recount()

    def members(self, tasks: Iterable[int], number: int) -> list[tuple[JobEntry, int]]:
        """Return job and task of the ``number`` tasks of a unit with these ``tasks`` of this job, which come last."""
        own = [(self, task) for task in tasks]
        if len(own) == number:
            return own
        others = [companion for _, task in own for companion in self.companions[task]]
        return [*others[: number - len(own)], *own]

    def claim_of(self, task: int) -> ClaimEntry:
        """Return the claim for a task."""
        return next(claim for claim in self.claims if task in claim.tasks)

    def take_out(self, task: int) -> None:
        """Remove a task that was queued again."""
        assert self.waiting > 0, f"job {self.job.id} has no waiting task to take"
        self.waiting -= 1
        self.waits.pop(task, None)
        self.again.remove(task)
        heapify(self.again)
        self._recount()

    def unit(self) -> list[tuple[JobEntry, int]]:
        """Return the tasks of other jobs that start together with the next task."""
        return self.companions.get(self.upcoming, []) if self.companions and self.again else []

    @property
    def waits_whole(self) -> bool:
        """True while it starts only together with other members of its service, each on a node of its own choice."""
        return bool(self.job.starts_with) and not self.begun

    @property
    def shares_node(self) -> bool:
        """True if tasks of other jobs start together with one of its own, on the same node."""
        return bool(self.companions) and not self.waits_whole

    @property
    def as_unit(self) -> Job:
        """The job as submitted; for members of a service that start together, a gang of all of them."""
        return msgspec.structs.replace(self.job, gang=True, tasks=self._together) if self.waits_whole else self.job

    @property
    def _together(self) -> int:
        """The number of waiting tasks that belong together."""
        return 1 + sum(map(len, self.companions.values())) if self.waits_whole else self.waiting

    @property
    def owned(self) -> Owned:
        """The number under which the job counts for limits, and its user."""
        return self.job.counted_as, self.job.user

    def still_running(self) -> list[Attempt]:
        """Return the attempts of running companions of the next unit, by job and task."""
        return [
            attempt
            for other, task in self.unit()
            if task in other.beside
            for attempt in other.attempts.values()
            if attempt.task == task
        ]

    @property
    def moving(self) -> bool:
        """True if companions of the next unit are being stopped to start again with it."""
        return any(attempt.stopping for attempt in self.still_running())

    def asked(self) -> list[Constraints]:
        """Return the constraints of the members of the next unit."""
        members = (self, *(job for job, _ in self.unit()))
        return [member.constraints for member in members if member.constraints is not None]

    def put_back(self, task: int, since: int) -> None:
        """Let a task wait again since ``since``; the place of the job in the order stays."""
        self.waiting += 1
        self._wait(task, since)
        self._recount()

    def _recount(self) -> None:
        """Update the waiting work in the queue of the job, if the queue counts work."""
        if self.queued and self.group.policy.timed:
            self.group.policy.revalued(self)

    def _wait(self, task: int, since: int) -> None:
        heappush(self.again, task)
        if not self.job.gang:
            first = bool(self.waits) and self.waits[next(reversed(self.waits))] > since
            self.waits[task] = since
            if first:
                self.waits.move_to_end(task, last=False)

    @property
    def starts_in_part(self) -> bool:
        """True if this gang may start in part now: its f(x) is true, or some of its tasks already run alone."""
        if self.constraints is None or not self.constraints.whole or not (self.job.gang or self.waits_whole):
            return False
        if self.later or any(attempt.stopping for attempt in self.attempts.values()):
            # The gang starts again as a whole.
            return False
        return bool(self.foreseen.soft & self.constraints.whole or self.attempts)

    @property
    def unit_size(self) -> int:
        """The number of tasks of the next unit: all waiting tasks of a gang, or the least number if it may start in
        part.
        """
        if not self.job.gang and not self.waits_whole:
            return 1
        together = self._together
        if not self.starts_in_part or self.constraints is None:
            return together
        return 1 if self.attempts else min(together, self.constraints.least)

    @property
    def full(self) -> bool:
        """True if the job has reached the number of tasks that may run at once."""
        return bool(self.most) and self._busy() >= self.most

    @property
    def startable(self) -> int:
        """The number of waiting tasks that may start now."""
        return min(self.waiting, max(0, self.most - self._busy())) if self.most else self._together

    @property
    def units(self) -> int:
        """The number of units that may start now."""
        return 1 if self.job.gang or self.waits_whole else self.startable

    def _busy(self) -> int:
        return len(self.attempts) + len(self.carried) + sum(len(claim.tasks) for claim in self.claims)

    @property
    def has_claimed(self) -> bool:
        """True if tasks of the job are claimed; tasks that are moved and still run do not count."""
        return any(claim.tasks for claim in self.claims)

    @property
    def is_waiting(self) -> bool:
        """True if a task of the job waits: in a queue, for claimed room, for its time, or with another job."""
        return bool(self.waiting or self.has_claimed or self.later or self.carried)

    @property
    def over(self) -> bool:
        """True if no task of the job waits or runs."""
        return not (self.waiting or self.attempts or self.claims or self.later or self.carried)

    def __repr__(self) -> str:
        return f"<job {self.job.id}: {self.waiting} waiting, {len(self.attempts)} running>"


def describe(job: JobEntry) -> None:
    """Take over the description of a job, and its constraints and shape."""
    spec = job.job
    # A reservation with duration 0 would hold nothing.
    job.limit = NEVER if spec.time_limit is None else max(_LEAST_RUN, spec.time_limit)
    job.most = spec.max_running
    job.workload = spec.workload or _BUILT_IN_OF[spec.type]
    job.is_part = bool(spec.workload)
    job.key = (job.submitted, spec.id)
    job.cpu_charge = () if is_mixed(job) else job.shape.cpu_charge
    job.expect(job.estimate)


def is_mixed(job: JobEntry) -> bool:
    """Return True for a gang of several kinds of tasks: its parts do not all ask for the same."""
    return isinstance(job.constraints, KindsConstraints)


def has_charge_of_shape(job: JobEntry) -> bool:
    """Return True if each unit of its group with its shape is charged alike: its tasks are of one job and one kind."""
    return not job.companions and not is_mixed(job)


def asks_alike(job: JobEntry) -> bool:
    """Return True if each unit of a job asks for the same: only for amounts, and by itself."""
    return job.constraints is None and not job.companions


class Attempt(KeptAttempt, kw_only=True, eq=False):
    """One try to run a task on one node, with the lease in ``slot``.

    Its estimated end is ``expected``, and once it has outlived that, ``last_end``. ``parts`` are the amounts that it
    holds beside its row, most of them borrowed. ``inside`` are the amounts of its row that belong to leases of its own
    workload. Both are tuples: few attempts have any, and an empty list for each would cost memory.
    """

    job: JobEntry
    slot: int
    expected: int
    parts: tuple[LeaseRow, ...] = ()
    inside: tuple[tuple[WorkloadLease, Piece], ...] = ()

    def charge_anew(self, charge: tuple[int, ...]) -> None:
        """Change its charge."""
        for account in self.job.accounts:
            account.end(self)
        self.charge = charge
        for account in self.job.accounts:
            account.begin(self)

    @property
    def keeps_until(self) -> int:
        """The time (µs) until which it yields to no priority in its own group.

        It has then run for ``min_runtime``; if it started as a due unit, for at least ``drain_after``.
        """
        options = self.job.group.options
        return self.start + max(options.min_runtime, options.drain_after if self.due else 0)

    def leaves_to(self, lease: WorkloadLease) -> bool:
        """Return True if its amounts in a lease of its workload stay there when it ends.

        What a borrower has of its own workload stays when it is stopped for its loan. What a victim yields to another
        unit does not stay. Neither does what a stopping task leaves to a lease that ends with its tasks: the unit for
        which it stops counts on it.
        """
        return self.keeps or (not self.yields and (lease.is_held or not self.stopping))

    def spared_until(self, by: JobEntry) -> int:
        """Return the time (µs) until which it is no victim of a unit that waited already when it started.

        A unit submitted later was not known then.
        """
        if by.submitted > self.start or (by.submitted == self.start and by.first_attempt > self.id):
            return 0
        return self.start + self.start_grace

    @property
    def start_grace(self) -> int:
        """The time (µs) after its start for which it is spared: as long as it would get to end."""
        return min(self.job.job.stop_grace, self.job.group.options.grace)

    def grace(self, options: Options) -> int:
        """Return the time (µs) that it gets after its signal as a victim.

        That is the grace of its job, bounded by the grace of its group, or by that of loans.
        """
        most = options.reclaim_grace if self.parts else self.job.group.options.grace
        return min(self.job.job.stop_grace, most)

    def time_to_stop(self, options: Options) -> int:
        """Return the time (µs) that it gets when it is stopped; a borrower returns its loan to the owner."""
        return self.grace(options) if self.parts else self.job.job.stop_grace


class Stranger(KeptStranger, kw_only=True, eq=False):
    """A foreign holder of the lease in ``slot``."""

    slot: int


class LeaseRow:
    """A row of the lease table beside the rows of tasks: an idle part of ``lease``, or a part held by ``borrower``.

    Without a lease, the part returns to the cluster when its borrower ends.
    """

    __slots__ = ("amounts", "borrower", "device", "lease", "node", "slot")

    # For use among the other holders: a part has neither attempt nor ports.
    id = 0
    ports = ()

    def __init__(
        self, lease: WorkloadLease | None, borrower: Attempt | None, node: int, slot: int, piece: Piece
    ) -> None:
        self.lease = lease
        self.borrower = borrower
        self.node = node
        self.slot = slot
        self.device, self.amounts = piece


class WorkloadLease(KeptLease, kw_only=True, eq=False):
    """A lease of a workload on one node: with tasks of the workload, idle parts by device, and lent parts.

    ``charge`` is the charge of the idle parts to its group. A lease with a ``holder``, which is a task of a job that
    is a lease, exists for as long as the holder runs; the amounts that the holder uses itself are in the holder's row.
    """

    workload: GroupWorkload
    charge: tuple[int, ...] = ()
    tasks: dict[int, Attempt] = {}
    holder: Attempt | None = None
    idle: dict[int, LeaseRow] = {}
    lent: list[LeaseRow] = []

    @property
    def is_held(self) -> bool:
        """True while it has a holder that goes on: then its amounts stay in it, even if tasks inside end."""
        return self.holder is not None and not self.holder.stopping

    @property
    def is_ending(self) -> bool:
        """True while its holder is being stopped: the idle parts then start nothing, and become free when it ends."""
        return self.holder is not None and self.holder.stopping

    def idle_amounts(self) -> ResourceVector:
        """Return the sum of the idle parts; empty without any."""
        return tuple(map(sum, zip(*(part.amounts for part in self.idle.values()), strict=True)))


class GroupWorkload:
    """The leases of one workload of a group; ``declared``: jobs name it, and its idle leases are kept for a while."""

    __slots__ = ("awaited", "declared", "group", "idle_on", "idle_sum", "leases", "lent_on", "name", "no_room", "stamp")

    def __init__(self, group: GroupState, name: str) -> None:
        self.group = group
        self.name = name
        self.declared = not name.startswith(_BUILT_IN)
        self.leases: dict[int, WorkloadLease] = {}
        # Leases with idle and with lent parts, by node, and the sum of the idle parts on each node.
        self.idle_on: dict[int, dict[int, WorkloadLease]] = {}
        self.idle_sum: dict[int, list[int]] = {}
        self.lent_on: dict[int, dict[int, WorkloadLease]] = {}
        # The jobs for which tasks left its leases, by node.
        self.awaited: dict[int, int] = {}
        # A counter of changes of the idle parts; and the shape that had no room at its value.
        self.stamp = 0
        self.no_room = (-1, -1, -1, -1)


# A holder of a row in the lease table.
Holder: TypeAlias = Attempt | Stranger | LeaseRow


class Reservation(KeptReservation, kw_only=True, eq=False):
    """Amounts kept for a unit of a job from ``start`` on; ``rows`` are its bookings, empty while no start is known.

    ``stamp`` is that of the cluster when the reservation was last confirmed; ``view`` selects the units that it binds
    (``timeline.ALL``, or the view of one plan).
    """

    job: JobEntry
    stamp: int
    view: int = 1
    rows: list[int] = []

    def is_on(self, f: int) -> bool:
        """Return True if node ``f`` is one of its nodes."""
        return any(node == f for node, _ in self.nodes)


class ClaimEntry(KeptClaim, kw_only=True, eq=False):
    """A unit for which ``victims`` make room: its tasks, taken out of the queue, and the reservation of their nodes.

    Its bookings are in force from the beginning and include the amounts that the victims still hold. ``shape`` is that
    of the claimed tasks, which differs from the shape of the job if the next unit of the job has tasks of several
    jobs. ``tried`` is the value of ``cluster.loosened`` at the last try.
    """

    job: JobEntry
    reservation: Reservation
    charge: tuple[int, ...]
    shape: Shape
    tried: int = -1

    def charge_anew(self, charge: tuple[int, ...]) -> None:
        """Change its charge."""
        for account in self.job.accounts:
            account.drop(self)
        self.charge = charge
        for account in self.job.accounts:
            account.claim(self)

    @property
    def in_turn(self) -> bool:
        """True if its unit starts in the turn of its group; a moved task waits for none, as it takes no more than it
        had.
        """
        return self.moved is None

    @property
    def kept(self) -> Kept:
        """The reason why its room is kept."""
        if self.moved is not None:
            return "moved", 0
        return "moves" if self.moves else "preempted", len(self.victims)

    def stays(self, *, lost: bool) -> bool:
        """Return True if it stays on a node that takes no tasks any more, or is ``lost``."""
        return self.moves and not lost

    def needs(self) -> dict[int, Ints]:
        """Return the amounts that the claimed tasks need, by node."""
        found: dict[int, Ints] = {}
        for shape, f, count in self.shape.copies(self.reservation.nodes):
            found[f] = found.get(f, 0) + shape.request_array * count
        return found


class InVain(Generic[_State]):
    """The state of a failed try for a unit of a group: the try would fail again in this state, until ``until`` (µs)."""

    __slots__ = ("state", "until")

    def __init__(self) -> None:
        self.state: _State | None = None
        self.until = NEVER

    def still(self, state: _State, now: int) -> bool:
        """Return True if the try would still fail in this state at this time."""
        return self.state == state and now < self.until

    def note(self, state: _State, until: int = NEVER) -> None:
        """Note a failed try."""
        self.state, self.until = state, until


class Tries:
    """Failed tries for the units of a group.

    They are: to start a unit, to find victims for it, to exchange room within the same group below a MaxQuota, to make
    room of fragments, and to start any unit in idle parts of its own workload.
    """

    def __init__(self) -> None:
        self.start: InVain[tuple[int, int, tuple[int, ...]]] = InVain()
        self.victims: InVain[tuple[int, int, int, tuple[int, ...]]] = InVain()
        self.exchange: InVain[tuple[int, int, int, str]] = InVain()
        self.fragments: InVain[tuple[int, int, int, int, tuple[int, ...]]] = InVain()
        self.own: InVain[tuple[int, ...]] = InVain()


class Rights(Enum):
    """The units that a group may start at a step of a pass."""

    ANY = "any"  # anything
    QUOTA = "quota"  # units within its quota
    OWN = "own"  # units for which the group itself may take room
    ABOVE = "above"  # units for which a group above it may take room


class GroupState(Amounts):
    """The state of a group that takes jobs: its configuration, its use, its place in the order."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.policy: Policy[JobEntry]
        # True if it or a group above it has a MaxQuota, or if others keep capacity for themselves.
        self.limited = False
        self.kept = KeptGroup()
        # The units that it may start at this step of a pass: it cools off while others wait, or groups that may take
        # room come first.
        self.held_to = Rights.ANY
        self.jobs = 0
        self.claims: list[ClaimEntry] = []
        self.attempts: dict[int, Attempt] = {}
        # The result of the last pass that considered the group.
        self.visited = 0
        # The blocked unit that held it to its quota in that pass.
        self.held_behind: JobEntry | None = None
        self.verdict = Verdict.UNVISITED
        self.offered: JobEntry | None = None
        # The first unit of this pass that the MaxQuota of a group above its own refuses, and the name of that group.
        self.beyond: tuple[JobEntry, str] | None = None
        self.tried = Tries()
        # True if estimates predict ends at all; below, at this moment.
        self.predicts = False
        self.trusts = False
        # Its number among the groups with advance reservations, for questions to the timeline.
        self.asker = 0
        # What its tasks and claims are charged to: the groups above it and itself, its policy, and the counters below.
        self.accounts: tuple[Account, ...] = ()
        # Counters of running jobs for its limits, one for each group with limits on the way to the root.
        self.counters: tuple[RunningJobs, ...] = ()
        self.own_counter: RunningJobs | None = None
        # The other groups whose jobs share a limit with its jobs.
        self.count_alike: tuple[GroupState, ...] = ()
        # The number of its queued jobs by user, if such limits ask for it.
        self.queue_counts: tuple[QueuedJobs, ...] = ()
        # The queued jobs that name their workload, by workload and id.
        self.parts_queued: dict[str, dict[int, JobEntry]] = {}

    def configure(self, spec: Group, options: Options, policy: Policy[JobEntry]) -> None:
        """Take over a configuration; the waiting jobs move to a new policy."""
        before = getattr(self, "policy", None)
        if not hasattr(self, "spec") or self.spec.limits != spec.limits:
            self.own_counter = counter_of(spec)
        self.set_options(spec, options)
        self.policy = policy
        self.predicts = self.trusts = options.estimates == "predicted"
        if before is not None and before is not policy:
            policy.fill(list(before))

    def count_queue(self) -> None:
        """Count the queued jobs, as far as limits ask for it: the limits, the queue or the users may have changed."""
        self.queue_counts = (QueuedJobs(job.owned for job in self.policy),) if self.counters else ()

    def cools_until(self) -> int:
        """The end of its cooling-off (µs); 0 if it takes part in scheduling."""
        if self.kept.preempted_at is None:
            return 0
        if self.above_quota:
            return self.kept.preempted_at + self.options.cooling_above_quota
        return self.kept.preempted_at + self.options.cooling

    def cools_at_most_until(self) -> int:
        """The latest end of its cooling-off (µs), whatever it uses until then; 0 without one."""
        begun = self.kept.preempted_at
        return 0 if begun is None else begun + max(self.options.cooling, self.options.cooling_above_quota)

    def charge(self, request: ResourceVector, capacity: ResourceVector, f: int | None) -> tuple[int, ...]:
        """Return the charge of one task of ``request`` on node ``f`` with ``capacity``, in the measures of the group.

        Without a node, only in its base measures.
        """
        base = tuple(request[k] for k in self.dims) if self.vector else (self.share(request, capacity),)
        return base if self.kinds is None or f is None else base + self.kinds.charge(request, f)

    def set_quota(self, quota: Quota, dimensions: Dimensions) -> bool:
        """Take over a quota; return True if the measures changed, so that use must be computed again."""
        changed = super().set_quota(quota, dimensions)
        self.policy.set_quota(self.quota)
        return changed


@lru_cache(maxsize=4096)
def _size(cores: int) -> int:
    """Return the weight of a unit of ``cores`` millicores in the order by expansion factor, in thousandths."""
    weight: int = round(MILLI * max(1.0, cores / MILLI) ** _SIZE_EXPONENT)
    return weight
