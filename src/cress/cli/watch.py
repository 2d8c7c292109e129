"""``cress watch``: follow a job until its end."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli import completion
from cress.cli.common import Data, connect, count, patiently
from cress.cli.errors import Interrupted, told
from cress.cli.job_names import job_named
from cress.cli.tables import clean
from cress.model.records import OVER_WORDS

if TYPE_CHECKING:
    from cress.client import Client, JobView

EPILOG = """\
\b
Examples:
  cress watch 12
  cress watch nightly && ./publish.sh

\b
A line is printed when the state of the job, the reason why it waits or the expected start changes. Ctrl-C ends the
command, not the job.
Exit codes: the task's own (the highest of several tasks; 124 after a time limit, 137 out of memory, 1 if the job was
cancelled), 2 bad input, 3 no center reachable, 130 interrupted.
"""

# Seconds from one look to the next: the center itself answers as soon as the job has ended.
FIRST, MOST = 0.5, 5.0
# Most tasks whose exit codes are read.
MOST_TASKS = 1_000
CANCELLED = 1


def watch(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Job (id or name).", autocompletion=completion.jobs)],
    data: Data = None,
) -> None:
    """Follow the state of a job until its end."""
    with told("watch"):
        with connect(data) as client:
            id = job_named(client, job)
            try:
                code = _follow(client, id)
            except KeyboardInterrupt:
                raise Interrupted(f"interrupted; job {id} goes on") from None
        raise typer.Exit(code)


def _follow(client: Client, id: int) -> int:
    from cress.cli.progress import line

    said, pause = "", 0.0
    while True:
        view = patiently(partial(client.job, id, pause), "watch")
        if view.state in OVER_WORDS:
            break
        text = state_of(view, time.time())
        if text != said:
            typer.echo(f"{time.strftime('%H:%M:%S')} {text}")
            said, pause = text, FIRST
        pause = min(max(pause, FIRST) * 1.5, MOST)
    typer.echo(f"{time.strftime('%H:%M:%S')} {line(view)}")
    return _code_of(client, view)


def state_of(view: JobView, now: float) -> str:
    """Return the state of an unfinished job as a line, with its reason and its expected start."""
    from cress.cli.jobs import starts

    tasks = view.tasks
    text = f"job {view.id} ({clean(view.name)}) {view.state}"
    if tasks.total > 1:
        text += f": {tasks.running:,} of {count(tasks.total, 'task')} run, {tasks.succeeded:,} succeeded"
        text += f", {tasks.failed:,} failed" * bool(tasks.failed)
    if view.reason:
        text += f"; {clean(view.reason)}"
    if view.expected_start is not None:
        when = starts(view.expected_start, now)
        text += "" if when == "-" else f"; expected to start: {when}"
    return text


def _code_of(client: Client, view: JobView) -> int:
    """Return the exit code for an ended job: that of its tasks, the highest of several."""
    from cress.cli.run import code_of

    if view.state == "succeeded":
        return 0
    if view.type in ("dag", "service", "database", "cron"):
        return CANCELLED
    codes, after = [], None
    while True:
        page = client.tasks(view.id, after=after)
        codes += [code_of(task) for task in page.tasks]
        after = page.next
        if after is None or len(codes) >= MOST_TASKS:
            return max(codes, default=CANCELLED) or CANCELLED
