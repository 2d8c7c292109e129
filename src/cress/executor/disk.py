"""The file operations of the journal, as an interface that simulated disks in tests implement too."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Protocol

from cress.formats.framed import AppendDisk, FileDisk
from cress.protocol.regular_files import open_regular, read_regular


class Disk(AppendDisk, Protocol):
    """Files for appending. Every method raises OSError as the system does."""

    def open(self, path: Path, *, empty: bool = False) -> int:
        """Open the file, made if missing, and return its descriptor; ``empty``: truncate it."""

    def read(self, path: Path) -> bytes:
        """Return the contents of the file."""

    def sync(self, fd: int) -> None:
        """Make all written data durable before returning."""

    def replace(self, old: Path, new: Path) -> None:
        """Rename ``old`` to ``new``, replacing its former file; durable after ``sync_folder``."""

    def remove(self, path: Path) -> None:
        """Remove the file."""

    def sync_folder(self, path: Path) -> None:
        """Make the names in the folder durable before returning, if the file system supports that."""

    def close(self, fd: int) -> None:
        """Close the descriptor."""


class RealDisk(FileDisk):
    """The ``Disk`` of this machine."""

    def open(self, path: Path, *, empty: bool = False) -> int:
        """See ``Disk``."""
        return open_regular(path, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if empty else 0))

    def read(self, path: Path) -> bytes:
        """See ``Disk``."""
        return read_regular(path)

    def sync(self, fd: int) -> None:
        """See ``Disk``."""
        os.fdatasync(fd)

    def replace(self, old: Path, new: Path) -> None:
        """See ``Disk``."""
        old.replace(new)

    def remove(self, path: Path) -> None:
        """See ``Disk``."""
        path.unlink()

    def sync_folder(self, path: Path) -> None:
        """See ``Disk``."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # Some file systems do not support this; then the rename is as durable as it can be.
            with contextlib.suppress(OSError):
                os.fsync(fd)
        finally:
            os.close(fd)

    def close(self, fd: int) -> None:
        """See ``Disk``."""
        os.close(fd)


REAL_DISK = RealDisk()
