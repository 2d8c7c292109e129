"""The supervisor's journal: a file of framed batches of records, readable up to the frame that a crash cut off.

A frame is a mark, the length of its payload, the payload's crc32 and the payload: one batch, complete or absent.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from cress.executor.disk import REAL_DISK, Disk
from cress.shell.executor.records import VERSION, Known, Record, decode_records, encode_records

_TITLE = b"cress journal "
HEADER = _TITLE + b"%d\n" % VERSION
MARK = b"\xc5\x1eJ\x01"
_HEAD = struct.Struct("<4sII")

# Smaller files are not compacted: nothing is gained. Larger ones are when most of their records are outdated.
COMPACT_FROM = 1_000_000


class JournalError(Exception):
    """The journal cannot be used; the message names the file and the way out."""


class Journal:
    """The journal of one supervisor, open for writing; ``known`` is the state that its records add up to.

    ``write`` is durable when it returns; ``note`` is collected and written by ``flush``: what is noted survives the
    end of the supervisor, not of the machine, where it would be worth nothing.
    """

    def __init__(self, path: Path, *, compact_from: int = COMPACT_FROM, disk: Disk = REAL_DISK) -> None:
        self.path = path
        self.known = Known()
        self.full = ""  # why the last write failed, in the words of the system
        self._noted: list[Record] = []
        self._compact_from = compact_from
        self._disk = disk
        self._older = False  # whether the file is of an older version
        self._fd = disk.open(path)
        try:
            self._size = self._load()
            if self._older:
                # Records of two versions do not stand in one file.
                self._rewrite()
        except BaseException:
            disk.close(self._fd)
            raise
        self._next_compaction = max(compact_from, self._size)

    def write(self, records: Sequence[Record]) -> None:
        """Make these records durable, with those noted before; OSError: none of them is in the journal."""
        self._append([*self._noted, *records])
        self._noted.clear()
        self._disk.sync(self._fd)
        for record in records:
            self.known.apply(record)

    def note(self, record: Record) -> None:
        """Apply this record now, and write it with the next flush."""
        self.known.apply(record)
        self._noted.append(record)

    def flush(self) -> bool:
        """Write the noted records. Return False if the disk is full: they stay noted."""
        if self._noted:
            try:
                self._append(self._noted)
            except OSError as error:
                self.full = error.strerror or str(error)
                return False
            self._noted = []
        self.full = ""
        if self._size > self._next_compaction:
            self.compact()
        return True

    def compact(self) -> None:
        """Rewrite the file with the fewest records of its state; if that fails, it stays as it is."""
        try:
            self._rewrite()
        except OSError:
            self._next_compaction = self._size + self._compact_from

    def _rewrite(self) -> None:
        disk, new = self._disk, self.path.with_suffix(".new")
        fd = disk.open(new, empty=True)
        try:
            data = HEADER + _frame(list(self.known.records()))
            disk.write(fd, data)
            disk.sync(fd)
            disk.replace(new, self.path)
        except OSError:
            disk.close(fd)
            with contextlib.suppress(OSError):
                disk.remove(new)
            raise
        disk.close(self._fd)
        self._fd, self._size = fd, len(data)
        self._noted = []  # the new file has them
        self._next_compaction = max(self._compact_from, 4 * self._size)
        disk.sync_folder(self.path.parent)

    def close(self) -> None:
        """Write the noted records and close the file."""
        self.flush()
        self._disk.close(self._fd)

    def _append(self, records: list[Record]) -> None:
        data = _frame(records)
        try:
            self._disk.write(self._fd, data)
        except OSError:
            # A part may have been written: cut it off, or what follows could not be read.
            self._disk.cut(self._fd, self._size)
            raise
        self._size += len(data)

    def _load(self) -> int:
        data = self._disk.read(self.path)
        version = _version(data)
        if version > VERSION:
            raise JournalError(
                f"{self.path} was written by a newer release (journal {version}, this release reads 1 to {VERSION}); "
                "start that release again, or move the file away to go on without it: tasks that still run are then "
                "killed, and run again"
            )
        if not version:
            if len(data) > len(HEADER) or not HEADER.startswith(data.rstrip(b"\0")):
                raise JournalError(_way_out(self.path, "is not a journal of Cress"))
            self._disk.cut(self._fd, 0)
            self._disk.write(self._fd, HEADER)
            self._disk.sync(self._fd)
            self._disk.sync_folder(self.path.parent)
            return len(HEADER)
        end = data.index(b"\n") + 1
        while (found := _read_frame(data, end)) is not None:
            payload, behind = found
            try:
                records = decode_records(payload, version)
            except (msgspec.MsgspecError, ValueError) as error:
                raise JournalError(_way_out(self.path, f"has a record that cannot be read ({error})")) from None
            for record in records:
                self.known.apply(record)
            end = behind
        if end < len(data) and _frame_after(data, end + 1):
            raise JournalError(_way_out(self.path, f"is damaged at byte {end}, with whole records behind it"))
        self._disk.cut(self._fd, end)
        self._older = version < VERSION
        return end


def _version(data: bytes) -> int:
    """Return the version that the file says it has; 0: it says none."""
    number, end, _ = data[len(_TITLE) : len(HEADER) + 8].partition(b"\n")
    return int(number) if data.startswith(_TITLE) and end and number.isdigit() else 0


def _way_out(path: Path, what: str) -> str:
    return f"{path} {what}; move it away to go on without it: tasks that still run are then killed, and run again"


def _frame(records: Iterable[Record]) -> bytes:
    payload = encode_records(records)
    return _HEAD.pack(MARK, len(payload), zlib.crc32(payload)) + payload


def _read_frame(data: bytes, at: int) -> tuple[bytes, int] | None:
    """Return the payload of the frame at ``at`` and the start of the next; None: there is no whole frame."""
    if len(data) - at < _HEAD.size:
        return None
    mark, length, crc = _HEAD.unpack_from(data, at)
    if not length:
        return None  # a mark, and zeros where a power failure has left nothing else: the crc32 of nothing is 0
    start = at + _HEAD.size
    payload = data[start : start + length]
    if mark != MARK or len(payload) != length or zlib.crc32(payload) != crc:
        return None
    return payload, start + length


def _frame_after(data: bytes, at: int) -> bool:
    """Return whether any whole frame begins at ``at`` or later."""
    while (at := data.find(MARK, at)) >= 0:
        if _read_frame(data, at) is not None:
            return True
        at += 1
    return False
