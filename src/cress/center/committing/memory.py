"""Returns memory of ended jobs to the operating system when most of them are over."""

from __future__ import annotations

import asyncio
import ctypes

from cress.center.committing.committer import Committer

# Seconds between two checks.
EVERY = 10.0
# The decrease of jobs and attempts since the peak that justifies a pass over the whole heap.
WORTH = 5_000


def give_back() -> None:
    """Return free pages to the kernel; by itself the C library keeps free pages below used ones."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Memory:
    """Returns memory when half of the jobs and attempts of a peak have ended."""

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
        """Return whether half of the peak has ended; the next peak is counted from there."""
        machine = self._committer.machine
        alive = len(machine.jobs) + len(machine.attempts)
        self._peak = max(self._peak, alive)
        if self._peak - alive < max(WORTH, self._peak // 2):
            return False
        self._peak = alive
        return True
