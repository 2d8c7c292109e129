"""The commit loop: steps the machine, has the step stored, and only then releases its effects.

A driver asks ``next`` for the next action, performs it, and reports the result; the answers are effects to carry out in
order. When a commit fails the machine is ahead of the store: every caller is refused, and the state is loaded again.
When a step fails because of an input, that input is set aside, and all others continue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from cress.lifecycle.effects import StepResult
from cress.lifecycle.inputs import ChangeJobs, Hold, Input, NodeJoined, Reported, Requeue, Submit, Update
from cress.lifecycle.machine import Machine
from cress.lifecycle.record import encoding, record_of
from cress.lifecycle.slices import Slices, parts, whole
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveJob
from cress.model.errors import NotAccepted
from cress.model.records import AttemptRecord, JobRecord
from cress.model.run import Run
from cress.model.times import SECOND
from cress.protocol.cluster_views import EventView
from cress.shell.center.dispatch import orders
from cress.shell.center.effects import (
    AnswerCaller,
    Close,
    Commit,
    Effect,
    Rebuild,
    Refuse,
    Reply,
    Send,
    Session,
    SetAside,
    Stepped,
    TakeOver,
    TakeSnapshot,
    Wait,
    Work,
)
from cress.shell.center.events import Events
from cress.shell.center.log_entries import pack
from cress.shell.center.runs import Runs, encode_run, new_runs, same_run
from cress.shell.center.witness import Lineage, LogPosition
from cress.store.base import Batch

# Time (µs) between two attempts to load the state.
RETRY = SECOND


@dataclass(frozen=True)
class CommitLimits:
    """Limits of the log before a snapshot replaces it, and of the inputs of one step.

    Reading the log should take no longer than reading the snapshot: ``least_log`` is in bytes. Inputs beyond
    ``most_work`` (see ``work_of``) wait for the next step.
    """

    least_log: int = 4 * 2**20
    most_records: int = 5_000
    most_work: int = 256


def work_of(what: Input) -> int:
    """Return the work of an input: the number of its jobs or reports, at least 1."""
    match what:
        case Submit():
            return len(what.jobs)
        case Reported() | NodeJoined():
            return max(1, len(what.reports))
        case Hold():
            return 1 + len(what.more)
        case ChangeJobs() | Requeue():
            return len(what.jobs)
    return 1


@dataclass(slots=True)
class InputCall:
    """An input, and the receiver of its reply.

    ``runs`` belong to the jobs of a ``Submit``, in their order. ``then`` is called with the reply once it is stored,
    before any order of the step goes out, and never if it is not stored; the effects that it returns are carried out.
    ``caller`` gets the reply by ``AnswerCaller``, after the orders, or by ``Refuse``.
    """

    input: Input
    runs: Sequence[Run] = ()
    then: Callable[[Reply], Sequence[Effect]] | None = None
    caller: object = None


class Opened(msgspec.Struct, kw_only=True):
    """A machine that continues from the stored state, and the amount of data that was read.

    ``records`` is the log of the store, without events; ``number`` counts the records of the cluster, up to the last of
    these, and ``loaded`` up to the snapshot. ``cluster`` is the id of the cluster, empty before its first epoch.
    ``stepped``: an older release wrote the snapshot, or records without facts; they were converted and stepped through,
    and a snapshot must replace them. ``lineage`` is known once the epoch has begun.
    """

    machine: Machine
    events: Events
    records: list[bytes]
    number: int
    epoch: int
    cluster: str
    snapshot_size: int
    log_size: int
    log_count: int
    loaded: int = -1
    stepped: bool = False
    lineage: Lineage | None = None


class Uncommitted:
    """Finished work of the batch that is being committed: readers look here too, so that no job is ever missing."""

    def __init__(self) -> None:
        self.jobs: dict[int, JobRecord] = {}
        self.attempts: dict[int, list[AttemptRecord]] = {}
        self._attempts_seen = self._jobs_seen = 0

    def add(self, step: StepResult) -> None:
        """Add the work that a step has finished since the last call."""
        for job in step.jobs[self._jobs_seen :]:
            self.jobs[job.id] = job
        for attempt in step.attempts[self._attempts_seen :]:
            self.attempts.setdefault(attempt.job, []).append(attempt)
        self._jobs_seen, self._attempts_seen = len(step.jobs), len(step.attempts)


@dataclass(slots=True)
class _Round:
    calls: list[InputCall]
    inputs: tuple[Input, ...]
    step: StepResult
    events: list[EventView]
    runs: list[Run]
    size: int


def _node_of(what: Input) -> str:
    """Return the node from which an input came; empty if there is none."""
    return what.node if isinstance(what, Reported) else what.node.name if isinstance(what, NodeJoined) else ""


class SetAsideError(NotAccepted):
    """The center cannot process an input: it makes each step fail, and was set aside for good."""

    def __init__(self, why: str) -> None:
        what = f"the center cannot process this because of a defect ({why}); it was set aside and changed nothing"
        super().__init__(what, hint="please report it; the center's folder `quarantine` has the input")


class CommitLoop:
    """Owner of the machine. Inputs come in by ``post``; ``next`` returns the next action of the driver.

    ``problem`` is the reason why nothing can be stored, else empty. ``cluster`` is the id of the cluster, ``number``
    that of the last record. ``present`` are the sessions that hold the name of their node, ``joined`` the welcomed ones
    among them. While nothing can be stored they are in ``terms_only``, together with sessions that connect meanwhile:
    their terms are confirmed, so that running tasks go on, and they get no orders. ``read_run`` reads a run from the
    store. ``save_clock`` returns the data from which the clock can continue (machine time, wall clock).
    """

    machine: Machine

    def __init__(
        self,
        read_run: Callable[[int], bytes | None],
        save_clock: Callable[[int, int], bytes],
        limits: CommitLimits | None = None,
    ) -> None:
        self.limits = limits or CommitLimits()
        self.runs = Runs(read_run)
        self.events = Events()
        self.epoch = 0
        self.cluster = ""
        self.number = 0
        self.lineage: Lineage | None = None
        self._signed = -1, b""  # the last signed position, by its record
        self.problem = "the center is starting; try again"
        self.stopping = False
        self.uncommitted = Uncommitted()
        self.present: dict[str, Session] = {}
        self.joined: dict[str, Session] = {}
        self.terms_only: dict[str, Session] = {}
        self._save_clock = save_clock
        self._queue: list[InputCall] = []
        self._calls: list[InputCall] = []  # of the step under way
        self._suspects: list[InputCall] = []  # of a step that failed: each is tried once more, alone
        self._alone = False  # the step under way has only one of the suspects
        self._rebuilding = False  # the store is read again, since the machine is ahead of it
        self._ahead = False  # the machine shows data that is not stored
        self._readers: list[object] = []  # readers who have seen such data and wait until it is stored
        self._notes: list[EventView] = []  # events that go with the next step
        self._round: _Round | None = None
        self._given_up = 0  # the number of times that the work under way was given up
        self._loading = True
        self._retry_at = 0
        self._replaced = ""
        self._aside = False  # another center leads, and its stored state is shown
        self._snapshot_size = self._log_size = self._log_count = 0
        self._least_records = 0  # minimum length of the log before a snapshot is tried again
        self._covered: tuple[TakeSnapshot, int, int] | None = (
            None  # the snapshot under way, the records and bytes of it
        )

    @property
    def busy(self) -> bool:
        """Return whether inputs wait for their step."""
        return bool(self._queue or self._suspects or self._rebuilding or self._notes)

    @property
    def loading(self) -> bool:
        """Return whether the state has to be read before anything else."""
        return self._loading

    # --- inputs ----------------------------------------------------------------------------------------------

    def post(self, call: InputCall) -> bool:
        """Queue an input; return False if it is refused, because of a ``problem`` or since the center stops."""
        if self.problem or self.stopping:
            return False
        self._queue.append(call)
        return True

    def tell(self, event: EventView) -> None:
        """Store an event of something that does not concern the machine. While nothing can be stored, it is lost."""
        if not (self.problem or self.stopping):
            self._notes.append(event)

    def when_stored(self, reader: object) -> list[Effect]:
        """Answer a reader once all data that it can have seen is stored, or refuse it if that never happens."""
        if not self._ahead:
            return [AnswerCaller(reader, ())]
        if self._loading or self._rebuilding or self._aside:
            return [Refuse(reader, "the center reads its state again; try again")]
        self._readers.append(reader)
        return []

    def compared(self, update: Update, run: Run) -> tuple[Update, list[Run]]:
        """Return an update with the flag that its run equals that of the family, and its run.

        Tasks with an unchanged run need not be replaced. An equal run keeps its first user.
        """
        family = self.machine.families.get(update.job)
        old = self.runs.template(family.template) if family is not None else None
        if family is None or old is None or not same_run(old, run):
            return update, [run]
        same = msgspec.structs.replace(run, user=old.user)
        return msgspec.structs.replace(update, same_as=family.template), [same]

    def run_of(self, job: int) -> Run | None:
        """Return the run of a job that is unfinished or being committed; for a member of a family, that of its
        template.
        """
        known = self.machine.jobs.get(job) or self.machine.families.get(job) or self.uncommitted.jobs.get(job)
        return self.runs.template(job) if known is None else self.resolved(known)

    def resolved(self, job: LiveJob | JobRecord | Family) -> Run | None:
        """Return the run of this job."""
        owner = self.machine.families.get(job.job.family) if isinstance(job, LiveJob) else None
        return self.runs.of(job, owner)

    # --- work ------------------------------------------------------------------------------------------------

    def next(self, now: int, utc: int, *, snapshot: bool = False) -> Work:
        """Return the action that is due now.

        A step is made here; if that raises, the driver answers with ``defect``. ``snapshot``: make a snapshot as soon
        as the log has a record.
        """
        return whole(self.slices(now, utc, snapshot=snapshot))

    def slices(self, now: int, utc: int, *, snapshot: bool = False) -> Slices[Work]:
        """Do ``next`` in slices: at a pause inputs may be posted, and all state may be read."""
        assert self._round is None
        if self._aside:
            return Wait(None)
        if self._loading:
            return TakeOver() if now >= self._retry_at else Wait(self._retry_at)
        if self._rebuilding:
            return Rebuild()
        self._alone = bool(self._suspects)
        if self._suspects:
            self._calls = [self._suspects.pop(0)]
            return (yield from self._unless_given_up(self._commit(now, utc, self._calls), now))
        if not self._queue and not self._notes:
            due = None if self._replaced else self.machine.next_wakeup()
            if due is None or due > now:
                return Wait(due)
        if self._covered is None and (self._is_long() or (snapshot and self._log_count > 0)):
            return self.snapshot()
        count, work = 0, 0
        for call in self._queue:
            work += work_of(call.input)
            if count and work > self.limits.most_work:
                break
            count += 1
        self._calls, self._queue = self._queue[:count], self._queue[count:]
        return (yield from self._unless_given_up(self._commit(now, utc, self._calls), now))

    def _unless_given_up(self, step: Slices[Commit], now: int) -> Slices[Work]:
        """Continue a step unless it is given up at a pause: then its callers are refused, and it must not be stored."""
        before = self._given_up
        while True:
            try:
                next(step)
            except StopIteration as done:
                commit: Commit = done.value
                return commit
            yield
            if self._given_up != before:
                step.close()
                return Wait(now)

    def snapshot(self) -> TakeSnapshot:
        """Return the order to store the present state, between two steps."""
        work = TakeSnapshot(self.number, {"events": self.events.save()})
        self._covered = work, self._log_count, self._log_size
        return work

    def _is_long(self) -> bool:
        limits = self.limits
        if self._log_count < self._least_records:
            return False
        return self._log_size > max(limits.least_log, self._snapshot_size) or self._log_count >= limits.most_records

    def _commit(self, now: int, utc: int, calls: list[InputCall]) -> Slices[Commit]:
        inputs = tuple(call.input for call in calls)
        step = yield from self._step(now, utc, inputs)
        runs, templates = yield from new_runs([(call.input, call.runs) for call in calls], step)
        yield
        taken = record_of(now, utc, inputs, step.facts)
        yield
        record = yield from encoding(taken)
        yield
        events = [*self.events.derive(self.machine, inputs, step), *self._notes]
        yield
        for number, event in enumerate(events, self.events.last + 1):
            event.number, event.at = number, event.at or utc / SECOND
        yield
        encoded: list[tuple[int, bytes]] = []
        for part in parts(runs):
            encoded += ((run.job, encode_run(run)) for run in part)
            yield
        first = [(job, run) for job, run in encoded if job not in templates]
        packed = pack(record, self.events.encode(events))
        yield
        self._round = _Round(calls, inputs, step, events, runs, len(record))
        self.runs.uncommitted = {run.job: run for run in runs}
        return Commit(
            Batch(
                records=[packed],
                runs=first,
                templates=[(job, templates[job], run) for job, run in encoded if job in templates],
                jobs=step.jobs,
                attempts=step.attempts,
                meta={"clock": self._save_clock(now, utc)},
            )
        )

    def _step(self, now: int, utc: int, inputs: Sequence[Input]) -> Slices[StepResult]:
        """Make a step; at each pause ``uncommitted`` has all work that has finished so far."""
        assert not self._ahead, "a step begins before the one before it is stored"
        self.uncommitted = Uncommitted()
        self._ahead = True
        work = self.machine.stepping(now, utc, inputs)
        while True:
            try:
                next(work)
            except StopIteration as done:
                step: StepResult = done.value
                self.uncommitted.add(step)
                return step
            self.uncommitted.add(self.machine.out)
            yield

    # --- answers of the driver -------------------------------------------------------------------------------

    def committed(self) -> list[Effect]:
        """Note that the batch is durable; return the effects of its step."""
        done, self._round, self._calls = self._round, None, []
        if done is None:
            return []  # it was given up meanwhile; the stored state will be loaded
        self.number += 1
        self._log_size += done.size
        self._log_count += 1
        effects = self._effects(done.calls, done.inputs, done.step)
        assert not done.events or done.events[0].number == self.events.last + 1, "events are left out, or told twice"
        self.events.add(done.events)
        self._notes = []
        for run in done.runs:
            self.runs.keep(run)
        for job in done.step.jobs:
            self.runs.forget(job.id)
        self.runs.uncommitted = {}
        self.uncommitted = Uncommitted()
        self._ahead = False
        readers, self._readers = self._readers, []
        return [*effects, *(AnswerCaller(reader, ()) for reader in readers)]

    def _effects(self, calls: Sequence[InputCall], inputs: Sequence[Input], step: StepResult) -> list[Effect]:
        effects: list[Effect] = []
        # First the executors that joined: they must get their answers before any orders.
        for call, reply in zip(calls, step.replies, strict=True):
            if call.then is not None:
                effects += call.then(reply)
        effects += self._orders(step)
        for call, reply in zip(calls, step.replies, strict=True):
            if call.caller is not None:
                effects.append(AnswerCaller(call.caller, reply))
        effects.append(Stepped(inputs, step))
        return effects

    def _orders(self, step: StepResult) -> list[Send]:
        if not (step.launches or step.halts or step.limits):
            return []
        # Executors would take the order for one of another center.
        assert self.epoch == self.machine.epoch, f"an order of epoch {self.epoch} follows from {self.machine.epoch}"
        return orders(
            self.epoch,
            step.launches,
            step.halts,
            step.limits,
            sessions=self.joined,
            nodes=self.machine.nodes,
            run_of=self.run_of,
            witness=self.witness,
        )

    @property
    def witness(self) -> bytes:
        """The signed position of this center, which executors keep; empty before its first epoch."""
        if self.lineage is None:
            return b""
        if self._signed[0] != self.number:
            machine = self.machine
            at = LogPosition(self.cluster, self.epoch, self.number, machine.next_job, machine.core.books.next_attempt)
            self._signed = self.number, self.lineage.sign(at)
        return self._signed[1]

    def lacks(self, witness: bytes) -> LogPosition | None:
        """Return a position that a center of this cluster has signed and the store never came to; else None."""
        return None if self.lineage is None else self.lineage.lacks(witness, self.number)

    def defect(self, why: str) -> list[Effect]:
        """Note that a step failed for another reason than the disk: find the input that causes it, and set it aside.

        Each input of the step is tried again, alone; one that fails again is the cause. Nothing of the step is stored,
        so the stored state is read again each time, in the same epoch: executors stay connected, and other inputs wait.
        """
        calls, self._calls, self._round = self._calls, [], None
        if not calls or self._loading:
            return self.commit_failed(f"the center failed while it processed this ({why}); see its log")
        self._rebuilding = True
        self.runs.clear()
        effects = self._refuse_readers(why)
        if not self._alone:
            self._suspects = calls
            return effects
        (call,) = calls
        error = SetAsideError(why)
        text = f"{type(call.input).__name__}: {why}"
        self._notes.append(EventView(kind="input.set_aside", node=_node_of(call.input), text=text))
        effects.append(SetAside(call.input, why))
        if call.then is not None:
            effects += call.then(error)
        if call.caller is not None:
            effects.append(AnswerCaller(call.caller, error))
        return effects

    def rebuilt(self, opened: Opened) -> list[Effect]:
        """Continue with the stored state in the same epoch, after a step that failed."""
        if (opened.epoch, opened.number) != (self.epoch, self.number):
            return self.commit_failed("the state in the store is not the one that this center has left there")
        self.restored(opened.machine)
        self._rebuilding = False
        return []

    def commit_failed(self, why: str) -> list[Effect]:
        """Note that a step failed or was not stored: refuse every caller and load the state again.

        Welcomed executors stay connected: their running tasks are stored, and their terms need no commit.
        """
        self._round = None
        self._given_up += 1
        waiting = [*self._calls, *self._suspects, *self._queue]
        self._queue, self._calls, self._suspects, self._rebuilding = [], [], [], False
        self.problem = why
        self._loading = True
        self._retry_at = 0
        self._covered = None
        # The machine is ahead until the state is loaded: the work that it has finished stays visible until then.
        self.runs.clear()
        refused = [Refuse(call.caller, why) for call in waiting if call.caller is not None]
        self.terms_only.update(self.joined)
        self.joined.clear()
        others = [session for name, session in self.present.items() if self.terms_only.get(name) is not session]
        return [*refused, *self._refuse_readers(why), *_closed(others, "the center loads its state again")]

    def _refuse_readers(self, why: str) -> list[Effect]:
        readers, self._readers = self._readers, []
        return [Refuse(reader, why) for reader in readers]

    def step_back(self, why: str) -> list[Effect]:
        """Stop giving orders and taking inputs, since another center leads.

        The stored state can be read.
        """
        self.problem = self._replaced = why
        waiting, self._queue = self._queue, []
        refused = [Refuse(call.caller, why) for call in waiting if call.caller is not None]
        return [*refused, *self.close_all(why)]

    def fenced(self, why: str) -> list[Effect]:
        """Note that the store belongs to another center: refuse every caller, and serve readers only."""
        return [*self.commit_failed(why), *self.step_back(why)]

    @property
    def is_replaced(self) -> bool:
        """Return whether another center leads."""
        return bool(self._replaced)

    def stand_by(self, opened: Opened) -> None:
        """Show a loaded state without a new epoch, since another center leads."""
        self.restored(opened.machine)
        self.events = opened.events
        self._loading = False
        self.problem = self._replaced

    def step_aside(self, why: str) -> list[Effect]:
        """Stop giving orders and taking inputs until ``began``; ``show`` gets the state that another center stores."""
        effects = [*self.commit_failed(why), *self.step_back(why)]
        self._aside, self._loading = True, False
        return effects

    @property
    def is_aside(self) -> bool:
        """Return whether this center stands by."""
        return self._aside

    def show(self, opened: Opened) -> None:
        """Show the state that another center has stored."""
        self.restored(opened.machine)
        self.events = opened.events
        self.epoch, self.cluster, self.number = opened.epoch, opened.cluster, opened.number
        self.runs.clear()

    def restored(self, machine: Machine) -> None:
        """Take over the stored state, before it is known whether it can be extended."""
        self.machine = machine
        self.uncommitted = Uncommitted()
        self._ahead = False

    def started_read_only(self, opened: Opened, why: str, now: int) -> None:
        """Show a loaded state, and confirm terms in its last epoch; a new epoch is tried again soon."""
        self.restored(opened.machine)
        self.events = opened.events
        self.epoch = opened.epoch
        self.cluster = opened.cluster
        self.load_failed(why, now)

    def began(self, opened: Opened) -> list[Effect]:
        """Continue with a loaded state whose epoch has begun.

        Executors that were connected register again. In the new state their terms have begun again, which covers all
        terms granted meanwhile.
        """
        assert opened.epoch > self.epoch, f"epoch {opened.epoch} begins after {self.epoch}"
        self.restored(opened.machine)
        self.events = opened.events
        self.epoch = opened.epoch
        self.cluster = opened.cluster
        self.number = opened.number
        self.lineage, self._signed = opened.lineage, (-1, b"")
        self._snapshot_size = opened.snapshot_size
        self._log_size = opened.log_size
        self._log_count = opened.log_count
        self._least_records = 0
        self._loading = False
        if self._aside:
            self._aside, self._replaced = False, ""
        self.problem = self._replaced
        return self.close_all("the center can store again")

    def load_failed(self, why: str, now: int) -> None:
        """Note that the state could not be loaded; it is tried again soon."""
        self.problem = why
        self._retry_at = now + RETRY

    def snapshot_stored(self, work: TakeSnapshot, size: int) -> None:
        """Note that the snapshot has replaced the records that it covers."""
        if self._covered is not None and self._covered[0] is work:
            _, count, length = self._covered
            self._log_count -= count
            self._log_size -= length
            self._snapshot_size = size
            self._covered = None
            self._least_records = 0

    def snapshot_failed(self, work: TakeSnapshot) -> None:
        """Note that the log stays unchanged; a snapshot is tried again when it is longer by half of the limit."""
        if self._covered is not None and self._covered[0] is work:
            self._covered = None
            self._least_records = self._log_count + self.limits.most_records // 2

    def close_all(self, reason: str) -> list[Effect]:
        """Close every session; the executors connect again."""
        sessions = list(self.present.values())
        self.joined.clear()
        self.terms_only.clear()
        return _closed(sessions, reason)

    def reachable(self, node: str) -> Session | None:
        """Return the session of a node whose executor was welcomed."""
        return self.joined.get(node) or self.terms_only.get(node)


def _closed(sessions: Sequence[Session], reason: str) -> list[Effect]:
    """Close sessions, unless they are closed."""
    closing: list[Effect] = []
    for session in sessions:
        if not session.closed:
            session.closed = True
            closing.append(Close(session, reason))
    return closing
