"""Times and durations: int64 µs. A time is read on the shell's clock, which never goes back."""

from __future__ import annotations

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

# "No known end": later than any real time, and far from overflow when a duration is added.
NEVER = 2**61


def seconds(value: float) -> int:
    """Return ``value`` seconds in µs, rounded to the nearest."""
    return round(value * SECOND)
