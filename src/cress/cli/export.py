"""``cress export``: what a center recorded, as a table of jobs or in Standard Workload Format."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Annotated

import typer

from cress.cli.common import connect, count
from cress.cli.errors import told
from cress.model.errors import InputError

EPILOG = """\
\b
Examples:
  cress export --since 30d --out jobs.csv --cluster nodes.csv
  cress export /srv/cress --from 2026-11-02 --out week.swf.gz --anonymise
  cress simulate jobs.csv --cluster nodes.csv     reads the table again

\b
It reads the event log in the data directory of the center, also while the center runs. If the center is elsewhere, it
is asked: then the file has the batch jobs of the center's history that you may see. CSV has everything that `cress
simulate` reads, and when each job started and ended. SWF has cores only. Commands and output are not in the log.
Exit codes: 0 done, 2 bad input, such as a damaged log; nothing is written then.
"""
CSV, SWF = "csv", "swf"


def export(
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA", help="Data directory, events folder or event file. Default: of the center here."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File: .csv, .swf, also with .gz. Default: standard output.")
    ] = None,
    form: Annotated[str, typer.Option("--format", metavar="csv|swf", help="Format, if no file name says it.")] = "",
    since: Annotated[
        str, typer.Option("--since", "--from", metavar="TIME", help="Begin: 30d ago, or 2026-11-02.")
    ] = "",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="End.")] = "",
    cluster: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the nodes, as CSV.")] = None,
    anonymise: Annotated[bool, typer.Option("--anonymise", help="Pseudonyms for users, jobs and nodes.")] = False,
    over_api: Annotated[
        bool, typer.Option("--over-api", help="Ask the center, also if its event log can be read here.")
    ] = False,
) -> None:
    """Write recorded jobs as CSV or in Standard Workload Format."""
    with told("export", "sim"):
        from cress.cli.export_api import is_elsewhere, work_of
        from cress.cli.past_times import log_of, span_of
        from cress.past.export import as_csv, as_swf, nodes_as_csv
        from cress.past.pseudonyms import anonymised
        from cress.past.recorded_work import recorded_work

        kind = _kind(out, form)
        if over_api or is_elsewhere(data):
            with connect(data) as client:
                work = work_of(client, *span_of(since, until))
        else:
            work = recorded_work(log_of(data), *span_of(since, until))
        for gap in work.gaps:
            typer.echo(f"cress export: {gap}", err=True)
        if not work.jobs:
            raise InputError(
                "has no jobs in this time", hint="another --since and --until", file=str(data or "the log")
            )
        if anonymise:
            work = anonymised(work)
        text = as_csv(work) if kind == CSV else as_swf(work)
        if cluster is not None:
            _write(cluster, nodes_as_csv(work))
        if out is None:
            sys.stdout.write(text)
            return
        _write(out, text)
        print(
            f"{out}: {count(len(work.jobs), 'job')}"
            + (f"; {cluster}: {count(len(work.nodes), 'node')}" if cluster else "")
        )


def _kind(out: Path | None, form: str) -> str:
    """Return the format that the file name or the option says. Raises InputError."""
    name = "" if out is None else out.name.lower().removesuffix(".gz")
    named = next((kind for kind in (CSV, SWF) if name.endswith(f".{kind}")), "")
    if form and form.lower() not in (CSV, SWF):
        raise InputError(f"{form!r} is not a format", hint="csv or swf", field="--format")
    if form and named and form.lower() != named:
        raise InputError(
            f"{form} does not fit the file {out}", hint=f"--format {named}, or another name", field="--format"
        )
    if not form and not named and out is not None:
        raise InputError(
            f"{out.name} does not say the format", hint="a name with .csv or .swf, or --format", field="--out"
        )
    return form.lower() or named or CSV


def _write(path: Path, text: str) -> None:
    """Write a whole file, or nothing."""
    content = text.encode()
    if path.name.lower().endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.write_bytes(content)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from None
