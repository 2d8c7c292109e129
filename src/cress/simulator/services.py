"""The task counts that services and databases want over time, and the task time that they lacked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cress.simulator.series import Ints, Steps, accumulate


@dataclass(frozen=True, kw_only=True)
class ServiceCounts:
    """Changes of wanted task counts, ``[c]``, in order of time.

    ``job`` (a position in the workload) wants ``tasks`` from ``time`` on.
    """

    job: Ints
    time: Ints
    tasks: Ints

    @property
    def jobs(self) -> list[int]:
        """Return the services and databases, by position."""
        found: list[int] = np.unique(self.job).tolist()
        return found

    def wanted(self, job: int) -> Steps:
        """Return the task count of one of them over time."""
        mine = self.job == job
        return Steps(self.time[mine], self.tasks[mine].astype(np.float64))


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """The task time that services and databases wanted and lacked, as shares of the wanted time, until ``end``.

    ``worst`` is the largest share, that of the service at the position ``job``.
    """

    whole: float
    worst: float
    job: int


def shortage_of(counts: ServiceCounts, job: Ints, start: Ints, end: Ints, until: int) -> Shortage:
    """Compare the wanted counts with the attempts ``[m]`` of each service: its job, start and end (µs)."""
    whole = lacked = worst = 0.0
    culprit = counts.jobs[0]
    for number in counts.jobs:
        mine = job == number
        moments = np.concatenate([start[mine], end[mine]])
        running = accumulate(moments, np.repeat(np.array([1, -1]), int(mine.sum())))
        wanted = counts.wanted(number)
        times = np.union1d(running.times, wanted.times)
        missing = Steps(times, np.maximum(0.0, wanted.at(times) - running.at(times)))
        first, last = int(wanted.times[0]), max(until, int(wanted.times[0]) + 1)
        own = wanted.mean(first, last) * (last - first)
        short = missing.mean(first, last) * (last - first)
        whole, lacked = whole + own, lacked + short
        if own and short / own > worst:
            worst, culprit = short / own, number
    return Shortage(whole=lacked / whole if whole else 0.0, worst=worst, job=culprit)
