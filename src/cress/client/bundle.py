"""Bundles: function calls as one array job, one task for each chunk."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cress.client import calls, operations
from cress.client.effects import Emit, Operation, RetryBudget, RunBlocking, Sleep, retried
from cress.client.errors import ClientError, JobFailed, RemoteError, RemoteTraceback, TaskDied
from cress.client.frames import BEGUN, RESULT, SKIP, CallResult, Lost, read_outcomes
from cress.client.jobs import Job, plain_keys
from cress.client.spool import Spool
from cress.client.waiting import Waiting
from cress.model.errors import InputError
from cress.model.records import OVER_WORDS
from cress.model.resources import Dimensions
from cress.model.vectors import parse_vector
from cress.protocol.views import JobView

# A task whose process died is tried again so often, so soon.
RETRIES, BACKOFF = 2, "1s"
# How long a result may take to be seen after its task has ended: folders of a network are not always up to date.
LATE = 15.0
# A client looks for results so often, and waits at most so long for a job that it has cancelled. Seconds.
SOON, SELDOM, GONE = 0.01, 0.25, 5.0
# Chunks for each place where a task can run: the work is even, and what a task costs does not count.
CHUNKS_EACH = 4


class Part(NamedTuple):
    """The result of one chunk."""

    chunk: int
    outcomes: list[CallResult]


class Bundle:
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

    def look(self) -> list[Part]:
        """Return the results that are new since the last call. Raises ``OSError`` when the spool cannot be read."""
        found = []
        for chunk, suffix in sorted(map(_chunk_of, self.spool.names())):
            if suffix == BEGUN:
                self.begun.add(chunk)
            elif suffix == RESULT and chunk in self.missing:
                with self.spool.read(f"{chunk}{RESULT}") as file:
                    found.append(Part(chunk, read_outcomes(file, self.sizes[chunk])))
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

    def failed(self, chunk: int, error: ClientError) -> Part:
        """A chunk that will have no result."""
        self.missing.discard(chunk)
        return Part(chunk, [CallResult(error=error)] * self.sizes[chunk])


def _chunk_of(name: str) -> tuple[int, str]:
    """Return the chunk that a file belongs to; None for the payload and its index."""
    number, dot, suffix = name.partition(".")
    return (int(number), dot + suffix) if number.isdecimal() else (-1, name)


def job_of(bundle: Bundle, name: str, python: str, keys: Mapping[str, Any]) -> Job:
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


def submit(bundle: Bundle, job: Job, key: str, budget: RetryBudget) -> Operation[None]:
    """Submit the job of a bundle."""
    made = yield from operations.submit([job], key, budget)
    bundle.job = made[0].id


def places(resource: Any, budget: RetryBudget) -> Operation[int]:
    """About how many tasks of this request can run at the same time, 1 at least."""
    nodes = yield from operations.nodes("", "", budget)
    dimensions = Dimensions()
    try:
        asked: Any = plain_keys({"resource": "<1>" if resource is None else resource})["resource"]
        cpu = parse_vector(asked, dimensions)[dimensions.index["cpu"]]
    except InputError:
        cpu = 1000  # with dimensions of its own, or wrong: the center will say so
    up = (node.capacity_amounts.get("cpu", 0) for node in nodes if node.state == "up")
    return max(1, sum(amount // max(cpu, 1) for amount in up))


def chunk_size(items: int, slots: int) -> int:
    """Items for one task, so that every place gets some chunks."""
    return max(1, -(-items // (slots * CHUNKS_EACH)))


class Deadline(NamedTuple):
    """The end of the patience of a call that may take ``seconds``: a moment ``at`` of the monotonic clock."""

    seconds: float
    at: float

    @classmethod
    def after(cls, seconds: float | None) -> Deadline | None:
        """Return the deadline of a call that begins now; ``None``: there is none."""
        return None if seconds is None else cls(seconds, time.monotonic() + seconds)


def parts(bundle: Bundle, budget: RetryBudget, deadline: Deadline | None = None) -> Operation[None]:
    """Emits the parts of a bundle as they come; those of tasks that died are errors. All of them, in the end.

    Raises TimeoutError when nothing new is there at the deadline.
    """
    pause = SOON
    while bundle.missing:
        found = yield from poll(bundle, pause, budget)
        for part in found:
            yield Emit(part)
        if not found and deadline is not None and time.monotonic() >= deadline.at:
            raise TimeoutError(_late(bundle, deadline.seconds))
        pause = SOON if found else min(pause * 1.5, SELDOM)


def _late(bundle: Bundle, seconds: float) -> str:
    view, total = bundle.view, len(bundle.sizes)
    head = (
        f"job {bundle.job}"
        if view is None
        else f"job {view.id} ({view.name}) is {view.state}{operations.because(view)}"
    )
    done = f"{total - len(bundle.missing)} of {total} tasks have results"
    return f"{head}; {done} after {seconds:g} s, and it is cancelled"


def poll(bundle: Bundle, wait: float, budget: RetryBudget) -> Operation[list[Part]]:
    """Return new results; if there are none, ask the center about the job and wait up to ``wait`` seconds."""
    found: list[Part] = yield RunBlocking(bundle.look)
    if found or not bundle.missing:
        return found
    view = bundle.view = yield from retried(calls.job(bundle.job, wait=wait), budget)
    bundle.waiting.look(view)
    found = yield from died(bundle, view, budget)
    if found or view.state not in OVER_WORDS:
        return found
    now = time.monotonic()
    bundle.over_since = bundle.over_since or now
    if view.state == "cancelled" or now - bundle.over_since > LATE:
        return (yield from _give_up(bundle, view))
    yield Sleep(wait)
    return []


def _give_up(bundle: Bundle, view: JobView) -> Operation[list[Part]]:
    found: list[Part] = yield RunBlocking(bundle.look)
    sentence = f"job {view.id} ({view.name}) {view.state}{f': {view.reason}' if view.reason else ''}"
    if view.state == "succeeded":
        sentence += f", but there are no results in {bundle.spool.address}: is this a folder that all nodes share?"
    return found + [bundle.failed(chunk, TaskDied(sentence)) for chunk in sorted(bundle.missing)]


def died(bundle: Bundle, view: JobView, budget: RetryBudget) -> Operation[list[Part]]:
    """Return the results of chunks whose tasks failed and are not retried."""
    if not view.tasks.failed:
        return []
    tasks = yield from operations.tasks(view.id, "failed", budget)
    mine = [task for task in tasks if task.index in bundle.missing]
    if not mine:
        return []
    # A task may fail after its result was written.
    found: list[Part] = yield RunBlocking(bundle.look)
    told: JobFailed | None = None
    for number, task in enumerate(task for task in mine if task.index in bundle.missing):
        if told is None or number < operations.MOST_FAILED:
            told = yield from operations.failure(view, budget, [task])
        found.append(bundle.failed(task.index, TaskDied(str(told))))
    return found


def end(bundle: Bundle, budget: RetryBudget) -> Operation[None]:
    """Cancel what still runs of a bundle, and remove its folder."""
    try:
        if bundle.job and (bundle.missing or bundle.unwanted):
            yield from retried(calls.cancel(bundle.job), budget)
            yield from operations.wait(bundle.job, GONE, budget)
    except (ClientError, TimeoutError):
        pass  # the folder goes anyway: tasks that find nothing end
    yield RunBlocking(bundle.spool.clear)


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
