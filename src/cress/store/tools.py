"""Tools for the file of a SQLite store: check it, copy it while it is in use, replace it with a copy."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from cress.model.records import AttemptRecord, JobRecord
from cress.store.base import Damaged, Saved, StoreError
from cress.store.commit_journal import COMMITS as JOURNAL
from cress.store.commit_journal import StoredCommit, read_commits
from cress.store.finished import attempt_of, job_of
from cress.store.sqlite_file import MARK, beside, check_place, connect, is_whole, log_is_gone, told
from cress.store.sqlite_tables import OLDER, SCHEMA
from cress.store.sqlite_verify import apply_commits, damaged_runs, defects, load, missing_commits

# Name of the folders into which `restore` moves the replaced store.
REPLACED = "replaced"


class Reading:
    """A store as of one moment, while it may be written; made by ``reading(path)``.

    ``completed`` is the number of missing commits that were taken from the commit journal.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, completed: int = 0) -> None:
        self.path = path
        self.completed = completed
        self.connection = connection

    def damage(self) -> list[str]:
        """Return the defects of the store as sentences, empty if it is intact; a start finds the same ones."""
        with told(self.path, "cannot be read"):
            return defects(self.connection)

    def damaged_runs(self) -> list[str]:
        """Return the damaged runs as sentences."""
        with told(self.path, "cannot be read"):
            return damaged_runs(self.connection)

    def saved(self) -> Saved:
        """Return the state that a center would load, with its checksums verified."""
        with told(self.path, "cannot be read"):
            return load(self.connection)

    def runs(self) -> Iterator[tuple[int, bytes]]:
        """Yield the runs of all jobs, by id, without damaged ones."""
        with told(self.path, "cannot be read"):
            for job, sealed in self.connection.execute("SELECT job, run FROM runs ORDER BY job"):
                if is_whole(sealed):
                    yield job, sealed[4:]

    def run(self, job: int) -> bytes | None:
        """Return the run of this job as stored; None if it is damaged."""
        with told(self.path, "cannot be read"):
            row = self.connection.execute("SELECT run FROM runs WHERE job = ?", (job,)).fetchone()
            return row[0][4:] if row is not None and is_whole(row[0]) else None

    def jobs(self) -> Iterator[JobRecord]:
        """Yield the finished jobs."""
        for row in self._rows("jobs", JobRecord.__struct_fields__):
            with _sensible(self.path, "jobs"):
                yield job_of(row)

    def attempts(self) -> Iterator[AttemptRecord]:
        """Yield the finished attempts."""
        for row in self._rows("attempts", AttemptRecord.__struct_fields__):
            with _sensible(self.path, "attempts"):
                yield attempt_of(row)

    def _rows(self, table: str, fields: tuple[str, ...]) -> Iterator[tuple[object, ...]]:
        columns = ", ".join(f'"{name}"' for name in fields)
        with told(self.path, "cannot be read"):
            yield from self.connection.execute(f"SELECT {columns} FROM {table}")  # noqa: S608 (our own names)

    def copy_to(self, target: Path) -> None:
        """Copy this moment into a new file, durably, readable by its owner only."""
        fresh = beside(target, f".{os.getpid()}")
        try:
            with told(target, "cannot be written"):
                os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                with closing(sqlite3.connect(fresh, isolation_level=None)) as copy:
                    self.connection.backup(copy)
                    # A single file, without a write-ahead file beside it.
                    copy.execute("PRAGMA journal_mode=DELETE")
                _sync(fresh)
                fresh.replace(target)
                _sync(target.parent)
        finally:
            fresh.unlink(missing_ok=True)


@contextmanager
def reading(path: Path, *, as_it_is: bool = False) -> Iterator[Reading]:
    """Open one moment of the store in ``path``. Raises StoreError.

    ``as_it_is``: accept a store that lost its write-ahead file.
    """
    if not as_it_is:
        check_place(path)
    # Before the store: it is never behind a journal that was read earlier.
    journal = read_commits(beside(path, JOURNAL))
    gone = "" if as_it_is or journal is not None else log_is_gone(path)
    if gone:
        raise Damaged(gone)
    if not path.is_file():
        raise StoreError(f"there is no store {path}")
    with told(path, "cannot be read"):
        connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True, isolation_level=None)
    with closing(connection):
        with told(path, "cannot be read"):
            connection.execute("BEGIN")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (SCHEMA, *OLDER):
            what = f"schema {version}, not {SCHEMA}" if version else "there is nothing of Cress in it"
            raise StoreError(f"{path} is not a store of this version of Cress ({what})")
        missing: Sequence[StoredCommit] = ()
        try:
            missing = missing_commits(path, connection, journal)
        except Damaged:
            if not as_it_is:
                raise
        if not missing:
            yield Reading(path, connection)
            return
        with _completed(path, connection, missing) as whole:
            yield Reading(path, whole, len(missing))


@contextmanager
def _completed(
    path: Path, connection: sqlite3.Connection, commits: Sequence[StoredCommit]
) -> Iterator[sqlite3.Connection]:
    """Yield a copy of a store with these commits applied: reading changes nothing."""
    with tempfile.TemporaryDirectory(prefix="cress-store-") as folder, closing(connect(Path(folder) / "copy")) as copy:
        with told(path, "cannot be read"):
            connection.backup(copy)
            apply_commits(copy, commits)
        yield copy


@contextmanager
def _sensible(path: Path, table: str) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:
        raise Damaged(f"the store {path} is damaged: a row of {table} makes no sense: {error}") from None


def put_in_place(fresh: Path, path: Path) -> Path | None:
    """Make the file ``fresh`` the store in ``path``; return the folder with the old one, if there was one.

    Neither may be in use. After an interruption at any point, both still exist.
    """
    with told(path, "cannot be replaced"):
        folder = move_away(path, REPLACED)
        fresh.rename(path)
        _sync(path.parent)
    return folder


def move_away(path: Path, name: str) -> Path | None:
    """Move the store in ``path`` and the files beside it into a new folder ``name-N``; return it, or None without a
    store.
    """
    with told(path, "cannot be moved"):
        there = [old for ending in ("", "-wal", "-shm", MARK, JOURNAL) if (old := beside(path, ending)).exists()]
        if not there:
            return None
        folder = _unused(path.parent, name)
        folder.mkdir(mode=0o700)
        for old in there:
            old.rename(folder / old.name)
        _sync(folder)
        _sync(path.parent)
    return folder


def _unused(parent: Path, name: str) -> Path:
    number = 1
    while (folder := parent / f"{name}-{number}").exists():
        number += 1
    return folder


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
