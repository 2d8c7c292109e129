"""Jobs and attempts as the core keeps them."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from cress.core.placing.constraints import Constraints
from cress.core.tables.cluster import Shape
from cress.model.job import Job
from cress.model.times import NEVER

if TYPE_CHECKING:
    from cress.core.groups.shares import GroupState
    from cress.core.preemption import Claim


class JobState:
    """A job with tasks that wait or run. An array is one object, whatever its length, until its tasks start.

    Tasks that never started are ``next_task`` … ``tasks - 1``; ``again`` is a heap of those queued again, ``later`` the
    tasks that are queued again at a time (µs). Neither ``held`` jobs nor those ``behind`` another one are offered.
    ``since`` is when the job last got a task into its queue; ``submitted`` fixes its place in the order.
    ``constraints`` are what it asks for beside amounts; of its clauses those in ``soft`` (bits) are soft at the moment,
    until one changes sides by itself at ``relaxes_at``. ``companions`` are, by a task in ``again``, tasks of other jobs that
    start together with it; ``carried`` are tasks that are with another job's, and which job that is.
    """

    __slots__ = (
        "again",
        "arrived",
        "attempts",
        "behind",
        "cancelled",
        "carried",
        "claims",
        "companions",
        "constraints",
        "cpu_charge",
        "drain",
        "group",
        "held",
        "held_since",
        "job",
        "key",
        "later",
        "limit",
        "most",
        "next_task",
        "queued",
        "relaxes_at",
        "shape",
        "since",
        "soft",
        "submitted",
        "waiting",
        "would_preempt",
    )

    def __init__(
        self, job: Job, group: GroupState, shape: Shape, submitted: int, behind: int | None = None,
        constraints: Constraints | None = None,
    ) -> None:  # fmt: skip
        self.job = job
        self.group = group
        self.shape = shape
        self.constraints = constraints
        self.soft = 0
        self.relaxes_at = NEVER
        self.submitted = submitted
        self.since = submitted
        # A reservation must last, or it would keep nothing.
        self.limit = NEVER if job.time_limit is None else max(1, job.time_limit)
        self.cpu_charge = (job.request[0],)
        self.most = job.max_running
        self.next_task = 0
        self.again: list[int] = []
        self.later: dict[int, int] = {}
        self.held = job.hold
        self.behind = behind
        self.waiting = job.tasks
        self.queued = False
        self.key: tuple[int, int] = (submitted, job.id)
        self.attempts: dict[int, Attempt] = {}
        self.claims: list[Claim] = []
        self.companions: dict[int, list[tuple[JobState, int]]] = {}
        self.carried: dict[int, JobState] = {}
        self.cancelled = False
        # The number of passes that had been run when it was queued: until the next one nobody has looked at it.
        self.arrived = 0
        self.drain: list[tuple[int, int]] = []
        self.held_since: int | None = None
        # In the mode ``observe``: whether the victims of the next unit were told.
        self.would_preempt = False

    def take(self) -> int:
        """The next waiting task, which waits no longer."""
        self.waiting -= 1
        self.would_preempt = False
        if self.again:
            return heappop(self.again)
        task = self.next_task
        self.next_task += 1
        return task

    def take_out(self, task: int) -> None:
        """A task that was queued again waits here no longer."""
        self.waiting -= 1
        self.again.remove(task)
        heapify(self.again)

    def unit(self) -> list[tuple[JobState, int]]:
        """What starts together with the next task."""
        return self.companions.get(self.again[0], []) if self.companions and self.again else []

    def asked(self) -> list[Constraints]:
        """What its next unit asks for beside amounts, member by member."""
        members = (self, *(job for job, _ in self.unit()))
        return [member.constraints for member in members if member.constraints is not None]

    def put_back(self, task: int) -> None:
        """A task waits again, with the job's place in the order."""
        self.waiting += 1
        heappush(self.again, task)

    @property
    def full(self) -> bool:
        """Whether as many tasks of it run, or are about to, as may at once."""
        return bool(self.most) and self._busy() >= self.most

    @property
    def startable(self) -> int:
        """How many of its waiting tasks may start now."""
        return min(self.waiting, max(0, self.most - self._busy())) if self.most else self.waiting

    def _busy(self) -> int:
        return len(self.attempts) + len(self.carried) + sum(len(claim.tasks) for claim in self.claims)

    @property
    def over(self) -> bool:
        """Whether nothing of the job waits or runs any more."""
        return not (self.waiting or self.attempts or self.claims or self.later or self.carried)

    def __repr__(self) -> str:
        return f"<job {self.job.id}: {self.waiting} waiting, {len(self.attempts)} running>"


class Attempt:
    """One try to run a task on one node, inside the lease in ``slot``; ``charge`` is what its group pays for it."""

    __slots__ = ("charge", "id", "job", "node", "ports", "slot", "start", "stopping", "task")

    def __init__(
        self, id: int, job: JobState, task: int, node: int, slot: int, start: int, charge: tuple[int, ...]
    ) -> None:
        self.id = id
        self.job = job
        self.task = task
        self.node = node
        self.slot = slot
        self.start = start
        self.charge = charge
        # Ports of the node that are its own.
        self.ports: tuple[int, ...] = ()
        self.stopping = False
