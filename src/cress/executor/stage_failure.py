"""What a stage says that went wrong: through a descriptor before the program runs, in a file of the attempt's folder after."""

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
    """Leave it in the folder of the attempt, which may belong to somebody who puts links there. OSError: it could not be."""
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
    """What was left in the folder; ``None``: nothing, or nothing that can be believed."""
    try:
        fd = os.open(folder + b"/" + FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        # Stages are whoever the supervisor is: what a task of another account has put there says nothing.
        ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1
        data = os.read(fd, MOST) if ours else b""
    except OSError:
        return None
    finally:
        os.close(fd)
    return decode(data)


def decode(data: bytes) -> StageFailure | None:
    """The reverse of its encoding; ``None``: it is none, or one that says more than a stage may."""
    try:
        failure = msgspec.json.decode(data, type=StageFailure)
    except msgspec.MsgspecError:
        return None
    return failure if failure.cause in (Cause.FILES, Cause.OUTPUTS, Cause.NODE) else None
