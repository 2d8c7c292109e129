"""The replica of a shared log: the rows of its entries, in a SQLite file of the center."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from cress.store.base import Damaged, Saved
from cress.store.checkpoint import pieces_of, write_pieces
from cress.store.commit_journal import StoredCommit
from cress.store.lookups import Lookups
from cress.store.sqlite_file import beside, connect, told, transaction
from cress.store.sqlite_tables import (
    COMMITS,
    EPOCH,
    RECORDS,
    SCHEMA,
    create,
    encode,
    note,
    note_of,
    number_of,
    shorten,
    write_state,
)
from cress.store.sqlite_verify import apply_commit, defects, load

# The notes with the id of the followed log, and with the chain at the last applied entry.
LOG, CHAIN = "log", "chain"

_T = TypeVar("_T")


class Replica(Lookups):
    """The rows of a log up to entry ``last``, in the file ``path``.

    The log has all data: the file is not synced, and a damaged file, or one of another log, begins anew. One thread at
    a time writes, others may read.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with told(path, "cannot be opened"):
            try:
                self._open()
            except (sqlite3.DatabaseError, Damaged):
                self._begin_anew()

    def _open(self) -> None:
        self._writer = connect(self.path)
        self._writer.execute("PRAGMA journal_mode=WAL")
        self._writer.execute("PRAGMA synchronous=NORMAL")
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if version == 0:
            create(self._writer)
        elif version != SCHEMA or defects(self._writer):
            self._writer.close()
            raise Damaged(f"the file {self.path} is not a replica of this release")
        self._reader = connect(self.path, read_only=True)
        self.last, self.chain = number_of(self._writer, COMMITS), number_of(self._writer, CHAIN)

    def _begin_anew(self) -> None:
        for name in ("_writer", "_reader"):
            if (connection := getattr(self, name, None)) is not None:
                connection.close()
        for ending in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                beside(self.path, ending).unlink()
        self._open()

    @property
    def log(self) -> str:
        """The id of the followed log, empty for a new file."""
        with told(self.path, "cannot be read"):
            return (note_of(self._writer, LOG) or b"").decode("ascii")

    @property
    def epoch(self) -> int:
        """The newest epoch in the applied entries."""
        with told(self.path, "cannot be read"):
            return number_of(self._writer, EPOCH)

    @property
    def number(self) -> int:
        """The number of the last record."""
        with told(self.path, "cannot be read"):
            return number_of(self._writer, RECORDS)

    def note(self, key: str) -> bytes | None:
        """Return a note of the applied entries."""
        return self._at_one_moment(lambda reader: note_of(reader, key))

    def begin(self, log: str) -> None:
        """Begin anew, empty, as a replica of the log with this id."""
        with told(self.path, "cannot be written"):
            self._begin_anew()
            with transaction(self._writer):
                note(self._writer, {LOG: log.encode("ascii")})

    # --- applying ------------------------------------------------------------------------------------------------

    @contextmanager
    def applied(self, commit: StoredCommit, chain: int, state: memoryview | None = None) -> Iterator[None]:
        """Apply the next entry when the block ends without an error; ``chain`` is the one after it.

        An entry that cannot be applied is refused before the block begins.
        """
        with told(self.path, "cannot be written"), transaction(self._writer):
            self._apply(commit, state)
            note(self._writer, {COMMITS: encode(self.last + 1), CHAIN: encode(chain)})
            yield
        self.last, self.chain = self.last + 1, chain

    def _apply(self, commit: StoredCommit, state: memoryview | None) -> None:
        apply_commit(self._writer, commit)
        if commit.covered is not None:
            assert state is not None
            shorten(self._writer, commit.covered)
            write_state(self._writer, state)

    # --- checkpoints -----------------------------------------------------------------------------------------------

    def checkpoint(self, state: memoryview, number: int, put: Callable[[int, Iterator[bytes]], _T]) -> _T:
        """Return the result of ``put`` for a checkpoint of the present rows: the last entry, and the pieces.

        ``state`` is the one after record ``number``. Any thread may call it; entries are applied meanwhile.
        """
        with told(self.path, "cannot be read"), closing(connect(self.path, read_only=True)) as view:
            view.execute("BEGIN")
            last, chain = number_of(view, COMMITS), number_of(view, CHAIN)
            return put(last, pieces_of(view, chain, (LOG, CHAIN), (state, number)))

    def restore(self, log: str, last: int, pieces: Iterable[bytes]) -> None:
        """Begin anew from a checkpoint that covers the log up to entry ``last``. Raises ``Damaged``."""
        self.begin(log)
        with told(self.path, "cannot be written"), transaction(self._writer):
            chain = write_pieces(self._writer, pieces)
            note(self._writer, {COMMITS: encode(last), CHAIN: encode(chain)})
        self.last, self.chain = last, chain

    # --- reading -------------------------------------------------------------------------------------------------

    def load(self) -> Saved:
        """Return the data with which a center continues, as of one moment."""
        saved = self._at_one_moment(load)
        for name in (LOG, CHAIN):
            saved.meta.pop(name, None)
        return saved

    def close(self) -> None:
        """Close the file."""
        self._reader.close()
        self._writer.close()
