"""Bundles: function calls as one array job, one task for each chunk."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cress.client.errors import ClientError, RemoteError, RemoteTraceback
from cress.client.frames import BEGUN, RESULT, SKIP, CallResult, Lost, read_outcomes
from cress.client.jobs import Job
from cress.client.spool import Spool
from cress.client.waiting import Waiting, because
from cress.protocol.job_views import JobView

# A task whose process died is tried again so often, so soon.
RETRIES, BACKOFF = 2, "1s"
# How long a result may take to be seen after its task has ended: folders of a network are not always up to date.
LATE = 15.0
# A client looks for results so often, and waits at most so long for a job that it has cancelled. Seconds.
SOON, SELDOM, GONE = 0.01, 0.25, 5.0
# Chunks for each place where a task can run: the work is even, and what a task costs does not count.
CHUNKS_EACH = 4


class ChunkResult(NamedTuple):
    """The result of one chunk."""

    chunk: int
    outcomes: list[CallResult]


class ChunkBundle:
    """Chunks of so many items each, and what is known of them. ``job`` is there when they are submitted."""

    def __init__(self, spool: Spool, sizes: Sequence[int]) -> None:
        self.spool = spool
        self.sizes = sizes
        self.job = 0
        self.missing = set(range(len(sizes)))
        self.begun: set[int] = set()
        # Whether there are tasks that nobody wants any more.
        self.unwanted = False
        self.over_since = 0.0
        self.waiting = Waiting()
        self.view: JobView | None = None

    def look(self) -> list[ChunkResult]:
        """Return the results that are new since the last call. Raises ``OSError`` when the spool cannot be read."""
        found = []
        for chunk, suffix in sorted(map(_chunk_of, self.spool.names())):
            if suffix == BEGUN:
                self.begun.add(chunk)
            elif suffix == RESULT and chunk in self.missing:
                with self.spool.read(f"{chunk}{RESULT}") as file:
                    found.append(ChunkResult(chunk, read_outcomes(file, self.sizes[chunk])))
                self.missing.discard(chunk)
                # What was read need not be kept for as long as the others take.
                self.spool.remove(f"{chunk}{BEGUN}")
                self.spool.remove(f"{chunk}{RESULT}")
        return found

    def skip(self, chunk: int) -> None:
        """Let a task that has not begun do nothing."""
        with self.spool.write(f"{chunk}{SKIP}"):
            pass
        self.missing.discard(chunk)
        self.unwanted = True

    def failed(self, chunk: int, error: ClientError) -> ChunkResult:
        """A chunk that will have no result."""
        self.missing.discard(chunk)
        return ChunkResult(chunk, [CallResult(error=error)] * self.sizes[chunk])


def _chunk_of(name: str) -> tuple[int, str]:
    """Return the chunk that a file belongs to; None for the payload and its index."""
    number, dot, suffix = name.partition(".")
    return (int(number), dot + suffix) if number.isdecimal() else (-1, name)


def job_of(bundle: ChunkBundle, name: str, python: str, keys: Mapping[str, Any]) -> Job:
    """The array job of a bundle."""
    # -P: where a task happens to start is no place for modules.
    command = [python or sys.executable, "-P", "-m", "cress.client.worker", bundle.spool.address]
    given = {"name": name, "retries": RETRIES, "backoff": BACKOFF, **keys, "tasks": len(bundle.sizes)}
    # Folders of the client need not be there; where one is, the task goes there by itself.
    given.setdefault("directory", "/")
    environment = dict(given.get("environment") or {})
    if "PYTHONPATH" in os.environ and not python:
        environment.setdefault("PYTHONPATH", os.environ["PYTHONPATH"])
    return Job(command, **{**given, "environment": environment})


def chunk_size(items: int, slots: int) -> int:
    """Items for one task, so that every place gets some chunks."""
    return max(1, -(-items // (slots * CHUNKS_EACH)))


class Patience(NamedTuple):
    """The end of the patience of a call that may take ``seconds``: a moment ``at`` of the monotonic clock."""

    seconds: float
    at: float

    @classmethod
    def after(cls, seconds: float | None) -> Patience | None:
        """Return the deadline of a call that begins now; ``None``: there is none."""
        return None if seconds is None else cls(seconds, time.monotonic() + seconds)


def late(bundle: ChunkBundle, seconds: float) -> str:
    """Return what is said when nothing new is there after so many seconds."""
    view, total = bundle.view, len(bundle.sizes)
    head = f"job {bundle.job}" if view is None else f"job {view.id} ({view.name}) is {view.state}{because(view)}"
    done = f"{total - len(bundle.missing)} of {total} tasks have results"
    return f"{head}; {done} after {seconds:g} s, and it is cancelled"


def settled(outcome: CallResult) -> CallResult:
    """Return the result as it is raised here: with the traceback of the task as its cause."""
    error = outcome.error
    if isinstance(error, Lost):
        error = RemoteError(str(error))
    if error is not None and outcome.trace:
        error.__cause__ = RemoteTraceback(outcome.trace)
    return outcome._replace(error=error)


def name_of(function: Callable[..., Any]) -> str:
    """A name for the job that runs a function."""
    word = str(getattr(function, "__name__", "") or type(function).__name__)
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in word).strip("-")
    return plain[:60] or "function"
