"""Framed files: a first line, then frames that a crash leaves complete or absent and that damage cannot hide.

The first line is ``cress NAME VERSION CRC``; its CRC-32 keeps a damaged version from being taken for a newer release. A
frame is a mark, the length of its payload, the CRC-32 of the payload (4 bytes each, little-endian) and the payload.
After damage, reading continues at the next mark. ``Older`` and ``FrameFormat`` describe files of older releases.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO, NamedTuple, Protocol

MARK = b"\xc5\x1eJ\x01"
_HEAD = struct.Struct("<4sII")
# Maximum length of the first line, in bytes.
_LONGEST_LINE = 80
_CHUNK = 2**16


class FrameFormat(NamedTuple):
    """The form of frames: their head, and the mark in it; without marks, reading after damage continues by the lengths.

    ``chained``: the head has a number between length and CRC, which becomes the beginning of the payload when read.
    Each CRC covers length and number and continues the CRC of the frame before, so nothing can be read after damage.
    """

    head: struct.Struct = _HEAD
    mark: bytes = MARK
    chained: bool = False


MARKED = FrameFormat()
BARE = FrameFormat(struct.Struct("<II"), b"")
CHAINED = FrameFormat(struct.Struct("<IQI"), b"", chained=True)


class Older(NamedTuple):
    """A version whose files have another beginning than today's first line.

    They begin with ``prefix``. ``header`` is the number of bytes before the first frame; ``checked``: its last four
    bytes are the CRC-32 of the others.
    """

    version: int
    prefix: bytes
    header: int
    layout: FrameFormat
    checked: bool = False


class Beginning(NamedTuple):
    """The version in the first bytes of a file; 0: they are damaged, or of another file.

    ``at`` is the offset of the first frame, ``check`` the CRC-32 that a chained one continues.
    """

    version: int
    at: int = 0
    layout: FrameFormat = MARKED
    check: int = 0


class Frame(NamedTuple):
    """A whole frame: its start and end offsets, its payload, and its CRC-32."""

    start: int
    end: int
    payload: bytes
    check: int


@dataclass(frozen=True)
class FileFormat:
    """One kind of framed file: its name, the version to write, and the versions of older releases."""

    name: str
    version: int
    older: tuple[Older, ...] = ()

    @property
    def first_line(self) -> bytes:
        """The first line of a file in the present version."""
        return _first_line(self.name, self.version)

    def beginning(self, file: BinaryIO) -> Beginning:
        """Read the first bytes of a file; a version above ``version`` belongs to a newer release."""
        file.seek(0)
        data = file.read(_LONGEST_LINE)
        line = data.partition(b"\n")[0]
        number = line.removeprefix(b"cress %s " % self.name.encode()).partition(b" ")[0]
        if number.isdigit() and line + b"\n" == _first_line(self.name, int(number)):
            return Beginning(int(number), len(line) + 1)
        for older in self.older:
            if data.startswith(older.prefix) and len(data) >= older.header:
                check = int.from_bytes(data[older.header - 4 : older.header], "little") if older.checked else 0
                if not older.checked or zlib.crc32(data[: older.header - 4]) == check:
                    return Beginning(older.version, older.header, older.layout, check)
        return Beginning(0)


def _first_line(name: str, version: int) -> bytes:
    title = b"cress %s %d" % (name.encode(), version)
    return b"%s %08x\n" % (title, zlib.crc32(title))


# --- reading ----------------------------------------------------------------------------------------------------------


def frames(file: BinaryIO, beginning: Beginning) -> Iterator[Frame]:
    """Yield the whole frames.

    A frame that does not begin at the end of the one before follows damage. A frame that a crash cut off at the end is
    skipped.
    """
    size = file.seek(0, os.SEEK_END)
    at, layout, check = beginning.at, beginning.layout, beginning.check
    find_next = _next_by_mark if layout.mark else _next_by_length
    while True:
        frame = _frame_at(file, at, size, layout, check)
        if frame is None and not layout.chained:
            frame = find_next(file, at, size, layout)
        if frame is None:
            return
        yield frame
        at, check = frame.end, frame.check


def frames_of(data: bytes, beginning: Beginning) -> Iterator[Frame]:
    """Yield the whole frames of a file that is in memory."""
    return frames(BytesIO(data), beginning)


def _frame_at(file: BinaryIO, at: int, size: int, layout: FrameFormat, before: int = 0) -> Frame | None:
    """Return the frame at ``at``; None if there is no whole frame."""
    begin = at + layout.head.size
    if begin > size:
        return None
    file.seek(at)
    head = file.read(layout.head.size)
    if len(head) < layout.head.size or not head.startswith(layout.mark):
        return None
    length, check = int.from_bytes(head[len(layout.mark) :][:4], "little"), int.from_bytes(head[-4:], "little")
    # A power loss can leave zeros, which would be whole empty frames, with the CRC-32 0.
    if not length or begin + length > size:
        return None
    payload = file.read(length)
    found = zlib.crc32(payload, zlib.crc32(head[:-4], before) if layout.chained else 0)
    if len(payload) < length or found != check:
        return None
    return Frame(at, begin + length, head[4:-4] + payload if layout.chained else payload, check)


def _next_by_mark(file: BinaryIO, at: int, size: int, layout: FrameFormat) -> Frame | None:
    """Return the first whole frame after ``at`` that begins with a mark."""
    at += 1
    while at < size:
        file.seek(at)
        data = file.read(_CHUNK)
        place = data.find(layout.mark)
        if place < 0:
            # A mark may extend over two chunks.
            at += max(1, len(data) - len(layout.mark) + 1)
            continue
        frame = _frame_at(file, at + place, size, layout)
        if frame is not None:
            return frame
        at += place + 1
    return None


def _next_by_length(file: BinaryIO, at: int, size: int, layout: FrameFormat) -> Frame | None:
    """Return the first whole frame after ``at`` if the lengths of the frames before it are intact."""
    while at < size:
        file.seek(at)
        length = int.from_bytes(file.read(4), "little")
        if not length:
            return None
        at += layout.head.size + length
        frame = _frame_at(file, at, size, layout)
        if frame is not None:
            return frame
    return None


# --- writing ----------------------------------------------------------------------------------------------------------


class AppendDisk(Protocol):
    """The operations on an open file for appending. Each raises OSError as the system does."""

    def write(self, fd: int, data: bytes | memoryview) -> None:
        """Write all of the data; after an OSError part of it may be in the file."""

    def cut(self, fd: int, size: int) -> None:
        """Truncate the file to this size, and continue writing at its end."""


class FileDisk:
    """The ``AppendDisk`` of the operating system."""

    def write(self, fd: int, data: bytes | memoryview) -> None:
        """See ``AppendDisk``."""
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    def cut(self, fd: int, size: int) -> None:
        """See ``AppendDisk``."""
        # Seek first: if truncating fails, the next frame overwrites the part that could not be cut off.
        os.lseek(fd, size, os.SEEK_SET)
        os.ftruncate(fd, size)


FILE_DISK = FileDisk()


class FramedFile:
    """A framed file open for writing: data is appended as a whole or not at all.

    ``fd`` belongs to the caller, who syncs and closes it. ``end`` is the offset of the next frame: 0 in a new file, in
    an existing one the argument of ``cut``.
    """

    def __init__(self, fd: int, disk: AppendDisk = FILE_DISK) -> None:
        self.fd = fd
        self.end = 0
        self._disk = disk

    def append(self, *payloads: bytes) -> None:
        """Append a frame for each payload, all or none. Raises OSError."""
        self.write(b"".join(map(framed, payloads)))

    def append_pieces(self, *pieces: bytes | memoryview) -> None:
        """Append one frame whose payload is in several pieces, without copying them. Raises OSError."""
        check = 0
        for piece in pieces:
            check = zlib.crc32(piece, check)
        self.write(_HEAD.pack(MARK, sum(map(len, pieces)), check), *pieces)

    def write(self, *pieces: bytes | memoryview) -> None:
        """Append bytes outside of frames, such as a first line. Raises OSError."""
        try:
            for piece in pieces:
                self._disk.write(self.fd, piece)
        except OSError:
            # Cut off a partial write: otherwise later frames could not be read.
            with contextlib.suppress(OSError):
                self._disk.cut(self.fd, self.end)
            raise
        self.end += sum(map(len, pieces))

    def cut(self, size: int) -> None:
        """Truncate the file to this size, and continue it there. Raises OSError."""
        self._disk.cut(self.fd, size)
        self.end = size


def framed(payload: bytes) -> bytes:
    """Return a nonempty payload as a frame."""
    assert payload, "zeros behind a mark would be a frame of nothing"
    return _HEAD.pack(MARK, len(payload), zlib.crc32(payload)) + payload


def check_of(frame: bytes) -> int:
    """Return the CRC-32 in the head of a frame made by ``framed``."""
    return int.from_bytes(frame[_HEAD.size - 4 : _HEAD.size], "little")
