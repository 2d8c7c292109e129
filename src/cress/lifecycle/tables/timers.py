"""Times at which the machine itself changes something; what the scheduler waits for is in the scheduler."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TypeAlias

# What is to happen, and to which node; or family, as ``members.timer_name`` has it.
Key: TypeAlias = tuple[str, str]

REST = "rest"  # the node takes tasks again
DRAIN = "drain"  # what still runs on the node is stopped
READY = "ready"  # a task that has no check counts as ready
UNFIT = "unfit"  # a task of a new version should be ready by now
COUNT = "count"  # the timetable of a service says another count
AGAIN = "again"  # a task of a database that failed is started again
MOVE = "move"  # the node of a task of a database was away for too long
MOMENT = "moment"  # a cron job is due

OF_FAMILIES, OF_TASKS = (COUNT, MOMENT), (READY, UNFIT, AGAIN, MOVE)


class Timers:
    """At most one time (µs, the machine's clock) for each key."""

    def __init__(self, times: dict[Key, int] | None = None) -> None:
        self.times = {} if times is None else times
        # Every time of ``times``, and some that do not hold any more: these are dropped when they come to its top.
        self._order: list[tuple[int, Key]] = [(time, key) for key, time in self.times.items()]
        heapify(self._order)

    def set(self, kind: str, name: str, time: int) -> None:
        """Let it be due at ``time``, and at no other one."""
        key = (kind, name)
        if self.times.get(key) == time:
            return
        self.times[key] = time
        heappush(self._order, (time, key))
        if len(self._order) > 2 * len(self.times) + 64:
            self._order = [(time, key) for key, time in self.times.items()]
            heapify(self._order)

    def drop(self, kind: str, name: str) -> None:
        """It is not to happen any more."""
        self.times.pop((kind, name), None)

    def get(self, kind: str, name: str) -> int | None:
        """When it is due, if ever."""
        return self.times.get((kind, name))

    def next(self) -> int | None:
        """The earliest time."""
        order = self._order
        while order and self.times.get(order[0][1]) != order[0][0]:
            heappop(order)
        return order[0][0] if order else None

    def take(self, now: int) -> list[Key]:
        """What is due at ``now``, in the order of its times, and no timer any more."""
        due = []
        while (time := self.next()) is not None and time <= now:
            _, key = heappop(self._order)
            del self.times[key]
            due.append(key)
        return due
