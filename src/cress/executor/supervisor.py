"""The supervisor: parent of the tasks of one executor. ``python -m cress.executor.supervisor DIR --name NODE``.

A single thread runs one loop: signals of ended children, orders of the agent, spawns in progress, timers. At the end of
each turn the reports are written to the journal and sent to the agent in one message.
``cress.shell.executor.supervisor`` makes the decisions, ``task_processes`` has the processes; this module has signals,
socket and clock.
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

from cress.executor import processes
from cress.executor.agent_socket import AgentSocket
from cress.executor.alarm import Alarm
from cress.executor.folder import FolderInUseError, SupervisorFolder, clear_way, named
from cress.executor.journal import JournalError, JournalFile
from cress.executor.runtimes import choose, linux
from cress.executor.runtimes.engines import ENGINES, Engine
from cress.executor.settings import LOG_SIZE
from cress.executor.task_processes import TaskProcesses
from cress.executor.unvouched import stop_unvouched
from cress.model.allowed_sources import ANY, SCHEMES, AllowedSources
from cress.model.job import DEFAULT_STOP_GRACE
from cress.model.node import Device
from cress.model.reports import Report
from cress.protocol.messages import Inventory, Strangers
from cress.shell.executor.node_devices import NodeDevices, key_of
from cress.shell.executor.supervisor import SupervisorLoop
from cress.shell.executor.task_manager import Task

# Seconds: the selector's clock stands still while the machine sleeps, that of the loop does not.
LONGEST_SLEEP = 10.0
# Seconds between two attempts to remove the remains of a container.
CLEARING = 0.01

# Exit code for errors that would recur after a restart.
HOPELESS = 3


class SupervisorProgram:
    """The driver of a supervisor: its signals, its clock, its selector."""

    def __init__(
        self,
        folder: SupervisorFolder,
        name: str,
        runtime: str = "process",
        writable: tuple[str, ...] = (),
        engines: Sequence[Engine] = ENGINES,
        log_size: int = LOG_SIZE,
        egress: str = "",
        hide: Sequence[str] = (),
        sources: AllowedSources = AllowedSources(),  # noqa: B008 - frozen
    ) -> None:
        self.boot = processes.boot_id()
        self.selector = selectors.EpollSelector()
        self.wake, self._woken = socket.socketpair()
        self.wake.setblocking(False)
        self._woken.setblocking(False)
        self.ended_children = False
        self.asked_to_leave = False
        self._handle_signals()
        self.processes = TaskProcesses(
            folder,
            self.selector,
            self.say,
            name=name,
            runtime=runtime,
            writable=writable,
            engines=engines,
            log_size=log_size,
            egress=egress,
            hide=hide,
            sources=sources,
        )
        self.journal = JournalFile(folder.journal)
        if self.journal.damage:
            kept = len(self.journal.known.running)
            self.say(f"{self.journal.damage}; its undamaged records describe {kept} attempts, all others are stopped")
        self.loop = SupervisorLoop(self.journal, self, key_of(name, str(folder.path)))
        self.processes.manager = self.loop.manager
        self.agent = AgentSocket(
            folder.socket,
            self.selector,
            connected=self._on_connect,
            received=self.loop.receive,
            gone=self.loop.disconnected,
            say=self.say,
        )
        self.alarm = Alarm()
        if self.alarm.fd >= 0:
            self.selector.register(self.alarm.fd, selectors.EVENT_READ, self.alarm.rang)
        self.selector.register(self._woken, selectors.EVENT_READ, self._on_wake)

    # --- the loop --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until told to end."""
        self._clock()
        self.processes.resume(self.boot)
        self.processes.copies.left(set(self.loop.manager.tasks))
        self.processes.settle()
        self.loop.finish_turn()
        while not self.loop.over:
            for key, _ in self.selector.select(self._pause()):
                self._clock()
                key.data()
            self._clock()
            if self.asked_to_leave:
                self.asked_to_leave = False
                self.loop.manager.leave(DEFAULT_STOP_GRACE)
            self.loop.turn()
        self._close()

    def _clock(self) -> None:
        self.loop.clock(time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000, time.time_ns() // 1000)

    def _pause(self) -> float:
        """Return the longest time that the selector may wait, in seconds."""
        self.alarm.set(self.loop.manager.term_due)
        if self.loop.busy or self.ended_children or self.asked_to_leave:
            return 0.0
        if self.processes.clearing or self.processes.awaited:
            return CLEARING
        dues = [due for due in (self.loop.next_due(), self.processes.log_limits.due) if due is not None]
        if not dues:
            # Nothing is due, so only the agent or a signal wakes it.
            return LONGEST_SLEEP
        return min(max(0.0, (min(dues) - self.loop.manager.now) / 1e6), LONGEST_SLEEP)

    def _close(self) -> None:
        self.processes.close()
        self.agent.close()
        self.journal.compact()
        self.journal.close()
        self.selector.close()
        self.alarm.close()
        self.say("the supervisor ends")
        self.agent.detach()

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

    def _on_connect(self) -> None:
        pid, container = os.getpid(), self.processes.container
        self.loop.connect(
            Inventory(
                boot=self.boot,
                pid=pid,
                ticks=processes.start_ticks(pid) or 0,
                attempts=os.fsdecode(self.processes.attempts),
                container="" if container is None else container.engine.name,
                unlimited=self.processes.unlimited,
            )
        )

    # --- the driver of the loop ---------------------------------------------------------------------------------------

    def spawn(self, task: Task) -> int:
        """See ``Driver``."""
        return self.processes.spawn(task)

    def signal(self, task: Task, number: int) -> None:
        """See ``Driver``."""
        self.processes.signal(task, number)

    def sweep(self, task: Task, *, kill: bool) -> bool:
        """See ``Driver``."""
        return self.processes.sweep(task, kill=kill)

    def fit(self, node_devices: NodeDevices, devices: Sequence[Device]) -> None:
        """See ``Driver``."""
        self.processes.fit(node_devices, devices)

    def reap(self) -> None:
        """See ``Driver``."""
        signalled, self.ended_children = self.ended_children, False
        self.processes.reap(signalled=signalled)

    def settle(self) -> None:
        """See ``Driver``."""
        self.processes.settle()

    def ended(self, report: Report) -> None:
        """See ``Driver``."""
        self.processes.ended(report)

    def strangers(self) -> Strangers:
        """See ``Driver``."""
        return self.processes.orphans.strangers()

    def send(self, message: bytes) -> None:
        """See ``Driver``."""
        self.agent.send(message)

    def hang_up(self) -> None:
        """See ``Driver``."""
        self.agent.hang_up()

    def say(self, sentence: str) -> None:
        """Write a message for the operator."""
        print(time.strftime("%Y-%m-%d %H:%M:%S"), sentence, file=sys.stderr, flush=True)  # noqa: T201


def _settle_in() -> None:
    """Detach from the terminal, and set up what tasks inherit: descriptors, umask, limits."""
    with contextlib.suppress(PermissionError):
        os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    linux.be_subreaper()


def main(arguments: list[str] | None = None) -> int:
    """Run a supervisor. Return the exit code."""
    parser = argparse.ArgumentParser(prog="cress-supervisor", description="Parent of the tasks of one executor.")
    parser.add_argument("directory", type=Path, help="the executor's directory")
    parser.add_argument("--name", required=True, help="the node's name, for CRESS_NODE")
    parser.add_argument("--runtime", default="process", choices=choose.RUNTIMES, help="runtime of jobs that name none")
    parser.add_argument("--writable", action="append", default=[], help="a folder that containers may write to")
    parser.add_argument("--egress", default="", help="the interface on which traffic of containers is limited")
    parser.add_argument("--hide", action="append", default=[], help="a folder that containers do not see")
    parser.add_argument("--allow-scheme", action="append", help="a scheme of addresses that jobs may use")
    parser.add_argument("--allow-host", action="append", help="a host that jobs may use in addresses")
    parser.add_argument("--center-host", default="", help="the center's host, which they may not use")
    parser.add_argument("--engine", action="append", help="a container engine that may be used; all by default")
    parser.add_argument("--log-size", type=int, default=LOG_SIZE, help="bytes kept of a log if its job sets no limit")
    options = parser.parse_args(arguments)
    engines = [engine for engine in ENGINES if options.engine is None or engine.name in options.engine]
    _settle_in()
    try:
        for sentence in clear_way(options.directory.absolute()):
            print(sentence, file=sys.stderr)  # noqa: T201
        with SupervisorFolder(options.directory) as folder:
            supervisor = SupervisorProgram(
                folder,
                options.name,
                options.runtime,
                tuple(options.writable),
                engines,
                options.log_size,
                options.egress,
                options.hide,
                AllowedSources(
                    tuple(options.allow_scheme or SCHEMES), tuple(options.allow_host or (ANY,)), options.center_host
                ),
            )
            # After the runtime is made, since it restores the earlier limit in its children.
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            if soft != hard:
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            # Garbage collection in a child before it executes would copy all memory of the supervisor.
            gc.collect()
            gc.freeze()
            supervisor.run()
    except (JournalError, FolderInUseError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return HOPELESS
    except OSError as error:
        # The agent starts another one later. Until then nothing else ends the tasks whose term is over.
        stopped = stop_unvouched(options.directory, now=time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000)
        ended = f"; {stopped} tasks whose term has ended were stopped" if stopped else ""
        print(f"{named(error, options.directory)}{ended}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
