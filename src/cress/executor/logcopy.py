"""Copying of an attempt's logs to the folder that its job names. ``python -m cress.executor.logcopy ORDERS``.

A copy is a process of its own, which the supervisor starts after the attempt has ended. From the start of the attempt,
the orders are in a folder for the executor alone, where a later supervisor finds them. A failed copy leaves the
attempt's outcome unchanged: a line at the end of its standard error reports it, and the executor's log.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from cress.executor.addresses import Failed, shown, with_variables
from cress.executor.attempt_log import open_log
from cress.executor.hidden_folders import hidden_here
from cress.executor.inherited import for_processes
from cress.executor.log_limits import first_kept
from cress.executor.runtimes.base import Spawn
from cress.executor.task_identity import step_down
from cress.model.allowed_sources import AllowedSources
from cress.model.run import File
from cress.shell.executor.starting import StartError

FOLDER = "copies"
STREAMS = ("stdout", "stderr")
# Most copies at the same time.
MOST = 4
# Most starts of one copy, if it is killed each time, for lack of memory for example.
TRIES = 3


class CopyOrders(msgspec.Struct, frozen=True):
    """The attempt whose logs are copied, its node, and the ``sources`` that its job may use."""

    node: str
    what: Spawn
    sources: AllowedSources = AllowedSources()


class LogCopies:
    """The supervisor's side: copies that are ordered, waiting or running."""

    def __init__(
        self,
        home: Path,
        node: str,
        say: Callable[[str], None],
        sources: AllowedSources = AllowedSources(),  # noqa: B008 - frozen
    ) -> None:
        self._sources = sources
        self._folder = home / FOLDER
        self._node = node
        self._say = say
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._ordered = {int(path.name) for path in self._folder.iterdir() if path.name.isdigit()}
        self._waiting: list[int] = []
        self.working: dict[int, int] = {}  # by pid of the child that copies: the attempt
        self._killed: dict[int, int] = {}  # by attempt: how often its copy was killed

    def order(self, what: Spawn) -> None:
        """Order a copy for an attempt that is about to start. Raise StartError if the order cannot be stored."""
        path = self._folder / str(what.attempt)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.msgpack.encode(CopyOrders(self._node, what, self._sources)))
        except OSError as error:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            raise StartError(f"{path} could not be written: {error.strerror}", node=True) from None
        self._ordered.add(what.attempt)

    def over(self, attempt: int) -> None:
        """Start the copy for an ended attempt, if one is ordered."""
        if attempt in self._ordered:
            self._ordered.discard(attempt)
            self._waiting.append(attempt)
            self._start()

    def left(self, running: set[int]) -> None:
        """Start the copies that an earlier supervisor left, for attempts that no longer run."""
        for attempt in sorted(self._ordered - running):
            self.over(attempt)

    def ended(self, pid: int, status: int) -> bool:
        """Return whether the ended child was making a copy."""
        attempt = self.working.pop(pid, None)
        if attempt is None:
            return False
        killed = self._killed.pop(attempt, 0) + 1
        if os.WIFSIGNALED(status) and killed < TRIES:
            self._killed[attempt] = killed
            self._waiting.append(attempt)
        else:
            if status:
                self._say(f"the copy of the log of attempt {attempt} was interrupted")
            (self._folder / str(attempt)).unlink(missing_ok=True)
        self._start()
        return True

    def _start(self) -> None:
        while self._waiting and len(self.working) < MOST:
            attempt = self._waiting.pop(0)
            command = [sys.executable, "-I", "-m", "cress.executor.logcopy", str(self._folder / str(attempt))]
            environment = for_processes(os.environ)
            heard = [number for number in signal.valid_signals() if callable(signal.getsignal(number))]
            try:
                pid = os.posix_spawn(command[0], command, environment, setsid=True, setsigmask=(), setsigdef=heard)
            except OSError as error:
                self._say(f"the log of attempt {attempt} is not copied: {error.strerror}")
                (self._folder / str(attempt)).unlink(missing_ok=True)
                continue
            self.working[pid] = attempt


def main(orders: Path) -> int:
    """Copy both streams. Return 0 even if that fails, since the log has the failure then."""
    told = msgspec.msgpack.decode(orders.read_bytes(), type=CopyOrders)
    what, run = told.what, told.what.run
    os.chdir("/")
    # Opened before the account changes, since the new one may be unable to pass through the executor's directory.
    logs = {name: _opened(what.folder + b"/" + name.encode()) for name in STREAMS}
    try:
        from cress.executor import transfer
        from cress.executor.source_rules import SourceRules

        rules = SourceRules(told.sources, hidden_here(orders.parent.parent))
        transfer.load([File(source=run.log_copy, path="")], rules)
        variables = step_down(what, told.node)
        rules.enforce()
        place = with_variables(run.log_copy, variables).rstrip("/")
        save = functools.partial(transfer.copy_file, rules=rules)
        for name, fd in logs.items():
            if fd is not None:
                _copy(fd, f"{place}/{variables['CRESS_JOB_ID']}/{what.task}/{what.attempt}/{name}", save)
    except (Failed, ImportError, OSError, StartError) as error:
        line = f"[the log could not be copied to {shown(run.log_copy)}: {error}]"
        print(f"attempt {what.attempt}: {line}", file=sys.stderr)  # noqa: T201
        fd = logs["stderr"]
        if fd is not None:
            with contextlib.suppress(OSError):
                os.write(fd, f"{line}\n".encode())
    return 0


def _copy(fd: int, address: str, save: Callable[[Path, str], None]) -> None:
    import tempfile

    first = first_kept(fd)
    # The copy gets the permissions of this file, so the file is in a folder that only its owner may enter.
    with tempfile.TemporaryDirectory(prefix="cress-log-") as folder:
        kept = Path(folder, "log")
        with kept.open("wb") as file, open(fd, "rb", closefd=False) as log:
            os.fchmod(file.fileno(), 0o644)
            if first:
                file.write(f"[the first {first} bytes are gone]\n".encode())
            log.seek(first)
            shutil.copyfileobj(log, file)
        save(kept, address)


def _opened(path: bytes) -> int | None:
    """Open a log, if it still is a regular file of the task; otherwise return None."""
    try:
        return open_log(path, os.O_RDWR | os.O_APPEND)
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
