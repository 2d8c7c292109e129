"""Marks of attempts: a number that all processes of an attempt inherit, whatever they do.

A process may leave its session, clear its environment and close its files, but it keeps its resource limits. The mark
is the hard limit RLIMIT_LOCKS, which the kernel has not enforced since version 2.4.25. Only root can raise a hard
limit, so another account cannot take the mark of another attempt. HTCondor and LSF mark processes in the same way, by
supplementary groups, which need root.
"""

from __future__ import annotations

import contextlib
import os
import resource
from functools import lru_cache

from cress.shell.executor.mark_numbers import MarkNumbers

# The number of RLIMIT_LOCKS (asm-generic/resource.h), which the module ``resource`` does not name.
_LOCKS = 10


class Marks(MarkNumbers):
    """The marks of one space, for processes of this machine."""

    def put(self, number: int) -> None:
        """Mark this process and its future children.

        Without root, a process that has a lower mark keeps it: an executor that itself runs in a task of another one.
        """
        mark = self.of(number)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(_LOCKS, (mark, mark))


@lru_cache(maxsize=16)
def attempt_marks(folder: bytes) -> Marks:
    """Return the marks of the attempts whose folders are in ``folder``."""
    return Marks(os.path.abspath(folder))  # noqa: PTH100 - bytes


def exec_marks(helper: int) -> Marks:
    """Return the marks of the commands in tasks that the exec helper with this pid has started, by their sessions."""
    return Marks(b"exec %d" % helper)
