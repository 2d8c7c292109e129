"""Frames on the socket between agent and supervisor: four bytes of length (big-endian), then one message."""

from __future__ import annotations

import struct

LENGTH = struct.Struct(">I")
# Far above any message between the two (orders for 100,000 attempts are 2 MB); more is garbage.
MOST = 256 * 1024 * 1024


class FrameError(Exception):
    """What arrives is no frame."""


def frame(message: bytes) -> bytes:
    """The message as it travels."""
    return LENGTH.pack(len(message)) + message


class Frames:
    """Takes bytes as they arrive and gives whole messages back."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that these bytes complete; raises FrameError when they cannot be any."""
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
