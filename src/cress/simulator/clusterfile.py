"""The cluster to simulate: a YAML file for people, or a CSV table for programs (docs/simulate.md)."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cress.model.errors import InputError, InputErrors
from cress.model.node import Node
from cress.model.resources import BASE_DIMENSIONS, Dimensions, ResourceVector
from cress.model.units import closest, parse_count, parse_dimension
from cress.model.vectors import parse_vector
from cress.simulator.workload import Cluster

TOP_KEYS = ("dimensions", "nodes")
NODE_KEYS = ("name", "count", "rack", "resource")
TABLE_KEYS = ("name", "count", "rack")
MOST_NODES = 1_000_000


def load_cluster(path: Path) -> Cluster:
    """Read a cluster file. Raises ``InputError`` with file, line and field for every mistake found."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from error
    except UnicodeDecodeError as error:
        raise InputError("is no text", hint="YAML or CSV in UTF-8", file=str(path)) from error
    if path.suffix.lower() == ".csv":
        return _from_csv(text, str(path))
    if path.suffix.lower() in {".yaml", ".yml"}:
        return _from_yaml(text, str(path))
    raise InputError(
        f"the suffix {path.suffix!r} says nothing of its format", hint="FILE.yaml or FILE.csv", file=str(path)
    )


class _Builder:
    """Collects nodes and mistakes; one row of either format describes one or more equal nodes."""

    def __init__(self, dimensions: Dimensions, file: str) -> None:
        self.dimensions = dimensions
        self.file = file
        self.nodes: list[Node] = []
        self.errors: list[InputError] = []
        self._names: dict[str, int] = {}

    def add(self, line: int, name: str, count: str, rack: str, capacity: ResourceVector) -> None:
        """Nodes ``name``, or ``name-1`` … ``name-count`` when a count is given."""
        if not name:
            self.wrong(InputError("a node has no name", hint="name: web", line=line, field="name"))
            return
        try:
            number = parse_count(count, least=1, most=MOST_NODES) if count else 1
        except InputError as error:
            self.wrong(error.at(line=line, field="count"))
            return
        if not any(capacity):
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
            self.nodes.append(Node(name=full, capacity=capacity, rack=rack))

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
            raise InputErrors(self.errors)
        if not self.nodes:
            raise InputError("no nodes in it", hint="at least one under nodes:", file=self.file, field="nodes")
        return Cluster(self.dimensions, tuple(self.nodes))


def _from_csv(text: str, file: str) -> Cluster:
    reader = csv.reader(text.splitlines())
    header = [cell.strip() for cell in next(reader, [])]
    if "name" not in header:
        raise InputError(
            "the first line names no column `name`", hint="name,count,rack,cpu,memory,…", file=file, line=1
        )
    custom = tuple(cell for cell in header if cell not in TABLE_KEYS and cell not in BASE_DIMENSIONS)
    try:
        dimensions = Dimensions(custom)
    except InputError as error:
        raise error.at(file=file, line=1) from error
    builder = _Builder(dimensions, file)
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
            builder.add(line, cells["name"], cells.get("count", ""), cells.get("rack", ""), capacity)
    return builder.cluster()


def _from_yaml(text: str, file: str) -> Cluster:
    document = _parse_yaml(text, file)
    if not isinstance(document, Mapping):
        raise InputError("is no mapping", hint="nodes: followed by a list of nodes", file=file, line=1)
    errors: list[InputError] = []
    _check_keys(document, TOP_KEYS, errors)
    dimensions = _dimensions(document, file)
    builder = _Builder(dimensions, file)
    for error in errors:
        builder.wrong(error)
    nodes = document.get("nodes")
    if not isinstance(nodes, list):
        raise InputError("is no list", hint="- name: web", file=file, line=_line(document, "nodes"), field="nodes")
    for position, entry in enumerate(nodes):
        if not isinstance(entry, Mapping):
            builder.wrong(
                InputError("a node is a mapping", hint="name: web, resource: …", line=nodes.lc.item(position)[0] + 1)  # type: ignore[attr-defined]
            )
            continue
        _add_yaml_node(builder, entry)
    return builder.cluster()


def _parse_yaml(text: str, file: str) -> Any:
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError
    except ImportError as error:
        raise InputError("reading YAML needs more packages", hint="pip install 'cress[sim]'", file=file) from error
    try:
        return YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        raise InputError(
            f"is no YAML: {error.problem}", hint="see docs/simulate.md", file=file, line=mark.line + 1 if mark else 0
        ) from error
    except YAMLError as error:
        raise InputError(f"is no YAML: {error}", hint="see docs/simulate.md", file=file) from error


def _dimensions(document: Mapping[str, Any], file: str) -> Dimensions:
    names = document.get("dimensions") or []
    line = _line(document, "dimensions")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError("is no list of names", hint="[gpu]", file=file, line=line, field="dimensions")
    try:
        return Dimensions(tuple(str(name) for name in names))
    except InputError as error:
        raise error.at(file=file, line=line, field="dimensions") from error


def _add_yaml_node(builder: _Builder, entry: Any) -> None:
    line = int(entry.lc.line) + 1
    mistakes: list[InputError] = []
    _check_keys(entry, NODE_KEYS, mistakes)
    for mistake in mistakes:
        builder.wrong(mistake)
    resource = entry.get("resource")
    place = _line(entry, "resource") or line
    if resource is None:
        builder.wrong(InputError("a node has no resource", hint="resource: <16, 64G>", line=line, field="resource"))
        return
    try:
        capacity = parse_vector(resource if isinstance(resource, Mapping) else str(resource), builder.dimensions)
    except InputError as error:
        builder.wrong(error.at(line=place, field="resource"))
        return
    count = entry.get("count")
    builder.add(
        _line(entry, "name") or line,
        _text(entry.get("name")),
        "" if count is None else str(count),
        _text(entry.get("rack")),
        capacity,
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _check_keys(mapping: Any, known: tuple[str, ...], errors: list[InputError]) -> None:
    for key in mapping:
        if key not in known:
            near = closest(str(key), known)
            hint = f"did you mean {near}?" if near else "one of " + ", ".join(known)
            errors.append(InputError("is not known", hint=hint, line=_line(mapping, key), field=str(key)))


def _line(mapping: Any, key: str) -> int:
    """The line of a key, 0 when it is not there."""
    return int(mapping.lc.key(key)[0]) + 1 if key in mapping else 0
