"""``cress cancel``: cancel jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from cress.cli.common import Data, Json, connect, print_json
from cress.cli.errors import told
from cress.cli.job_names import jobs_named
from cress.cli.tables import clean

EPILOG = """\
\b
Example:
  cress cancel 12 13

\b
Running tasks get SIGTERM, and SIGKILL after the job's stop_grace. A job that has ended stays as it is.
All jobs are checked before the first one is cancelled. If the center fails in between, repeat the command.
Exit codes: 0 done, 2 bad input (an unknown job: none was cancelled), 3 not accepted, or no center reachable.
"""


def cancel(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB", help="Jobs to cancel (ids or names).")],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Cancel jobs."""
    with told("cancel"), connect(data) as client:
        ids = jobs_named(client, jobs)
        cancelled = client.cancel_jobs(ids)
        if as_json:
            print_json(cancelled)
            return
        for job in cancelled.jobs:
            over = f"has already ended: {job.state}" if job.was_over else "cancelled"
            print(f"job {job.id} ({clean(job.name)}) {over}")
