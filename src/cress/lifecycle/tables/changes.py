"""Row changes: the writes of a step to the tables, and their application to other tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeAlias, get_args, get_type_hints

import msgspec

from cress.lifecycle.slices import Slices, parts
from cress.lifecycle.tables.tables import TYPES, Tables
from cress.lifecycle.tables.tracked import ChangeMark, Noted, Row, Table


class TableChanges(msgspec.Struct, array_like=True):
    """The changes of one table, or of one dict of a row; applied in the order of the fields.

    ``written`` are keys with new values: a value itself, or for a row its fields without default values. A new key
    comes last. ``changed`` are rows with their written fields: a value, for a dict its ``TableChanges``, for a row in a
    field that row's written fields. (A whole row in a field has a ``type``.)
    """

    removed: list[Any] = []
    written: list[tuple[Any, Any]] = []
    changed: list[tuple[Any, dict[str, Any]]] = []


RowChanges: TypeAlias = dict[str, TableChanges]

_GONE, _ANEW = ChangeMark.GONE, ChangeMark.ANEW
_NOTHING: Mapping[str, Any] = {}

# The field of a row, by table, that is omitted if the scheduler got the same object in this step.
SHARED = {"jobs": "job", "nodes": "node"}


def collect(tables: Tables, told_of: Callable[[], Mapping[str, Mapping[Any, Any]]]) -> Slices[RowChanges]:
    """Return the writes since the last call, and clear them; the tables must not be written at a pause.

    ``told_of`` returns the latest jobs and nodes that the scheduler was told, by table and key: new rows do not repeat
    them. It is called only if there may be some.
    """
    noted, tables.journal.noted = tables.journal.noted, {}
    whole_rows = any(mark.__class__ is not dict for name in SHARED for mark in noted.get(name, _NOTHING).values())
    told = told_of() if whole_rows else _NOTHING
    found = {}
    for name, marks in noted.items():
        if marks:
            changes = found[name] = TableChanges()
            for part in parts(list(marks.items())):
                table = getattr(tables, name)
                _add_changes(changes, table, part, SHARED.get(name, ""), told.get(name, {}))
                yield
    return found


def _add_changes(
    changes: TableChanges,
    table: Table[Any, Any],
    marks: Iterable[tuple[Any, Any]],
    shared: str = "",
    told: Mapping[Any, Any] = {},
) -> None:
    """Add the changes that these marks of a table describe."""
    for key, mark in marks:
        if mark.__class__ is dict:
            changes.changed.append((key, _fields(table[key], mark)))
            continue
        if mark is _GONE or mark is _ANEW:
            changes.removed.append(key)
        if mark is not _GONE:
            value = table[key]
            if isinstance(value, Row):
                known = told.get(key)
                value = written(value, shared if known is not None and getattr(value, shared) is known else "")
            changes.written.append((key, value))


def _fields(row: Row, marks: Noted) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name, mark in marks.items():
        value = getattr(row, name)
        if mark.__class__ is not dict:
            changes[name] = value
        elif isinstance(value, Row):
            changes[name] = _fields(value, mark)
        else:
            below = changes[name] = TableChanges()
            _add_changes(below, value, mark.items())
    return changes


def written(row: Row, without: str = "") -> dict[str, Any]:
    """Return the fields of a row without default values, except the field ``without``."""
    found = {}
    for name, default in _defaults(type(row)):
        value = getattr(row, name)
        if value != default and name != without:
            found[name] = value
    return found


@cache
def _defaults(kind: type[Row]) -> tuple[tuple[str, Any], ...]:
    """Return the fields with their defaults; required fields have one that equals nothing."""
    return tuple(
        (field.name, field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default)
        for field in msgspec.structs.fields(kind)
    )


def apply(tables: Tables, changes: RowChanges, told: Mapping[str, Mapping[Any, Any]]) -> None:
    """Write changes into other tables, untracked; unknown tables and fields are skipped.

    ``told`` (jobs and nodes that the scheduler was told) fills in the fields that new rows omit.
    """
    for name, changed in changes.items():
        if name in TYPES:
            _apply(getattr(tables, name), changed, *TYPES[name], told.get(name, {}), SHARED.get(name, ""))


def _apply(
    table: Table[Any, Any],
    changes: TableChanges,
    key_type: Any,
    type_: Any,
    told: Mapping[Any, Any] = {},
    shared: str = "",
) -> None:
    convert = msgspec.convert
    key_of: Callable[[Any], Any] = tuple if key_type not in (int, str) else key_type
    for key in changes.removed:
        table.drop(key_of(key))
    for key, value in changes.written:
        known = key_of(key)
        if shared and shared not in value:
            value = {**value, shared: told[known]}
        table.put(known, convert(value, type_))
    for key, fields in changes.changed:
        _change(table[key_of(key)], fields)


def _change(row: Row, fields: Mapping[str, Any]) -> None:
    types = _types(type(row))
    for name, value in fields.items():
        if name not in types:
            continue
        now = getattr(row, name)
        if isinstance(now, Table):
            _apply(now, msgspec.convert(value, TableChanges), *get_args(types[name]))
        elif isinstance(now, Row) and isinstance(value, dict) and "type" not in value:
            _change(now, value)
        else:
            row.write_silently(name, msgspec.convert(value, types[name]))


@cache
def _types(kind: type[Row]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {name: hints[name] for name in kind.__struct_fields__}
