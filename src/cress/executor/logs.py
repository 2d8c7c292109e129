"""Reading the output of attempts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from cress.executor.attempt_log import open_log
from cress.executor.log_limits import first_kept
from cress.protocol.messages import LogData, ReadLog

# What the program writes, and the times at which that was seen (``log_times``).
STREAMS = ("stdout", "stderr", "times")
# Most bytes in one answer.
MOST = 1 << 20
# Seconds between two checks for new data; inotify would halve the delay on average.
POLL = 0.02


async def read(folder: Path, order: ReadLog, is_live: Callable[[int], bool]) -> LogData:
    """Return the answer to ``order`` from the files below ``folder``; ``is_live``: an attempt may still write."""
    if order.stream not in STREAMS:
        return LogData(id=order.id, over=True, error=f"no stream {order.stream[:20]!r}; one of {', '.join(STREAMS)}")
    path = folder / str(int(order.attempt)) / order.stream
    limit = max(1, min(order.limit, MOST))
    loop = asyncio.get_running_loop()
    end = loop.time() + order.wait / 1000
    while True:
        # In this order, so that the last bytes of an attempt are included.
        live = is_live(order.attempt)
        try:
            gone, kept, data = _read(path, order.offset, limit)
        except FileNotFoundError:
            if not live:
                why = "" if path.parent.is_dir() else f"nothing is known of attempt {order.attempt} on this node"
                return LogData(id=order.id, over=True, error=why)
            gone, kept, data = 0, 0, b""
        except OSError as error:
            return LogData(id=order.id, over=True, error=f"{order.stream} cannot be read: {error.strerror}")
        if data or not live or loop.time() >= end:
            over = not live and len(data) < limit
            return LogData(id=order.id, data=data, over=over, gone=gone, kept=kept if gone else 0)
        await asyncio.sleep(POLL)


def _read(path: Path, offset: int, limit: int) -> tuple[int, int, bytes]:
    """Return the number of bytes gone from ``offset`` on, the number of bytes kept, and the data behind the gap."""
    fd = open_log(str(path), os.O_RDONLY)
    try:
        while True:
            size, first = os.fstat(fd).st_size, first_kept(fd)
            start = max(offset, min(first, size))
            data = os.pread(fd, limit, start)
            # A hole made in the meantime reads as zeros, so the data is read again.
            if first_kept(fd) <= start or not data:
                return start - offset, size - first, data
    finally:
        os.close(fd)
