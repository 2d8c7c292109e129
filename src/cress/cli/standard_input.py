"""Standard input of ``cress run``, passed on to the task as it is read.

The task waits for a named pipe in the directory of its attempt, and becomes its program with that pipe as its standard
input. A command in the task (``cress exec``) makes the pipe and fills it: bytes flow at the pace of the slowest part,
and none are stored.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import typer

from cress.cli.common import AGAIN, PATIENCE
from cress.model.errors import InputError
from cress.model.records import OVER_WORDS

if TYPE_CHECKING:
    from cress.client import Client, TaskView
    from cress.client.execution import Command

READ = 65_536
# Seconds that a task waits for its input, in steps of a twentieth; then it ends, since no sender is left.
LONGEST = 120
# Seconds for the rest of the input after the task has ended.
LAST = 5.0
BEGIN = f"""\
input=$CRESS_DIRECTORY/stdin tries=0
until [ -p "$input" ]; do
  tries=$((tries + 1))
  if [ $tries -gt {LONGEST * 20} ]; then
    echo "no standard input arrived within {LONGEST} s; \\`cress run\\`, which sends it, has ended" >&2
    exit 1
  fi
  sleep 0.05
done
exec <"$input"
rm -f "$input"
unset input tries
exec "$@"
"""
FILL = 'mkfifo -m 600 "$CRESS_DIRECTORY/stdin" && exec cat >"$CRESS_DIRECTORY/stdin"'
# The program has closed its input before the end, which is its right.
UNREAD = 128 + signal.SIGPIPE
KILLED = 128 + signal.SIGKILL
NOT_PASSED = "put `< /dev/null` behind the command, or --no-stdin before it, if it is not meant for the task"


def with_input(job: dict[str, object]) -> dict[str, object]:
    """Return the job with a command that waits for its standard input.

    The job keeps the name that it would have without.
    """
    from cress.model.jobfile.job import default_name

    command = job["command"]
    assert isinstance(command, list)
    return {"name": default_name(command), **job, "command": ["/bin/sh", "-c", BEGIN, "cress run", *command]}


class StandardInput:
    """Standard input with content, or with content to come. ``begun`` is the part already read."""

    def __init__(self, begun: bytes) -> None:
        self.begun = begun

    def read(self) -> bytes:
        """Return the next bytes as soon as there are any; empty at the end. Raise OSError."""
        data, self.begun = self.begun, b""
        while not data:
            select.select([0], [], [])
            try:
                return os.read(0, READ)
            except BlockingIOError:
                continue
        return data

    def refuse(self) -> None:
        """Raise InputError if there is input, since several tasks cannot share it."""
        if not self.begun and _is_ready():
            self.begun = os.read(0, READ)
        if self.begun:
            raise InputError(
                "standard input cannot be passed on to several tasks",
                hint=f"let each task read a file; {NOT_PASSED}",
                field="--tasks",
            )


def standard_input() -> StandardInput | None:
    """Return standard input if it is for the task: a pipe, a socket or a file.

    A terminal, ``/dev/null`` and empty files do not count.
    """
    if sys.stdin is None:
        return None
    try:
        found = os.fstat(0)
        null = os.stat(os.devnull)  # noqa: PTH116 – beside fstat
        if os.isatty(0) or (stat.S_ISCHR(found.st_mode) and found.st_rdev == null.st_rdev):
            return None
        if not _is_ready():
            return StandardInput(b"")
        begun = os.read(0, READ)
    except BlockingIOError:
        return StandardInput(b"")
    except OSError as error:
        raise InputError(f"standard input cannot be read: {error.strerror}", hint=NOT_PASSED) from None
    return StandardInput(begun) if begun else None


def _is_ready() -> bool:
    return bool(select.select([0], [], [], 0)[0])


class Feeder:
    """Sends standard input to the only task of a job as soon as it runs; ``ring`` is called at each change."""

    def __init__(self, client: Client, job: int, source: StandardInput, ring: Callable[[], None]) -> None:
        self._client = client
        self._job = job
        self._source = source
        self._ring = ring
        self._attempt = 0
        self._thread: threading.Thread | None = None
        # The reason why the task did not get all the input that it wanted.
        self._broken = ""
        self._told = False

    def look(self, tasks: Sequence[TaskView]) -> None:
        """Begin when the task runs; cancel the job if its input is lost."""
        (task,) = tasks
        attempt = task.attempts[-1].id if task.attempts else 0
        if self._thread is None:
            if task.state == "running":
                self._attempt = attempt
                self._thread = threading.Thread(target=self._feed, daemon=True)
                self._thread.start()
        elif attempt != self._attempt and not self._broken:
            self._broken = "the task was started again, but its standard input had been read"
        if self._broken and not self._told:
            self._told = True
            self._client.cancel(self._job)

    def problem(self) -> str:
        """Return why the ended task did not get all of its input; empty: it got all that it wanted."""
        if self._thread is not None:
            self._thread.join(LAST)
        return self._broken

    def _feed(self) -> None:
        from cress.client import ClientError, Unavailable

        try:
            try:
                self._fill()
            except Unavailable as error:
                # It ended before the task or with it, which need not have read everything.
                self._broken = "" if self._is_over() else str(error)
        except (ClientError, OSError) as error:
            self._broken = str(error)
        except RuntimeError as error:
            # The client was closed, since the task has ended and nobody waits for this thread any more.
            self._broken = str(error)
        finally:
            self._ring()

    def _fill(self) -> None:
        """Fill the pipe of the task until the task or the input ends. Raises ClientError."""
        with self._open() as filling:
            threading.Thread(target=self._send, args=(filling,), daemon=True).start()
            for error, text in filling:
                if error:
                    typer.echo(f"cress run: {text.decode(errors='replace').rstrip()}", err=True)
        # In a container the kernel kills it with the task.
        killed = filling.code == KILLED and not filling.why and self._is_over()
        if filling.code not in (0, UNREAD) and not killed:
            self._broken = filling.why or f"the command that fills it ended with {filling.code}"

    def _open(self) -> Command:
        """Begin to fill the pipe of the task. Raise ClientError if the center is away for long."""
        from cress.client import Unavailable, Unreachable

        since = time.monotonic()
        while True:
            try:
                return self._client.exec(self._job, ["/bin/sh", "-c", FILL], 0)
            except (Unreachable, Unavailable):
                if time.monotonic() - since > PATIENCE:
                    raise
                time.sleep(AGAIN)
                self._client.look()

    def _send(self, filling: Command) -> None:
        try:
            while data := self._source.read():
                if not filling.send(data):
                    return
        except (OSError, ValueError) as error:
            self._broken = f"standard input cannot be read: {getattr(error, 'strerror', '') or error}"
            filling.close()
            self._ring()
            return
        filling.end()

    def _is_over(self) -> bool:
        """Return whether the attempt has ended, or ends within a moment."""
        since = time.monotonic()
        while True:
            task = self._client.task(self._job, 0)
            if task.state in OVER_WORDS or any(
                attempt.id == self._attempt and attempt.outcome != "running" for attempt in task.attempts
            ):
                return True
            if time.monotonic() - since > LAST:
                return False
            time.sleep(AGAIN)
