"""``cress apply``: create and update services, databases and cron jobs from files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import PATIENCE, Data, Json, connect, duration_of, print_json
from cress.cli.errors import Interrupted, told
from cress.cli.inputs import with_inputs
from cress.cli.interrupts import delayed_interrupt
from cress.cli.tables import clean
from cress.model.errors import InputError
from cress.model.times import SECOND

if TYPE_CHECKING:
    from cress.client import AppliedJob, Client
    from cress.client.applied import Progress

EPILOG = """\
\b
Examples:
  cress apply shop.yaml
  cress apply --dry-run shop.yaml
  cress apply --diff shop.yaml
  cress apply --wait --timeout 10min shop.yaml

\b
Each job of the files is compared with the live job of the same name and group. A missing job is created. A different
one is updated without an interruption (docs/jobs.md), or scaled if only its number of tasks differs. An equal one stays
as it is, and so do jobs that the files do not name. All files are checked before anything is changed.
--diff shows the keys that differ, each with the present value and that of the file, and changes nothing; --dry-run is
another word for it. A number of tasks that `cress scale` has set is set back to that of the file, and the line of the
job says so.
An update replaces the tasks one by one as the new version becomes ready, and is rolled back if it does not.
--wait ends when all tasks of the services and databases in the files have the new version and are ready. Ctrl-C ends
the wait; the update goes on.
Exit codes: 0 done (with --wait: ready), 1 with --wait: a version was rolled back, was not ready in time, or was
replaced by another one; 2 bad input (nothing was changed), 3 not accepted, or no center reachable, 130 interrupted.
"""

NOT_READY = 1


def apply(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Job files in YAML or JSON; - is standard input.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without making them.")] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show the keys that differ from the running jobs, without changing them.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the new versions are ready, or have failed.")
    ] = False,
    timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Stop waiting after this time, such as 10min (with --wait). Default: no limit."
        ),
    ] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Create or update services, databases and cron jobs."""
    with told("apply"):
        from cress.cli.jobfile import read_jobs
        from cress.cli.placed import placed
        from cress.cli.submit import in_directory_of

        if wait and (dry_run or diff):
            what = "--dry-run" if dry_run else "--diff"
            raise InputError(f"cannot be combined with {what}", hint="only one of them", field="--wait")
        dry_run = dry_run or diff
        if timeout is not None and not wait:
            raise InputError("has no effect without --wait", hint="give --wait, too", field="--timeout")
        longest = None if timeout is None else duration_of(timeout, "--timeout") / SECOND
        entries = read_jobs(files)
        with connect(data) as client:
            from cress.client import Refused

            jobs = [in_directory_of(entry) for entry in entries]
            applied: Sequence[AppliedJob] = ()
            ended: dict[int, Progress] = {}
            try:
                with delayed_interrupt("the changes may have been applied (see: cress jobs)") as interrupt:
                    try:
                        page = client.apply(with_inputs(client, entries, jobs, send=not dry_run), dry_run=dry_run)
                    except Refused as error:
                        raise placed(error, entries) from None
                    applied = page.jobs
                if not as_json:
                    for job in page.jobs:
                        print(_line(job, dry_run=dry_run, wait=wait), flush=True)
                        for line in _differences(job) if dry_run else ():
                            print(line, flush=True)
                elif not wait:
                    print_json(page)
                interrupt.deliver()
                if wait:
                    _wait(client, page.jobs, longest, ended, as_json=as_json)
            except KeyboardInterrupt:
                if dry_run or not applied:
                    raise
                left = [job.id for job in applied if job.id not in ended and job.version is not None]
                see = f"cress job {left[0]}" if len(left) == 1 else "cress jobs"
                raise Interrupted(f"interrupted; the applied changes go on (see: {see})") from None


def _line(job: AppliedJob, *, dry_run: bool, wait: bool) -> str:
    """Return a line about a job: what was done, or has begun."""
    head = f"job {job.id} ({clean(job.name)})" if job.id else clean(job.name)
    note = f"; {clean(job.note)}" if job.note else ""
    if dry_run:
        return f"{head} {job.what if job.what == 'unchanged' else f'would be {job.what}'}{note}"
    if job.what == "updated" and job.updating:
        follow = "" if wait else f" (follow it: cress job {job.id}, or apply with --wait)"
        return f"{head} is being updated to version {job.version}{note}{follow}"
    return f"{head} {job.what}{note}"


def _differences(job: AppliedJob) -> list[str]:
    """Return a line for each key that differs: the present value, and that of the file."""
    return [f"  {clean(change.key)}: {_value(change.before)} -> {_value(change.after)}" for change in job.changes]


def _value(text: str | None) -> str:
    """Return a value on one line."""
    return "(not given)" if text is None else clean(text) or "(empty)"


def _wait(
    client: Client, jobs: Sequence[AppliedJob], longest: float | None, ended: dict[int, Progress], *, as_json: bool
) -> None:
    """Wait for the versions of all jobs, and note each end in ``ended``; exit with 1 if some are not ready."""
    from cress.client.blocking.applied import follow
    from cress.client.blocking.patient import PatientHttp
    from cress.client.retries import RetryBudget

    def tell(job: AppliedJob, progress: Progress) -> None:
        if not progress.waits:
            ended[job.id] = progress
        head = f"job {job.id} ({clean(job.name)})"
        if progress.waits:
            typer.echo(f"cress apply: {head} waits: {clean(progress.waits)}", err=True)
        elif progress.problem:
            typer.echo(f"cress apply: {head}: {clean(progress.problem)}", err=True)
        elif job.version is not None and not as_json:
            print(f"{head} is ready: all tasks are of version {job.version}", flush=True)

    follow(jobs, longest, PatientHttp(client, RetryBudget(PATIENCE)), tell)
    if as_json:
        print_json(
            {
                "jobs": [
                    {
                        "id": job.id,
                        "name": job.name,
                        "what": job.what,
                        "note": job.note,
                        "changes": [
                            {"key": change.key, "before": change.before, "after": change.after}
                            for change in job.changes
                        ],
                        "version": job.version,
                        "ready": ended[job.id].ready,
                        "problem": ended[job.id].problem,
                    }
                    for job in jobs
                ]
            }
        )
    if any(view.problem for view in ended.values()):
        raise typer.Exit(NOT_READY)
