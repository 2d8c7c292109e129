"""The one writer: takes what came in, steps the machine, stores the step, then carries out what it came to."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeAlias, TypeVar

import msgspec

from cress.center.clock import Clock
from cress.center.dispatch import Dispatcher
from cress.center.eventlog import EventLog
from cress.center.events import Before, Events
from cress.center.flight import Flight
from cress.center.past import Past
from cress.center.recovery import Opened, begin_epoch, encode_number, load_machine
from cress.center.runs import decode_run, encode_run, new_runs, run_of, same_run, template_of
from cress.center.settings import Settings
from cress.lifecycle.effects import Step
from cress.lifecycle.inputs import Input, Record, Reported, Update, encode_record
from cress.lifecycle.live import LiveJob
from cress.lifecycle.machine import Machine
from cress.model.errors import InputError
from cress.model.family import Database, Service
from cress.model.node import Load, Node
from cress.model.run import Run
from cress.model.times import SECOND
from cress.store.base import Batch, Damaged, Store, StoreError

Reply: TypeAlias = tuple[int, ...] | InputError | None
Then: TypeAlias = Callable[[Reply], None]
_T = TypeVar("_T")

# The log is replaced by a snapshot when reading it would take longer than reading the snapshot.
LEAST_LOG = 4 * 2**20
MOST_RECORDS = 5_000
# So many inputs make one step: what comes next waits no longer than that.
MOST_INPUTS = 2_000
# Timers of the event loop stand still while the computer sleeps: look at the clock this often, in seconds.
LONGEST_SLEEP = 30.0
# So often the store's log goes on growing because the event log cannot be written.
MOST_POSTPONED = 2
RETRY = 1.0
RUNS_KEPT = 2_048

_log = logging.getLogger("cress.center")


class NotStored(Exception):
    """The change was not stored, so it was not made; the sentence says why."""


class _Call:
    __slots__ = ("future", "input", "runs", "then")

    def __init__(
        self, what: Input, runs: Sequence[Run], future: asyncio.Future[tuple[int, ...]] | None, then: Then | None
    ) -> None:
        self.input = what
        self.runs = runs
        self.future = future
        self.then = then

    def answer(self, reply: Reply) -> None:
        if self.future is None or self.future.done():
            return
        if isinstance(reply, InputError):
            self.future.set_exception(reply)
        else:
            self.future.set_result(reply or ())

    def refuse(self, sentence: str) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_exception(NotStored(sentence))


class Engine:
    """Owns the machine. Reads look at ``machine``, ``flight`` and ``store``; changes go through ``submit``.

    ``problem`` is empty while all is well, else why nothing can be stored. ``cluster`` is the id of the cluster.
    """

    machine: Machine

    def __init__(self, store: Store, settings: Settings, clock: Clock | None = None) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock or Clock()
        self.dispatcher = Dispatcher(self.run, self.node)
        self.epoch = 0
        self.cluster = ""
        self.problem = ""
        self.started = self.clock.utc()
        self.flight = Flight()
        self.stopping = False
        self._stepped_back = ""
        self._runs: OrderedDict[int, Run] = OrderedDict()
        self._queue: list[_Call] = []
        self._wake = asyncio.Event()
        # What was measured last on the nodes that are connected; the machine is told only what is news.
        self.loads: dict[str, Load] = {}
        self.events = Events()
        self.log = EventLog(settings.data / "events", zone=str(settings.zone))
        self.past = Past(settings.data, settings.history)
        self._number = self._postponed = 0
        self._snapshot_size = self._log_size = self._log_count = 0
        self._watchers: dict[int, list[asyncio.Future[None]]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take the state from the store and begin to work. Raises StoreError and InputError."""
        self.past.check()
        opened = await self._in_thread(partial(load_machine, self.store, self.settings, self.clock))
        await self._in_thread(partial(self._begin, opened))
        self._take_over(opened)
        self._task = asyncio.create_task(self._work(), name="engine")

    def leave(self) -> None:
        """Take nothing new, and let go of those who wait."""
        self.stopping = True
        self._wake.set()
        self._release_watchers()
        self.events.tell()

    async def stop(self) -> None:
        """Finish what is queued, leave a snapshot, close the store."""
        self.leave()
        if self._task is not None:
            await self._task
        if self._task is not None and not self.problem:
            try:
                await self._snapshot()
            except StoreError as error:
                # Nothing is lost: the log is complete without it.
                _log.warning("no snapshot at the end: %s", error)
        self._thread.shutdown()
        self.past.close()
        self.log.close()
        self.store.close()

    def step_back(self, sentence: str) -> None:
        """Another center is in charge: give no orders and take nothing in any more; what is stored can be read."""
        _log.error("%s", sentence)
        self.problem = self._stepped_back = sentence
        waiting, self._queue = self._queue, []
        for call in waiting:
            call.refuse(sentence)
        self.dispatcher.drop_all(sentence)

    # --- ways in ---------------------------------------------------------------------------------------------

    async def submit(self, what: Input, runs: Sequence[Run] = ()) -> tuple[int, ...]:
        """The reply to an input, once it is stored.

        ``runs`` go with the jobs of a ``Submit``, in their order. Raises InputError when the machine refuses the
        input, and NotStored.
        """
        if self.problem or self.stopping:
            raise NotStored(self.problem or "the center is stopping; try again")
        if isinstance(what, Update) and runs:
            what, runs = self._compared(what, runs[0])
        future: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
        self._put(_Call(what, runs, future, None))
        return await future

    def post(self, what: Input, then: Then | None = None) -> bool:
        """Put an input in; ``then`` is called with the reply once it is stored, and never if it is not.

        Returns whether it was taken.
        """
        if self.problem or self.stopping:
            return False
        self._put(_Call(what, (), None, then))
        return True

    def _compared(self, update: Update, run: Run) -> tuple[Update, list[Run]]:
        """The update, with whether its run is as the one that the family has: then no task has to be replaced for it.

        Its run; one that is alike belongs to whom the old one does.
        """
        family = self.machine.families.get(update.job)
        old = self._template(family.template) if family is not None else None
        if family is None or old is None or not same_run(old, run):
            return update, [run]
        same = msgspec.structs.replace(run, user=old.user)
        return msgspec.structs.replace(update, same_as=family.template), [same]

    async def tidy(self, batch: Batch) -> None:
        """Store something that the machine knows nothing of, between its steps. Raises StoreError and NotStored."""
        if self.problem or self.stopping:
            raise NotStored(self.problem or "the center is stopping; try again")
        await self._in_thread(partial(self.store.commit, batch))

    def watch(self, job: int) -> asyncio.Future[None]:
        """Done when something about this job changed, or the center stops."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.stopping:
            future.set_result(None)
        else:
            self._watchers.setdefault(job, []).append(future)
        return future

    def unwatch(self, job: int, future: asyncio.Future[None]) -> None:
        """Nobody waits for this any more."""
        waiting = self._watchers.get(job)
        if waiting and future in waiting:
            waiting.remove(future)
            if not waiting:
                del self._watchers[job]

    def run(self, job: int) -> Run | None:
        """How to run a job that was accepted; a member of a family as its template says, a family as it is now."""
        machine = self.machine
        known = machine.jobs.get(job) or machine.families.get(job) or self.flight.jobs.get(job)
        if known is None:
            # One that is over is asked for seldom; the id of a template is none of a job.
            known = self.store.job(job)
        if known is None:
            return self._template(job)
        run = self._template(template_of(known))
        if run is None:
            return None
        owner = machine.families.get(known.job.family) if isinstance(known, LiveJob) else None
        return run_of(
            known,
            run,
            owner.job.tasks if owner is not None and isinstance(owner.job.plan, Service | Database) else None,
        )

    def _template(self, job: int) -> Run | None:
        run = self._runs.get(job)
        if run is not None:
            self._runs.move_to_end(job)
            return run
        run = self.flight.runs.get(job)
        if run is None:
            run = self._stored_run(job)
        if run is not None:
            self._remember(run)
        return run

    def node(self, name: str) -> Node | None:
        """A node as it registered last."""
        known = self.machine.nodes.get(name)
        return None if known is None else known.node

    def _stored_run(self, job: int) -> Run | None:
        try:
            data = self.store.run(job)
        except Damaged as error:
            # Whoever is to start it says so; all other jobs go on.
            _log.warning("%s", error)
            return None
        return None if data is None else decode_run(data)

    def _remember(self, run: Run) -> None:
        self._runs[run.job] = run
        while len(self._runs) > RUNS_KEPT:
            self._runs.popitem(last=False)

    def _put(self, call: _Call) -> None:
        self._queue.append(call)
        self._wake.set()

    # --- the loop --------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            await self._until_needed()
            if self.stopping and not self._queue:
                return
            calls, self._queue = self._queue[:MOST_INPUTS], self._queue[MOST_INPUTS:]
            try:
                await self._round(calls)
            except StoreError as error:
                await self._reload(calls, str(error))
            except Exception:  # noqa: BLE001 – a defect must not leave the machine ahead of the store
                _log.exception("a step failed; the state is loaded again")
                await self._reload(calls, "the center failed while it worked on this, its log says more")

    async def _until_needed(self) -> None:
        while not self._queue and not self.stopping:
            due = None if self._stepped_back else self.machine.next_wakeup()
            delay = LONGEST_SLEEP if due is None else min(LONGEST_SLEEP, (due - self.clock.now()) / SECOND)
            if delay <= 0:
                # Others get their turn even when one step leads to the next.
                await asyncio.sleep(0)
                return
            await self._pause(delay)

    async def _round(self, calls: list[_Call]) -> None:
        if self._snapshot_due():
            await self._snapshot()
        now, utc = self.clock.now(), self.clock.utc()
        inputs = tuple(call.input for call in calls)
        before = Before(self.machine, inputs, now)
        step = self.machine.step(now, utc, inputs)
        runs, templates = new_runs([(call.input, call.runs) for call in calls], step)
        record = encode_record(Record(now, utc, inputs))
        batch = Batch(
            records=[record],
            runs=[(run.job, encode_run(run)) for run in runs if run.job not in templates],
            templates=[(run.job, templates[run.job], encode_run(run)) for run in runs if run.job in templates],
            jobs=step.jobs,
            attempts=step.attempts,
            meta={"clock": self.clock.save(now, utc), "records": encode_number(self._number + 1)},
        )
        self.flight = Flight(batch, {run.job: run for run in runs})
        await self._in_thread(partial(self._commit, batch))
        self.flight = Flight()
        self._number += 1
        self._log_size += len(record)
        self._log_count += 1
        for run in runs:
            self._remember(run)
        self._carry_out(calls, step)
        self.events.step(self.machine, inputs, step, before)
        self.events.tell()

    def _commit(self, batch: Batch) -> None:
        """Store a batch, then append its record to the event log. In the thread that commits."""
        self.store.commit(batch)
        for record in batch.records:
            self.log.append(record)

    def _snapshot_due(self) -> bool:
        """Whether the store's log has become longer than the state that it leads to, or the event log's file old."""
        long = self._log_size > max(LEAST_LOG, self._snapshot_size) or self._log_count >= MOST_RECORDS
        return long or (self._log_count > 0 and self.log.is_old(self.clock.utc()))

    async def _snapshot(self) -> None:
        """Replace the store's log by the state, once the event log has all of it."""
        now, utc = self.clock.now(), self.clock.utc()
        state = self.machine.export()
        meta = {
            "clock": self.clock.save(now, utc),
            "records": encode_number(self._number),
            "events": self.events.save(),
        }
        batch = Batch(snapshot=state, meta=meta)
        await self._in_thread(partial(self._commit_snapshot, batch, state, utc))
        self._snapshot_size, self._log_size, self._log_count = len(state), 0, 0

    def _commit_snapshot(self, batch: Batch, state: bytes, utc: int) -> None:
        """Store a snapshot; not while the event log cannot take what would be gone. In the thread that commits."""
        if not self.log.sync():
            self._postponed += 1
            if self._postponed <= MOST_POSTPONED:
                _log.warning("%s; the store keeps its log meanwhile", self.log.problem)
                return
            _log.warning("%s; it will have a gap", self.log.problem)
            self.log.give_up()
        self._postponed = 0
        if self.log.wants_new_file(utc):
            self.log.begin(state, utc)
        self.store.commit(batch)

    def _begin(self, opened: Opened) -> None:
        """Begin a new epoch with what was loaded. In the thread that commits."""
        begin_epoch(self.store, opened, self.settings, self.clock)
        self.log.open(opened.number, opened.records, opened.machine.export, self.clock.utc())
        if self.log.problem:
            _log.warning("%s", self.log.problem)

    def _carry_out(self, calls: list[_Call], step: Step) -> None:
        # First those who must hear before they get orders: a node that joined.
        for call, reply in zip(calls, step.replies, strict=True):
            if call.then is not None:
                call.then(reply)
        if step.launches or step.halts:
            self.dispatcher.carry_out(self.epoch, step.launches, step.halts)
        for call, reply in zip(calls, step.replies, strict=True):
            call.answer(reply)
        if self._watchers:
            self._wake_watchers(calls, step)

    def _wake_watchers(self, calls: list[_Call], step: Step) -> None:
        touched = {each.job for each in step.launches}
        touched.update(each.job for each in step.attempts)
        touched.update(each.id for each in step.jobs)
        for call in calls:
            if isinstance(call.input, Reported):
                live = (self.machine.attempts.get(report.attempt) for report in call.input.reports)
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

    # --- when a commit failed ----------------------------------------------------------------------------------

    async def _reload(self, calls: list[_Call], sentence: str) -> None:
        """The machine is ahead of the store: refuse everybody, and begin again from what is stored."""
        self.problem = sentence
        waiting, self._queue = [*calls, *self._queue], []
        for call in waiting:
            call.refuse(sentence)
        self.dispatcher.drop_all("the center loads its state again")
        self.flight = Flight()
        self._runs.clear()
        while not self.stopping:
            try:
                opened = await self._in_thread(partial(load_machine, self.store, self.settings, self.clock))
                # Readers see what is stored, even while nothing can be added to it.
                self.machine = opened.machine
                self._release_watchers()
                await self._in_thread(partial(self._begin, opened))
            except (StoreError, InputError) as error:
                self.problem = str(error)
            except Exception:  # noqa: BLE001 – tried again, as long as anybody has patience
                _log.exception("the state cannot be loaded")
            else:
                self._take_over(opened)
                self.problem = self._stepped_back
                return
            await self._pause(RETRY)

    async def _pause(self, seconds: float) -> None:
        """Wait so long, or until something is queued or the center stops."""
        self._wake.clear()
        timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        await self._wake.wait()
        timer.cancel()

    def _take_over(self, opened: Opened) -> None:
        self.machine = opened.machine
        self.epoch = opened.epoch
        self.cluster = opened.cluster
        self._snapshot_size = opened.snapshot_size
        self._log_size = opened.log_size
        self._log_count = opened.log_count
        self._number = opened.number
        self.events.take(opened.events)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
