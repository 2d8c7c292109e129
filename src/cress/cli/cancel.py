"""``cress cancel``: cancel jobs."""

from __future__ import annotations

from cress.cli.chosen_jobs import HELP, DryRun, JobChoice, choosing, list_only
from cress.cli.common import Data, Json, connect, print_json
from cress.cli.errors import told
from cress.cli.tables import clean

EPILOG = f"""\
\b
Examples:
  cress cancel 12 13
  cress cancel 12-40
  cress cancel --state waiting --name 'train-*' --dry-run

\b
{HELP}
Running tasks get SIGTERM, and SIGKILL after the job's stop_grace. A job that has ended stays as it is.
All jobs are checked before the first one is cancelled. If the center fails in between, repeat the command.
Exit codes: 0 done, 2 bad input (an unknown job: none was cancelled), 3 not accepted, or no center reachable.
"""


@choosing
def cancel(choice: JobChoice, dry_run: DryRun = False, as_json: Json = False, data: Data = None) -> None:
    """Cancel jobs."""
    with told("cancel"), connect(data) as client:
        ids = choice.ids(client)
        if dry_run:
            list_only(client, ids, "cancelled")
            return
        cancelled = client.cancel_jobs(ids)
        if as_json:
            print_json(cancelled)
            return
        for job in cancelled.jobs:
            over = f"has already ended: {job.state}" if job.was_over else "cancelled"
            print(f"job {job.id} ({clean(job.name)}) {over}")
