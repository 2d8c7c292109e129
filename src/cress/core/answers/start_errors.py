"""Errors of expected starts, and the interval that follows from them for the next ones (design note 0054).

A run forward gives one wait. It knows no later jobs, and its estimates are wrong. So the interval is learned: each
start is compared with what was foretold, and the interval of a new forecast comes from the errors of forecasts like it:
of about the same wait, and with about the same room for error between the estimates and the time limits. The bounds are
moved until one start in ten is earlier, and one in ten is later.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from math import exp, log
from typing import NamedTuple

import numpy as np

from cress.model.times import SECOND

# An error is the logarithm of (wait + LEAST) / (foretold wait + LEAST), so short waits count little.
LEAST = 60 * SECOND
# The errors that are remembered, and how fast older ones count less.
MOST, FADING = 500, 0.995
# Forecasts are alike within these distances: of the logarithm of the wait, and of that of wait by limits / wait.
ALIKE = np.array([[1.2], [0.7]])
# The share of the starts that is outside at each end, and how fast a bound is moved when it was wrong.
OUTSIDE, STEP = 0.1, 0.02
# How fast a bound goes beyond all errors that were seen: it doubles for each tenth.
BEYOND = 10 * log(2.0)
# Before anything was learned: a fifth of the wait to three times the wait, as runs often end long before their limits.
# It counts as this many errors. With half to twice, the first 40 intervals of a log held 50 to 75 % (design note 0102).
PRIOR = np.array([-log(5.0), -log(2.0), 0.0, log(1.7), log(3.0)])
PRIOR_WEIGHT = 5.0
# The number of starts from which on something was learned.
ENOUGH = 20
# The most forecasts whose starts are waited for; beyond it the oldest are dropped.
MOST_OPEN = 5_000


class Interval(NamedTuple):
    """The wait of a job from the moment of its forecast (µs): earliest, likely and latest."""

    earliest: int
    likely: int
    latest: int


class _Awaited(NamedTuple):
    """A forecast whose job still waits: its moment (µs), its place among forecasts, and the interval."""

    at: int
    place: tuple[float, float]
    told: Interval


class StartErrors:
    """The errors of earlier forecasts, and the bounds of the next one."""

    def __init__(self) -> None:
        # The place of a forecast and its error; the newest last.
        self._seen: deque[tuple[float, float, float]] = deque(maxlen=MOST)
        self._table = np.zeros((3, 0))
        # The shares at which the two bounds are taken; they move with what came out.
        self.low, self.high = OUTSIDE, 1 - OUTSIDE
        self._open: dict[int, _Awaited] = {}
        self._late: set[int] = set()

    def interval(self, wait: int, by_limits: int | None) -> Interval:
        """Return the interval for a job that waits ``wait`` µs in a run forward by the means of the estimates.

        ``by_limits`` is its wait if all tasks take their time limits; ``None`` if these are not known.
        """
        if self._table.shape[1] != len(self._seen):
            self._table = np.array(self._seen, np.float64).reshape(-1, 3).T
        errors = self._table[2]
        age = np.arange(len(errors) - 1, -1, -1)
        distances = (self._table[:2] - np.array([_place(wait, by_limits)]).T) / ALIKE
        weights = FADING**age / ((1 + distances**2) ** 2).prod(axis=0)
        errors = np.concatenate([PRIOR, errors])
        weights = np.concatenate([np.full(len(PRIOR), PRIOR_WEIGHT / len(PRIOR)), weights])
        order = np.argsort(errors)
        errors, sums = errors[order], np.cumsum(weights[order])
        shares = (sums - weights[order] / 2) / sums[-1]
        found = np.interp((self.low, 0.5, self.high), shares, errors)
        # A share outside 0 … 1 is beyond all errors that were seen.
        found[0] -= BEYOND * max(0.0, -self.low)
        found[2] += BEYOND * max(0.0, self.high - 1)
        early, likely, late = (max(0, round((wait + LEAST) * exp(error)) - LEAST) for error in found)
        return Interval(min(early, likely), likely, max(late, likely))

    def told(self, job: int, now: int, wait: int, by_limits: int | None, interval: Interval) -> None:
        """Remember the forecast of a job, made ``now``; only the first one of a job counts."""
        if job not in self._open:
            self._open[job] = _Awaited(now, _place(wait, by_limits), interval)
            if len(self._open) > MOST_OPEN:
                for old in list(islice(self._open, len(self._open) - MOST_OPEN)):
                    self.dropped(old)

    @property
    def learned(self) -> bool:
        """Return whether enough starts were seen for an interval from their errors."""
        return len(self._seen) >= ENOUGH

    def awaited(self) -> tuple[int, ...]:
        """Return the jobs whose starts are waited for."""
        return tuple(self._open)

    def waits(self, now: int) -> None:
        """Learn that jobs still wait: a start that is too late is known before it comes."""
        for job, known in self._open.items():
            if job not in self._late and now > known.at + known.told.latest:
                self._late.add(job)
                self._see(known, now - known.at)
                self._move(later=True)

    def started(self, job: int, now: int) -> None:
        """Learn from the start of a job."""
        known = self._open.pop(job, None)
        if known is None:
            return
        wait = now - known.at
        self._see(known, wait)
        if job in self._late:
            self._late.remove(job)
        else:
            self._move(earlier=wait < known.told.earliest, later=wait > known.told.latest)

    def _see(self, known: _Awaited, wait: int) -> None:
        """Remember the error of a forecast whose job waits ``wait`` µs, or at least so long."""
        self._seen.append((*known.place, log(wait + LEAST) - known.place[0]))
        self._table = np.zeros((3, 0))

    def dropped(self, job: int) -> None:
        """Forget a job that will not start, for example because it was cancelled."""
        self._open.pop(job, None)
        self._late.discard(job)

    def _move(self, *, earlier: bool = False, later: bool = False) -> None:
        """Move the bounds by what came out: outward after a miss, a little inward after each start."""
        self.low = min(0.5, max(-1.0, self.low + STEP * (OUTSIDE - earlier)))
        self.high = max(0.5, min(2.0, self.high - STEP * (OUTSIDE - later)))


def _place(wait: int, by_limits: int | None) -> tuple[float, float]:
    """Return the place of a forecast among others: logarithms of the wait, and of wait by limits / wait."""
    first = log(wait + LEAST)
    return first, 0.0 if by_limits is None else log(by_limits + LEAST) - first
