"""The cluster over the hours of the day: resources reserved, used and wanted by services, and the peak."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cress.model.groups.timetable import local_time
from cress.model.times import DAY, HOUR, SECOND
from cress.simulator.attempts import AttemptHistory, Attempts
from cress.simulator.series import Floats, Ints, Steps, accumulate
from cress.simulator.services import Shortage, shortage_of
from cress.simulator.workload import NO_LIMIT, Workload

HOURS = 24
PEAK_HOURS = 4


@dataclass(frozen=True, kw_only=True)
class DayMeasures:
    """Means of each hour of day ``[24]``, as shares of the cores of the cluster.

    ``touched`` is the part of each hour of day (µs) within the measured time; an hour without any is left out. ``used``
    are the cores that the tasks use of those that they reserve. ``wanted`` are the cores that services and databases
    want. The peak are the ``PEAK_HOURS`` consecutive hours with the highest sum of ``wanted``; without services, of
    ``reserved``. ``short`` is the shortage of the services, ``None`` without services.
    """

    reserved: Floats
    used: Floats
    wanted: Floats
    touched: Floats
    peak: int
    short: Shortage | None

    @property
    def peak_hours(self) -> list[int]:
        """Return the hours of day of the peak."""
        return [(self.peak + i) % HOURS for i in range(PEAK_HOURS)]

    def _mean(self, values: Floats, hours: list[int]) -> float:
        weights = self.touched[hours]
        return float((values[hours] * weights).sum() / max(1.0, weights.sum()))

    def summary(self) -> dict[str, float]:
        """Return the measures for ``summary.json``."""
        result: dict[str, float] = {
            "peak_from_h": self.peak,
            "reserved_peak_mean": self._mean(self.reserved, self.peak_hours),
            "used_peak_mean": self._mean(self.used, self.peak_hours),
            "reserved_day_mean": self._mean(self.reserved, [*range(HOURS)]),
            "used_day_mean": self._mean(self.used, [*range(HOURS)]),
        }
        if self.short is not None:
            result |= {"services_short_share": self.short.whole, "services_short_worst": self.short.worst}
        return result


def has_day(workload: Workload, history: AttemptHistory) -> bool:
    """Return whether the measures of the day are meaningful.

    They are if there are services, or if it is known how many cores tasks use of those that they reserve.
    """
    return history.services is not None or "cpu" in workload.used


def day_of(workload: Workload, history: AttemptHistory) -> DayMeasures:
    """Return the measures from the first submission to the last one, or to the end of the last service."""
    attempts = history.attempts
    start, end = window(workload)
    total = workload.cluster.total()[0] or 1
    cores = np.array([request[0] for request in workload.requests], dtype=np.float64)[workload.request_index] / total
    in_use = workload.used["cpu"] / total if "cpu" in workload.used else cores
    edges = _hours(workload, start, end)
    touched = np.diff(edges).reshape(-1, HOURS).sum(axis=0).astype(np.float64)
    reserved = _by_hour(_held(attempts, cores[attempts.job]), edges, touched)
    used = _by_hour(_held(attempts, in_use[attempts.job]), edges, touched)
    wanted, short = np.zeros(HOURS), None
    counts = history.services
    if counts is not None:
        for job in counts.jobs:
            wanted += _by_hour(counts.wanted(job), edges, touched) * cores[job]
        short = shortage_of(counts, attempts.job, attempts.start, attempts.end, end)
    decisive = reserved if counts is None else wanted
    sums = [float(sum(decisive[(hour + i) % HOURS] for i in range(PEAK_HOURS))) for hour in range(HOURS)]
    peak = int(np.argmax(np.round(sums, 9)))
    return DayMeasures(reserved=reserved, used=used, wanted=wanted, touched=touched, peak=peak, short=short)


def window(workload: Workload) -> tuple[int, int]:
    """Return the time (µs) from the first submission to the last one, or to the latest ``until``."""
    start, end = int(workload.submit.min()), int(workload.submit.max())
    if workload.until is not None and (workload.until != NO_LIMIT).any():
        end = max(end, int(workload.until.max()))
    return start, max(end, start + 1)


def _held(attempts: Attempts, amount: Floats) -> Steps:
    """Return the sum over time of the amounts ``[m]`` that the attempts hold."""
    return accumulate(np.concatenate([attempts.start, attempts.end]), np.concatenate([amount, -amount]))


def _hours(workload: Workload, start: int, end: int) -> Ints:
    """Return the beginnings of all hours from ``start`` to ``end``, by the wall clock at the start.

    The first and the last hour are cut at ``start`` and ``end``.
    """
    # A change of the clocks in this time is ignored.
    local = local_time(workload.utc + start, workload.zone)
    midnight = start - ((local.hour * 60 + local.minute) * 60 + local.second) * SECOND - local.microsecond
    count = -(-(end - midnight) // DAY) * HOURS
    return np.clip(midnight + HOUR * np.arange(count + 1, dtype=np.int64), start, end)


def _by_hour(steps: Steps, edges: Ints, touched: Floats) -> Floats:
    """Return the mean over each hour of day ``[24]``; 0 for hours outside the measured time."""
    pieces = np.diff(steps.integral(edges)).reshape(-1, HOURS).sum(axis=0)
    found: Floats = np.where(touched > 0, pieces / np.maximum(touched, 1), 0.0)
    return found
