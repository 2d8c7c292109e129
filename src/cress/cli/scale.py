"""``cress scale``, ``resume`` and ``trigger``: the task count of a service, a failed dag again, a cron job at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli import completion
from cress.cli.common import Data, Json, connect, count, given_as, print_json
from cress.cli.errors import told
from cress.cli.job_names import job_named
from cress.cli.tables import clean

if TYPE_CHECKING:
    from cress.cli.jobfile import JobInFile

SCALE = """\
\b
Examples:
  cress scale web 5
  cress scale 12 0     stop all tasks, but keep the service

\b
Tasks with the highest numbers are added or removed. A timetable of the job applies again from its next time on.
Exit codes: 0 done, 2 bad input (such as an unknown job), 3 not accepted (neither a service nor a database), or no
center reachable.
"""
RESUME = """\
\b
Examples:
  cress resume 12
  cress resume etl --from load           also load, and all steps behind it
  cress resume etl --only report         nothing but report
  cress resume etl --file etl.yaml       the steps as in a corrected file

\b
The steps that did not succeed are submitted again, as a new dag. `cress job ID` shows them. A step of a corrected file
that the dag did not have runs too.
Exit codes: 0 done, 2 bad input (such as an unknown job), 3 not accepted (not a dag, or not ended), or no center
reachable.
"""
TRIGGER = """\
\b
Examples:
  cress trigger nightly                         a run now
  cress trigger nightly --at '2026-11-02 03:00' a run for that time
  cress trigger nightly --since 7d              a run for each of its times in the last seven days

\b
Tasks find the time in CRESS_SCHEDULED, and that of the run before in CRESS_SCHEDULED_BEFORE (both in UTC). Unless
the cron job has `overlap: allow`, each run waits for the end of the one before.
Exit codes: 0 done, 2 bad input (such as an unknown job), 3 not accepted (such as a job of another type), or no center
reachable.
"""


def scale(
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="Service or database (id or name).", autocompletion=completion.jobs)
    ],
    tasks: Annotated[str, typer.Argument(metavar="N", help="New number of tasks.")],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Change the number of tasks of a service or database."""
    with told("scale"):
        from cress.model.jobfile.values import MAX_TASKS
        from cress.model.units import parse_count

        with given_as("N"):
            wanted = parse_count(tasks, least=0, most=MAX_TASKS)
        with connect(data) as client:
            view = client.scale(job_named(client, job), wanted)
        if as_json:
            print_json(view)
        else:
            print(f"job {view.id} ({clean(view.name)}) will have {count(wanted, 'task')}")


def resume(
    job: Annotated[
        str,
        typer.Argument(metavar="DAG", help="Dag that has ended (id or name).", autocompletion=completion.jobs),
    ],
    again: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="STEP", help="Run this step again, and all behind it. Repeatable."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="STEP", help="Run nothing but this step. Repeatable.")
    ] = None,
    file: Annotated[str, typer.Option("--file", metavar="FILE", help="Run the steps as in this corrected file.")] = "",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Run the unfinished steps of a dag again, or others."""
    with told("resume"):
        from cress.model.errors import InputError

        if again and only:
            raise InputError("cannot be combined with --from", hint="one or the other", field="--only")
        entry = _dag_in(file) if file else None
        with connect(data) as client:
            from cress.cli.inputs import with_inputs
            from cress.cli.submit import in_directory_of
            from cress.client import calls

            mapping = with_inputs(client, [entry], [in_directory_of(entry)])[0] if entry is not None else None
            id = job_named(client, job)
            page = client.ask(calls.resume(id, only or again or (), only=bool(only), job=mapping))
        if as_json:
            print_json(page)
            return
        (made,) = page.jobs
        note = f"; {clean(made.note)}" if made.note else ""
        which = "some" if only or again else "the unfinished"
        print(f"job {made.id} ({clean(made.name)}) submitted: re-runs {which} steps of job {id}{note}")


def _dag_in(file: str) -> JobInFile:
    """Return the only job of a file. Raises InputError."""
    from cress.cli.jobfile import read_jobs
    from cress.model.errors import InputError

    entries = read_jobs([file])
    if len(entries) != 1:
        raise InputError(f"has {len(entries)} jobs", hint="one: the corrected dag", file=file)
    return entries[0]


def trigger(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Cron job (id or name).", autocompletion=completion.jobs)],
    at: Annotated[str, typer.Option("--at", metavar="TIME", help="Time of the run. Default: now.")] = "",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="A run for each time of the cron job from then on, such as 7d.")
    ] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="With --since: until before then. Default: now.")] = "",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Run a cron job at once, or for earlier times."""
    with told("trigger"):
        from cress.cli.past_times import moment_of, span_of
        from cress.model.errors import InputError

        if at and (since or until):
            raise InputError("cannot be combined with --since and --until", hint="one or the other", field="--at")
        if until and not since:
            raise InputError("has no effect without --since", hint="give --since, too", field="--until")
        first, last = span_of(since, until, "--since") if since else (0, None)
        with connect(data) as client:
            from cress.client import calls

            call = calls.trigger(
                job_named(client, job),
                moment_of(at, "--at") / 1e6 if at else None,
                since=first / 1e6 if since else None,
                until=None if last is None else last / 1e6,
            )
            page = client.ask(call)
        if as_json:
            print_json(page)
            return
        for made in page.jobs:
            print(f"job {made.id} ({clean(made.name)}) submitted")
