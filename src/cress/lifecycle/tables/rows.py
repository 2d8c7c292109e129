"""Rows of unfinished jobs and attempts, and of nodes."""

from __future__ import annotations

import msgspec

from cress.lifecycle.tables.tracked import Row
from cress.model.decisions import Choice, Kept
from cress.model.events import AWAY, Outcome
from cress.model.family import Database, Service
from cress.model.job import Condition, Job
from cress.model.node import Allocated, Load, Local, Node
from cress.model.node_settings import NodeRevision
from cress.model.run import Host
from cress.model.step_values import Values
from cress.model.waits import TIME, WaitFor


class LiveAttempt(Row, kw_only=True):
    """An attempt from its decision to its end. Times are wall clock in µs; ``started`` is 0 until it runs.

    ``halted`` is why it was told to stop: ``cancelled``, ``preempted``, ``gang``, ``moved``, ``drained``,
    ``reclaimed``, ``released`` or ``unhealthy``; empty if it was not. ``halted_for`` is the reason as a sentence, if
    there are details. ``grace`` belongs to it, in µs; ``None``: that of the job. ``halted_at`` is its time, for a
    lease. ``ports`` are its numbers: those of the job in order, then those of ``Port = …`` clauses. ``devices`` are its
    devices on the node. ``leader`` is the job with which it was started together after a failure of their node.
    ``ready_at`` (the machine's clock) is the time since which a task of a service or database is ready; ``unwell`` is
    the result of its last failed check. ``chosen`` and ``kept`` are the reasons for its node, as in ``Start``.
    ``limited``: the time limit of its job has changed since its launch.
    """

    id: int
    job: int
    task: int
    node: str
    placed: int
    started: int = 0
    pid: int = 0
    halted: str = ""
    halted_for: str = ""
    grace: int | None = None
    halted_at: int = 0
    ports: tuple[int, ...] = ()
    devices: tuple[Allocated, ...] = ()
    leader: int | None = None
    ready_at: int | None = None
    unwell: str = ""
    chosen: Choice | None = None
    kept: Kept | None = None
    limited: bool = False


class LiveJob(Row, kw_only=True):
    """A job with tasks that wait or run. Counts are of tasks, ``preempted`` of attempts; times as in ``LiveAttempt``.

    A job that is ``cancelling`` or ``failing`` ends as a whole, for ``reason``. ``failed_as`` is the common outcome of
    all its failed tasks, else ``FAILED``; ``None`` before the first. ``held_by`` is the user who holds it. ``unmet``
    are the jobs that must end first, with the conditions. ``failures`` are counted by task (by -1 for a gang, which
    fails as a whole), ``restarts`` by task that ran and will run again, ``unstarted`` by task since its program last
    ran, ``start_failures`` until the first program ran.
    ``suspects`` are the nodes with failed starts since one of its programs ran. ``hosts``, for a gang, are the places
    of the tasks that were started together, in order. For a member of a family: ``template`` is the job whose run it
    shares (0: it has its own), ``index`` its place; ``kept``, in a service or database, is the plan of its version;
    ``scheduled``, in a run of a cron job, are the moment before its own, and its own (wall clock, µs; 0: none).
    ``values`` are those that task 0 has handed on; ``not_succeeded`` are its tasks that ended without success.
    ``left_out``: the condition of a step did not hold. ``awaits`` are the things outside and the times that are not
    there yet, ``awaits_since`` (the machine's clock) is the time since which it waits for them; ``None``: its
    dependencies are not met.
    """

    job: Job
    submitted: int
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    preempted: int = 0
    cancelling: bool = False
    failing: bool = False
    reason: str = ""
    failed_as: Outcome | None = None
    held: bool = False
    held_by: str = ""
    unmet: tuple[tuple[int, Condition], ...] = ()
    failures: dict[int, int] = msgspec.field(default_factory=dict)
    restarts: dict[int, int] = msgspec.field(default_factory=dict)
    unstarted: dict[int, int] = msgspec.field(default_factory=dict)
    start_failures: int = 0
    suspects: tuple[str, ...] = ()
    hosts: tuple[Host, ...] = ()
    template: int = 0
    index: int = 0
    kept: Service | Database | None = None
    scheduled: tuple[int, int] = (0, 0)
    values: Values = ()
    not_succeeded: dict[int, bool] = msgspec.field(default_factory=dict)
    left_out: bool = False
    awaits: tuple[WaitFor, ...] = ()
    awaits_since: int | None = None

    def __post_init__(self) -> None:
        self.link({})

    @property
    def attempts(self) -> dict[int, LiveAttempt]:
        """The attempts of this job that have not ended, by id; derived from the table of attempts."""
        linked: dict[int, LiveAttempt] = self.linked
        return linked

    @property
    def over(self) -> int:
        """The number of tasks that will not run any more."""
        return self.succeeded + self.failed + self.cancelled

    @property
    def running(self) -> int:
        """The number of tasks with an attempt."""
        return len(self.attempts)

    @property
    def waiting(self) -> int:
        """The number of tasks that wait for a node, or for their time."""
        return self.job.tasks - self.over - len(self.attempts)

    @property
    def awaits_outside(self) -> bool:
        """Return whether it waits for something that the shell has to look for, not for times alone."""
        return any(thing.kind != TIME for thing in self.awaits)

    @property
    def unmet_as_whole(self) -> tuple[tuple[int, Condition], ...]:
        """The open conditions that keep all its tasks waiting."""
        return tuple(pair for pair in self.unmet if pair[1] is not Condition.TASKS) if self.unmet else ()

    @property
    def ending(self) -> bool:
        """Flag: no more tasks of it are started."""
        return self.cancelling or self.failing


class LiveNode(Row, kw_only=True):
    """A node that has registered.

    ``cordoned`` is an operator's order, with ``reason``; ``draining``: it is also to become empty, by order of the user
    ``drained_by``. ``rest`` is why the machine itself closes it for a while. ``failures`` is the number of programs in
    a row that could not be started there and ran elsewhere, of the jobs ``failed_jobs`` (two are kept); ``rests`` is
    the number of its rests meanwhile. ``terms`` and ``local`` as in ``NodeJoined``. ``away_since`` (µs, the machine's
    clock) is the time since which its executor is not connected. ``ports`` are its foreign ports, in order. ``load`` is
    the measured load that the core knows. ``node`` is the effective description: ``reported``, from its executor, with
    the settings of the last of the ``revisions`` applied. Without settings ``reported`` is ``None``. ``patient``: its
    drain has no deadline.
    """

    node: Node
    boot: str
    terms: bool = False
    local: Local | None = None
    connected: bool = True
    away_since: int | None = None
    cordoned: bool = False
    reason: str = ""
    draining: bool = False
    drained_by: str = ""
    rest: str = ""
    rests: int = 0
    failures: int = 0
    failed_jobs: tuple[int, ...] = ()
    ports: tuple[int, ...] = ()
    load: Load | None = None
    reported: Node | None = None
    revisions: tuple[NodeRevision, ...] = ()
    patient: bool = False

    @property
    def barred(self) -> tuple[bool, str]:
        """The cordon or rest as a flag and a reason; an operator's order has precedence over a rest."""
        if self.draining:
            return True, self.why
        return self.cordoned or bool(self.rest), self.reason if self.cordoned else self.rest

    @property
    def closed(self) -> bool:
        """Flag: it takes no new tasks."""
        return self.cordoned or bool(self.rest) or not self.connected

    @property
    def why(self) -> str:
        """The reason why it takes no new tasks; empty if it does, or if no reason was given."""
        if self.draining:
            return f"draining: {self.reason}" if self.reason else "draining"
        if self.cordoned:
            return self.reason
        return self.rest if self.connected else AWAY
