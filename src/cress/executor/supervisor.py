"""The supervisor: parent of the tasks of one executor. ``python -m cress.executor.supervisor DIR --name NODE``.

A single thread turns in one loop: signals of ended children, orders of the agent, spawns that are waiting, times
that are due; at the end of each turn what happened is written to the journal and told to the agent in one message.
Children are waited for with wait4 at SIGCHLD: that costs no descriptor per task, gives the usage, and reaps the
orphans that come to a subreaper. Adopted processes are nobody's children here: they are waited for by pidfd.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import resource
import selectors
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import msgspec

from cress.executor import bounds, ports, processes, stage_failure, state
from cress.executor.alarm import Alarm
from cress.executor.bounds import Bounds
from cress.executor.folder import Folder, FolderInUseError, socket_path
from cress.executor.frames import FrameError, Frames, frame
from cress.executor.journal import Journal, JournalError
from cress.executor.logcopy import Copies
from cress.executor.runtimes import choose, linux
from cress.executor.runtimes.accounts import account_of
from cress.executor.runtimes.base import Runtime, Spawn, announced
from cress.executor.runtimes.container import ContainerRuntime
from cress.executor.runtimes.engines import ENGINES, Engine
from cress.executor.runtimes.process import ProcessRuntime
from cress.executor.runtimes.staged import StagedRuntime
from cress.executor.scratch import Scratch
from cress.executor.settings import LOG_SIZE
from cress.model.job import DEFAULT_STOP_GRACE
from cress.model.node import Device
from cress.model.reports import Cause, Ended, Report, Usage
from cress.model.run import Run
from cress.protocol.messages import (
    Inventory,
    Reports,
    decode_to_supervisor,
    encode,
)
from cress.shell.executor.node_devices import NodeDevices, key_of
from cress.shell.executor.records import Record
from cress.shell.executor.starting import StageFailure, StartError
from cress.shell.executor.task_manager import SIGKILL, Stage, Task, TaskManager

# Spawns in one turn: more make the messages larger, fewer leave less time between two looks at the socket.
SPAWNS_PER_TURN = 32
# An agent that does not read for so long is no agent (bytes that wait for it).
MOST_WAITING = 64 * 1024 * 1024
# How long the supervisor waits at its end for the center to confirm what it was told (microseconds).
LAST_WORDS = 1_000_000
# How often a full disk is tried again.
RETRY = 500_000
# The selector's clock stands still while the machine sleeps, ours does not: look at it now and then.
LONGEST_SLEEP = 10.0
# How long processes may take to die that nobody knows, in seconds.
STRAYS = 5.0

# Seconds between two looks at what is left of a container that is to go.
CLEARING = 0.01

# Exit code when no later start can do better.
HOPELESS = 3


class Supervisor:
    """The loop, and the hands of the task manager."""

    def __init__(
        self,
        folder: Folder,
        name: str,
        runtime: str = "process",
        writable: tuple[str, ...] = (),
        engines: Sequence[Engine] = ENGINES,
        log_size: int = LOG_SIZE,
        egress: str = "",
    ) -> None:
        self.folder = folder
        self.boot = processes.boot_id()
        self.selector = selectors.EpollSelector()
        self.wake, self._woken = socket.socketpair()
        self.wake.setblocking(False)
        self._woken.setblocking(False)
        self.ended_children = False
        self.asked_to_leave = False
        self._handle_signals()
        self.runtime = ProcessRuntime(name, os.environ)
        self.staged = StagedRuntime(name, os.environ)
        found = choose.find(name, os.environ, folder.path, writable=writable, engines=engines, egress=egress)
        self.container, self.no_container = found.container, found.why
        engine = "" if found.container is None else found.container.engine.name
        self.staged_inside = StagedRuntime(name, os.environ, engine, str(folder.path), writable)
        self.default = choose.default(runtime, found)
        self.unlimited = choose.unlimited(self.default, found)
        self.clearing: set[int] = set()  # attempts that did not start, and something of whose containers is left
        self.journal = Journal(folder.journal)
        self.manager = TaskManager(self.journal.known, self, key_of(name, str(folder.path)))
        self.attempts = os.fsencode(folder.attempts)
        self.log_size = log_size
        self.scratch = Scratch(self.say)
        self.copies = Copies(folder.path, name, self.say)
        self.bounds = Bounds(self.attempts, self.say)
        if not bounds.able(folder.attempts):
            self.unlimited += (
                "logs are not bounded: the file system of the executor's directory makes no holes in files",
            )
        self.by_pid: dict[int, Task] = {}  # first processes that are our children
        self.spawning: dict[int, tuple[int, Task, bytearray]] = {}  # by pid: who tells how it worked, what it has told
        self.orphans: dict[int, int] = {}  # pid → attempt, of children that came to us when their parent ended
        self.orphans_fresh = False
        self.reports: list[Report] = []
        self.agent: socket.socket | None = None
        self.frames = Frames()
        self.waiting = bytearray()  # what the agent has not taken yet
        self.last_words: int | None = None
        self.told_that_it_leaves = False
        self.retry_at: int | None = None
        self.stopped = False
        self.listener = self._listen()
        self.alarm = Alarm()
        if self.alarm.fd >= 0:
            self.selector.register(self.alarm.fd, selectors.EVENT_READ, self.alarm.rang)
        self.selector.register(self._woken, selectors.EVENT_READ, self._on_wake)
        self.selector.register(self.listener, selectors.EVENT_READ, self._on_connect)

    # --- the loop --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until told to end."""
        self._clock()
        self._resume()
        self.copies.left(set(self.manager.tasks))
        self._finish_turn()
        while not self.stopped:
            for key, _ in self.selector.select(self._pause()):
                self._clock()
                key.data()
            self._clock()
            if self.asked_to_leave:
                self.asked_to_leave = False
                self.manager.leave(DEFAULT_STOP_GRACE)
            if self.ended_children:
                self._reap()
            self.orphans_fresh = False
            self.manager.tick()
            self.manager.work(SPAWNS_PER_TURN)
            self._settle_spawns()
            self._clear()
            self.bounds.look(self.manager.now)
            self._finish_turn()
        self._close()

    def _clock(self) -> None:
        self.manager.now = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
        self.manager.utc = time.time_ns() // 1000

    def _pause(self) -> float:
        """How long the selector may wait, in seconds."""
        self.alarm.set(self.manager.term_due)
        if self.manager.waiting or self.ended_children or self.asked_to_leave:
            return 0.0
        if self.clearing:
            return CLEARING
        dues = [
            due for due in (self.manager.next_due(), self.bounds.due, self.last_words, self.retry_at) if due is not None
        ]
        if not dues:
            # Nothing is due; only the agent or a signal can bring something.
            return LONGEST_SLEEP
        return min(max(0.0, (min(dues) - self.manager.now) / 1e6), LONGEST_SLEEP)

    def _finish_turn(self) -> None:
        """Write down what happened, then tell it."""
        self.scratch.remove()
        complete = self.journal.flush()
        if not complete and self.retry_at is None:
            self.say(f"{self.journal.path} cannot be written: {self.journal.full}; it is tried again")
        self.retry_at = None if complete else self.manager.now + RETRY
        leaves = self.manager.leaving and not self.told_that_it_leaves
        if self.reports or leaves:
            if self.agent is not None:
                self._send(encode(Reports(reports=tuple(self.reports), leaving=self.manager.leaving)))
            self.reports = []
            self.told_that_it_leaves = self.manager.leaving
        if self.manager.leaving and not self.manager.tasks:
            if self.last_words is None:
                self.last_words = self.manager.now + LAST_WORDS
            if not self.journal.known.ends or self.agent is None or self.manager.now >= self.last_words:
                self.stopped = True

    def _close(self) -> None:
        children = processes.children(os.getpid())
        for pid in children - self.scratch.busy(children):
            # Orphans of attempts that have hidden whose they are.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, SIGKILL)
        if self.container is not None:
            self.container.cgroups.close()
        self.scratch.close()
        self.listener.close()
        self.folder.socket.unlink(missing_ok=True)
        self.journal.compact()
        self.journal.close()
        self.selector.close()
        self.alarm.close()
        self.say("the supervisor ends")
        if self.agent is not None:
            # The kernel hangs up when the process is gone, and not before: that is how the agent knows.
            self.agent.detach()

    # --- signals and children --------------------------------------------------------------------------------------

    def _handle_signals(self) -> None:
        def child(_number: int, _frame: FrameType | None) -> None:
            self.ended_children = True

        def leave(_number: int, _frame: FrameType | None) -> None:
            self.asked_to_leave = True

        signal.signal(signal.SIGCHLD, child)
        signal.signal(signal.SIGTERM, leave)
        signal.signal(signal.SIGINT, leave)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.set_wakeup_fd(self.wake.fileno(), warn_on_full_buffer=False)

    def _on_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)

    def _reap(self) -> None:
        """Take in every child that has ended."""
        self.ended_children = False
        ended: list[tuple[int, int, resource.struct_rusage]] = []
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            ended.append((pid, status, usage))
        self.orphans_fresh = False
        # First who has become which program: it may be among those that ended.
        while fresh := [pid for pid, _, _ in ended if pid in self.spawning]:
            for pid in fresh:
                self._settle(pid, over=True)
        for pid, status, usage in ended:
            self.orphans.pop(pid, None)
            task = self.by_pid.pop(pid, None)
            if self.copies.ended(pid, status) or self.scratch.ended(pid) or task is None or task.pid != pid:
                continue
            if task.attempt in self.manager.tasks:
                used = Usage(round((usage.ru_utime + usage.ru_stime) * 1e6), usage.ru_maxrss * 1024)
                self.manager.exited(task.attempt, os.waitstatus_to_exitcode(status), used, self._stage_failure(task))

    def _find_orphans(self) -> None:
        """See which children came to us because their parents ended, and whose they are; once for many ends."""
        if self.orphans_fresh:
            return
        self.orphans_fresh = True
        strange = processes.children(os.getpid()).difference(self.by_pid, self.orphans)
        for pid in strange:
            attempt = processes.attempt_of(pid, self.attempts)
            if attempt is not None:
                self.orphans[pid] = attempt

    def _resume(self) -> None:
        """Take up what an earlier supervisor left: running processes are found again, the rest is lost."""
        attempts = self.manager.resume(self.boot)
        self._kill_strays(set(attempts))
        if self.container is not None:
            for attempt in self.container.left().difference(attempts):
                self.say(f"what was left of the container of attempt {attempt} is removed")
                self.container.remove(attempt)
        for attempt in attempts:
            self.scratch.keep(attempt, self.journal.known.running[attempt].intent.folders)
        if not attempts:
            return
        first = {0 if self.container is None else self.container.first(attempt) for attempt in attempts}
        found = processes.find_attempts(self.attempts)
        leaders = {attempt: pid for attempt, pid in found if pid not in first and processes.is_leader(pid)}
        for attempt in attempts:
            start = self.journal.known.running[attempt].start
            pid, ticks = (start.pid, start.ticks) if start is not None else (leaders.get(attempt, 0), None)
            there = processes.start_ticks(pid) if pid and processes.is_alive(pid) else None
            if there is None or (ticks is not None and there != ticks) or not self._watch(attempt, pid):
                self.manager.lost(attempt)
            else:
                task = self.manager.adopt(attempt, pid, there)
                self.bounds.began(attempt, task.log_size or self.log_size, self.manager.now)
        self.say(f"{len(self.manager.tasks)} attempts of an earlier supervisor taken up")

    def _kill_strays(self, known: set[int]) -> None:
        """End what runs although the journal does not know it (it was moved away, say): it will run again elsewhere."""
        told: set[int] = set()
        end = time.monotonic() + STRAYS
        while strays := [each for each in processes.find_attempts(self.attempts) if each[0] not in known]:
            fresh = {attempt for attempt, _ in strays} - told
            if fresh:
                told |= fresh
                self.say(f"{len(fresh)} attempts run that the journal does not know; they are killed")
            for _, pid in strays:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, SIGKILL)
            if time.monotonic() > end:
                self.say(f"{len(strays)} processes cannot be killed")
                return
            time.sleep(0.005)

    def _watch(self, attempt: int, pid: int) -> bool:
        """Wait for a process that is no child of ours."""
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            return False

        def over() -> None:
            self.selector.unregister(fd)
            os.close(fd)
            self.manager.exited(attempt, None, Usage(), self._stage_failure(self.manager.tasks[attempt]))

        self.selector.register(fd, selectors.EVENT_READ, over)
        return True

    # --- the hands of the task manager -----------------------------------------------------------------------------------

    def write(self, records: list[Record]) -> None:
        """See ``Hands``."""
        self.journal.write(records)

    def note(self, record: Record) -> None:
        """See ``Hands``."""
        self.journal.note(record)

    def spawn(self, task: Task) -> int:
        """See ``Hands``."""
        assert task.run is not None
        port = ports.taken(task.context.ports)
        if port:
            raise StartError(f"port {port} is in use on this node", port=port)
        folder = self.attempts + b"/%d" % task.attempt
        if task.context.devices.allocated:
            account = account_of(task.run)
            self.scratch.make(task.attempt, task.context.devices, (account.uid, account.gid) if account else None)
        data = state.make(self.folder.path, task.run, task.task)
        what = Spawn(task.attempt, task.task, task.run, folder, task.context, data)
        if task.run.log_copy:
            self.copies.order(what)
        pid, fd = self._runtime(task.run).spawn(what)
        self.bounds.began(task.attempt, task.log_size or self.log_size, self.manager.now)
        self.by_pid[pid] = task
        self.spawning[pid] = (fd, task, bytearray())
        return pid

    def _runtime(self, run: Run) -> Runtime:
        """Who starts a program, or the stage for it. StartError: nobody here does it as its job asks."""
        contained = (run.runtime or self.default) == choose.CONTAINER
        if contained and self.container is None:
            raise StartError(f"this node cannot run containers: {self.no_container}", node=not run.runtime)
        if run.root and not contained:
            raise StartError("a root folder of the job's own needs runtime: container")
        if run.staged:
            return self.staged_inside if contained else self.staged
        return self.container if contained and self.container is not None else self.runtime

    def _stage_failure(self, task: Task) -> StageFailure | None:
        """What the stage of an attempt left that says more than its end; of an adopted one nobody knows if it had a stage."""
        if task.staged or task.adopted:
            return stage_failure.read(self.attempts + b"/%d" % task.attempt)
        return None

    def signal(self, task: Task, number: int) -> None:
        """See ``Hands``."""
        inside = self._inside(task.attempt)
        if inside is not None:
            inside.signal(task.attempt, task.pid, number)
            if task.pid in inside.cgroups.pids(task.attempt):
                return
            # Whoever makes the container, or works for the program outside of it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(task.pid, number)
            return
        if not self.runtime.signal(task.attempt, task.pid, number) and task.stage is Stage.SPAWNING:
            # It has no group of its own yet.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(task.pid, number)

    def sweep(self, task: Task, *, kill: bool) -> bool:
        """See ``Hands``."""
        number = SIGKILL if kill else 0
        gone = True
        if task.pid and task.group and (not task.adopted or not self._pid_taken(task)):
            task.group = self.runtime.signal(task.attempt, task.pid, number)
            gone = not task.group
        inside = self._inside(task.attempt)
        if inside is not None:
            inside.signal(task.attempt, task.pid, number)
        if task.adopted:
            left = {pid for attempt, pid in processes.find_attempts(self.attempts) if attempt == task.attempt}
        else:
            # What was killed may have had children that are ours now.
            self._find_orphans()
            left = {pid for pid, attempt in self.orphans.items() if attempt == task.attempt}
        if inside is not None:
            left.discard(inside.first(task.attempt))  # that one goes last
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
                gone = False
        if gone and inside is not None:
            gone = self._clear_after(inside, task)
        if gone and task.run is not None and not task.run.directory:
            with contextlib.suppress(OSError):
                os.rmdir(self.attempts + b"/%d/work" % task.attempt)  # noqa: PTH106 - only if nothing was left in it
        return gone

    def _inside(self, attempt: int) -> ContainerRuntime | None:
        """The runtime of an attempt that has a container."""
        return self.container if self.container is not None and self.container.knows(attempt) else None

    def _clear_after(self, inside: ContainerRuntime, task: Task) -> bool:
        """Take away the container of a program that is gone, and note what its groups have counted."""
        rest = inside.clear(task.attempt)
        if rest is None:
            return False
        if rest.usage is not None:
            task.usage = rest.usage
        if rest.killed and task.cause is None and task.code != 0:
            task.cause, task.error = Cause.MEMORY, rest.killed
        return True

    def _clear(self) -> None:
        """Take away what is left of the containers of programs that did not start."""
        for attempt in list(self.clearing):
            inside = self._inside(attempt)
            if inside is not None:
                inside.signal(attempt, 0, SIGKILL)
            if inside is None or inside.clear(attempt) is not None:
                self.clearing.discard(attempt)

    def report(self, report: Report) -> None:
        """See ``Hands``."""
        self.reports.append(report)
        if isinstance(report, Ended):
            self.bounds.over(report.attempt, self.manager.now)
            self.copies.over(report.attempt)
            self.scratch.over(report.attempt)

    def fit(self, node_devices: NodeDevices, devices: Sequence[Device]) -> None:
        """See ``Hands``."""
        self.scratch.fit(node_devices, devices)

    def say(self, sentence: str) -> None:
        """See ``Hands``."""
        print(time.strftime("%Y-%m-%d %H:%M:%S"), sentence, file=sys.stderr, flush=True)  # noqa: T201

    def _pid_taken(self, task: Task) -> bool:
        """Whether the pid of a process that was lost belongs to another one by now."""
        start = self.journal.known.running[task.attempt].start
        ticks = processes.start_ticks(task.pid)
        return ticks is not None and (start is None or ticks != start.ticks)

    def _settle_spawns(self) -> None:
        """See which of the new processes have become programs; those still at it are looked at again."""
        for pid in list(self.spawning):
            self._settle(pid)

    def _settle(self, pid: int, *, over: bool = False) -> None:
        if pid not in self.spawning:
            return  # settled by now, earlier in the same turn
        fd, task, told = self.spawning[pid]
        try:
            while data := os.read(fd, 4096):
                told += data
        except BlockingIOError:
            program, _ = announced(bytes(told))
            if program and program != pid:
                # The first process has made the one that becomes the program, and leaves.
                del self.spawning[pid], self.by_pid[pid]
                self.spawning[program], self.by_pid[program] = (fd, task, told), task
                task.pid = pid = program
                with contextlib.suppress(KeyError):
                    self.selector.unregister(fd)
                over = False
            if not over:
                self._settle_later(pid, fd)
                return
        with contextlib.suppress(KeyError):
            self.selector.unregister(fd)
        os.close(fd)
        del self.spawning[pid]
        assert task.run is not None
        program, rest = announced(bytes(told))
        if program and program != pid:
            self.by_pid.pop(pid, None)
            self.by_pid[program] = task
            task.pid = pid = program
        problem = self._runtime(task.run).problem(task.run, rest)
        if problem is not None:
            self.manager.failed(task.attempt, problem)
            if self._inside(task.attempt) is not None:
                self.clearing.add(task.attempt)
        else:
            self.manager.running(task.attempt, processes.start_ticks(pid) or 0)

    def _settle_later(self, pid: int, fd: int) -> None:
        if fd not in self.selector.get_map():
            self.selector.register(fd, selectors.EVENT_READ, lambda: self._settle(pid))

    # --- the agent -------------------------------------------------------------------------------------------------

    def _listen(self) -> socket.socket:
        self.folder.socket.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with socket_path(self.folder.socket) as path:
            listener.bind(path)
        self.folder.socket.chmod(0o600)
        listener.listen(8)
        listener.setblocking(False)
        return listener

    def _on_connect(self) -> None:
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return
        self._drop_agent()
        connection.setblocking(False)
        self.agent = connection
        self.frames = Frames()
        self.selector.register(connection, selectors.EVENT_READ, self._on_agent)
        # The inventory has it all; what happened before in this turn would come twice.
        self.reports = []
        pid = os.getpid()
        self._send(
            encode(
                Inventory(
                    boot=self.boot,
                    pid=pid,
                    ticks=processes.start_ticks(pid) or 0,
                    attempts=os.fsdecode(self.attempts),
                    reports=self.manager.inventory(),
                    bound=self.manager.bound,
                    epoch=self.journal.known.epoch,
                    cluster=self.journal.known.cluster,
                    ports=self.manager.ports(),
                    container="" if self.container is None else self.container.engine.name,
                    unlimited=self.unlimited,
                )
            )
        )

    def _drop_agent(self) -> None:
        if self.agent is not None:
            self.selector.unregister(self.agent)
            self.agent.close()
            self.agent = None
            self.waiting.clear()

    def _on_agent(self) -> None:
        agent = self.agent
        if agent is None:
            return
        self._flush_agent()
        try:
            data = agent.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop_agent()
            return
        # What has ended by now ended by itself, not by an order that is still to be read.
        if self.by_pid:
            self._reap()
        try:
            for message in self.frames.feed(data):
                self.manager.obey(decode_to_supervisor(message))
        except (FrameError, msgspec.DecodeError) as error:
            self.say(f"the agent sent what is not a message, and was cut off: {error}")
            self._drop_agent()

    def _send(self, message: bytes) -> None:
        self.waiting += frame(message)
        self._flush_agent()

    def _flush_agent(self) -> None:
        if self.agent is None or not self.waiting:
            return
        try:
            sent = self.agent.send(self.waiting)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop_agent()
            return
        del self.waiting[:sent]
        if len(self.waiting) > MOST_WAITING:
            self.say("the agent takes nothing any more, and was cut off")
            self._drop_agent()
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.waiting else 0)
        if self.selector.get_key(self.agent).events != events:
            self.selector.modify(self.agent, events, self._on_agent)


def _settle_in() -> None:
    """Make this process what tasks are to inherit, and what cannot be reached from a terminal."""
    with contextlib.suppress(PermissionError):
        os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    linux.be_subreaper()


def main(arguments: list[str] | None = None) -> int:
    """Run a supervisor; the exit code."""
    parser = argparse.ArgumentParser(prog="cress-supervisor", description="Parent of the tasks of one executor.")
    parser.add_argument("directory", type=Path, help="the executor's directory")
    parser.add_argument("--name", required=True, help="the node's name, for CRESS_NODE")
    parser.add_argument("--runtime", default="process", choices=choose.RUNTIMES, help="for jobs that do not say")
    parser.add_argument("--writable", action="append", default=[], help="a folder that containers may write to")
    parser.add_argument("--egress", default="", help="the interface on which what containers send is limited")
    parser.add_argument("--engine", action="append", help="what may make containers; all that are known")
    parser.add_argument(
        "--log-size", type=int, default=LOG_SIZE, help="bytes that are kept of a log, if its job does not say"
    )
    options = parser.parse_args(arguments)
    engines = [each for each in ENGINES if options.engine is None or each.name in options.engine]
    _settle_in()
    try:
        with Folder(options.directory) as folder:
            supervisor = Supervisor(
                folder,
                options.name,
                options.runtime,
                tuple(options.writable),
                engines,
                options.log_size,
                options.egress,
            )
            # Only now: the runtime remembers the limit that its children get back.
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            if soft != hard:
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            # A child that collects garbage before it executes would copy all of our memory.
            gc.collect()
            gc.freeze()
            supervisor.run()
    except (JournalError, FolderInUseError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return HOPELESS
    except OSError as error:
        print(f"{options.directory}: {error.strerror or error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
