"""Hourly usage of groups, and the part of an attempt in it."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

from cress.model.times import SECOND

# An hour, in seconds.
HOUR = 3600
# The longest time charged to an attempt, in hours, in case its clocks are wrong.
MOST_HOURS = 24 * 366


class Weight(NamedTuple):
    """The resources of an attempt of a job: the ``group`` that pays, ``cpu`` in millicores, ``memory`` in bytes."""

    group: str
    cpu: int
    memory: int


class Used(msgspec.Struct):
    """The usage in a span of time; the units are those of ``protocol.cluster_views.UsageView``."""

    core_seconds: float = 0.0
    byte_seconds: float = 0.0
    cpu_seconds: float = 0.0
    attempts: int = 0
    succeeded: int = 0
    failed: int = 0
    met: int = 0
    missed: int = 0

    def add(self, other: Used) -> None:
        """Add the usage of another span."""
        self.core_seconds += other.core_seconds
        self.byte_seconds += other.byte_seconds
        self.cpu_seconds += other.cpu_seconds
        self.attempts += other.attempts
        self.succeeded += other.succeeded
        self.failed += other.failed
        self.met += other.met
        self.missed += other.missed


# Keys are the beginning of the span in seconds since the epoch, and the group.
Usage: TypeAlias = dict[tuple[int, str], Used]


def add_usage(usage: Usage, weight: Weight, begin: int, end: int, cpu: int) -> int:
    """Add the usage of an attempt from ``begin`` to ``end`` (µs) to the hours; return the beginning of the last hour,
    in s.

    ``cpu`` is the measured processor time, in µs.
    """
    last = end // SECOND // HOUR * HOUR
    begin = max(begin, end - MOST_HOURS * HOUR * SECOND)
    length = max(1, end - begin)
    for hour in range(begin // SECOND // HOUR * HOUR, last + 1, HOUR):
        inside = min(end, (hour + HOUR) * SECOND) - max(begin, hour * SECOND)
        if inside <= 0 and hour != last:
            continue
        used = usage.setdefault((hour, weight.group), Used())
        used.core_seconds += weight.cpu / 1000 * max(0, inside) / SECOND
        used.byte_seconds += weight.memory * max(0, inside) / SECOND
        used.cpu_seconds += cpu / SECOND * (max(0, inside) / length if end > begin else 1)
    return last
