"""Removal of old or excessive task output, so that it does not fill the node's disk."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

# Seconds after the last write during which output is never removed.
YOUNG = 60.0
# The disk is nearly full if less than this part of it is free.
LEAST_FREE = 0.05


class LogFolder(NamedTuple):
    """The folder of one attempt: its last write (seconds since the epoch) and its bytes on the disk."""

    written: float
    attempt: int
    size: int
    path: Path


def nearly_full(folder: Path) -> bool:
    """Return whether the disk of the folder is nearly full."""
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
    """Remove output: older than ``age`` (s), the oldest beyond ``size`` bytes, or the oldest while the disk is full.

    Attempts in ``busy`` are left alone: they run, or their end may not be stored yet. Return the removed attempts,
    oldest first.
    """
    outputs = sorted(_outputs(folder))
    total = sum(output.size for output in outputs)
    gone: list[int] = []
    for output in outputs:
        if output.attempt in busy or now - output.written < YOUNG:
            continue
        if now - output.written > age or total > size or is_full(folder):
            shutil.rmtree(output.path, onerror=force_remove)
            total -= output.size
            gone.append(output.attempt)
    return gone


def _outputs(folder: Path) -> list[LogFolder]:
    found = []
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return []
    for entry in entries:
        if entry.name.isdigit() and entry.is_dir(follow_symlinks=False):
            path = Path(entry.path)
            written, size = _measured(path)
            found.append(LogFolder(written, int(entry.name), size, path))
    return found


def _measured(path: Path) -> tuple[float, int]:
    """Return the time of the last write anywhere in a folder, and its size on the disk."""
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
    """Remove a path whose permissions forbid it: an error handler of ``rmtree``.

    If that fails too, a later run tries again. Root needs no permission, and must not trust paths: other processes of
    the task's account may be turning folders in them into links. Without root the executor has no more rights than the
    task itself.
    """
    if os.geteuid() == 0:
        return
    place = Path(path)
    try:
        for folder in (place.parent, place):
            if stat.S_ISDIR(folder.lstat().st_mode):
                folder.chmod(stat.S_IRWXU)
        if function in (os.open, os.scandir, os.listdir):
            shutil.rmtree(path, ignore_errors=True)
        else:
            function(path)
    except OSError:
        pass
