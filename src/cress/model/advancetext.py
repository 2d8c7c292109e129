"""Text form of advance reservations: moments, durations and repetitions, in local time of a zone."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, timedelta, tzinfo
from itertools import count
from typing import Any

import msgspec

from cress.model.advance import AT_END, LATEST, local, moment
from cress.model.errors import InputError
from cress.model.groups.quota_text import days_text, parse_days
from cress.model.jobfile.deadlines import deadline, moment_of
from cress.model.times import DAY, MINUTE
from cress.model.units import one_of, parse_duration

FROM = "now, +2h, 18:00, or a moment such as 2026-12-01 18:00 or 2026-12-01 18:00 Europe/Berlin"
EVERY = "day, week, or days such as Mon, Mon-Fri or Mon,Wed"
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
EVERY_DAY = tuple(range(7))
LAST_DAY = f"{local(LATEST - 1, UTC):%Y-%m-%d}"


class ReservationText(msgspec.Struct, frozen=True, kw_only=True):
    """An advance reservation as written; ``nodes`` may be patterns of names, ``length`` is the duration."""

    name: str
    group: str = ""
    nodes: tuple[str, ...] = ()
    count: int = 0
    resource: str | dict[str, Any] = ""
    requirement: str = ""
    start: str = ""
    until: str = ""
    length: str = ""
    every: str = ""
    at_end: str = ""
    by: str = ""


def check_name(name: str) -> str:
    """Check the name of a reservation, and return it. Raises ``InputError``."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not a name of a reservation",
            hint="letters, digits, `-`, `_` and `.`, at most 64",
            field="name",
        )
    return name


def free_name(group: str, taken: Collection[str]) -> str:
    """Return a name for a reservation without one: its group and the first free number."""
    start = group if _NAME.fullmatch(group) and len(group) < 50 else "reservation" if group else "maintenance"
    return next(name for number in count(1) if (name := f"{start}-{number}") not in taken)


def parse_moment(text: str, now: int, zone: tzinfo, field: str, *, after: int | None = None) -> int:
    """Parse a moment at ``now``; return µs since the epoch. A time of day is the next one after ``after`` (default:
    ``now``).

    Raises ``InputError`` with the field, also for a moment that is too late for a reservation.
    """
    at = _moment(text, now, zone, field, now if after is None else after)
    if at > LATEST:
        raise _too_late(field)
    return at


def _too_late(field: str) -> InputError:
    verb = "begins" if field == "from" else "ends"
    return InputError(
        f"it {verb} after {LAST_DAY}, the last day that can be reserved", hint="an earlier moment", field=field
    )


def _moment(text: str, now: int, zone: tzinfo, field: str, after: int) -> int:
    word = text.strip()
    if word.lower() == "now":
        return now
    if word.startswith("+"):
        try:
            return now + parse_duration(word[1:])
        except InputError as error:
            raise InputError(error.what, hint=FROM, field=field) from None
    if found := _CLOCK.fullmatch(word):
        clocks = local(after, zone).replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
        at = moment(clocks, zone)
        return at if at > after else moment(clocks + timedelta(days=1), zone)
    try:
        given = deadline(word)
    except InputError as error:
        raise InputError(error.what.replace("a deadline", "a moment"), hint=FROM, field=field) from None
    if given.within:
        raise InputError(f"{text!r} is not a moment", hint=f"+{word} for so long from now on; or {FROM}", field=field)
    return given.moment or moment_of(given.clocks, zone)


def parse_every(text: str) -> tuple[int, ...] | None:
    """Parse a repetition into days: empty for once, ``None`` for the weekday of its start. Raises ``InputError``."""
    word = text.strip().lower()
    if not word:
        return ()
    if word in ("day", "daily"):
        return EVERY_DAY
    if word in ("week", "weekly"):
        return None
    try:
        return parse_days(text)
    except InputError as error:
        raise InputError(f"{text!r} is not a repetition", hint=f"{EVERY} ({error.what})", field="every") from None


def parse_span(
    start: str, until: str, length: str, every: str, now: int, zone: tzinfo
) -> tuple[int, int, tuple[int, ...]]:
    """Return the first start and end (µs since the epoch) and the days of a reservation. Raises ``InputError``."""
    days = parse_every(every)
    begin = parse_moment(start or "now", now, zone, "from")
    if bool(until) == bool(length):
        what = "it has two ends" if until else "it has no end"
        raise InputError(what, hint="either for (4h), or until (a moment)", field="for")
    if length:
        try:
            span = parse_duration(length)
        except InputError as error:
            raise error.at(field="for") from None
        end = begin + span
    else:
        end = parse_moment(until, now, zone, "until", after=max(now, begin))
    if end - begin < MINUTE // 60:
        raise InputError("it ends before it begins", hint="an end after its start", field="until" if until else "for")
    if end > LATEST:
        raise _too_late("for")
    clocks = local(begin, zone)
    if days is None:
        days = (clocks.weekday(),)
    if days:
        lasts = local(end, zone) - clocks
        while clocks.weekday() not in days:
            clocks += timedelta(days=1)
        begin, end = moment(clocks, zone), moment(clocks + lasts, zone, last=True)
        if end > LATEST:
            raise _too_late("every")
        if lasts >= timedelta(microseconds=shortest(days)):
            raise InputError("it would begin again before it ends", hint="a shorter time, or fewer days", field="every")
    return begin, end, days


def shortest(days: tuple[int, ...]) -> int:
    """Return the shortest time (µs) from one start to the next."""
    return (
        min(((later - day - 1) % 7 + 1 for day, later in zip(days, (*days[1:], days[0]), strict=True)), default=7) * DAY
    )


def say_every(days: tuple[int, ...]) -> str:
    """Return the text of the days of a repetition; empty if it happens once."""
    return "" if not days else "day" if len(days) == len(EVERY_DAY) else days_text(days)


def parse_at_end(text: str) -> str:
    """Parse the rule for tasks at the end of the reservation. Raises ``InputError``."""
    word = text.strip().lower() or AT_END[0]
    if word not in AT_END:
        raise InputError(f"{text!r} is not one of them", hint=one_of(word, AT_END), field="at_end")
    return word


def split_names(text: str) -> list[str]:
    """Split a list of names and patterns; commas in brackets do not separate."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "[") - (char == "]")
        if char == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]
