"""Quota timetables: the quota in force at a time, and its next change (G, last section).

Windows are in local wall-clock time. A window belongs to the days on which it starts; where windows overlap the last
one takes precedence. When the clocks are put forward, the skipped minutes do not happen. When they are put back,
minutes happen twice, and the quota follows the wall clock both times.
"""

from __future__ import annotations

import bisect
import functools
from array import array
from datetime import UTC, datetime, timedelta, tzinfo

from cress.model.group import Group, Quota, QuotaWindow
from cress.model.times import DAY, HOUR, MINUTE

DAY_MINUTES = 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Two offset changes that cancel each other never lie this close together, so comparing both ends is enough.
_HOP = 12 * HOUR
# A week repeats itself unless the clocks change. A change that swallows the only window of a week (or a whole day, as
# on Samoa in 2011) is not repeated a week later.
_HORIZON = 36 * DAY


def quota_at(group: Group, local: datetime) -> Quota:
    """Return the quota of ``group`` at this local wall-clock time."""
    starts, quotas = _week(group.quota, group.windows)
    return quotas[bisect.bisect_right(starts, _minute_of_week(local)) - 1]


def quota_at_utc(group: Group, utc: int, zone: tzinfo) -> Quota:
    """Return the quota of ``group`` at ``utc`` (µs since the epoch) in the time zone ``zone``."""
    return quota_at(group, local_time(utc, zone))


def local_time(utc: int, zone: tzinfo) -> datetime:
    """Return the local time in ``zone`` at ``utc`` (µs since the epoch, years 1 to 9999)."""
    return (_EPOCH + timedelta(microseconds=utc)).astimezone(zone)


def next_change(group: Group, utc: int, zone: tzinfo) -> int | None:
    """Return the earliest moment after ``utc`` with another quota in force; None if there is none.

    Both are µs since the epoch. A change of the clocks can change the quota by itself.
    """
    starts, quotas = _week(group.quota, group.windows)
    if len(quotas) == 1:
        return None
    local = local_time(utc, zone)
    now = quota_at(group, local)
    at = utc
    while at - utc < _HORIZON:
        offset = local.utcoffset()
        later = at + min(_until_next(starts, local), _HOP)
        local = local_time(later, zone)
        if local.utcoffset() != offset:
            later = _first_with_other_offset(at, later, zone)
            local = local_time(later, zone)
        if quota_at(group, local) != now:
            return later
        at = later
    return None


def weekly_quotas(group: Group) -> list[tuple[int, Quota]]:
    """Return the quotas of a week without clock changes as (minute of the week from Monday 00:00, quota from then on),
    ascending.

    The first begins at minute 0; neighbours differ.
    """
    return list(zip(*_week(group.quota, group.windows), strict=True))


@functools.lru_cache(maxsize=1024)
def _week(quota: Quota, windows: tuple[QuotaWindow, ...]) -> tuple[tuple[int, ...], tuple[Quota, ...]]:
    """Return the starts (minutes of the week) and quotas of the sections of a week."""
    # The window in force in each minute, from 1; later windows are painted over earlier ones.
    minutes = array("I", bytes(4 * WEEK_MINUTES))
    for number, window in enumerate(windows, 1):
        length = window.end - window.start + (0 if window.end > window.start else DAY_MINUTES)
        for day in window.days:
            start = day * DAY_MINUTES + window.start
            for first in (start, start - WEEK_MINUTES):  # a window that begins on Sunday may end on Monday
                begin, end = max(0, first), min(WEEK_MINUTES, first + length)
                if begin < end:
                    minutes[begin:end] = array("I", (number,)) * (end - begin)
    starts: list[int] = []
    quotas: list[Quota] = []
    before = -1
    for minute, number in enumerate(minutes):
        if number == before:
            continue
        before = number
        value = windows[number - 1].quota if number else quota
        if not quotas or quotas[-1] != value:
            starts.append(minute)
            quotas.append(value)
    return tuple(starts), tuple(quotas)


def _minute_of_week(local: datetime) -> int:
    return local.weekday() * DAY_MINUTES + local.hour * 60 + local.minute


def _until_next(starts: tuple[int, ...], local: datetime) -> int:
    """Return the time in µs until the next section of the week begins, on a clock without changes."""
    minute = _minute_of_week(local)
    following = bisect.bisect_right(starts, minute)
    edge = starts[following] if following < len(starts) else starts[0] + WEEK_MINUTES
    return (edge - minute) * MINUTE - local.second * 1_000_000 - local.microsecond


def _first_with_other_offset(before: int, after: int, zone: tzinfo) -> int:
    """Return the first moment after ``before``, at most ``after``, at which the offset has changed."""
    offset = local_time(before, zone).utcoffset()
    while after - before > 1:
        middle = (before + after) // 2
        if local_time(middle, zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after
