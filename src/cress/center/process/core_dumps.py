"""Core dumps: the memory of the center holds tokens and keys, so it is not written to disk when the center crashes."""

from __future__ import annotations

import ctypes
import resource

_DUMPABLE = 4  # PR_SET_DUMPABLE


def forbid_core_dumps() -> None:
    """Have the kernel write no core of this process, and keep the account's other processes from reading its memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The limit has no effect if the kernel pipes cores to a program.
    ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)
