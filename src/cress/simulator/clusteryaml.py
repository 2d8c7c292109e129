"""A cluster file in YAML.

It has nodes with racks, addresses, attributes and devices, and also neighbouring racks, outages, drains, licences and
advance reservations.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from ipaddress import ip_address
from typing import Any

from cress.core.placing.node_choices import check_choice, check_names
from cress.formats.yaml_text import line_at, line_of
from cress.model import devicefile
from cress.model.attributes import plain
from cress.model.devices import capacity_with, check_devices, facts_of
from cress.model.distances import parse_distances
from cress.model.errors import InputError
from cress.model.jobfile.licences import totals
from cress.model.jobfile.reader import below
from cress.model.jobfile.values import mistakes
from cress.model.node import DYNAMIC_PORTS, Device, Node, Value
from cress.model.resources import Dimensions
from cress.model.units import parse_count
from cress.model.vectors import parse_vector
from cress.simulator.clusterbuilder import Builder
from cress.simulator.clusterchanges import read_changes
from cress.simulator.clusterreservations import read_reservations
from cress.simulator.workload import SimulatedCluster
from cress.simulator.yamltext import check_keys, parse_yaml, plain_text

TOP_KEYS = ("dimensions", "nodes", "neighbours", "distances", "outages", "drains", "licences", "reservations")
NODE_KEYS = (
    "name",
    "count",
    "rack",
    "resource",
    "address",
    "ports",
    "attributes",
    "accepts",
    "repels",
    *devicefile.KEYS,
)


def read(text: str, file: str) -> SimulatedCluster:
    """Return the cluster of this text. Raise ``InputError`` with file, line and field for every mistake."""
    document = parse_yaml(text, file)
    errors: list[InputError] = []
    check_keys(document, TOP_KEYS, errors)
    dimensions = _dimensions(document, file)
    builder = Builder(dimensions, file)
    for error in errors:
        builder.wrong(error)
    nodes = document.get("nodes")
    if not isinstance(nodes, list):
        raise InputError("is not a list", hint="- name: web", file=file, line=line_of(document, "nodes"), field="nodes")
    for position, entry in enumerate(nodes):
        if not isinstance(entry, Mapping):
            builder.wrong(
                InputError("a node is a mapping", hint="name: web, resource: …", line=line_of(nodes, position))
            )
            continue
        _add_yaml_node(builder, entry)
    _neighbours(builder, document)
    _distances(builder, document)
    read_changes(builder, document)
    _licences(builder, document)
    read_reservations(builder, document)
    return builder.cluster()


def _dimensions(document: Mapping[str, Any], file: str) -> Dimensions:
    names = document.get("dimensions") or []
    line = line_of(document, "dimensions")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError("is not a list of names", hint="[gpu]", file=file, line=line, field="dimensions")
    try:
        return Dimensions(tuple(str(name) for name in names))
    except InputError as error:
        raise error.at(file=file, line=line, field="dimensions") from error


def _add_yaml_node(builder: Builder, entry: Any) -> None:
    line = entry.line
    mistakes: list[InputError] = []
    check_keys(entry, NODE_KEYS, mistakes)
    for mistake in mistakes:
        builder.wrong(mistake)
    resource = entry.get("resource")
    place = line_of(entry, "resource") or line
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
    node = Node(
        name="",
        capacity=capacity,
        rack=plain_text(entry.get("rack")),
        address=_address(builder, entry),
        ports=_ports(builder, entry),
        attributes=(*attributes, *facts),
        devices=devices,
        data=data,
        **_choice(builder, entry),
    )
    try:
        check_names(node, builder.dimensions)
    except InputError as error:
        builder.wrong(error.at(line=line_of(entry, error.field), field=error.field))
    builder.add(
        line_of(entry, "name") or line, plain_text(entry.get("name")), "" if count is None else str(count), node
    )


def _devices(builder: Builder, entry: Any) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """Return the devices of a node, and its paths of data."""
    given = {key: entry[key] for key in devicefile.KEYS if key in entry}
    if not given:
        return (), ()
    lines = partial(line_at, entry)
    try:
        found = devicefile.read_devices(given, line_of=lines, dimensions=builder.dimensions, located=False)
    except InputError as error:
        for mistake in mistakes(error):
            builder.wrong(mistake)
        return (), ()
    for i, path in enumerate(found.data):
        if "*" in path:
            hint = "each path by itself: there is no file system to look into"
            builder.wrong(InputError(f"{path!r} is a pattern", hint=hint, line=lines(f"data[{i}]"), field=f"data[{i}]"))
    return found.devices, found.data


def _address(builder: Builder, entry: Any) -> str:
    text = plain_text(entry.get("address"))
    try:
        return str(ip_address(text)) if text else ""
    except ValueError:
        hint = "an address such as 192.168.1.120, the first one with a count"
        builder.wrong(
            InputError(f"{text!r} is not an IP address", hint=hint, line=line_of(entry, "address"), field="address")
        )
        return ""


def _ports(builder: Builder, entry: Any) -> tuple[int, int]:
    text = plain_text(entry.get("ports"))
    if not text:
        return DYNAMIC_PORTS
    try:
        first, last = (parse_count(part.strip(), least=1, most=65_535) for part in text.split("-", 1))
    except (InputError, ValueError):
        first, last = 1, 0
    if first <= last:
        return first, last
    hint = "the first and the last dynamic port, such as 20000-32767"
    builder.wrong(
        InputError(f"{text!r} is not a range of ports", hint=hint, line=line_of(entry, "ports"), field="ports")
    )
    return DYNAMIC_PORTS


def _choice(builder: Builder, entry: Any) -> dict[str, Any]:
    """Return what a node accepts and repels."""
    given = entry.get("repels") or []
    names = given if isinstance(given, list) else plain_text(given).split(",")
    accepts, repels = plain_text(entry.get("accepts")), tuple(sorted(plain_text(name).strip() for name in names))
    try:
        check_choice(accepts, repels)
    except InputError as error:
        builder.wrong(error.at(line=line_of(entry, error.field), field=error.field))
        return {}
    return {"accepts": accepts, "repels": repels}


def _attributes(builder: Builder, entry: Any) -> tuple[tuple[str, Value], ...]:
    given = entry.get("attributes")
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        line = line_of(entry, "attributes")
        builder.wrong(InputError("is not a mapping", hint="GCC: 4.8.5", line=line, field="attributes"))
        return ()
    return tuple((str(name), _value(value)) for name, value in given.items())


def _value(value: Any) -> Value:
    return value if isinstance(value, (bool, int)) else plain_text(value)


def _neighbours(builder: Builder, document: Any) -> None:
    for pair in document.get("neighbours") or ():
        if isinstance(pair, list) and len(pair) == 2:
            builder.neighbours.append((plain_text(pair[0]), plain_text(pair[1])))
        else:
            line = line_of(document, "neighbours")
            builder.wrong(
                InputError("is not a list of pairs", hint="[[r1, r2], [r2, r3]]", line=line, field="neighbours")
            )
            return


def _distances(builder: Builder, document: Any) -> None:
    """Read the distances between values of attributes."""
    given = document.get("distances")
    if given is None:
        return
    try:
        builder.distances = parse_distances(given)
    except InputError as error:
        for mistake in mistakes(error):
            field = f"distances.{mistake.field}" if mistake.field else "distances"
            builder.wrong(InputError(mistake.what, hint=mistake.hint, line=line_of(document, "distances"), field=field))


def _licences(builder: Builder, document: Any) -> None:
    """Read the number of each licence."""
    given = document.get("licences")
    if given is None:
        return
    try:
        builder.licences = totals(given)
    except InputError as error:
        for mistake in mistakes(error):
            line = line_of(given, mistake.field) if isinstance(given, Mapping) else 0
            field = f"licences.{mistake.field}" if mistake.field else "licences"
            line = line or line_of(document, "licences")
            builder.wrong(InputError(mistake.what, hint=mistake.hint, line=line, field=field))
