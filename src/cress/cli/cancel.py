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
Tasks that run get SIGTERM, and SIGKILL after the job's stop_grace. A job that is over stays as it is.
Exit codes: 0 done, 2 bad input (no such job: then none was cancelled), 3 not accepted, or no center could be asked.
"""

OVER = frozenset({"succeeded", "failed", "cancelled"})


def cancel(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB", help="The jobs to cancel: ids or names.")],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Cancel jobs."""
    with told("cancel"), connect(data) as client:
        ids = jobs_named(client, jobs)
        # Looked at first: a mistyped id must not leave half of them cancelled.
        before = [client.job(id) for id in ids]
        for view in before:
            if view.state not in OVER:
                client.cancel(view.id)
        if as_json:
            print_json({"jobs": [client.job(id) for id in ids]})
            return
        for view in before:
            over = f"is over already: {view.state}" if view.state in OVER else "cancelled"
            print(f"job {view.id} ({clean(view.name)}) {over}")
