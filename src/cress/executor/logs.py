"""Reading what attempts wrote."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path

from cress.protocol.messages import LogData, ReadLog

STREAMS = ("stdout", "stderr")
# At most so much in one answer, whatever is asked for.
MOST = 1 << 20
# Between two looks for new data, in seconds. inotify would be prompter by half of it.
POLL = 0.02


async def read(folder: Path, order: ReadLog, is_live: Callable[[int], bool]) -> LogData:
    """Answer ``order`` from the files below ``folder``; ``is_live`` says whether an attempt may still write."""
    if order.stream not in STREAMS:
        return LogData(id=order.id, over=True, error=f"no stream {order.stream[:20]!r}; one of {', '.join(STREAMS)}")
    if order.offset < 0 or order.attempt < 0:
        return LogData(id=order.id, over=True, error="offset and attempt are not negative")
    path = folder / str(int(order.attempt)) / order.stream
    limit = max(1, min(order.limit, MOST))
    loop = asyncio.get_running_loop()
    end = loop.time() + order.wait / 1000
    while True:
        # In this order: what was written before the end is read after it.
        live = is_live(order.attempt)
        try:
            data = _read(path, order.offset, limit)
        except FileNotFoundError:
            if not live:
                why = "" if path.parent.is_dir() else f"nothing is known of attempt {order.attempt} on this node"
                return LogData(id=order.id, over=True, error=why)
            data = b""
        except OSError as error:
            return LogData(id=order.id, over=True, error=f"{order.stream} cannot be read: {error.strerror}")
        if data or not live or loop.time() >= end:
            return LogData(id=order.id, data=data, over=not live and len(data) < limit)
        await asyncio.sleep(POLL)


def _read(path: Path, offset: int, limit: int) -> bytes:
    # The task owns the folder: what stands there may have become a link or a pipe.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "it is no file any more")
        return os.pread(fd, limit, offset)
    finally:
        os.close(fd)
