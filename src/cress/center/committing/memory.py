"""Returns memory to the operating system: of ended jobs when most of them are over, and of large messages."""

from __future__ import annotations

import asyncio
import ctypes

from cress.center.committing.committer import Committer

# Seconds between two checks.
EVERY = 10.0
# The decrease of jobs and attempts since the peak that justifies a pass over the whole heap.
WORTH = 5_000
# Bytes of large messages of executors that justify it.
WORTH_BYTES = 4 * 2**20


def give_back() -> None:
    """Return free pages to the kernel; by itself the C library keeps free pages below used ones."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Memory:
    """Returns memory when half of the jobs and attempts of a peak have ended, or after large messages."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._peak = 0

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            if self.is_due():
                # The C library works without Python's lock, so a thread does not block the loop.
                await asyncio.to_thread(give_back)

    def is_due(self) -> bool:
        """Return whether half of the peak has ended, or large messages were read; both are counted from there."""
        machine = self._committer.machine
        if self._committer.large_bytes >= WORTH_BYTES:
            self._committer.large_bytes = 0
            return True
        alive = len(machine.jobs) + len(machine.attempts)
        self._peak = max(self._peak, alive)
        if self._peak - alive < max(WORTH, self._peak // 2):
            return False
        self._peak = alive
        return True
