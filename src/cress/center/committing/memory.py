"""Memory that jobs needed is given back to the machine when most of them are over."""

from __future__ import annotations

import asyncio
import ctypes

from cress.center.committing.committer import Committer

# Seconds between two looks.
EVERY = 10.0
# Jobs and attempts fewer than at the peak, from which on it is worth a look at the whole heap.
WORTH = 5_000


def give_back() -> None:
    """Return free pages to the kernel; the C library keeps those that lie below others which are in use."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Memory:
    """Gives memory back when half of the jobs and attempts of a peak are over."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._peak = 0

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            if self.is_due():
                # The C library works without Python's lock.
                await asyncio.to_thread(give_back)

    def is_due(self) -> bool:
        """Return whether half of the peak is over; the next peak is counted from there."""
        machine = self._committer.machine
        alive = len(machine.jobs) + len(machine.attempts)
        self._peak = max(self._peak, alive)
        if self._peak - alive < max(WORTH, self._peak // 2):
            return False
        self._peak = alive
        return True
