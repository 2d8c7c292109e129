"""``cress hold`` and ``cress release``: hold jobs until they are released."""

from __future__ import annotations

from typing import Annotated

import typer

from cress.cli.common import Data, Json, connect, print_json
from cress.cli.errors import told
from cress.cli.job_names import jobs_named
from cress.cli.tables import clean

HOLD = """\
\b
Example:
  cress hold 12 13

\b
A held job starts no more tasks; its running tasks go on. `cress release` lets it start again.
All of the given jobs are held, or none.
Exit codes: 0 done, 2 bad input (such as an unknown job), 3 not accepted (such as an ended job), or no center reachable.
"""
RELEASE = """\
\b
Example:
  cress release 12 13

\b
A released job has its old place in the queue.
All of the given jobs are released, or none.
Exit codes: 0 done, 2 bad input (such as an unknown job), 3 not accepted (such as an ended job), or no center reachable.
"""

Jobs = Annotated[list[str], typer.Argument(metavar="JOB", help="Jobs (ids or names).")]


def hold(jobs: Jobs, as_json: Json = False, data: Data = None) -> None:
    """Hold jobs: start no tasks of them until they are released."""
    _change("hold", jobs, as_json, data)


def release(jobs: Jobs, as_json: Json = False, data: Data = None) -> None:
    """Release held jobs, so that they may start."""
    _change("release", jobs, as_json, data)


def _change(verb: str, jobs: list[str], as_json: bool, data: Data) -> None:
    with told(verb):
        with connect(data) as client:
            ids = jobs_named(client, jobs)
            held = client.hold_jobs(ids) if verb == "hold" else client.release_jobs(ids)
        if as_json:
            print_json(held)
            return
        for view in held.jobs:
            print(f"job {view.id} ({clean(view.name)}) {'waits until it is released' if view.held else 'is released'}")
