"""Weeks as drawings, one row for each day: timetables of quotas, and reservations as a calendar."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cress.model.errors import InputError
from cress.model.group import Group, Quota, QuotaWindow
from cress.model.groups.quota_text import parse_days
from cress.model.groups.timetable import DAY_MINUTES, WEEK_MINUTES, weekly_quotas
from cress.protocol.lease_views import ReservationView

# Size of the drawing in units of its view box.
WIDTH, LABEL, ROW = 1000, 90, 26
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_WINDOW = re.compile(r"^(?:(\S.*?)\s+)?(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)\s*=\s*(.+)$")
# Shades of the quotas of a timetable, from the smallest to the largest.
SHADES = 5
MOST_BARS = 400


class WeekBar(NamedTuple):
    """A bar in the row of a day, with a text in it and a longer one for pointer and screen reader."""

    x: float
    y: int
    width: float
    kind: str
    label: str
    text: str
    href: str = ""


class WeekDrawing(NamedTuple):
    """Seven days, one below the other. ``labels`` are y and name of a day, ``hours`` x and text of the axis."""

    bars: tuple[WeekBar, ...]
    labels: tuple[tuple[int, str], ...]
    hours: tuple[tuple[float, str], ...]
    height: int


def _x(minute: float) -> float:
    return round(LABEL + minute / DAY_MINUTES * (WIDTH - LABEL - 5), 1)


_HOURS = tuple((_x(hour * 60), f"{hour:02}:00") for hour in range(0, 24, 3))


def _drawing(bars: Sequence[WeekBar], labels: Sequence[str]) -> WeekDrawing:
    rows = tuple((number * ROW, name) for number, name in enumerate(labels))
    return WeekDrawing(tuple(bars[:MOST_BARS]), rows, _HOURS, len(labels) * ROW + 20)


def timetable_of(text: str) -> WeekDrawing | None:
    """Return the week of a timetable, ``10; Mon-Fri 09:00-18:00 = 50``; None without windows, or if it is not one."""
    first, *parts = (part.strip() for part in text.split(";"))
    names = [first]
    windows: list[QuotaWindow] = []
    for part in parts:
        found = _WINDOW.match(part)
        if found is None:
            return None
        days, begin, begin_minute, end, end_minute, quota = found.groups()
        names.append(quota)
        try:
            on = parse_days(days) if days else tuple(range(7))
        except InputError:
            return None
        times = int(begin) * 60 + int(begin_minute), int(end) * 60 + int(end_minute)
        windows.append(QuotaWindow(on, *times, Quota(scalar=len(names) - 1)))
    if not windows:
        return None
    order = sorted(set(names), key=_size)
    sections = [
        (minute, names[quota.scalar]) for minute, quota in weekly_quotas(Group(name="", windows=tuple(windows)))
    ]
    bars: list[WeekBar] = []
    for (begin, name), (end, _) in pairwise([*sections, (WEEK_MINUTES, "")]):
        shade = order.index(name) * (SHADES - 1) // max(1, len(order) - 1)
        for day in range(begin // DAY_MINUTES, (end - 1) // DAY_MINUTES + 1):
            low, high = max(begin - day * DAY_MINUTES, 0), min(end - day * DAY_MINUTES, DAY_MINUTES)
            told = f"{DAYS[day]} {_clock(low)} to {_clock(high)}: {name}"
            bars.append(WeekBar(_x(low), day * ROW, round(_x(high) - _x(low), 1), f"shade{shade}", name, told))
    return _drawing(bars, DAYS)


def calendar_of(reservations: Sequence[ReservationView], monday: date, zone: ZoneInfo) -> WeekDrawing:
    """Return the reservations of the week that begins with ``monday``, in the time zone of the cluster."""
    bars: list[WeekBar] = []
    for one in reservations:
        for begin, end in times_of(one, monday, zone):
            bars += _bars(one, begin, end, monday, zone)
    labels = [f"{(day := monday + timedelta(days=number)):%a} {day.day} {day:%b}" for number in range(7)]
    return _drawing(bars, labels)


def times_of(one: ReservationView, monday: date, zone: ZoneInfo) -> list[tuple[datetime, datetime]]:
    """Return the times of a reservation that overlap the week of ``monday``."""
    if one.start is None or one.until is None:
        return []
    first = datetime.fromtimestamp(one.start, zone)
    length = timedelta(seconds=one.until - one.start)
    week = datetime.combine(monday, time(), zone), datetime.combine(monday + timedelta(days=7), time(), zone)
    if not one.every:
        return [(first, first + length)] if first < week[1] and first + length > week[0] else []
    found = []
    # One that began some days before may reach into the week.
    back = length.days + 1
    for number in range(-back, 7):
        day = monday + timedelta(days=number)
        if day < first.date() or not _repeats(one.every, day, first.date()):
            continue
        begin = datetime.combine(day, first.time(), zone)
        if begin + length > week[0] and begin < week[1]:
            found.append((begin, begin + length))
    return found


def _repeats(every: str, day: date, first: date) -> bool:
    if every == "day":
        return True
    if every == "week":
        return day.weekday() == first.weekday()
    try:
        return day.weekday() in parse_days(every)
    except InputError:
        return day == first


def _bars(one: ReservationView, begin: datetime, end: datetime, monday: date, zone: ZoneInfo) -> list[WeekBar]:
    bars = []
    for number in range(7):
        day = datetime.combine(monday + timedelta(days=number), time(), zone)
        low = max(0.0, (begin - day).total_seconds() / 60)
        high = min(float(DAY_MINUTES), (end - day).total_seconds() / 60)
        if low >= DAY_MINUTES or high <= 0:
            continue
        who = one.group or "maintenance"
        told = (
            f"{one.name} of {who}: {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}, {len(one.nodes)} nodes, {one.state}"
        )
        kind = "reserved-for" if one.group else "maintenance"
        bars.append(
            WeekBar(
                _x(low),
                number * ROW,
                round(_x(high) - _x(low), 1),
                kind,
                f"{one.name} {who}",
                told,
                f"#reservation-{one.name}",
            )
        )
    return bars


def _size(text: str) -> tuple[float, str]:
    found = re.search(r"\d*\.?\d+", text)
    return (float(found[0]) if found else 0.0, text)


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
