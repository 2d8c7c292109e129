"""Moments of cron expressions: the next and the last one, with clocks that are put forward and back.

Five fields (minute, hour, day of the month, month, day of the week) or ``@hourly`` and the like, interpreted by cronsim
as in Debian's cron: if both days are given, one of them is enough. An expression with fixed minutes and hours ("2:30
every day") fires once a day: if the clocks skip the time, at the first moment after the gap; if they repeat it, the
first time. An expression whose minutes or hours begin with ``*`` follows real time: it fires whenever the clocks show
such a time, twice if the clocks show it twice.

All computations use local times without a zone, in which cronsim has no exceptions, and are converted to UTC here.
"""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta, tzinfo

from cronsim import CronSim, CronSimError

from cress.model.errors import InputError
from cress.model.units import one_of
from cress.model.zones import zone_of

# The expressions of words.
WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
EXAMPLE = "minute hour day month weekday, as in 30 2 * * 1-5, or @daily"

# The fields in order, and their allowed values besides *, lists, ranges and steps.
FIELDS = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day of the month": "1 to 31, L (the last one) or LW (the last one from Monday to Friday)",
    "month": "1 to 12 or JAN to DEC",
    "day of the week": "0 to 7 or SUN to SAT (0 and 7 are Sunday), 5L (the last Friday), 1#2 (the second Monday)",
}

# The number of values of each field, and the cycle in which they come again. A longer step would never be taken.
STEPS = {"minute": 60, "hour": 24, "day of the month": 31, "month": 12, "day of the week": 7}
_CYCLES = {"minute": "hour", "hour": "day", "day of the month": "month", "month": "year", "day of the week": "week"}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_SECOND, _MINUTE = timedelta(seconds=1), timedelta(minutes=1)
# Two changes of a zone's clocks that cancel each other never lie this close together.
_HOP = timedelta(hours=12)
# No clocks were ever put back or forward by more than this.
_MOST = timedelta(hours=48)
# Any date so late that every possible match has occurred once within the 50 years that cronsim searches.
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def check(expression: str, zone: str = "UTC") -> None:
    """Raise ``InputError`` unless these are a cron expression that fires at some time, and a time zone.

    The field of the error is ``zone``, or empty if the expression is wrong: the caller knows its name.
    """
    fields = _fields(expression)
    zone_of(zone)
    # Only new expressions are checked for this: stored ones keep their meaning.
    for part, (name, most) in zip(fields.split(), STEPS.items(), strict=True):
        for term in part.split(","):
            step = term.partition("/")[2]
            if step.isdecimal() and int(step) > most:
                raise InputError(
                    f"the step of {term!r} is longer than a whole {_CYCLES[name]} in {expression!r}",
                    hint=f"at most {most} for the {name}; a step begins anew with each {_CYCLES[name]}",
                )


def next_after(expression: str, zone: str, utc: int) -> int | None:
    """Return the first moment after ``utc``; None if there is none within 50 years.

    Moments are µs since the epoch. Raises ``InputError`` as ``check`` does.
    """
    fields, clock = _fields(expression), zone_of(zone)
    try:
        at = _EPOCH + timedelta(microseconds=utc)
        found = _next_shown(fields, clock, at) if follows_time(fields) else _next_fixed(fields, clock, at)
    except OverflowError:
        return None  # beyond the years of the calendar
    return None if found is None else (found - _EPOCH) // timedelta(microseconds=1)


def last_before(expression: str, zone: str, utc: int) -> int | None:
    """Return the last moment before ``utc``; otherwise as ``next_after``."""
    fields, clock = _fields(expression), zone_of(zone)
    try:
        at = _EPOCH + timedelta(microseconds=utc)
        found = _last_shown(fields, clock, at) if follows_time(fields) else _last_fixed(fields, clock, at)
    except OverflowError:
        return None
    return None if found is None else (found - _EPOCH) // timedelta(microseconds=1)


def follows_time(fields: str) -> bool:
    """Return whether an expression fires whenever clocks show a matching time, not at fixed times of a day."""
    minutes, hours, *_ = fields.split()
    return minutes.startswith("*") or hours.startswith("*")


# --- reading -------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _fields(expression: str) -> str:
    """Return the five fields of a valid expression. Raises ``InputError``."""
    text = " ".join(expression.split())
    if text.startswith("@"):
        if text.lower() not in WORDS:
            raise InputError(f"{text!r} is not a cron expression", hint=one_of(text.lower(), WORDS))
        return WORDS[text.lower()]
    parts = text.split()
    if len(parts) != len(FIELDS):
        raise InputError(f"{expression!r} has {len(parts)} fields, not {len(FIELDS)}", hint=EXAMPLE)
    for place, (part, (name, values)) in enumerate(zip(parts, FIELDS.items(), strict=True)):
        for term in part.split(","):
            alone = ["*"] * len(FIELDS)
            alone[place] = term
            # A lone 31 is a day of some months only.
            if not _is_read(" ".join(alone)):
                raise InputError(
                    f"{term!r} is not a valid {name} in {expression!r}",
                    hint=f"{values}; lists, ranges and steps of them, or *",
                )
    if not _is_read(text) or _first(text, _LONG_AGO) is None:
        raise InputError(f"{expression!r} never fires", hint="a day that one of its months has")
    return text


def _is_read(fields: str) -> bool:
    try:
        CronSim(fields, _LONG_AGO)
    except (CronSimError, AssertionError, ValueError):
        return False
    return True


# --- on clocks without a zone --------------------------------------------------------------------------------------


def _first(fields: str, at: datetime) -> datetime | None:
    """Return the first match at or after this local time."""
    whole = at.replace(second=0, microsecond=0)
    return next(CronSim(fields, (whole if whole == at else whole + _MINUTE) - _SECOND), None)


def _last(fields: str, at: datetime) -> datetime | None:
    """Return the last match at or before this local time."""
    return next(CronSim(fields, at.replace(second=0, microsecond=0) + _SECOND, reverse=True), None)


# --- on clocks of a zone: all datetimes below are either UTC or local, and carry no zone -----------------------------


def _local(clock: tzinfo, utc: datetime) -> datetime:
    return utc.replace(tzinfo=UTC).astimezone(clock).replace(tzinfo=None, fold=0)


def _utc(clock: tzinfo, local: datetime, fold: int = 0) -> datetime:
    return local.replace(tzinfo=clock, fold=fold).astimezone(UTC).replace(tzinfo=None)


def _offset(clock: tzinfo, utc: datetime) -> timedelta:
    return _local(clock, utc) - utc


def _change(clock: tzinfo, before: datetime, after: datetime) -> datetime:
    """Return the first moment after ``before``, at most ``after``, with another offset than at ``before``."""
    was = _offset(clock, before)
    while after - before > timedelta(microseconds=1):
        middle = before + (after - before) // 2
        if _offset(clock, middle) == was:
            before = middle
        else:
            after = middle
    return after


def _change_after(clock: tzinfo, at: datetime) -> datetime | None:
    """Return the first change of clocks in the days after ``at``."""
    was, ahead = _offset(clock, at), timedelta()
    while ahead < _MOST:
        ahead += _HOP
        if _offset(clock, at + ahead) != was:
            return _change(clock, at + ahead - _HOP, at + ahead)
    return None


def _change_until(clock: tzinfo, at: datetime) -> datetime | None:
    """Return the last change of clocks in the days before ``at``, or at it."""
    was, back = _offset(clock, at), timedelta()
    while back < _MOST:
        back += _HOP
        if _offset(clock, at - back) != was:
            return _change(clock, at - back, at - back + _HOP)
    return None


def _moment_of(clock: tzinfo, local: datetime) -> datetime:
    """Return the moment of a fixed time: the first at which clocks show it, or would if they had not skipped it."""
    moment = _utc(clock, local)
    if _local(clock, moment) == local:
        return moment
    return _change(clock, _utc(clock, local, fold=1), moment)


def _next_fixed(fields: str, clock: tzinfo, utc: datetime) -> datetime | None:
    # Later times never have earlier moments, so none is missed; while clocks repeat times, some have passed.
    local: datetime | None = _local(clock, utc)
    while local is not None and (local := _first(fields, local + timedelta(microseconds=1))) is not None:
        if (moment := _moment_of(clock, local)) > utc:
            return moment
    return None


def _last_fixed(fields: str, clock: tzinfo, utc: datetime) -> datetime | None:
    # Before they were put back the clocks showed later times than now.
    changed = _change_until(clock, utc)
    local: datetime | None = _local(clock, utc)
    if changed is not None and local is not None:
        local = max(local, _local(clock, changed - timedelta(microseconds=1)))
    while local is not None and (local := _last(fields, local)) is not None:
        if (moment := _moment_of(clock, local)) < utc:
            return moment
        local -= timedelta(microseconds=1)
    return None


def _next_shown(fields: str, clock: tzinfo, utc: datetime) -> datetime | None:
    at = utc + timedelta(microseconds=1)
    while True:
        local = _local(clock, at)
        match = _first(fields, local)
        change = _change_after(clock, at)
        if match is not None and match - local < (_MOST if change is None else change - at):
            return at + (match - local)
        if change is None:
            return _shown(fields, clock, at, match)
        at = change


def _shown(fields: str, clock: tzinfo, at: datetime, match: datetime | None) -> datetime | None:
    """Return the first moment at which clocks show ``match`` or a later match, if there is no change
    soon after ``at``.
    """
    while match is not None:
        moment = _utc(clock, match)
        if moment >= at and _local(clock, moment) == match:
            return moment
        match = _first(fields, match + _MINUTE)
    return None


def _last_shown(fields: str, clock: tzinfo, utc: datetime) -> datetime | None:
    at = utc - timedelta(microseconds=1)
    while True:
        local = _local(clock, at)
        match = _last(fields, local)
        change = _change_until(clock, at)
        if match is not None and local - match <= (_MOST if change is None else at - change):
            return at - (local - match)
        if change is None:
            break
        at = change - timedelta(microseconds=1)
    while match is not None:
        moment = _utc(clock, match, fold=1)
        if moment <= at and _local(clock, moment) == match:
            return moment
        match = _last(fields, match - _MINUTE)
    return None
