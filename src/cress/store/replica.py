"""The replica of a shared log: the rows that its entries give, in a SQLite file of the center's own."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from cress.model.records import AttemptRecord, JobRecord
from cress.store.base import Batch, Damaged, Saved
from cress.store.commit_journal import Commit
from cress.store.finished import ATTEMPT_COLUMNS, JOB_COLUMNS, SqliteReader, attempt_of, find_job, find_run, job_of
from cress.store.sqlite_file import beside, connect, opened, told, transaction
from cress.store.sqlite_tables import (
    CLUSTER,
    COMMITS,
    EPOCH,
    RECORDS,
    SCHEMA,
    create,
    encode,
    fence,
    note,
    note_of,
    number_of,
    shorten,
    write_batch,
    write_state,
)
from cress.store.sqlite_verify import defects, load

# The note with the log that is followed, and with the chain at its last entry that was applied.
LOG, CHAIN = "log", "chain"
# Rows of a piece of a checkpoint, and bytes of a piece of the state.
ROWS, PIECE = 500, 2**19

_T = TypeVar("_T")


class Piece(msgspec.Struct, array_like=True, omit_defaults=True):
    """A piece of a checkpoint.

    The first one says what the others belong to: the chain after the last entry that is covered, the epoch, the cluster,
    the number of the last record, and the length of the state. Then come the pieces of the state, and the rows.
    """

    chain: int = 0
    epoch: int = 0
    cluster: str = ""
    number: int = 0
    length: int = 0
    state: bytes = b""
    batch: Batch | None = None


_encode_piece = msgspec.msgpack.Encoder().encode
_decode_piece = msgspec.msgpack.Decoder(Piece).decode


class Replica:
    """The rows of a log up to entry ``last``, in the file ``path``.

    The log has all of it: the file is not synced, and one that is damaged, or follows another log, begins anew.
    One thread at a time writes, others may read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._looking_up = threading.Lock()
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
        """The id of the log that is followed, empty for a new file."""
        with told(self.path, "cannot be read"):
            return (note_of(self._writer, LOG) or b"").decode("ascii")

    @property
    def epoch(self) -> int:
        """The newest epoch that the applied entries know."""
        with told(self.path, "cannot be read"):
            return number_of(self._writer, EPOCH)

    @property
    def number(self) -> int:
        """The number of the last record."""
        with told(self.path, "cannot be read"):
            return number_of(self._writer, RECORDS)

    def begin(self, log: str) -> None:
        """Begin anew, empty, as a replica of the log with this id."""
        with told(self.path, "cannot be written"):
            self._begin_anew()
            with transaction(self._writer):
                note(self._writer, {LOG: log.encode("ascii")})

    # --- applying ------------------------------------------------------------------------------------------------

    @contextmanager
    def applied(self, commit: Commit, chain: int, state: memoryview | None = None) -> Iterator[None]:
        """Apply the next entry when the block ends without an error; ``chain`` is the one after it.

        What cannot be applied is refused before the block begins.
        """
        with told(self.path, "cannot be written"), transaction(self._writer):
            self._apply(commit, state)
            note(self._writer, {COMMITS: encode(self.last + 1), CHAIN: encode(chain)})
            yield
        self.last, self.chain = self.last + 1, chain

    def _apply(self, commit: Commit, state: memoryview | None) -> None:
        if commit.epoch:
            fence(self._writer, commit.epoch)
        if commit.cluster:
            note(self._writer, {CLUSTER: commit.cluster.encode("ascii")})
        if commit.covered is not None:
            assert state is not None
            shorten(self._writer, commit.covered)
            write_state(self._writer, state)
        if commit.batch is not None:
            write_batch(self._writer, commit.batch)

    # --- checkpoints -----------------------------------------------------------------------------------------------

    def pieces(self, chain: int) -> Iterator[bytes]:
        """Return the rows as a checkpoint, with an entry that is being applied; ``chain`` is the one after it."""
        saved = load(self._writer)
        state = memoryview(saved.snapshot or b"")
        first = Piece(chain, saved.epoch, saved.cluster, saved.number - len(saved.records), len(state))
        yield _encode_piece(first)
        for at in range(0, len(state), PIECE):
            yield _encode_piece(Piece(state=bytes(state[at : at + PIECE])))
        notes = {key: value for key, value in saved.meta.items() if key not in (LOG, CHAIN)}
        yield _encode_piece(Piece(batch=Batch(meta=notes)))
        for records in _grouped(iter(saved.records)):
            yield _encode_piece(Piece(batch=Batch(records=records)))
        execute = self._writer.execute
        runs = execute("SELECT job, family, run FROM runs ORDER BY job")
        for rows in _grouped((job, family, opened(run, f"how to run job {job}")) for job, family, run in runs):
            batch = Batch(
                runs=[(job, run) for job, family, run in rows if not family],
                templates=[(job, family, run) for job, family, run in rows if family],
            )
            yield _encode_piece(Piece(batch=batch))
        jobs: Iterator[JobRecord] = map(job_of, execute(f"SELECT {JOB_COLUMNS} FROM jobs"))  # noqa: S608 (our own names)
        for finished in _grouped(jobs):
            yield _encode_piece(Piece(batch=Batch(jobs=finished)))
        attempts: Iterator[AttemptRecord] = map(attempt_of, execute(f"SELECT {ATTEMPT_COLUMNS} FROM attempts"))  # noqa: S608
        for ended in _grouped(attempts):
            yield _encode_piece(Piece(batch=Batch(attempts=ended)))

    def restore(self, log: str, last: int, pieces: Iterable[bytes]) -> None:
        """Begin anew with a checkpoint that covers the log up to entry ``last``. Raises ``Damaged``."""
        self.begin(log)
        with told(self.path, "cannot be written"), transaction(self._writer):
            found = _decoded(pieces)
            first = next(found)
            state = bytearray()
            if first.cluster:
                note(self._writer, {CLUSTER: first.cluster.encode("ascii")})
            fence(self._writer, first.epoch)
            shorten(self._writer, first.number)
            for piece in found:
                state += piece.state
                if piece.batch is not None:
                    write_batch(self._writer, piece.batch)
            if len(state) != first.length:
                raise Damaged(f"the checkpoint of entry {last} is not complete")
            if state:
                write_state(self._writer, memoryview(state))
            note(self._writer, {COMMITS: encode(last), CHAIN: encode(first.chain)})
        self.last, self.chain = last, first.chain

    # --- reading -------------------------------------------------------------------------------------------------

    def load(self) -> Saved:
        """Return what a center needs to go on, as of one moment."""
        saved = self._at_one_moment(load)
        for name in (LOG, CHAIN):
            saved.meta.pop(name, None)
        return saved

    def _at_one_moment(self, read: Callable[[sqlite3.Connection], _T]) -> _T:
        with told(self.path, "cannot be read"), self._looking_up:
            self._reader.execute("BEGIN")
            try:
                return read(self._reader)
            finally:
                self._reader.execute("COMMIT")

    def job(self, job: int) -> JobRecord | None:
        """Return a finished job."""
        with told(self.path, "cannot be read"), self._looking_up:
            return find_job(self._reader, job)

    def run(self, job: int) -> bytes | None:
        """Return the run of this job as it was stored."""
        with told(self.path, "cannot be read"), self._looking_up:
            return find_run(self._reader, job)

    def reader(self) -> SqliteReader:
        """Open a reader of finished work."""
        return SqliteReader(self.path)

    def close(self) -> None:
        """Close the file."""
        self._reader.close()
        self._writer.close()


def state_in(pieces: Iterable[bytes]) -> bytes:
    """Return the state in a checkpoint, without reading its rows. Raises ``Damaged``."""
    found = _decoded(pieces)
    first = next(found)
    state = bytearray()
    while len(state) < first.length:
        state += next(found).state
    return bytes(state)


def _decoded(pieces: Iterable[bytes]) -> Iterator[Piece]:
    try:
        for piece in pieces:
            yield _decode_piece(piece)
    except msgspec.MsgspecError as error:
        raise Damaged(f"a checkpoint cannot be read: {error}") from None


def _grouped(rows: Iterator[_T]) -> Iterator[list[_T]]:
    """Return the rows in lists of at most ``ROWS``."""
    while group := [row for _, row in zip(range(ROWS), rows, strict=False)]:
        yield group
