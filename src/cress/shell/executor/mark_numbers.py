"""Marks of attempts as numbers: how one is made of a space and a number, and found in a text like /proc/PID/limits."""

from __future__ import annotations

import re
import zlib

# A mark has this bit, 22 bits of its space and 40 bits of its number. Python's limits have 63 bits.
_MARKED, _SPACE_BITS, _NUMBER_BITS = 1 << 62, 22, 40

_LINE = re.compile(rb"^Max file locks +\S+ +(\d+) ", re.MULTILINE)


class MarkNumbers:
    """The marks of one space: the absolute folder of an executor's attempts, or the commands of an exec helper."""

    def __init__(self, space: bytes) -> None:
        self._base = _MARKED | (zlib.crc32(space) & ((1 << _SPACE_BITS) - 1)) << _NUMBER_BITS

    def of(self, number: int) -> int:
        """Return the mark with this number."""
        return self._base | number

    def number_of(self, limits: bytes) -> int | None:
        """Return the number in a text like /proc/PID/limits; ``None``: it has no mark of this space."""
        found = _LINE.search(limits)
        if found is None:
            return None
        number = int(found[1]) ^ self._base
        return number if number >> _NUMBER_BITS == 0 else None
