"""Times at which the machine itself changes something; what the scheduler waits for is in the scheduler."""

from __future__ import annotations

from typing import TypeAlias

from cress.lifecycle.tables.deadlines import Deadlines

# What is to happen, and to which node or job; or family, as ``members.timer_name`` has it.
Key: TypeAlias = tuple[str, str]

REST = "rest"  # the node takes tasks again
MEASURED = "measured"  # the load of the node should be known by now
DRAIN = "drain"  # what still runs on the node is stopped
READY = "ready"  # a task that has no check counts as ready
UNFIT = "unfit"  # a task of a new version should be ready by now
COUNT = "count"  # the timetable of a service says another count
AGAIN = "again"  # a task of a database that failed is started again
MOVE = "move"  # the node of a task of a database was away for too long
MOMENT = "moment"  # a cron job is due
TEND = "tend"  # a service has more to do than one step should take
LATE = "late"  # the deadline of a job
RISK = "risk"  # a look at the forecast for the deadline of a job
LOST = "lost"  # a look at whether a job with ``late=cancel`` can still meet its deadline

MOVES = "moves"  # tasks that are being moved should have arrived
TERM = "term"  # the holder of a lease was not heard of

OF_DEADLINES = (LATE, RISK, LOST)
OF_FAMILIES, OF_TASKS = (COUNT, MOMENT, TEND), (READY, UNFIT, AGAIN, MOVE)


class Timers:
    """At most one time (µs, the machine's clock) for each kind of event and name."""

    def __init__(self, times: dict[Key, int] | None = None) -> None:
        self._deadlines = Deadlines(times)
        self.times = self._deadlines.times

    def set(self, kind: str, name: str, time: int) -> None:
        """Let it be due at ``time``, and at no other time."""
        self._deadlines.set((kind, name), time)

    def drop(self, kind: str, name: str) -> None:
        """Remove the timer, if there is one."""
        self._deadlines.drop((kind, name))

    def get(self, kind: str, name: str) -> int | None:
        """Return when it is due, ``None`` if it is not."""
        return self.times.get((kind, name))

    def next(self) -> int | None:
        """Return the earliest time."""
        return self._deadlines.next()

    def take(self, now: int) -> list[Key]:
        """Remove and return the timers that are due at ``now``, in the order of their times."""
        return self._deadlines.take(now)
