"""Deadlines in job files: a time after submission, or a moment, by default in the zone of the cluster."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

import msgspec

from cress.model.errors import InputError
from cress.model.jobfile.values import as_number, as_word, shown
from cress.model.units import parse_duration
from cress.model.zones import zone_of

HINT = "a time from the submission on, such as 6h, or a moment: 2026-12-01 18:00, 2026-12-01 18:00 +02:00"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})(?:[Tt ]\s*(?P<time>\d{1,2}:\d{2}(?::\d{2})?)(?:\.\d+)?\s*(?P<zone>\S*))?"
)
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")


class WrittenDeadline(msgspec.Struct, frozen=True):
    """A deadline as written: ``within`` µs of the submission, the ``moment`` (µs since the epoch), or ``clocks``, the
    local time of the cluster.
    """

    within: int = 0
    moment: int = 0
    clocks: str = ""


NONE = WrittenDeadline()


def deadline(value: object) -> WrittenDeadline:
    """Parse a deadline."""
    text = as_word(as_number(value)).strip()
    found = _MOMENT.fullmatch(text)
    if found is None:
        return _relative(value, text)
    if found["time"] is None:
        raise InputError(f"{shown(value)} has no time of day", hint=f"{found['date']} 18:00")
    try:
        clocks = datetime.fromisoformat(f"{found['date']} {found['time'].rjust(len('18:00'), '0')}")
    except ValueError:
        raise InputError(f"{shown(value)} is not a moment", hint="year-month-day hour:minute, 24 hours") from None
    if not found["zone"]:
        return WrittenDeadline(clocks=clocks.isoformat(" "))
    return WrittenDeadline(moment=_utc(clocks, _zone(found["zone"])))


def moment_of(clocks: str, zone: tzinfo) -> int:
    """Return the moment of a local time in this zone, the first one if it happens twice."""
    return _utc(datetime.fromisoformat(clocks), zone)


def _relative(value: object, text: str) -> WrittenDeadline:
    try:
        within = parse_duration(text)
    except InputError:
        raise InputError(f"{shown(value)} is not a deadline", hint=HINT) from None
    if not within:
        raise InputError("a deadline of 0 leaves no time", hint="leave it out for none, or " + HINT)
    return WrittenDeadline(within=within)


def _utc(clocks: datetime, zone: tzinfo) -> int:
    try:
        return max(1, (clocks.replace(tzinfo=zone) - _EPOCH) // timedelta(microseconds=1))
    except OverflowError:
        raise InputError(f"{clocks} is beyond the calendar", hint=HINT) from None


def _zone(text: str) -> tzinfo:
    if text in ("Z", "z"):
        return UTC
    offset = _OFFSET.fullmatch(text)
    if offset is None:
        try:
            return zone_of(text)
        except InputError as error:
            raise InputError(error.what, hint=f"{error.hint}; or an offset such as +02:00, or Z") from None
    minutes = int(offset[2]) * 60 + int(offset[3])
    if minutes >= 24 * 60 or int(offset[3]) > 59:
        raise InputError(f"there is no offset {text}", hint="such as +02:00")
    return timezone(timedelta(minutes=minutes if offset[1] == "+" else -minutes))
