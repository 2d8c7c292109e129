"""Limits on files and processes of tasks that hold where neither the job nor the operator has set any."""

from __future__ import annotations

import resource
from pathlib import Path

# Open files of a process: programs that close "all" files, or keep a table of them, need a number that is not in the
# billions.
MOST_FILES = 1 << 20
# Processes and threads of one account, on nodes that could have only few.
LEAST_PROCESSES = 4096


def files(inherited: tuple[int, int]) -> tuple[int, int]:
    """Return the limits of open files, soft and hard, of a task whose executor was started with the ``inherited``
    ones.
    """
    hard = _smaller(inherited[1], MOST_FILES)
    return _smaller(inherited[0], hard), hard


def processes() -> tuple[int, int]:
    """Return the limits of the processes and threads of an account: half of those of the node, so that others have
    some.
    """
    node = min(_number("/proc/sys/kernel/pid_max"), _number("/proc/sys/kernel/threads-max"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    hard = _smaller(hard, max(LEAST_PROCESSES, node // 2))
    return _smaller(soft, hard), hard


def _smaller(limit: int, most: int) -> int:
    return most if limit == resource.RLIM_INFINITY else min(limit, most)


def _number(path: str) -> int:
    try:
        return int(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
