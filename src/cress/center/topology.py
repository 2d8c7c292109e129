"""The topology file: racks, which of them are neighbours, and the nodes that stand in them (docs/executor.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from cress.model.errors import InputError, InputErrors
from cress.model.units import closest

HINT = "racks: with a name for each rack (docs/executor.md)"
KEYS = ("neighbours", "nodes")
MOST_BYTES = 16 * 2**20
MOST_NODES = 1_000_000
MAX_NAME = 128

_TAG = "tag:yaml.org,2002:"
_RANGE = re.compile(r"([^\[\],\s]*)\[([0-9]+)-([0-9]+)\]([^\[\],\s]*)")
_PLAIN = re.compile(r"[^\[\],\s]+")


class Topology(msgspec.Struct, frozen=True):
    """``neighbours`` are pairs of racks, each once and in order; ``racks`` the racks of nodes by name."""

    neighbours: tuple[tuple[str, str], ...] = ()
    racks: dict[str, str] = {}


def read_topology(path: Path) -> Topology:
    """Read a file. Raises InputError, or InputErrors with all mistakes, each with file, line and field."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from None
    if len(data) > MOST_BYTES:
        raise InputError("is too large for a topology", hint="at most 16 MB", file=str(path))
    try:
        return parse_topology(data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise InputError("is no text", hint="YAML in UTF-8", file=str(path)) from None


def parse_topology(text: str, file: str) -> Topology:
    """The same of a text that was read."""
    reader = _Reader(file)
    reader.read(_document(text, file))
    if reader.errors:
        raise reader.errors[0] if len(reader.errors) == 1 else InputErrors(reader.errors)
    return Topology(tuple(sorted(reader.pairs)), reader.racks)


class _Reader:
    """Collects what the file says, and every mistake in it."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.errors: list[InputError] = []
        self.pairs: set[tuple[str, str]] = set()
        self.racks: dict[str, str] = {}

    def wrong(self, node: Any, field: str, what: str, hint: str) -> None:
        line = int(node.start_mark.line) + 1
        self.errors.append(InputError(what, hint=hint, file=self.file, line=line, field=field))

    def read(self, document: Any) -> None:
        if document is None:
            self.errors.append(InputError("there are no racks in it", hint=HINT, file=self.file))
            return
        if not _is(document, "map"):
            self.wrong(document, "", "is no mapping", HINT)
            return
        racks: dict[str, Any] = {}
        seen = False
        for key, value in document.value:
            if key.value != "racks" or seen:
                self.wrong(
                    key, str(key.value), "is given twice" if seen and key.value == "racks" else "is not known", HINT
                )
            elif not _is(value, "map"):
                self.wrong(value, "racks", "is no mapping", "a name for each rack, such as r1: {neighbours: r2}")
                return
            else:
                seen = True
                racks = self._names(value)
        if not seen:
            self.wrong(document, "racks", "is missing", HINT)
        for name, value in racks.items():
            self._rack(name, value, racks)

    def _names(self, mapping: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in mapping.value:
            name = str(key.value).strip() if isinstance(key.value, str) else ""
            if not _PLAIN.fullmatch(name) or not name.isprintable() or len(name) > MAX_NAME:
                self.wrong(
                    key, "racks", f"{str(key.value)[:60]!r} is no name of a rack", "letters and digits, such as r1"
                )
            elif name in found:
                self.wrong(key, f"racks.{name}", "is given twice", "each rack once")
            else:
                found[name] = value
        return found

    def _rack(self, name: str, value: Any, known: dict[str, Any]) -> None:
        if _empty(value):
            return
        field = f"racks.{name}"
        if not _is(value, "map"):
            self.wrong(value, field, "is no mapping", "neighbours: and nodes:, both may be left out")
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
        """The names in a list, or in one text with commas, each with the place where it stands."""
        if _empty(value):
            return
        for each in value.value if _is(value, "seq") else [value]:
            if not isinstance(each.value, str):
                self.wrong(each, field, "is no name", "a list of names, such as [r2, r3]")
                continue
            for text in re.split(r"[,\s]+", each.value.strip()):
                if text:
                    yield text, each

    def _neighbour(self, name: str, other: str, place: Any, known: dict[str, Any]) -> None:
        field = f"racks.{name}.neighbours"
        if other == name:
            self.wrong(place, field, f"{name} is no neighbour of itself", "other racks")
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
                self.wrong(place, field, f"{text[:60]!r} is no name of a node", "web-7, or several: web-[1-20]")
            return
        before, first, last, behind = match.groups()
        count = int(last) - int(first) + 1
        if count < 1 or len(last) > 9 or len(self.racks) + count > MOST_NODES:
            hint = f"from the lower to the higher number, at most {MOST_NODES} nodes in all"
            self.wrong(place, field, f"{text[:60]!r} is no range", hint)
            return
        # web-[01-20] counts 01, 02 …
        width = len(first) if first.startswith("0") else 1
        for number in range(int(first), int(last) + 1):
            self._node(rack, f"{before}{number:0{width}d}{behind}", place, field)

    def _node(self, rack: str, name: str, place: Any, field: str) -> None:
        other = self.racks.setdefault(name, rack)
        if other != rack:
            self.wrong(place, field, f"node {name} stands in rack {other} already", "each node in one rack")


def _document(text: str, file: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        documents = list(YAML(typ="safe", pure=True).compose_all(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = f"is no YAML: {error.problem or error.context}"
        raise InputError(what, hint=HINT, file=file, line=mark.line + 1 if mark else 0) from None
    except (YAMLError, ValueError) as error:
        raise InputError(f"is no YAML: {str(error).splitlines()[0]}", hint=HINT, file=file) from None
    except RecursionError:
        raise InputError("has too many levels", hint=HINT, file=file) from None
    documents = [each for each in documents if each is not None and not _empty(each)]
    if len(documents) > 1:
        line = int(documents[1].start_mark.line) + 1
        raise InputError("has more than one document", hint="one mapping with racks:", file=file, line=line)
    return documents[0] if documents else None


def _is(node: Any, kind: str) -> bool:
    return str(node.tag) == _TAG + kind and isinstance(node.value, list)


def _empty(node: Any) -> bool:
    return not isinstance(node.value, list) and str(node.tag) == _TAG + "null"
