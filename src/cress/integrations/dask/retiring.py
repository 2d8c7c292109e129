"""Retirement of workers: their data move to other workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Any

# Seconds between two attempts while no other worker can take the data; seconds before the end at which they stop.
PAUSE, MARGIN = 0.5, 0.2


async def retire(scheduler: Any, names: Collection[str], *, until: float, close: bool) -> bool:
    """Retire workers: they get no new tasks, their data move to others, and they close.

    Return whether all of them did. While no other worker can take the data, the attempt is repeated ``until`` this
    moment (seconds since the epoch). After that the workers are closed if ``close`` is set.
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
