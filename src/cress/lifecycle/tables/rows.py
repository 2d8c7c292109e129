"""Jobs, attempts and nodes as the machine keeps them while they are alive."""

from __future__ import annotations

import msgspec

from cress.lifecycle.tables.tracked import Row
from cress.model.decisions import Choice, Kept
from cress.model.events import Outcome
from cress.model.family import Database, Service
from cress.model.job import Condition, Job
from cress.model.node import Allocated, Load, Local, Node
from cress.model.node_settings import NodeRevision
from cress.model.run import Host

AWAY = "its executor is not connected"


class LiveAttempt(Row, kw_only=True):
    """An attempt that was decided and has not ended. Times are wall clock in µs; ``started`` is 0 until it runs.

    ``halted`` says why it was told to stop: ``cancelled``, ``preempted``, ``gang``, ``moved``, ``drained``,
    ``reclaimed``, ``released`` or ``unhealthy``; empty if it was not; ``halted_for`` is the reason as a sentence, where
    there is more to say. ``grace`` goes with it, in µs; ``None``: what the job says; ``halted_at`` is when, of a lease.
    ``ports`` are its numbers: those of the job in their order, then those of ``Port = …`` clauses. ``devices`` are
    those of the node that it has. ``leader`` is the job that it was started together with after a failure of their
    node. ``ready_at`` (the machine's clock) is since when it is ready, of a service or database; ``unwell`` what its
    last failed check came to. ``chosen`` and ``kept`` are why its node was, as in ``Start``.
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


class LiveJob(Row, kw_only=True):
    """A job with tasks that wait or run. Counts are of tasks, ``preempted`` of attempts; times as in ``LiveAttempt``.

    A job that is ``cancelling`` or ``failing`` ends as a whole, for ``reason``. ``failed_as`` is the outcome that all
    its failed tasks have in common, else ``FAILED``; ``None`` before the first. ``held_by`` is the user who holds it.
    ``unmet`` are the jobs that must be over first, and how. ``failures`` are counted by task (by -1 for a gang, which
    fails as a whole), ``unstarted`` by task since a program of it ran, ``start_failures`` until the first one ran;
    ``suspects`` are the nodes where a program of it could not be started since one ran. ``hosts``, of a gang, are where
    the tasks that were started together are, in their order. Of a member of a family: ``template`` is the job whose run
    is its own (0: it has its own), ``index`` its place; ``kept``, of a service or database, is the plan of its version.
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
    unstarted: dict[int, int] = msgspec.field(default_factory=dict)
    start_failures: int = 0
    suspects: tuple[str, ...] = ()
    hosts: tuple[Host, ...] = ()
    template: int = 0
    index: int = 0
    kept: Service | Database | None = None

    def __post_init__(self) -> None:
        self.link({})

    @property
    def attempts(self) -> dict[int, LiveAttempt]:
        """Its attempts that have not ended, by id; they follow from the table of attempts."""
        linked: dict[int, LiveAttempt] = self.linked
        return linked

    @property
    def over(self) -> int:
        """Number of tasks that will not run any more."""
        return self.succeeded + self.failed + self.cancelled

    @property
    def running(self) -> int:
        """Number of tasks that have an attempt."""
        return len(self.attempts)

    @property
    def waiting(self) -> int:
        """Number of tasks that wait for a node, or for their time."""
        return self.job.tasks - self.over - len(self.attempts)

    @property
    def ending(self) -> bool:
        """Flag: no task of it is started any more."""
        return self.cancelling or self.failing


class LiveNode(Row, kw_only=True):
    """A node that registered at some time.

    ``cordoned`` is an operator's word, with ``reason``; ``draining``: it is to get empty too, by the word of the user
    ``drained_by``. ``rest`` is why the machine itself keeps tasks off it for a while. ``failures`` are the programs in
    a row that could not be started there and ran elsewhere, of the jobs ``failed_jobs`` (two are kept), and ``rests``
    how often it rested meanwhile. ``terms`` and ``local`` as in ``NodeJoined``. ``away_since`` (µs, the machine's
    clock): since when its executor is not connected. ``ports`` are those that somebody listens on who is not a task of
    the cluster, in order. ``load`` is what was measured there, as far as the core knows. ``node`` is what holds:
    ``reported``, as its executor describes it, with the settings of the last of the ``revisions`` over it. Where
    nothing is set, ``reported`` is ``None``.
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

    @property
    def barred(self) -> tuple[bool, str]:
        """The cordon or rest: if there is one, and why; the operator's word comes before a rest."""
        if self.draining:
            return True, self.why
        return self.cordoned or bool(self.rest), self.reason if self.cordoned else self.rest

    @property
    def closed(self) -> bool:
        """Flag: it takes no new tasks."""
        return self.cordoned or bool(self.rest) or not self.connected

    @property
    def why(self) -> str:
        """Reason why it takes no new tasks; empty if it does, or if no reason was given."""
        if self.draining:
            return f"draining: {self.reason}" if self.reason else "draining"
        if self.cordoned:
            return self.reason
        return self.rest if self.connected else AWAY
