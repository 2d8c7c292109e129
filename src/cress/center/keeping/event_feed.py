"""The feed of events: readers follow the latest events and wait for the next."""

from __future__ import annotations

import asyncio
from collections import Counter

from cress.protocol.cluster_views import EventView
from cress.shell.center.commit import CommitLoop


class EventFeed:
    """The latest events of a commit loop; ``readers`` counts their followers by user."""

    def __init__(self, loop: CommitLoop) -> None:
        self._loop = loop
        self.readers: Counter[str] = Counter()
        self._next: asyncio.Future[None] | None = None

    @property
    def first(self) -> int:
        """The number of the oldest event kept; one more than ``last`` if there is none."""
        return self._loop.events.first

    @property
    def last(self) -> int:
        """The number of the newest event."""
        return self._loop.events.last

    def after(self, number: int, most: int) -> list[EventView]:
        """Return at most ``most`` of the kept events after ``number``, in order."""
        return self._loop.events.after(number, most)

    def tell(self) -> None:
        """Wake all waiting readers."""
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
        self._next = None

    async def wait(self, number: int, seconds: float) -> None:
        """Wait for an event after ``number``, a call of ``tell``, or the timeout."""
        if self.last > number:
            return
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._next,), timeout=seconds)
