"""Failures of a stage.

They are reported through a descriptor before the program runs, in a file of the attempt's folder afterwards.
"""

from __future__ import annotations

import contextlib
import os
import stat

import msgspec

from cress.model.reports import Cause
from cress.shell.executor.starting import StageFailure

FILE = b"trouble"
MOST = 4096


def write(folder: bytes, failure: StageFailure) -> None:
    """Write the failure into the attempt's folder, whose owner may have put links there. Raise OSError."""
    new = folder + b"/." + FILE
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)  # noqa: PTH108
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        os.write(fd, failure.encode())
    finally:
        os.close(fd)
    os.rename(new, folder + b"/" + FILE)  # noqa: PTH104


def read(folder: bytes) -> StageFailure | None:
    """Return the failure in the folder; ``None``: there is none, or it cannot be trusted."""
    try:
        fd = os.open(folder + b"/" + FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        # Stages have the supervisor's account, so a file of another account comes from the task.
        ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1
        data = os.read(fd, MOST) if ours else b""
    except OSError:
        return None
    finally:
        os.close(fd)
    return decode(data)


def decode(data: bytes) -> StageFailure | None:
    """Return the decoded failure; ``None``: the data is invalid, or has a cause that a stage cannot have."""
    try:
        failure = msgspec.json.decode(data, type=StageFailure)
    except msgspec.MsgspecError:
        return None
    return failure if failure.cause in (Cause.FILES, Cause.OUTPUTS, Cause.NODE) else None
