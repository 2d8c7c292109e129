"""Decisions of the supervisor: attempts to start, stop and report. It uses no process, file, socket or clock.

The shell around it (``supervisor``) sets the time, calls a method for each event, and provides its ``ProcessDriver``.
"""

from __future__ import annotations

import errno
import heapq
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

import msgspec

from cress.model.job import OnPartition
from cress.model.node import Allocated, Device
from cress.model.reports import Cause, Ended, Report, Started, Usage
from cress.model.run import Run
from cress.model.start_material import StartMaterial
from cress.model.step_values import Values
from cress.model.times import MILLISECOND, SECOND
from cress.protocol.messages import (
    Devices,
    Durable,
    Launches,
    Material,
    Shutdown,
    Signal,
    Stops,
    Term,
    TimeLimits,
    ToSupervisor,
    Welcome,
)
from cress.shell.executor.node_devices import NodeDevices
from cress.shell.executor.records import Boot, ClusterId, Deadline, End, Epoch, Forget, Intent, Known, Record, Start
from cress.shell.executor.starting import LaunchContext, StageFailure, StartError

SIGTERM, SIGKILL = 15, 9

# Time (µs) before the next check whether killed processes are gone: first and longest.
SWEEP_FIRST, SWEEP_MOST = 2 * MILLISECOND, 100 * MILLISECOND

# At the end of a term tasks have their grace, but at most this fraction of the term: tasks must not notice a center
# that is away for less than most of it.
GRACE_OF_TERM = 4

# Time (µs) for which an attempt waits for its start material: longer than a restart of the center takes.
MATERIAL_PATIENCE = 120 * SECOND

NO_MATERIAL = f"the center did not send the secrets that the task needs to start within {MATERIAL_PATIENCE // SECOND} s"
REBOOTED = "the machine was restarted"
UNSEEN = "its end was not seen: the supervisor was not running"
FORGOTTEN = "it had ended before, and its end was confirmed"


class StageState(Enum):
    """The stage of an attempt between its order and its end."""

    QUEUED = "queued"  # its intent is durable; it waits for its turn, or for its start material
    SPAWNING = "spawning"  # there is a process that becomes the program or fails
    RUNNING = "running"
    SWEEPING = "sweeping"  # its first process is gone, the remaining ones are being killed


class Task:
    """An attempt that is under way.

    Times are the task manager's clock; ``at`` is the wall clock. All in microseconds.
    """

    __slots__ = (
        "adopted",
        "at",
        "attempt",
        "cause",
        "code",
        "context",
        "ends_at",
        "error",
        "failure",
        "group",
        "intent",
        "kill_at",
        "material",
        "material_due",
        "pause",
        "pid",
        "run",
        "seen",
        "since",
        "stage",
        "usage",
        "values",
    )  # fmt: skip

    def __init__(self, intent: Intent, run: Run | None, context: LaunchContext | None = None) -> None:
        self.context = context or LaunchContext(intent.launch.ports)
        self.attempt = intent.launch.attempt
        self.intent = intent
        self.run = run
        self.stage = StageState.QUEUED
        self.pid = 0
        self.since = 0
        self.at = 0
        self.cause: Cause | None = None  # why it is being ended
        self.error = ""  # details of the cause
        self.kill_at: int | None = None
        self.adopted = False
        self.group = True  # its process group may have members; without any, its number may be reused
        self.seen = False  # ``code`` and ``usage`` come from the kernel
        self.code: int | None = None
        self.failure: StageFailure | None = None  # reported by its stage
        self.values: Values = ()  # that it hands on
        self.ends_at: int | None = None  # end of its time limit
        self.usage = Usage()
        self.pause = SWEEP_FIRST
        self.material = StartMaterial()  # until its process has it
        self.material_due: int | None = (
            None  # when it fails if its start material has not come; None: it waits for none
        )

    @property
    def staged(self) -> bool:
        """Flag: a stage runs in place of the program, and gets its signals until the program runs."""
        return self.run is not None and self.run.staged


class ProcessDriver(Protocol):
    """Actions that the task manager asks of its shell."""

    def write(self, records: list[Record]) -> None:
        """Make the records durable before returning; OSError: none of them is kept."""

    def note(self, record: Record) -> None:
        """Keep the record; it must outlive the supervisor once a report of it is sent."""

    def spawn(self, task: Task) -> int:
        """Start the program and return its pid; a call of ``running`` or ``failed`` follows. Raise StartError.

        It may return 0. Then it sets the task's pid itself, after ``work`` and before any other call.
        """

    def signal(self, task: Task, number: int) -> None:
        """Send a signal to all processes of the attempt."""

    def sweep(self, task: Task, *, kill: bool) -> bool:
        """Find the processes of the attempt that outlive its first one, and kill them.

        Return True if there are none.
        """

    def fit(self, node_devices: NodeDevices, devices: Sequence[Device]) -> None:
        """Use these devices of the node from now on, and remove unused folders from its disks."""

    def report(self, report: Report) -> None:
        """Send a report to the agent, if one is connected."""

    def want(self, attempts: Sequence[int]) -> None:
        """Ask the center for the start material of these attempts; a call of ``supply`` follows."""

    def say(self, sentence: str) -> None:
        """Write a message for the operator."""


class TaskManager:
    """The attempts of one executor; ``key`` is its name on its disks.

    ``now`` (a monotonic clock that goes on while the machine sleeps) and ``utc`` (wall clock) are set before every
    call, in µs. ``tasks`` are the attempts under way.
    """

    def __init__(self, known: Known, driver: ProcessDriver, key: str = "") -> None:
        self.known = known
        self.driver = driver
        self.key = key
        self.node_devices = NodeDevices(key)
        self.now = 0
        self.utc = 0
        self.tasks: dict[int, Task] = {}
        self.leaving = False
        self._queue: deque[Task] = deque()
        self._due: list[tuple[int, int, int]] = []  # time, tie-breaking count, attempt
        self._term_due: int | None = None  # time of the next check whether the end of the term stops tasks
        self._count = 0

    # --- recovery ----------------------------------------------------------------------------------------------------

    def resume(self, boot: str) -> list[int]:
        """Recover from the journal of an earlier supervisor.

        Return the attempts for which ``adopt`` or ``lost`` must be called.
        """
        open_ones = []
        for attempt, entry in list(self.known.running.items()):
            if entry.boot != boot:
                started = entry.start.at if entry.start else 0
                self._end(attempt, Cause.UNKNOWN, None, started, REBOOTED)
            else:
                open_ones.append(attempt)
        if self.known.boot != boot:
            self.driver.note(Boot(boot))
            if self.known.until:
                self.driver.note(Deadline(0, 0))  # the old one is on a clock that has been reset
        return open_ones

    def adopt(self, attempt: int, pid: int, ticks: int) -> Task:
        """Take over an attempt that still runs as this process, started by an earlier supervisor."""
        entry = self.known.running[attempt]
        task = Task(entry.intent, None)
        start = entry.start
        if start is None or start.pid != pid:
            start = Start(attempt, pid, ticks, self.now, self.utc)
            self.driver.note(start)
        task.pid, task.since, task.at, task.adopted = pid, start.since, start.at, True
        self.tasks[attempt] = task
        self._run(task)
        self._watch_term()
        return task

    def lost(
        self, attempt: int, code: int | None = None, usage: Usage | None = None, failure: StageFailure | None = None
    ) -> None:
        """Note that the first process of the attempt is gone; sweep the remaining ones.

        ``code``, ``usage`` and the ``failure`` of its stage are known if a reaper has seen the end.
        """
        entry = self.known.running[attempt]
        task = Task(entry.intent, None)
        task.adopted = True
        if entry.start is not None:
            task.pid, task.since, task.at = entry.start.pid, entry.start.since, entry.start.at
        task.code, task.usage, task.seen, task.failure = code, usage or Usage(), code is not None, failure
        self.tasks[attempt] = task
        self._sweep(task)

    # --- orders ----------------------------------------------------------------------------------------------------

    def inventory(self) -> tuple[Report, ...]:
        """Return the inventory: running attempts, and the ends that are not durable in the center."""
        running = [self._started(task) for task in self.tasks.values() if task.at]
        return (*running, *self.known.ends.values())

    def ports(self) -> dict[int, tuple[int, ...]]:
        """Return the ports of every attempt that has some and is not over."""
        return {task.attempt: task.context.ports for task in self.tasks.values() if task.context.ports}

    @property
    def bound(self) -> bool:
        """Flag: a term holds for all tasks that run here."""
        return self.known.until > 0 or not self.tasks

    def obey(self, order: ToSupervisor) -> None:
        """Carry out an order of the agent or the center."""
        if isinstance(order, Launches):
            self.launches(order)
        elif isinstance(order, Stops):
            self.stops(order)
        elif isinstance(order, Term):
            if self._accepts(order.epoch):
                self._keep_witness(order.witness)
                self.grant(order.sent, order.term)
        elif isinstance(order, Durable):
            if self._accepts(order.epoch):
                self.durable(order.attempts)
        elif isinstance(order, Material):
            self.supply(order)
        elif isinstance(order, TimeLimits):
            self.limits(order)
        elif isinstance(order, Signal):
            self.send(order)
        elif isinstance(order, Welcome):
            self._welcome(order)
        elif isinstance(order, Devices):
            self.node_devices = NodeDevices(self.key, order.devices)
            self.driver.fit(self.node_devices, order.devices)
        elif isinstance(order, Shutdown) and not order.keep:
            self.leave(order.grace)

    def welcome(self, epoch: int) -> None:
        """Note the epoch of the center for which the agent speaks."""
        self._accepts(epoch)

    def _welcome(self, order: Welcome) -> None:
        if not self._accepts(order.epoch):
            return
        self._keep_witness(order.witness)
        if order.cluster and order.cluster != self.known.cluster:
            self.driver.note(ClusterId(order.cluster))
        if order.term:
            self.grant(order.sent, order.term)
        elif self.known.until:
            self.driver.note(Deadline(0, 0))
            self._term_due = None
        # Requests to this center over an earlier connection, or to an earlier center, may be lost.
        waiting = [task.attempt for task in self.tasks.values() if task.material_due is not None]
        if waiting:
            self.driver.want(waiting)

    def grant(self, sent: int, term: int) -> None:
        """Grant a term: tasks without ``keep`` may run until ``term`` µs after ``sent``."""
        until = min(sent, self.now) + term
        if until > self.known.until:
            self.driver.note(Deadline(until, term))
            self._watch_term()

    def launches(self, order: Launches) -> None:
        """Start these attempts, unless they are known already."""
        if not self._accepts(order.epoch):
            return
        self._keep_witness(order.witness)
        runs = {run.job: run for run in order.runs}
        hosts = {gang.job: gang.hosts for gang in order.gangs}
        restarts = dict(order.restarts)
        fresh: list[Task] = []
        seen: set[int] = set()
        for launch in order.launches:
            attempt, job = launch.attempt, launch.job
            if attempt in seen or self._repeat(attempt):
                continue
            seen.add(attempt)
            run = runs.get(job)
            run = run.of_task(launch.task) if run is not None else None
            if run is None:
                self._end(attempt, Cause.NOT_STARTED, None, 0, f"the order does not say how to run job {job}")
            elif self.leaving:
                self._end(attempt, Cause.SHUTDOWN, None, 0, "the executor is being stopped")
            elif missing := self.node_devices.missing(launch.devices):
                # It was placed before the node came back without these devices, which its program needs.
                self._end(attempt, Cause.NODE, None, 0, _gone(missing))
            else:
                keep = run.on_partition is OnPartition.KEEP
                devices = self.node_devices.of(attempt, launch.devices)
                limits = (run.time_limit, run.stop_grace, keep)
                intent = Intent(launch, *limits, run.log_size, devices.folders)
                context = LaunchContext(
                    launch.ports, order.address, order.rack, hosts.get(job, ()), devices, restarts.get(attempt, 0)
                )
                fresh.append(Task(intent, run, context))
        if not fresh:
            return
        try:
            self.driver.write([task.intent for task in fresh])
        except OSError as error:
            why = f"the executor's journal cannot be written: {error.strerror}"
            if error.errno == errno.ENOSPC:
                why = "disk full: the executor's journal cannot be written"
            self.driver.say(f"{len(fresh)} attempts not started: {why}")
            for task in fresh:
                self._end(task.attempt, Cause.NODE, None, 0, why)
            return
        for task in fresh:
            self.tasks[task.attempt] = task
        wanting = [task for task in fresh if task.run is not None and task.run.needs_material]
        for task in wanting:
            task.material_due = self.now + MATERIAL_PATIENCE
            self._at(task.material_due, task)
        if wanting:
            self.driver.want([task.attempt for task in wanting])
        self._queue.extend(task for task in fresh if task.material_due is None)
        # The term may have ended while the order was under way: then its attempts are stopped.
        self._watch_term()

    def supply(self, order: Material) -> None:
        """Start an attempt that has waited for its start material, or end it if there is none."""
        task = self.tasks.get(order.attempt)
        if not self._accepts(order.epoch) or task is None or task.material_due is None:
            return
        task.material_due = None
        if order.refused:
            self._over(task, Cause.FILES, order.refused)
            return
        task.material = order.material
        self._queue.append(task)

    def stops(self, order: Stops) -> None:
        """Stop these attempts; unknown ones can never start afterwards."""
        if not self._accepts(order.epoch):
            return
        for stop in order.stops:
            task = self.tasks.get(stop.attempt)
            if task is not None:
                self._stop(task, Cause.STOPPED, stop.grace)
            elif stop.attempt in self.known.ends:
                self.driver.report(self.known.ends[stop.attempt])
            else:
                self._end(stop.attempt, Cause.STOPPED, None, 0)

    def limits(self, order: TimeLimits) -> None:
        """Give attempts under way other time limits."""
        for limit in order.limits if self._accepts(order.epoch) else ():
            task = self.tasks.get(limit.attempt)
            if task is None or task.intent.limit == limit.limit:
                continue
            # The time from which the limit counts: the start of the program, or of the fetching of its files.
            began = task.since or None
            if task.ends_at is not None and task.intent.limit is not None:
                began = task.ends_at - task.intent.limit
            task.intent = msgspec.structs.replace(task.intent, limit=limit.limit)
            self.driver.note(task.intent)
            task.ends_at = None
            if limit.limit is not None and began is not None:
                task.ends_at = began + limit.limit
                self._at(task.ends_at, task)

    def send(self, order: Signal) -> None:
        """Send a signal to an attempt."""
        task = self.tasks.get(order.attempt)
        if self._accepts(order.epoch) and task is not None and task.stage is StageState.RUNNING:
            self.driver.signal(task, order.number)

    def durable(self, attempts: tuple[int, ...]) -> None:
        """Note that the center has stored the ends of these attempts."""
        gone = tuple(attempt for attempt in attempts if attempt in self.known.ends)
        if gone:
            self.driver.note(Forget(gone))

    def leave(self, grace: int) -> None:
        """Stop all tasks, each with its own grace or this one, whichever is shorter, and start no more."""
        self.leaving = True
        for task in list(self.tasks.values()):
            self._stop(task, Cause.SHUTDOWN, min(task.intent.grace, grace))

    # --- events ------------------------------------------------------------------------------------------------------

    def work(self, most: int) -> int:
        """Spawn up to ``most`` waiting attempts; return how many still wait."""
        while self._queue and most > 0:
            task = self._queue.popleft()
            if self.tasks.get(task.attempt) is not task:
                continue
            most -= 1
            # An attempt that is not in the journal would run on unseen after a crash of the supervisor, and run twice.
            assert task.attempt in self.known.running, f"attempt {task.attempt} starts without a durable intent"
            try:
                task.pid = self.driver.spawn(task)
            except StartError as error:
                self._not_started(task, error)
                continue
            finally:
                task.material = StartMaterial()
            task.stage = StageState.SPAWNING
            if task.intent.limit is not None and task.staged:
                # The time limit includes fetching the files.
                task.ends_at = self.now + task.intent.limit
                self._at(task.ends_at, task)
        return len(self._queue)

    def running(self, attempt: int, ticks: int) -> None:
        """Note that the attempt's process has become its program."""
        task = self.tasks[attempt]
        task.since, task.at = self.now, self.utc
        self.driver.note(Start(attempt, task.pid, ticks, self.now, self.utc))
        self._run(task)

    def failed(self, attempt: int, why: StartError) -> None:
        """Note that the attempt's process ended before it became its program; processes of a stage may remain."""
        task = self.tasks[attempt]
        if why.files:
            task.failure = StageFailure(Cause.NODE if why.node else Cause.FILES, str(why))
            self._sweep(task)
        else:
            self._not_started(task, why)

    def _not_started(self, task: Task, why: StartError) -> None:
        if why.port:
            del self.tasks[task.attempt]
            self._end(task.attempt, Cause.PORT, None, 0, str(why), port=why.port)
            return
        self._over(task, Cause.NODE if why.node else Cause.NOT_STARTED, str(why))

    def exited(self, attempt: int, code: int | None, usage: Usage, failure: StageFailure | None = None) -> None:
        """Note the end of the first process; ``code`` is None if unknown, ``failure`` is the report of a stage."""
        task = self.tasks[attempt]
        task.code, task.usage, task.seen = code, usage, code is not None
        task.failure = task.failure or failure
        self._sweep(task)

    def tick(self) -> None:
        """Do all actions that are due."""
        if self._term_due is not None and self._term_due <= self.now:
            self._end_term()
        while self._due and self._due[0][0] <= self.now:
            _, _, attempt = heapq.heappop(self._due)
            task = self.tasks.get(attempt)
            if task is not None:
                self._look(task)

    @property
    def waiting(self) -> int:
        """The number of attempts that wait to be spawned."""
        return len(self._queue)

    @property
    def term_due(self) -> int | None:
        """The time at which tasks may have to stop because the term ends; it also passes while the machine sleeps."""
        return self._term_due

    def next_due(self) -> int | None:
        """The time of the next ``tick``."""
        dues = [due for due in (self._due[0][0] if self._due else None, self._term_due) if due is not None]
        return min(dues, default=None)

    # --- steps -------------------------------------------------------------------------------------------------------

    def _accepts(self, epoch: int) -> bool:
        if epoch < self.known.epoch:
            self.driver.say(f"an order of epoch {epoch} was refused: the center of epoch {self.known.epoch} leads")
            return False
        if epoch > self.known.epoch:
            try:
                # Durable, so that the older center is refused even after a crash of the machine.
                self.driver.write([Epoch(epoch)])
            except OSError:
                self.driver.note(Epoch(epoch))
        assert self.known.epoch == epoch, f"an order of epoch {epoch} is obeyed in epoch {self.known.epoch}"
        return True

    def _keep_witness(self, witness: bytes) -> None:
        if witness and witness != self.known.witness:
            self.driver.note(Epoch(self.known.epoch, witness))

    def _watch_term(self) -> None:
        """Set the check of the tasks to the time at which the first may have to stop because the term ends."""
        self._term_due = None
        if self.known.until and self.tasks:
            self._term_due = self.known.until - self.known.term // GRACE_OF_TERM

    def _end_term(self) -> None:
        """Stop, as late as possible, every task that would otherwise outlive the term."""
        until, most = self.known.until, self.known.term // GRACE_OF_TERM
        silent = f"the center was not heard from for {max(0, self.now - until + self.known.term) // SECOND} s"
        self._term_due = None
        for task in list(self.tasks.values()):
            if task.intent.keep or (task.stage is StageState.SWEEPING and task.kill_at is None):
                continue
            last = until - min(task.intent.grace, most)
            if last > self.now:
                self._term_due = last if self._term_due is None else min(last, self._term_due)
            elif task.kill_at is None or task.kill_at > until:
                task.error = task.error if task.cause else silent
                self._stop(task, Cause.TERM, until - self.now)

    def _repeat(self, attempt: int) -> bool:
        """Report the state of a known attempt again; return False if it is unknown."""
        task = self.tasks.get(attempt)
        if task is not None:
            if task.at:
                self.driver.report(self._started(task))
        elif attempt in self.known.ends:
            self.driver.report(self.known.ends[attempt])
        elif attempt in self.known.forgotten:
            self._end(attempt, Cause.UNKNOWN, None, 0, FORGOTTEN)
        else:
            return False
        return True

    def _run(self, task: Task) -> None:
        task.stage = StageState.RUNNING
        self.driver.report(self._started(task))
        if task.intent.limit is not None and task.ends_at is None:
            task.ends_at = task.since + task.intent.limit
            self._at(task.ends_at, task)
        if task.cause is not None and task.kill_at is not None and task.kill_at > self.now and not task.staged:
            # A stop came while the program was being started: only a stage could get the signal.
            self.driver.signal(task, SIGTERM)

    def _stop(self, task: Task, cause: Cause, grace: int) -> None:
        if task.stage is StageState.QUEUED:
            self._over(task, cause)
            return
        if task.stage is StageState.SWEEPING and task.kill_at is None:
            return  # it is being killed
        first = task.cause is None
        if first:
            task.cause = cause
        kill_at = self.now + max(0, grace)
        if task.kill_at is None or kill_at < task.kill_at:
            task.kill_at = kill_at
            self._at(kill_at, task)
        if task.stage is StageState.SWEEPING:
            return  # the next check does this
        if grace <= 0:
            self.driver.signal(task, SIGKILL)
        elif first and (task.stage is StageState.RUNNING or task.staged):
            self.driver.signal(task, SIGTERM)

    def _look(self, task: Task) -> None:
        """Do all actions that are due for this task."""
        if task.stage is StageState.SWEEPING:
            self._sweep(task)
            return
        if task.material_due is not None:
            if task.material_due <= self.now:
                self._over(task, Cause.NODE, NO_MATERIAL)
            return
        if task.kill_at is not None:
            if task.kill_at <= self.now:
                self.driver.signal(task, SIGKILL)
        elif task.ends_at is not None and task.ends_at <= self.now:
            self._stop(task, Cause.TIME_LIMIT, task.intent.grace)

    def _sweep(self, task: Task) -> None:
        task.stage = StageState.SWEEPING
        # A shell may end at once on a stop, while its children still use their grace.
        if not self.driver.sweep(task, kill=task.kill_at is None or task.kill_at <= self.now):
            self._at(self.now + task.pause, task)
            task.pause = min(2 * task.pause, SWEEP_MOST)
        elif task.failure is not None and task.cause is None:
            task.code = 0 if task.failure.cause is Cause.OUTPUTS and task.seen else None
            self._over(task, task.failure.cause, task.failure.error)
        elif task.seen:
            self._over(task, task.cause or Cause.EXITED)
        else:
            self._over(task, task.cause or Cause.UNKNOWN, UNSEEN)

    def _over(self, task: Task, cause: Cause, error: str = "") -> None:
        del self.tasks[task.attempt]
        values = task.values if cause is Cause.EXITED else ()
        self._end(task.attempt, cause, task.code, self._began(task), error or task.error, task.usage, values=values)

    def _started(self, task: Task) -> Started:
        return Started(attempt=task.attempt, at=self._began(task), pid=task.pid)

    def _began(self, task: Task) -> int:
        """Return the start time by the present wall clock: setting that clock does not change elapsed time."""
        began = self.utc - (self.now - task.since)
        if task.at and abs(began - task.at) > SECOND:
            task.at = began
        return task.at

    def _end(
        self,
        attempt: int,
        cause: Cause,
        code: int | None,
        started: int,
        error: str = "",
        usage: Usage | None = None,
        *,
        port: int = 0,
        values: Values = (),
    ) -> None:
        assert attempt not in self.tasks, f"attempt {attempt} is reported as ended while it is under way"
        report = Ended(
            attempt=attempt,
            cause=cause,
            code=code,
            started=started,
            at=self.utc,
            error=error,
            usage=usage or Usage(),
            port=port,
            values=values or msgspec.UNSET,
        )
        self.driver.note(End(report))
        self.driver.report(report)

    def _at(self, time: int, task: Task) -> None:
        self._count += 1
        heapq.heappush(self._due, (time, self._count, task.attempt))


def _gone(devices: Sequence[Allocated]) -> str:
    """Return the message about allocated devices that the node does not have."""
    names = ", ".join(f"{device.kind} {device.id}" for device in devices)
    return (
        f"task failed to start: device {names} no longer exists"
        if len(devices) == 1
        else (f"task failed to start: devices {names} no longer exist")
    )
