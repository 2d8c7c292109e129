"""Workers that leave in good order: their data move to others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Any

# Seconds between two tries, while there is no other worker that could take the data; seconds before the end at which it
# is given up.
PAUSE, MARGIN = 0.5, 0.2


async def retire(scheduler: Any, names: Collection[str], *, until: float, close: bool) -> bool:
    """Retire workers: no new tasks, their data to other workers, then they are closed; return whether all of them were.

    As long as no other worker can take the data, it is tried again ``until`` this moment (seconds since the epoch);
    then they are closed if ``close`` says so.
    """
    while True:
        there = [worker.address for worker in scheduler.workers.values() if str(worker.name) in names]
        if not there:
            return True
        await scheduler.retire_workers(workers=there, close_workers=True)
        there = [address for address in there if address in scheduler.workers]
        if there and time.time() + PAUSE + MARGIN > until:
            break
        if there:
            await asyncio.sleep(PAUSE)
    for address in there if close else ():
        await scheduler.remove_worker(address, expected=True, close=True, stimulus_id="lease-given-back")
    return False
