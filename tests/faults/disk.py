"""A disk: what was written is durable after a sync only; before that a power failure keeps as much of it as it
likes.
"""

from __future__ import annotations

import errno
from pathlib import Path

from tests.faults.world import World


class File:
    """What is in a file, and what of it would be there after a power failure."""

    __slots__ = ("data", "safe")

    def __init__(self) -> None:
        self.data = bytearray()
        self.safe = b""


class SimulatedDisk:
    """A ``cress.executor.disk.Disk``.

    ``full``: nothing can be written, or only a part. ``ill``: syncs fail. ``slow`` is what a sync takes at most, in
    microseconds; ``took`` adds it up until somebody asks.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.names: dict[Path, File] = {}
        self.safe_names: dict[Path, File] = {}
        self.open_files: dict[int, File] = {}
        self.full = False
        self.ill = False
        self.slow = 2_000
        self.took = 0
        self._next = 3

    def open(self, path: Path, *, empty: bool = False) -> int:
        """See ``Disk``."""
        file = self.names.get(path)
        if file is None:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            file = self.names[path] = File()
        if empty:
            file.data.clear()
        self._next += 1
        self.open_files[self._next] = file
        return self._next

    def read(self, path: Path) -> bytes:
        """See ``Disk``."""
        return bytes(self.names[path].data)

    def write(self, fd: int, data: bytes | memoryview) -> None:
        """See ``Disk``."""
        file = self.open_files[fd]
        if self.full:
            file.data += data[: self.world.random.randint(0, len(data) - 1)]
            raise OSError(errno.ENOSPC, "No space left on device")
        file.data += data

    def cut(self, fd: int, size: int) -> None:
        """See ``Disk``."""
        file = self.open_files[fd]
        del file.data[size:]

    def sync(self, fd: int) -> None:
        """See ``Disk``."""
        self.took += self.world.random.randint(50, self.slow)
        if self.ill:
            raise OSError(errno.EIO, "Input/output error")
        file = self.open_files[fd]
        file.safe = bytes(file.data)

    def replace(self, old: Path, new: Path) -> None:
        """See ``Disk``."""
        self.names[new] = self.names.pop(old)

    def remove(self, path: Path) -> None:
        """See ``Disk``."""
        del self.names[path]

    def sync_folder(self, path: Path) -> None:
        """See ``Disk``."""
        self.safe_names = dict(self.names)

    def close(self, fd: int) -> None:
        """See ``Disk``."""
        del self.open_files[fd]

    def lose_power(self) -> None:
        """What was not synced is there, or not, or a part of it, or its length only."""
        random = self.world.random
        if random.random() < 0.5:
            self.names = dict(self.safe_names)
        self.safe_names = dict(self.names)
        self.open_files = {}
        for file in self.names.values():
            if not file.data.startswith(file.safe):
                file.data = bytearray(file.safe)
                continue
            tail = len(file.data) - len(file.safe)
            kept = random.randint(0, tail)
            if random.random() < 0.3:
                file.data[len(file.safe) + kept :] = bytes(tail - kept)
            else:
                del file.data[len(file.safe) + kept :]
            file.safe = bytes(file.data)
