"""The tasks of a step, as processes here and as commands in tasks elsewhere."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cress.cli.slurm.common import FAILED, center, say
from cress.cli.slurm.layout import StepRank
from cress.model.whole_numbers import whole_number

if TYPE_CHECKING:
    from cress.client import Client
    from cress.client.execution import Command

READ = 65_536
# Variables that the commands elsewhere do not get: those of the node of srun, and those that Cress sets.
_LOCAL = re.compile(r"CRESS_.*|SLURM_TASK_PID|SLURMD_NODENAME|CUDA_VISIBLE_DEVICES|PWD|OLDPWD|SHLVL|_|HOSTNAME|TMPDIR")
# A command elsewhere: it goes to the directory of the step, and gets its signals by its process group.
ELSEWHERE = 'cd "$1" 2>/dev/null || cd /tmp; shift; export SLURMD_NODENAME="$CRESS_NODE" SLURM_TASK_PID=$$; exec "$@"'


@dataclass
class RunningStep:
    """A step: what is the same for all its ranks. ``here`` is the place whose ranks are processes of this program."""

    name: str
    job: int
    number: int
    ranks: Sequence[StepRank]
    here: int
    variables: Mapping[str, str]
    output: str = ""
    error: str = ""
    input: str = ""
    append: bool = False
    labelled: bool = False
    kills: bool = False
    terminal: bool = False
    warn: tuple[str, float] | None = None
    limit: float | None = None
    ended: dict[int, int] = field(default_factory=dict)


def run_step(step: RunningStep, commands: Sequence[list[str]]) -> int:
    """Run the ranks until all have ended; return the highest exit code."""
    only = step.ranks[0] if len(step.ranks) == 1 else None
    if step.terminal and only is not None and only.place.task != step.here and sys.stdin.isatty():
        return _at_terminal(step, only, commands[0])
    source = _source(step)
    runners: list[_Process | _Elsewhere] = []
    client = center() if any(rank.place.task != step.here for rank in step.ranks) else None
    outputs = _Outputs(step)
    try:
        with _signals(runners):
            for rank, command in zip(step.ranks, commands, strict=True):
                if rank.place.task == step.here:
                    runners.append(_Process(step, rank, command, outputs, inherits=only is not None))
                else:
                    assert client is not None
                    runners.append(_Elsewhere(step, rank, command, outputs, client))
            feeder = threading.Thread(target=_feed, args=(step, source, runners, only), daemon=True)
            feeder.start()
            _watch(step, runners)
            code = 0
            for runner in runners:
                runner.join()
                code = max(code, _report(step, runner))
                if code and step.kills:
                    for other in runners:
                        other.send(signal.SIGKILL)
            return code
    finally:
        outputs.close()
        if client is not None:
            client.close()


def _at_terminal(step: RunningStep, rank: StepRank, command: Sequence[str]) -> int:
    """Run the only rank with this terminal; return its exit code."""
    from cress.cli.execution import attend

    size = os.get_terminal_size(0)
    with center() as client:
        running = client.exec(
            step.job,
            ["/bin/sh", "-c", ELSEWHERE, "srun", str(Path.cwd()), *command],
            rank.place.task,
            environment={**passed_on(), **_rank_variables(step, rank)},
            terminal=(size.lines, size.columns),
        )
        with running:
            return attend(running, terminal=True)


def passed_on() -> dict[str, str]:
    """Return the variables of this program that commands on other nodes get."""
    return {name: value for name, value in os.environ.items() if not _LOCAL.fullmatch(name)}


def _report(step: RunningStep, runner: _Process | _Elsewhere) -> int:
    """Print how a rank ended if it failed; return its exit code."""
    code, rank = runner.code, runner.rank
    place = f"{rank.place.node}: task {rank.rank}"
    if code < 0:
        say(step.name, f"error: {place}: {signal.strsignal(-code) or f'signal {-code}'}")
        return 128 - code
    if code:
        say(step.name, f"error: {place}: Exited with exit code {code}")
    return code


def _watch(step: RunningStep, runners: Sequence[_Process | _Elsewhere]) -> None:
    """Send the signal before the time limit, and end the step at a limit of its own."""

    def at(moment: float, number: int) -> None:
        def wait() -> None:
            time.sleep(max(moment - time.time(), 0))
            for runner in runners:
                runner.send(number)

        threading.Thread(target=wait, daemon=True).start()

    if step.warn is not None:
        word = step.warn[0]
        number = int(word) if word.isdigit() else int(getattr(signal, f"SIG{word}", signal.SIGTERM))
        at(step.warn[1], number)
    if step.limit:
        at(time.time() + step.limit, signal.SIGTERM)


@contextlib.contextmanager
def _signals(runners: Sequence[_Process | _Elsewhere]) -> Any:
    """Pass signals on to all ranks while they run."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)

    def passed(number: int, _frame: object) -> None:
        for runner in list(runners):
            runner.send(number)

    before = {number: signal.signal(number, passed) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _rank_variables(step: RunningStep, rank: StepRank) -> dict[str, str]:
    return {
        **step.variables,
        "SLURM_PROCID": str(rank.rank),
        "SLURM_LOCALID": str(rank.local),
        "SLURM_NODEID": str(rank.node),
        "SLURM_GTIDS": str(rank.rank),
    }


class _Process:
    """A rank that is a process of this program."""

    def __init__(
        self, step: RunningStep, rank: StepRank, command: list[str], outputs: _Outputs, *, inherits: bool
    ) -> None:
        self.rank = rank
        self.code = FAILED
        self._threads: list[threading.Thread] = []
        direct = inherits and not step.labelled
        out = outputs.file(rank, step.output) if step.output else None
        err = outputs.file(rank, step.error) if step.error else out
        environment = {**os.environ, **_rank_variables(step, rank)}
        for name in ("CRESS_SLURM_DIR",):
            environment.pop(name, None)
        standard_in: Any = subprocess.PIPE
        if inherits and step.input in ("", "all", "0"):
            standard_in = None
        elif step.input == "none":
            standard_in = subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(
                command,
                stdin=standard_in,
                stdout=out or (None if direct else subprocess.PIPE),
                stderr=err or (None if direct else subprocess.PIPE),
                env=environment,
                start_new_session=False,
                preexec_fn=_restored,  # noqa: PLW1509 – no threads exist yet that could hold a lock
            )
        except OSError as error:
            say(step.name, f"error: execve(): {command[0]}: {error.strerror}")
            self._process = None
            self.code = 2 if isinstance(error, FileNotFoundError) else 13
            return
        for stream, is_error in ((self._process.stdout, False), (self._process.stderr, True)):
            if stream is not None:
                thread = threading.Thread(target=self._copy, args=(stream, is_error, outputs), daemon=True)
                thread.start()
                self._threads.append(thread)

    _process: subprocess.Popen[bytes] | None

    def _copy(self, stream: IO[bytes], is_error: bool, outputs: _Outputs) -> None:
        while data := os.read(stream.fileno(), READ):
            outputs.write(self.rank, is_error, data)

    def feed(self, data: bytes) -> None:
        """Pass input on."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(data)
                self._process.stdin.flush()

    def end_input(self) -> None:
        """End its input."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.close()

    def send(self, number: int) -> None:
        """Send a signal."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.send_signal(number)

    def join(self) -> None:
        """Wait for its end and the rest of its output."""
        if self._process is None:
            return
        self.code = self._process.wait()
        for thread in self._threads:
            thread.join()


def _restored() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)


class _Elsewhere:
    """A rank that is a command in a task of the allocation."""

    def __init__(
        self, step: RunningStep, rank: StepRank, command: list[str], outputs: _Outputs, client: Client
    ) -> None:
        self.rank = rank
        self.code = FAILED
        self._step = step
        self._outputs = outputs
        self._to_file = bool(step.output), bool(step.error)
        environment = passed_on() | _rank_variables(step, rank)
        shell = ["/bin/sh", "-c", ELSEWHERE, "srun", str(Path.cwd()), *command]
        self._command: Command = client.exec(step.job, shell, rank.place.task, environment=environment)
        self._out = outputs.file(rank, step.output) if step.output else None
        self._err = outputs.file(rank, step.error) if step.error else self._out
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        from cress.client import ClientError

        try:
            for is_error, data in self._command:
                file = self._err if is_error else self._out
                if file is not None:
                    file.write(data)
                    file.flush()
                else:
                    self._outputs.write(self.rank, is_error, data)
            code = self._command.code or 0
            self.code = 128 - code if 128 < code < 160 else code
        except ClientError as error:
            say(self._step.name, f"error: {self.rank.place.node}: task {self.rank.rank}: {error}")

    def feed(self, data: bytes) -> None:
        """Pass input on."""
        self._command.send(data)

    def end_input(self) -> None:
        """End its input."""
        self._command.end()

    def send(self, number: int) -> None:
        """End the command: a connection that closes ends it, whatever the signal."""
        if number not in (signal.SIGUSR1, signal.SIGUSR2) and self._thread.is_alive():
            self.code = -number
            self._command.close()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()


class _Outputs:
    """The output of all ranks: whole lines with the number of the rank if asked for, or files by patterns."""

    def __init__(self, step: RunningStep) -> None:
        self._step = step
        self._lock = threading.Lock()
        self._begun: dict[tuple[int, bool], bytes] = {}
        self._files: dict[str, IO[bytes]] = {}

    def file(self, rank: StepRank, pattern: str) -> IO[bytes] | None:
        """Return the file of a rank; ``None`` for ``none``, which is no file."""
        if pattern.lower() == "none":
            pattern = os.devnull
        path = filled(pattern, self._step, rank)
        with self._lock:
            if path not in self._files:
                mode = "ab" if self._step.append else "wb"
                self._files[path] = Path(path).open(mode)  # noqa: SIM115 – `close` closes all
        return self._files[path]

    def write(self, rank: StepRank, is_error: bool, data: bytes) -> None:
        """Write output, at once or by lines."""
        stream = sys.stderr.buffer if is_error else sys.stdout.buffer
        with self._lock:
            if self._step.labelled:
                key = rank.rank, is_error
                whole, newline, begun = (self._begun.pop(key, b"") + data).rpartition(b"\n")
                if begun:
                    self._begun[key] = begun
                data = self._labelled(rank.rank, whole + newline) if newline else b""
            if data:
                stream.write(data)
                stream.flush()

    def _labelled(self, rank: int, lines: bytes) -> bytes:
        width = len(str(len(self._step.ranks) - 1))
        return b"".join(f"{rank:{width}d}: ".encode() + line for line in lines.splitlines(keepends=True))

    def close(self) -> None:
        """Write the unfinished lines and close the files."""
        for (rank, is_error), begun in self._begun.items():
            stream = sys.stderr.buffer if is_error else sys.stdout.buffer
            stream.write(self._labelled(rank, begun + b"\n"))
            stream.flush()
        for file in self._files.values():
            with contextlib.suppress(OSError):
                file.close()


def filled(pattern: str, step: RunningStep, rank: StepRank) -> str:
    """Return a pattern of a file with the numbers of a rank."""
    environment = os.environ
    values = {
        "%": "%",
        "A": environment.get("SLURM_ARRAY_JOB_ID", str(step.job)),
        "a": environment.get("SLURM_ARRAY_TASK_ID", "4294967294"),
        "J": f"{environment.get('SLURM_JOB_ID', step.job)}.{step.number}",
        "j": environment.get("SLURM_JOB_ID", str(step.job)),
        "N": rank.place.node.partition(".")[0],
        "n": str(rank.node),
        "s": str(step.number),
        "t": str(rank.rank),
        "u": environment.get("USER", ""),
        "x": environment.get("SLURM_JOB_NAME", ""),
    }

    def value(found: re.Match[str]) -> str:
        text = values.get(found[2], found[0])
        return text.rjust(int(found[1]), "0") if found[1] and text.isdigit() else text

    return re.sub(r"%(\d*)([%AaJjNnstux])", value, pattern)


def _source(step: RunningStep) -> int:
    """Open what is passed on to the ranks, before the first of them starts. Raises OSError."""
    if step.input == "none":
        return os.open(os.devnull, os.O_RDONLY)
    if step.input in ("", "all") or whole_number(step.input) is not None:
        return 0
    return os.open(filled(step.input, step, step.ranks[0]), os.O_RDONLY)


def _feed(step: RunningStep, source: int, runners: Sequence[_Process | _Elsewhere], only: StepRank | None) -> None:
    """Pass standard input, or a file, on to all ranks."""
    if only is not None and only.place.task == step.here and step.input in ("", "all", "0"):
        return  # it has this program's own
    chosen = runners
    rank = whole_number(step.input)
    if rank is not None:
        chosen = [runner for runner in runners if runner.rank.rank == rank]
        for runner in runners:
            if runner not in chosen:
                runner.end_input()
    with contextlib.suppress(OSError):
        while data := os.read(source, READ):
            for runner in chosen:
                runner.feed(data)
    for runner in chosen:
        runner.end_input()
