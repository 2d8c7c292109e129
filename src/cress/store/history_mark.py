"""The mark of a history: its identity, and the number of additions. It shows that a history was lost.

This module also checks a history in a SQLite file without SQLAlchemy, whose import is slow.
"""

from __future__ import annotations

import functools
import os
import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from cress.store.base import Damaged, StoreError
from cress.store.sqlite_file import beside, connect, told

FILE = "history.mark"
# Counters in the table ``marks`` of a history.
IDENTITY, ADDITIONS, JOBS, ATTEMPTS = "identity", "additions", "jobs", "attempts"
SEAL = "seal"
_encode = msgspec.msgpack.Encoder().encode
# The start of a center reads a whole history up to this size in bytes; `cress store check` reads any.
MOST_READ = 32 * 2**20


class Mark(msgspec.Struct, frozen=True):
    """The identity of a history, and a lower bound of its additions; ``file``: its file in the data directory."""

    identity: int
    additions: int
    file: bool = True

    def compare(self, name: str, identity: int, additions: int, mark: Path) -> None:
        """Raise Damaged if a history does not match this mark, or has lost additions."""
        out = f"put a copy of it back; or remove {mark}, to continue with the existing one"
        if identity != self.identity:
            raise Damaged(f"the history {name} is not the one into which this center moved its finished work", out)
        if additions < self.additions:
            lost = self.additions - additions
            raise Damaged(f"the history {name} has lost its last {lost} additions of finished work", out)


class _StoredMark(msgspec.Struct):
    identity: int
    additions: int
    file: bool
    check: int


def read_mark(path: Path) -> Mark | None:
    """Read the mark at ``path``; return None if it is missing or damaged: the next addition writes it again."""
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=_StoredMark)
    except IsADirectoryError:
        raise StoreError(f"{path} is a directory, not the mark of the history; move it away") from None
    except (OSError, msgspec.MsgspecError):
        return None
    mark = Mark(stored.identity, stored.additions, stored.file)
    return mark if _check(mark) == stored.check else None


def write_mark(path: Path, mark: Mark) -> None:
    """Write a mark durably. Raises StoreError."""
    fresh = beside(path, ".new")
    try:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(
                handle, msgspec.json.encode(_StoredMark(mark.identity, mark.additions, mark.file, _check(mark))) + b"\n"
            )
            os.fsync(handle)
        finally:
            os.close(handle)
        fresh.replace(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error


def _check(mark: Mark) -> int:
    return zlib.crc32(b"%d %d %d" % (mark.identity, mark.additions, mark.file))


def seal_of(row: Mapping[str, Any]) -> int:
    """Return the checksum of a row. Empty cells do not count, since later releases may add columns."""
    cells = {
        name: 1 if value is True else 0 if value is False else value
        for name in _in_order(tuple(row))
        if (value := row[name]) is not None
    }
    return zlib.crc32(_encode(cells))


@functools.cache
def _in_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the cells that count, sorted: those of a table are the same for thousands of rows."""
    return tuple(sorted(name for name in names if name != SEAL))


def check_history(path: Path, mark_path: Path, *, deep: bool) -> None:
    """Raise Damaged if the SQLite history at ``path`` is missing, another one, damaged, or has lost additions.

    Without ``deep`` a large file is not read.
    """
    mark = read_mark(mark_path)
    if mark is not None and not mark.file:
        out = f"name it with --history; or remove {mark_path}, to begin an empty one in {path}"
        raise StoreError(f"this center moved its finished work into another database than a file here; {out}")
    for file in (path, beside(path, "-wal"), beside(path, "-shm")):
        if file.is_dir():
            raise Damaged(f"{file} is a directory, not a file of the history", "move it away, and put the file back")
    if not path.exists():
        if mark is not None:
            what = f"the history {path} is gone, and with it finished work that was moved there"
            raise Damaged(what, f"put a copy of it back; or remove {mark_path}, to begin an empty one")
        return
    size = path.stat().st_size
    # A backup of the store does not have the history.
    out = f"put a copy of it back; or remove {path} and {mark_path}, to begin an empty one"
    # A kill while the file was made leaves a journal, which only a connection that may write can roll back.
    reads_only = not beside(path, "-journal").exists()
    with told(path, "cannot be read", "the history", out), closing(connect(path, read_only=reads_only)) as connection:
        connection.execute("BEGIN")
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        there: dict[str, int] = {}
        if "marks" in tables:
            there = dict(connection.execute("SELECT name, value FROM marks"))
        if mark is not None:
            mark.compare(str(path), there.get(IDENTITY, 0), there.get(ADDITIONS, 0), mark_path)
        if there and (deep or size <= MOST_READ):
            for what in _defects(connection, there):
                raise Damaged(f"the history {path} is damaged: {what}", out)


def _defects(connection: sqlite3.Connection, there: Mapping[str, int]) -> Iterable[str]:
    found = connection.execute("PRAGMA integrity_check(1)").fetchall()
    if found != [("ok",)]:
        yield str(found[0][0]).replace("\n", " ")
        return
    for table, key in ((JOBS, "id"), (ATTEMPTS, "attempt")):
        rows = connection.execute(f"SELECT * FROM {table}")  # noqa: S608 (our own names)
        names = [column[0] for column in rows.description]
        count = 0
        for row in rows:
            cells = dict(zip(names, row, strict=True))
            count += cells[SEAL] is not None
            if cells[SEAL] is not None and cells[SEAL] != seal_of(cells):
                yield f"{table[:-1]} {cells[key]} is not as it was stored"
        if count != there.get(table, 0):
            yield f"it has {count} {table}, not {there.get(table, 0)}"
    rows = connection.execute("SELECT * FROM usage")
    names = [column[0] for column in rows.description]
    for row in rows:
        cells = dict(zip(names, row, strict=True))
        if cells.get(SEAL) is not None and cells[SEAL] != seal_of(cells):
            yield f"the usage of group {cells['group']} is not as it was stored"
