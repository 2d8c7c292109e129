"""Waiting for jobs, with a bar for each job on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import typer

from cress.cli.common import patiently
from cress.cli.tables import clean
from cress.model.records import FAILED_WORDS, OVER_WORDS

if TYPE_CHECKING:
    from cress.client import Client, JobView

# Seconds between two updates of a bar; the center itself answers as soon as a job has ended.
QUIET, MOVING = 30.0, 0.3
# Most bars on a screen; for more jobs, one bar stands for all.
MOST_BARS = 10


def wait_for(client: Client, ids: Sequence[int], verb: str) -> list[JobView]:
    """Wait until all these jobs have ended; return their last views in the same order."""
    from cress.client.waiting import Waiting

    waiting = {id: Waiting() for id in ids}
    with ExitStack() as stack:
        moves = _bars(stack, len(ids)) if sys.stderr.isatty() else None
        found: dict[int, JobView] = {}
        open_ids = list(ids)
        while open_ids:
            # With a bar for each, the call waits for the first job, and the others are polled.
            for position, id in enumerate(open_ids if moves else open_ids[:1]):
                wait = 0.0 if position else MOVING if moves else waiting[id].until(QUIET)
                view = patiently(lambda id=id, wait=wait: client.job(id, wait), verb)  # type: ignore[misc]
                found[id] = view
                if moves:
                    moves(view)
                elif view.state == "waiting" and waiting[id].tells(view.reason):
                    typer.echo(f"cress {verb}: job {id} ({clean(view.name)}) waits: {clean(view.reason)}", err=True)
            open_ids = [id for id in open_ids if id not in found or found[id].state not in OVER_WORDS]
        return [found[id] for id in ids]


def line(view: JobView) -> str:
    """Return a line about a job: ``job 12 (etl) failed: 3 of 10 tasks failed``."""
    tasks = view.tasks
    head = f"job {view.id} ({clean(view.name)}) {view.state}"
    parts = "steps" if view.type == "dag" else "tasks"
    if view.state in FAILED_WORDS and tasks.total > 1:
        return f"{head}: {tasks.failed:,} of {tasks.total:,} {parts} failed"
    if view.state == "cancelled" and tasks.total > 1:
        return f"{_because(head, view)}: {tasks.succeeded:,} of {tasks.total:,} {parts} had succeeded"
    return _because(head, view) if view.state != "succeeded" else head


def _because(head: str, view: JobView) -> str:
    """Return the head with the reason, without the repeated state in reasons such as ``cancelled by ann``."""
    reason = clean(view.reason)
    if reason.startswith(f"{view.state} "):
        return head + reason.removeprefix(view.state)
    return f"{head}: {reason}" if reason else head


def _bars(stack: ExitStack, jobs: int) -> Callable[[JobView], None]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[what]}"),
    )
    bar = stack.enter_context(Progress(*columns, console=Console(stderr=True), transient=True))
    known: dict[int, TaskID] = {}
    if jobs > MOST_BARS:
        over: set[int] = set()
        whole = bar.add_task(f"{jobs} jobs", total=jobs, what="")

        def count(view: JobView) -> None:
            if view.state in OVER_WORDS:
                over.add(view.id)
            bar.update(whole, completed=len(over))

        return count

    def move(view: JobView) -> None:
        if view.id not in known:
            known[view.id] = bar.add_task(f"{view.id} {escape(clean(view.name))}", total=view.tasks.total, what="")
        tasks = view.tasks
        done = tasks.succeeded + tasks.failed + tasks.cancelled
        parts = [
            f"{number:,} {word}" for number, word in ((tasks.running, "running"), (tasks.failed, "failed")) if number
        ]
        if view.state == "waiting" and view.reason:
            parts.append(f"waits: {clean(view.reason)}")
        bar.update(known[view.id], completed=done, what=escape(", ".join(parts)))

    return move
