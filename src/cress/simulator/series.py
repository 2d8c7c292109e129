"""Step functions of time: amounts that change at moments and are constant in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Steps:
    """``values[i]`` applies from ``times[i]`` until ``times[i + 1]``; before the first moment the value is 0.

    ``times`` are strictly increasing microseconds. After the last moment the last value applies.
    """

    times: Ints
    values: Floats

    def at(self, times: Ints) -> Floats:
        """Return the values at these moments, including changes at that very moment."""
        position = np.searchsorted(self.times, times, side="right") - 1
        if not len(self.times):
            return np.zeros(len(times))
        return np.where(position >= 0, self.values[position], 0.0)

    def integral(self, until: Ints) -> Floats:
        """Return the integral from the beginning to each of these moments, in value × microseconds."""
        if not len(self.times):
            return np.zeros(len(until))
        pieces = np.concatenate([[0.0], np.cumsum(self.values[:-1] * np.diff(self.times))])
        position = np.searchsorted(self.times, until, side="right") - 1
        inside = pieces[position] + self.values[position] * (until - self.times[position])
        return np.where(position >= 0, inside, 0.0)

    def mean(self, start: int, end: int) -> float:
        """Return the mean over [start, end); 0 if this is empty."""
        if end <= start:
            return 0.0
        low, high = self.integral(np.array([start, end], dtype=np.int64)).tolist()
        return float(high - low) / (end - start)

    def buckets(self, edges: Ints) -> Floats:
        """Return the means between neighbouring edges, ``[len(edges) - 1]``, which preserve every area."""
        return np.diff(self.integral(edges)) / np.diff(edges)


def accumulate(times: Ints, changes: npt.NDArray[np.int64] | Floats) -> Steps:
    """Return the running sum of changes given in any order; integer changes are summed exactly."""
    order = np.argsort(times, kind="stable")
    sorted_times = times[order]
    sums = np.cumsum(changes[order])
    last = np.flatnonzero(np.append(sorted_times[1:] != sorted_times[:-1], True)) if len(times) else order
    return Steps(sorted_times[last], sums[last].astype(np.float64))


def edges(start: int, end: int, most: int) -> Ints:
    """Return at most ``most`` + 1 evenly spaced moments from ``start`` to ``end``, at least two."""
    count = max(1, min(most, end - start))
    return distinct(np.linspace(start, max(end, start + 1), count + 1).astype(np.int64))


def distinct(values: Ints) -> Ints:
    """Return the distinct values in order. ``numpy.unique`` hashes them first, which takes ten times as long."""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered
