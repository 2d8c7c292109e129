"""Files of secrets: in memory, for the account of the task alone, removed with the attempt.

``/run/cress-secrets-KEY/ATTEMPT/NAME`` (or below ``/run/user/UID`` or ``/dev/shm``), on a file system in memory:
nothing is written to a disk, and nothing survives a restart of the machine. The folder of an attempt belongs to the
executor, so that a task cannot put other files into it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from cress.shell.executor.starting import StartError

PREFIX = "cress-secrets-"
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})


class SecretFiles:
    """The files of secrets of one executor's attempts; ``key`` is its name on its machine."""

    def __init__(self, key: str, places: tuple[str, ...] | None = None) -> None:
        self._key = key
        self._places = places if places is not None else _places()
        self._made: set[int] = set()

    def make(self, attempt: int, files: Mapping[str, bytes], account: tuple[int, int] | None) -> bytes:
        """Write the files of an attempt for this account; return their folder. Raises StartError."""
        try:
            base = self._base()
            folder = f"{base}/{attempt}"
            # The folder of a forgotten attempt of the same number.
            shutil.rmtree(folder, ignore_errors=True)
            self._made.add(attempt)
            os.mkdir(folder, 0o700)  # noqa: PTH102
            place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                for name, value in files.items():
                    _write(place, name, value, account)
                os.fchmod(place, 0o500 if account is None else 0o550)
                if account is not None:
                    os.fchown(place, os.geteuid(), account[1])
            finally:
                os.close(place)
        except OSError as error:
            why = f"the files of its secrets could not be written to memory: {error.strerror or error}"
            raise StartError(why, node=True) from None
        return os.fsencode(folder)

    def remove(self, attempt: int) -> None:
        """Remove the files of an ended attempt."""
        if attempt in self._made:
            self._made.discard(attempt)
            for base in self._bases():
                _remove(f"{base}/{attempt}")
            self.close()

    def resume(self, attempts: Collection[int]) -> None:
        """Keep the files of these attempts, and remove all others left by an earlier supervisor."""
        self._made.update(attempts)
        for base in self._bases():
            for name in os.listdir(base):  # noqa: PTH208
                if not name.isdigit() or int(name) not in attempts:
                    _remove(f"{base}/{name}")
        self.close()

    def close(self) -> None:
        """Remove the executor's folder, if it is empty."""
        for base in self._bases():
            with contextlib.suppress(OSError):
                os.rmdir(base)  # noqa: PTH106

    def _bases(self) -> Iterator[str]:
        for place in self._places:
            base = f"{place}/{PREFIX}{self._key}"
            if _is_ours(base):
                yield base

    def _base(self) -> str:
        """Return the executor's folder, made if missing. Raise OSError."""
        in_memory = [place for place in self._places if _is_in_memory(place)]
        if not in_memory:
            raise OSError(None, f"none of {', '.join(self._places)} is a file system in memory (tmpfs) on this node")
        mode = 0o711 if os.geteuid() == 0 else 0o700
        for base in (f"{place}/{PREFIX}{self._key}" for place in in_memory):
            with contextlib.suppress(FileExistsError):
                os.mkdir(base, mode)  # noqa: PTH102
            if _is_ours(base):
                os.chmod(base, mode)  # noqa: PTH101
                return base
        raise OSError(None, f"{PREFIX}{self._key} in {', '.join(in_memory)} belongs to another account")


def _places() -> tuple[str, ...]:
    # When a user logs out, systemd removes the user's files in /dev/shm, which tasks may still need.
    return ("/run", "/dev/shm") if os.geteuid() == 0 else (f"/run/user/{os.geteuid()}", "/dev/shm")  # noqa: S108


def _is_in_memory(path: str) -> bool:
    """Return whether a folder is on a file system in memory."""
    try:
        device = os.stat(path).st_dev  # noqa: PTH116
    except OSError:
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        left, _, right = line.partition(" - ")
        if left.split()[2] == number:
            return right.split()[0] in _IN_MEMORY
    return False


def _is_ours(path: str) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return os.path.isdir(path) and not os.path.islink(path) and status.st_uid == os.geteuid()  # noqa: PTH112, PTH114


def _write(folder: int, name: str, value: bytes, account: tuple[int, int] | None) -> None:
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o400, dir_fd=folder)
    with os.fdopen(file, "wb") as opened:
        opened.write(value)
        opened.flush()
        if account is not None:
            os.fchown(file, *account)


def _remove(folder: str) -> None:
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)  # noqa: PTH101
    shutil.rmtree(folder, ignore_errors=True)
