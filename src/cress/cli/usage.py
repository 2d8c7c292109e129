"""``cress usage``: the usage of groups over time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Columns, Data, Json, Wide, connect, duration_of, print_json, selection_of
from cress.cli.errors import told
from cress.cli.tables import Cell, TableColumn, bar, show, terminal
from cress.model.errors import InputError
from cress.model.prices import cost_of, parse_prices
from cress.model.resources import BASE_DIMENSIONS

if TYPE_CHECKING:
    from cress.client import Client, EfficiencyPage, EfficiencyView, UsagePage, UsageView
    from cress.client.calls import PreparedCall

EPILOG = """\
\b
Examples:
  cress usage                            the last day, each group in one line
  cress usage --last 30d --by day        each day and group in one line
  cress usage --group web --by hour
  cress usage --by user --last 30d --weights cpu=1,memory=0.1
                                         finished jobs of each user; COST counts core-hours and GB-hours
  cress usage --by label:team            finished jobs by their label team; --by job: by their name

\b
CORE-HOURS and GB-HOURS are the requested resources of tasks times their run time. CPU-HOURS is the processor time that
they used. By user, job or label, each kind of device has a column, such as GPU-HOURS; jobs count that ended in the time
span; running ones do not. MET and MISSED count jobs
with deadlines. SHARE is the share of all core hours shown, on a terminal as a bar.
Columns: time, group, user, job or label, core-hours, gb-hours, cpu-hours, tasks, failed, met, missed, cost, share; a
narrow terminal leaves some out. Exit codes: 0 done, 2 bad input, 3 no center reachable.
"""

COLUMNS = (
    TableColumn("TIME"),
    TableColumn("GROUP", gives=True),
    TableColumn("CORE-HOURS", right=True),
    TableColumn("GB-HOURS", right=True, hides=2),
    TableColumn("CPU-HOURS", right=True, hides=3),
    TableColumn("TASKS", right=True),
    TableColumn("FAILED", right=True),
    TableColumn("SHARE", right=True, hides=1),
)
DEADLINES = (TableColumn("MET", right=True), TableColumn("MISSED", right=True))


# Behind the column of the users, names of jobs, or values of a label.
OF_WORK = (
    TableColumn("CORE-HOURS", right=True),
    TableColumn("GB-HOURS", right=True, hides=2),
    TableColumn("CPU-HOURS", right=True, hides=3),
    TableColumn("JOBS", right=True),
    TableColumn("TASKS", right=True),
)
COST = TableColumn("COST", right=True)
# Stands for jobs without the label, or without a name.
NONE = "-"


class UsageSpan(StrEnum):
    """Spans of time, each for all groups."""

    ALL = "all"
    DAY = "day"
    HOUR = "hour"


# Ways to add up finished work, with their words in the API.
OF_WAY = {"user": "user", "job": "name"}
LABEL = "label:"


def _way(text: str) -> str:
    """Return the way to add up, as given."""
    if text in (*UsageSpan, *OF_WAY) or (text.startswith(LABEL) and text != LABEL):
        return text
    raise ValueError(f"{text!r} is not one of {', '.join([*UsageSpan, *OF_WAY, f'{LABEL}NAME'])}")


def usage(
    last: Annotated[str, typer.Option(metavar="DURATION", help="Time span until now, such as 12h or 30d.")] = "24h",
    by: Annotated[
        str,
        typer.Option(
            metavar="WAY",
            parser=_way,
            help="One line for the whole time span (all), each day or hour (UTC); or for each user, job, or value of a "
            "label (label:NAME).",
        ),
    ] = "all",
    group: Annotated[str, typer.Option(metavar="GROUP", help="Only this group.")] = "",
    weights: Annotated[
        str,
        typer.Option(metavar="NAME=N,…", help="By user, job or label: a column COST, such as cpu=1,memory=0.1,gpu=20."),
    ] = "",
    columns: Columns = "",
    wide: Wide = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Show the resources that groups used over time."""
    with told("usage"):
        back = duration_of(last, "--last") / 1e6
        now = time.time()
        if by in OF_WAY or by.startswith(LABEL):
            with connect(data) as client:
                work_page = client.ask(_of_work(by, group, max(0.0, now - back)))
            if as_json:
                print_json(work_page)
            elif work_page.work:
                show(*table_of_work(work_page.work, by, weights), selection_of(columns, wide=wide))
            else:
                typer.echo("no job ended in this time", err=True)
            return
        if weights:
            raise InputError(
                "weights count by user, job or label only", hint="cress usage --by user", field="--weights"
            )
        # Usage older than a month is read in whole days, which are fewer.
        span = "day" if by == UsageSpan.DAY or (by == UsageSpan.ALL and back > 30 * 86_400) else "hour"
        with connect(data) as client:
            page = _all(client, group, max(0.0, now - back), now, span)
        if by == UsageSpan.ALL:
            page = _together(page, max(0.0, now - back))
        if as_json:
            print_json(page)
        elif page.usage:
            selection = selection_of(columns, wide=wide)
            show(*table(page.usage, UsageSpan(by), due=bool({"met", "missed"} & {*selection.names})), selection)
        else:
            typer.echo("nothing was used", err=True)


def _of_work(by: str, group: str, since: float) -> PreparedCall[EfficiencyPage]:
    from cress.client import calls

    return calls.efficiency(by=OF_WAY.get(by, by), group=group, since=since)


def table_of_work(
    work: Sequence[EfficiencyView], by: str, weights: str = ""
) -> tuple[Sequence[TableColumn], list[list[Cell]]]:
    """Return columns and rows of users, jobs or values of a label, the largest share first; with their costs if there
    are weights.

    Raises InputError for a weight of a dimension that nobody has held.
    """
    prices = parse_prices(weights, sorted({name for view in work for name in view.held}), "--weights")
    kinds = sorted({name for view in work for name, held in view.held.items() if held} - BASE_DIMENSIONS.keys())
    whole = sum(view.held["cpu"] for view in work)
    rows: list[list[Cell]] = []
    own = "label" if by.startswith(LABEL) else OF_WAY[by]
    for view in sorted(work, key=lambda view: (-view.held["cpu"], view.name, view.user, view.group, view.label)):
        share = view.held["cpu"] / whole if whole else 0.0
        cells: list[Cell] = [
            getattr(view, own) or NONE,
            *((view.user,) if by == "job" else ()),
            f"{view.held['cpu'] / 3600:,.2f}",
            f"{view.held['memory'] / 3600 / 2**30:,.2f}",
            *(f"{view.held.get(kind, 0.0) / 3600:,.2f}" for kind in kinds),
            f"{view.cpu_seconds / 3600:,.2f}",
            f"{view.jobs:,}",
            f"{view.attempts:,}",
            *((f"{cost_of(view.held, prices):,.2f}",) if prices else ()),
            bar(share) if terminal() else f"{share:.0%}",
        ]
        rows.append(cells)
    title = by.removeprefix(LABEL) if by.startswith(LABEL) else by
    first = [TableColumn(title.upper(), gives=True), *([TableColumn("USER")] if by == "job" else [])]
    devices = [TableColumn(f"{kind.upper()}-HOURS", right=True, hides=2) for kind in kinds]
    return (*first, *OF_WORK[:2], *devices, *OF_WORK[2:], *((COST,) if prices else ()), COLUMNS[-1]), rows


def _all(client: Client, group: str, since: float, until: float, by: str) -> UsagePage:
    from cress.client import UsagePage

    found: list[UsageView] = []
    start: float | None = since
    span = 0.0
    while start is not None:
        page = client.usage(group=group, since=start, until=until, by=by)
        found += page.usage
        start, span = page.next, page.span
    return UsagePage(usage=tuple(found), span=span)


def _together(page: UsagePage, start: float) -> UsagePage:
    """Return all spans of a group as one."""
    from cress.client import UsagePage, UsageView

    total: dict[str, dict[str, float]] = {}
    names = ("core_seconds", "byte_seconds", "cpu_seconds", "attempts", "succeeded", "failed", "met", "missed")
    for row in page.usage:
        sums = total.setdefault(row.group, dict.fromkeys(names, 0))
        for name in names:
            sums[name] += getattr(row, name)
    views = (UsageView(group=group, start=start, **total[group]) for group in sorted(total))  # type: ignore[arg-type]
    return UsagePage(usage=tuple(views), span=time.time() - start)


def table(
    usage: Sequence[UsageView], by: UsageSpan, *, due: bool = False
) -> tuple[Sequence[TableColumn], list[list[Cell]]]:
    """Return columns and rows; deadlines if there were some, or if ``due``."""
    due = due or any(row.met or row.missed for row in usage)
    columns = (*COLUMNS[:-1], *DEADLINES, COLUMNS[-1]) if due else COLUMNS
    whole = sum(row.core_seconds for row in usage)
    rows: list[list[Cell]] = []
    for row in usage:
        share = row.core_seconds / whole if whole else 0.0
        cells: list[Cell] = [
            _moment(row.start, by),
            row.group,
            f"{row.core_seconds / 3600:,.2f}",
            f"{row.byte_seconds / 3600 / 2**30:,.2f}",
            f"{row.cpu_seconds / 3600:,.2f}",
            f"{row.attempts:,}",
            f"{row.failed:,}",
            *((f"{row.met:,}", f"{row.missed:,}") if due else ()),
            bar(share) if terminal() else f"{share:.0%}",
        ]
        rows.append(cells if by is not UsageSpan.ALL else cells[1:])
    return columns if by is not UsageSpan.ALL else columns[1:], rows


def _moment(start: float, by: UsageSpan) -> str:
    at = datetime.fromtimestamp(start, UTC)
    return at.strftime("%Y-%m-%d" if by is UsageSpan.DAY else "%Y-%m-%d %H:00")
