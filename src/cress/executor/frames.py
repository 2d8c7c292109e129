"""Frames on the socket between agent and supervisor: four bytes of length (big-endian), then one message."""

from __future__ import annotations

import struct

LENGTH = struct.Struct(">I")
# Bytes: far above any message between the two (orders for 100,000 attempts take 2 MB); more is garbage.
MOST = 256 * 1024 * 1024


class FrameError(Exception):
    """Error: the bytes received are not a frame."""


def frame(message: bytes) -> bytes:
    """Return the message as a frame."""
    return LENGTH.pack(len(message)) + message


class Frames:
    """Decoder of frames: takes bytes as they arrive, and returns whole messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that these bytes complete. Raise FrameError if a length is above that of any frame."""
        self._data += data
        found: list[bytes] = []
        at = 0
        while len(self._data) - at >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._data, at)
            if length > MOST:
                raise FrameError(f"a frame of {length} bytes; at most {MOST}")
            end = at + LENGTH.size + length
            if len(self._data) < end:
                break
            found.append(bytes(self._data[at + LENGTH.size : end]))
            at = end
        del self._data[:at]
        return found
