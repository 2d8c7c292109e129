"""Deadlines that were met and missed: of all jobs, by tightness, over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cress.simulator.series import Ints
from cress.simulator.workload import NO_LIMIT, Workload

Bools: TypeAlias = npt.NDArray[np.bool_]

DAY = 86_400_000_000
# Longer traces are counted by weeks.
MOST_DAYS = 60
# Where the trace does not say how tight a deadline is: by (deadline - submit) / time limit.
TIGHTNESS = (("tight", 1.5), ("normal", 3.0), ("loose", float("inf")))


@dataclass(frozen=True)
class Count:
    """Jobs that have a deadline, and of these those that met it."""

    having: int
    met: int

    @property
    def missed_share(self) -> float:
        """The share that missed it; 0 of none."""
        return (self.having - self.met) / self.having if self.having else 0.0

    def as_data(self) -> dict[str, float]:
        """The keys of ``summary.json``."""
        return {"deadlines": self.having, "deadlines_met": self.met, "deadlines_missed_share": self.missed_share}


@dataclass(frozen=True, kw_only=True)
class DeadlineCounts:
    """The counts of a run; ``[n]`` marks the jobs with a deadline and those that met it.

    ``by_time`` are the jobs by the time of their submission, in parts of ``period`` µs from the first submission on.
    """

    having: Bools
    met: Bools
    total: Count
    by_tightness: dict[str, Count]
    by_time: list[Count]
    period: int

    def of(self, jobs: Bools) -> Count:
        """Return the count of some jobs."""
        return _count(self.having & jobs, self.met)


def count_deadlines(workload: Workload, submitted: Bools, end: Ints, finished: Bools, start: int) -> DeadlineCounts:
    """Count the deadlines of the jobs that were ``submitted``; without deadlines there are none."""
    deadline = workload.deadline
    if deadline is None:
        deadline = np.full(len(workload), NO_LIMIT, dtype=np.int64)
    having = submitted & (deadline != NO_LIMIT)
    met = having & finished & (end <= deadline)
    names, index = tightness(workload, deadline)
    last = int(workload.submit[having].max()) if having.any() else start
    period = DAY if last - start <= MOST_DAYS * DAY else 7 * DAY
    part = (workload.submit - start) // period
    return DeadlineCounts(
        having=having,
        met=met,
        total=_count(having, met),
        by_tightness={name: _count(having & (index == i), met) for i, name in enumerate(names)},
        by_time=[_count(having & (part == i), met) for i in range(int((last - start) // period) + 1)],
        period=period,
    )


def tightness(workload: Workload, deadline: Ints) -> tuple[tuple[str, ...], Ints]:
    """The names of the degrees, and the degree of each job: as they were drawn, else by the length of the job."""
    if workload.tightness_index is not None:
        return workload.tightness_names, workload.tightness_index
    length = np.where(workload.limit == NO_LIMIT, workload.run, workload.limit)
    factor = (deadline - workload.submit) / np.maximum(length, 1)
    bounds = [bound for _, bound in TIGHTNESS[:-1]]
    return tuple(name for name, _ in TIGHTNESS), np.searchsorted(bounds, factor, side="right").astype(np.int64)


def _count(having: Bools, met: Bools) -> Count:
    return Count(int(having.sum()), int((having & met).sum()))
