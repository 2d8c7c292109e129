"""Times at which the machine itself changes something; what the scheduler waits for is in the scheduler."""

from __future__ import annotations

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


class Timers:
    """At most one time (µs, the machine's clock) for each key."""

    def __init__(self) -> None:
        self.times: dict[Key, int] = {}

    def set(self, kind: str, name: str, time: int) -> None:
        """Let it be due at ``time``, and at no other one."""
        self.times[kind, name] = time

    def drop(self, kind: str, name: str) -> None:
        """It is not to happen any more."""
        self.times.pop((kind, name), None)

    def get(self, kind: str, name: str) -> int | None:
        """When it is due, if ever."""
        return self.times.get((kind, name))

    def next(self) -> int | None:
        """The earliest time."""
        return min(self.times.values(), default=None)

    def take(self, now: int) -> list[Key]:
        """What is due at ``now``, in the order of its times, and no timer any more."""
        due = sorted((time, key) for key, time in self.times.items() if time <= now)
        for _, key in due:
            del self.times[key]
        return [key for _, key in due]
