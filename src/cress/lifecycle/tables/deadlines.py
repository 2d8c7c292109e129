"""Deadlines: a table of times by key with a heap, so that the earliest is found without a search."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any, Generic, Protocol, TypeVar


class _Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


K = TypeVar("K", bound=_Ordered)


class Deadlines(Generic[K]):
    """At most one time (µs, the machine's clock) for each key, in the table ``times``, which no other object writes."""

    def __init__(self, times: dict[K, int] | None = None) -> None:
        self.times = {} if times is None else times
        # Every time of ``times``, and outdated ones, which are dropped when they come to the top.
        self._order: list[tuple[int, K]] = [(time, key) for key, time in self.times.items()]
        heapify(self._order)

    def set(self, key: K, time: int) -> None:
        """Set the time of a key, in place of an earlier one."""
        if self.times.get(key) == time:
            return
        self.times[key] = time
        heappush(self._order, (time, key))
        if len(self._order) > 2 * len(self.times) + 64:
            self._order = [(time, key) for key, time in self.times.items()]
            heapify(self._order)

    def drop(self, key: K) -> None:
        """Remove the time of a key, if it has one."""
        self.times.pop(key, None)

    def next(self) -> int | None:
        """Return the earliest time."""
        order = self._order
        while order and self.times.get(order[0][1]) != order[0][0]:
            heappop(order)
        return order[0][0] if order else None

    def take(self, now: int) -> list[K]:
        """Remove and return the keys due at ``now``, ordered by time, then by key."""
        due = []
        while (time := self.next()) is not None and time <= now:
            _, key = heappop(self._order)
            del self.times[key]
            due.append(key)
        return due
