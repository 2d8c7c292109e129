"""Opening what an attempt wrote: its folder belongs to the task, who may have put something else in the place of a log."""

from __future__ import annotations

import errno
import os
import stat


def open_log(path: str | bytes, flags: int) -> int:
    """A descriptor of a log of an attempt. OSError: there is none, or what is there is no file of its folder's owner.

    So nothing is read or changed with rights that the task does not have: no link is followed, nobody waits for a pipe, and
    a file of another account that was put there under its own name is none.
    """
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status, folder = os.fstat(fd), os.stat(os.path.dirname(path))  # noqa: PTH116, PTH120 - looked at often
    if stat.S_ISREG(status.st_mode) and status.st_uid == folder.st_uid:
        return fd
    os.close(fd)
    raise OSError(errno.EBADF, "it is no file any more")
