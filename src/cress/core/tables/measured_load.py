"""Measured load: what nodes said last, and which of them are too busy for new tasks (algorithms §7, step 3).

A node is overloaded when its processors are busy for more than ``overload_cpu`` of the time, or less memory than
``overload_memory`` is free, and its tasks do not explain that: who was promised the whole node may use it, and its node is
full and not overloaded, so that reservations and preemption go on there. A node that is overloaded comes back at other
thresholds than those at which it went.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from cress.core.kernels.holding import FREE
from cress.model.events import LoadSeen
from cress.model.node import Load, Node
from cress.model.options import Options
from cress.model.resources import Measure
from cress.model.units import AMOUNT_LIMIT, format_amount

if TYPE_CHECKING:
    from cress.core.ledger import Ledger

# In thousandths: how much more than what tasks were promised is no inaccuracy, and how far below its limit cpu comes back.
BESIDE, BACK = 100, 100
# Of ``overload_memory``, a part of which the same holds.
PART = 4
# Overloaded nodes that an explanation names.
MOST_TOLD = 3
_MIB = 2**20


class Promised(NamedTuple):
    """What tasks on a node were promised of its machine: thousandths of the processors, and bytes that are left of memory."""

    cpu: int
    memory_left: int


class Over(NamedTuple):
    """What of a node is too busy."""

    cpu: bool = False
    memory: bool = False


NOT = Over()


class Loads:
    """The loads of the nodes of one cluster, by index; a node that says nothing has none. ``over``: those too busy."""

    def __init__(self) -> None:
        self.seen: dict[int, Load] = {}
        self.over: dict[int, Over] = {}


def judged(load: Load, promised: Promised, before: Over, options: Options) -> Over:
    """What is too busy of a node with this load, of which ``before`` was."""
    limit = round(1000 * options.overload_cpu)
    cpu = limit > 0 and load.cpu > (
        max(limit - BACK, promised.cpu) if before.cpu else max(limit, promised.cpu + BESIDE)
    )
    least = options.overload_memory
    memory = least > 0 and load.free_memory < (
        min(least + least // PART, promised.memory_left)
        if before.memory
        else min(least, promised.memory_left - least // PART)
    )
    return Over(cpu, memory)


def see(core: Ledger, event: LoadSeen) -> int:
    """The measured load of a node is another one now; returns its index."""
    f = core.cluster.index[event.name]
    if event.load is None or core.cluster.lost[f]:
        forget(core, f)
    else:
        core.loads.seen[f] = event.load
        core.cluster.watcher.set_load(f, event.load)
        judge(core, f)
    return f


def forget(core: Ledger, f: int) -> None:
    """Nobody measures the node any more."""
    if core.loads.seen.pop(f, None) is not None:
        core.cluster.watcher.set_load(f, None)
        _set(core, f, NOT)


def judge(core: Ledger, f: int) -> None:
    """Look again whether a node is overloaded: its load, or the node, is another one."""
    load = core.loads.seen.get(f)
    if load is not None:
        _set(core, f, over_with(core, f, load))


def over_with(core: Ledger, f: int, load: Load) -> Over:
    """What of node ``f`` would be too busy if this were its load."""
    if not core.cluster.specs[f].judged:
        return NOT
    return judged(load, promised_on(core, f), core.loads.over.get(f, NOT), core.options)


def promised_on(core: Ledger, f: int) -> Promised:
    """What the tasks on node ``f`` were promised of its machine, of which the node may offer only a part."""
    nodes, k = core.cluster.nodes, core.cluster.k_count
    cpu, memory = core.dimensions.index["cpu"], core.dimensions.index["memory"]
    free, most = nodes[f, FREE : FREE + k], nodes[f, FREE + k : FREE + 2 * k]
    processors, bytes_there = _machine(core.cluster.specs[f])
    processors, bytes_there = processors or int(most[cpu]), bytes_there or int(most[memory])
    held = int(most[cpu] - free[cpu])
    return Promised(1000 * held // processors if processors else 0, bytes_there - int(most[memory] - free[memory]))


def _machine(node: Node) -> tuple[int, int]:
    """The processors (in thousandths) and the memory (bytes) of the machine, as its executor found them; 0: not known."""
    found = dict(node.attributes)
    processors, memory = found.get("CPUs"), found.get("MemoryTotal")
    return (
        1000 * processors if isinstance(processors, int) and processors > 0 else 0,
        memory if isinstance(memory, int) and memory > 0 else 0,
    )


def _set(core: Ledger, f: int, over: Over) -> None:
    if over == NOT:
        core.loads.over.pop(f, None)
    else:
        core.loads.over[f] = over
    load = core.loads.seen.get(f)
    core.cluster.set_overload(f, told(load, over) if load is not None and over != NOT else None)


def told(load: Load, over: Over) -> str:
    """What is too much, for people: ``cpu 97%, 312M of memory free``."""
    free = format_amount(min(load.free_memory, AMOUNT_LIMIT - 1) // _MIB * _MIB, Measure.BYTES)
    parts = [f"cpu {load.cpu / 10:.0f}%"] * over.cpu + [f"{free} of memory free"] * over.memory
    return ", ".join(parts)


class Busy(NamedTuple):
    """Overloaded nodes: how many, and of the first ones the name and what is too much."""

    number: int
    first: tuple[tuple[str, str], ...]


NOBODY_BUSY = Busy(0, ())


def overloaded_nodes(core: Ledger) -> list[int]:
    """The nodes that take no new tasks for nothing but their load."""
    cluster = core.cluster
    return [f for f in sorted(core.loads.over) if not cluster.lost[f] and cluster.cordoned[f] is None]


def busy(core: Ledger, nodes: list[int]) -> Busy:
    """These overloaded nodes for an explanation."""
    cluster = core.cluster
    return Busy(len(nodes), tuple((cluster.names[f], cluster.overloaded[f] or "") for f in nodes[:MOST_TOLD]))


def say_busy(nodes: Busy) -> tuple[str, ...]:
    """What is said of them, nothing if there are none."""
    if not nodes.number:
        return ()
    if nodes.number == 1:
        name, what = nodes.first[0]
        return (f"{name} is overloaded ({what})",)
    more = ", …" if nodes.number > len(nodes.first) else ""
    return (
        f"{nodes.number} nodes are overloaded: " + ", ".join(f"{name} ({what})" for name, what in nodes.first) + more,
    )


# --- leaving and coming back -----------------------------------------------------------------------------------


def export(core: Ledger) -> dict[str, Any]:
    """The loads as plain data, and the options by which they were judged."""
    over = core.loads.over
    return {
        "by": [core.options.overload_cpu, core.options.overload_memory],
        "nodes": [
            [f, load.cpu, load.memory, load.network, load.disk, load.free_memory, *over.get(f, NOT)]
            for f, load in sorted(core.loads.seen.items())
        ],
    }


def restore(core: Ledger, state: dict[str, Any]) -> None:
    """What ``export`` wrote, once the tasks are there; with other options every node is judged as if for the first time."""
    alike = state["by"] == [core.options.overload_cpu, core.options.overload_memory]
    for f, cpu, memory, network, disk, free, over_cpu, over_memory in state["nodes"]:
        load = core.loads.seen[f] = Load(cpu, memory, network, disk, free)
        core.cluster.watcher.set_load(f, load)
        _set(core, f, Over(over_cpu, over_memory) if alike else over_with(core, f, load))
