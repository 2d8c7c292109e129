"""The store of one machine: a SQLite file, in write-ahead mode, synchronous=FULL."""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from cress.model.records import JobRecord
from cress.store.base import Batch, Changed, Damaged, Fenced, Saved, StoreError
from cress.store.finished import INSERT_ATTEMPT, INSERT_JOB, SqliteReader, find_job, find_run, rows
from cress.store.sqlite_file import MARK, begins_anew, beside, check_place, connect, opened, sealed, told, write_mark

SCHEMA = 6
# Notes that the store itself keeps: the newest epoch, the number of the last record, the id of the cluster.
OWN = EPOCH, RECORDS, CLUSTER = "epoch", "records", "cluster"
# Bytes of a snapshot that are written at a time: other threads run in between.
CHUNK = 2**20

encode_number = msgspec.msgpack.Encoder().encode
decode_number = msgspec.msgpack.Decoder(int).decode

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE log (seq INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE snapshot (one INTEGER PRIMARY KEY CHECK (one = 1), state BLOB NOT NULL);
CREATE TABLE runs (job INTEGER PRIMARY KEY, run BLOB NOT NULL, family INTEGER NOT NULL DEFAULT 0);
CREATE INDEX runs_family ON runs (family) WHERE family > 0;
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, "group" TEXT NOT NULL, user TEXT NOT NULL, type TEXT NOT NULL,
    tasks INTEGER NOT NULL, gang INTEGER NOT NULL, priority INTEGER NOT NULL, time_limit INTEGER, request TEXT NOT NULL,
    state TEXT NOT NULL, submitted INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL,
    succeeded INTEGER NOT NULL, failed INTEGER NOT NULL, cancelled INTEGER NOT NULL, preempted INTEGER NOT NULL,
    reason TEXT NOT NULL, requirement TEXT NOT NULL, rank TEXT NOT NULL, application TEXT NOT NULL,
    family INTEGER NOT NULL, "index" INTEGER NOT NULL, template INTEGER NOT NULL
);
CREATE INDEX jobs_family ON jobs (family, id) WHERE family > 0;
CREATE TABLE attempts (
    job INTEGER NOT NULL, task INTEGER NOT NULL, attempt INTEGER NOT NULL, node TEXT NOT NULL, outcome TEXT NOT NULL,
    final INTEGER NOT NULL, placed INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL, code INTEGER,
    error TEXT NOT NULL, cpu INTEGER NOT NULL, memory INTEGER NOT NULL, ports TEXT NOT NULL,
    devices TEXT NOT NULL, PRIMARY KEY (job, task, attempt)
) WITHOUT ROWID;
"""


class SqliteStore:
    """A ``Store`` in the file ``path``, made if it does not exist.

    One connection writes, another one reads: a reader never waits for a commit, and sees whole batches. A file that is
    there already is opened for writing by the first commit: until then nothing is changed.

    Beside the file stands its mark, which says ``open`` or ``closed``: it shows that a store was lost, or
    lost its write-ahead file, instead of being new. Data that decisions depend on has a checksum: SQLite notices
    damage to its own structure only.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with told(path, "cannot be opened"):
            check_place(path)
            try:
                self._open()
            except BaseException:
                self._note_end()
                raise

    def _open(self) -> None:
        self._opened_writer: sqlite3.Connection | None = None
        # A store of another release is refused before anything is written.
        if not self.path.exists() or self._schema() != SCHEMA:
            self._open_writer()
        self._reader = connect(self.path, read_only=True)
        # A query that another thread has under way on the same connection would keep both at its old snapshot.
        self._looking_up = threading.Lock()

    def _schema(self) -> int:
        """Return the schema of the file, 0 if it is empty; raises StoreError for one of another release."""
        with closing(connect(self.path, read_only=True)) as connection:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version not in (0, SCHEMA):
            raise StoreError(f"{self.path} was written by another version of Cress (schema {version}, not {SCHEMA})")
        if version == 0 and beside(self.path, MARK).exists():
            raise Damaged(begins_anew(self.path, "empty"))
        return version

    @property
    def _writer(self) -> sqlite3.Connection:
        return self._opened_writer or self._open_writer()

    def _open_writer(self) -> sqlite3.Connection:
        writer = connect(self.path)
        try:
            writer.execute("PRAGMA journal_mode=WAL")
            writer.execute("PRAGMA synchronous=FULL")
            (version,) = writer.execute("PRAGMA user_version").fetchone()
            if version == 0:
                writer.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version={SCHEMA}; COMMIT;")
            write_mark(self.path, "open")
        except BaseException:
            writer.close()
            raise
        self._opened_writer = writer
        return writer

    def load(self) -> Saved:
        """Return everything that a center needs to go on, as of one moment."""
        with told(self.path, "cannot be read"):
            self._reader.execute("BEGIN")
            try:
                return load(self._reader)
            finally:
                self._reader.execute("COMMIT")

    def take_over(self, epoch: int, number: int, cluster: str) -> int:
        """Begin a new epoch behind a state that was loaded; see ``Store.take_over``."""

        def begin(writer: sqlite3.Connection) -> None:
            if (_number(writer, EPOCH), _number(writer, RECORDS)) != (epoch, number):
                raise Changed(f"the store {self.path} has changed since it was read")
            _note(writer, {EPOCH: encode_number(epoch + 1), CLUSTER: cluster.encode("ascii")})

        self._write(begin)
        return epoch + 1

    def commit(self, batch: Batch, epoch: int) -> None:
        """Store all of the batch durably, or nothing; see ``Store.commit``."""

        def write(writer: sqlite3.Connection) -> None:
            _fence(writer, epoch)
            _write(writer, batch)

        self._write(write)

    def snapshot(self, state: bytes | memoryview, *, number: int, meta: Mapping[str, bytes], epoch: int) -> None:
        """Store a snapshot in place of the log that it covers; see ``Store.snapshot``."""

        def write(writer: sqlite3.Connection) -> None:
            _fence(writer, epoch)
            _shorten(writer, number)
            _note(writer, meta)
            _write_state(writer, memoryview(state))

        self._write(write)

    def _write(self, work: Callable[[sqlite3.Connection], None]) -> None:
        with told(self.path, "cannot be written"):
            writer = self._writer
            try:
                writer.execute("BEGIN IMMEDIATE")
                work(writer)
                writer.execute("COMMIT")
            except BaseException:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
                raise

    def job(self, job: int) -> JobRecord | None:
        """Return a finished job."""
        with told(self.path, "cannot be read"), self._looking_up:
            return find_job(self._reader, job)

    def reader(self) -> SqliteReader:
        """Open a reader of finished work."""
        return SqliteReader(self.path)

    def run(self, job: int) -> bytes | None:
        """Return the run of this job as it was stored."""
        with told(self.path, "cannot be read"), self._looking_up:
            return find_run(self._reader, job)

    def close(self) -> None:
        """Close the file; without a close nothing is lost."""
        self._reader.close()
        if self._opened_writer is not None:
            self._opened_writer.close()
            self._note_end()

    def _note_end(self) -> None:
        # The last connection merges the write-ahead file and removes it, if it can.
        if beside(self.path, MARK).exists() and not beside(self.path, "-wal").exists():
            with suppress(OSError):
                write_mark(self.path, "closed")


def load(connection: sqlite3.Connection) -> Saved:
    """Return everything that a center needs to go on, with its checksums verified."""
    execute = connection.execute
    snapshot = execute("SELECT state FROM snapshot").fetchone()
    log = execute("SELECT seq, record FROM log ORDER BY seq")
    notes = execute("SELECT key, value FROM meta")
    return Saved(
        snapshot=None if snapshot is None else opened(snapshot[0], "the snapshot"),
        records=[opened(record, f"record {seq} of the log") for seq, record in log],
        meta={key: opened(value, f"the note {key!r}") for key, value in notes if key not in OWN},
        number=_number(connection, RECORDS),
        epoch=_number(connection, EPOCH),
        cluster=_cluster(connection),
    )


def _cluster(connection: sqlite3.Connection) -> str:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (CLUSTER,)).fetchone()
    return "" if row is None else opened(row[0], f"the note {CLUSTER!r}").decode("ascii")


def _write(writer: sqlite3.Connection, batch: Batch) -> None:
    """Write all of the batch, inside a transaction."""
    if batch.records:
        number = _number(writer, RECORDS) + len(batch.records)
        writer.executemany("INSERT INTO log (record) VALUES (?)", ((sealed(record),) for record in batch.records))
        _note(writer, {RECORDS: encode_number(number)})
    if batch.runs:
        writer.executemany("INSERT INTO runs (job, run) VALUES (?, ?)", ((job, sealed(run)) for job, run in batch.runs))
    if batch.templates:
        writer.executemany(
            "INSERT INTO runs (job, family, run) VALUES (?, ?, ?)",
            ((number, family, sealed(run)) for number, family, run in batch.templates),
        )
    if batch.jobs:
        writer.executemany(INSERT_JOB, rows(batch.jobs))
    if batch.attempts:
        writer.executemany(INSERT_ATTEMPT, rows(batch.attempts))
    if batch.moved_attempts:
        writer.executemany("DELETE FROM attempts WHERE job = ? AND task = ? AND attempt = ?", batch.moved_attempts)
    for job in batch.moved_jobs:
        writer.execute("DELETE FROM jobs WHERE id = ?", (job,))
        writer.execute("DELETE FROM runs WHERE job = ?", (job,))
        writer.execute("DELETE FROM runs WHERE family > 0 AND family = ?", (job,))
    if batch.meta:
        _note(writer, batch.meta)


def _fence(writer: sqlite3.Connection, epoch: int) -> None:
    newest = _number(writer, EPOCH)
    if epoch < newest:
        raise Fenced(epoch, newest)
    if epoch > newest:
        _note(writer, {EPOCH: encode_number(epoch)})


def _shorten(writer: sqlite3.Connection, number: int) -> None:
    """Remove the log up to the record of this number."""
    (count, newest) = writer.execute("SELECT count(*), max(seq) FROM log").fetchone()
    last = _number(writer, RECORDS)
    behind = max(0, last - number)
    if behind > count:
        raise StoreError(f"a snapshot of record {number} is older than the one that is stored")
    if count:
        writer.execute("DELETE FROM log WHERE seq <= ?", (newest - behind,))
    if number > last:
        _note(writer, {RECORDS: encode_number(number)})


def _write_state(writer: sqlite3.Connection, state: memoryview) -> None:
    """Write a snapshot and its checksum piece by piece."""
    sql = "INSERT OR REPLACE INTO snapshot (one, state) VALUES (1, zeroblob(?))"
    writer.execute(sql, (len(state) + 4,))
    with writer.blobopen("snapshot", "state", 1) as blob:
        blob.write(zlib.crc32(state).to_bytes(4, "little"))
        for at in range(0, len(state), CHUNK):
            blob.write(state[at : at + CHUNK])


def _number(connection: sqlite3.Connection, key: str) -> int:
    """Return a number among the notes, 0 if it is missing."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return 0 if row is None else decode_number(opened(row[0], f"the note {key!r}"))


def _note(writer: sqlite3.Connection, meta: Mapping[str, bytes]) -> None:
    writer.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", _notes(meta))


def _notes(meta: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    for key, value in meta.items():
        yield key, sealed(value)
