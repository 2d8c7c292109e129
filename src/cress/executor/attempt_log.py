"""Safe opening of an attempt's log, whose folder belongs to the task.

The task may have replaced its log by something else.
"""

from __future__ import annotations

import errno
import os
import stat


def open_log(path: str | bytes, flags: int) -> int:
    """Return a descriptor of a log.

    This never reads or changes anything with rights that the task lacks: links are not followed, a pipe does not block,
    and a hard link to a file of another account is refused.

    Raise OSError if the log does not exist, or is not a regular file of its folder's owner.
    """
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status, folder = os.fstat(fd), os.stat(os.path.dirname(path))  # noqa: PTH116, PTH120 - looked at often
    if stat.S_ISREG(status.st_mode) and status.st_uid == folder.st_uid:
        return fd
    os.close(fd)
    raise OSError(errno.EBADF, "it is no longer a file of the task")
