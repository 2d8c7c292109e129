"""Times of output: for the logs of an attempt, at what time the executor saw which sizes.

The program writes into its log itself, so nobody sees single lines. The file ``times`` beside the log has a record for
each look at which the log had grown: the time, and the sizes of stdout and stderr (``model.log_times``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from cress.executor.attempt_log import open_log
from cress.model.log_times import MOST_RECORDS, SIZE, thinned
from cress.model.log_times import record as record_of

NAME = b"/times"


def note(folder: bytes, utc: int, sizes: Sequence[int]) -> None:
    """Add a record to the file in the folder of an attempt; with too many, every second one goes. Raise OSError."""
    path = folder + NAME
    try:
        fd = open_log(path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_APPEND, 0o600)
        owner = os.stat(folder)  # noqa: PTH116 - bytes
        if owner.st_uid != os.geteuid():
            os.fchown(fd, owner.st_uid, owner.st_gid)
    try:
        size = os.fstat(fd).st_size
        if size >= MOST_RECORDS * SIZE:
            kept = thinned(os.pread(fd, size, 0))
            os.ftruncate(fd, 0)
            os.write(fd, kept)
        os.write(fd, record_of(utc, sizes[0], sizes[1]))
    finally:
        os.close(fd)
