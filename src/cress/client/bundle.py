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

# Retries of a task whose process died, and the pause before them.
RETRIES, BACKOFF = 2, "1s"
# Seconds until a result may become visible after its task has ended, since network folders are updated late.
LATE = 15.0
# Seconds between two checks for results, at first and at most; seconds to wait for a cancelled job.
SOON, SELDOM, GONE = 0.01, 0.25, 5.0
# Chunks for each task that can run at once: enough for even work at a negligible cost of starts.
CHUNKS_EACH = 4


class ChunkResult(NamedTuple):
    """The outcomes of one chunk."""

    chunk: int
    outcomes: list[CallResult]


class ChunkBundle:
    """Chunks of calls, with ``sizes`` items each, and their state. ``job`` is set once they are submitted."""

    def __init__(self, spool: Spool, sizes: Sequence[int]) -> None:
        self.spool = spool
        self.sizes = sizes
        self.job = 0
        self.missing = set(range(len(sizes)))
        self.begun: set[int] = set()
        # True if tasks run whose results are no longer needed.
        self.unwanted = False
        self.over_since = 0.0
        self.waiting = Waiting()
        self.view: JobView | None = None

    def look(self) -> list[ChunkResult]:
        """Return the results that are new since the last call. Raises ``OSError`` if the spool cannot be read."""
        found = []
        for chunk, suffix in sorted(map(_chunk_of, self.spool.names())):
            if suffix == BEGUN:
                self.begun.add(chunk)
            elif suffix == RESULT and chunk in self.missing:
                with self.spool.read(f"{chunk}{RESULT}") as file:
                    found.append(ChunkResult(chunk, read_outcomes(file, self.sizes[chunk])))
                self.missing.discard(chunk)
                # A result that was read is removed at once, so that it takes no space while others run.
                self.spool.remove(f"{chunk}{BEGUN}")
                self.spool.remove(f"{chunk}{RESULT}")
        return found

    def skip(self, chunk: int) -> None:
        """Make a task that has not begun do nothing."""
        with self.spool.write(f"{chunk}{SKIP}"):
            pass
        self.missing.discard(chunk)
        self.unwanted = True

    def failed(self, chunk: int, error: ClientError) -> ChunkResult:
        """Return an error for a chunk that will have no result."""
        self.missing.discard(chunk)
        return ChunkResult(chunk, [CallResult(error=error)] * self.sizes[chunk])


def _chunk_of(name: str) -> tuple[int, str]:
    """Return the chunk and the suffix of a file; chunk -1 for the payload and its index."""
    number, dot, suffix = name.partition(".")
    return (int(number), dot + suffix) if number.isdecimal() else (-1, name)


def job_of(bundle: ChunkBundle, name: str, python: str, keys: Mapping[str, Any]) -> Job:
    """Return the array job of a bundle."""
    # -P: the directory in which a task starts must not provide modules.
    command = [python or sys.executable, "-P", "-m", "cress.client.worker", bundle.spool.address]
    given = {"name": name, "retries": RETRIES, "backoff": BACKOFF, **keys, "tasks": len(bundle.sizes)}
    # The client's directory may not exist on a node; the task enters it if it does.
    given.setdefault("directory", "/")
    environment = dict(given.get("environment") or {})
    if "PYTHONPATH" in os.environ and not python:
        environment.setdefault("PYTHONPATH", os.environ["PYTHONPATH"])
    return Job(command, **{**given, "environment": environment})


def chunk_size(items: int, slots: int) -> int:
    """Return the number of items for one task, so that every place gets some chunks."""
    return max(1, -(-items // (slots * CHUNKS_EACH)))


class Patience(NamedTuple):
    """The deadline of a call with a limit of ``seconds``: the moment ``at`` on the monotonic clock."""

    seconds: float
    at: float

    @classmethod
    def after(cls, seconds: float | None) -> Patience | None:
        """Return the deadline of a call that begins now; ``None`` if it has no limit."""
        return None if seconds is None else cls(seconds, time.monotonic() + seconds)


def late(bundle: ChunkBundle, seconds: float) -> str:
    """Return the message of a timeout without new results after ``seconds``."""
    view, total = bundle.view, len(bundle.sizes)
    head = f"job {bundle.job}" if view is None else f"job {view.id} ({view.name}) is {view.state}{because(view)}"
    done = f"{total - len(bundle.missing)} of {total} tasks have results"
    return f"{head}; {done} after {seconds:g} s, and it is cancelled"


def settled(outcome: CallResult) -> CallResult:
    """Return a result as it is raised here, with the traceback of the task as its cause."""
    error = outcome.error
    if isinstance(error, Lost):
        error = RemoteError(str(error))
    if error is not None and outcome.trace:
        error.__cause__ = RemoteTraceback(outcome.trace)
    return outcome._replace(error=error)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of the job for a function."""
    word = str(getattr(function, "__name__", "") or type(function).__name__)
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in word).strip("-")
    return plain[:60] or "function"
