"""Garbage collection in small parts: looking at the whole state at once would hold up a large center for half a
second.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

# Allocations before a collection of the youngest objects, and how many of these come before one of the next generation:
# one of the oldest generation looks at some 15,000 objects, which takes a few milliseconds.
THRESHOLDS = (700, 10, 1)
# Seconds between two collections of everything: with so few objects that it takes some 30 ms, and with more.
OFTEN, SELDOM = 3600.0, 86_400.0
FEW = 100_000


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect nothing inside: all that is made there stays, and looking at it again and again takes half of the
    time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Collector:
    """Freezes what has survived a full collection, so that the next one looks only at what is newer.

    Objects are freed without the collector as soon as nobody refers to them; it is needed for circles only. Circles of
    frozen objects stay until everything is collected, which ``run`` does now and then.
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
        """Collect in small parts, and everything now and then, until cancelled."""
        with self:
            while True:
                await asyncio.sleep(OFTEN)
                self.hour_over()

    def hour_over(self) -> None:
        """Collect everything if there is little of it, or if that was long ago."""
        self._since += OFTEN
        if gc.get_freeze_count() <= FEW or self._since >= SELDOM:
            self._since = 0.0
            gc.unfreeze()
            self._collect_all()

    @staticmethod
    def _collect_all() -> None:
        gc.collect()
        gc.freeze()
        # The interpreter puts a full collection off until a quarter of what the last one looked at has been added: that
        # must be little.
        gc.collect()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()
