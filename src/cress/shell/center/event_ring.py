"""The latest events in compact form: all except the newest are encoded in parts.

As objects they would be hundreds of thousands, created over time among the objects of jobs: small objects that stay
keep the memory of freed ones from being returned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from cress.protocol.cluster_views import EventView

# Number of events that are encoded together.
PART = 256

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[EventView]).decode


class EventRing:
    """The last ``most`` events that were added."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: deque[bytes] = deque()
        self._newest: list[EventView] = []

    def __len__(self) -> int:
        return min(self._most, self._held)

    @property
    def _held(self) -> int:
        return PART * len(self._parts) + len(self._newest)

    def add(self, events: Sequence[EventView]) -> None:
        """Add events in order."""
        self._newest.extend(events)
        whole = len(self._newest) - len(self._newest) % PART
        for first in range(0, whole, PART):
            self._parts.append(_encode(self._newest[first : first + PART]))
        del self._newest[:whole]
        while self._held - PART >= self._most:
            self._parts.popleft()

    def clear(self) -> None:
        """Forget all events."""
        self._parts.clear()
        self._newest.clear()

    def some(self, skip: int, most: int) -> list[EventView]:
        """Return up to ``most`` events after the ``skip`` oldest ones."""
        begin = self._held - len(self) + max(0, skip)
        end = min(self._held, begin + most)
        found: list[EventView] = []
        while begin < end:
            part, place = divmod(begin, PART)
            events = _decode(self._parts[part]) if part < len(self._parts) else self._newest
            found += events[place : place + end - begin]
            begin = (part + 1) * PART
        return found
