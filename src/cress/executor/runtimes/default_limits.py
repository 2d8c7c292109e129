"""Limits on files and processes of tasks that apply if neither the job nor the operator sets any."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path

# Open files of a process: programs that close "all" files, or keep a table of them, need a number far below billions.
MOST_FILES = 1 << 20
# Processes and threads that one account may have at least, also on a small node.
LEAST_PROCESSES = 4096
# How much the kernel's memory killer prefers a process, from -1000 (never) to 1000.
_KILLER = "/proc/self/oom_score_adj"


def files(inherited: tuple[int, int]) -> tuple[int, int]:
    """Return the limits of open files, soft and hard, of a task whose executor inherited the given ones."""
    hard = _smaller(inherited[1], MOST_FILES)
    return _smaller(inherited[0], hard), hard


def processes() -> tuple[int, int]:
    """Return the limits of the processes and threads of an account: half of the node's, to leave some for others."""
    node = min(_number("/proc/sys/kernel/pid_max"), _number("/proc/sys/kernel/threads-max"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    hard = _smaller(hard, max(LEAST_PROCESSES, node // 2))
    return _smaller(soft, hard), hard


def is_spared() -> bool:
    """Return whether the kernel's memory killer spares this process more than others."""
    try:
        return int(Path(_KILLER).read_text(encoding="ascii")) < 0
    except (OSError, ValueError):
        return False


def expose() -> None:
    """Let the kernel's memory killer treat this process, and its children, like any other."""
    with contextlib.suppress(OSError):
        Path(_KILLER).write_text("0", encoding="ascii")


def _smaller(limit: int, most: int) -> int:
    return most if limit == resource.RLIM_INFINITY else min(limit, most)


def _number(path: str) -> int:
    try:
        return int(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
