"""The cluster to simulate: a YAML file for people (``clusteryaml.py``), or a CSV table for programs (docs/simulate.md)."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

from msgspec.structs import replace

from cress.model.errors import InputError, InputErrors
from cress.model.jobfile.values import MAX_ERRORS
from cress.model.node import Node
from cress.model.resources import BASE_DIMENSIONS, Dimensions, ResourceVector
from cress.model.units import parse_count, parse_dimension
from cress.simulator.traces import TABLES, text_of
from cress.simulator.workload import Cluster, Outage

TABLE_KEYS = ("name", "count", "rack")
MOST_NODES = 1_000_000


def load_cluster(path: Path) -> Cluster:
    """Read a cluster file. Raises ``InputError`` with file, line and field for every mistake found."""
    try:
        with text_of(path) as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise InputError("is no text", hint="YAML or CSV in UTF-8", file=str(path)) from error
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot be read: {reason}", file=str(path)) from error
    if path.name.lower().endswith(TABLES):
        return _from_csv(text, str(path))
    if path.suffix.lower() in {".yaml", ".yml"}:
        # Only who gives such a file pays for its parser.
        from cress.simulator.clusteryaml import read

        return read(text, str(path))
    raise InputError(
        f"the suffix {path.suffix!r} says nothing of its format", hint="FILE.yaml or FILE.csv", file=str(path)
    )


class Builder:
    """Collects nodes and mistakes; one row of either format describes one or more equal nodes."""

    def __init__(self, dimensions: Dimensions, file: str) -> None:
        self.dimensions = dimensions
        self.file = file
        self.nodes: list[Node] = []
        self.errors: list[InputError] = []
        self._names: dict[str, int] = {}
        self.neighbours: list[tuple[str, str]] = []
        self.outages: list[Outage] = []
        self.licences: tuple[tuple[str, int], ...] = ()

    def add(self, line: int, name: str, count: str, node: Node) -> None:
        """Nodes like ``node`` called ``name``, or ``name-1`` … ``name-count`` with a count, at addresses one by one."""
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
                        f"node {full} is there already, from line {self._names[full]}",
                        hint="each name once",
                        line=line,
                        field="name",
                    )
                )
                return
            self._names[full] = line
            address = str(ip_address(node.address) + i - 1) if node.address else ""
            self.nodes.append(replace(node, name=full, address=address))

    def wrong(self, error: InputError) -> None:
        """Remember a mistake; the file is read to its end so that all are told at once."""
        self.errors.append(error.at(file=self.file))

    def amounts(self, given: Mapping[str, str], line: int) -> ResourceVector | None:
        """The vector of these amounts by dimension; ``None`` after a mistake."""
        found: dict[str, int] = {}
        for name, text in given.items():
            try:
                found[name] = parse_dimension(text, name, self.dimensions)
            except InputError as error:
                self.wrong(error.at(line=line, field=name))
        return self.dimensions.vector(**found) if len(found) == len(given) else None

    def cluster(self) -> Cluster:
        """What was read. Raises the mistakes, or an ``InputError`` when there is no node at all."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise InputErrors(self.errors[:MAX_ERRORS])
        if not self.nodes:
            raise InputError("no nodes in it", hint="at least one under nodes:", file=self.file, field="nodes")
        return Cluster(self.dimensions, tuple(self.nodes), tuple(self.neighbours), tuple(self.outages), self.licences)


def _from_csv(text: str, file: str) -> Cluster:
    reader = csv.reader(text.splitlines())
    header = [cell.strip() for cell in next(reader, [])]
    if "sn" in header or "num_gpu" in header:
        # Only who gives such a list pays for its reader.
        from cress.simulator.traces import openb

        if openb.is_nodes(header):
            return openb.load_nodes(text, file)
        if openb.is_pods(header):
            raise InputError("a list of pods is no cluster", hint=openb.HOW, file=file)
    if "name" not in header:
        raise InputError(
            "the first line names no column `name`", hint="name,count,rack,cpu,memory,…", file=file, line=1
        )
    custom = tuple(cell for cell in header if cell not in TABLE_KEYS and cell not in BASE_DIMENSIONS)
    try:
        dimensions = Dimensions(custom)
    except InputError as error:
        raise error.at(file=file, line=1) from error
    builder = Builder(dimensions, file)
    for row in reader:
        line = reader.line_num
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(header):
            builder.wrong(InputError(f"{len(row)} cells", hint=f"{len(header)}, as in the first line", line=line))
            continue
        cells = {name: cell.strip() for name, cell in zip(header, row, strict=True)}
        given = {name: cell for name, cell in cells.items() if name not in TABLE_KEYS and cell}
        capacity = builder.amounts(given, line)
        if capacity is not None:
            node = Node(name="", capacity=capacity, rack=cells.get("rack", ""))
            builder.add(line, cells["name"], cells.get("count", ""), node)
    return builder.cluster()
