"""The topology file: racks, their neighbours, and the nodes in them (docs/executor.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from cress.center.files.yaml_file import read_text
from cress.formats.yaml_text import document, is_empty, is_kind
from cress.model.distances import Distance, parse_distances
from cress.model.errors import InputError, InputErrors
from cress.model.units import closest

HINT = "racks: with a name for each rack (docs/executor.md)"
KEYS = ("neighbours", "nodes")
MOST_NODES = 1_000_000
MAX_NAME = 128

_RANGE = re.compile(r"([^\[\],\s]*)\[([0-9]+)-([0-9]+)\]([^\[\],\s]*)")
_PLAIN = re.compile(r"[^\[\],\s]+")


class Topology(msgspec.Struct, frozen=True):
    """``neighbours`` are pairs of racks, each once and in order; ``racks`` are the racks of nodes by name.

    ``distances`` are those between values of attributes, each once and in order.
    """

    neighbours: tuple[tuple[str, str], ...] = ()
    racks: dict[str, str] = {}
    distances: tuple[Distance, ...] = ()


def read_topology(path: Path) -> Topology:
    """Read a file. Raises InputError, or InputErrors with all mistakes, each with file, line and field."""
    return parse_topology(read_text(path, "a topology"), str(path))


def parse_topology(text: str, file: str) -> Topology:
    """Return the topology from the text of a file."""
    reader = _TopologyReader(file)
    reader.read(document(text, file, HINT))
    if reader.errors:
        raise reader.errors[0] if len(reader.errors) == 1 else InputErrors(reader.errors)
    return Topology(tuple(sorted(reader.pairs)), reader.racks, reader.distances)


class _TopologyReader:
    """Collects the contents of the file, and all mistakes in it."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.errors: list[InputError] = []
        self.pairs: set[tuple[str, str]] = set()
        self.racks: dict[str, str] = {}
        self.distances: tuple[Distance, ...] = ()

    def wrong(self, node: Any, field: str, what: str, hint: str) -> None:
        line = node.line
        self.errors.append(InputError(what, hint=hint, file=self.file, line=line, field=field))

    def read(self, whole: Any) -> None:
        if whole is None:
            self.errors.append(InputError("it contains no racks", hint=HINT, file=self.file))
            return
        if not is_kind(whole, "map"):
            self.wrong(whole, "", "is not a mapping", HINT)
            return
        racks: dict[str, Any] = {}
        seen = False
        for key, value in whole.value:
            if key.value == "distances":
                self._distances(value)
            elif key.value != "racks" or seen:
                self.wrong(
                    key, str(key.value), "is given twice" if seen and key.value == "racks" else "is not known", HINT
                )
            elif not is_kind(value, "map"):
                self.wrong(value, "racks", "is not a mapping", "a name for each rack, such as r1: {neighbours: r2}")
                return
            else:
                seen = True
                racks = self._names(value)
        if not seen and not any(key.value == "distances" for key, _ in whole.value):
            self.wrong(whole, "racks", "is missing", HINT)
        for name, value in racks.items():
            self._rack(name, value, racks)

    def _distances(self, value: Any) -> None:
        """Read ``{switch: {s1: {s2: 1, s3: 4}}}``."""
        try:
            self.distances = parse_distances(plain_of(value))
        except InputError as error:
            for mistake in error.errors if isinstance(error, InputErrors) else [error]:
                place = _place(value, mistake.field)
                self.wrong(
                    place, f"distances.{mistake.field}" if mistake.field else "distances", mistake.what, mistake.hint
                )

    def _names(self, mapping: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in mapping.value:
            name = str(key.value).strip() if isinstance(key.value, str) else ""
            if not _PLAIN.fullmatch(name) or not name.isprintable() or len(name) > MAX_NAME:
                self.wrong(
                    key, "racks", f"{str(key.value)[:60]!r} is not a name of a rack", "letters and digits, such as r1"
                )
            elif name in found:
                self.wrong(key, f"racks.{name}", "is given twice", "each rack once")
            else:
                found[name] = value
        return found

    def _rack(self, name: str, value: Any, known: dict[str, Any]) -> None:
        if is_empty(value):
            return
        field = f"racks.{name}"
        if not is_kind(value, "map"):
            self.wrong(value, field, "is not a mapping", "neighbours: and nodes:, both may be left out")
            return
        for key, listed in value.value:
            if key.value == "neighbours":
                for other, place in self._texts(listed, f"{field}.neighbours"):
                    self._neighbour(name, other, place, known)
            elif key.value == "nodes":
                for text, place in self._texts(listed, f"{field}.nodes"):
                    self._nodes(name, text, place)
            else:
                near = closest(str(key.value), KEYS)
                hint = f"did you mean {near}?" if near else "one of " + ", ".join(KEYS)
                self.wrong(key, f"{field}.{key.value}", "is not known", hint)

    def _texts(self, value: Any, field: str) -> Iterator[tuple[str, Any]]:
        """Yield the names in a list, or in one text with commas, each with its place in the file."""
        if is_empty(value):
            return
        for node in value.value if is_kind(value, "seq") else [value]:
            if not isinstance(node.value, str):
                self.wrong(node, field, "is not a name", "a list of names, such as [r2, r3]")
                continue
            for text in re.split(r"[,\s]+", node.value.strip()):
                if text:
                    yield text, node

    def _neighbour(self, name: str, other: str, place: Any, known: dict[str, Any]) -> None:
        field = f"racks.{name}.neighbours"
        if other == name:
            self.wrong(place, field, f"{name} cannot be its own neighbour", "other racks")
        elif other not in known:
            near = closest(other, known)
            hint = f"did you mean {near}?" if near else f"an entry of its own under racks, such as {other}: {{}}"
            self.wrong(place, field, f"there is no rack {other!r} in this file", hint)
        else:
            self.pairs.add((min(name, other), max(name, other)))

    def _nodes(self, rack: str, text: str, place: Any) -> None:
        field = f"racks.{rack}.nodes"
        match = _RANGE.fullmatch(text)
        if match is None:
            if _PLAIN.fullmatch(text):
                self._node(rack, text, place, field)
            else:
                self.wrong(place, field, f"{text[:60]!r} is not a name of a node", "web-7, or several: web-[1-20]")
            return
        before, first, last, behind = match.groups()
        count = int(last) - int(first) + 1
        if count < 1 or len(last) > 9 or len(self.racks) + count > MOST_NODES:
            hint = f"from the lower to the higher number, at most {MOST_NODES} nodes in all"
            self.wrong(place, field, f"{text[:60]!r} is not a range", hint)
            return
        # A pattern such as web-[01-20] counts 01, 02, …
        width = len(first) if first.startswith("0") else 1
        for number in range(int(first), int(last) + 1):
            self._node(rack, f"{before}{number:0{width}d}{behind}", place, field)

    def _node(self, rack: str, name: str, place: Any, field: str) -> None:
        other = self.racks.setdefault(name, rack)
        if other != rack:
            self.wrong(place, field, f"node {name} is already in rack {other}", "each node in one rack")


def plain_of(node: Any) -> object:
    """Return the mappings and texts of a part of the file."""
    if is_kind(node, "map"):
        return {str(plain_of(key)): plain_of(value) for key, value in node.value}
    return "" if is_empty(node) else str(node.value)


def _place(node: Any, field: str) -> Any:
    """Return the part of the file for a field below ``node``, as far as it exists."""
    for name in field.split("."):
        found = next((value for key, value in node.value if key.value == name), None) if is_kind(node, "map") else None
        if found is None:
            break
        node = found
    return node
