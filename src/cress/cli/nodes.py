"""``cress nodes``: the machines, and keeping work off them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Data, Json, connect, duration_of, print_json
from cress.cli.default import WithDefaultOf
from cress.cli.errors import told
from cress.cli.tables import Cell, Column, clean, facts, show, state

if TYPE_CHECKING:
    from cress.client import NodeView

EPILOG = """\
\b
Examples:
  cress nodes                                   all nodes (the same: cress nodes list)
  cress nodes node1                             everything about one
  cress nodes cordon node1 --reason 'new disk'  no new tasks there
  cress nodes uncordon node1
  cress nodes forget node1                      it is dead: what it ran runs elsewhere
  cress nodes drain node1 --deadline 10m        the same as cordon; what still runs there then runs elsewhere

\b
Exit codes: 0 done, 2 bad input (no such node, say), 3 not accepted (forget of a node that is connected), or no
center could be asked.
"""

Name = Annotated[str, typer.Argument(metavar="NAME", help="A node.")]

app = typer.Typer(cls=WithDefaultOf, help="List nodes, or keep tasks off them.", epilog=EPILOG, rich_markup_mode=None)


@app.command("list")
def nodes(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Everything about this one.")] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """List nodes with what they offer and what is used."""
    with told("nodes"):
        with connect(data) as client:
            found = (client.node(name),) if name is not None else client.nodes()
        if as_json:
            print_json(found[0] if name is not None else {"nodes": found})
        elif name is not None:
            facts(about(found[0]))
        elif found:
            show(*table(found))
        else:
            typer.echo("no node has registered yet (cress executor starts one)", err=True)


@app.command()
def cordon(
    name: Name,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the others.")] = "",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Keep new tasks off a node; those that run there go on."""
    with told("nodes cordon"):
        with connect(data) as client:
            node = client.cordon(name, reason)
        _told(node, "takes no new tasks", as_json)


@app.command()
def uncordon(name: Name, as_json: Json = False, data: Data = None) -> None:
    """Let tasks start on a node again."""
    with told("nodes uncordon"):
        with connect(data) as client:
            node = client.uncordon(name)
        _told(node, "takes tasks", as_json)


@app.command()
def forget(name: Name, as_json: Json = False, data: Data = None) -> None:
    """Say that a node is dead: what it ran is lost and runs elsewhere.

    Only when that is certain: tasks that go on there would run twice. The node is a new one when it comes back.
    """
    with told("nodes forget"):
        with connect(data) as client:
            node = client.forget(name)
        if as_json:
            print_json(node)
        else:
            tasks = {0: "nothing ran there", 1: "its task is lost"}.get(
                node.running, f"its {node.running} tasks are lost"
            )
            print(f"node {clean(node.name)} is forgotten; {tasks}")


@app.command()
def drain(
    name: Name,
    deadline: Annotated[
        str, typer.Option(metavar="DURATION", help="How long what runs there may go on, such as 10m; 0: not at all.")
    ],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the others.")] = "",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Empty a node: no new tasks, and those that still run at the deadline run elsewhere."""
    with told("nodes drain"):
        from cress.model.units import format_duration

        patience = duration_of(deadline, "--deadline")
        with connect(data) as client:
            node = client.drain(name, patience / 1e6, reason)
        _told(node, f"takes no new tasks; those that run there have {format_duration(patience)}", as_json)


def table(nodes: Sequence[NodeView]) -> tuple[list[Column], list[list[Cell]]]:
    """Columns and rows: a column of ``used/offered`` for every dimension that some node offers."""
    names = list(dict.fromkeys(name for node in nodes for name in node.capacity))
    columns = [Column("NAME", gives=True), Column("STATE"), Column("RACK", gives=True), Column("TASKS", right=True)]
    columns += [Column(name.upper(), right=True) for name in names]
    columns.append(Column("REASON", gives=True))
    rows: list[list[Cell]] = []
    for node in nodes:
        used: list[Cell] = [
            f"{node.used.get(name, '0')}/{node.capacity[name]}" if name in node.capacity else "-" for name in names
        ]
        rows.append([node.name, state(node.state), node.rack or "-", str(node.running), *used, node.reason])
    return columns, rows


def about(node: NodeView) -> list[tuple[str, Cell]]:
    """What there is to say about a node."""
    return [
        ("Node", node.name),
        ("State", state(node.state)),
        ("Reason", node.reason),
        ("Rack", node.rack),
        ("Tasks", str(node.running)),
        *((name, f"{node.used.get(name, '0')} of {amount} used") for name, amount in node.capacity.items()),
        *(node.attributes.items()),
    ]


def _told(node: NodeView, what: str, as_json: bool) -> None:
    if as_json:
        print_json(node)
    else:
        print(f"node {clean(node.name)} {what}" + (f" ({clean(node.reason)})" if node.reason else ""))
