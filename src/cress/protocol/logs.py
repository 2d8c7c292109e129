"""Output of tasks in frames that name their task and stream: ``GET /v1/jobs/{id}/logs?framed=true``.

A frame is a head of 36 bytes, big-endian: attempt, offset, gone, kept (8 bytes each), size (4); then ``size`` bytes.
An interrupted reader resumes after the bytes that it has. Readers without frames (``curl``) get the same bytes, and a
line in place of lost ones. A frame without data is a sign of life for a follower.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Self

import msgspec

_HEAD = struct.Struct("!QQQQI")


class LogFrame(msgspec.Struct, frozen=True):
    """A part of a log of an ``attempt``.

    From byte ``offset`` on, ``gone`` bytes are no longer kept; ``data`` follows them. The log keeps its last ``kept``
    bytes (0 if nothing is gone).
    """

    attempt: int
    offset: int
    data: bytes = b""
    gone: int = 0
    kept: int = 0

    @property
    def end(self) -> int:
        """The offset after this frame."""
        return self.offset + self.gone + len(self.data)


class Piece(bytes):
    """Bytes of a log to show; a reader resumes after them with ``attempt`` and byte ``end``."""

    attempt: int
    end: int

    def __new__(cls, data: bytes, attempt: int, end: int) -> Self:
        """Return the bytes with their place in the log."""
        piece = super().__new__(cls, data)
        piece.attempt, piece.end = attempt, end
        return piece


def encode_frame(frame: LogFrame) -> bytes:
    """Return a frame as bytes."""
    return _HEAD.pack(frame.attempt, frame.offset, frame.gone, frame.kept, len(frame.data)) + frame.data


class LogFrames:
    """Decodes frames from bytes that arrive in arbitrary pieces."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[LogFrame]:
        """Yield the frames that are complete so far."""
        self._data += data
        while len(self._data) >= _HEAD.size:
            attempt, offset, gone, kept, size = _HEAD.unpack_from(self._data)
            end = _HEAD.size + size
            if len(self._data) < end:
                return
            frame = LogFrame(attempt, offset, bytes(self._data[_HEAD.size : end]), gone, kept)
            del self._data[:end]
            yield frame


class Shown:
    """Converts frames to readable text: bytes that are gone become a line of their own."""

    def __init__(self) -> None:
        self._in_line = False

    def show(self, frame: LogFrame) -> Iterator[Piece]:
        """Yield the text to show for the next frame."""
        if frame.gone:
            line = b"\n" * self._in_line + gone_line(frame)
            self._in_line = False
            yield Piece(line, frame.attempt, frame.offset + frame.gone)
        if frame.data:
            self._in_line = not frame.data.endswith(b"\n")
            yield Piece(frame.data, frame.attempt, frame.end)


def gone_line(frame: LogFrame) -> bytes:
    """Return the line in place of bytes that a log has not kept."""
    what = f"{_size(frame.gone)} from here on are" if frame.offset else f"the first {_size(frame.gone)} are"
    return f"[{what} gone: the log keeps its last {_size(frame.kept)}]\n".encode()


def _size(amount: int) -> str:
    """Return bytes with about three digits: ``12.3M``, ``640K``."""
    if amount < 1024:
        return f"{amount} bytes"
    units = "KMGT"
    step = next((i for i in range(4) if amount < 1000 * 1024 ** (i + 1)), 3)
    return f"{amount / 1024 ** (step + 1):.3g}{units[step]}"
