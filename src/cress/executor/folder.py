"""The executor's directory: its layout, and the locks that admit one supervisor and one agent."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from cress.executor.processes import is_alive
from cress.executor.spread_folders import spread
from cress.protocol.regular_files import kind_of, not_regular

# Seconds to wait for the lock of a process that is ending.
PATIENCE = 5.0
# Seconds between two tries on a full disk.
FULL_DISK = 2.0


# What an executor makes again if it is missing, by its kind. (The journal takes care of itself.)
FILES = (
    "agent.lock",
    "supervisor.lock",
    "supervisor.log",
    "supervisor.sock",
    "accounts.json",
    "accounts.json.new",
    "versions.json",
    "versions.new",
    "journal.new",
)
# Folders whose files only the executor writes and reads; they are few at a start.
OWN = ("checks", "ends")
FOLDERS = ("attempts", "checks", "containers", "copies", "images", "inputs", "work")


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
        spread(self.attempts)
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


def in_the_way(path: Path) -> str:
    """Return what is wrong with a path of ``FILES`` or ``FOLDERS``; empty if it is as it should be, or missing."""
    if path.name in FOLDERS:
        return "" if path.is_dir() or not os.path.lexists(path) else f"{path} is not a folder, as it should be"
    try:
        mode = path.lstat().st_mode
    except OSError:
        return ""
    kind = "a folder" if stat.S_ISDIR(mode) else "" if path.suffix == ".sock" and stat.S_ISSOCK(mode) else kind_of(mode)
    return f"{path} is {kind}, not the file that belongs there" if kind else ""


def remove(path: Path) -> None:
    """Remove whatever lies at a path, if anything does. Raise OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def clear_way(folder: Path) -> list[str]:
    """Set aside what lies in the place of a file or folder that the executor makes; return messages about it.

    Pipes and devices among the files in ``OWN`` are removed.

    Raises OSError with the path that cannot be moved.
    """
    told: list[str] = []
    for name in (*FILES, *FOLDERS):
        path = folder / name
        what = in_the_way(path)
        if not what:
            continue
        number = 1
        while os.path.lexists(aside := folder / f"{name}.in-the-way-{number}"):
            number += 1
        path.rename(aside)
        told.append(f"{what}; it was set aside as {aside.name}")
    for inner in OWN:
        for error in not_regular(folder / inner):
            remove(Path(error.filename))
            told.append(f"{error.filename}: {error.strerror}; it was removed")
    return told


def named(error: OSError, folder: Path) -> str:
    """Return an error about a file of the executor's directory as a sentence that names the file."""
    place = error.filename if isinstance(error.filename, str) else str(folder)
    return f"{place}: {error.strerror or error}"


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
