"""``cress hold`` and ``cress release``: hold jobs until they are released."""

from __future__ import annotations

from cress.cli.chosen_jobs import HELP, DryRun, JobChoice, choosing, list_only
from cress.cli.common import Data, Json, connect, print_json
from cress.cli.errors import told
from cress.cli.tables import clean

HOLD = f"""\
\b
Examples:
  cress hold 12 13
  cress hold --group web --state waiting

\b
{HELP}
A held job starts no more tasks; its running tasks go on. `cress release` lets it start again.
All of the given jobs are held, or none.
Exit codes: 0 done, 2 bad input (such as an unknown job), 3 not accepted (such as an ended job), or no center reachable.
"""
RELEASE = f"""\
\b
Examples:
  cress release 12 13
  cress release --group web

\b
{HELP}
A released job has its old place in the queue.
All of the given jobs are released, or none.
Exit codes: 0 done, 2 bad input (such as an unknown job), 3 not accepted (such as an ended job), or no center reachable.
"""


@choosing
def hold(choice: JobChoice, dry_run: DryRun = False, as_json: Json = False, data: Data = None) -> None:
    """Hold jobs: start no tasks of them until they are released."""
    _change("hold", choice, dry_run, as_json, data)


@choosing
def release(choice: JobChoice, dry_run: DryRun = False, as_json: Json = False, data: Data = None) -> None:
    """Release held jobs, so that they may start."""
    _change("release", choice, dry_run, as_json, data)


def _change(verb: str, choice: JobChoice, dry_run: bool, as_json: bool, data: Data) -> None:
    with told(verb):
        with connect(data) as client:
            ids = choice.ids(client)
            if dry_run:
                list_only(client, ids, "held" if verb == "hold" else "released")
                return
            held = client.hold_jobs(ids) if verb == "hold" else client.release_jobs(ids)
        if as_json:
            print_json(held)
            return
        for view in held.jobs:
            print(f"job {view.id} ({clean(view.name)}) {'waits until it is released' if view.held else 'is released'}")
