"""The store of one machine: a SQLite file in write-ahead mode, with synchronous=FULL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

from cress.store.base import Batch, Changed, Checkpoint, Damaged, Saved, StateSnapshot, StoreError
from cress.store.commit_journal import COMMITS as JOURNAL
from cress.store.commit_journal import CommitJournal, StoredCommit, read_commits
from cress.store.lookups import Lookups
from cress.store.sqlite_file import (
    MARK,
    begins_anew,
    beside,
    check_place,
    connect,
    log_is_gone,
    told,
    transaction,
    write_mark,
)
from cress.store.sqlite_tables import (
    CLUSTER,
    COMMITS,
    EPOCH,
    OLDER,
    RECORDS,
    SCHEMA,
    create,
    encode,
    fence,
    note,
    note_of,
    number_of,
    shorten,
    upgrade,
    write_batch,
    write_state,
)
from cress.store.sqlite_verify import apply_commits, damaged_runs, defects, load, missing_commits

# A checkpoint is made after this number of commits, or of bytes in them.
CHECKPOINT_COMMITS, CHECKPOINT_BYTES = 200, 2 * 2**20


class SqliteStore(Lookups):
    """A ``Store`` in the file ``path``, created if it does not exist.

    One connection writes, another one reads: a reader never waits for a commit, and sees whole batches. The first
    commit opens an existing file for writing. Until then nothing is changed, unless the store lost commits that its
    journal has (design note 0010); ``warnings`` then report it.

    A mark beside the file, ``open`` or ``closed``, distinguishes a lost store, or a lost write-ahead file, from a new
    store. Data on which decisions depend has a checksum: SQLite detects only damage to its own structure.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.warnings: list[str] = []
        self._journal = CommitJournal(beside(path, JOURNAL))
        self._next_checkpoint = CHECKPOINT_COMMITS, CHECKPOINT_BYTES
        with told(path, "cannot be opened"):
            check_place(path)
            try:
                self._open()
            except BaseException:
                self._note_end()
                raise

    # --- opening ---------------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._opened_writer: sqlite3.Connection | None = None
        # Check before anything is opened: SQLite creates a missing write-ahead file.
        gone = log_is_gone(self.path)
        journal = self._commits = read_commits(beside(self.path, JOURNAL))
        if gone and journal is None:
            raise Damaged(gone)
        # Refuse a store of another release before anything is written.
        if not self.path.exists() or self._schema() == 0:
            journal = self._commits = None
            self._open_writer()
        self._reader = connect(self.path, read_only=True)
        missing = missing_commits(self.path, self._reader, journal)
        if missing:
            self._open_writer(missing)
            self.warnings.append(
                f"{beside(self.path, '-wal')} was damaged: the last {len(missing)} changes were not in it; "
                f"they are complete again, from {beside(self.path, JOURNAL)}"
            )
        for defect in self._at_one_moment(defects):
            raise Damaged(f"the store {self.path} is damaged: {defect}")
        self.warnings += [f"the store {self.path} is damaged: {run}" for run in self._at_one_moment(damaged_runs)]

    def _schema(self) -> int:
        """Return the schema of the file, 0 if it is empty. Raises StoreError for one of another release."""
        with closing(connect(self.path, read_only=True)) as connection:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version not in (0, SCHEMA, *OLDER):
            raise StoreError(f"{self.path} was written by another version of Cress (schema {version}, not {SCHEMA})")
        if version == 0 and beside(self.path, MARK).exists():
            raise Damaged(begins_anew(self.path, "empty"))
        return version

    @property
    def _writer(self) -> sqlite3.Connection:
        return self._opened_writer or self._open_writer()

    def _open_writer(self, missing: Sequence[StoredCommit] = ()) -> sqlite3.Connection:
        """Open the file for writing, and apply commits that it lost."""
        writer = connect(self.path)
        try:
            writer.execute("PRAGMA journal_mode=WAL")
            writer.execute("PRAGMA synchronous=FULL")
            writer.execute("PRAGMA wal_autocheckpoint=0")
            (version,) = writer.execute("PRAGMA user_version").fetchone()
            if version == 0:
                create(writer)
            elif version != SCHEMA:
                upgrade(writer)
            if missing:
                apply_commits(writer, missing)
            write_mark(self.path, "open")
            if self._commits is not None and self._journal.broken:
                self._journal.resume(self._commits)
            self._checkpoint(writer)
        except BaseException:
            writer.close()
            raise
        self._opened_writer = writer
        return writer

    # --- writing ---------------------------------------------------------------------------------------------

    def load(self) -> Saved:
        """Return the data with which a center continues, as of one moment."""
        return self._at_one_moment(load)

    def take_over(self, epoch: int, number: int, cluster: str) -> int:
        """Begin a new epoch after a loaded state; see ``Store.take_over``."""

        def begin(writer: sqlite3.Connection) -> None:
            if (number_of(writer, EPOCH), number_of(writer, RECORDS)) != (epoch, number):
                raise Changed(f"the store {self.path} has changed since it was read")
            note(writer, {EPOCH: encode(epoch + 1), CLUSTER: cluster.encode("ascii")})

        self._write(begin, StoredCommit(epoch + 1, cluster=cluster))
        return epoch + 1

    def newest_epoch(self) -> int:
        """Return the newest epoch of the file; see ``Store.newest_epoch``."""
        return self._at_one_moment(lambda reader: number_of(reader, EPOCH))

    def note(self, key: str) -> bytes | None:
        """Return a note; see ``Store.note``."""
        return self._at_one_moment(lambda reader: note_of(reader, key))

    def commit(self, batch: Batch, epoch: int) -> None:
        """Store all of the batch durably, or nothing; see ``Store.commit``."""

        def write(writer: sqlite3.Connection) -> None:
            fence(writer, epoch)
            write_batch(writer, batch)

        self._write(write, StoredCommit(epoch, batch))

    def upload(self, snapshot: StateSnapshot) -> None:
        """Do nothing; see ``Store.upload``."""

    def snapshot(self, snapshot: StateSnapshot, epoch: int, uploaded: Checkpoint | None = None) -> None:
        """Store a snapshot in place of the log that it covers; see ``Store.snapshot``."""

        def write(writer: sqlite3.Connection) -> None:
            fence(writer, epoch)
            shorten(writer, snapshot.number)
            note(writer, snapshot.meta)
            write_state(writer, memoryview(snapshot.state))

        self._write(write, StoredCommit(epoch, covered=snapshot.number))
        with told(self.path, "cannot be written"):
            # The journal does not contain the state.
            self._checkpoint(self._writer)

    def _write(self, work: Callable[[sqlite3.Connection], None], commit: StoredCommit) -> None:
        with told(self.path, "cannot be written"):
            writer = self._writer
            with transaction(writer):
                work(writer)
                number = number_of(writer, COMMITS) + 1
                note(writer, {COMMITS: encode(number)})
            self._journal.append(number, commit)
            count, size = self._next_checkpoint
            if self._journal.count >= count or self._journal.size >= size:
                self._checkpoint(writer)

    def _checkpoint(self, writer: sqlite3.Connection) -> None:
        """Copy the write-ahead file into the main file, and restart it and the journal.

        A reader can prevent this: then both are continued. An error here never fails the commit before it.
        """
        journal = self._journal
        self._next_checkpoint = journal.count + CHECKPOINT_COMMITS, journal.size + CHECKPOINT_BYTES
        number = number_of(writer, COMMITS)
        if not journal.append(number, StoredCommit(floor=number)):
            return  # the floor must be stored before the first page is copied
        before = self._generation()
        try:
            writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            # The first transaction after it restarts the write-ahead file, unless a reader uses it.
            with transaction(writer):
                note(writer, {COMMITS: encode(number + 1)})
        except sqlite3.Error:
            return
        if self._generation() != before or journal.broken:
            journal.begin(number)
            self._next_checkpoint = CHECKPOINT_COMMITS, CHECKPOINT_BYTES
        journal.append(number + 1, StoredCommit())

    def _generation(self) -> bytes:
        """Return the part of the write-ahead file that differs after each restart of it."""
        with suppress(OSError), beside(self.path, "-wal").open("rb") as file:
            return file.read(24)[12:]
        return b""

    def close(self) -> None:
        """Close the file; without a close nothing is lost."""
        self._reader.close()
        writer = self._opened_writer
        if writer is not None:
            number = 0
            with suppress(sqlite3.Error):
                number = number_of(writer, COMMITS)
                self._journal.append(number, StoredCommit(floor=number))
            writer.close()
            if number and not beside(self.path, "-wal").exists():
                self._journal.begin(number)
            self._journal.close()
            self._note_end()

    def _note_end(self) -> None:
        # The last connection merges the write-ahead file and removes it, if possible.
        if beside(self.path, MARK).exists() and not beside(self.path, "-wal").exists():
            with suppress(OSError):
                write_mark(self.path, "closed")
