"""Look-ups in the rows of a store, on a read-only connection."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from cress.model.records import JobRecord
from cress.store.finished import SqliteReader, find_job, find_run
from cress.store.sqlite_file import told

_T = TypeVar("_T")


class Lookups:
    """Looks up rows in the file ``path``, for any thread: a reader never waits for a commit, and sees whole batches."""

    _reader: sqlite3.Connection

    def __init__(self, path: Path) -> None:
        self.path = path
        # A running query of another thread on the same connection would keep both at its old snapshot.
        self._looking_up = threading.Lock()

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
        """Return the run of this job as stored."""
        with told(self.path, "cannot be read"), self._looking_up:
            return find_run(self._reader, job)

    def reader(self) -> SqliteReader:
        """Open a reader of finished work."""
        return SqliteReader(self.path)
