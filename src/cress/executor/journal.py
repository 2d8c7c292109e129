"""The supervisor's journal: a file of framed batches of records, readable up to the frame that a crash cut off.

A frame is a mark, the length of its payload, the payload's crc32 and the payload: one batch, complete or absent.

A damaged file is set aside, and the journal goes on with the whole frames that were in it. Tasks that none of them
tells of are then stopped: nobody can say what was agreed about them (``TaskProcesses.resume``).
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from cress.executor.disk import REAL_DISK, Disk
from cress.shell.executor.records import VERSION, Deadline, Known, Record, decode_records, encode_records

_TITLE = b"cress journal "
# Since version 2 the first line has a checksum: a damaged number is not taken for that of a newer release.
_FIRST_LINE = b"%s%d %08x\n"
HEADER = _FIRST_LINE % (_TITLE, VERSION, zlib.crc32(b"%s%d" % (_TITLE, VERSION)))
_HEADER_1 = _TITLE + b"1\n"
MARK = b"\xc5\x1eJ\x01"
_HEAD = struct.Struct("<4sII")

# Smaller files are not compacted: nothing is gained. Larger ones are when most of their records are outdated.
COMPACT_FROM = 1_000_000


class JournalError(Exception):
    """The journal cannot be used; the message names the file and the way out."""


class Journal:
    """The journal of one supervisor, open for writing; ``known`` is the state that its records add up to.

    ``write`` is durable when it returns; ``note`` is collected and written by ``flush``: what is noted survives the
    end of the supervisor, not of the machine, where it would be worth nothing. ``damage`` says what was found when it
    was opened, and where the file is now; empty: nothing.
    """

    def __init__(self, path: Path, *, compact_from: int = COMPACT_FROM, disk: Disk = REAL_DISK) -> None:
        self.path = path
        self.known = Known()
        self.full = ""  # why the last write failed, in the words of the system
        self._noted: list[Record] = []
        self._compact_from = compact_from
        self._disk = disk
        self._older = False  # whether the file is of an older version
        self.damage = ""
        self._fd = self._open()
        try:
            self._size, damage = self._load()
            if damage or self._older:
                # Records of two versions do not stand in one file.
                self._rewrite(damage)
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

    def _open(self) -> int:
        try:
            return self._disk.open(self.path)
        except IsADirectoryError:
            self._set_aside("is a folder")
            return self._disk.open(self.path)

    def _set_aside(self, damage: str) -> None:
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        self._disk.replace(self.path, aside)
        self.damage = f"{self.path} {damage}; it was set aside as {aside.name}"

    def _rewrite(self, damage: str = "") -> None:
        """Write the file anew; with ``damage`` the one that is there is set aside."""
        disk, new = self._disk, self.path.with_suffix(".new")
        fd = disk.open(new, empty=True)
        try:
            data = HEADER + _frame(list(self.known.records()))
            disk.write(fd, data)
            disk.sync(fd)
            if damage:
                self._set_aside(damage)
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

    def _load(self) -> tuple[int, str]:
        """Apply the records of the file; return how much of it is whole, and what is damaged."""
        data = self._disk.read(self.path)
        if len(data) <= len(HEADER) and HEADER.startswith(data.rstrip(b"\0")):
            self._disk.cut(self._fd, 0)
            self._disk.write(self._fd, HEADER)
            self._disk.sync(self._fd)
            self._disk.sync_folder(self.path.parent)
            return len(HEADER), ""
        version, end = _version(data)
        if version > VERSION:
            raise JournalError(
                f"{self.path} was written by a newer release (journal {version}, this release reads 1 to {VERSION}); "
                "start that release again, or move the file away to go on without it: tasks that still run are then "
                "killed, and run again"
            )
        damage = "" if version else "does not begin as a journal of Cress does"
        self._older = 0 < version < VERSION
        while (found := _next_frame(data, end)) is not None:
            at, payload, behind = found
            if at > end:
                damage = damage or f"is damaged at byte {end}"
            end = behind
            try:
                records = _decoded(payload, version)
            except (msgspec.MsgspecError, ValueError) as error:
                damage = damage or f"has a record that cannot be read ({error})"
                continue
            for record in records:
                self.known.apply(record)
        if not damage:
            self._disk.cut(self._fd, end)
        elif not self.known.until:
            # The part that is lost may have had a term: tasks that must not outlive it are stopped at once.
            self.known.apply(Deadline(1, 1))
        return end, damage


def _version(data: bytes) -> tuple[int, int]:
    """Return the version of the file, and where its frames begin; 0, 0: its first line is not one of a journal."""
    if data.startswith(_HEADER_1):
        return 1, len(_HEADER_1)
    line = data[:80].partition(b"\n")[0]
    number = line.removeprefix(_TITLE).partition(b" ")[0]
    if line.startswith(_TITLE) and number.isdigit():
        title = b"%s%d" % (_TITLE, int(number))
        if line == (_FIRST_LINE % (_TITLE, int(number), zlib.crc32(title))).rstrip():
            return int(number), len(line) + 1
    return 0, 0


def _decoded(payload: bytes, version: int) -> list[Record]:
    """Return the records of a frame; of an unknown version (0), of the newest in which they can be read."""
    for each in (version,) if version else range(VERSION, 1, -1):
        try:
            return decode_records(payload, each)
        except (msgspec.MsgspecError, ValueError):
            if version:
                raise
    return decode_records(payload, 1)


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


def _next_frame(data: bytes, at: int) -> tuple[int, bytes, int] | None:
    """Return the first whole frame at ``at`` or later: its start, its payload, where it ends. None: there is none."""
    while (at := data.find(MARK, at)) >= 0:
        found = _read_frame(data, at)
        if found is not None:
            return at, *found
        at += 1
    return None
