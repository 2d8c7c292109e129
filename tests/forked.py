"""Programs forked from a process that has imported them and loaded the kernels: hundreds of tests start one, and that
is most of a start.
"""

from __future__ import annotations

import inspect
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, NoReturn

from tests.waiting import pauses

_COMMAND = "from cress.cli.main import main; main()"
# What multiprocessing says of a program whose exit code is lost.
_LOST = 255


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.preloaded", __name__])
    return context


_CONTEXT = _context()


@dataclass(frozen=True)
class _Start:
    """What a program begins with, besides what it has from the process that it is forked from."""

    program: str
    arguments: list[str]
    error: Path
    output: Path | None = None
    input: Path | None = None
    environment: Mapping[str, str] | None = None
    folder: Path | None = None
    session: bool = False
    # Gets the exit code: the server that forks has lost one in ten thousand on a busy machine.
    code: Path | None = None


def _tell_proc(start: _Start) -> None:
    """Show the command line and the first environment in /proc, as far as there is room: tests look for the folder of
    their cluster there, and find what is left of it.
    """
    words = [sys.executable, "-m", "cress", *start.arguments] if start.program == _COMMAND else ["center"]
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    # Fields 48 to 51 of proc(5), of which the first that is left is the third.
    first, last, first_of_environment, last_of_environment = map(int, fields[45:49])
    areas = [(first, last, words)]
    if start.environment is not None:
        # Nothing in this process points there after all variables have been set anew.
        told = sorted(start.environment.items(), key=lambda item: not item[0].startswith("CRESS_"))
        areas.append((first_of_environment, last_of_environment, [f"{name}={value}" for name, value in told]))
    with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
        for begin, end, texts in areas:
            text = b"".join(os.fsencode(each) + b"\0" for each in texts)[: end - begin - 1]
            memory.seek(begin)
            memory.write(text.ljust(end - begin, b"\0"))


def _be(start: _Start) -> None:
    for number, path, flags in (
        (0, start.input or Path(os.devnull), os.O_RDONLY),
        (1, start.output, os.O_WRONLY | os.O_APPEND | os.O_CREAT),
        (2, start.error, os.O_WRONLY | os.O_APPEND | os.O_CREAT),
    ):
        if path is not None:
            place = os.open(path, flags, 0o666)
            os.dup2(place, number)
            os.close(place)
    if start.session:
        os.setsid()
    if start.environment is not None:
        os.environ.clear()
        os.environ.update(start.environment)
        time.tzset()
    _tell_proc(start)
    if start.folder is not None:
        os.chdir(start.folder)
    if start.program == _COMMAND:
        subprocess.Popen = _ForkedChild  # type: ignore[misc]
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 – as long as the program
    sys.argv = ["-c", *start.arguments]
    try:
        exec(start.program, {"__name__": "__main__"})
    except SystemExit as end:
        if start.code is not None:
            start.code.write_text(str(end.code if isinstance(end.code, int) else int(end.code is not None)))
        raise


class _ForkedChild(subprocess.Popen[Any]):
    """A ``cress`` that a forked program starts: forked as well, with all that its parent has imported."""

    def _execute_child(self, *given: Any) -> None:
        told = inspect.signature(super()._execute_child).bind(*given).arguments  # type: ignore[misc]
        words = told["args"]
        if not isinstance(words, list) or words[:3] != [sys.executable, "-m", "cress"]:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            _be_child(_Start(_COMMAND, words[3:], Path(os.devnull)), told)
        self._child_created = True
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(told[end] for end in ends))  # type: ignore[attr-defined]


def _be_child(start: _Start, told: Mapping[str, Any]) -> NoReturn:
    code = 1
    try:
        for number, end in enumerate(("p2cread", "c2pwrite", "errwrite")):
            if told[end] != -1:
                os.dup2(told[end], number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        if told["start_new_session"]:
            os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _tell_proc(start)
        sys.argv = ["-c", *start.arguments]
        exec(start.program, {"__name__": "__main__"})
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 – told as the interpreter tells it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Said:
    """What a program says into a file, read line by line while it runs, as a pipe would be."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0

    def readline(self, patience: float = 60.0) -> str:
        """Wait for the next line; fails after ``patience`` seconds."""
        deadline = time.monotonic() + patience
        for pause in pauses():
            line, end, _ = self._file.read_text()[self._read :].partition("\n")
            if end:
                self._read += len(line) + 1
                return f"{line}\n"
            assert time.monotonic() < deadline, f"it says nothing more than {self._file.read_text()}"
            time.sleep(pause)
        raise AssertionError

    def __iter__(self) -> Iterator[str]:
        while True:
            yield self.readline()


class Forked:
    """Runs ``program``, as ``python -c`` would; what it says to standard error goes to the file ``said``."""

    stdin = None
    stderr: Said | None = None

    def __init__(
        self, program: str, arguments: list[str], said: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        said.touch()
        self.stderr = Said(said)
        self._begin(_Start(program, arguments, said, environment=environment))

    def _begin(self, start: _Start) -> None:
        self._said = start.error
        self._process = _CONTEXT.Process(target=_be, args=(start,))
        self._process.start()
        assert self._process.pid
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked program", timeout or 0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Its end, and what it said to standard error."""
        self.wait(timeout)
        return "", self._said.read_text()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkedCress(Forked):
    """The ``cress`` command with an environment and a session of its own; what it says goes to the file ``said``."""

    def __init__(self, arguments: Sequence[str], said: Path, environment: Mapping[str, str]) -> None:
        start = _Start(_COMMAND, [*arguments], said, output=said, environment=dict(environment), session=True)
        self._begin(start)


class _Call(Forked):
    def __init__(self, start: _Start) -> None:
        self._begin(start)


def run_cress(
    arguments: Sequence[str],
    *,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout: float = 120.0,
) -> subprocess.CompletedProcess[str]:
    """Run the ``cress`` command to its end, as ``subprocess.run`` would, with the environment and in the folder of the
    test unless told.
    """
    given = dict(os.environ if environment is None else environment)
    with tempfile.TemporaryDirectory(prefix="cr") as place:
        read, output, error, ended = (Path(place, name) for name in ("in", "out", "err", "code"))
        read.write_text(stdin)
        for each in (output, error):
            each.touch()
        call = _Call(_Start(_COMMAND, [*arguments], error, output, read, given, folder or Path.cwd(), code=ended))
        try:
            code = call.wait(timeout)
        except subprocess.TimeoutExpired:
            call.kill()
            call.wait()
            raise
        if code == _LOST and ended.exists():
            code = int(ended.read_text())
        return subprocess.CompletedProcess(["cress", *arguments], code, output.read_text(), error.read_text())
