"""The committer: drives the commit loop with asyncio, and carries out its effects."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from cress.center.committing.counters import Counters
from cress.center.committing.expected_starts import ExpectedStarts
from cress.center.committing.leader_election import LeaderElection
from cress.center.committing.work_counts import WorkCounter
from cress.center.connections.connection_table import Connections
from cress.center.connections.start_materials import StartMaterials
from cress.center.keeping.event_feed import EventFeed
from cress.center.keeping.event_log import EVENTS, EventLog
from cress.center.keeping.event_log_check import check_witness, damaged_files
from cress.center.keeping.file_names import STORE
from cress.center.keeping.finished_work import Finished
from cress.center.keeping.history_reader import HistoryReader
from cress.center.keeping.loss_proof import keep_proof, loss_told, ways_out
from cress.center.keeping.name_feed import NameFeed
from cress.center.keeping.quarantine import QUARANTINE, Quarantine
from cress.center.keeping.recovery import begin_epoch, load_machine, store_named
from cress.center.keeping.snapshots import Export
from cress.center.keeping.uploads import FOLDER as UPLOADS
from cress.center.keeping.uploads import Uploads, upload_limits
from cress.center.process.clock import Clock
from cress.center.process.turns import LongRequests, all_in_turns, in_turns
from cress.center.process.watchdog import Watchdog
from cress.center.settings import CenterSettings
from cress.lifecycle.inputs import Input, Reported, Update
from cress.lifecycle.machine import Machine
from cress.model.errors import InputError
from cress.model.run import Run
from cress.model.times import SECOND
from cress.protocol.cluster_views import EventView
from cress.shell.center.commit import CommitLimits, CommitLoop, InputCall, Opened, Uncommitted
from cress.shell.center.effects import (
    AnswerCaller,
    AskEpoch,
    Close,
    Commit,
    Effect,
    OlderCopy,
    Ping,
    Rebuild,
    Refuse,
    Reply,
    Send,
    Session,
    SetAside,
    Stepped,
    Supply,
    TakeOver,
    TakeSnapshot,
    Wait,
    Warn,
)
from cress.shell.center.log_entries import unpack
from cress.shell.center.past_use import PastUse
from cress.shell.center.session import Sessions
from cress.store.base import Batch, Changed, Checkpoint, Damaged, Fenced, StateSnapshot, Store, StoreError

if TYPE_CHECKING:
    from cress.center.committing.spans import Spans

_T = TypeVar("_T")

# Timers of the event loop pause while the computer sleeps, so the clock is checked at least this often, in seconds.
LONGEST_SLEEP = 30.0
# Most snapshots that are postponed while the event log cannot be written.
MOST_POSTPONED = 2

_log = logging.getLogger("cress.center")
_executors_log = logging.getLogger("cress.executors")


class NotStored(Exception):
    """The change was not stored, so it has no effect; the message says why."""


class Committer:
    """Owns the store and drives the commit loop. Changes enter by ``submit`` and ``post``.

    Reads use ``machine``, ``uncommitted`` and ``store``. ``problem`` says why nothing can be stored; it is empty
    otherwise.
    """

    def __init__(
        self,
        store: Store,
        settings: CenterSettings,
        clock: Clock | None = None,
        limits: CommitLimits | None = None,
        election: LeaderElection | None = None,
        secret: bytes = b"",
    ) -> None:
        """``secret`` is the fingerprint of the cluster's secret for the store; empty if there is none."""
        self.store = store
        self._secret = secret
        self.settings = settings
        self.clock = clock or Clock()
        self.loop = CommitLoop(self._read_run, self.clock.save, limits)
        self.election = election or LeaderElection(None)
        self.sessions = Sessions(self.loop, settings.cluster, self.election.is_confirmed)
        self.connections = Connections(self.loop)
        self.materials = StartMaterials(self.loop, self.connections)
        self.started = self.clock.utc()
        self.events = EventFeed(self.loop)
        self.names = NameFeed(self.loop)
        self.log = EventLog(settings.data / EVENTS, zone=settings.zone)
        self.finished = Finished(store)
        self._quarantine = Quarantine(settings.data / QUARANTINE)
        self.history = HistoryReader(settings.data, settings.history)
        self.uploads = Uploads(settings.uploads or settings.data / UPLOADS, upload_limits(settings))
        self.expected_starts = ExpectedStarts()
        self.watchdog = Watchdog()
        self.counters = Counters()
        self.past_use = PastUse()
        self.work_counter = WorkCounter()
        self.spans: Spans | None = None
        self._times = 0.0, 0.0  # seconds of the last step and of its commit
        self.turns = LongRequests()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()  # set while there is nothing to do
        self.is_finishing = False  # another center is taking over
        self.is_reloading = False  # another center might have led for a time, so the state is loaded again
        self.large_bytes = 0  # of large messages of executors, since memory was last returned
        self._postponed = 0
        self._watchers: dict[int, list[asyncio.Future[None]]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._task: asyncio.Task[None] | None = None
        self._snapshot: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[int | None] | None = None
        self._loaded: Opened | None = None  # the stored state, while its epoch could not begin
        self._when_writable: list[Callable[[], None]] = []
        # Done with an error when the store turns out to be an older copy: the program ends with it.
        self.ended: asyncio.Future[None] | None = None

    @property
    def machine(self) -> Machine:
        """The machine, for reading."""
        return self.loop.machine

    @property
    def uncommitted(self) -> Uncommitted:
        """Finished work that is being committed."""
        return self.loop.uncommitted

    @property
    def problem(self) -> str:
        """The reason why nothing can be stored; empty if there is none."""
        return self.loop.problem

    @property
    def stopping(self) -> bool:
        """True when the center is stopping and accepts no new input."""
        return self.loop.stopping

    @property
    def epoch(self) -> int:
        """The epoch of this center."""
        return self.loop.epoch

    async def start(self, check: Callable[[Machine], None] | None = None) -> None:
        """Load the state from the store and begin to work. Raises StoreError and InputError.

        ``check`` examines the loaded machine before anything is changed, and may raise InputError.
        """
        self.history.check()
        opened = await self.in_thread(partial(load_machine, self.store, self.settings, self.clock))
        if check is not None:
            check(opened.machine)
        place = self.settings.data / STORE
        await asyncio.to_thread(check_witness, self.log.folder, place, opened.number)
        await self._start_with(opened)
        await self.work()

    async def work(self) -> None:
        """Begin to run the commit loop."""
        for sentence in await asyncio.to_thread(damaged_files, self.log.folder, older=False):
            _log.warning("%s", sentence)
        self._task = asyncio.create_task(self._work(), name="committer")
        self._checking = asyncio.create_task(self._check_old_files(), name="event log")

    async def _start_with(self, opened: Opened) -> None:
        """Begin the first epoch; if it cannot be stored, confirm the terms in the stored state and try again."""
        epoch = opened.epoch
        try:
            await self.in_thread(partial(self._begin, opened))
        except (Fenced, Damaged, Changed):
            raise
        except StoreError as error:
            if opened.epoch != epoch or not opened.snapshot_size:
                raise
            _log.warning("%s; the center starts read-only until it can store again", error)
            self._loaded = opened
            self.loop.started_read_only(opened, str(error), self.clock.now())
            self.names.load()
        else:
            self._began(opened)

    # --- standing by ------------------------------------------------------------------------------------------

    def show(self, opened: Opened) -> None:
        """Show the state that another center has stored."""
        self.loop.show(opened)
        self._release_watchers()
        self.events.tell()

    async def take_over(self, opened: Opened) -> None:
        """Begin an epoch with the state that another center has stored. Raises StoreError and InputError."""
        await self.in_thread(partial(begin_epoch, self.store, opened, self.settings, self.clock, self._secret))
        self.log.begin_later(opened.number)
        self._began(opened)
        self._snapshot = asyncio.create_task(self._begin_event_log(), name="event log")

    async def _begin_event_log(self) -> None:
        """Begin a file of the event log with the present state, while the center works."""
        self.log.mark()
        state = await asyncio.to_thread(Export(self.machine, self.settings.data).state)
        if state is not None:
            # Callers of the former leader wait: the disk must not hold up their commits.
            utc = self.clock.utc()
            prepared = await asyncio.to_thread(self.log.prepare, state, utc)
            await self.in_thread(partial(self.log.begin, state, utc, prepared))

    async def finish(self, why: str, seconds: float) -> bool:
        """Accept no more inputs, and return when the accepted ones are stored and answered.

        Return False if that takes longer than ``seconds``; inputs are then accepted again.
        """
        self.is_finishing = True
        self.loop.problem = why
        self._idle.clear()
        self._wake.set()
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
                if self._snapshot is not None:
                    await asyncio.shield(self._snapshot)
        except TimeoutError:
            self.is_finishing = False
            if self.loop.problem == why:
                self.loop.problem = ""
            return False
        return True

    def step_aside(self, why: str) -> None:
        """Stop giving orders and accepting inputs, since another center leads."""
        self.is_finishing = self.is_reloading = False
        self.carry_out(self.loop.step_aside(why))
        self.log.close()
        self._wake.set()
        self._release_watchers()
        self.events.tell()
        self.names.tell()

    def lapsed(self) -> None:
        """Load the state again before the next decision, since another center may have led for a time."""
        self.is_reloading = True
        self.carry_out(
            self.loop.commit_failed("the servers of the store did not confirm in time that this center leads")
        )
        self._wake.set()

    def when_writable(self, action: Callable[[], None]) -> None:
        """Run an action now, or as soon as changes can be stored."""
        if self.problem:
            self._when_writable.append(action)
        else:
            action()

    async def _check_old_files(self) -> None:
        """Warn of damage in older files of the event log; the start does not wait for this check."""
        for sentence in await asyncio.to_thread(damaged_files, self.log.folder, newest=False):
            _log.warning("%s", sentence)

    def leave(self) -> None:
        """Accept no new input, and release all waiting callers."""
        self.loop.stopping = True
        self._wake.set()
        self._release_watchers()
        self.events.tell()
        self.names.tell()

    async def stop(self) -> None:
        """Finish the queued inputs, store a snapshot, close the store."""
        self.leave()
        if self._task is not None:
            await self._task
        if self._checking is not None:
            await self._checking
        if self._snapshot is not None:
            await self._snapshot
        if self._task is not None and not self.problem:
            self.log.mark()
            work = self.loop.snapshot()
            snapshot = StateSnapshot(work.number, self.machine.export(), work.meta)
            try:
                await self.in_thread(partial(self._commit_snapshot, snapshot, self.epoch))
            except StoreError as error:
                # Nothing is lost, since the log is complete without the snapshot.
                _log.warning("no snapshot at the end: %s", error)
        self._thread.shutdown()
        self.turns.close()
        self.history.close()
        self.finished.close()
        self.log.close()
        await self.election.end()
        self.store.close()

    # --- inputs ----------------------------------------------------------------------------------------------

    async def submit(self, what: Input, runs: Sequence[Run] = ()) -> tuple[int, ...]:
        """Return the reply to an input once it is stored.

        ``runs`` belong to the jobs of a ``Submit``, in their order. Raises InputError if the machine refuses the input,
        and NotStored.
        """
        self._check_open()
        future: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
        self.loop.post(self._compared(InputCall(what, runs, caller=future)))
        self._wake.set()
        return await future

    async def submit_together(self, calls: Sequence[InputCall]) -> None:
        """Submit inputs at once, with futures as callers; return when all are answered. Raises NotStored."""
        self._check_open()
        compared = [self._compared(call) async for call in in_turns(calls)]
        self._check_open()
        for call in compared:
            self.loop.post(call)
        self._wake.set()
        async for call in in_turns(calls):
            assert isinstance(call.caller, asyncio.Future)
            if not call.caller.done():
                await asyncio.wait((call.caller,))

    def _compared(self, call: InputCall) -> InputCall:
        """Return a call in which an update with an unchanged run says so."""
        if isinstance(call.input, Update) and call.runs and not call.input.anew:
            what, runs = self.loop.compared(call.input, call.runs[0])
            return InputCall(what, runs, caller=call.caller, then=call.then)
        return call

    async def submit_each(self, inputs: Sequence[Input]) -> None:
        """Submit inputs in order; return when all are stored.

        Raises the first InputError or NotStored after all inputs have been answered.
        """
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[tuple[int, ...]]] = []
        async for what in in_turns(inputs):
            self._check_open()
            answers.append(loop.create_future())
            self.loop.post(InputCall(what, caller=answers[-1]))
            self._wake.set()
        first: BaseException | None = None
        async for answer in in_turns(answers):
            if not answer.done():
                await asyncio.wait((answer,))
            first = first or answer.exception()
        if first is not None:
            raise first

    async def stored(self) -> None:
        """Return once everything that a reader can have seen is stored. Raises NotStored if that never happens."""
        future: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
        self.carry_out(self.loop.when_stored(future))
        await future

    def post(self, what: Input) -> bool:
        """Queue an input that needs no reply; return whether it was queued."""
        if not self.loop.post(InputCall(what)):
            return False
        self._wake.set()
        return True

    def tell(self, event: EventView) -> None:
        """Add an event that no input makes; it is stored with the next step."""
        self.loop.tell(event)
        self._wake.set()

    async def tidy(self, batch: Batch) -> None:
        """Store a batch without inputs of the machine, between its steps. Raises StoreError and NotStored."""
        self._check_open()
        await self.in_thread(partial(self.store.commit, batch, self.epoch))

    def _check_open(self) -> None:
        if self.problem or self.stopping:
            raise NotStored(self.problem or "the center is stopping; try again")

    def watch(self, job: int) -> asyncio.Future[None]:
        """Return a future that is done when this job changes or the center stops."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.stopping:
            future.set_result(None)
        else:
            self._watchers.setdefault(job, []).append(future)
        return future

    def unwatch(self, job: int, future: asyncio.Future[None]) -> None:
        """Remove a future of ``watch``."""
        waiting = self._watchers.get(job)
        if waiting and future in waiting:
            waiting.remove(future)
            if not waiting:
                del self._watchers[job]

    def run(self, job: int) -> Run | None:
        """Return the run of an accepted job: for a member of a family by its template, for a family the present one."""
        machine = self.machine
        known = machine.jobs.get(job) or machine.families.get(job) or self.uncommitted.jobs.get(job)
        known = known or self.store.job(job)
        return self.loop.run_of(job) if known is None else self.loop.resolved(known)

    def _read_run(self, job: int) -> bytes | None:
        try:
            return self.store.run(job)
        except Damaged as error:
            # The executor refuses this job with a reason; all other jobs continue.
            _log.warning("%s", error)
            return None

    # --- the loop --------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while not self.stopping or self.loop.busy:
            now, utc = self.clock.now(), self.clock.utc()
            begun = time.perf_counter()
            try:
                work = await all_in_turns(self.loop.slices(now, utc, snapshot=self.log.is_old(utc)))
                match work:
                    case Wait():
                        await self._pause(work.until, now)
                    case Commit():
                        made = time.perf_counter()
                        self.counters.steps.observe(made - begun)
                        await self.in_thread(partial(self._commit, work.batch, self.epoch))
                        finished = time.perf_counter()
                        self.counters.commits.observe(finished - made)
                        self._times = made - begun, finished - made
                        self.carry_out(self.loop.committed())
                    case TakeSnapshot():
                        if self._snapshot is not None:
                            await self._snapshot
                        self._begin_snapshot(work)
                    case TakeOver():
                        await self._load()
                    case Rebuild():
                        stored = await self.in_thread(partial(load_machine, self.store, self.settings, self.clock))
                        self.carry_out(self.loop.rebuilt(stored))
            except Fenced as error:
                _log.error("%s", error)
                self.carry_out(self.loop.fenced(str(error)))
            except StoreError as error:
                self.counters.commits_failed += 1
                self.carry_out(self.loop.commit_failed(str(error)))
            except Exception as error:  # noqa: BLE001 – a defect must not leave the machine ahead of the store
                _log.exception("a step failed; the stored state is read again")
                self.carry_out(self.loop.defect(f"{type(error).__name__}: {error}"))

    async def _pause(self, until: int | None, now: int) -> None:
        """Wait until that time, or until an input is queued or the center stops."""
        delay = LONGEST_SLEEP if until is None else min(LONGEST_SLEEP, (until - now) / SECOND)
        self._wake.clear()
        if self.stopping or self.loop.busy:
            return
        self._idle.set()
        timer = asyncio.get_running_loop().call_later(delay, self._wake.set)
        await self._wake.wait()
        timer.cancel()

    def _commit(self, batch: Batch, epoch: int) -> None:
        """Store a batch, then append its record to the event log. Runs in the committing thread."""
        self.store.commit(batch, epoch)
        for record in batch.records:
            self.log.append(unpack(record).record)

    def _begin_snapshot(self, work: TakeSnapshot) -> None:
        """Export the current state; it is stored in place of the log, after the steps that come in between."""
        self.log.mark()
        export = Export(self.machine, self.settings.data)
        self._snapshot = asyncio.create_task(self._finish_snapshot(work, self.epoch, export), name="snapshot")

    async def _finish_snapshot(self, work: TakeSnapshot, epoch: int, export: Export) -> None:
        size = 0
        try:
            state = await asyncio.to_thread(export.state)
            if state is not None:
                snapshot = StateSnapshot(work.number, state, work.meta)
                uploaded = await asyncio.to_thread(self.store.upload, snapshot)
                await self.in_thread(partial(self._commit_snapshot, snapshot, epoch, uploaded))
                size = len(state)
        except StoreError as error:
            # Nothing is lost, since the log is complete without the snapshot.
            _log.warning("no snapshot: %s", error)
        except Exception:  # noqa: BLE001 – tried again later
            _log.exception("a snapshot failed")
        if size:
            self.loop.snapshot_stored(work, size)
        else:
            self.loop.snapshot_failed(work)

    def _commit_snapshot(self, snapshot: StateSnapshot, epoch: int, uploaded: Checkpoint | None = None) -> None:
        """Store a snapshot, unless the event log lacks records that would go. Runs in the committing thread."""
        utc = self.clock.utc()
        if not self.log.sync():
            self._postponed += 1
            if self._postponed <= MOST_POSTPONED:
                _log.warning("%s; the store keeps its log meanwhile", self.log.problem)
                return
            _log.warning("%s; it will have a gap", self.log.problem)
            self.log.give_up()
        self._postponed = 0
        if self.log.wants_new_file(utc):
            self.log.begin(snapshot.state, utc)
        self.store.snapshot(snapshot, epoch, uploaded)

    async def _load(self) -> None:
        """Read the state from the store, and begin a new epoch with it."""
        try:
            if not self.election.is_confirmed():
                raise StoreError("the servers of the store have not confirmed that this center leads")  # noqa: TRY301
            opened, self._loaded = self._loaded, None
            if opened is None:
                opened = await self.in_thread(partial(load_machine, self.store, self.settings, self.clock))
                self.loop.restored(opened.machine)
                self._release_watchers()
            if self.loop.is_replaced:
                self.loop.stand_by(opened)
                self.names.load()
                return
            epoch = opened.epoch
            try:
                await self.in_thread(partial(self._begin, opened))
            except StoreError as error:
                if opened.epoch == epoch and not isinstance(error, Changed):
                    # Nothing was stored and no step was made, so the loaded state is still valid.
                    self._loaded = opened
                raise
        except (StoreError, InputError) as error:
            self.loop.load_failed(str(error), self.clock.now())
        except Exception:  # noqa: BLE001 – tried again until the center is stopped
            _log.exception("the state cannot be loaded")
            self.loop.load_failed("the state cannot be loaded; see the center's log", self.clock.now())
        else:
            # If another center became the leader in the meantime, this one remains a standby.
            if not self.loop.is_aside:
                self._began(opened)

    def _began(self, opened: Opened) -> None:
        self.is_reloading = False
        self.carry_out(self.loop.began(opened))
        self._wake.set()
        self.events.tell()
        self.names.load()
        actions, self._when_writable = self._when_writable, []
        for action in actions:
            action()

    def _begin(self, opened: Opened) -> None:
        """Begin a new epoch with the loaded state. Runs in the committing thread."""
        begin_epoch(self.store, opened, self.settings, self.clock, self._secret)
        self.log.open(opened.number, opened.records, opened.machine.export, self.clock.utc())
        # In a shared store, other centers may have written the missing records.
        gap = "" if self.settings.store else self.log.gap
        for sentence in (gap, self.log.problem):
            if sentence:
                _log.warning("%s", sentence)

    # --- effects ---------------------------------------------------------------------------------------------

    def carry_out(self, effects: Iterable[Effect]) -> None:  # noqa: C901 - a table
        """Carry out effects of the commit loop or of a session, in order."""
        for effect in effects:
            match effect:
                case Send():
                    connection = self.connections.of(effect.session)
                    if connection is not None:
                        connection.put(effect.message)
                case Close():
                    connection = self.connections.of(effect.session)
                    if connection is not None:
                        connection.close(effect)
                case AnswerCaller():
                    _answer(effect.caller, effect.reply)
                case Refuse():
                    _refuse(effect.caller, effect.why)
                case Stepped():
                    if self._watchers:
                        self._wake_watchers(effect)
                    self.names.stepped(effect.step.facts.rows)
                    self.counters.stepped(self.machine, effect.step)
                    if self.spans is not None:
                        self.spans.stepped(self.machine, effect.step, *self._times)
                    self.events.tell()
                case SetAside():
                    place = self._quarantine.keep(effect.input, effect.why, self.clock.utc())
                    _log.error("an input makes each step fail (%s) and was set aside: %s", effect.why, place)
                case Supply():
                    self.materials.supply(effect)
                case Warn():
                    _executors_log.warning("%s", effect.sentence)
                case OlderCopy():
                    self._rolled_back(effect)
                case Ping() | AskEpoch():
                    raise AssertionError("the listener asks")
        if self.loop.busy:
            self._wake.set()

    def _rolled_back(self, proof: OlderCopy) -> None:
        """End the program, and keep the proof for the next start."""
        try:
            keep_proof(self.settings.data, proof.node, proof.witness)
        except OSError as error:
            _log.error("the proof that the store is an older copy cannot be kept: %s", error.strerror)
        name, place = store_named(self.settings)
        if self.ended is not None and not self.ended.done():
            told = loss_told(name, proof.node, proof.position, self.loop.number)
            self.ended.set_exception(Damaged(told, ways_out(place)))

    async def compare_epochs(self, session: Session) -> None:
        """Let the store decide whether the newer epoch that an executor names belongs to another center.

        Executors that come while the store is queried share the answer, so their number does not delay commits.
        """
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self.in_thread(self._newest_epoch), name="epoch")
        newest = await asyncio.shield(self._asking)
        self.carry_out(self.sessions.compared(session, newest))
        self._wake.set()

    def _newest_epoch(self) -> int | None:
        try:
            return self.store.newest_epoch()
        except StoreError as error:
            _log.warning("the newest epoch cannot be read: %s", error)
            return None

    def close_all(self, reason: str) -> None:
        """Close all connections to executors."""
        self.carry_out(self.loop.close_all(reason))

    def _wake_watchers(self, done: Stepped) -> None:
        step = done.step
        touched = {launch.job for launch in step.launches}
        touched.update(attempt.job for attempt in step.attempts)
        touched.update(job.id for job in step.jobs)
        for what in done.inputs:
            if isinstance(what, Reported):
                live = (self.machine.attempts.get(report.attempt) for report in what.reports)
                touched.update(attempt.job for attempt in live if attempt is not None)
        for job in touched & self._watchers.keys():
            self._release(job)

    def _release(self, job: int) -> None:
        for future in self._watchers.pop(job):
            if not future.done():
                future.set_result(None)

    def _release_watchers(self) -> None:
        for job in list(self._watchers):
            self._release(job)

    async def in_thread(self, work: Callable[[], _T]) -> _T:
        """Run ``work`` in the committing thread, which owns the store."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _answer(caller: object, reply: Reply) -> None:
    assert isinstance(caller, asyncio.Future)
    if caller.done():
        return
    if isinstance(reply, InputError):
        caller.set_exception(reply)
    else:
        caller.set_result(reply or ())


def _refuse(caller: object, why: str) -> None:
    assert isinstance(caller, asyncio.Future)
    if not caller.done():
        caller.set_exception(NotStored(why))
