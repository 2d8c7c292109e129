"""Marks of attempts: a number that all processes of an attempt inherit, whatever they do.

A process may leave its session, clear its environment and close its files, but it keeps its resource limits. The mark
is the hard limit RLIMIT_LOCKS, which the kernel has not enforced since version 2.4.25. Only root can raise a hard
limit, so another account cannot take the mark of another attempt. HTCondor and LSF mark processes in the same way, by
supplementary groups, which need root.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import zlib
from functools import lru_cache

# The number of RLIMIT_LOCKS (asm-generic/resource.h), which the module ``resource`` does not name.
_LOCKS = 10
# A mark has this bit, 22 bits of its space and 40 bits of its number. Python's limits have 63 bits.
_MARKED, _SPACE_BITS, _NUMBER_BITS = 1 << 62, 22, 40

_LINE = re.compile(rb"^Max file locks +\S+ +(\d+) ", re.MULTILINE)


class Marks:
    """The marks of one space: the folder of an executor's attempts, or the commands of an exec helper."""

    def __init__(self, space: bytes) -> None:
        self._base = _MARKED | (zlib.crc32(space) & ((1 << _SPACE_BITS) - 1)) << _NUMBER_BITS

    def of(self, number: int) -> int:
        """Return the mark with this number."""
        return self._base | number

    def put(self, number: int) -> None:
        """Mark this process and its future children.

        Without root, a process that has a lower mark keeps it: an executor that itself runs in a task of another one.
        """
        mark = self.of(number)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(_LOCKS, (mark, mark))

    def number_of(self, limits: bytes) -> int | None:
        """Return the number in a text like /proc/PID/limits; ``None``: it has no mark of this space."""
        found = _LINE.search(limits)
        if found is None:
            return None
        number = int(found[1]) ^ self._base
        return number if number >> _NUMBER_BITS == 0 else None


@lru_cache(maxsize=16)
def attempt_marks(folder: bytes) -> Marks:
    """Return the marks of the attempts whose folders are in ``folder``."""
    return Marks(os.path.abspath(folder))  # noqa: PTH100 - bytes


def exec_marks(helper: int) -> Marks:
    """Return the marks of the commands in tasks that the exec helper with this pid has started, by their sessions."""
    return Marks(b"exec %d" % helper)
