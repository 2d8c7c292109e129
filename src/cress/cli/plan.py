"""``cress plan``: where and when a job would start, whom it would preempt, and what would wait longer."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from cress.cli.common import Data, Deadline, Json, Licence, Workload, connect, print_json
from cress.cli.consequences import limits, tell_planned, tell_shifts, tell_stopped
from cress.cli.errors import told
from cress.cli.inputs import with_inputs
from cress.cli.placed import placed
from cress.cli.submit import in_directory_of, with_deadline, with_licences, with_workload

EPILOG = """\
\b
Examples:
  cress plan train.yaml
  cress plan --deadline 6h train.yaml
  cress plan --json train.yaml

\b
A copy of the cluster runs forward in virtual time, with the job and without it. Nothing is submitted. Runs end by
their estimates, or at their time limits; jobs that others submit later are not foreseen (docs/plan.md).
Exit codes: 0 done, 2 bad input, 3 not accepted (such as a job that can never run), or no center reachable.
"""

Seconds = Annotated[
    float, typer.Option("--seconds", min=0.1, max=45, metavar="N", help="Maximum time to compute, in seconds.")
]


def plan(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Job files in YAML or JSON; - is standard input.")],
    licence: Licence = None,
    workload: Workload = None,
    deadline: Deadline = None,
    seconds: Seconds = 20.0,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Show where and when jobs would start.

    Nothing is submitted.
    """
    with told("plan"):
        from cress.cli.jobfile import read_jobs
        from cress.client import Refused, calls

        entries = read_jobs(files)
        given = [with_deadline(with_licences(in_directory_of(entry), licence), deadline) for entry in entries]
        jobs = [with_workload(mapping, workload) for mapping in given]
        with connect(data) as client:
            try:
                sent = with_inputs(client, entries, jobs, send=False)
                found = client.ask(calls.what_if({"jobs": sent}, seconds))
            except Refused as error:
                raise placed(error, entries) from None
        if as_json:
            print_json(found)
            return
        for job in found.jobs:
            tell_planned(job, found)
        now = time.time()
        tell_stopped(found.stopped, now)
        tell_shifts(found, now)
        for note in limits(found):
            print(note)
