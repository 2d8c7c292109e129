"""Rows and tables that track their changes, whoever makes them.

A ``ChangeJournal`` belongs to one set of tables. Their contents are attached to it: rows, and the rows and dicts in
their fields. Every write to an attached object is noted as a path, so no handler can forget to report a change. Values
that could change unnoticed (lists, sets, unattached dicts) are refused as values of fields.

The journal holds no row, and rows hold only the journal. So there are no reference cycles, from which msgspec structs,
which the garbage collector does not always track, could never be freed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, TypeAlias, TypeVar

import msgspec

K = TypeVar("K")
V = TypeVar("V")

Path: TypeAlias = tuple[Any, ...]


class ChangeMark(Enum):
    """The kind of a change of a whole key of a dict, or of a whole field of a row."""

    NEW = "new"  # a new key, which comes last
    ANEW = "anew"  # the key was removed and added again, and comes last
    SET = "set"  # another value
    GONE = "gone"  # the key was removed

    __hash__ = object.__hash__


_SET = ChangeMark.SET
_PLAIN = frozenset((int, str, bool, tuple, type(None)))

# By key or field: a mark, or the notes of its parts.
Noted: TypeAlias = dict[Any, Any]


class ChangeJournal:
    """The paths that were written since the journal was last cleared."""

    __slots__ = ("noted",)

    def __init__(self) -> None:
        self.noted: Noted = {}

    def at(self, path: Path) -> Noted | None:
        """Return the notes below a path; ``None`` if it is noted as a whole."""
        noted = self.noted
        for name in path:
            below = noted.get(name)
            if below is None:
                below = noted[name] = {}
            elif below.__class__ is not dict:
                return None
            noted = below
        return noted


class _Attached:
    """The slots of a row beside its fields: its place, unset while it is in no table; and its linked index."""

    __slots__ = ("_journal", "_path", "linked")

    _journal: ChangeJournal
    _path: Path
    linked: Any


_set = object.__setattr__


class Row(_Attached, msgspec.Struct, kw_only=True, omit_defaults=True):
    """A mutable struct; every write to a field is noted while it is in a table.

    Fields are scalars, tuples, frozen structs, other rows, and dicts of these by key. A dict is never replaced.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            journal = self._journal
        except AttributeError:
            _set(self, name, value)
            return
        path = self._path
        if value.__class__ not in _PLAIN:
            attached(journal, (*path, name), value)
        _set(self, name, value)
        # ``ChangeJournal.at``, inlined: this runs for every write to a field.
        noted = journal.noted
        for part in path:
            below = noted.get(part)
            if below is None:
                below = noted[part] = {}
            elif below.__class__ is not dict:
                return
            noted = below
        noted[name] = _SET

    def attach(self, journal: ChangeJournal, path: Path) -> None:
        """Note all writes to this row from now on, at a path."""
        kind = type(self)
        fields = _mutable.get(kind)
        for name in mutable_fields(kind) if fields is None else fields:
            value = getattr(self, name)
            if type(value) is dict:
                _set(self, name, Table(journal, (*path, name), value))
            elif isinstance(value, Row):
                value.attach(journal, (*path, name))
        _set(self, "_journal", journal)
        _set(self, "_path", path)

    def link(self, index: Any) -> None:
        """Link an index that is derived from other tables; it is neither noted nor stored."""
        _set(self, "linked", index)

    def write_silently(self, name: str, value: Any) -> None:
        """Set a field without a note."""
        attached(self._journal, (*self._path, name), value)
        _set(self, name, value)


class Table(dict[K, V]):
    """A dict, in its order, of rows or immutable values; it notes written and removed keys."""

    __slots__ = ("_journal", "_path")

    def __init__(self, journal: ChangeJournal, path: Path, values: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        super().__init__(values)
        self._journal, self._path = journal, path
        for key, value in self.items():
            attached(journal, (*path, key), value)

    def put(self, key: K, value: V) -> None:
        """Set a value without a note, because it follows from other data."""
        if isinstance(value, Row):
            value.attach(self._journal, (*self._path, key))
        elif value.__class__ not in _PLAIN:
            attached(self._journal, (*self._path, key), value)
        dict.__setitem__(self, key, value)

    def fill(self, values: Mapping[K, V]) -> None:
        """Set values without notes."""
        for key, value in values.items():
            self.put(key, value)

    def drop(self, key: K) -> None:
        """Remove a key, if present, without a note."""
        dict.pop(self, key, None)

    def __setitem__(self, key: K, value: V) -> None:
        noted = self._journal.at(self._path)
        if noted is not None:
            if key in self:
                if noted.get(key) not in (ChangeMark.NEW, ChangeMark.ANEW):
                    noted[key] = ChangeMark.SET
            else:
                noted[key] = ChangeMark.NEW if noted.pop(key, None) is None else ChangeMark.ANEW
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        dict.__delitem__(self, key)
        noted = self._journal.at(self._path)
        if noted is not None and noted.pop(key, None) is not ChangeMark.NEW:
            noted[key] = ChangeMark.GONE

    # The other writing methods of a dict, based on these.

    def pop(self, key: K, *default: Any) -> Any:
        """Do what ``dict.pop`` does, with a note."""
        if key not in self:
            return dict.pop(self, key, *default)
        value = self[key]
        del self[key]
        return value

    def setdefault(self, key: K, default: Any = None) -> Any:
        """Do what ``dict.setdefault`` does, with a note."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *values: Any, **named: Any) -> None:
        """Do what ``dict.update`` does, with a note."""
        for key, value in dict(*values, **named).items():
            self[key] = value

    def clear(self) -> None:
        """Do what ``dict.clear`` does, with a note."""
        for key in list(self):
            del self[key]

    def popitem(self) -> tuple[K, V]:
        """Do what ``dict.popitem`` does, with a note."""
        key = next(reversed(self))
        return key, self.pop(key)

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        self.update(other)
        return self


def attached(journal: ChangeJournal, path: Path, value: Any) -> Any:
    """Return a value as it is stored in a table: rows are attached. Raises ``TypeError`` for values that could change
    unnoticed.
    """
    if isinstance(value, Row):
        value.attach(journal, path)
    elif type(value) in _UNSEEN:
        raise TypeError(
            f"{'.'.join(map(str, path))} was set to a {type(value).__name__}, whose changes nobody would note"
        )
    return value


_UNSEEN = frozenset((list, set, dict, Table))

_mutable: dict[type[Row], tuple[str, ...]] = {}


def mutable_fields(kind: type[Row]) -> tuple[str, ...]:
    """Return the fields of a kind of rows that hold a dict or another row."""
    found = _mutable.get(kind)
    if found is None:
        fields = msgspec.inspect.type_info(kind).fields  # type: ignore[attr-defined]
        found = _mutable[kind] = tuple(field.name for field in fields if _is_mutable(field.type))
    return found


def _is_mutable(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.UnionType):
        return any(_is_mutable(column_type) for column_type in kind.types)
    if isinstance(kind, msgspec.inspect.StructType):
        return issubclass(kind.cls, Row)
    return isinstance(kind, msgspec.inspect.DictType)
