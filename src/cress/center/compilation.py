"""Compiles the scheduler's kernels after an installation, in a process of its own, while the center interprets them.

As a program (``python -m cress.center.compilation``) it is that process: it reads the dimensions and options from standard
input, fills the cache, and ends early when standard input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable

import msgspec

from cress.core.warm import KERNELS, warm_up
from cress.model.options import Options
from cress.model.resources import Dimensions

# Tasks and the center go first.
NICE = 5


class Wanted(msgspec.Struct):
    """The scheduler for which to compile. Custom ``dimensions`` only."""

    dimensions: tuple[str, ...]
    options: Options


class Compilation:
    """Makes the kernels of a center ready. From the first moment on they are interpreted where the cache has none."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._task: asyncio.Task[None] | None = None
        KERNELS.interpret()

    async def start(self, dimensions: Dimensions, options: Options) -> None:
        """Load the kernels from the cache; when some are not there, compile them in the background."""
        await _load(dimensions, options)
        if not KERNELS.missing:
            KERNELS.compile()
            return
        self._say(
            "compiling the scheduler for this machine, once after an installation; "
            "it works meanwhile, only decisions take longer"
        )
        self._task = asyncio.create_task(self._compile(dimensions, options), name="compilation")

    async def stop(self) -> None:
        """End the compilation; what is compiled already stays in the cache."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _compile(self, dimensions: Dimensions, options: Options) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
        )
        assert process.stdin is not None
        try:
            process.stdin.write(msgspec.msgpack.encode(Wanted(dimensions.custom, options)).hex().encode() + b"\n")
            await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            code = await process.wait()
        if code != 0:
            self._say(f"compiling failed (exit code {code}): decisions take longer; the next start tries again")
            return
        KERNELS.interpret()
        await _load(dimensions, options)
        KERNELS.compile()


async def _load(dimensions: Dimensions, options: Options) -> None:
    await asyncio.to_thread(warm_up, dimensions, options, lambda: KERNELS.missing)


def main() -> None:
    """Compile for the scheduler that is described on standard input."""
    wanted = msgspec.msgpack.decode(bytes.fromhex(sys.stdin.readline()), type=Wanted)
    os.nice(NICE)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    warm_up(Dimensions(wanted.dimensions), wanted.options)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
