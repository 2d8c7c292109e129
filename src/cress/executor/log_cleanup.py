"""What tasks wrote, removed when it is old or too much, so that no node's disk fills up with it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

# What was written to a moment ago is left alone, whatever is known of it; seconds.
YOUNG = 60.0
# The disk is nearly full when less than this part of it is free.
LEAST_FREE = 0.05


class Output(NamedTuple):
    """The folder of one attempt: when it was last written to (seconds since the epoch), its bytes on the disk."""

    written: float
    attempt: int
    size: int
    path: Path


def nearly_full(folder: Path) -> bool:
    """Whether the disk on which the folder lies is."""
    usage = shutil.disk_usage(folder)
    return usage.free < LEAST_FREE * usage.total


def remove_old_output(
    folder: Path,
    busy: Collection[int],
    *,
    age: float,
    size: int,
    now: float,
    is_full: Callable[[Path], bool] = nearly_full,
) -> list[int]:
    """Remove what attempts wrote: older than ``age`` (s), the oldest beyond ``size`` bytes, or while the disk is full.

    Never of those in ``busy``, which run or whose end is not known to be stored. Returns the attempts, oldest first.
    """
    outputs = sorted(_outputs(folder))
    total = sum(each.size for each in outputs)
    gone: list[int] = []
    for each in outputs:
        if each.attempt in busy or now - each.written < YOUNG:
            continue
        if now - each.written > age or total > size or is_full(folder):
            shutil.rmtree(each.path, onerror=force_remove)
            total -= each.size
            gone.append(each.attempt)
    return gone


def _outputs(folder: Path) -> list[Output]:
    found = []
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return []
    for entry in entries:
        if entry.name.isdigit() and entry.is_dir(follow_symlinks=False):
            path = Path(entry.path)
            written, size = _measured(path)
            found.append(Output(written, int(entry.name), size, path))
    return found


def _measured(path: Path) -> tuple[float, int]:
    """When anything in a folder was last written to, and the bytes that it takes."""
    status = path.stat()
    written, size = status.st_mtime, status.st_blocks * 512
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            try:
                status = os.lstat(f"{folder}/{name}")
            except OSError:
                continue
            written, size = max(written, status.st_mtime), size + status.st_blocks * 512
    return written, size


def force_remove(function: Callable[..., Any], path: str, _: object) -> None:
    """A task may have forbidden its own folders to be changed; what cannot be removed even so is tried again later.

    Nothing is forbidden to root, and paths are not to be trusted: other processes of the task's account may be turning
    folders in them into links. Without root the executor may do no more than the task itself.
    """
    if os.geteuid() == 0:
        return
    place = Path(path)
    try:
        for each in (place.parent, place):
            if stat.S_ISDIR(each.lstat().st_mode):
                each.chmod(stat.S_IRWXU)
        if function in (os.open, os.scandir, os.listdir):
            shutil.rmtree(path, ignore_errors=True)
        else:
            function(path)
    except OSError:
        pass
