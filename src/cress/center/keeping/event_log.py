"""The event log: every committed record, in files that can each be replayed alone.

A file begins with the state before its first record. It is written after the store, and synced before a snapshot
empties the store's own log. Thus the store has every record that the file may lose in a crash, and ``open`` restores
these records.

``past/event_file.py`` has the form of the files, and reads them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

import cress
from cress.formats.framed import FramedFile
from cress.lifecycle.record import MAJOR
from cress.model.times import DAY
from cress.past.event_file import EVENTS, FORMAT, SUFFIX, EventFile, Header, files, read, up_to_damage
from cress.protocol.regular_files import open_regular

__all__ = ["EVENTS", "FORMAT", "SUFFIX", "EventFile", "EventLog", "Header", "files", "prune", "read"]

# Microseconds or bytes after which the next snapshot begins a new file.
FILE_AGE, FILE_SIZE = DAY, 16 * 2**20
# Most bytes of records that wait because they could not be written; beyond that a new file begins, after a gap.
MOST_PENDING = 64 * 2**20


def prune(folder: Path, *, now: int, keep_age: int, keep_size: int) -> list[Path]:
    """Remove files older than ``keep_age`` (µs) or beyond ``keep_size`` bytes in all, but never the newest file.

    A file is as old as its last record. Return the removed files.
    """
    removed: list[Path] = []
    size = 0
    for path in reversed(files(folder)):
        status = path.stat()
        size += status.st_size
        old = now - status.st_mtime_ns // 1000 > keep_age
        if size > status.st_size and (old or size > keep_size):
            path.unlink(missing_ok=True)
            removed.append(path)
    for stray in folder.glob(f".*{SUFFIX}"):
        if now - stray.stat().st_mtime_ns // 1000 > DAY:
            stray.unlink(missing_ok=True)
    return removed


class Prepared(NamedTuple):
    """A new file with a state, which is durable under a name of its own until it gets its ``name``."""

    file: FramedFile
    name: str
    created: int


class _Mark(msgspec.Struct):
    """A position in the log: the number of the last record, the size of the file, and the later records.

    ``size`` is None if the file lacked records at that time.
    """

    number: int
    size: int | None
    behind: list[bytes]


class EventLog:
    """The log of a running center; one thread at a time writes it.

    The center keeps working when the disk is full: ``problem`` says so, and the waiting records are written later.
    ``gap`` names the records that ``open`` found neither in the files nor in the store.
    """

    def __init__(
        self, folder: Path, *, zone: str = "UTC", file_age: int = FILE_AGE, file_size: int = FILE_SIZE
    ) -> None:
        self.folder = folder
        self.problem = ""
        self.gap = ""
        self.number = 0
        self._zone = zone
        self._file_age, self._file_size = file_age, file_size
        self._file: FramedFile | None = None
        self._created = 0
        self._pending: list[bytes] = []
        self._waiting = 0
        self._lost = False
        self._other_release = False  # another release wrote the newest file, which is therefore not continued
        self._mark: _Mark | None = None
        self._is_named = True  # the name of the file is durable

    def open(self, number: int, records: Sequence[bytes], state: Callable[[], bytes], utc: int) -> None:
        """Continue the newest file, and append the records that only the store has.

        ``records`` are the store's log, up to record ``number``. ``state`` returns the state after it, with which a new
        file begins if no old one can be continued.
        """
        self.close()
        self.number, self._mark = number, None
        try:
            last = self._resume()
            self.gap = self._gap(last, number - len(records), number)
            if last is not None and self._file is not None and number - len(records) <= last <= number:
                for record in records[len(records) - (number - last) :]:
                    self._file.append(record)
            else:
                self._begin(self._prepared(memoryview(state()), utc, number), _Mark(number, 0, []))
                self._sync_name()
        except OSError as error:
            self._failed(error)
            self.give_up()

    def begin_later(self, number: int) -> None:
        """Continue after record ``number`` in a new file, which the next ``begin`` makes."""
        self.close()
        self.number, self._mark, self.gap = number, None, ""
        self.give_up()

    def _gap(self, last: int | None, first: int, number: int) -> str:
        """Return a message that names the lost records.

        The files end with record ``last``; the store has the records after ``first``.
        """
        if not number or self._other_release:
            return ""
        if last is None:
            return f"the event log in {self.folder} is missing or cannot be read; a new one begins at {number + 1}"
        if last < first:
            return f"the event log in {self.folder} lacks records {last + 1} to {number}; a new file begins after them"
        return ""

    def append(self, record: bytes) -> None:
        """Append a committed record."""
        self.number += 1
        if self._mark is not None:
            self._mark.behind.append(record)
        if self._lost:
            return
        self._pending.append(record)
        self._waiting += len(record)
        try:
            self._flush()
        except OSError as error:
            self._failed(error)
            if self._waiting > MOST_PENDING:
                self.give_up()

    def sync(self) -> bool:
        """Make all records durable; return False if some could not be written, so that the store must keep its log."""
        if self._lost or self._file is None:
            return True
        try:
            self._flush()
            os.fsync(self._file.fd)
            self._sync_name()
        except OSError as error:
            self._failed(error)
            return False
        self.problem = ""
        return True

    def wants_new_file(self, utc: int) -> bool:
        """Return whether the next snapshot should begin a new file."""
        return self._lost or self._size > self._file_size or self.is_old(utc)

    def is_old(self, utc: int) -> bool:
        """Return whether the file is old enough to request a snapshot.

        A wall clock that was set back makes no file old.
        """
        return not self._lost and utc - self._created > self._file_age

    def mark(self) -> None:
        """Mark this position: a state exported now may begin a new file later, after further records."""
        self._mark = _Mark(self.number, None if self._pending else self._size, [])

    def begin(self, state: bytes | memoryview, utc: int, prepared: Prepared | None = None) -> None:
        """Begin a new file with the state of the last ``mark`` or of now; on failure continue the old file.

        ``prepared`` is what ``prepare`` has made of this state.
        """
        mark, self._mark = self._mark or _Mark(self.number, self._size, []), None
        if mark.behind and mark.size is None and not self._lost:
            return  # the old file has records that cannot be separated from those after the mark
        try:
            self._begin(prepared or self._prepared(memoryview(state), utc, mark.number), mark)
            if prepared is None:
                self._sync_name()
        except OSError as error:
            self._failed(error)
            self._created = utc  # a new file is requested again when this one has aged once more

    def prepare(self, state: bytes | memoryview, utc: int) -> Prepared | None:
        """Do the slow part of ``begin`` for the state of the last ``mark``, in any thread; None if the disk refuses."""
        mark = self._mark
        try:
            return None if mark is None else self._prepared(memoryview(state), utc, mark.number)
        except OSError:
            return None

    def give_up(self) -> None:
        """Stop writing this file: the log has a gap until the next snapshot begins a new file."""
        self._lost = True
        self._pending, self._waiting = [], 0

    def _prepared(self, state: memoryview, utc: int, number: int) -> Prepared:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        known = files(self.folder)
        name = f"{int(known[-1].stem) + 1 if known else 1:08d}{SUFFIX}"
        header = Header(
            format=FORMAT.version,
            release=cress.__version__,
            machine=MAJOR,
            zone=self._zone,
            created=utc,
            before=number,
            state=b"",
        )
        fresh = self.folder / f".{name}"
        fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            file = FramedFile(fd)
            file.write(FORMAT.first_line)
            _append_header(file, header, state)
            os.fsync(fd)
        except BaseException:
            os.close(fd)
            raise
        return Prepared(file, name, utc)

    def _begin(self, prepared: Prepared, mark: _Mark) -> None:
        file = prepared.file
        try:
            file.append(*mark.behind)
            if mark.behind and not self._lost and self._file is not None:
                # Each record is in one file only. The store also has these records until the new file has its final
                # name.
                os.fsync(file.fd)
                self._file.cut(mark.size or 0)
                os.fsync(self._file.fd)
                self._pending = list(mark.behind)
                self._waiting = sum(map(len, mark.behind))
            (self.folder / f".{prepared.name}").rename(self.folder / prepared.name)
        except BaseException:
            os.close(file.fd)
            raise
        self.close()
        self._file, self._created = file, prepared.created
        self._is_named = False
        self._pending, self._waiting = [], 0
        self._lost, self.problem = False, ""

    def _sync_name(self) -> None:
        """Make the name of the file durable."""
        if not self._is_named:
            _sync_folder(self.folder)
            self._is_named = True

    def close(self) -> None:
        """Close the file; nothing is lost without it."""
        if self._file is not None:
            os.close(self._file.fd)
            self._file = None

    @property
    def _size(self) -> int:
        return 0 if self._file is None else self._file.end

    def _resume(self) -> int | None:
        """Open the newest file after its last whole record; return that record's number.

        Return None if the file cannot be continued.
        """
        known = files(self.folder)
        self._other_release = False
        if not known:
            return None
        with os.fdopen(open_regular(known[-1]), "rb") as file:
            beginning = FORMAT.beginning(file)
            whole = up_to_damage(file, beginning)
            first = next(whole, None)
            if first is None:
                return None
            try:
                header = msgspec.msgpack.decode(first.payload, type=Header)
            except msgspec.MsgspecError:
                return None
            last, end = header.before, first.end
            for frame in whole:
                last, end = last + 1, frame.end
        # One file contains records of one version only.
        old = beginning.version != FORMAT.version
        if old or header.machine != MAJOR or header.zone != self._zone or header.release != cress.__version__:
            self._other_release = True
            return None
        self._file = FramedFile(os.open(known[-1], os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))
        self._file.cut(end)
        self._created = header.created
        self._pending, self._waiting = [], 0
        self._lost, self.problem = False, ""
        return last

    def _flush(self) -> None:
        if self._pending and self._file is not None:
            self._file.append(*self._pending)
            self._pending, self._waiting = [], 0

    def _failed(self, error: OSError) -> None:
        self.problem = f"the event log in {self.folder} cannot be written: {error.strerror}"


def _append_header(file: FramedFile, header: Header, state: memoryview) -> None:
    """Append the first frame of a file, without a copy of the state."""
    head = msgspec.msgpack.encode(header)
    # The state is the last field and empty so far: its length and bytes replace the empty value.
    assert head.endswith(b"\xc4\x00")
    file.append_pieces(head[:-2] + b"\xc6" + len(state).to_bytes(4, "big"), state)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
