"""Garbage collection in small parts: a pass over the whole state would block a large center for half a second."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

# Allocations before a collection of the youngest objects, and collections before one of the next generation. One of the
# oldest generation examines some 15,000 objects, which takes a few milliseconds.
THRESHOLDS = (700, 10, 1)
# Seconds between two full collections, with few objects (some 30 ms) and with more; the most objects that are few.
OFTEN, SELDOM = 3600.0, 86_400.0
FEW = 100_000


@contextmanager
def no_collection() -> Iterator[None]:
    """Suspend collection inside: all new objects there stay, and examining them repeatedly would double the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Collector:
    """Freezes the survivors of a full collection, so that the next one examines only newer objects.

    Unreferenced objects are freed without the collector, which is needed for reference cycles only. Cycles of frozen
    objects stay until the next full collection, which ``run`` makes from time to time.
    """

    def __init__(self) -> None:
        self._before = gc.get_threshold()
        self._since = 0.0

    def __enter__(self) -> Self:
        self._collect_all()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._collected)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._collected)
        gc.set_threshold(*self._before)
        gc.unfreeze()

    async def run(self) -> None:
        """Collect in small parts, and fully from time to time, until cancelled."""
        with self:
            while True:
                await asyncio.sleep(OFTEN)
                self.hour_over()

    def hour_over(self) -> None:
        """Collect fully if there are few objects, or the last time was long ago."""
        self._since += OFTEN
        if gc.get_freeze_count() <= FEW or self._since >= SELDOM:
            self._since = 0.0
            gc.unfreeze()
            self._collect_all()

    @staticmethod
    def _collect_all() -> None:
        gc.collect()
        gc.freeze()
        # The interpreter postpones a full collection until the objects have grown by a quarter of those last examined,
        # so these must be few.
        gc.collect()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()
