"""Counts of met and missed deadlines: of all jobs, by tightness, over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cress.simulator.series import Ints
from cress.simulator.workload import NO_LIMIT, Workload

Bools: TypeAlias = npt.NDArray[np.bool_]

DAY = 86_400_000_000
# Longer traces are counted by week.
MOST_DAYS = 60
# If the trace has no tightness: degrees by (deadline - submit) / time limit.
TIGHTNESS = (("tight", 1.5), ("normal", 3.0), ("loose", float("inf")))


@dataclass(frozen=True)
class Count:
    """The number of jobs with a deadline, and of those that met it."""

    having: int
    met: int

    @property
    def missed_share(self) -> float:
        """Return the share that missed the deadline; 0 without deadlines."""
        return (self.having - self.met) / self.having if self.having else 0.0

    def as_data(self) -> dict[str, float]:
        """Return the keys of ``summary.json``."""
        return {"deadlines": self.having, "deadlines_met": self.met, "deadlines_missed_share": self.missed_share}


@dataclass(frozen=True, kw_only=True)
class DeadlineCounts:
    """The counts of a run; ``[n]`` marks the jobs with a deadline and those that met it.

    ``by_time`` has the jobs by submit time, in parts of ``period`` µs from the first submission on.
    """

    having: Bools
    met: Bools
    total: Count
    by_tightness: dict[str, Count]
    by_time: list[Count]
    period: int

    def of(self, jobs: Bools) -> Count:
        """Return the count for some jobs."""
        return _count(self.having & jobs, self.met)


def count_deadlines(workload: Workload, submitted: Bools, end: Ints, finished: Bools, start: int) -> DeadlineCounts:
    """Count the deadlines of the ``submitted`` jobs; 0 without deadlines."""
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
    """Return the names of the degrees, and the degree of each job: as drawn, otherwise by the length of the job."""
    if workload.tightness_index is not None:
        return workload.tightness_names, workload.tightness_index
    length = np.where(workload.limit == NO_LIMIT, workload.run, workload.limit)
    factor = (deadline - workload.submit) / np.maximum(length, 1)
    bounds = [bound for _, bound in TIGHTNESS[:-1]]
    return tuple(name for name, _ in TIGHTNESS), np.searchsorted(bounds, factor, side="right").astype(np.int64)


def _count(having: Bools, met: Bools) -> Count:
    return Count(int(having.sum()), int((having & met).sum()))
