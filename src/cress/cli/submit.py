"""``cress submit``: submit job files."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import STANDARD_INPUT, Data, Deadline, Json, Licence, Workload, connect, print_json
from cress.cli.errors import Interrupted, told
from cress.cli.inputs import with_inputs
from cress.cli.interrupts import delayed_interrupt
from cress.cli.job_options import KeyValue, with_key, with_values
from cress.cli.placed import placed
from cress.cli.tables import clean
from cress.model.errors import InputError
from cress.model.jobfile.directory import in_folder, needs_folder

if TYPE_CHECKING:
    from cress.cli.jobfile import JobInFile
    from cress.client import Client, Submitted, SubmittedPage

EPILOG = """\
\b
The smallest job file, and a larger one (all keys: docs/commands.md):
  command: echo hello

  name: sweep
  command: [python3, sweep.py, --verbose]
  tasks: 100
  resource: <2, 4G>
  time_limit: 30min

\b
Examples:
  cress submit sweep.yaml
  cress submit --wait prepare.yaml sweep.yaml
  cress submit --licence matlab=2 sweep.yaml
  cress submit --strict --deadline 6h sweep.yaml
  cress submit --dry-run sweep.yaml     check whether it can ever run; submit nothing
  cress submit --name eta --time-limit 1h --env SEED=7 -- ./train --epochs 3
  cress submit --group research train.sh --epochs 3   a script; its #CRESS, #SBATCH or #PBS lines are options
  echo 'command: echo hello' | cress submit -
  cress submit -p lr=0.1 -p lr=0.2 -p seed=1 -p seed=2 train.yaml   four jobs: {{lr}} and {{seed}} in the file
  cress submit --csv runs.csv train.yaml        a job for each row; its first line has the names

\b
Options override keys of files and directives of scripts. A script runs as it is, by the interpreter of its first line;
docs/slurm.md lists the directives.

\b
Exit codes: 0 submitted (with --wait: every task succeeded), 1 some tasks did not succeed, 2 bad input,
3 not accepted, 130 interrupted. With 2 and 3 nothing was submitted.
"""

SOME_FAILED = 1
# Types of jobs that outlive the shell that submitted them.
KEPT = frozenset({"service", "database", "cron"})


def submit(
    *,
    ctx: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE…|SCRIPT…|-- COMMAND…",
            help="Job files in YAML or JSON (- is standard input); or a script with its arguments; or a command.",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the jobs have ended.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the jobs without submitting them.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Submit nothing if a deadline cannot be met.")] = False,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "-p", "--param", metavar="NAME=VALUE", help="Value of {{NAME}} in the files; several: a job for each."
        ),
    ] = None,
    table: Annotated[
        str, typer.Option("--csv", metavar="FILE", help="Values of parameters: a job for each row of this CSV file.")
    ] = "",
    licence: Licence = None,
    workload: Workload = None,
    deadline: Deadline = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Submit the jobs of files, or a script or a command as a job."""
    from cress.cli.job_options import COMMAND, SCRIPT, values_of

    submit_jobs(
        files or [],
        command=ctx.meta.get(COMMAND),
        script=ctx.meta.get(SCRIPT),
        values=values_of(ctx),
        parameters=parameter or (),
        table=table,
        wait=wait,
        dry_run=dry_run,
        strict=strict,
        licence=licence,
        workload=workload,
        deadline=deadline,
        as_json=as_json,
        data=data,
    )


def submit_jobs(
    files: list[str],
    *,
    command: list[str] | None = None,
    script: tuple[str, list[str]] | None = None,
    values: Sequence[KeyValue] = (),
    parameters: Sequence[str] = (),
    table: str = "",
    wait: bool = False,
    dry_run: bool = False,
    strict: bool = False,
    licence: list[str] | None = None,
    workload: str | None = None,
    deadline: str | None = None,
    as_json: bool = False,
    data: Path | None = None,
) -> None:
    """Submit the jobs of files, a command, or a script with its arguments; ``values`` are keys that override theirs."""

    def with_options(entries: Sequence[JobInFile]) -> list[dict[str, object]]:
        given = [in_own_directory(entry, with_values(in_directory_of(entry), values), values) for entry in entries]
        given = [with_deadline(with_licences(mapping, licence), deadline) for mapping in given]
        return [with_workload(mapping, workload) for mapping in given]

    with told("submit"):
        from cress.cli.parameters import combinations, filled

        _check_source(files, command, script)
        combined = combinations(parameters, table)
        entries = [] if script else filled(_entries(files, command), combined)
        # Mistakes in options are found before a center is asked.
        mappings = with_options(entries)
        with connect(data) as client:
            from cress.client import Refused

            if script:
                from cress.cli.scripts import read_script_job

                entries = filled([read_script_job(client, *script)], combined)
                mappings = with_options(entries)
            options = {value.key.partition(".")[0]: value.option for value in values}
            ids: list[int] = []
            try:
                with delayed_interrupt("the jobs may have been submitted (see: cress jobs)") as interrupt:
                    try:
                        sent = with_inputs(client, entries, mappings, options, send=not dry_run)
                        page = _submitted(client, sent, dry_run=dry_run, strict=strict)
                    except Refused as error:
                        raise placed(error, entries, options) from None
                    ids = [job.id for job in page.jobs if not dry_run]
                if dry_run:
                    _tell_tried(page, as_json)
                elif not as_json:
                    for job in page.jobs:
                        print(f"job {job.id} ({clean(job.name)}) submitted{_remarks(job)}", flush=True)
                elif not wait:
                    print_json(page)
                interrupt.deliver()
                if wait and not dry_run:
                    _wait(client, ids, as_json)
            except KeyboardInterrupt:
                if not ids:
                    raise
                listed = " ".join(map(str, ids[:10])) + (" …" if len(ids) > 10 else "")
                goes = "the job goes on" if len(ids) == 1 else "the jobs go on"
                raise Interrupted(f"interrupted; {goes} (stop: cress cancel {listed})") from None


def _submitted(
    client: Client, mappings: Sequence[Mapping[str, object]], *, dry_run: bool, strict: bool
) -> SubmittedPage:
    """Submit jobs, with their expected starts if the center can tell them."""
    from cress.client import Refused

    try:
        return client.submit(mappings, dry_run=dry_run, strict=strict, starts=not dry_run)
    except Refused as error:
        if [fault.field for fault in error.faults] != ["starts"]:
            raise
        # An older center does not know the question.
        return client.submit(mappings, dry_run=dry_run, strict=strict)


def _check_source(files: list[str] | None, command: list[str] | None, script: object) -> None:
    """Raise InputError unless files, a command or a script are given, and only one of these."""
    if command is not None and not command:
        raise InputError("no command follows --", hint="cress submit --name hello -- echo hello")
    if command and files:
        raise InputError(f"both {files[0]} and a command are given", hint="a file, or -- COMMAND")
    if files and shutil.which(files[0]) and not Path(files[0]).exists():
        raise InputError(f"{files[0]} is a command, not a job file", hint=f"cress submit -- {shlex.join(files)}")
    if not (files or command or script):
        raise InputError("nothing to submit", hint="FILE…, SCRIPT ARGUMENTS…, or -- COMMAND…; `--help` has examples")


def _entries(files: list[str], command: list[str] | None) -> list[JobInFile]:
    from cress.cli.jobfile import JobInFile, read_jobs

    return [JobInFile({"command": command}, "", 0)] if command else read_jobs(files)


def _tell_tried(page: SubmittedPage, as_json: bool) -> None:
    if as_json:
        print_json(page)
        return
    for job in page.jobs:
        print(f"{clean(job.name)} would be submitted{_remarks(job)}")


def _remarks(job: Submitted) -> str:
    """Return the remarks on a submitted job: its expected start, the forecast for its deadline, the center's note."""
    from cress.cli.common import moment
    from cress.cli.deadlines import forecast
    from cress.cli.explain import when

    start, now = job.expected_start, time.time()
    waits = start is not None and (start.likely or 0) - now >= 1
    told = f"; expected to start {when(start, now)}" if start is not None and waits else ""
    due = f"; deadline {moment(job.deadline.at)}: {forecast(job.deadline)}" if job.deadline is not None else ""
    return told + due + (f"; {clean(job.note)}" if job.note else "")


def with_licences(mapping: dict[str, object], texts: list[str] | None) -> dict[str, object]:
    """Return the job with these licences instead of its own."""
    if not texts:
        return mapping
    from cress.model.jobfile.licences import licences

    try:
        licences(texts)
    except InputError as error:
        raise InputError(error.what, hint=error.hint, field="--licence") from None
    return with_key(mapping, "licences", texts)


def with_deadline(mapping: dict[str, object], text: str | None) -> dict[str, object]:
    """Return the job with this deadline instead of its own."""
    if text is None:
        return mapping
    from cress.model.jobfile.deadlines import deadline

    try:
        deadline(text)
    except InputError as error:
        raise InputError(error.what, hint=error.hint, field="--deadline") from None
    return with_key(mapping, "deadline", text)


def with_workload(mapping: dict[str, object], name: str | None) -> dict[str, object]:
    """Return the job with this workload instead of its own."""
    if name is None:
        return mapping
    from cress.model.jobfile import values

    try:
        values.name(name)
    except InputError as error:
        raise InputError(error.what, hint=error.hint, field="--workload") from None
    return with_key(mapping, "workload", name)


def in_directory_of(entry: JobInFile) -> dict[str, object]:
    """Return the job with a directory if it names none.

    This is the current directory; for services, databases and cron jobs it is that of the file, so that the same file
    applied again from another directory changes nothing.
    """
    kept = any(key.lower() == "type" and str(value).strip().lower() in KEPT for key, value in entry.mapping.items())
    beside = kept and entry.file not in (STANDARD_INPUT, "")
    return in_directory(entry.mapping, Path(entry.file).parent if beside else None)


def in_own_directory(entry: JobInFile, mapping: dict[str, object], values: Sequence[KeyValue]) -> dict[str, object]:
    """Return a script's job without the current directory if it brings files, unless the user names a directory.

    Its tasks would write the files into one another's directory, which may be that of the user.
    """
    named = "directory" in entry.lines or any(value.key == "directory" for value in values)
    if not entry.is_script or named or needs_folder({key: "" for key in mapping if key != "directory"}):
        return mapping
    return {key: value for key, value in mapping.items() if key != "directory"}


def in_directory(mapping: dict[str, object], folder: Path | None = None) -> dict[str, object]:
    """Return the job with this directory (``None``: the current one), unless it names one, or files to fetch.

    Files are fetched for each attempt alone, into a directory of its own.
    """
    if not needs_folder(mapping):
        return mapping
    try:
        return in_folder(mapping, os.fspath((folder or Path.cwd()).resolve()))
    except OSError as error:
        raise InputError(
            f"the current directory is not there: {error.strerror}", hint="cd, or directory: in the job"
        ) from None


def _wait(client: Client, ids: list[int], as_json: bool) -> None:
    from cress.cli.progress import line, wait_for

    views = wait_for(client, ids, "submit")
    if as_json:
        print_json({"jobs": views})
    else:
        for view in views:
            print(line(view))
    if any(view.state != "succeeded" for view in views):
        raise typer.Exit(SOME_FAILED)
