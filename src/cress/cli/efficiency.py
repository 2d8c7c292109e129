"""``cress efficiency``: what finished jobs asked for, and what they used."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Columns, Data, Json, Wide, connect, duration_of, print_json, selection_of
from cress.cli.errors import told
from cress.cli.tables import Cell, TableColumn, show

if TYPE_CHECKING:
    from cress.client import EfficiencyView

EPILOG = """\
\b
Examples:
  cress efficiency                       jobs of the last 30 days by name, the most unused core-hours first
  cress efficiency --by user --last 7d   each user in one line
  cress efficiency --by label:team       each value of the label team
  cress efficiency --name train          one job, with a hint

\b
CORE-HOURS are the requested cores of tasks times their run time, CPU-HOURS the processor time that they used, and USED
is their ratio. ASKED is the largest requested memory of a task, PEAK the largest memory that one used. A hint follows
the table if a smaller request would do: it needs three runs. Jobs count that ended in the time span.
Columns: name, user, group or label, jobs, runs, core-hours, cpu-hours, used, asked, peak.
Exit codes: 0 done, 2 bad input, 3 no center reachable.
"""

COLUMNS = (
    TableColumn("NAME", gives=True),
    TableColumn("USER"),
    TableColumn("GROUP"),
    TableColumn("JOBS", right=True, hides=3),
    TableColumn("RUNS", right=True),
    TableColumn("CORE-HOURS", right=True, hides=1),
    TableColumn("CPU-HOURS", right=True, hides=2),
    TableColumn("USED", right=True),
    TableColumn("ASKED", right=True),
    TableColumn("PEAK", right=True),
)


# Ways to add up work; the last one is followed by the name of a label.
WAYS = ("name", "user", "group")
LABEL = "label:"


def _way(text: str) -> str:
    """Return the way to add up work, as given."""
    if text in WAYS or (text.startswith(LABEL) and text != LABEL):
        return text
    raise ValueError(f"{text!r} is not one of {', '.join([*WAYS, f'{LABEL}NAME'])}")


def efficiency(
    last: Annotated[str, typer.Option(metavar="DURATION", help="Time span until now, such as 12h or 30d.")] = "30d",
    by: Annotated[
        str,
        typer.Option(
            metavar="WAY",
            parser=_way,
            help="One line for each name of jobs, user, group, or value of a label: name, user, group, label:NAME.",
        ),
    ] = "name",
    name: Annotated[str, typer.Option(metavar="NAME", help="Only jobs with this name.")] = "",
    user: Annotated[str, typer.Option(metavar="USER", help="Only jobs of this user.")] = "",
    group: Annotated[str, typer.Option(metavar="GROUP", help="Only jobs of this group.")] = "",
    columns: Columns = "",
    wide: Wide = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Show what finished jobs asked for, and what they used."""
    with told("efficiency"):
        since = max(0.0, time.time() - duration_of(last, "--last") / 1e6)
        from cress.client import calls

        call = calls.efficiency(by=by, name=name, user=user, group=group, since=since)
        with connect(data) as client:
            page = client.ask(call)
        if as_json:
            print_json(page)
            return
        if not page.work:
            typer.echo("no job ended in this time", err=True)
            return
        # The values of a label stand in place of the names.
        own = "name" if by.startswith(LABEL) else by
        hidden = [place for place, way in enumerate(WAYS) if by != "name" and way != own]
        kept = [place for place in range(len(COLUMNS)) if place not in hidden]
        rows = [[cells[place] for place in kept] for cells in map(_cells, page.work)]
        shown = [COLUMNS[place] for place in kept]
        if by.startswith(LABEL):
            shown[0] = TableColumn(by.removeprefix(LABEL).upper(), gives=True)
            rows = [[view.label or "-", *cells[1:]] for view, cells in zip(page.work, rows, strict=True)]
        show(shown, rows, selection_of(columns, wide=wide))
        for view in page.work:
            if view.hint:
                typer.echo(f"{view.name}: {view.hint}")


def _cells(view: EfficiencyView) -> list[Cell]:
    core_seconds = view.held.get("cpu", 0.0)
    return [
        view.name,
        view.user,
        view.group,
        f"{view.jobs:,}",
        f"{view.attempts:,}",
        f"{core_seconds / 3600:,.2f}",
        f"{view.cpu_seconds / 3600:,.2f}",
        f"{view.cpu_seconds / core_seconds:.0%}" if core_seconds else "",
        _memory(view.memory_asked),
        _memory(view.memory_peak) if view.memory_peak else "",
    ]


def _memory(amount: int) -> str:
    """Return an amount of bytes in whole MiB or tenths of GiB."""
    return f"{amount / 2**30:,.1f}G" if amount >= 2**30 else f"{-(-amount // 2**20):,}M"
