"""Folders whose subfolders have nothing to do with each other, such as those of attempts.

An ext4 file system puts new folders and files close to their parent, and passes over the inodes freed there lately if
it has no journal. Where other programs remove many files, a start then takes longer than its program. The flag that
``chattr +T`` sets lets each new subfolder begin somewhere else. Other file systems have no such flag, and need none.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from pathlib import Path

# Requests of linux/fs.h: read and write the flags of a file; and the flag of a folder whose subfolders are spread.
_READ, _WRITE, _TOP = 0x80086601, 0x40086602, 0x20000
_FLAGS = struct.Struct("@Ixxxx")


def spread(folder: Path) -> None:
    """Let new subfolders of ``folder`` be far from each other, where the file system can do that."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            (flags,) = _FLAGS.unpack(fcntl.ioctl(fd, _READ, bytes(_FLAGS.size)))
            if not flags & _TOP:
                fcntl.ioctl(fd, _WRITE, _FLAGS.pack(flags | _TOP))
        finally:
            os.close(fd)
