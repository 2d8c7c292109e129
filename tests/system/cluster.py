"""A real center and real executors as processes, for tests of the whole; nothing of them is left behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from cress.client import Client, connect
from tests import waiting
from tests.forked import ForkedCress, run_cress
from tests.known_versions import tell_versions
from tests.ports import free_ports

PATIENCE = waiting.PATIENCE
wait_until = waiting.wait_until
# A program of its own, or one that is forked from a process that has imported it.
Program: TypeAlias = "subprocess.Popen[bytes] | ForkedCress"
# A line about a job that has waited for some seconds.
_WAITS = re.compile(r"^cress [a-z]+: job \d+ (\(.*\) )?waits: .*\n", re.MULTILINE)


class Cluster:
    """A center on a short folder of its own, and executors that are added to it."""

    def __init__(self, *, forks_center: bool = True) -> None:
        self._forks_center = forks_center
        # Short: the path of a Unix socket has at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="cr", dir="/tmp"))
        self.data = self.folder / "d"
        self.center: Program | None = None
        self.executors: dict[str, Program] = {}
        # Every program that `start` has started.
        self._programs: list[Program] = []
        self._ports = (0, 0)
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("CRESS_", "NO_COLOR"))
        } | {"CRESS_DATA": str(self.data), "CRESS_NO_PORTAL": "1"}

    # --- programs -----------------------------------------------------------------------------------------------------

    def start_center(self, *arguments: str) -> None:
        """Start the center and wait until it listens."""
        # Where the one before listened, if there was one: executors and clients know that address.
        if self._ports == (0, 0):
            first, second = free_ports(2)
            self._ports = first, second
        ports = "--port", str(self._ports[0]), "--executor-port", str(self._ports[1])
        center = self.center = self._start_center(*ports, *arguments)
        wait_until(lambda: self._listens(center) or self._ended(center), "a listening center")
        assert center.poll() is None, self.log("center.log")
        self._ports = self.port("url"), self.port("executor_url")

    def refused_center(self) -> subprocess.CompletedProcess[str]:
        """Run a center where the last one listened; it is expected to end by itself."""
        return self.cress("center", "--port", self._ports[0], "--executor-port", self._ports[1])

    def _start_center(self, *arguments: str) -> Program:
        """`cress center`, forked unless it shall be a program of its own, or a library must be loaded before it."""
        if self._forks_center:
            return self.start("center", *arguments, log="center.log")
        return self.start_alone("center", *arguments, log="center.log")

    def kill_center(self) -> None:
        """kill -9."""
        assert self.center is not None
        self.center.kill()
        self.center.wait()

    def stop_center(self) -> None:
        """Stop the center in good order."""
        assert self.center is not None
        self.center.terminate()
        self.center.wait(PATIENCE)

    def _listens(self, center: Program) -> bool:
        """Whether it is this center that has told where it listens: a killed one leaves its file behind."""
        with contextlib.suppress(OSError, msgspec.DecodeError):
            return int(self.address("pid")) == center.pid
        return False

    def start_executor(
        self, name: str = "n1", resource: str = "<4, 8G>", *arguments: str, judged: bool = False
    ) -> None:
        """Start an executor and wait until its node is up; ``judged``: it takes no tasks while this machine is
        overloaded.
        """
        if not judged:
            arguments = (*arguments, "--no-overload")
        # Whatever disks this machine has, tests name theirs.
        arguments = (*arguments, "--no-discovery")
        if "--data" not in arguments:
            tell_versions(self.data / "executors" / name)
        with self.client() as client:
            url = self.address("executor_url")
            process = self.start(
                "executor", "--center", url, "--name", name, "--resource", resource, *arguments, log=f"{name}.log"
            )
            self.executors[name] = process
            wait_until(
                lambda: (
                    any(node.name == name and node.state in ("up", "overloaded") for node in client.nodes())
                    or self._ended(process)
                ),
                f"{name} being up",
            )
        assert process.poll() is None, self.log(f"{name}.log")

    def start(self, *arguments: str, log: str) -> Program:
        """Start ``cress`` with these arguments, forked unless a library must be loaded before it; what it says goes
        into a file.
        """
        if "LD_PRELOAD" in self.environment:
            return self.start_alone(*arguments, log=log)
        (self.folder / log).touch()
        program = ForkedCress([*arguments], self.folder / log, self.environment)
        self._programs.append(program)
        return program

    def start_alone(self, *arguments: str, log: str) -> subprocess.Popen[bytes]:
        """Start ``cress`` as users do, as a program of its own."""
        with (self.folder / log).open("ab") as place:
            process = subprocess.Popen(
                [sys.executable, "-m", "cress", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=place,
                stderr=place,
                env=self.environment,
                start_new_session=True,
            )
        self._programs.append(process)
        return process

    def supervisor(self, name: str = "n1") -> int:
        """The process id of an executor's supervisor."""
        # Empty for a moment, between being made and being written.
        return int(
            wait_until((self.data / "executors" / name / "supervisor.lock").read_text, "the supervisor's number")
        )

    def agent(self, name: str = "n1") -> int:
        """The pid of the agent of an executor; `cress executor` itself keeps it running."""
        return int((self.data / "executors" / name / "agent.lock").read_text())

    def kill_executor(self, name: str) -> None:
        """kill -9 for the agent and the supervisor of an executor, and for all that runs there."""
        supervisor = self.supervisor(name)
        self.executors[name].kill()
        self.executors[name].wait()
        for pid in (supervisor, *self._left(os.fsencode(self.data / "executors" / name) + b"/")):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_everything(self) -> None:
        """kill -9 for every process of this cluster, tasks too, as near to one moment as it gets."""
        while left := self._left():
            # A forked center does not name the folder.
            if self.center is not None and self.center.poll() is None:
                left.append(self.center.pid)
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for process in (*self.executors.values(), self.center):
                if process is not None:
                    process.wait()
            time.sleep(0.005)

    def address(self, key: str) -> str:
        """Where the center listens: ``url`` or ``executor_url``."""
        return str(msgspec.json.decode((self.data / "center.json").read_bytes())[key])

    def port(self, key: str) -> int:
        """The port of that address."""
        return int(self.address(key).rpartition(":")[2])

    def log(self, name: str) -> str:
        """What a program has said so far."""
        return (self.folder / name).read_text()

    # --- the command line ---------------------------------------------------------------------------------------------

    def cress(self, *arguments: object, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        """Run ``cress`` to its end, forked unless a library must be loaded before it. What it tells of a job that has
        waited for some seconds is left out, since on a busy machine every job may.
        """
        done = self._cress([*map(str, arguments)], stdin, self.environment | environment)
        done.stderr = _WAITS.sub("", done.stderr)
        return done

    def _cress(self, words: list[str], stdin: str, given: dict[str, str]) -> subprocess.CompletedProcess[str]:
        if "LD_PRELOAD" not in given:
            return run_cress(words, stdin=stdin, environment=given, folder=self.folder, timeout=2 * PATIENCE)
        return subprocess.run(
            [sys.executable, "-m", "cress", *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
            env=given,
            cwd=self.folder,
        )

    @contextlib.contextmanager
    def running(self, *arguments: object) -> Iterator[subprocess.Popen[str]]:
        """``cress`` while it runs, with pipes; it is gone afterwards."""
        process = subprocess.Popen(
            [sys.executable, "-m", "cress", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.folder,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()

    def client(self) -> Client:
        """A client of the center."""
        return connect(self.data)

    def file(self, name: str, text: str) -> Path:
        """A file in the folder of the cluster."""
        path = self.folder / name
        path.write_text(text)
        return path

    # --- the end ------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End everything, whatever state it is in, and remove the folder."""
        # Executors before the center. A test that failed may have left any of them.
        for process in (*reversed(self._programs), self.center):
            if process is not None and process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(15)
                process.kill()
                process.wait()
        # One that is killed may just have started another.
        wait_until(self._all_killed, "the end of every process")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _all_killed(self) -> bool:
        left = self._left()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    def _left(self, word: bytes = b"") -> list[int]:
        """Processes that have this word, else of this cluster: supervisors and tasks have sessions, and name its
        folder.
        """
        name = word or os.fsencode(self.folder) + b"/"
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if name in (entry / "cmdline").read_bytes() or name in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
        return found

    @staticmethod
    def _ended(process: Program | None) -> bool:
        return process is not None and process.poll() is not None
