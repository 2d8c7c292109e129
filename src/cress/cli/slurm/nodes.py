"""``sinfo``: nodes and partitions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cress.cli.slurm.common import VERSION, center, site
from cress.cli.slurm.queue import VALUE, option
from cress.cli.slurm.tables import columns_of_names, printed, widths
from cress.model.errors import InputError
from cress.model.units import closest
from cress.slurm.command_line import parse, values_of
from cress.slurm.nodelist import compressed, expanded

if TYPE_CHECKING:
    from cress.client import Client, NodeView

USUAL = "%9P %.5a %.10l %.6D %.6t %N"
LONG = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
NODES = "%N %.6D %.9P %.6t"
LONG_NODES = "%N %.6D %.9P %.11T %.4c %.8z %.6m %.8d %.6w %.8f %20E"
# The states of Slurm, short and long, by the words of this module.
SHORT = {"idle": "idle", "mixed": "mix", "allocated": "alloc", "drained": "drain", "draining": "drng", "down": "down"}
SLURM_STATES = {
    "idle": "IDLE", "mixed": "MIXED", "allocated": "ALLOCATED", "drained": "IDLE+DRAIN", "draining": "MIXED+DRAIN",
    "down": "DOWN",
}  # fmt: skip
OPTIONS = (
    option("all", "a"),
    option("clusters", "M", VALUE),
    option("exact", "e"),
    option("format", "o", VALUE),
    option("Format", "O", VALUE),
    option("hide"),
    option("list-reasons", "R"),
    option("long", "l"),
    option("noheader", "h"),
    option("Node", "N"),
    option("nodes", "n", VALUE),
    option("partition", "p", VALUE),
    option("responding", "r"),
    option("states", "t", VALUE),
    option("summarize", "s"),
    option("verbose", "v"),
    option("dead", "d"),
)


class Line(NamedTuple):
    """Nodes of one state in one partition."""

    partition: str
    state: str
    nodes: tuple[NodeView, ...]


def cpus_of(node: NodeView) -> tuple[float, float]:
    """Return the processors of a node, and those in use."""
    return _amount(node.capacity.get("cpu", 0)), _amount(node.used.get("cpu", 0))


def _amount(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return 0.0


def memory_of(node: NodeView) -> tuple[int, int]:
    """Return the bytes of memory of a node, and those in use."""
    return int(node.capacity_amounts.get("memory", 0)), int(node.used_amounts.get("memory", 0))


def state_of(node: NodeView) -> str:
    """Return the state of a node: idle, mixed, allocated, drained, draining or down."""
    if node.state == "away":
        return "down"
    if node.state in ("cordoned", "draining", "drained"):
        return "draining" if node.running else "drained"
    total, used = cpus_of(node)
    if not node.running and not used:
        return "idle"
    return "allocated" if used >= total else "mixed"


def partitions(client: Client) -> list[str]:
    """Return the partitions of the site's table and the groups without groups below; the default one has a ``*``."""
    groups = [group for group in client.groups().groups if not getattr(group, "inner", False)]
    names = dict.fromkeys([*site().partitions, *(group.name for group in groups)])
    return sorted((f"{name}*" if name == "default" else name for name in names), key=lambda name: "*" not in name)


def _counted(line: Line, *states: str) -> int:
    return sum(state_of(node) in states for node in line.nodes)


def _cpus(line: Line) -> str:
    total = sum(cpus_of(node)[0] for node in line.nodes)
    out = sum(cpus_of(node)[0] for node in line.nodes if state_of(node) in ("drained", "draining", "down"))
    used = sum(cpus_of(node)[1] for node in line.nodes)
    return f"{used:g}/{max(total - out - used, 0):g}/{out:g}/{total:g}"


LETTERS: dict[str, Callable[[Line], str]] = {
    "a": lambda _line: "up",
    "B": lambda _line: "UNLIMITED",
    "b": lambda _line: "(null)",
    "A": lambda line: f"{_counted(line, 'mixed', 'allocated')}/{_counted(line, 'idle')}",
    "C": _cpus,
    "c": lambda line: f"{min((cpus_of(node)[0] for node in line.nodes), default=0):g}",
    "D": lambda line: str(len(line.nodes)),
    "d": lambda _line: "0",
    "E": lambda line: next((node.reason for node in line.nodes if node.reason), "none"),
    "e": lambda line: str((memory_of(line.nodes[0])[0] - memory_of(line.nodes[0])[1]) >> 20 if line.nodes else 0),
    "F": lambda line: f"{_counted(line, 'mixed', 'allocated')}/{_counted(line, 'idle')}/"
    f"{_counted(line, 'drained', 'draining', 'down')}/{len(line.nodes)}",
    "f": lambda _line: "(null)",
    "G": lambda line: f"gpu:{line.nodes[0].capacity['gpu']}" if line.nodes and "gpu" in line.nodes[0].capacity else
    "(null)",
    "g": lambda _line: "all",
    "H": lambda _line: "Unknown",
    "h": lambda _line: "YES",
    "I": lambda _line: "1",
    "L": lambda _line: "n/a",
    "l": lambda _line: "infinite",
    "M": lambda _line: "REQUEUE",
    "m": lambda line: str(min((memory_of(node)[0] >> 20 for node in line.nodes), default=0)),
    "N": lambda line: compressed(node.name for node in line.nodes),
    "n": lambda line: ",".join(node.name for node in line.nodes),
    "O": lambda _line: "N/A",
    "o": lambda line: ",".join(node.address or node.name for node in line.nodes),
    "P": lambda line: line.partition,
    "p": lambda _line: "1",
    "R": lambda line: line.partition.rstrip("*"),
    "r": lambda _line: "no",
    "s": lambda _line: "1-infinite",
    "T": lambda line: line.state,
    "t": lambda line: SHORT.get(line.state, line.state),
    "u": lambda _line: "Unknown",
    "v": lambda _line: VERSION.removeprefix("slurm "),
    "w": lambda _line: "1",
    "X": lambda _line: "1",
    "Y": lambda _line: "1",
    "Z": lambda _line: "1",
    "z": lambda line: f"1:{min((int(cpus_of(node)[0]) for node in line.nodes), default=0)}:1",
}  # fmt: skip
HEADS = {
    "a": "AVAIL", "A": "NODES(A/I)", "B": "MAX_CPUS_PER_NODE", "b": "ACTIVE_FEATURES", "C": "CPUS(A/I/O/T)",
    "c": "CPUS", "D": "NODES", "d": "TMP_DISK", "E": "REASON", "e": "FREE_MEM", "F": "NODES(A/I/O/T)",
    "f": "AVAIL_FEATURES", "G": "GRES", "g": "GROUPS", "h": "OVERSUBS", "H": "TIMESTAMP", "I": "PRIO_JOB_FACTOR",
    "L": "DEFAULTTIME", "l": "TIMELIMIT", "M": "PREEMPT_MODE", "m": "MEMORY", "N": "NODELIST", "n": "HOSTNAMES",
    "O": "CPU_LOAD", "o": "NODE_ADDR", "P": "PARTITION", "p": "PRIO_TIER", "R": "PARTITION", "u": "USER",
    "v": "VERSION", "r": "ROOT", "s": "JOB_SIZE", "T": "STATE", "t": "STATE", "w": "WEIGHT", "X": "SOCKETS",
    "Y": "CORES", "Z": "THREADS", "z": "S:C:T",
}  # fmt: skip
# The fields of --Format, by the letters of --format.
NAMES = {
    "available": "a", "cores": "Y", "cpus": "c", "cpusload": "O", "cpusstate": "C", "defaulttime": "L", "disk": "d",
    "features": "f", "features_act": "b", "freemem": "e", "gres": "G", "groups": "g", "maxcpuspernode": "B",
    "memory": "m", "nodeaddr": "o", "nodeai": "A", "nodeaiot": "F", "nodehost": "n", "nodelist": "N", "nodes": "D",
    "oversubscribe": "h", "partition": "P", "partitionname": "R", "preemptmode": "M", "priorityjobfactor": "I",
    "prioritytier": "p", "reason": "E", "root": "r", "size": "s", "socketcorethread": "z", "sockets": "X",
    "statecompact": "t", "statecomplete": "T", "statelong": "T", "threads": "Z", "time": "l", "timestamp": "H",
    "user": "u", "userlong": "u", "version": "v", "weight": "w",
}  # fmt: skip


def _named(name: str) -> Callable[[Line], str]:
    """Return the field of a name of --Format. Raises InputError."""
    letter = NAMES.get(name.lower())
    if letter is None:
        near = closest(name.lower(), NAMES)
        raise InputError(f"Invalid field requested: {name!r}", hint=f"did you mean {near}?" if near else "")
    return LETTERS[letter]


def letters(names: str) -> str:
    """Return the letters of the fields of --Format, which are known."""
    words = [word.partition(":")[0].strip().lower() for word in names.split(",")]
    return "".join(NAMES[word] for word in words if word)


def sinfo(_name: str, words: Sequence[str]) -> int:
    """Print the partitions and the states of their nodes."""
    given, _ = parse(words, OPTIONS, mixed=True)
    values = values_of(given)
    single, long = "Node" in values, "long" in values
    usual = (LONG_NODES if long else NODES) if single else "%9P %.5a %.10l %.16F %N" if "summarize" in values else (
        LONG if long else USUAL
    )  # fmt: skip
    text = values.get("format") or os.environ.get("SINFO_FORMAT") or usual
    columns = widths(text, LETTERS, HEADS)
    if "Format" in values:
        columns = columns_of_names(values["Format"], _named, width=20)
        text = letters(values["Format"])
    with center() as client:
        views, names = client.nodes(), partitions(client)
    if values.get("nodes"):
        chosen = set(expanded(values["nodes"]))
        views = tuple(view for view in views if view.name in chosen)
    if values.get("partition"):
        asked = values["partition"].split(",")
        names = [partition for partition in names if partition.rstrip("*") in asked]
    states = {word.strip().lower() for word in values.get("states", "").split(",") if word.strip()}
    lines = []
    # Without a partition in the format, nodes are shown once.
    shows_partition = any(f"{letter}" in text for letter in ("P", "R"))
    for partition in names if shows_partition else names[:1]:
        lines += _lines(partition, views, single=single, whole="summarize" in values or "t" not in text.lower())
    lines = [line for line in lines if not states or {line.state, SHORT.get(line.state, "")} & states]
    printed(columns, lines, head="noheader" not in values)
    return 0


def _lines(partition: str, views: Sequence[NodeView], *, single: bool, whole: bool) -> list[Line]:
    if single:
        return [Line(partition, state_of(view), (view,)) for view in sorted(views, key=lambda view: view.name)]
    if whole:
        return [Line(partition, "", tuple(views))]
    by_state: dict[str, list[NodeView]] = {}
    for view in views:
        by_state.setdefault(state_of(view), []).append(view)
    return [Line(partition, state, tuple(found)) for state, found in by_state.items()] or [Line(partition, "n/a", ())]
