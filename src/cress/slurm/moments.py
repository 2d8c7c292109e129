"""Times as options of Slurm spell them: ``16:00``, ``2026-12-01T08:00``, ``now+2hours``, ``tomorrow``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from cress.model.errors import InputError

DAY = 86_400
# Seconds of the longest time from now on: what is longer may be beyond the calendar.
_LONGEST = 36_525 * DAY
_UNITS = {"": 1, "second": 1, "minute": 60, "hour": 3600, "day": DAY, "week": 7 * DAY}
_DAYS = ("%m/%d/%y", "%m.%d.%y", "%m%d%y")
_FORMS = (
    *("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"),
    *(f"{day}{clock}" for day in _DAYS for clock in ("-%H:%M:%S", "-%H:%M", "")),
)
# Dates without a year, with a clock or without one.
_YEARLESS = re.compile(r"(\d\d)[/.]?(\d\d)(?:-(\d\d):(\d\d)(?::(\d\d))?)?")
_CLOCKS = ("%H:%M:%S", "%H:%M", "%I:%M:%S%p", "%I:%M%p", "%I%p")
# Years in which a day comes at least once, also the 29th of February about the year 2100.
_YEARS = 9
# Hours of the day that have a name.
_HOURS = {"midnight": 0, "elevenses": 11, "noon": 12, "fika": 15, "teatime": 16}


def read_moment(text: str, name: str, now: float) -> float:
    """Return the seconds since the epoch of a time, in the zone of this machine; a clock is one of today.

    Raises InputError with the option ``name``.
    """
    word = _word(text)
    midnight = _midnight(now)
    if word == "now":
        return now
    days = {"today": 0, "tomorrow": 1, "yesterday": -1}
    if word in days:
        return _local(midnight + timedelta(days=days[word]))
    if (clock := _clock(word)) is not None:
        return _local(midnight + clock)
    if word.startswith(("now-", "now+")):
        sign, amount = 1 if word[3] == "+" else -1, word[4:].rstrip("s")
        digits = amount.rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = amount[len(digits) :]
        if digits.isascii() and digits.isdigit() and len(digits) < 10 and unit in _UNITS:
            seconds = int(digits) * _UNITS[unit]
            if seconds <= _LONGEST:
                return now + sign * seconds
    if (at := _without_year(word, midnight.year)) is not None:
        return at
    # `%m%d%y` would read a month and day of four digits with a year.
    for form in _FORMS if not _YEARLESS.fullmatch(word) else ():
        try:
            return datetime.strptime(word, form).astimezone().timestamp()
        except (ValueError, OverflowError):
            continue
    raise InputError(f"{text!r} is not a time", hint="such as 2026-12-01T08:00, 08:00 or now+2hours", field=name)


def read_begin(text: str, now: float) -> str:
    """Return a time of ``--begin`` for ``wait_for``, empty for one that has come; a clock or day is the next one.

    Raises InputError.
    """
    at = _next(text, "--begin", now)
    return _in_utc(at) if at > now else ""


def read_deadline(text: str, now: float) -> str:
    """Return a time of ``--deadline`` for ``deadline``; a clock or day is the next one. Raises InputError."""
    at = _next(text, "--deadline", now)
    if at <= now:
        raise InputError(f"{text!r} has passed", hint="a time to come, such as now+2hours", field="--deadline")
    return _in_utc(at)


def _next(text: str, name: str, now: float) -> float:
    """Return the seconds since the epoch of a time; a clock, or a day without a year, is the next one."""
    word, midnight = _word(text), _midnight(now)
    for year in range(midnight.year, midnight.year + _YEARS):
        day = _without_year(word, year)
        if day is not None and day >= now:
            return day
    at, clock = read_moment(text, name, now), _clock(word)
    return _local(midnight + timedelta(days=1) + clock) if at < now and clock is not None else at


def _word(text: str) -> str:
    """Return a time without spaces: `8:00 PM` is `8:00pm`."""
    return "".join(text.lower().split())


def _in_utc(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} Z"


def _without_year(word: str, year: int) -> float | None:
    """Return the seconds since the epoch of a date such as ``12/31-08:00`` in a year; ``None`` for something else."""
    found = _YEARLESS.fullmatch(word)
    if found is None:
        return None
    month, day, hour, minute, second = (int(part or 0) for part in found.groups())
    try:
        return datetime(year, month, day, hour, minute, second).astimezone().timestamp()
    except ValueError:
        return None


def _midnight(now: float) -> datetime:
    return datetime.fromtimestamp(now, UTC).astimezone().replace(hour=0, minute=0, second=0, microsecond=0)


def _clock(word: str) -> timedelta | None:
    if word in _HOURS:
        return timedelta(hours=_HOURS[word])
    for form in _CLOCKS:
        try:
            found = datetime.strptime(word, form).astimezone()
        except ValueError:
            continue
        return timedelta(hours=found.hour, minutes=found.minute, seconds=found.second)
    return None


def _local(at: datetime) -> float:
    """Return the seconds since the epoch of a time of day: the clocks may have changed since midnight."""
    return at.replace(tzinfo=None).astimezone().timestamp()
