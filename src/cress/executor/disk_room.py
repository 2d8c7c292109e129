"""The room on a disk, and the fault if none is left: of the node, or of the job whose own files take it.

A node whose disk is full rests, and its tasks wait or run elsewhere; nobody counts how often. A job whose files fit on
no disk would let one node after the other rest, and fill their disks.
"""

from __future__ import annotations

import os
from pathlib import Path

# The part of a disk that is free on a node which has room for the usual job.
FREE = 0.1


def is_taken_by(files: Path, folder: Path) -> bool:
    """Return whether the disk of ``folder`` has room without the ``files`` of an attempt, which may be gone already."""
    known = os.statvfs(folder)
    size, count = _taken(files)
    room = known.f_bavail * known.f_frsize + size
    names = known.f_favail + count
    # Some file systems do not count inodes.
    return room >= FREE * known.f_blocks * known.f_frsize and names >= FREE * known.f_files


def _taken(files: Path) -> tuple[int, int]:
    """Return the bytes on the disk and the number of files below a path."""
    size = count = 0
    waiting = [os.fspath(files)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue  # gone, or not to be read: it counts as if it were not there
    return size, count
