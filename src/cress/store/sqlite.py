"""The store of one machine: a SQLite file, in write-ahead mode, synchronous=FULL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cress.model.events import Outcome
from cress.model.records import AttemptRecord, JobRecord, JobState
from cress.store.base import Batch, Saved, StoreError

SCHEMA = 2

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE log (seq INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE snapshot (one INTEGER PRIMARY KEY CHECK (one = 1), state BLOB NOT NULL);
CREATE TABLE runs (job INTEGER PRIMARY KEY, run BLOB NOT NULL);
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, "group" TEXT NOT NULL, user TEXT NOT NULL, type TEXT NOT NULL,
    tasks INTEGER NOT NULL, gang INTEGER NOT NULL, priority INTEGER NOT NULL, time_limit INTEGER, request TEXT NOT NULL,
    state TEXT NOT NULL, submitted INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL,
    succeeded INTEGER NOT NULL, failed INTEGER NOT NULL, cancelled INTEGER NOT NULL, preempted INTEGER NOT NULL,
    reason TEXT NOT NULL
);
CREATE TABLE attempts (
    job INTEGER NOT NULL, task INTEGER NOT NULL, attempt INTEGER NOT NULL, node TEXT NOT NULL, outcome TEXT NOT NULL,
    final INTEGER NOT NULL, placed INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL, code INTEGER,
    error TEXT NOT NULL, cpu INTEGER NOT NULL, memory INTEGER NOT NULL, PRIMARY KEY (job, task, attempt)
) WITHOUT ROWID;
"""

_JOB = JobRecord.__struct_fields__
_JOB_COLUMNS = ", ".join(f'"{name}"' for name in _JOB)
_INSERT_JOB = f"INSERT INTO jobs ({_JOB_COLUMNS}) VALUES ({', '.join('?' * len(_JOB))})"  # noqa: S608 (our own names)
_ATTEMPT = AttemptRecord.__struct_fields__
_ATTEMPT_COLUMNS = ", ".join(_ATTEMPT)
_INSERT_ATTEMPT = f"INSERT INTO attempts ({_ATTEMPT_COLUMNS}) VALUES ({', '.join('?' * len(_ATTEMPT))})"  # noqa: S608 (our own names)


class SqliteStore:
    """A ``Store`` in the file ``path``, made if it does not exist.

    One connection writes, another one reads: a reader never waits for a commit, and sees whole batches.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._told("cannot be opened"):
            self._writer = self._connect()
            try:
                self._prepare()
                self._reader = self._connect()
            except BaseException:
                self._writer.close()
                raise

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=5)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self) -> None:
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if version not in (0, SCHEMA):
            raise StoreError(f"{self.path} was written by another version of Cress (schema {version}, not {SCHEMA})")
        if version == 0:
            self._writer.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version={SCHEMA}; COMMIT;")

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise StoreError(f"the store {self.path} {what}: {error}") from error

    def load(self) -> Saved:
        """Everything that a center needs to go on."""
        with self._told("cannot be read"):
            execute = self._writer.execute
            snapshot = execute("SELECT state FROM snapshot").fetchone()
            return Saved(
                snapshot=None if snapshot is None else snapshot[0],
                records=[record for (record,) in execute("SELECT record FROM log ORDER BY seq")],
                meta=dict(execute("SELECT key, value FROM meta").fetchall()),
            )

    def commit(self, batch: Batch) -> None:
        """Store all of the batch durably, or nothing."""
        writer = self._writer
        with self._told("cannot be written"):
            try:
                writer.execute("BEGIN IMMEDIATE")
                _write(writer, batch)
                writer.execute("COMMIT")
            except BaseException:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
                raise

    def run(self, job: int) -> bytes | None:
        """How to run this job, as it was stored."""
        with self._told("cannot be read"):
            row = self._reader.execute("SELECT run FROM runs WHERE job = ?", (job,)).fetchone()
        return None if row is None else row[0]

    def job(self, job: int) -> JobRecord | None:
        """A finished job."""
        with self._told("cannot be read"):
            row = self._reader.execute(f"SELECT {_JOB_COLUMNS} FROM jobs WHERE id = ?", (job,)).fetchone()  # noqa: S608
        return None if row is None else _job(row)

    def jobs(
        self, *, limit: int, before: int | None = None, group: str = "", user: str = "", state: str = "", name: str = ""
    ) -> list[JobRecord]:
        """Finished jobs with an id below ``before``, newest first, at most ``limit``; an empty filter lets all pass."""
        filters = {"group": group, "user": user, "state": state, "name": name}
        wanted = {key: value for key, value in filters.items() if value}
        where = [f'"{key}" = ?' for key in wanted] + ["id < ?"] * (before is not None)
        values = [*wanted.values(), *([before] if before is not None else []), limit]
        sql = f"SELECT {_JOB_COLUMNS} FROM jobs"  # noqa: S608 (our own names; values are bound)
        sql += (" WHERE " + " AND ".join(where) if where else "") + " ORDER BY id DESC LIMIT ?"
        with self._told("cannot be read"):
            return [_job(row) for row in self._reader.execute(sql, values)]

    def attempts(self, job: int, first: int, last: int) -> list[AttemptRecord]:
        """The finished attempts of the tasks ``first`` … ``last`` (included) of a job, by task, oldest first."""
        sql = (
            f"SELECT {_ATTEMPT_COLUMNS} FROM attempts "  # noqa: S608 (our own names)
            "WHERE job = ? AND task BETWEEN ? AND ? ORDER BY task, attempt"
        )
        with self._told("cannot be read"):
            return [_attempt(row) for row in self._reader.execute(sql, (job, first, last))]

    def close(self) -> None:
        """Give the file back; nothing is lost without."""
        self._reader.close()
        self._writer.close()


def _write(writer: sqlite3.Connection, batch: Batch) -> None:
    """Everything of the batch, inside a transaction."""
    if batch.snapshot is None:
        writer.executemany("INSERT INTO log (record) VALUES (?)", ((record,) for record in batch.records))
    else:
        writer.execute("DELETE FROM log")
        writer.execute("INSERT OR REPLACE INTO snapshot (one, state) VALUES (1, ?)", (batch.snapshot,))
    if batch.runs:
        writer.executemany("INSERT INTO runs (job, run) VALUES (?, ?)", batch.runs)
    if batch.jobs:
        writer.executemany(_INSERT_JOB, _rows(batch.jobs))
    if batch.attempts:
        writer.executemany(_INSERT_ATTEMPT, _rows(batch.attempts))
    if batch.meta:
        writer.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", batch.meta.items())


def _rows(records: Iterable[JobRecord | AttemptRecord]) -> Iterator[list[object]]:
    for record in records:
        yield [_cell(getattr(record, name)) for name in record.__struct_fields__]


def _cell(value: object) -> object:
    if isinstance(value, (JobState, Outcome)):
        return value.value
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return value


def _job(row: tuple[object, ...]) -> JobRecord:
    values = dict(zip(_JOB, row, strict=True))
    values["request"] = tuple(map(int, str(values["request"]).split()))
    values["state"] = JobState(values["state"])
    values["gang"] = bool(values["gang"])
    return JobRecord(**values)  # type: ignore[arg-type]


def _attempt(row: tuple[object, ...]) -> AttemptRecord:
    values = dict(zip(_ATTEMPT, row, strict=True))
    values["outcome"] = Outcome(values["outcome"])
    values["final"] = bool(values["final"])
    return AttemptRecord(**values)  # type: ignore[arg-type]
