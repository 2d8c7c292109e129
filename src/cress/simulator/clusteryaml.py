"""A cluster file in YAML: nodes with racks, addresses and attributes, racks that are neighbours, nodes that fail."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from cress.model import devicefile
from cress.model.attributes import plain
from cress.model.devices import capacity_with, check_devices, facts_of
from cress.model.errors import InputError
from cress.model.jobfile.licences import totals
from cress.model.jobfile.reader import below
from cress.model.jobfile.values import mistakes
from cress.model.node import DYNAMIC_PORTS, Device, Node, Value
from cress.model.resources import Dimensions
from cress.model.units import closest, parse_count, parse_duration
from cress.model.vectors import parse_vector
from cress.simulator.clusterfile import Builder
from cress.simulator.workload import Cluster, Outage

TOP_KEYS = ("dimensions", "nodes", "neighbours", "outages", "licences")
NODE_KEYS = ("name", "count", "rack", "resource", "address", "ports", "attributes", *devicefile.KEYS)
OUTAGE_KEYS = ("node", "from", "to")


def read(text: str, file: str) -> Cluster:
    """The cluster that this YAML describes. Raises ``InputError`` with file, line and field for every mistake found."""
    document = _parse_yaml(text, file)
    if not isinstance(document, Mapping):
        raise InputError("is no mapping", hint="nodes: followed by a list of nodes", file=file, line=1)
    errors: list[InputError] = []
    _check_keys(document, TOP_KEYS, errors)
    dimensions = _dimensions(document, file)
    builder = Builder(dimensions, file)
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
    _neighbours(builder, document)
    _outages(builder, document)
    _licences(builder, document)
    return builder.cluster()


def _parse_yaml(text: str, file: str) -> Any:
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.constructor import RoundTripConstructor
        from ruamel.yaml.error import MarkedYAMLError, YAMLError
    except ImportError as error:
        raise InputError("reading YAML needs more packages", hint="pip install 'cress[sim]'", file=file) from error

    class Constructor(RoundTripConstructor):
        """Numbers with a point stay text: 4.10 may be a version."""

    Constructor.add_constructor("tag:yaml.org,2002:float", Constructor.construct_scalar)
    yaml = YAML(typ="rt")
    yaml.Constructor = Constructor
    try:
        return yaml.load(text)
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


def _add_yaml_node(builder: Builder, entry: Any) -> None:
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
    devices, data = _devices(builder, entry)
    try:
        check_devices(devices, builder.dimensions)
        capacity = capacity_with(capacity, devices, builder.dimensions)
    except InputError as error:
        builder.wrong((below(error, "resource") if error.field else error).at(line=place, field="devices"))
        return
    attributes = _attributes(builder, entry)
    said = {plain(name) for name, _ in attributes}
    facts = tuple((name, value) for name, value in facts_of(devices).items() if plain(name) not in said)
    count = entry.get("count")
    builder.add(
        _line(entry, "name") or line,
        _text(entry.get("name")),
        "" if count is None else str(count),
        Node(
            name="",
            capacity=capacity,
            rack=_text(entry.get("rack")),
            address=_address(builder, entry),
            ports=_ports(builder, entry),
            attributes=(*attributes, *facts),
            devices=devices,
            data=data,
        ),
    )


def _devices(builder: Builder, entry: Any) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """The devices of a node, and the paths of data that it has."""
    given = {key: entry[key] for key in devicefile.KEYS if key in entry}
    if not given:
        return (), ()
    lines = devicefile.marked_lines(entry)
    try:
        found = devicefile.read_devices(given, line_of=lines, dimensions=builder.dimensions, located=False)
    except InputError as error:
        for each in mistakes(error):
            builder.wrong(each)
        return (), ()
    for i, path in enumerate(found.data):
        if "*" in path:
            hint = "each path by itself: there is no file system to look into"
            builder.wrong(InputError(f"{path!r} is a pattern", hint=hint, line=lines(f"data[{i}]"), field=f"data[{i}]"))
    return found.devices, found.data


def _address(builder: Builder, entry: Any) -> str:
    text = _text(entry.get("address"))
    try:
        return str(ip_address(text)) if text else ""
    except ValueError:
        hint = "an address such as 192.168.1.120, the first one with a count"
        builder.wrong(InputError(f"{text!r} is no address", hint=hint, line=_line(entry, "address"), field="address"))
        return ""


def _ports(builder: Builder, entry: Any) -> tuple[int, int]:
    text = _text(entry.get("ports"))
    if not text:
        return DYNAMIC_PORTS
    try:
        first, last = (parse_count(part.strip(), least=1, most=65_535) for part in text.split("-", 1))
    except (InputError, ValueError):
        first, last = 1, 0
    if first <= last:
        return first, last
    hint = "the first and the last dynamic port, such as 20000-32767"
    builder.wrong(InputError(f"{text!r} is no range of ports", hint=hint, line=_line(entry, "ports"), field="ports"))
    return DYNAMIC_PORTS


def _attributes(builder: Builder, entry: Any) -> tuple[tuple[str, Value], ...]:
    given = entry.get("attributes")
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        line = _line(entry, "attributes")
        builder.wrong(InputError("is no mapping", hint="GCC: 4.8.5", line=line, field="attributes"))
        return ()
    return tuple((str(name), _value(value)) for name, value in given.items())


def _value(value: Any) -> Value:
    return value if isinstance(value, (bool, int)) else _text(value)


def _neighbours(builder: Builder, document: Any) -> None:
    for pair in document.get("neighbours") or ():
        if isinstance(pair, list) and len(pair) == 2:
            builder.neighbours.append((_text(pair[0]), _text(pair[1])))
        else:
            line = _line(document, "neighbours")
            builder.wrong(InputError("is no list of pairs", hint="[[r1, r2], [r2, r3]]", line=line, field="neighbours"))
            return


def _licences(builder: Builder, document: Any) -> None:
    """How many there are of each."""
    given = document.get("licences")
    if given is None:
        return
    try:
        builder.licences = totals(given)
    except InputError as error:
        for each in mistakes(error):
            line = _line(given, each.field) if isinstance(given, Mapping) else 0
            field = f"licences.{each.field}" if each.field else "licences"
            line = line or _line(document, "licences")
            builder.wrong(InputError(each.what, hint=each.hint, line=line, field=field))


def _outages(builder: Builder, document: Any) -> None:
    """Nodes that fail: times are those of the trace."""
    names = {node.name: i for i, node in enumerate(builder.nodes)}
    busy: dict[int, list[tuple[int, float]]] = {}
    for entry in document.get("outages") or ():
        if not isinstance(entry, Mapping):
            line = _line(document, "outages")
            builder.wrong(InputError("is no mapping", hint="{node: web-1, from: 10min}", line=line, field="outages"))
            continue
        mistakes: list[InputError] = []
        _check_keys(entry, OUTAGE_KEYS, mistakes)
        for mistake in mistakes:
            builder.wrong(mistake)
        line = int(entry.lc.line) + 1  # type: ignore[attr-defined]
        node = names.get(_text(entry.get("node")))
        if node is None:
            builder.wrong(
                InputError(
                    f"there is no node {_text(entry.get('node'))!r}", hint="one of nodes:", line=line, field="node"
                )
            )
            continue
        try:
            start = parse_duration(_text(entry.get("from")))
            end = parse_duration(_text(entry["to"])) if "to" in entry else None
        except InputError as error:
            builder.wrong(error.at(line=line, field="outages"))
            continue
        span = (start, float("inf") if end is None else end)
        others = busy.setdefault(node, [])
        if span[0] >= span[1] or any(span[0] <= other[1] and other[0] <= span[1] for other in others):
            hint = "a time before to, and after the node is back from the outage before"
            builder.wrong(InputError("an outage that is over before it begins, or two at once", hint=hint, line=line))
            continue
        others.append(span)
        builder.outages.append(Outage(node, start, end))


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
