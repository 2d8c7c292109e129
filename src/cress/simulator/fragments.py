"""The record of a run's fragments and loans: idle and lent parts of leases over time, and borrowing attempts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cress.core.scheduler import Scheduler
from cress.model.times import SECOND
from cress.simulator.series import Ints, Steps

# µs between two records: a state that lasts less than this may be left out.
_PERIOD = SECOND


@dataclass(frozen=True, kw_only=True)
class Fragments:
    """Cores (thousandths) of leases over time, and of loans.

    ``idle`` is the part that no task uses, ``second_order`` the part of it in leases with loans, ``lent`` the amount on
    loan. ``borrowed`` has the cores that an attempt borrowed, by its position among the attempts.
    """

    idle: Steps
    second_order: Steps
    lent: Steps
    borrowed: dict[int, int]


class FragmentLog:
    """Records the leases of a scheduler while it runs, at most once a second of virtual time."""

    def __init__(self, core: Scheduler) -> None:
        self._core = core
        self._seen = core.pool.stamp
        self._next = 0
        self._times: list[int] = []
        self._rows: list[tuple[int, int, int]] = []
        self._borrowed: dict[int, int] = {}

    def look(self, since: int, *, until: int) -> None:
        """Record the leases as they have been ``since`` the last step; they may change at ``until``, the next step."""
        pool = self._core.pool
        if pool.stamp == self._seen or until <= since or until < self._next:
            return
        self._seen, self._next = pool.stamp, since + _PERIOD
        idle = second = lent = 0
        for lease in pool.leases.values():
            unused = sum(part.amounts[0] for part in lease.idle.values())
            idle += unused
            if lease.lent:
                second += unused
                lent += sum(part.amounts[0] for part in lease.lent)
        self._times.append(since)
        self._rows.append((idle, second, lent))

    def started(self, attempt: int, position: int) -> None:
        """Record the loan of a task that has just started; ``position`` is that of its attempt."""
        borrowed = [part.amounts[0] for part in self._core.attempts[attempt].parts if part.lease is not None]
        if borrowed:
            self._borrowed[position] = sum(borrowed)

    def result(self) -> Fragments | None:
        """Return the record; ``None`` if no lease ever had an idle part."""
        if not any(map(any, self._rows)):
            return None
        times: Ints = np.array(self._times, dtype=np.int64)
        columns = np.array(self._rows, dtype=np.float64).T
        idle, second, lent = (Steps(times, column) for column in columns)
        return Fragments(idle=idle, second_order=second, lent=lent, borrowed=self._borrowed)
