"""Who may import whom: an import-linter contract that reads the table in ``pyproject.toml``.

import-linter's own contracts say what is forbidden, so that a new room is free until someone forbids it. Here the
table says what is allowed, and what is not in it is broken: a room without a line, an edge without an entry.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


@dataclass(frozen=True)
class Room:
    """One line of the table: a room, the rooms it may import, and its libraries (None: not limited)."""

    name: str
    rooms: frozenset[str]
    libraries: frozenset[str] | None

    @classmethod
    def parse(cls, line: str) -> Room:
        """Read ``room: rooms it may import | libraries it may import``; the bar and what follows may be missing.

        Raises ValueError for a line without a colon or without a name.
        """
        head, colon, rest = line.partition(":")
        if not colon or not head.strip().isidentifier():
            raise ValueError(f"{line!r} is not 'room: rooms | libraries'")
        rooms, bar, libraries = rest.partition("|")
        return cls(head.strip(), frozenset(rooms.split()), frozenset(libraries.split()) if bar else None)


@dataclass(frozen=True, order=True)
class Violation:
    """An import that the table does not allow: the importing module, the imported one, and why not."""

    importer: str
    imported: str
    why: str


def parse_table(lines: list[str]) -> dict[str, Room]:
    """Return the table by room.

    Raises ValueError for a bad line, a room with two lines, and a room that is allowed somewhere but has no line.
    """
    table: dict[str, Room] = {}
    for room in map(Room.parse, lines):
        if room.name in table:
            raise ValueError(f"room {room.name!r} has two lines")
        table[room.name] = room
    for room in table.values():
        if unknown := sorted(room.rooms - table.keys()):
            raise ValueError(f"room {room.name!r} may import {unknown[0]!r}, which has no line of its own")
    return table


def violations(graph: ImportGraph, package: str, table: dict[str, Room]) -> list[Violation]:
    """Return every import of ``package`` in ``graph`` that ``table`` does not allow, in order of the importer.

    ``package`` itself (its ``__init__``) is no room: everyone may import it, and it may import no room.
    """
    found: list[Violation] = []
    for importer in graph.modules:
        if importer.partition(".")[0] != package:
            continue
        room = _room(importer)
        if room and room not in table:
            found.append(Violation(importer, "", f"room {room!r} is not in the table"))
            continue
        for imported in graph.find_modules_directly_imported_by(importer):
            why = _why_not(room, imported, package, table)
            found += [Violation(importer, imported, why)] if why else []
    return sorted(found)


def _room(module: str) -> str:
    """The room of a module of the package: its second part, or "" for the package itself."""
    return module.split(".")[1] if "." in module else ""


def _why_not(room: str, imported: str, package: str, table: dict[str, Room]) -> str:
    """Why ``room`` may not import the module ``imported``, or "" when it may."""
    top = imported.partition(".")[0]
    if top != package:
        libraries = table[room].libraries if room else frozenset[str]()
        if top in sys.stdlib_module_names or libraries is None or top in libraries:
            return ""
        return f"{room or package} may import of libraries only {_listed(libraries)}"
    other = _room(imported)
    allowed = table[room].rooms if room else frozenset[str]()
    if other in ("", room) or other in allowed:
        return ""
    return f"{room or package} may import only {_listed(allowed)}"


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


class RoomsContract(Contract):
    """The contract type ``rooms``; its one option ``rooms`` is the table, a list of lines (see ``Room.parse``)."""

    type_name = "rooms"

    rooms = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Compare every import of the package with the table."""
        package = str(self.session_options["root_packages"][0])
        table = parse_table([str(line) for line in self._lines()])
        found = violations(graph, package, table)
        details = [(each, _places(graph, each)) for each in found]
        return ContractCheck(kept=not found, metadata={"violations": details})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each forbidden import with its line numbers."""
        for violation, places in check.metadata["violations"]:
            arrow = f" -> {violation.imported}" if violation.imported else ""
            output.print_error(f"{violation.importer}{arrow}{places}: {violation.why}", bold=False)

    def _lines(self) -> Any:
        # import-linter replaces the field by its parsed value when a contract is made.
        return self.rooms


def _places(graph: ImportGraph, violation: Violation) -> str:
    if not violation.imported:
        return ""
    details = graph.get_import_details(importer=violation.importer, imported=violation.imported)
    numbers = sorted({detail["line_number"] for detail in details})
    return f" (line {', '.join(map(str, numbers))})" if numbers else ""
