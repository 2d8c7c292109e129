"""``cress nodes label``, ``set``, ``settings`` and ``revert``: settings of a node from the center."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import Data, Json, connect, moment, print_json
from cress.cli.errors import told
from cress.cli.tables import Cell, TableColumn, clean, facts, show, shown
from cress.model.attributes import parse_label, plain
from cress.model.errors import InputError
from cress.model.units import closest

if TYPE_CHECKING:
    from cress.client import NodeSettingsPage, NodeSettingsView, NodeView
    from cress.model.node import Value

KEYS = ("rack", "reserve", "judged", "note", "accepts", "repels")
TRUTHS = {"true": True, "false": False}
HERE = "set in the center"

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the node.")]


def label(
    name: Name,
    changes: Annotated[
        list[str],
        typer.Argument(metavar="KEY=VALUE… [KEY-]", help="Labels to set; KEY- removes one."),
    ],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Set or remove labels of a node, in addition to those that its executor reports; constraints see them at once."""
    with told("nodes label"):
        labels = parse_changes(changes)
        with connect(data) as client:
            before = client.node_settings(name).settings.revision
            page = client.set_node(name, labels=labels)
        _tell(page, before, as_json=as_json)


def set_(
    name: Name,
    changes: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE… [KEY-]", help=f"Of {', '.join(KEYS)}; KEY- restores the value of the executor."
        ),
    ],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Set the rack, reserved amounts, note or accepted jobs of a node, or whether its load counts; running tasks go
    on.
    """
    with told("nodes set"):
        values = parse_values(changes)
        with connect(data) as client:
            before = client.node_settings(name).settings.revision
            page = client.set_node(name, labels=None, revert=None, revision=None, **values)
        _tell(page, before, as_json=as_json)


def settings(name: Name, as_json: Json = False, data: Data = None) -> None:
    """Show the settings of a node in the center, with all changes and their authors."""
    with told("nodes settings"):
        with connect(data) as client:
            page = client.node_settings(name)
        if as_json:
            print_json(page)
            return
        facts([("Node", page.node), ("Revision", str(page.settings.revision)), *_about(page.settings)])
        if page.revisions:
            print()
            columns = (
                TableColumn("REVISION", right=True),
                TableColumn("TIME"),
                TableColumn("USER"),
                TableColumn("WHAT", gives=True),
            )
            rows = [
                [str(revision.revision), _time(revision), revision.by or "-", clean(revision.what)]
                for revision in page.revisions
            ]
            show(columns, rows)


def revert(
    name: Name,
    number: Annotated[int, typer.Argument(metavar="N", min=0, help="Revision to restore; 0 = no settings.")],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Restore revision N of the settings of a node, as a new revision."""
    with told("nodes revert"):
        with connect(data) as client:
            before = client.node_settings(name).settings.revision
            page = client.set_node(name, revert=number)
        _tell(page, before, as_json=as_json)


def parse_changes(texts: Sequence[str]) -> dict[str, Value | None]:
    """Return the labels in ``zone=eu`` and ``zone-``; None removes the label. Raise InputError."""
    found: dict[str, Value | None] = {}
    for text in texts:
        removed = "=" not in text and text.endswith("-")
        name, value = (text.removesuffix("-"), None) if removed else parse_label(text)
        if plain(name) in map(plain, found):
            raise InputError("is given twice", hint="each label once", field=name)
        found[name] = value
    return found


def parse_values(texts: Sequence[str]) -> dict[str, str | bool | None]:
    """Return the settings in ``rack=r7`` and ``rack-``; None restores the value of the executor. Raise InputError."""
    found: dict[str, str | bool | None] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        removed = not equals and key.endswith("-")
        key = key.removesuffix("-") if removed else key
        if key not in KEYS:
            near = closest(key, KEYS)
            hint = (
                f"did you mean {near}? " if near else ""
            ) + f"one of {', '.join(KEYS)}; `cress nodes label` sets labels"
            raise InputError("is not a setting of a node", hint=hint, field=key)
        if key in found:
            raise InputError("is given twice", hint="each setting once", field=key)
        if not equals and not removed:
            raise InputError("has no value", hint=f"{key}=VALUE, or {key}- for the executor's value", field=key)
        found[key] = None if removed else _value(key, value)
    return found


def _value(key: str, value: str) -> str | bool:
    if key != "judged":
        return value
    if value.lower() not in TRUTHS:
        hint = "true: an overloaded node takes no new tasks; false: its load does not count"
        raise InputError(f"{value!r} is not a truth value", hint=hint, field=key)
    return TRUTHS[value.lower()]


def note_column(nodes: Sequence[NodeView]) -> tuple[list[TableColumn], list[list[Cell]]]:
    """Return the column of notes, with the cell of each node; empty if no node has a note."""
    notes = [node.settings.note if node.settings else "" for node in nodes]
    if not any(notes):
        return [], [[] for _ in nodes]
    return [TableColumn("NOTE", gives=True, least=10, hides=3)], [[note] for note in notes]


def rack_of(node: NodeView) -> str:
    """Return the rack of a node, and its origin if it is set in the center."""
    if node.settings is None or node.reported is None or node.settings.rack is None:
        return node.rack
    return f"{node.rack or '-'} ({HERE}; its executor: {node.reported.rack or 'none'})"


def attribute(node: NodeView, name: str, value: Value) -> str:
    """Return an attribute of a node, and its origin if it is a label of the center."""
    if node.settings is None or node.reported is None or name not in node.settings.labels:
        return shown(value)
    there = {plain(attribute): shown(given) for attribute, given in node.reported.attributes.items()}
    instead = f"; its executor: {there[plain(name)]}" if plain(name) in there else ""
    return f"{shown(value)} ({HERE}{instead})"


def told_of(node: NodeView) -> list[tuple[str, Cell]]:
    """Return the facts set for a node in the center, except its rack and labels."""
    if node.settings is None:
        return []
    there = node.settings
    by = f" by {there.by}" if there.by else ""
    return [
        ("Note", there.note),
        ("Kept back", f"{_amounts(there.reserve)} ({HERE})" if there.reserve else ""),
        ("Load", "" if there.judged is None else f"{_judged(there.judged)} ({HERE})"),
        ("Accepts", "" if there.accepts is None else f"{there.accepts or 'all jobs'} ({HERE})"),
        ("Repels", "" if there.repels is None else f"{', '.join(there.repels) or 'none'} ({HERE})"),
        ("Settings", f"revision {there.revision}{by}, {_time(there)}"),
    ]


def _about(there: NodeSettingsView) -> list[tuple[str, Cell]]:
    return [
        ("Labels", " ".join(f"{name}={shown(value)}" for name, value in there.labels.items())),
        ("Rack", "" if there.rack is None else there.rack or "none"),
        ("Kept back", _amounts(there.reserve)),
        ("Load", "" if there.judged is None else _judged(there.judged)),
        ("Accepts", "" if there.accepts is None else there.accepts or "all jobs"),
        ("Repels", "" if there.repels is None else ", ".join(there.repels) or "none"),
        ("Note", there.note),
    ]


def _judged(judged: bool) -> str:
    return "counts" if judged else "does not count"


def _amounts(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())


def _time(there: NodeSettingsView) -> str:
    return "-" if there.at is None else moment(there.at)


def _tell(page: NodeSettingsPage, before: int, *, as_json: bool) -> None:
    if as_json:
        print_json(page)
    elif page.settings.revision == before:
        print(f"node {clean(page.node)}: nothing changed (revision {before})")
    else:
        print(f"node {clean(page.node)}: {clean(page.settings.what)} (revision {page.settings.revision})")
