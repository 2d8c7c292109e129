"""``cress apply``: create and update services, databases and cron jobs from files."""

from __future__ import annotations

from typing import Annotated

import typer

from cress.cli.common import Data, Json, connect, print_json
from cress.cli.errors import told
from cress.cli.tables import clean

EPILOG = """\
\b
Examples:
  cress apply shop.yaml
  cress apply --dry-run shop.yaml

\b
A job that is not there is created. One of its name and group that is not as the file says is updated, without an
interruption (docs/jobs.md), or scaled, when only the number of tasks is another one. One that is as the file says stays as
it is. Jobs of other files are not touched. All of it is checked before anything is done.
Exit codes: 0 done, 2 bad input, 3 not accepted, or no center could be asked. With 2 nothing was changed.
"""


def apply(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Job files in YAML or JSON; - is standard input.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Make services, databases and cron jobs what files say."""
    with told("apply"):
        from cress.cli.jobfile import read_jobs
        from cress.cli.submit import in_directory_of, placed

        entries = read_jobs(files)
        with connect(data) as client:
            from cress.client import Refused

            try:
                page = client.apply([in_directory_of(entry) for entry in entries], dry_run=dry_run)
            except Refused as error:
                raise placed(error, entries) from None
        if as_json:
            print_json(page)
            return
        for job in page.jobs:
            head = f"job {job.id} ({clean(job.name)})" if job.id else clean(job.name)
            done = job.what if not dry_run or job.what == "unchanged" else f"would be {job.what}"
            print(f"{head} {done}{f'; {clean(job.note)}' if job.note else ''}")
