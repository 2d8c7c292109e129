"""Turns of works that fill the same disk: whether one was alone when there was no room, and a way to be alone.

All share a file. Each work holds its lock together with others, and changes its time at the end. So a work knows
whether another one ended meanwhile, or still goes on. Two more files have locks that are held for a moment: ``.look``
while a work looks whether it was alone, and ``.gate`` while it waits for its turn.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


class Turn:
    """The turn of one work, which holds the file ``fd`` of this path."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self._path = path
        self._before = os.fstat(fd).st_mtime_ns

    def was_alone(self) -> bool:
        """Return whether no other work has ended since the turn began, or goes on."""
        # To ask for the lock alone gives up the shared one, so from then on this work counts as one that has ended.
        # Others must not look before its mark is there.
        with _locked(_beside(self._path, ".look"), fcntl.LOCK_EX):
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.utime(self._fd)
                return False
            return os.fstat(self._fd).st_mtime_ns == self._before


@contextlib.contextmanager
def opened_turn(path: Path) -> Iterator[Turn]:
    """Take a turn, which others may take as well; it waits for one that is ``alone``, or wants to be."""
    with _held(path, fcntl.LOCK_SH) as fd:
        yield Turn(fd, path)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Take a turn that no other work takes; it waits for all others that have begun."""
    with _held(path, fcntl.LOCK_EX):
        yield


@contextlib.contextmanager
def _held(path: Path, kind: int) -> Iterator[int]:
    with contextlib.ExitStack() as held:
        # The kernel gives a shared lock though somebody waits to be alone, who would wait for ever. So all queue.
        with _locked(_beside(path, ".gate"), fcntl.LOCK_EX):
            fd = held.enter_context(_locked(path, kind))
        try:
            yield fd
        finally:
            # A full disk has room for a time, but not for a byte.
            os.utime(fd)


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


@contextlib.contextmanager
def _locked(path: Path, kind: int) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, kind)
        yield fd
    finally:
        os.close(fd)
