"""Core dumps: the memory of the center holds tokens and keys, and is not written to disk when it dies."""

from __future__ import annotations

import ctypes
import resource

_DUMPABLE = 4  # PR_SET_DUMPABLE


def forbid_core_dumps() -> None:
    """Have the kernel write no core of this process, and let no other process of the account read its memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The limit does not hold for a kernel that pipes cores to a program.
    ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)
