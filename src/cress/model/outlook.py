"""Forecast for a job with a deadline (source S, design note 0023)."""

from __future__ import annotations

from enum import Enum

import msgspec


class Promise(Enum):
    """Kinds of forecast: whether a job will meet its deadline, as far as is known."""

    # By the pessimistic estimates too.
    FINE = "fine"
    AT_RISK = "at_risk"
    # Not even by the optimistic estimates.
    CANNOT = "cannot_be_met"
    # No start is known, or nothing of how long it runs.
    UNKNOWN = "unknown"


class Outlook(msgspec.Struct, frozen=True):
    """Forecast for a job that is not over; durations in µs, moments in µs since the epoch (UTC).

    ``slack`` is what remains until the deadline beyond the mean of what is left of the job, if it ran from now on;
    ``None`` if that is not known. ``urgency`` is that of source S, 0 … 1. ``chance`` is the share of outcomes that end
    in time, ``None`` without runs to tell it from. ``earliest_end`` is when it ends by the
    optimistic estimates, ``likely_end`` by the means.
    """

    deadline: int
    urgency: float
    slack: int | None
    promise: Promise
    chance: float | None
    earliest_end: int | None
    likely_end: int | None = None
