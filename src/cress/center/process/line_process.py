"""A process beside the center that gets orders and gives results, a line each; it ends with its center.

The first line of the center has the settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable

# Longest line of the center in bytes.
MOST_BYTES = 2**20


async def converse(
    module: str,
    settings: bytes,
    ask: Callable[[asyncio.StreamWriter], Awaitable[None]],
    take: Callable[[bytes], Awaitable[None]],
    begun: Callable[[int], None] = lambda _: None,
) -> None:
    """Start the process of a module, and return when it has ended.

    ``ask`` writes orders until it is cancelled, ``take`` gets each result, ``begun`` the id of the process. Raises
    OSError if the process cannot be used, and what ``take`` raises.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        begun(process.pid)
        process.stdin.write(settings + b"\n")
        asking = asyncio.ensure_future(ask(process.stdin))
        try:
            while line := await process.stdout.readline():
                await take(line)
        finally:
            asking.cancel()
            await asyncio.wait((asking,))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def orders_of_center() -> asyncio.StreamReader:
    """Return the lines of the center, in the process itself."""
    lines = asyncio.StreamReader(MOST_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer)
    return lines


def answer(line: bytes) -> None:
    """Send a result to the center, from the process itself."""
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
