"""The tables of a SQLite store: its notes, and the statements that write a batch inside a transaction."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from cress.store.base import Batch, Fenced, StoreError
from cress.store.finished import ATTEMPT_COLUMNS, INSERT_ATTEMPT, INSERT_JOB, JOB_COLUMNS, rows
from cress.store.sqlite_file import opened, sealed

SCHEMA = 7
# Older schemas that can be opened; the first commit upgrades them.
OLDER = (6,)
# Notes of the store itself: the newest epoch, the number of the last record, the number of the record that the snapshot
# covers, the number of the last transaction, the tally, the id of the cluster.
EPOCH, RECORDS, COVERED, COMMITS, TALLY, CLUSTER = "epoch", "records", "covered", "commits", "tally", "cluster"
OWN = (EPOCH, RECORDS, COVERED, COMMITS, TALLY, CLUSTER)
# Number of bytes of a snapshot written at a time: other threads run in between.
CHUNK = 2**20

TABLES = """
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


class Tally(msgspec.Struct, array_like=True):
    """The numbers of runs, finished jobs and finished attempts, and the sum of the checksums of the finished rows."""

    runs: int = 0
    jobs: int = 0
    attempts: int = 0
    total: int = 0

    def add(self, cells: Iterable[object], sign: int = 1) -> None:
        """Add the checksum of a row of finished work, or subtract it (``sign`` -1)."""
        self.total = (self.total + sign * zlib.crc32(encode([*cells]))) % 2**63


encode = msgspec.msgpack.Encoder().encode
_decode_number = msgspec.msgpack.Decoder(int).decode
_decode_tally = msgspec.msgpack.Decoder(Tally).decode


# --- notes ------------------------------------------------------------------------------------------------------------


def number_of(connection: sqlite3.Connection, key: str) -> int:
    """Return a number among the notes, 0 if it is missing."""
    data = note_of(connection, key)
    return 0 if data is None else _decode_number(data)


def cluster_of(connection: sqlite3.Connection) -> str:
    """Return the id of the cluster, empty before its first epoch."""
    return (note_of(connection, CLUSTER) or b"").decode("ascii")


def tally_of(connection: sqlite3.Connection) -> Tally | None:
    """Return the stored tally."""
    data = note_of(connection, TALLY)
    return None if data is None else _decode_tally(data)


def note_of(connection: sqlite3.Connection, key: str) -> bytes | None:
    """Return a note, None if it is missing."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else opened(row[0], f"the note {key!r}")


def note(writer: sqlite3.Connection, meta: Mapping[str, bytes]) -> None:
    """Write notes in place of those with equal keys."""
    writer.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", _notes(meta))


def _notes(meta: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    for key, value in meta.items():
        yield key, sealed(value)


# --- the schema -------------------------------------------------------------------------------------------------------


def create(writer: sqlite3.Connection) -> None:
    """Create the tables of a new store."""
    writer.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version={SCHEMA};")
    zero = encode(0)
    note(writer, dict.fromkeys((EPOCH, RECORDS, COVERED, COMMITS), zero) | {TALLY: encode(Tally())})
    writer.execute("COMMIT")


def upgrade(writer: sqlite3.Connection) -> None:
    """Upgrade a store of an older schema."""
    writer.execute("BEGIN IMMEDIATE")
    (count,) = writer.execute("SELECT count(*) FROM log").fetchone()
    numbers = {EPOCH: number_of(writer, EPOCH), RECORDS: number_of(writer, RECORDS), COMMITS: 0}
    numbers[COVERED] = numbers[RECORDS] - count
    note(writer, {key: encode(number) for key, number in numbers.items()} | {TALLY: encode(counted(writer))})
    writer.execute(f"PRAGMA user_version={SCHEMA}")
    writer.execute("COMMIT")


def counted(connection: sqlite3.Connection) -> Tally:
    """Return the tally of the existing rows."""
    tally = Tally()
    (tally.runs,) = connection.execute("SELECT count(*) FROM runs").fetchone()
    for row in connection.execute(f"SELECT {JOB_COLUMNS} FROM jobs"):  # noqa: S608 (our own names)
        tally.add(row)
        tally.jobs += 1
    for row in connection.execute(f"SELECT {ATTEMPT_COLUMNS} FROM attempts"):  # noqa: S608 (our own names)
        tally.add(row)
        tally.attempts += 1
    return tally


# --- batches ----------------------------------------------------------------------------------------------------------


def write_batch(writer: sqlite3.Connection, batch: Batch) -> None:
    """Write all of the batch, inside a transaction."""
    if batch.records:
        number = number_of(writer, RECORDS) + len(batch.records)
        writer.executemany("INSERT INTO log (record) VALUES (?)", ((sealed(record),) for record in batch.records))
        note(writer, {RECORDS: encode(number)})
    tally = tally_of(writer) or Tally()
    before = encode(tally)
    if batch.runs:
        writer.executemany("INSERT INTO runs (job, run) VALUES (?, ?)", ((job, sealed(run)) for job, run in batch.runs))
    if batch.templates:
        writer.executemany(
            "INSERT INTO runs (job, family, run) VALUES (?, ?, ?)",
            ((number, family, sealed(run)) for number, family, run in batch.templates),
        )
    tally.runs += len(batch.runs) + len(batch.templates)
    if batch.jobs:
        _insert(writer, INSERT_JOB, list(rows(batch.jobs)), tally)
        tally.jobs += len(batch.jobs)
    if batch.attempts:
        _insert(writer, INSERT_ATTEMPT, list(rows(batch.attempts)), tally)
        tally.attempts += len(batch.attempts)
    _remove_moved(writer, batch, tally)
    if (after := encode(tally)) != before:
        note(writer, {TALLY: after})
    if batch.meta:
        note(writer, batch.meta)


def _insert(writer: sqlite3.Connection, sql: str, cells: list[list[object]], tally: Tally) -> None:
    for row in cells:
        tally.add(row)
    writer.executemany(sql, cells)


def _remove_moved(writer: sqlite3.Connection, batch: Batch, tally: Tally) -> None:
    one = "job = ? AND task = ? AND attempt = ?"
    for key in batch.moved_attempts:
        for row in writer.execute(f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE {one}", key):  # noqa: S608 (our own names)
            tally.add(row, -1)
        tally.attempts -= writer.execute(f"DELETE FROM attempts WHERE {one}", key).rowcount  # noqa: S608
    for job in batch.moved_jobs:
        for row in writer.execute(f"SELECT {JOB_COLUMNS} FROM jobs WHERE id = ?", (job,)):  # noqa: S608 (our own names)
            tally.add(row, -1)
        tally.jobs -= writer.execute("DELETE FROM jobs WHERE id = ?", (job,)).rowcount
        tally.runs -= writer.execute("DELETE FROM runs WHERE job = ?", (job,)).rowcount
        tally.runs -= writer.execute("DELETE FROM runs WHERE family > 0 AND family = ?", (job,)).rowcount


def fence(writer: sqlite3.Connection, epoch: int) -> None:
    """Raise Fenced if a newer epoch than ``epoch`` has begun; store a newer one."""
    newest = number_of(writer, EPOCH)
    if epoch < newest:
        raise Fenced(epoch, newest)
    if epoch > newest:
        note(writer, {EPOCH: encode(epoch)})


def shorten(writer: sqlite3.Connection, number: int) -> None:
    """Remove the log up to the record with this number."""
    (count, newest) = writer.execute("SELECT count(*), max(seq) FROM log").fetchone()
    last = number_of(writer, RECORDS)
    behind = max(0, last - number)
    if behind > count:
        raise StoreError(f"a snapshot of record {number} is older than the one that is stored")
    if count:
        writer.execute("DELETE FROM log WHERE seq <= ?", (newest - behind,))
    note(writer, {COVERED: encode(number), RECORDS: encode(max(number, last))})


def write_state(writer: sqlite3.Connection, state: memoryview) -> None:
    """Write a snapshot and its checksum piece by piece."""
    sql = "INSERT OR REPLACE INTO snapshot (one, state) VALUES (1, zeroblob(?))"
    writer.execute(sql, (len(state) + 4,))
    with writer.blobopen("snapshot", "state", 1) as blob:
        blob.write(zlib.crc32(state).to_bytes(4, "little"))
        for at in range(0, len(state), CHUNK):
            blob.write(state[at : at + CHUNK])
