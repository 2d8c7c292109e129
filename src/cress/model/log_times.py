"""Times of output: ``GET /v1/jobs/{id}/logs?stream=times`` gives records of 24 bytes, big-endian.

Each has a time (µs since the epoch) and the sizes of stdout and stderr that the executor saw then. What lies between
two sizes was written between the two times, or just before the first one.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right

_RECORD = struct.Struct("!QQQ")
SIZE = _RECORD.size
# Most records of an attempt; then every second one is dropped.
MOST_RECORDS = 4_096


def record(utc: int, stdout: int, stderr: int) -> bytes:
    """Return a record as bytes."""
    return _RECORD.pack(utc, stdout, stderr)


def thinned(data: bytes) -> bytes:
    """Return every second record, the last one included."""
    whole = data[: len(data) // SIZE * SIZE]
    places = range(len(whole) - SIZE, -1, -2 * SIZE)
    return b"".join(whole[place : place + SIZE] for place in reversed(places))


class LogTimes:
    """The times of one stream of an attempt; ``until`` (µs) is the end of the attempt, or the present."""

    def __init__(self, data: bytes, stream: str, until: int) -> None:
        column = 1 if stream == "stdout" else 2
        found = list(_RECORD.iter_unpack(data[: len(data) // SIZE * SIZE]))
        self._times = [entry[0] for entry in found]
        self._sizes = [entry[column] for entry in found]
        self._until = until

    def at(self, offset: int) -> int:
        """Return the time at which the executor first saw the byte at this offset."""
        place = bisect_right(self._sizes, offset)
        return self._times[place] if place < len(self._times) else self._until

    def first_since(self, utc: int) -> int:
        """Return the offset of the first byte that may have been written at this time or later."""
        place = bisect_left(self._times, utc)
        return self._sizes[place - 1] if place else 0
