"""``cress resolve``: the places of running tasks by job name."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli import devices
from cress.cli.common import AGAIN, PATIENCE, Columns, Data, Json, Wide, connect, print_json, selection_of
from cress.cli.errors import told
from cress.cli.tables import Cell, TableColumn, clean, show

if TYPE_CHECKING:
    from cress.client import Client, PlaceView

EPILOG = """\
\b
Examples:
  cress resolve web                   every running task of the jobs called web
  cress resolve web --group shop
  cress resolve web --watch           now, then each task that comes (+) or goes (-), until Ctrl-C
  cress resolve web --json | jq -r '.places[] | "\\(.address):\\(.ports.http)"'

\b
A task is listed from the start of its program until it ends or is asked to stop.
Columns: task, node, rack, address, ports, disk, devices (the last two only if a task has some).
Exit codes: 0 done, 1 no task runs, 2 bad input, 3 no center reachable, 130 interrupted.
"""

COLUMNS = (
    TableColumn("TASK", right=True),
    TableColumn("NODE", gives=True),
    TableColumn("RACK", gives=True, hides=1),
    TableColumn("ADDRESS", gives=True, least=15),
    TableColumn("PORTS", gives=True, least=20),
)
DISK = TableColumn("DISK", gives=True)
NOBODY = 1
# The name shown for the only port of a job if that has none.
UNNAMED = "port"


def resolve(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.")],
    group: Annotated[str, typer.Option(metavar="GROUP", help="Only jobs of this group.")] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show every change, until Ctrl-C.")] = False,
    columns: Columns = "",
    wide: Wide = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Show where the running tasks of a job are."""
    with told("resolve"):
        with connect(data) as client:
            if watch:
                _watch(client, name, group, as_json=as_json)
                return
            places = client.resolve(name, group=group)
        if as_json:
            print_json({"places": places})
        elif places:
            show(*table(places), selection_of(columns, wide=wide))
        else:
            typer.echo(f"nothing called {clean(name)} runs" + (f" in group {clean(group)}" if group else ""), err=True)
        if not places:
            raise typer.Exit(NOBODY)


def table(places: Sequence[PlaceView]) -> tuple[list[TableColumn], list[list[Cell]]]:
    """Return columns and rows; paths if a task has a disk, devices if a task has other devices."""
    columns, rows = [*COLUMNS], [row(place) for place in places]
    if any(place.disk for place in places):
        columns.append(DISK)
        rows = [[*cells, place.disk or "-"] for cells, place in zip(rows, places, strict=True)]
    others = [[device for device in place.devices if device.kind != devices.DISK] for place in places]
    return devices.with_devices(columns, rows, others, len(columns))


def row(place: PlaceView) -> list[Cell]:
    """Return the cells of one task."""
    return [f"{place.job}.{place.task}", place.node, place.rack or "-", place.address, ports(place.ports)]


def ports(numbers: Mapping[str, int | str]) -> str:
    """Return ports for a cell: ``http=8080 admin=20001``, or only the number for a port without a name."""
    if list(numbers) == [UNNAMED]:
        return str(numbers[UNNAMED])
    return " ".join(f"{name}={number}" for name, number in numbers.items()) or "-"


def changes(before: Sequence[PlaceView], now: Sequence[PlaceView]) -> list[str]:
    """Return changes as lines: first tasks that are gone, then new ones."""
    gone = [place for place in before if place not in now]
    come = [place for place in now if place not in before]
    return [
        " ".join(
            [
                sign,
                *(
                    clean(cell if isinstance(cell, str) else cell[0])
                    for cell in [*row(place), *[place.disk] * bool(place.disk)]
                ),
            ]
        )
        for sign, places in (("-", gone), ("+", come))
        for place in places
    ]


def _watch(client: Client, name: str, group: str, *, as_json: bool) -> None:
    import msgspec

    known: Sequence[PlaceView] | None = None
    for places in _answers(client, name, group):
        if as_json:
            if places != known:
                print(msgspec.json.encode({"places": places}).decode(), flush=True)
        else:
            for line in changes(known or (), places):
                print(line, flush=True)
        known = places


def _answers(client: Client, name: str, group: str) -> Iterator[tuple[PlaceView, ...]]:
    """Yield the places now and after every change, also across a restart of the center."""
    from cress.client import Unavailable, Unreachable

    away: float | None = None
    heard = False
    while True:
        try:
            for places in client.watch_names(name, group=group):
                away, heard = None, True
                yield places
        except (Unreachable, Unavailable) as error:
            away = away or time.monotonic()
            if not heard or time.monotonic() - away > PATIENCE:
                raise
            typer.echo(f"cress resolve: {error}; trying again", err=True)
        time.sleep(AGAIN)
