"""``cress reserve`` and ``cress reservations``: advance reservations and maintenance windows."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Columns, Data, Json, Wide, connect, count, print_json, selection_of
from cress.cli.default_verb import WithDefault
from cress.cli.errors import told
from cress.cli.tables import Cell, TableColumn, clean, show
from cress.model.advancetext import split_names
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.client import ReservationView
    from cress.client.calls import ReservationKeys

EPILOG = """\
\b
Examples:
  cress reserve exam --group b --nodes n1,n[2-5] --from '2026-12-01 18:00' --for 4h
  cress reserve exam --group b --count 4 --from 18:00 --until 22:00
                                           four whole nodes, chosen so that the fewest tasks have to stop
  cress reserve course --group b --resource '<4, 8G>' --count 8 --requirement 'GCC >= 10' --from 18:00 --for 4h
                                           eight times four cores and 8G
  cress reserve course --group b --count 4 --from '2026-12-01 08:00' --for 2h --every mon-fri
  cress reserve patch --nodes 'rack1-*' --from +2h --for 1h
                                           maintenance: no group, so nothing runs there
  cress reserve --group b --resource '<4, 8G>' --from 18:00 --for 4h
                                           four cores and 8G of one node, with the name b-1
  cress reserve exam --group b --nodes n1 --from now --for 1h --dry-run

\b
Times are in the cluster's time zone: now, +2h, 18:00 (the next one), 2026-12-01 18:00, 2026-12-01 18:00 Europe/Berlin.
Before a reservation, its nodes take only tasks whose time limit ends before it starts. Tasks that still run there when
it starts are stopped and queued again (docs/reservations.md).
Exit codes: 0 done, 2 bad input (such as an unknown node), 3 not accepted (another reservation has the nodes), or no
center reachable.
"""

LIST = """\
\b
Examples:
  cress reservations                       all reservations (the same: cress reservations list)
  cress reservations remove exam           remove one; tasks that run in it go on

\b
STATE is active, coming, or short (some of its nodes are away, or not yet empty). FROM and UNTIL belong to the current
or next time. LEAVING counts running tasks that have to stop at its start.
Columns: name, group, nodes, resource, from, until, every, next, state, used-by, leaving.
Exit codes: 0 done, 2 bad input (such as an unknown reservation), 3 no center reachable.
"""

COLUMNS = (
    TableColumn("NAME", gives=True),
    TableColumn("GROUP", gives=True),
    TableColumn("NODES", gives=True),
    TableColumn("RESOURCE", hides=3),
    TableColumn("FROM"),
    TableColumn("UNTIL"),
    TableColumn("EVERY", hides=2),
    TableColumn("NEXT", hides=1),
    TableColumn("STATE"),
    TableColumn("USED BY", right=True),
    TableColumn("LEAVING", right=True, hides=4),
)
# Most nodes listed in one cell.
MOST_NAMED = 3
MAINTENANCE = "maintenance"

app = typer.Typer(
    cls=WithDefault, help="List advance reservations and maintenance windows.", epilog=LIST, rich_markup_mode=None
)


def reserve(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]", help="Name of the reservation. Default: GROUP-1, and so on.", show_default=False
        ),
    ] = "",
    group: Annotated[
        str, typer.Option("--group", "-g", help="Group that may use it. Default: none (maintenance).")
    ] = "",
    nodes: Annotated[str, typer.Option(metavar="NAMES", help="Nodes to reserve, such as n1,n[2-5],rack1-*.")] = "",
    number: Annotated[
        int,
        typer.Option(
            "--count", metavar="N", min=0, help="Number of nodes to choose; with --resource, number of parts of nodes."
        ),
    ] = 0,
    resource: Annotated[
        str,
        typer.Option(
            metavar="AMOUNTS",
            help="Amount to reserve on each node, such as '<4, 8G>'. Default: whole nodes. Without --nodes and "
            "--count, one node is chosen.",
        ),
    ] = "",
    requirement: Annotated[str, typer.Option(metavar="EXPR", help="Condition on the nodes to choose.")] = "",
    start: Annotated[str, typer.Option("--from", metavar="MOMENT", help="Start.")] = "now",
    until: Annotated[str, typer.Option(metavar="MOMENT", help="End. Give this or --for.")] = "",
    length: Annotated[str, typer.Option("--for", metavar="DURATION", help="Length, such as 4h.")] = "",
    every: Annotated[
        str, typer.Option(metavar="DAYS", help="Days on which it repeats: day, week, mon-fri, mon,wed. Default: once.")
    ] = "",
    at_end: Annotated[
        str, typer.Option(metavar="WHAT", help="Tasks that still run in it at its end: keep (they go on) or stop.")
    ] = "keep",
    replace: Annotated[bool, typer.Option("--replace", help="Replace the reservation of that name.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the reservation without making it.")] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Reserve nodes in advance, for a group or for maintenance."""
    with told("reserve"):
        fields: ReservationKeys = {
            "group": group,
            "nodes": split_names(nodes),
            "count": number,
            "resource": resource,
            "requirement": requirement,
            "start": start,
            "until": until,
            "length": length,
            "every": every,
            "at_end": at_end,
            "replace": replace,
            "dry_run": dry_run,
        }
        if replace and not name:
            raise InputError("--replace needs the name of a reservation", hint="`cress reservations` lists them")
        with connect(data) as client:
            view = client.reserve(name, fields)
        if as_json:
            print_json(view)
            return
        for line in summary(view, dry_run=dry_run):
            print(line)


@app.command("list")
def reservations(columns: Columns = "", wide: Wide = False, as_json: Json = False, data: Data = None) -> None:
    """List advance reservations and maintenance windows."""
    with told("reservations"):
        with connect(data) as client:
            page = client.reservations()
        if as_json:
            print_json(page)
        elif not page.reservations:
            print("nothing is reserved in advance (docs/reservations.md)")
        else:
            show(COLUMNS, [row(reservation) for reservation in page.reservations], selection_of(columns, wide=wide))


@app.command()
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A reservation.")],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Remove an advance reservation with all its repetitions; tasks that run in it go on."""
    with told("reservations remove"):
        with connect(data) as client:
            view = client.remove_reservation(name)
        if as_json:
            print_json(view)
        else:
            print(f"{_what(view)} removed")


def summary(view: ReservationView, *, dry_run: bool) -> list[str]:
    """Return the result of a reservation, in lines."""
    verb = "would be" if dry_run else "is" if view.resource or len(view.nodes) == 1 else "are"
    again = f", every {view.every}" if view.every else ""
    nodes = f"{count(len(view.nodes), 'node')} ({_nodes(view, most=20)})"
    what = f"{view.resource} × {sum(view.nodes.values())} on {nodes}" if view.resource else nodes
    lines = [
        f"{_what(view)}: {what} {verb} kept from {moment(view.start)} until {moment(view.until, view.start)}{again}"
    ]
    if view.leaving:
        have = "has" if view.leaving == 1 else "have"
        lines.append(
            f"{count(view.leaving, 'running task')} {have} to stop at its start unless "
            f"{'it ends' if view.leaving == 1 else 'they end'} before"
        )
    return lines


def row(view: ReservationView) -> list[Cell]:
    """Return the cells of a reservation."""
    style = {"active": "green", "short": "yellow"}.get(view.state, "")
    return [
        clean(view.name),
        clean(view.group) if view.group else (MAINTENANCE, "dim"),
        _nodes(view),
        view.resource or "-",
        moment(view.start),
        moment(view.until, view.start),
        view.every or "-",
        moment(view.next),
        (view.state, style),
        str(view.used) if view.group else "-",
        str(view.leaving),
    ]


def moment(at: float | None, start: float | None = None) -> str:
    """Return a time in the user's zone, without the day if it is that of ``start``."""
    if at is None:
        return "-"
    told = datetime.fromtimestamp(at).astimezone()
    same = start is not None and datetime.fromtimestamp(start).astimezone().date() == told.date()
    text = "" if same else f"{told:%Y-%m-%d} "
    return f"{text}{told:%H:%M:%S}" if told.second else f"{text}{told:%H:%M}"


def _what(view: ReservationView) -> str:
    return (
        f"reservation {clean(view.name)} of group {clean(view.group)}"
        if view.group
        else f"maintenance {clean(view.name)}"
    )


def _nodes(view: ReservationView, most: int = MOST_NAMED) -> str:
    named = [
        f"{clean(name)} ×{copies}" if copies > 1 else clean(name) for name, copies in list(view.nodes.items())[:most]
    ]
    more = len(view.nodes) - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "") or "-"
