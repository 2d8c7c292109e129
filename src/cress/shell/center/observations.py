"""Events about observations: overloaded nodes, licences, data that cannot be located."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cress.lifecycle.machine import Machine
from cress.model.times import SECOND
from cress.protocol.views import EventView


def overloaded(machine: Machine) -> frozenset[str]:
    """Return the nodes whose measured load is too high for new tasks."""
    cluster = machine.core.cluster
    return frozenset(cluster.names[f] for f, what in enumerate(cluster.overloaded) if what is not None)


def of_loads(machine: Machine, before: frozenset[str]) -> Iterator[EventView]:
    """Yield the nodes whose overload has begun or ended."""
    at, cluster = machine.utc / SECOND, machine.core.cluster
    now = overloaded(machine)
    for name in sorted(now - before):
        yield EventView(at=at, kind="node.overloaded", node=name, text=cluster.overloaded[cluster.index[name]] or "")
    for name in sorted(before - now):
        # One that is gone has taken its load with it: that it left is told.
        if name in machine.nodes and machine.nodes[name].connected:
            yield EventView(at=at, kind="node.recovered", node=name)


def problems_of(machine: Machine, data: Iterable[str]) -> dict[str, str]:
    """Return why each data cannot be located; empty: it is located, or was not looked for."""
    known = machine.core.relations.locations.problems
    return {each: known.get(each, "") for each in data}


def of_data(machine: Machine, before: Mapping[str, str]) -> Iterator[EventView]:
    """Yield data that cannot be located; once, though it is looked up again while jobs wait for it."""
    for data, problem in problems_of(machine, before).items():
        if problem and problem != before[data]:
            yield EventView(at=machine.utc / SECOND, kind="data.missing", text=f"{data}: {problem}")


def of_licences(machine: Machine, counts: Sequence[tuple[str, int]]) -> EventView:
    """Return the event of a new list of licences."""
    told = ", ".join(f"{name} {count}" for name, count in counts)
    return EventView(at=machine.utc / SECOND, kind="licences.changed", text=told or "none")
