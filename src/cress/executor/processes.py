"""Facts about processes from /proc: identity, children, attempt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cress.executor.marks import Marks, attempt_marks


def boot_id() -> str:
    """Return the kernel's id of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


# Clock ticks of a second.
TICKS = os.sysconf("SC_CLK_TCK")


def start_ticks(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot; None: no such process.

    Pid and start time together identify a process until the machine restarts.
    """
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def is_alive(pid: int) -> bool:
    """Return whether the process runs; a zombie does not count."""
    fields = _stat(pid)
    return fields is not None and fields[0] not in (b"Z", b"X")


def is_stopped(pid: int) -> bool:
    """Return whether a signal or a debugger has stopped the process."""
    fields = _stat(pid)
    return fields is not None and fields[0] in (b"T", b"t")


def session_of(pid: int) -> int:
    """Return the session of a process; 0: no such process."""
    fields = _stat(pid)
    return 0 if fields is None else int(fields[3])


def is_leader(pid: int) -> bool:
    """Return whether the process leads its session, as the first process of an attempt does."""
    fields = _stat(pid)
    return fields is not None and int(fields[3]) == pid


def command_of(pid: int) -> str:
    """Return the first word of the command line of a process; empty: none, or unreadable."""
    return os.fsdecode(_read(f"/proc/{pid}/cmdline").partition(b"\0")[0])


def runs_module(pid: int, module: str) -> bool:
    """Return whether the process is Python with this module as its program."""
    return os.fsencode(module) in _read(f"/proc/{pid}/cmdline").split(b"\0")


def children(pid: int) -> set[int]:
    """Return the children of a process, including zombies; empty where the kernel does not list them."""
    return {int(child) for child in _read(f"/proc/{pid}/task/{pid}/children").split()}


def descendants(pid: int) -> set[int]:
    """Return the descendants of a process; those that are started meanwhile may be missing."""
    found: set[int] = set()
    fresh = children(pid)
    while fresh:
        found |= fresh
        fresh = {child for parent in fresh for child in children(parent)} - found
    return found


def marked(pid: int, marks: Marks) -> int | None:
    """Return the number with which the process is marked, also if it is a zombie; None: it has no such mark."""
    return marks.number_of(_read(f"/proc/{pid}/limits"))


def attempt_of(pid: int, folder: bytes) -> int | None:
    """Return the attempt, with a folder below ``folder``, that the process was started for; None: no attempt.

    Processes that an earlier release has started have no mark, only the variable in their environment.
    """
    attempt = marked(pid, attempt_marks(folder))
    if attempt is not None:
        return attempt
    for part in _read(f"/proc/{pid}/environ").split(b"\0"):
        if part.startswith(b"CRESS_DIRECTORY="):
            parent, _, name = part.partition(b"=")[2].rpartition(b"/")
            return int(name) if parent == folder and name.isdigit() else None
    return None


def find_attempts(folder: bytes) -> Iterator[tuple[int, int]]:
    """Yield (attempt, pid) for every living process that was started for an attempt below ``folder``."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of names, no need for paths
        if name.isdigit():
            attempt = attempt_of(int(name), folder)
            if attempt is not None and is_alive(int(name)):
                yield attempt, int(name)


def find_marked(marks: Marks) -> Iterator[tuple[int, int]]:
    """Yield (number, pid) for every living process with one of these marks, the newest first.

    A process that forks and ends in a loop is found only soon after its folder is listed.
    """
    for name in reversed(os.listdir("/proc")):  # noqa: PTH208 - thousands of names, no need for paths
        if name.isdigit():
            number = marked(int(name), marks)
            if number is not None and is_alive(int(name)):
                yield number, int(name)


def _stat(pid: int) -> list[bytes] | None:
    """Return the fields of /proc/PID/stat from the state on; the name before it may contain spaces and brackets."""
    data = _read(f"/proc/{pid}/stat")
    return data[data.rindex(b")") + 2 :].split() if data else None


def _read(path: str) -> bytes:
    """Return a whole file of /proc; empty if it is missing or forbidden. Fast: called at every start."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        data = os.read(fd, 4096)
        if len(data) == 4096:
            while more := os.read(fd, 1 << 20):
                data += more
        return data
    except OSError:
        return b""
    finally:
        os.close(fd)
