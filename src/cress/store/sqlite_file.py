"""The file of a SQLite store: its connections, the mark beside it, checksums, errors as sentences."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from cress.store.base import WAY_OUT, Damaged, StoreError, Unstorable

# The suffix of the file that records whether a store was closed.
MARK = ".mark"
# Files beside a store, and the remedy if there is a directory in their place.
_BESIDE = {
    "-wal": "move it away: the store is completed from its commit journal",
    "-shm": "move it away: the next start makes the file again",
    MARK: "move it away: the next start makes the file again",
    ".commits": "move it away: the next start makes the file again",
}
# Errors of SQLite that mean a damaged file.
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Return a connection without implicit transactions."""
    name = f"file:{quote(str(path.absolute()))}" + "?mode=ro" * read_only
    return sqlite3.connect(name, uri=True, isolation_level=None, check_same_thread=False, timeout=5)


@contextmanager
def told(path: Path, what: str, name: str = "the store", way_out: str = WAY_OUT) -> Iterator[None]:
    """Raise errors of the file ``path`` as StoreError; ``what`` describes the failure.

    ``name`` is that of the file for people, ``way_out`` the remedy for damage.
    """
    try:
        yield
    except _Spoilt as error:
        raise Damaged(f"{name} {path} is damaged: {error}", way_out) from None
    except sqlite3.DataError as error:
        raise Unstorable(f"{name} {path} {what}: {error}") from error
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE:
            raise Damaged(f"{name} {path} is damaged: {error}", way_out) from error
        raise StoreError(f"{name} {path} {what}: {error}") from error
    except OSError as error:
        raise StoreError(f"{name} {path} {what}: {error.strerror}") from error


def check_place(path: Path) -> None:
    """Raise StoreError if the file at ``path`` contradicts its mark."""
    if path.is_dir():
        raise Damaged(f"the store {path} is a directory")
    for ending, hint in _BESIDE.items():
        if (other := beside(path, ending)).is_dir():
            raise StoreError(f"{other} is a directory, not the file that belongs there; {hint}")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise StoreError(f"the store {path} may not be read and written by this user (see its owner and mode)")
    mark, log = beside(path, MARK), beside(path, "-wal")
    if not mark.exists():
        return
    if not path.exists():
        raise Damaged(begins_anew(path, "gone"))
    if path.stat().st_size == 0 and not log.exists():
        raise Damaged(begins_anew(path, "empty"))


def log_is_gone(path: Path) -> str:
    """Return why a store that was not closed is incomplete without its write-ahead file; empty if the file exists."""
    mark, log = beside(path, MARK), beside(path, "-wal")
    if log.exists() or not mark.exists() or mark.read_text(encoding="ascii", errors="replace").strip() != "open":
        return ""
    return f"{log} is missing, and with it the last changes; `cress store restore {path}` goes on without"


def write_mark(path: Path, word: str) -> None:
    """Record durably that the store in ``path`` is ``open`` or ``closed``."""
    mark, fresh = beside(path, MARK), beside(path, f"{MARK}.new")
    if mark.exists() and mark.read_text(encoding="ascii", errors="replace").strip() == word:
        return
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, f"{word}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    fresh.replace(mark)


def beside(path: Path, ending: str) -> Path:
    """Return the file with the name of ``path`` and this suffix."""
    return path.with_name(path.name + ending)


@contextmanager
def transaction(writer: sqlite3.Connection) -> Iterator[None]:
    """Run the block as one transaction, which an exception rolls back."""
    try:
        writer.execute("BEGIN IMMEDIATE")
        yield
        writer.execute("COMMIT")
    except BaseException:
        if writer.in_transaction:
            writer.execute("ROLLBACK")
        raise


def begins_anew(path: Path, how: str) -> str:
    """Return the message about a ``gone`` or ``empty`` store that is not accepted as a new one."""
    return f"the store {path} is {how}; to begin an empty cluster there, remove {beside(path, MARK)}"


class _Spoilt(Exception):
    """A checksum does not match; the sentence names the data."""


def sealed(data: bytes) -> bytes:
    """Return data with its checksum in front."""
    return zlib.crc32(data).to_bytes(4, "little") + data


def opened(data: object, what: str) -> bytes:
    """Return the data in the result of ``sealed``; call it inside ``told``."""
    if isinstance(data, bytes) and is_whole(data):
        return data[4:]
    raise _Spoilt(f"{what} is not as it was stored")


def is_whole(data: object) -> bool:
    """Return whether data is an intact result of ``sealed``."""
    if not isinstance(data, bytes) or len(data) <= 4:
        return False
    return zlib.crc32(memoryview(data)[4:]) == int.from_bytes(data[:4], "little")
