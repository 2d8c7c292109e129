"""The store of one machine: a SQLite file, in write-ahead mode, synchronous=FULL."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from cress.model.events import Outcome
from cress.model.records import AttemptRecord, JobRecord, JobState
from cress.store.base import Batch, Damaged, Saved, StoreError

SCHEMA = 6
# The ending of the file that tells whether a store was closed.
MARK = ".mark"
# What SQLite says when a file is not what it wrote.
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

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

_JOB = JobRecord.__struct_fields__
_JOB_COLUMNS = ", ".join(f'"{name}"' for name in _JOB)
_INSERT_JOB = f"INSERT INTO jobs ({_JOB_COLUMNS}) VALUES ({', '.join('?' * len(_JOB))})"  # noqa: S608 (our own names)
_ATTEMPT = AttemptRecord.__struct_fields__
_ATTEMPT_COLUMNS = ", ".join(_ATTEMPT)
_INSERT_ATTEMPT = f"INSERT INTO attempts ({_ATTEMPT_COLUMNS}) VALUES ({', '.join('?' * len(_ATTEMPT))})"  # noqa: S608 (our own names)


class SqliteStore:
    """A ``Store`` in the file ``path``, made if it does not exist.

    One connection writes, another one reads: a reader never waits for a commit, and sees whole batches. A file that is
    there already is opened for writing by the first commit: until then nothing is changed.

    Beside the file stands its mark, which says ``open`` or ``closed``: by it a store that was there and is gone, or has
    lost its write-ahead file, is not taken for a new one. What decisions depend on is stored with a checksum: SQLite
    notices damage to its own structure only.
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
        # What another release left is refused before anything is written.
        if not self.path.exists() or self._schema() != SCHEMA:
            self._open_writer()
        self._reader = self._connect(read_only=True)

    def _schema(self) -> int:
        """Return the schema of the file, 0 if it is empty; raises StoreError for one of another release."""
        with closing(self._connect(read_only=True)) as connection:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version not in (0, SCHEMA):
            raise StoreError(f"{self.path} was written by another version of Cress (schema {version}, not {SCHEMA})")
        if version == 0 and beside(self.path, MARK).exists():
            raise Damaged(_begins_anew(self.path, "empty"))
        return version

    @property
    def _writer(self) -> sqlite3.Connection:
        return self._opened_writer or self._open_writer()

    def _open_writer(self) -> sqlite3.Connection:
        writer = self._connect()
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

    def _connect(self, *, read_only: bool = False) -> sqlite3.Connection:
        name = f"file:{quote(str(self.path.absolute()))}" + "?mode=ro" * read_only
        return sqlite3.connect(name, uri=True, isolation_level=None, check_same_thread=False, timeout=5)

    def load(self) -> Saved:
        """Everything that a center needs to go on."""
        with told(self.path, "cannot be read"):
            return load(self._reader)

    def commit(self, batch: Batch) -> None:
        """Store all of the batch durably, or nothing."""
        writer = self._writer
        with told(self.path, "cannot be written"):
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
        with told(self.path, "cannot be read"):
            row = self._reader.execute("SELECT run FROM runs WHERE job = ?", (job,)).fetchone()
            return None if row is None else opened(row[0], f"how to run job {job}")

    def job(self, job: int) -> JobRecord | None:
        """A finished job."""
        with told(self.path, "cannot be read"):
            row = self._reader.execute(f"SELECT {_JOB_COLUMNS} FROM jobs WHERE id = ?", (job,)).fetchone()  # noqa: S608
        return None if row is None else job_of(row)

    def jobs(
        self,
        *,
        limit: int,
        before: int | None = None,
        group: str = "",
        user: str = "",
        state: str = "",
        name: str = "",
        type: str = "",  # noqa: A002
        family: int = 0,
    ) -> list[JobRecord]:
        """Finished jobs with an id below ``before``, newest first, at most ``limit``; see ``Store.jobs``."""
        filters = {"group": group, "user": user, "state": state, "name": name, "type": type, "family": family}
        wanted = {key: value for key, value in filters.items() if value}
        where = [f'"{key}" = ?' for key in wanted] + ["id < ?"] * (before is not None)
        where += ["NOT (family > 0 AND type IN ('service', 'database'))"] * (not family)
        values = [*wanted.values(), *([before] if before is not None else []), limit]
        sql = f"SELECT {_JOB_COLUMNS} FROM jobs"  # noqa: S608 (our own names; values are bound)
        sql += (" WHERE " + " AND ".join(where) if where else "") + " ORDER BY id DESC LIMIT ?"
        with told(self.path, "cannot be read"):
            return [job_of(row) for row in self._reader.execute(sql, values)]

    def attempts(self, job: int, first: int, last: int) -> list[AttemptRecord]:
        """The finished attempts of the tasks ``first`` … ``last`` (included) of a job, by task, oldest first."""
        sql = (
            f"SELECT {_ATTEMPT_COLUMNS} FROM attempts "  # noqa: S608 (our own names)
            "WHERE job = ? AND task BETWEEN ? AND ? ORDER BY task, attempt"
        )
        with told(self.path, "cannot be read"):
            return [attempt_of(row) for row in self._reader.execute(sql, (job, first, last))]

    def finished(self, most: int) -> tuple[list[JobRecord], list[AttemptRecord]]:
        """Up to ``most`` finished attempts, by job; then up to ``most`` finished jobs; see ``Store.finished``."""
        with told(self.path, "cannot be read"):
            rows = self._reader.execute(f"SELECT {_ATTEMPT_COLUMNS} FROM attempts LIMIT ?", (most,)).fetchall()  # noqa: S608
            if len(rows) == most:
                return [], [attempt_of(row) for row in rows]
            # What ended between the two looks may go before its last attempts do; the next look finds those.
            sql = f"SELECT {_JOB_COLUMNS} FROM jobs ORDER BY family = 0, id LIMIT ?"  # noqa: S608 (our own names)
            jobs = self._reader.execute(sql, (most,)).fetchall()
        return [job_of(row) for row in jobs], [attempt_of(row) for row in rows]

    def close(self) -> None:
        """Give the file back; nothing is lost without."""
        self._reader.close()
        if self._opened_writer is not None:
            self._opened_writer.close()
            self._note_end()

    def _note_end(self) -> None:
        # The last connection takes the write-ahead file in and removes it, if it can.
        if beside(self.path, MARK).exists() and not beside(self.path, "-wal").exists():
            with suppress(OSError):
                write_mark(self.path, "closed")


@contextmanager
def told(path: Path, what: str) -> Iterator[None]:
    """Errors of the store in ``path`` as StoreError; ``what`` was tried."""
    try:
        yield
    except _Spoilt as error:
        raise Damaged(f"the store {path} is damaged: {error}") from None
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE:
            raise Damaged(f"the store {path} is damaged: {error}") from error
        raise StoreError(f"the store {path} {what}: {error}") from error
    except OSError as error:
        raise StoreError(f"the store {path} {what}: {error.strerror}") from error


def load(connection: sqlite3.Connection) -> Saved:
    """Everything that a center needs to go on, with its checksums looked at."""
    execute = connection.execute
    snapshot = execute("SELECT state FROM snapshot").fetchone()
    log = execute("SELECT seq, record FROM log ORDER BY seq")
    return Saved(
        snapshot=None if snapshot is None else opened(snapshot[0], "the snapshot"),
        records=[opened(record, f"record {seq} of the log") for seq, record in log],
        meta={key: opened(value, f"the note {key!r}") for key, value in execute("SELECT key, value FROM meta")},
    )


def check_place(path: Path) -> None:
    """Raise StoreError if what stands at ``path`` cannot be the store that the mark beside it speaks of."""
    if path.is_dir():
        raise Damaged(f"the store {path} is a directory")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise StoreError(f"the store {path} may not be read and written by this user (see its owner and mode)")
    mark, log = beside(path, MARK), beside(path, "-wal")
    if not mark.exists():
        return
    if not path.exists():
        raise Damaged(_begins_anew(path, "gone"))
    if path.stat().st_size == 0 and not log.exists():
        raise Damaged(_begins_anew(path, "empty"))
    if mark.read_text(encoding="ascii", errors="replace").strip() == "open" and not log.exists():
        raise Damaged(f"{log} is gone, and with it what was stored last; `cress store restore {path}` goes on without")


def write_mark(path: Path, word: str) -> None:
    """Say durably that the store in ``path`` is ``open`` or ``closed``."""
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
    """The file that has the name of ``path`` and this ending."""
    return path.with_name(path.name + ending)


def _begins_anew(path: Path, how: str) -> str:
    return f"the store {path} is {how}; without {beside(path, MARK)} an empty cluster begins there"


class _Spoilt(Exception):
    """Something is not as it was stored; the sentence says what."""


def _sealed(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little") + data


def opened(sealed: object, what: str) -> bytes:
    """What was stored, its checksum taken off; call it inside ``told``."""
    if isinstance(sealed, bytes) and len(sealed) > 4:
        data = sealed[4:]
        if zlib.crc32(data) == int.from_bytes(sealed[:4], "little"):
            return data
    raise _Spoilt(f"{what} is not as it was stored")


def _write(writer: sqlite3.Connection, batch: Batch) -> None:
    """Everything of the batch, inside a transaction."""
    if batch.snapshot is None:
        writer.executemany("INSERT INTO log (record) VALUES (?)", ((_sealed(record),) for record in batch.records))
    else:
        writer.execute("DELETE FROM log")
        writer.execute("INSERT OR REPLACE INTO snapshot (one, state) VALUES (1, ?)", (_sealed(batch.snapshot),))
    if batch.runs:
        writer.executemany(
            "INSERT INTO runs (job, run) VALUES (?, ?)", ((job, _sealed(run)) for job, run in batch.runs)
        )
    if batch.templates:
        writer.executemany(
            "INSERT INTO runs (job, family, run) VALUES (?, ?, ?)",
            ((number, family, _sealed(run)) for number, family, run in batch.templates),
        )
    if batch.jobs:
        writer.executemany(_INSERT_JOB, _rows(batch.jobs))
    if batch.attempts:
        writer.executemany(_INSERT_ATTEMPT, _rows(batch.attempts))
    if batch.moved_attempts:
        writer.executemany("DELETE FROM attempts WHERE job = ? AND task = ? AND attempt = ?", batch.moved_attempts)
    for job in batch.moved_jobs:
        writer.execute("DELETE FROM jobs WHERE id = ?", (job,))
        writer.execute("DELETE FROM runs WHERE job = ?", (job,))
        writer.execute("DELETE FROM runs WHERE family > 0 AND family = ?", (job,))
    if batch.meta:
        writer.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", _notes(batch.meta))


def _notes(meta: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    for key, value in meta.items():
        yield key, _sealed(value)


def _rows(records: Iterable[JobRecord | AttemptRecord]) -> Iterator[list[object]]:
    for record in records:
        yield [_cell(getattr(record, name)) for name in record.__struct_fields__]


def _cell(value: object) -> object:
    if isinstance(value, (JobState, Outcome)):
        return value.value
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return value


def job_of(row: tuple[object, ...]) -> JobRecord:
    """A row of the table ``jobs``."""
    values = dict(zip(_JOB, row, strict=True))
    values["request"] = tuple(map(int, str(values["request"]).split()))
    values["state"] = JobState(values["state"])
    values["gang"] = bool(values["gang"])
    return JobRecord(**values)  # type: ignore[arg-type]


def attempt_of(row: tuple[object, ...]) -> AttemptRecord:
    """A row of the table ``attempts``."""
    values = dict(zip(_ATTEMPT, row, strict=True))
    values["outcome"] = Outcome(values["outcome"])
    values["final"] = bool(values["final"])
    values["ports"] = tuple(map(int, str(values["ports"]).split()))
    values["devices"] = tuple(str(values["devices"]).split())
    return AttemptRecord(**values)  # type: ignore[arg-type]
