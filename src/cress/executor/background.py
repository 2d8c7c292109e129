"""Daemon threads for blocking work.

Unlike the threads of a pool, they do not keep the program alive when a file system hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def in_background(work: Callable[[], _T]) -> asyncio.Future[_T]:
    """Run the work in a daemon thread; the future has its result or its exception."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def over(result: _T | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:  # noqa: BLE001 – the future carries it
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(over, result, error)

    threading.Thread(target=run, daemon=True).start()
    return future
