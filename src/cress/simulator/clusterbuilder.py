"""The builder of a cluster from either format, which also collects the mistakes of the file."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address

from msgspec.structs import replace

from cress.model.distances import Distance
from cress.model.errors import InputError, InputErrors
from cress.model.node import Node
from cress.model.resources import Dimensions, ResourceVector
from cress.model.units import parse_count, parse_dimension
from cress.simulator.workload import Outage, PlannedDrain, SimulatedCluster, WrittenReservation

MOST_NODES = 1_000_000


class Builder:
    """Collects nodes and mistakes; one entry of the file describes one or more equal nodes."""

    def __init__(self, dimensions: Dimensions, file: str) -> None:
        self.dimensions = dimensions
        self.file = file
        self.nodes: list[Node] = []
        self.errors: list[InputError] = []
        self._names: dict[str, int] = {}
        self.neighbours: list[tuple[str, str]] = []
        self.distances: tuple[Distance, ...] = ()
        self.outages: list[Outage] = []
        self.drains: list[PlannedDrain] = []
        self.reservations: list[WrittenReservation] = []
        self.licences: tuple[tuple[str, int], ...] = ()

    def add(self, line: int, name: str, count: str, node: Node) -> None:
        """Add nodes like ``node``, named ``name`` or, with a count, ``name-1`` … ``name-count``; addresses ascend."""
        if not name:
            self.wrong(InputError("a node has no name", hint="name: web", line=line, field="name"))
            return
        try:
            number = parse_count(count, least=1, most=MOST_NODES) if count else 1
        except InputError as error:
            self.wrong(error.at(line=line, field="count"))
            return
        if not any(node.capacity):
            self.wrong(InputError(f"node {name} has no resources", hint="resource: <16, 64G>", line=line))
            return
        width = len(str(number))
        for i in range(1, number + 1):
            full = f"{name}-{i:0{width}d}" if count else name
            if full in self._names:
                self.wrong(
                    InputError(
                        f"node {full} is defined twice, first in line {self._names[full]}",
                        hint="node names must be unique",
                        line=line,
                        field="name",
                    )
                )
                return
            self._names[full] = line
            address = str(ip_address(node.address) + i - 1) if node.address else ""
            self.nodes.append(replace(node, name=full, address=address))

    def wrong(self, error: InputError) -> None:
        """Note a mistake; the file is read to its end, so that all mistakes are reported at once."""
        self.errors.append(error.at(file=self.file))

    def amounts(self, given: Mapping[str, str], line: int) -> ResourceVector | None:
        """Return the vector of these amounts by dimension; ``None`` after a mistake."""
        found: dict[str, int] = {}
        for name, text in given.items():
            try:
                found[name] = parse_dimension(text, name, self.dimensions)
            except InputError as error:
                self.wrong(error.at(line=line, field=name))
        return self.dimensions.vector(**found) if len(found) == len(given) else None

    def cluster(self) -> SimulatedCluster:
        """Return the cluster. Raise the mistakes, or ``InputError`` if there is no node."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise InputErrors(self.errors)
        if not self.nodes:
            raise InputError("no nodes in it", hint="at least one under nodes:", file=self.file, field="nodes")
        return SimulatedCluster(
            self.dimensions,
            tuple(self.nodes),
            tuple(self.neighbours),
            tuple(self.outages),
            self.licences,
            tuple(self.drains),
            tuple(self.reservations),
            self.distances,
        )
