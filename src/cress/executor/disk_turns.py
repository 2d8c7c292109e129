"""Turns of works that fill the same disk: whether one was alone when there was no room, and a way to be alone.

All share a file. Each work holds its lock together with others, and changes its time at the end. So a work knows
whether another one ended meanwhile, or still goes on.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


class Turn:
    """The turn of one work, which holds the file ``fd``."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._before = os.fstat(fd).st_mtime_ns

    def was_alone(self) -> bool:
        """Return whether no other work has ended since the turn began, or goes on."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return os.fstat(self._fd).st_mtime_ns == self._before


@contextlib.contextmanager
def opened_turn(path: Path) -> Iterator[Turn]:
    """Take a turn, which others may take as well; it waits for one that is ``alone``."""
    with _held(path, fcntl.LOCK_SH) as fd:
        yield Turn(fd)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Take a turn that no other work takes; it waits for all others."""
    with _held(path, fcntl.LOCK_EX):
        yield


@contextlib.contextmanager
def _held(path: Path, kind: int) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, kind)
        yield fd
    finally:
        # A full disk has room for a time, but not for a byte.
        os.utime(fd)
        os.close(fd)
