"""The quota timetable: which quota holds, and the moment of the next change, with clocks that are changed."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cress.model.group import Group, Quota, QuotaWindow
from cress.model.groups.quota_text import parse_resource_quota
from cress.model.groups.timetable import local_time, next_change, quota_at, quota_at_utc, weekly_quotas
from cress.model.resources import Dimensions
from cress.model.times import DAY, HOUR, MINUTE, SECOND

SHANGHAI, BERLIN, LORD_HOWE, SAMOA = (
    ZoneInfo(name) for name in ("Asia/Shanghai", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia")
)
MONDAY = datetime(2026, 3, 2)


def group(resource_quota: str) -> Group:
    quota, windows = parse_resource_quota(resource_quota, "cpu", Dimensions())
    return Group(name="g", quota=quota, windows=windows)


def cores(of: Group, local: datetime) -> int:
    return quota_at(of, local).scalar // 1000


def utc(local: datetime, zone: tzinfo) -> int:
    return (local.replace(tzinfo=zone).astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def changes(of: Group, start: datetime, zone: tzinfo, days: int) -> list[tuple[str, int]]:
    """The changes of some days as (wall clock, cores from then on)."""
    found = []
    now = utc(start, zone)
    end = now + days * DAY
    while (change := next_change(of, now, zone)) is not None and change < end:
        found.append(
            (local_time(change, zone).strftime("%a %H:%M:%S %z"), quota_at_utc(of, change, zone).scalar // 1000)
        )
        now = change
    return found


def at(hours: int, minutes: int = 0, day: int = 0) -> datetime:
    return MONDAY + timedelta(days=day, hours=hours, minutes=minutes)


MOBILE = group("10; 07:30-09:00 = 20; 17:30-19:30 = 20")
NEWS = group("20; Mon-Fri 09:00-18:00 = 50")
GAMES = group("20; 20:00-23:00 = 50")


@pytest.mark.parametrize(
    ("moment", "mobile", "news", "games"),
    [
        ("early morning", 10, 20, 20),
        ("on the way to work", 20, 20, 20),
        ("office hours", 10, 50, 20),
        ("on the way home", 20, 20, 20),
        ("evening", 10, 20, 50),
        ("night", 10, 20, 20),
    ],
)
def test_the_example_of_the_source(moment: str, mobile: int, news: int, games: int) -> None:
    times = {
        "early morning": at(7, 29),
        "on the way to work": at(7, 30),
        "office hours": at(9),
        "on the way home": at(18, 30),
        "evening": at(20),
        "night": at(23),
    }
    local = times[moment]
    assert (cores(MOBILE, local), cores(NEWS, local), cores(GAMES, local)) == (mobile, news, games)


def test_the_example_of_the_source_changes_at_these_minutes() -> None:
    assert changes(MOBILE, MONDAY, SHANGHAI, days=1) == [
        ("Mon 07:30:00 +0800", 20),
        ("Mon 09:00:00 +0800", 10),
        ("Mon 17:30:00 +0800", 20),
        ("Mon 19:30:00 +0800", 10),
    ]
    assert changes(NEWS, at(12, day=4), SHANGHAI, days=3) == [
        ("Fri 18:00:00 +0800", 20),
        ("Mon 09:00:00 +0800", 50),
    ]


@pytest.mark.parametrize(
    ("name", "resource_quota", "local", "expected"),
    [
        ("the last minute of a window", "1; 09:00-10:00 = 2", at(9, 59), 2),
        ("its end is not in it", "1; 09:00-10:00 = 2", at(10), 1),
        ("across midnight, before it", "1; Mon 22:00-02:00 = 2", at(23), 2),
        ("across midnight, after it", "1; Mon 22:00-02:00 = 2", at(1, day=1), 2),
        ("across midnight, the day before does not count", "1; Mon 22:00-02:00 = 2", at(1), 1),
        ("across the end of the week", "1; Sun 22:00-02:00 = 2", at(1), 2),
        ("until midnight", "1; Mon 22:00-24:00 = 2", at(23, 59), 2),
        ("until midnight and no longer", "1; Mon 22:00-24:00 = 2", at(0, day=1), 1),
        ("a whole day", "1; Mon 00:00-24:00 = 2", at(0), 2),
        ("start and end alike are 24 hours", "1; Mon 09:00-09:00 = 2", at(8, 59, day=1), 2),
        ("the last written wins", "1; 08:00-12:00 = 2; 09:00-10:00 = 3", at(9, 30), 3),
        ("also when it began earlier", "1; 09:00-10:00 = 3; 08:00-12:00 = 2", at(9, 30), 2),
        ("days round the weekend", "1; Fri-Mon 09:00-10:00 = 2", at(9, day=5), 2),
        ("days outside of them", "1; Fri-Mon 09:00-10:00 = 2", at(9, day=3), 1),
        ("no windows", "1", at(9), 1),
    ],
)
def test_the_quota_in_force(name: str, resource_quota: str, local: datetime, expected: int) -> None:
    assert cores(group(resource_quota), local) == expected, name


def test_a_change_that_changes_nothing_is_none() -> None:
    assert next_change(group("10"), 0, UTC) is None
    assert next_change(group("10; 09:00-10:00 = 10"), 0, UTC) is None
    assert next_change(group("10; 09:00-10:00 = 20; 00:00-24:00 = 10"), 0, UTC) is None
    assert len(changes(group("10; 09:00-10:00 = 20; 10:00-11:00 = 20"), MONDAY, UTC, days=1)) == 2


def test_a_change_is_later_than_now_to_the_microsecond() -> None:
    nine = utc(at(9), UTC)
    office = group("10; 09:00-10:00 = 20")
    assert next_change(office, nine - 1, UTC) == nine
    assert next_change(office, nine, UTC) == nine + HOUR
    assert next_change(office, nine + 30 * SECOND + 1, UTC) == nine + HOUR


SPRING, AUTUMN = datetime(2026, 3, 29), datetime(2026, 10, 25)  # Berlin: 02:00 → 03:00, and 03:00 → 02:00


@pytest.mark.parametrize(
    ("name", "resource_quota", "start", "expected"),
    [
        ("a window in the skipped hour does not happen", "1; 02:15-02:45 = 2", SPRING, []),
        (
            "one that begins in the skipped hour begins when it is over",
            "1; 02:30-04:00 = 2",
            SPRING,
            [("Sun 03:00:00 +0200", 2), ("Sun 04:00:00 +0200", 1)],
        ),
        (
            "one that ends in the skipped hour ends when it begins",
            "1; 01:00-02:30 = 2",
            SPRING,
            [("Sun 01:00:00 +0100", 2), ("Sun 03:00:00 +0200", 1)],
        ),
        (
            "one in the repeated hour happens twice",
            "1; 02:15-02:45 = 2",
            AUTUMN,
            [
                ("Sun 02:15:00 +0200", 2),
                ("Sun 02:45:00 +0200", 1),
                ("Sun 02:15:00 +0100", 2),
                ("Sun 02:45:00 +0100", 1),
            ],
        ),
        (
            "one round the repeated hour is an hour longer",
            "1; 01:00-04:00 = 2",
            AUTUMN,
            [("Sun 01:00:00 +0200", 2), ("Sun 04:00:00 +0100", 1)],
        ),
        (
            "one that ends in the repeated hour comes back",
            "1; 01:00-02:30 = 2",
            AUTUMN,
            [
                ("Sun 01:00:00 +0200", 2),
                ("Sun 02:30:00 +0200", 1),
                ("Sun 02:00:00 +0100", 2),
                ("Sun 02:30:00 +0100", 1),
            ],
        ),
    ],
)
def test_clocks_that_are_changed(
    name: str, resource_quota: str, start: datetime, expected: list[tuple[str, int]]
) -> None:
    hours_of_the_day = 23 if start == SPRING else 25
    found = changes(group(resource_quota), start, BERLIN, days=2)
    assert [each for each in found if each[0].startswith("Sun")] == expected, name
    assert utc(start + timedelta(days=1), BERLIN) - utc(start, BERLIN) == hours_of_the_day * HOUR


def test_a_day_that_a_country_left_out() -> None:
    # Samoa went from Thursday 29 to Saturday 31 December 2011.
    fridays = group("1; Fri 00:00-24:00 = 2")
    assert changes(fridays, datetime(2011, 12, 28), SAMOA, days=12) == [
        ("Fri 00:00:00 +1400", 2),
        ("Sat 00:00:00 +1400", 1),
    ]


minutes = st.one_of(st.integers(0, 1439), st.integers(0, 47).map(lambda half: half * 30))
windows = st.builds(
    lambda days, start, end, scalar: QuotaWindow(
        days=tuple(sorted(days)), start=start, end=end, quota=Quota(scalar=scalar * 1000)
    ),
    st.sets(st.integers(0, 6), min_size=1),
    minutes,
    minutes,
    st.integers(1, 3),
)
timetables = st.builds(
    lambda each: Group(name="g", quota=Quota(scalar=1000), windows=tuple(each)), st.lists(windows, max_size=5)
)
zones = st.sampled_from([UTC, SHANGHAI, BERLIN, LORD_HOWE, SAMOA, timezone(timedelta(hours=-3, minutes=-30))])
# Around changes of clocks in Berlin, on Lord Howe (by half an hour) and on Samoa, and anywhere.
moments = st.one_of(
    st.integers(0, 4 * DAY).map(lambda offset: utc(datetime(2026, 3, 27), UTC) + offset),
    st.integers(0, 4 * DAY).map(lambda offset: utc(datetime(2026, 10, 23), UTC) + offset),
    st.integers(0, 4 * DAY).map(lambda offset: utc(datetime(2026, 4, 3), UTC) + offset),
    st.integers(0, 4 * DAY).map(lambda offset: utc(datetime(2011, 12, 28), UTC) + offset),
    st.integers(0, 60 * 365 * DAY),
)


def quota_by_definition(of: Group, local: datetime) -> Quota:
    """The definition, minute by minute: the last written window that holds this minute of its own day or the next."""
    minute = local.hour * 60 + local.minute
    today, yesterday = local.weekday(), (local.weekday() - 1) % 7
    quota = of.quota
    for window in of.windows:
        if window.start < window.end:
            inside = today in window.days and window.start <= minute < window.end
        else:
            inside = (today in window.days and minute >= window.start) or (
                yesterday in window.days and minute < window.end
            )
        if inside:
            quota = window.quota
    return quota


@given(timetables, st.integers(0, 7 * 1440 - 1))
def test_the_quota_is_what_the_definition_says(of: Group, minute: int) -> None:
    local = MONDAY + timedelta(minutes=minute)
    assert quota_at(of, local) == quota_by_definition(of, local)


@given(timetables, moments, zones)
@example(group("1; 02:15-02:45 = 2"), utc(datetime(2026, 3, 29), BERLIN), BERLIN)
def test_between_now_and_the_next_change_the_quota_is_constant_minute_by_minute(
    of: Group, now: int, zone: tzinfo
) -> None:
    before = quota_by_definition(of, local_time(now, zone))
    change = next_change(of, now, zone)
    # Offsets of these zones are whole minutes in these years, so that changes fall on whole minutes of UTC.
    minute = now - now % MINUTE + MINUTE
    for at_minute in range(minute, minute + 9 * DAY, MINUTE):
        same = quota_by_definition(of, local_time(at_minute, zone)) == before
        if at_minute == change:
            assert not same
            return
        assert same, f"it changed at {local_time(at_minute, zone)}"
    # A window of one minute can fall into a skipped hour, so a change may lie more than a week ahead.
    assert change is None or change > minute + 9 * DAY - MINUTE


@given(timetables)
def test_the_pieces_of_a_week_begin_on_monday_and_neighbours_differ(of: Group) -> None:
    week = weekly_quotas(of)
    assert week[0][0] == 0
    starts = [start for start, _ in week]
    assert starts == sorted(set(starts))
    assert all(first[1] != second[1] for first, second in itertools.pairwise(week))
