"""Compiles the scheduler's kernels after an installation, in a separate process, while the center interprets them.

As a program (``python -m cress.center.process.compilation``) it is that process. It reads the dimensions and options
from standard input, fills the cache, and ends early when standard input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable

import msgspec

from cress.core.scheduler import Scheduler
from cress.core.warm import KERNELS, warm_up
from cress.model.options import Options
from cress.model.resources import Dimensions

# Seconds between two checks for missing kernels.
LOOK_EVERY = 1.0
# The schedulers whose kernels this process has loaded, all of them. A program that is forked from it has them, too.
_COMPLETE: set[tuple[Dimensions, Options]] = set()
# A low priority, so that tasks and the center go first.
NICE = 5


class WantedKernels(msgspec.Struct):
    """The scheduler for which kernels are compiled; ``dimensions`` are the custom ones."""

    dimensions: tuple[str, ...]
    options: Options


class Compilation:
    """Makes the kernels of a center ready; kernels missing from the cache are interpreted at once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._task: asyncio.Task[None] | None = None
        self._loaded: tuple[Dimensions, Options] | None = None
        KERNELS.interpret()

    async def load(self, scheduler: Scheduler) -> None:
        """Load the kernels for a scheduler from the cache, as far as they are there."""
        if self._loaded != (scheduler.dimensions, scheduler.options):
            await _load(scheduler)
            self._loaded = scheduler.dimensions, scheduler.options

    async def start(self, scheduler: Callable[[], Scheduler]) -> None:
        """Load the kernels from the cache; compile missing ones, now and later, in the background.

        ``scheduler`` returns the present scheduler, whose dimensions may change and need other kernels.
        """
        await self.load(scheduler())
        self._task = asyncio.create_task(self._watch(scheduler), name="compilation")

    async def _watch(self, scheduler: Callable[[], Scheduler]) -> None:
        tried: set[tuple[Dimensions, Options]] = set()
        while True:
            core = scheduler()
            if KERNELS.missing and (core.dimensions, core.options) in tried:
                # The artificial workload does not call this kernel, so numba compiles it during normal work.
                KERNELS.compile()
            elif KERNELS.missing:
                tried.add((core.dimensions, core.options))
                if not await self._compile(core):
                    return
            await asyncio.sleep(LOOK_EVERY)

    async def stop(self) -> None:
        """Stop compiling; kernels that are already compiled stay in the cache."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _compile(self, core: Scheduler) -> bool:
        self._say(
            "compiling the scheduler for this machine, once after an installation; "
            "it works meanwhile, only decisions take longer"
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
        )
        assert process.stdin is not None
        try:
            process.stdin.write(
                msgspec.msgpack.encode(WantedKernels(core.dimensions.custom, core.options)).hex().encode() + b"\n"
            )
            await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            code = await process.wait()
        if code != 0:
            self._say(f"compiling failed (exit code {code}): decisions take longer; the next start tries again")
            return False
        KERNELS.interpret()
        await _load(core)
        return True


async def _load(core: Scheduler) -> None:
    await asyncio.to_thread(load_kernels, core.dimensions, core.options)


def load_kernels(dimensions: Dimensions, options: Options) -> None:
    """Load the kernels for such a scheduler from the cache, unless this process has them all."""
    if (dimensions, options) not in _COMPLETE:
        warm_up(dimensions, options, lambda: KERNELS.missing)
        if not KERNELS.missing:
            _COMPLETE.add((dimensions, options))


def main() -> None:
    """Compile for the scheduler described on standard input."""
    wanted = msgspec.msgpack.decode(bytes.fromhex(sys.stdin.readline()), type=WantedKernels)
    os.nice(NICE)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    warm_up(Dimensions(wanted.dimensions), wanted.options)


def _end_with_parent() -> None:
    # Without ``sys.stdin``: the reading thread would hold its lock, without which the interpreter aborts at its exit.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
