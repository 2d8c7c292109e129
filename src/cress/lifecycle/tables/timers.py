"""Times at which the machine itself acts; the scheduler keeps its own."""

from __future__ import annotations

from typing import TypeAlias

from cress.lifecycle.tables.deadlines import Deadlines

# The kinds of timers of a node, job or family; names of families as ``members.timer_name`` makes them.
Key: TypeAlias = tuple[str, str]

REST = "rest"  # the node takes tasks again
MEASURED = "measured"  # the load of the node should be reported by now
DRAIN = "drain"  # the remaining tasks of the node are stopped
READY = "ready"  # a task without a check counts as ready
UNFIT = "unfit"  # a task of a new version should be ready by now
COUNT = "count"  # the timetable of a service has another count
AGAIN = "again"  # a failed task of a database is started again
MOVE = "move"  # the node of a task of a database was away for too long
MOMENT = "moment"  # a cron job is due
TEND = "tend"  # a service has more work than one step should do
LATE = "late"  # the deadline of a job
RISK = "risk"  # a look at the forecast for the deadline of a job
LOST = "lost"  # a look at the chance of a job with ``late=cancel`` to meet its deadline

MOVES = "moves"  # tasks that are being moved should have arrived
AWAITED = "awaited"  # what a job waits for should be there
TERM = "term"  # the holder of a lease has not renewed its term

OF_DEADLINES = (LATE, RISK, LOST)
OF_FAMILIES, OF_TASKS = (COUNT, MOMENT, TEND), (READY, UNFIT, AGAIN, MOVE)


class Timers:
    """At most one time (µs, the machine's clock) for each kind of event and name."""

    def __init__(self, times: dict[Key, int] | None = None) -> None:
        self._deadlines = Deadlines(times)
        self.times = self._deadlines.times

    def set(self, kind: str, name: str, time: int) -> None:
        """Set the timer to ``time``, in place of an earlier one."""
        self._deadlines.set((kind, name), time)

    def drop(self, kind: str, name: str) -> None:
        """Remove the timer, if there is one."""
        self._deadlines.drop((kind, name))

    def get(self, kind: str, name: str) -> int | None:
        """Return the time of a timer, ``None`` if it is not set."""
        return self.times.get((kind, name))

    def next(self) -> int | None:
        """Return the earliest time."""
        return self._deadlines.next()

    def take(self, now: int) -> list[Key]:
        """Remove and return the timers due at ``now``, in the order of their times."""
        return self._deadlines.take(now)
