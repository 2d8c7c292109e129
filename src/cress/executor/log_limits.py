"""Limits on the output of attempts: the beginning of a long log is returned to the disk, as a hole in its file.

Offsets stay valid, and the program that writes is not disturbed. Sizes are checked at intervals. A log that grows fast
is checked so often that it grows by at most about half of its limit in between.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import heapq
import os
import time
from collections.abc import Callable
from pathlib import Path

from cress.executor import log_times
from cress.executor.attempt_log import open_log
from cress.model.times import MILLISECOND, SECOND

STREAMS = (b"/stdout", b"/stderr")
# µs between two checks of a log: one that fills fast, one that grows, one at rest; and before the first check.
SOONEST, USUAL, SELDOM, FIRST = 10 * MILLISECOND, SECOND, 4 * SECOND, 100 * MILLISECOND
# Bytes: the size of a hole is a multiple of this, or of a block of the file system if that is larger.
STEP = 64 * 1024
# µs between two notes of the sizes of a log that grows.
NOTED = SECOND // 2

_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_UNABLE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_libc = ctypes.CDLL(None, use_errno=True)
_fallocate = getattr(_libc, "fallocate64", None) or _libc.fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class _Log:
    __slots__ = ("gone", "last", "limit", "noted", "pause", "sizes")

    def __init__(self, limit: int, now: int) -> None:
        self.limit = limit
        self.sizes = [0, 0]
        self.gone = [0, 0]
        self.last = now
        self.noted = 0  # when its sizes were last written down
        self.pause = FIRST


class LogLimits:
    """The limited logs in a folder of attempts. Times are microseconds of any monotonic clock."""

    def __init__(self, folder: bytes, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._say = say
        self._logs: dict[int, _Log] = {}
        self._dues: list[tuple[int, int]] = []  # the time of the next check of a log, and its attempt
        self.can_punch = True

    @property
    def due(self) -> int | None:
        """Return the time of the next check."""
        return self._dues[0][0] if self._dues and self.can_punch else None

    def began(self, attempt: int, limit: int, now: int) -> None:
        """Limit each stream of an attempt that starts to write to its last ``limit`` bytes."""
        self._logs[attempt] = _Log(limit, now)
        heapq.heappush(self._dues, (now + FIRST, attempt))

    def over(self, attempt: int, now: int) -> None:
        """Check the logs of an ended attempt for the last time."""
        log = self._logs.pop(attempt, None)
        if log is not None and self.can_punch:
            self._look(attempt, log, now)

    def look(self, now: int) -> None:
        """Check all logs whose time has come."""
        while self.can_punch and self._dues and self._dues[0][0] <= now:
            _, attempt = heapq.heappop(self._dues)
            log = self._logs.get(attempt)
            if log is not None:
                self._look(attempt, log, now)
                heapq.heappush(self._dues, (now + log.pause, attempt))

    def _look(self, attempt: int, log: _Log, now: int) -> None:
        folder, grown = self._folder + b"/%d" % attempt, 0
        for index, name in enumerate(STREAMS):
            try:
                size = os.lstat(folder + name).st_size
                grown += max(0, size - log.sizes[index])
                log.sizes[index] = size
                if size - log.gone[index] >= log.limit + STEP:
                    log.gone[index] = keep_last(folder + name, log.limit)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno in _UNABLE:
                    self.can_punch = False
                    self._say(
                        f"logs are not limited: the file system of {os.fsdecode(self._folder)} cannot make "
                        "holes in files"
                    )
                    return
        if grown and now - log.noted >= NOTED:
            log.noted = now
            with contextlib.suppress(OSError):
                log_times.note(folder, time.time_ns() // 1000, log.sizes)
        passed = max(1, now - log.last)
        if grown:
            # The time in which half of the limit is written.
            log.pause = max(SOONEST, min(USUAL, passed * log.limit // 2 // grown))
        else:
            log.pause = min(SELDOM, 2 * log.pause)
        log.last = now


def keep_last(path: bytes, limit: int) -> int:
    """Return all but the last ``limit`` bytes of a log to the disk; return the number of bytes removed.

    The task owns the folder, so a file that has been replaced, or that has further names, is left alone. Raise OSError.
    """
    fd = open_log(path, os.O_RDWR)
    try:
        status = os.fstat(fd)
        if status.st_nlink != 1:
            return status.st_size
        step = max(STEP, status.st_blksize)
        end = max(0, status.st_size - limit) // step * step
        if end and _fallocate(fd, _PUNCH_HOLE | _KEEP_SIZE, 0, end):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return end
    finally:
        os.close(fd)


def can_punch_holes(folder: Path) -> bool:
    """Return whether the file system of a folder supports holes in files."""
    trial = folder / ".holes"
    try:
        trial.write_bytes(b"")
        trial.write_bytes(bytes(2 * max(STEP, trial.stat().st_blksize)))
        keep_last(os.fsencode(trial), 0)
    except OSError as error:
        return error.errno not in _UNABLE  # other errors, such as a full disk, do not show that holes are unsupported
    else:
        return True
    finally:
        trial.unlink(missing_ok=True)


def first_kept(fd: int) -> int:
    """Return the offset of the first byte still in a log."""
    try:
        return os.lseek(fd, 0, os.SEEK_DATA)
    except OSError as error:
        # ENXIO: the file is empty or one hole. Other errors: the file system does not support holes.
        return os.fstat(fd).st_size if error.errno == errno.ENXIO else 0
