"""Forecast for a job with a deadline (source S, design note 0023)."""

from __future__ import annotations

from enum import Enum

import msgspec


class Promise(Enum):
    """The forecast for the deadline of a job."""

    # Will be met even by the pessimistic estimates.
    FINE = "fine"
    AT_RISK = "at_risk"
    # Will be missed even by the optimistic estimates.
    CANNOT = "cannot_be_met"
    # Without a known start, or without any estimate.
    UNKNOWN = "unknown"


class Outlook(msgspec.Struct, frozen=True):
    """Forecast for an unfinished job; durations in µs, moments in µs since the epoch (UTC).

    ``slack`` is the time until the deadline minus the mean remaining run time, if the job ran from now on; ``None`` if
    unknown. ``urgency`` is that of source S, 0 … 1. ``chance`` is the share of outcomes that end in time; ``None``
    without earlier runs. ``earliest_end`` is the end by the optimistic estimates, ``likely_end`` by the means.
    """

    deadline: int
    urgency: float
    slack: int | None
    promise: Promise
    chance: float | None
    earliest_end: int | None
    likely_end: int | None = None
