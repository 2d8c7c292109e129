"""The room on a disk, and the fault if none is left: of the node, or of the job whose own files take it.

A node whose disk is full rests, and its tasks wait or run elsewhere; nobody counts how often. A job whose files fit on
no disk would let one node after the other rest, and fill their disks. Jobs of usual size may fill a disk together, and
what finds little room here may find enough elsewhere, so only what takes half of a disk is at fault.
"""

from __future__ import annotations

import os
from pathlib import Path

# The attribute of nodes with the size of that disk.
ATTRIBUTE = "DiskTotal"
# The part of a disk that nobody needs who has chosen its node well.
LARGE = 0.5


def take_large_part(files: Path) -> bool:
    """Return whether what lies in a folder takes a large part of its disk."""
    known = os.statvfs(files)
    size, count = _taken(files)
    # Some file systems do not count inodes.
    return size >= LARGE * known.f_blocks * known.f_frsize or 0 < LARGE * known.f_files <= count


def took_large_part(files: Path) -> bool:
    """Return whether a disk that was just full has much room without what lies, or lay until now, in a folder.

    It is for programs that remove their files when they fail. Others may have removed theirs at the same moment.
    """
    known = os.statvfs(files)
    size, count = _taken(files)
    room = known.f_bavail * known.f_frsize + size
    return room >= LARGE * known.f_blocks * known.f_frsize and known.f_favail + count >= LARGE * known.f_files


def larger_disk(files: Path) -> str:
    """Return how a job asks for a node whose disk is larger than the one with ``files``."""
    known = os.statvfs(files)
    shift, unit = (30, "G") if known.f_blocks * known.f_frsize > 1 << 31 else (20, "M")
    size = -(-known.f_blocks * known.f_frsize >> shift)
    return f"this disk has {size}{unit}; `requirement: {ATTRIBUTE} > {size}{unit}` asks for a larger one"


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
