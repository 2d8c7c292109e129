"""The executor's directory: its layout, and the locks that admit one supervisor and one agent."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from cress.executor.processes import is_alive

# Seconds to wait for the lock of a process that is ending.
PATIENCE = 5.0
# Seconds between two tries on a full disk.
FULL_DISK = 2.0


class FolderInUseError(Exception):
    """Error: another process works in the directory; the message says which one."""


class Lock:
    """A file that one process at a time holds locked, with its pid in it.

    ``held`` raises FolderInUseError if a living process has the lock. If the holder is gone, ``held`` waits: a child of
    the holder that is about to execute its program keeps the lock for a moment.
    """

    def __init__(self, path: Path, who: str) -> None:
        self.path = path
        self.who = who
        self._fd = -1

    def take(self, patience: float = PATIENCE) -> None:
        """Lock the file, or raise FolderInUseError."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        end = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                pid = os.pread(fd, 32, 0).decode(errors="replace").strip()
                if time.monotonic() > end or (patience and _serves(pid)):
                    os.close(fd)
                    raise FolderInUseError(
                        f"{self.path.parent} is in use by another {self.who} (pid {pid or 'unknown'}); "
                        "stop that one first, or choose another directory"
                    ) from None
                time.sleep(0.01)
        # Fixed length and written in place: a reader finds the old pid or the new one, never a mixture.
        try:
            os.pwrite(fd, f"{os.getpid():<10}\n".encode(), 0)
        except OSError:
            os.close(fd)
            raise
        self._fd = fd

    def give(self) -> None:
        """Unlock the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class SupervisorFolder:
    """A supervisor's directory, made and locked while it is used as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.socket = self.path / "supervisor.sock"
        self.journal = self.path / "journal"
        self.attempts = self.path / "attempts"
        self.lock = self.path / "supervisor.lock"
        self._lock = Lock(self.lock, "supervisor")

    def __enter__(self) -> Self:
        make(self.path)
        self._lock.take()
        self.attempts.mkdir(mode=0o755, exist_ok=True)
        self.attempts.chmod(_mode())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.give()


def make(path: Path) -> None:
    """Make the executor's directory, for its owner only: it has the logs of all users' tasks, and the journal.

    A root executor lets other accounts pass through it, so that tasks reach their own folders.
    """
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(_mode())


def take_directory(folder: Path, lock: Lock) -> None:
    """Make and lock the executor's directory; on a full disk, as soon as space is free."""
    told = False
    while True:
        try:
            make(folder)
            lock.take()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            if not told:
                print(f"{folder}: {error.strerror}; it is tried again", file=sys.stderr, flush=True)  # noqa: T201
            told = True
            time.sleep(FULL_DISK)
        else:
            return


def _mode() -> int:
    return 0o711 if os.geteuid() == 0 else 0o700


@contextlib.contextmanager
def socket_path(path: Path) -> Iterator[str]:
    """Yield a short name for a Unix socket: names are limited to 107 bytes, and the path may be longer."""
    fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{fd}/{path.name}"
    finally:
        os.close(fd)


def _serves(pid: str) -> bool:
    """Return whether the process with the lock is alive."""
    return pid.isdigit() and is_alive(int(pid))
