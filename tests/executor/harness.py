"""A real supervisor, and a test in the place of its agent; a real agent, and a test in the place of its center."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cress.executor.folder import socket_path
from cress.executor.frames import Frames, frame
from cress.executor.processes import find_attempts
from cress.executor.runtimes.cgroups import Cgroups
from cress.executor.secret_files import SecretFiles
from cress.model.reports import Ended, Report, Started
from cress.model.run import Run
from cress.protocol.messages import (
    PROTOCOL,
    Durable,
    Greeting,
    Inventory,
    Launch,
    Launches,
    Shutdown,
    Stop,
    Stops,
    Strangers,
    ToSupervisor,
    decode_from_supervisor,
    encode,
)
from cress.shell.executor.node_devices import key_of
from tests import waiting

PATIENCE = waiting.PATIENCE

T = TypeVar("T")


def until(condition: Callable[[], T | None], what: str = "") -> T:
    """Wait until ``condition`` gives something true, and return it."""
    found = waiting.wait_until(condition, what or str(condition))
    assert found is not None
    return found


def shell(text: str, job: int = 1, **more: Any) -> Run:
    """How to run a shell command."""
    return Run(job=job, command=("/bin/sh", "-c", text), **more)


class Client:
    """In the place of the agent: orders and reports over the supervisor's socket."""

    def __init__(self, directory: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        try:
            with socket_path(directory / "supervisor.sock") as path:
                self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        self.frames = Frames()
        self.messages: list[Any] = []
        self.reports: list[Report] = []
        self.started: dict[int, Started] = {}
        self.ended: dict[int, Ended] = {}
        self.strangers: list[Strangers] = []
        inventory = self.receive()
        assert isinstance(inventory, Inventory)
        self.inventory = inventory
        self._take_in(inventory.reports)

    def send(self, order: ToSupervisor) -> None:
        self.socket.sendall(frame(encode(order)))

    def greet(self) -> None:
        """Speak the newest version of the protocol; without a greeting it is an old one."""
        self.send(Greeting(protocol=PROTOCOL))

    def launch(self, run: Run, *attempts: int, epoch: int = 1, ports: tuple[int, ...] = (), **more: Any) -> None:
        """Launch these attempts; the index of the task is that of the attempt in the list."""
        launches = tuple(Launch(attempt, run.job, index, ports) for index, attempt in enumerate(attempts))
        self.send(Launches(epoch=epoch, runs=(run,), launches=launches, **more))

    def stop(self, attempt: int, grace: float = 5.0, epoch: int = 1) -> None:
        self.send(Stops(epoch=epoch, stops=(Stop(attempt, round(grace * 1e6)),)))

    def durable(self, *attempts: int, epoch: int = 1) -> None:
        self.send(Durable(epoch=epoch, attempts=attempts))

    def receive(self) -> Any:
        while not self.messages:
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError
            for message in map(decode_from_supervisor, self.frames.feed(data)):
                (self.strangers if isinstance(message, Strangers) else self.messages).append(message)
        return self.messages.pop(0)

    def wait_started(self, attempt: int) -> Started:
        while attempt not in self.started:
            self._take_in(self.receive().reports)
        return self.started[attempt]

    def wait_ended(self, *attempts: int) -> Ended:
        """Wait until all of these have ended; the end of the last one of them."""
        while not self.ended.keys() >= set(attempts):
            self._take_in(self.receive().reports)
        return self.ended[attempts[-1]]

    def run(self, run: Run, attempt: int) -> Ended:
        """Launch and wait."""
        self.launch(run, attempt)
        return self.wait_ended(attempt)

    def sync(self) -> None:
        """Return when everything sent before has been obeyed: a stop of an unknown attempt is answered in order."""
        attempt = 1_000_000_000 + len(self.reports)
        self.stop(attempt)
        self.wait_ended(attempt)
        self.durable(attempt)

    def close(self) -> None:
        self.socket.close()

    def _take_in(self, reports: tuple[Report, ...]) -> None:
        for report in reports:
            self.reports.append(report)
            if isinstance(report, Started):
                self.started[report.attempt] = report
            elif isinstance(report, Ended):
                self.ended[report.attempt] = report


class SupervisorProcess:
    """A supervisor, started for real; ``before`` comes before its command."""

    before: Sequence[str] = ()

    def __init__(self, directory: Path, environment: dict[str, str] | None = None, options: Sequence[str] = ()) -> None:
        self.directory = directory
        self.options = options
        self.environment = environment or {}
        self.process: subprocess.Popen[str] | None = None
        self.clients: list[Client] = []

    def start(self) -> Client:
        """Start it and connect."""
        if self.process is not None and self.process.stderr is not None and not self.process.stderr.closed:
            self.process.communicate(timeout=PATIENCE)
        self.process = self.popen()
        return until(self.connect, "the supervisor to listen")

    def command(self) -> list[str]:
        words = (sys.executable, "-m", "cress.executor.supervisor", str(self.directory), "--name", "node1")
        return [*self.before, *words, *self.options]

    def popen(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(),
            env={**os.environ, **self.environment},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def connect(self) -> Client | None:
        assert self.process is not None
        assert self.process.poll() is None, self.process.communicate()[1]
        try:
            client = Client(self.directory)
        except OSError:
            return None
        self.clients.append(client)
        return client

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    def said(self) -> str:
        """End it, and return what it told the operator."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.communicate(timeout=PATIENCE)[1]

    def output(self, attempt: int, stream: str = "stdout") -> str:
        return (self.directory / "attempts" / str(attempt) / stream).read_text()

    def close(self) -> None:
        for client in self.clients:
            client.close()
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            if self.process.stderr is not None and not self.process.stderr.closed:
                self.process.communicate()
        kill_attempts(self.directory)
        remove_groups(self.directory)
        SecretFiles(key_of("node1", str(self.directory.absolute()))).resume(())


def shut_down(client: Client, grace: float = 5.0) -> None:
    client.send(Shutdown(grace=round(grace * 1e6)))


def kill_attempts(directory: Path) -> list[int]:
    """Kill whatever is left of attempts below ``directory``; what it was."""
    left = [pid for _, pid in find_attempts(os.fsencode(directory / "attempts"))]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return left


def remove_groups(directory: Path) -> None:
    """Remove the control groups of containers below ``directory``; whoever was in them has been killed."""
    groups = Cgroups.find("node1", str(directory.absolute()))
    until(lambda: all(groups.remove(attempt) for attempt in groups.left()), "the control groups to be empty")
    groups.close()


def left_over(directory: Path) -> set[int]:
    """The attempts below ``directory`` that have living processes."""
    return {attempt for attempt, _ in find_attempts(os.fsencode(directory / "attempts"))}


@contextlib.contextmanager
def supervisor(
    directory: Path, environment: dict[str, str] | None = None, options: Sequence[str] = ()
) -> Iterator[SupervisorProcess]:
    """A supervisor that is gone afterwards, with everything that it started."""
    process = SupervisorProcess(directory, environment, options)
    try:
        yield process
    finally:
        process.close()
