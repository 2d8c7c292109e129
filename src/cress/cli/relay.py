"""Relay of task output as it is written, for ``cress run`` and ``cress logs``."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Protocol

import typer

from cress.cli.common import AGAIN, PATIENCE
from cress.cli.tables import clean
from cress.model.records import OVER_WORDS

if TYPE_CHECKING:
    from cress.client import Client, TaskView

# Most tasks of a job whose output is shown together, and most that are read at the same time (two connections each).
MOST_TASKS = 1000
MOST_AT_ONCE = 40
# Seconds between two looks at the tasks: short at first, longer for a job that waits.
SOON, SELDOM = 0.01, 0.25
# Seconds after which the reason of a wait is printed at a terminal.
TERMINAL_AFTER = 1.0


class Bell:
    """Wakes the main thread; signal handlers and other threads can ring it."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    def ring(self) -> None:
        """Wake ``wait``, now or at its next call."""
        with contextlib.suppress(BlockingIOError):  # it has been rung often enough
            os.write(self._writer, b"!")

    def wait(self, seconds: float) -> None:
        """Wait until the bell is rung, or ``seconds`` have passed."""
        if select.select([self._reader], [], [], seconds)[0]:
            os.read(self._reader, 4096)


class TaskOutput(Protocol):
    """A destination of the output of tasks, called from several threads, for each task from one at a time."""

    def write(self, task: int, stream: str, data: bytes) -> None:
        """Take output of a task."""

    def end(self, task: int, stream: str) -> None:
        """Take note that a stream of a task has ended."""


class Output:
    """The destination of task output; with several tasks it writes whole lines, each prefixed with ``[task]``."""

    def __init__(self, places: dict[str, BinaryIO], prefixed: bool) -> None:
        self._places = places
        self._prefixed = prefixed
        self._lock = threading.Lock()
        self._begun: dict[tuple[int, str], bytes] = {}

    def write(self, task: int, stream: str, data: bytes) -> None:
        """Write all output that can be written at once."""
        with self._lock:
            if self._prefixed:
                whole, newline, begun = (self._begun.pop((task, stream), b"") + data).rpartition(b"\n")
                if begun:
                    self._begun[task, stream] = begun
                data = _prefix(task, whole + newline) if newline else b""
            self._put(stream, data)

    def end(self, task: int, stream: str) -> None:
        """End the stream: write the last line if it is unfinished."""
        with self._lock:
            begun = self._begun.pop((task, stream), b"")
            if begun:
                self._put(stream, _prefix(task, begun + b"\n"))

    def _put(self, stream: str, data: bytes) -> None:
        if data:
            place = self._places[stream]
            place.write(data)
            place.flush()


class Waits:
    """Tells a user who follows a job why nothing runs yet: soon at a terminal, elsewhere after a while."""

    def __init__(self, client: Client, job: int, verb: str) -> None:
        from cress.client.waiting import TELL_AFTER, Waiting

        self._client = client
        self._job = job
        self._verb = verb
        self._waiting = Waiting(TERMINAL_AFTER if sys.stderr.isatty() else TELL_AFTER)

    def tell(self, tasks: Sequence[TaskView]) -> None:
        """Print the reason once it has lasted for a while, and again when it changes."""
        if not self._waiting.is_due() or any(task.state != "waiting" for task in tasks):
            return
        job = self._client.job(self._job)
        # A cancelled job has a reason as well, and does not wait.
        if job.state == "waiting" and self._waiting.tells(job.reason):
            typer.echo(f"cress {self._verb}: job {self._job} waits: {clean(job.reason)}", err=True)


class Relay:
    """Follows the tasks of a job, or one of them, until they have ended.

    ``on_look`` is called repeatedly in the meantime, with the present tasks; it may raise to leave.
    """

    def __init__(
        self,
        client: Client,
        job: int,
        output: TaskOutput,
        streams: Sequence[str],
        task: int | None = None,
        verb: str = "run",
    ) -> None:
        self.bell = Bell()
        self._client = client
        self._job = job
        self._task = task
        self._verb = verb
        self._output = output
        self._streams = streams
        # After an update, the tasks of a service are other jobs.
        self._seen: set[tuple[int, int | None]] = set()
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None

    def follow(self, on_look: Callable[[Sequence[TaskView]], None] = lambda _: None) -> list[TaskView]:
        """Write the output of the tasks until all have ended; return the tasks at the end."""
        pause = SOON
        while True:
            tasks = self.look()
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            started = [self._start(task) for task in tasks]
            if self._failure:
                raise self._failure
            over = all(task.state in OVER_WORDS for task in tasks)
            if over and not self._threads and not any(started):
                return tasks
            on_look(tasks)
            pause = SOON if any(started) else min(pause * 1.5, SELDOM)
            self.bell.wait(pause)

    def look(self) -> list[TaskView]:
        """Return the present tasks."""
        from cress.cli.common import patiently

        if self._task is not None:
            after = self._task - 1 if self._task else None
            return list(patiently(lambda: self._client.tasks(self._job, limit=1, after=after), self._verb).tasks)
        found: list[TaskView] = []
        after = None
        while True:
            ask = partial(self._client.tasks, self._job, limit=MOST_TASKS, after=after)
            page = patiently(ask, self._verb)
            found += page.tasks
            after = page.next
            if after is None or not page.tasks:
                return found

    def _start(self, task: TaskView) -> bool:
        """Follow a task through all its attempts, if it is time for it; return whether it is."""
        seen = task.index, task.job
        if seen in self._seen or not task.attempts or task.state in {"waiting", "starting"}:
            return False
        if len(self._threads) >= MOST_AT_ONCE * len(self._streams):
            return False
        self._seen.add(seen)
        for stream in self._streams:
            # A daemon thread: when the main thread leaves, the rest of the output is not needed.
            thread = threading.Thread(target=self._copy, args=(task.index, stream), daemon=True)
            self._threads.append(thread)
            thread.start()
        return True

    def _copy(self, task: int, stream: str) -> None:
        try:
            copy(self._client, self._job, task, stream, self._output, follow=True)
        except BaseException as error:  # noqa: BLE001 – raised again by the main thread
            self._failure = self._failure or error
        finally:
            self.bell.ring()


def copy(
    client: Client,
    job: int,
    task: int,
    stream: str,
    output: TaskOutput,
    *,
    follow: bool,
    attempt: int | None = None,
    begin: int = 0,
) -> None:
    """Write the output of one task, or of one ``attempt`` of it from byte ``begin`` on; a connection that breaks off is
    resumed.
    """
    from cress.client import Unavailable, Unreachable

    offset = begin
    since: int | None = None
    away: float | None = None
    while True:
        try:
            for piece in client.logs(job, task, stream, offset, follow=follow, attempt=attempt, since=since):
                offset, since = piece.end, piece.attempt
                away = None
                if piece:
                    output.write(task, stream, piece)
            break
        except (Unreachable, Unavailable):
            away = away or time.monotonic()
            if not follow or time.monotonic() - away > PATIENCE:
                raise
            time.sleep(AGAIN)
            client.look()
    output.end(task, stream)


def standard(prefixed: bool, *, merged: bool = False) -> Output:
    """Return standard output and error of this program; ``merged``: all to standard output."""
    out, err = sys.stdout.buffer, sys.stderr.buffer
    return Output({"stdout": out, "stderr": out if merged else err}, prefixed)


def _prefix(task: int, lines: bytes) -> bytes:
    head = f"[{task}] ".encode()
    return b"".join(head + line for line in lines.splitlines(keepends=True)) if lines else b""
