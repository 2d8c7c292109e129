"""``cress nodes``: list, cordon and drain nodes."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli import completion, devices, node_settings
from cress.cli.common import (
    Columns,
    Data,
    Json,
    Wide,
    connect,
    duration_of,
    moment,
    patiently,
    print_json,
    selection_of,
)
from cress.cli.default_verb import WithDefaultOf
from cress.cli.errors import told
from cress.cli.node_matching import show_matches
from cress.cli.outputs import Output, written
from cress.cli.preview import Yes, ask, is_asked, show_consequences
from cress.cli.resolve import ports
from cress.cli.tables import Cell, Selection, TableColumn, clean, facts, show, state
from cress.model.errors import InputError, NotAccepted
from cress.model.resources import BASE_DIMENSIONS
from cress.model.units import one_of

if TYPE_CHECKING:
    from cress.client import Client, NodesPage, NodeTask, NodeView

EPILOG = """\
\b
Examples:
  cress nodes                                   all nodes (the same: cress nodes list)
  cress nodes node1                             everything about one node
  cress nodes --where 'GCC >= 4.5 && Memory >= 8G' --rank 'CPU + 2 * (SSD = True)'
                                                nodes that such a job could get, and why not the others
  cress nodes cordon node1 --reason 'new disk'  start no new tasks there
  cress nodes uncordon node1 node2 'gpu-*'      let tasks start again on several nodes
  cress nodes forget node1                      declare it dead; its tasks run elsewhere
  cress nodes drain node1 --deadline 10m        cordon it; tasks that still run in ten minutes run elsewhere
  cress nodes drain 'gpu-*' --wait              cordon them; return when all their tasks have ended
  cress nodes label node1 zone=eu ssd=true old- set the labels zone and ssd, remove the label old
  cress nodes set node1 rack=r7 reserve='<2, 8G>' note='fan is loud'
                                                rack-: as the executor reports; judged=false: ignore its load
  cress nodes set node1 accepts='Job.Group in (lab, web)' repels=gpu
                                                accept only jobs of these groups that tolerate `gpu`
  cress nodes settings node1                    its settings, with all changes
  cress nodes revert node1 3                    restore its settings of revision 3; 0: no settings

\b
Columns of the list: name, state, rack, tasks, each resource (cpu, memory, …), load, reason; a narrow terminal leaves
some out.
Exit codes: 0 done, 2 bad input (such as an unknown node), 3 not accepted (such as forget of a connected node), or no
center reachable.
"""

TASKS = (
    TableColumn("TASK", right=True),
    TableColumn("NAME", gives=True),
    TableColumn("STARTED"),
    TableColumn("PORTS", gives=True),
)
# Dimensions that stay in the table at any width.
ALWAYS = ("cpu", "memory")
# Seconds from one look at a node that is drained to the next.
FIRST_LOOK, LONGEST_LOOK = 0.1, 2.0
# Most tasks of a node that are shown.
MOST_TASKS = 100

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the node.", autocompletion=completion.nodes)]
Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME", help="Names of nodes, or patterns such as 'gpu-*'.", autocompletion=completion.nodes
    ),
]

app = typer.Typer(
    cls=WithDefaultOf,
    help="List nodes, cordon or drain them, or change their settings.",
    epilog=EPILOG,
    rich_markup_mode=None,
)
app.command("label")(node_settings.label)
app.command("set")(node_settings.set_)
app.command("settings")(node_settings.settings)
app.command("revert")(node_settings.revert)


@app.command("list")
def nodes(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show everything about this node.")] = None,
    where: Annotated[
        str, typer.Option(metavar="EXPR", help="Show the nodes that satisfy this requirement, and why others do not.")
    ] = "",
    rank: Annotated[str, typer.Option(metavar="EXPR", help="Show the nodes in the order of this rank.")] = "",
    columns: Columns = "",
    wide: Wide = False,
    as_json: Json = False,
    output: Output = "",
    data: Data = None,
) -> None:
    """List nodes with their offered and used resources."""
    with told("nodes"):
        matching = bool(where or rank)
        if matching and name is not None:
            raise InputError("NAME cannot be combined with --where or --rank", hint="one or the other", field="NAME")
        if columns and (matching or name is not None):
            raise InputError("applies only to the list of all nodes", hint="--wide, or --json", field="--columns")
        selection = selection_of(columns, wide=wide)
        notes: Sequence[str] = ()
        with connect(data) as client:
            if name is not None:
                found: Sequence[NodeView] = (client.node(name),)
            elif matching:
                page = _matched(client, where, rank)
                found, notes = page.nodes, page.notes
            else:
                found = client.nodes()
        if output and not as_json:
            view = found[0] if name is not None else {"nodes": found}
            names = [node.name for node in found]
            written(view, output, lambda: table(sorted(found, key=_as_counted)), names, columns)
        elif matching and found and not as_json:
            show_matches(found, ranked=bool(rank), selection=selection)
            for note in notes:
                typer.echo(f"note: {clean(note)}", err=True)
        elif as_json:
            print_json(
                found[0] if name is not None else {"nodes": found, "notes": notes} if matching else {"nodes": found}
            )
        elif name is not None:
            _show_one(found[0], selection)
        elif found:
            show(*table(sorted(found, key=_as_counted)), selection)
        else:
            typer.echo("no node has registered yet (cress executor starts one)", err=True)


def _show_one(node: NodeView, selection: Selection) -> None:
    facts(about(node))
    for columns, rows, left in devices.tables(node.devices):
        print()
        show(columns, rows, selection)
        if left:
            print(left)
    if node.tasks:
        print()
        show(*task_table(node.tasks[:MOST_TASKS]), selection)
        if node.running > MOST_TASKS:
            print(f"and {node.running - MOST_TASKS:,} more")


def _as_counted(node: NodeView) -> list[tuple[bool, int, str]]:
    """Return a key that sorts node2 before node10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", node.name)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


@app.command()
def cordon(
    names: Names,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason, shown to other users. Default: none.")] = "",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Exclude nodes from new tasks; running tasks go on."""
    with told("nodes cordon"), connect(data) as client:
        for name in nodes_named(client, names):
            _told(client.cordon(name, reason), "takes no new tasks", as_json)


@app.command()
def uncordon(names: Names, as_json: Json = False, data: Data = None) -> None:
    """Let tasks start on nodes again."""
    with told("nodes uncordon"), connect(data) as client:
        for name in nodes_named(client, names):
            _told(client.uncordon(name), "takes tasks", as_json)


def nodes_named(client: Client, texts: Sequence[str]) -> list[str]:
    """Return the nodes with these names, or with names of these patterns, each once.

    Raises InputError if there is none for a text, so that nothing is changed then.
    """
    known = [node.name for node in client.nodes()]
    found: list[str] = []
    for text in texts:
        here = [name for name in known if name == text] or [name for name in known if fnmatchcase(name, text)]
        if not here:
            raise InputError(f"there is no node {text!r}", hint=one_of(text, known) if known else "no node has joined")
        found += here
    return list(dict.fromkeys(found))


@app.command()
def forget(name: Name, as_json: Json = False, data: Data = None) -> None:
    """Declare a node dead: its tasks are lost and run elsewhere.

    Use it only if the node is certainly dead: tasks that go on there would run twice. A node that comes back is new.
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
    names: Names,
    deadline: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="Time that running tasks may still go on, such as 10m; 0 = stop them at once. Default: to their end.",
        ),
    ] = "",
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason, shown to other users. Default: none.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until nothing runs on the nodes any more.")] = False,
    yes: Yes = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Cordon nodes, and let them become empty; tasks that still run there at the deadline run elsewhere.

    On a terminal it first shows what this would do to running and waiting work, and asks.
    """
    with told("nodes drain"):
        from cress.model.units import format_duration

        patience = duration_of(deadline, "--deadline") if deadline else None
        seconds = None if patience is None else patience / 1e6
        with connect(data) as client:
            found = nodes_named(client, names)
            if is_asked(yes=yes, as_json=as_json):
                if seconds is not None:
                    show_consequences(client, {"drain": dict.fromkeys(found, seconds)})
                ask(f"Drain {'node' if len(found) == 1 else 'nodes'} {clean(', '.join(found))}?")
            tasks = "go on to their end" if patience is None else f"have {format_duration(patience)}"
            for name in found:
                node = client.drain(name, seconds, reason)
                if not (wait and as_json):
                    _told(node, f"takes no new tasks; its running tasks {tasks}", as_json, reason)
            if wait:
                for name in found:
                    _told(_emptied(client, name), "is drained: nothing runs there", as_json, "")


def _emptied(client: Client, name: str) -> NodeView:
    """Wait until nothing runs on a node that is drained. Raises NotAccepted if it is no longer drained."""
    pause = FIRST_LOOK
    while True:
        node = patiently(lambda: client.node(name), "nodes drain")
        if node.state == "drained" or (node.state == "away" and not node.running):
            return node
        if node.state not in ("draining", "away"):
            what = f"node {clean(name)} is no longer drained: it is {node.state}"
            raise NotAccepted(what, hint="somebody has uncordoned it")
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_LOOK)


def table(nodes: Sequence[NodeView]) -> tuple[list[TableColumn], list[list[Cell]]]:
    """Return columns and rows.

    There is a column of ``used/offered`` for every dimension that some node offers, and one of loads if there are any.
    """
    names = list(dict.fromkeys(name for node in nodes for name in node.capacity))
    columns = [
        TableColumn("NAME", gives=True),
        TableColumn("STATE"),
        TableColumn("RACK", gives=True, hides=3),
        TableColumn("TASKS", right=True),
    ]
    columns += [TableColumn(name.upper(), right=True, hides=_hides(name)) for name in names]
    loads = any(node.load is not None for node in nodes)
    columns += [*[TableColumn("LOAD", right=True, hides=4)] * loads, TableColumn("REASON", gives=True, least=20)]
    note_column, notes = node_settings.note_column(nodes)
    columns += note_column
    rows: list[list[Cell]] = []
    for node, note in zip(nodes, notes, strict=True):
        used: list[Cell] = [
            f"{node.used.get(name, '0')}/{node.capacity[name]}" if name in node.capacity else "-" for name in names
        ]
        load = [devices.load_cell(node)] * loads
        rows.append(
            [node.name, state(node.state), node.rack or "-", str(node.running), *used, *load, node.reason, *note]
        )
    return columns, rows


def _hides(dimension: str) -> int:
    """Return the order in which columns disappear.

    Operations and bandwidth come before the cluster's own resources, such as gpu.
    """
    return 0 if dimension in ALWAYS else 1 if dimension in BASE_DIMENSIONS else 2


def about(node: NodeView) -> list[tuple[str, Cell]]:
    """Return the facts about a node."""
    return [
        ("Node", node.name),
        ("State", state(node.state)),
        ("Reason", node.reason),
        ("Empty at", "" if node.drained_at is None else moment(node.drained_at)),
        ("Rack", node_settings.rack_of(node)),
        ("Address", node.address),
        ("Tasks", str(node.running)),
        *node_settings.told_of(node),
        *((name, f"{node.used.get(name, '0')} of {amount} used") for name, amount in node.capacity.items()),
        ("Disks", f"{node.disks_free} of {node.disks} free" if node.disks else ""),
        ("Load", devices.load(node)),
        ("Data", devices.data(node.data)),
        ("Ports", _ports(node)),
        ("Not limited", "; ".join(node.unlimited)),
        ("Strangers", "; ".join(node.strangers)),
        *(
            (name, node_settings.attribute(node, name, value))
            for name, value in node.attributes.items()
            if not (node.disks and name == "Disks")
        ),
    ]


def _matched(client: Client, where: str, rank: str) -> NodesPage:
    from cress.client import Refused

    try:
        return client.match_nodes(where, rank)
    except Refused as error:
        if not error.faults:
            raise
        raise InputError(error.faults[0].what, hint=error.faults[0].hint, field=f"--{error.faults[0].field}") from None


def task_table(tasks: Sequence[NodeTask]) -> tuple[list[TableColumn], list[list[Cell]]]:
    """Return columns and rows of the tasks on a node, with a column of devices if a task has some."""
    return devices.with_devices(TASKS, [task_row(task) for task in tasks], [task.devices for task in tasks], len(TASKS))


def task_row(task: NodeTask) -> list[Cell]:
    """Return the cells of a task on a node."""
    started = "starting" if task.started is None else moment(task.started)
    return [f"{task.job}.{task.task}", task.name, started, ports(task.ports)]


def _ports(node: NodeView) -> str:
    """Return the foreign ports of a node."""
    given = sorted(number for task in node.tasks for number in task.ports.values())
    parts = [("of tasks: ", given), ("of others: ", node.ports_seen)]
    return "; ".join(name + " ".join(map(str, numbers)) for name, numbers in parts if numbers)


def _told(node: NodeView, what: str, as_json: bool, reason: str | None = None) -> None:
    if as_json:
        print_json(node)
        return
    why = node.reason if reason is None else reason
    print(f"node {clean(node.name)} {what}" + (f" ({clean(why)})" if why else ""), flush=True)
