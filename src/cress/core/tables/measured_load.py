"""Measured load: the last measurement of each node, and the nodes too busy for new tasks (algorithms §7, step 3).

A node is overloaded if its processors are busy for more than ``overload_cpu`` of the time, or if less memory than
``overload_memory`` is free, and the requests of its tasks do not explain it. Tasks that requested the whole node may
use it; such a node is full but not overloaded, so reservations and preemption go on there. A node stops being
overloaded at other thresholds than those at which it becomes so.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from cress.core.tables.cluster import Cluster
from cress.model.events import LoadSeen
from cress.model.node import Load, Node
from cress.model.options import Options
from cress.model.resources import Measure
from cress.model.units import AMOUNT_LIMIT, format_amount

# In thousandths: the tolerance above the promised amounts, and the distance below the limit at which overload by cpu
# ends.
BESIDE, BACK = 100, 100
# The tolerance for memory is ``overload_memory`` divided by this.
PART = 4
# The number of overloaded nodes named in an explanation.
MOST_TOLD = 3
_MIB = 2**20


class Promised(NamedTuple):
    """The promised part of a machine: thousandths of the processors, and the remaining memory (bytes)."""

    cpu: int
    memory_left: int


class Over(NamedTuple):
    """The measures of a node that are too high."""

    cpu: bool = False
    memory: bool = False


NOT = Over()


class SeenLoad(NamedTuple):
    """The load of a node as stored in a state, and its excessive measures."""

    node: int
    cpu: int
    memory: int
    network: int
    disk: int
    free_memory: int
    over_cpu: bool
    over_memory: bool


class LoadsState(msgspec.Struct):
    """The loads of nodes as stored in a state, and the options ``by`` which they were judged."""

    by: tuple[float, int]
    nodes: list[SeenLoad]


def judged(load: Load, promised: Promised, before: Over, options: Options) -> Over:
    """Return the measures that are too high at this load; ``before`` are those that were too high before."""
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


def _machine(node: Node) -> tuple[int, int]:
    """Return the processors (thousandths) and the memory (bytes) of the machine as its executor found them; 0 if
    unknown.
    """
    found = dict(node.attributes)
    processors, memory = found.get("CPUs"), found.get("MemoryTotal")
    return (
        1000 * processors if isinstance(processors, int) and processors > 0 else 0,
        memory if isinstance(memory, int) and memory > 0 else 0,
    )


def measures_text(load: Load, over: Over) -> str:
    """Return the measures that are too high as text: ``cpu 97%, 312M of memory free``."""
    free = format_amount(min(load.free_memory, AMOUNT_LIMIT - 1) // _MIB * _MIB, Measure.BYTES)
    parts = [f"cpu {load.cpu / 10:.0f}%"] * over.cpu + [f"{free} of memory free"] * over.memory
    return ", ".join(parts)


class Busy(NamedTuple):
    """Overloaded nodes: their number, and name and measures of the first ones."""

    number: int
    first: tuple[tuple[str, str], ...]


NO_OVERLOAD = Busy(0, ())


def say_busy(nodes: Busy) -> tuple[str, ...]:
    """Return the sentence about them; empty without any."""
    if not nodes.number:
        return ()
    if nodes.number == 1:
        name, what = nodes.first[0]
        return (f"{name} is overloaded ({what})",)
    more = ", …" if nodes.number > len(nodes.first) else ""
    return (
        f"{nodes.number} nodes are overloaded: " + ", ".join(f"{name} ({what})" for name, what in nodes.first) + more,
    )


class Loads:
    """The measured loads of the nodes of one cluster, by index; nodes without measurements have none.

    ``over`` contains the excessive measures, by overloaded node.
    """

    def __init__(self, cluster: Cluster, options: Options) -> None:
        self._cluster = cluster
        self._options = options
        self.seen: dict[int, Load] = {}
        self.over: dict[int, Over] = {}

    def see(self, event: LoadSeen) -> int:
        """Set the measured load of a node; return its index."""
        f = self._cluster.index[event.name]
        if event.load is None or self._cluster.lost[f]:
            self.forget(f)
        else:
            self.seen[f] = event.load
            self._cluster.watcher.set_load(f, event.load)
            self.judge(f)
        return f

    def forget(self, f: int) -> None:
        """Drop the load of a node that is no longer measured."""
        if self.seen.pop(f, None) is not None:
            self._cluster.watcher.set_load(f, None)
            self._set(f, NOT)

    def judge(self, f: int) -> None:
        """Decide again if a node is overloaded, after a change of its load or description."""
        load = self.seen.get(f)
        if load is not None:
            self._set(f, self.over_with(f, load))

    def over_with(self, f: int, load: Load) -> Over:
        """Return the measures of node ``f`` that would be too high at this load."""
        if not self._cluster.specs[f].judged:
            return NOT
        return judged(load, self.promised_on(f), self.over.get(f, NOT), self._options)

    def promised_on(self, f: int) -> Promised:
        """Return the promised part of the machine of node ``f``; the node may offer only a part of the machine."""
        cpu, memory = self._cluster.dimensions.index["cpu"], self._cluster.dimensions.index["memory"]
        free, most = self._cluster.free_now()[f], self._cluster.capacities()[f]
        processors, bytes_there = _machine(self._cluster.specs[f])
        processors, bytes_there = processors or int(most[cpu]), bytes_there or int(most[memory])
        held = int(most[cpu] - free[cpu])
        return Promised(1000 * held // processors if processors else 0, bytes_there - int(most[memory] - free[memory]))

    def _set(self, f: int, over: Over) -> None:
        if over == NOT:
            self.over.pop(f, None)
        else:
            self.over[f] = over
        load = self.seen.get(f)
        self._cluster.set_overload(f, measures_text(load, over) if load is not None and over != NOT else None)

    def overloaded_nodes(self) -> list[int]:
        """Return the nodes that take no new tasks only because of their load."""
        cluster = self._cluster
        return [f for f in sorted(self.over) if not cluster.lost[f] and cluster.cordoned[f] is None]

    def busy(self, nodes: list[int]) -> Busy:
        """Return these overloaded nodes for an explanation."""
        cluster = self._cluster
        return Busy(len(nodes), tuple((cluster.names[f], cluster.overloaded[f] or "") for f in nodes[:MOST_TOLD]))

    def export(self) -> LoadsState:
        """Return the loads in the form for a state."""
        over = self.over
        return LoadsState(
            (self._options.overload_cpu, self._options.overload_memory),
            [
                SeenLoad(f, load.cpu, load.memory, load.network, load.disk, load.free_memory, *over.get(f, NOT))
                for f, load in sorted(self.seen.items())
            ],
        )

    def restore(self, state: LoadsState) -> None:
        """Restore exported loads, after the tasks; with other options every node is judged as if for the first time."""
        alike = state.by == (self._options.overload_cpu, self._options.overload_memory)
        for f, cpu, memory, network, disk, free, over_cpu, over_memory in state.nodes:
            load = self.seen[f] = Load(cpu, memory, network, disk, free)
            self._cluster.watcher.set_load(f, load)
            self._set(f, Over(over_cpu, over_memory) if alike else self.over_with(f, load))
