"""``cress fetch``: bring back files that tasks have left in their directories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli import completion
from cress.cli.common import Data, Json, connect, count, print_json
from cress.cli.errors import told
from cress.cli.job_names import task_named
from cress.cli.tables import clean
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.client import Client, JobView
    from cress.client.fetched import FetchedFile

EPILOG = """\
\b
Examples:
  cress fetch 12                     all that the tasks of job 12 wrote, into the folder job-12
  cress fetch 12.3 --to results      that of task 3 alone
  cress fetch 12 report.pdf 'out/*.csv' --to .
  cress fetch 12 --attempt 1         what the first attempt of the task left

\b
PATH is a file, a folder or a pattern (*, ?, [..], ** for folders at any depth) in the directory of the task. Without
PATH the input files that the program left unchanged stay there. The node keeps the directory as long as the logs of the
attempt (docs/files.md#fetch). Of a job with several tasks, each gets a folder with its index.
Exit codes: 0 fetched, 2 bad input (such as an unknown job), 3 nothing to fetch, or the node or center is not reachable.
"""

NAME = "job-"


def fetch(
    job: Annotated[
        str,
        typer.Argument(
            metavar="JOB[.TASK]", help="Job (id or name), or one of its tasks.", autocompletion=completion.jobs
        ),
    ],
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH", help="Files, folders or patterns. Default: all written files.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Folder for the files. Default: job-ID, here.")
    ] = None,
    task: Annotated[int | None, typer.Option("--task", metavar="N", min=0, help="Only this task.")] = None,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", metavar="N", min=1, help="Attempt N of the task, from 1. Default: the last one."),
    ] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Fetch files from the directories of a job's tasks."""
    with told("fetch"), connect(data) as client:
        number, named = task_named(client, job)
        view = client.job(number)
        if named is not None and task not in (None, named):
            raise InputError(f"{task} is not the task in {job}", hint="only one of them", field="--task")
        tasks = _tasks(client, view, named if task is None else task)
        if attempt is not None and len(tasks) > 1:
            raise InputError("is for one task", hint=f"{view.id}.0, say", field="--attempt")
        folder = to or Path(f"{NAME}{view.id}")
        found: list[FetchedFile] = []
        for index in tasks:
            place = folder / str(index) if view.tasks.total > 1 and len(tasks) > 1 else folder
            found += _fetch(client, view.id, index, paths or [], place, attempt)
        if as_json:
            print_json({"job": view.id, "files": [{"name": one.name, "path": str(one.path), "size": one.size,
                                                   "skipped": one.skipped} for one in found]})  # fmt: skip
            return
        for one in found:
            if one.skipped:
                typer.echo(f"cress fetch: note: {clean(one.name)} is left out: {clean(one.skipped)}", err=True)
        kept = [one for one in found if not one.skipped]
        size = sum(one.size for one in kept)
        print(f"{count(len(kept), 'file')} ({size:,} bytes) of job {view.id} ({clean(view.name)}) in {folder}")


def _tasks(client: Client, view: JobView, task: int | None) -> list[int]:
    """Return the tasks to fetch from: one, or all that have started."""
    if view.type in ("dag", "cron"):
        members = "steps" if view.type == "dag" else "runs"
        raise InputError(f"job {view.id} is a {view.type}, whose {members} have the files", hint=f"cress job {view.id}")
    if task is not None:
        return [task]
    if view.tasks.total == 1:
        return [0]
    found: list[int] = []
    after: int | None = None
    while True:
        page = client.tasks(view.id, after=after)
        found += [one.index for one in page.tasks if one.attempts]
        if page.next is None:
            return found
        after = page.next


def _fetch(
    client: Client, job: int, task: int, paths: list[str], place: Path, attempt: int | None
) -> list[FetchedFile]:
    from cress.client.blocking.fetching import fetch as fetched

    number: int | None = None
    if attempt is not None:
        known = client.task(job, task).attempts
        if attempt > len(known):
            hint = f"1 to {len(known)}" if known else "none has started yet"
            raise InputError(f"task {task} of job {job} has no attempt {attempt}", hint=hint, field="--attempt")
        number = known[attempt - 1].id
    return fetched(job, paths, place, client, task=task, attempt=number)
