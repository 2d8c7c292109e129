"""``cress simulate``: replay a trace in virtual time."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.errors import told

if TYPE_CHECKING:
    from cress.simulator.run import Result


class Events(StrEnum):
    """How the events of one moment reach the core."""

    TOGETHER = "together"
    ONE_BY_ONE = "one-by-one"


class Estimates(StrEnum):
    """What the scheduler knows of run times."""

    REQUESTED = "requested"
    EXACT = "exact"


def simulate(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="A log (.swf, .swf.gz), a table of jobs (.csv, .csv.gz, .parquet), or a generated workload: "
            "`generated` or `generated:jobs=100000,nodes=1213,groups=20,load=0.9`.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the results go.")],
    cluster: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The nodes (.yaml or .csv); needed for tables of jobs.")
    ] = None,
    groups: Annotated[Path | None, typer.Option(metavar="FILE", help="The groups, as in Group.conf.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Policy of every group: FIFO, Priority, Capacity, BackFill or BackFill/conservative. Give it several "
            "times for a comparison. Default: each group's own.",
        ),
    ] = None,
    events: Annotated[
        Events,
        typer.Option(help="All events of a moment, then one decision; or one by one, as batch simulators do."),
    ] = Events.TOGETHER,
    estimates: Annotated[
        Estimates, typer.Option(help="Time limits as requested, or the exact run times.")
    ] = Estimates.REQUESTED,
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Set an option of the scheduler, such as grace=30s.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated workload.")] = 1,
    check: Annotated[
        bool, typer.Option("--check", help="Check the core's invariants after every event (slow).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summaries as JSON.")] = False,
) -> None:
    """Replay a trace in virtual time through the scheduler and write tables, measures and a report."""
    with told("simulate", "sim"):
        from cress.simulator import run

        request = run.Request(
            trace=trace,
            out=out,
            cluster=cluster,
            groups=groups,
            policies=tuple(policy or ()),
            options=tuple(option or ()),
            events=events.value,
            estimates=estimates.value,
            seed=seed,
            check=check,
        )
        plan = run.plan(request)
        with _progress() as progress:
            results = run.run_all(plan, progress)
        if as_json:
            print(json.dumps([run.summary(result, plan) for result in results], indent=2))
        else:
            _show(results, out)
        for sentence in _notes(results):
            typer.echo(sentence, err=True)


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """A progress bar on standard error when that is a terminal; else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def show(label: str, done: int, total: int) -> None:
            if label not in tasks:
                for each in tasks.values():
                    bar.remove_task(each)
                tasks[label] = bar.add_task(label, total=total)
            bar.update(tasks[label], completed=done)

        yield show


def _show(results: Sequence[Result], out: Path) -> None:
    from cress.simulator.report.page import summary_rows

    rows = summary_rows(results)
    heads = ["", *(result.run.label for result in results)]
    where = f"Report: {out / 'report.html'}"
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for i, head in enumerate(heads):
            table.add_column(head, justify="left" if i == 0 else "right")
        for label, cells in rows:
            table.add_row(label, *cells)
        Console().print(table)
        print(where)
        return
    lines = [heads, *([label, *cells] for label, cells in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    for line in lines:
        cells = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
    print(where)


def _notes(results: Sequence[Result]) -> list[str]:
    """Each oddity of the input once, with the runs that it belongs to when not to all."""
    found: dict[str, list[str]] = {}
    for result in results:
        for sentence in result.notes.sentences():
            found.setdefault(sentence, []).append(result.run.label)
    return [
        f"note: {sentence}" + ("" if len(labels) == len(results) else f" ({', '.join(labels)})")
        for sentence, labels in found.items()
    ]
