"""The supervisor's journal: a framed file with a batch of records in each frame, complete or absent.

A damaged file is set aside, and the journal goes on with its whole frames. Tasks without a record are then stopped,
since their orders are no longer known (``TaskProcesses.resume``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import msgspec

from cress.executor.disk import REAL_DISK, Disk
from cress.formats.framed import MARKED, FileFormat, FramedFile, Older, framed, frames
from cress.protocol.regular_files import NotRegularError
from cress.shell.executor.records import VERSION, Deadline, Known, Record, decode_records, encode_records

# The first line of version 1 has no checksum.
_FIRST_1 = b"cress journal 1\n"
FORMAT = FileFormat("journal", VERSION, (Older(1, _FIRST_1, len(_FIRST_1), MARKED),))
HEADER = FORMAT.first_line

# Smaller files are never compacted, as nothing is gained; larger ones are when most of their records are outdated.
COMPACT_FROM = 1_000_000


class JournalError(Exception):
    """Error: the journal cannot be used; the message names the file and the remedy."""


class JournalFile:
    """The journal of one supervisor, open for writing; ``known`` is the state that its records add up to.

    ``write`` is durable when it returns. ``note`` collects records, which ``flush`` writes. Noted records survive the
    end of the supervisor but not that of the machine, after which they are useless. ``damage`` describes the damage
    found at opening, and where the file is now; empty: none.
    """

    def __init__(self, path: Path, *, compact_from: int = COMPACT_FROM, disk: Disk = REAL_DISK) -> None:
        self.path = path
        self.known = Known()
        self.full = ""  # the reason why the last write failed, in the words of the system
        self._noted: list[Record] = []
        self._compact_from = compact_from
        self._disk = disk
        self._older = False  # the file is of an older version
        self.damage = ""
        self._file = FramedFile(self._open(), disk)
        try:
            damage = self._load()
            if damage or self._older:
                # One file has records of one version only.
                self._rewrite(damage)
        except BaseException:
            disk.close(self._file.fd)
            raise
        self._next_compaction = max(compact_from, self._file.end)

    def write(self, records: Sequence[Record]) -> None:
        """Make these records durable, with those noted before. Raise OSError if none of them is in the journal."""
        self._file.append(encode_records([*self._noted, *records]))
        self._noted.clear()
        self._disk.sync(self._file.fd)
        for record in records:
            self.known.apply(record)

    def note(self, record: Record) -> None:
        """Apply this record now, and write it with the next ``flush``."""
        self.known.apply(record)
        self._noted.append(record)

    def flush(self) -> bool:
        """Write the noted records. Return False if the disk is full; then they stay noted."""
        if self._noted:
            try:
                self._file.append(encode_records(self._noted))
            except OSError as error:
                self.full = error.strerror or str(error)
                return False
            self._noted = []
        self.full = ""
        if self._file.end > self._next_compaction:
            self.compact()
        return True

    def compact(self) -> None:
        """Rewrite the file with the fewest records that give its state; if that fails, the file stays as it is."""
        try:
            self._rewrite()
        except OSError:
            self._next_compaction = self._file.end + self._compact_from

    def _open(self) -> int:
        try:
            return self._disk.open(self.path)
        except (IsADirectoryError, NotRegularError) as error:
            self._set_aside(f"is {error.kind}" if isinstance(error, NotRegularError) else "is a folder")
            return self._disk.open(self.path)

    def _set_aside(self, damage: str) -> None:
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        self._disk.replace(self.path, aside)
        self.damage = f"{self.path} {damage}; it was set aside as {aside.name}"

    def _rewrite(self, damage: str = "") -> None:
        """Write the file anew; with ``damage``, set the present one aside."""
        disk, new = self._disk, self.path.with_suffix(".new")
        fd = disk.open(new, empty=True)
        try:
            file = FramedFile(fd, disk)
            file.write(HEADER, framed(encode_records(list(self.known.records()))))
            disk.sync(fd)
            if damage:
                self._set_aside(damage)
            disk.replace(new, self.path)
        except OSError:
            disk.close(fd)
            with contextlib.suppress(OSError):
                disk.remove(new)
            raise
        disk.close(self._file.fd)
        self._file = file
        self._noted = []  # the new file includes them
        self._next_compaction = max(self._compact_from, 4 * file.end)
        disk.sync_folder(self.path.parent)

    def close(self) -> None:
        """Write the noted records and close the file."""
        self.flush()
        self._disk.close(self._file.fd)

    def _load(self) -> str:
        """Apply the records of the file, and cut off a half-written last frame; return a description of the damage."""
        data = self._disk.read(self.path)
        if len(data) <= len(HEADER) and HEADER.startswith(data.rstrip(b"\0")):
            self._file.cut(0)
            self._file.write(HEADER)
            self._disk.sync(self._file.fd)
            self._disk.sync_folder(self.path.parent)
            return ""
        beginning = FORMAT.beginning(BytesIO(data))
        version, end = beginning.version, beginning.at
        if version > VERSION:
            raise JournalError(
                f"{self.path} was written by a newer release (journal {version}, this release reads 1 to {VERSION}); "
                "start that release again, or move the file away to go on without it: tasks that still run are then "
                "killed, and run again"
            )
        damage = "" if version else "does not begin as a journal of Cress does"
        self._older = 0 < version < VERSION
        for frame in frames(BytesIO(data), beginning):
            if frame.start > end:
                damage = damage or f"is damaged at byte {end}"
            end = frame.end
            try:
                records = _decoded(frame.payload, version)
            except (msgspec.MsgspecError, ValueError) as error:
                damage = damage or f"has a record that cannot be read ({error})"
                continue
            for record in records:
                self.known.apply(record)
        if not damage:
            self._file.cut(end)
        elif not self.known.until:
            # The lost part may have contained a term: tasks that must not outlive it are stopped at once.
            self.known.apply(Deadline(1, 1))
        return damage


def _decoded(payload: bytes, version: int) -> list[Record]:
    """Return the records of a frame; if its version is unknown (0), by the newest version that can decode them."""
    for number in (version,) if version else range(VERSION, 1, -1):
        try:
            return decode_records(payload, number)
        except (msgspec.MsgspecError, ValueError):
            if version:
                raise
    return decode_records(payload, 1)
