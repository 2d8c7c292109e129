"""Moments of cron expressions, on clocks that are put forward and back, against a slow oracle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.lifecycle.families.moments import check, last_before, next_after
from cress.model.errors import InputError
from cress.model.times import MINUTE
from tests.examples import examples

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca")


def utc(text: str, zone: str = "UTC", fold: int = 0) -> int:
    """``2024-03-31 02:30`` on the clocks of a zone, as microseconds since the epoch."""
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return round(moment.timestamp()) * 1_000_000


def shown(moment: int | None, zone: str) -> str:
    """The local time, with the offset: 10-27 02:30 +0100."""
    if moment is None:
        return "never"
    local = datetime.fromtimestamp(moment // 1_000_000, ZoneInfo(zone))
    return local.strftime("%m-%d %H:%M %z")


def following(expression: str, zone: str, start: str, count: int) -> list[str]:
    """The next moments after a local time."""
    found: list[str] = []
    at: int | None = utc(start, zone)
    while at is not None and len(found) < count:
        at = next_after(expression, zone, at)
        found.append(shown(at, zone))
    return found


@pytest.mark.parametrize(
    ("expression", "zone", "start", "expected"),
    [
        # plain days
        ("30 2 * * *", "UTC", "2024-05-01 02:30", ["05-02 02:30 +0000", "05-03 02:30 +0000"]),
        ("@hourly", "Asia/Kathmandu", "2024-05-01 02:10", ["05-01 03:00 +0545", "05-01 04:00 +0545"]),
        ("@weekly", "UTC", "2024-05-01 00:00", ["05-05 00:00 +0000", "05-12 00:00 +0000"]),
        ("@monthly", "UTC", "2024-05-01 00:00", ["06-01 00:00 +0000"]),
        ("@yearly", "UTC", "2024-05-01 00:00", ["01-01 00:00 +0000"]),
        ("0 8 * * mon-fri", "UTC", "2024-05-03 08:00", ["05-06 08:00 +0000"]),
        ("*/20 8,9 * * *", "UTC", "2024-05-03 08:30", ["05-03 08:40 +0000", "05-03 09:00 +0000"]),
        # months that end
        ("0 0 L * *", "UTC", "2023-02-01 00:00", ["02-28 00:00 +0000", "03-31 00:00 +0000", "04-30 00:00 +0000"]),
        ("0 0 L 2 *", "UTC", "2024-01-01 00:00", ["02-29 00:00 +0000", "02-28 00:00 +0000"]),
        ("0 0 29 2 *", "UTC", "2024-03-01 00:00", ["02-29 00:00 +0000"]),
        ("0 0 31 * *", "UTC", "2024-02-01 00:00", ["03-31 00:00 +0000", "05-31 00:00 +0000"]),
        ("0 12 * * 1#2", "UTC", "2024-05-01 00:00", ["05-13 12:00 +0000", "06-10 12:00 +0000"]),
        ("0 12 * * 5L", "UTC", "2024-05-01 00:00", ["05-31 12:00 +0000", "06-28 12:00 +0000"]),
        # both days given: one of them is enough
        ("0 0 13 * 5", "UTC", "2024-05-10 00:00", ["05-13 00:00 +0000", "05-17 00:00 +0000"]),
        # forward, 02:00 -> 03:00: a fixed time that is skipped comes when clocks go on, and once
        ("30 2 * * *", "Europe/Berlin", "2024-03-30 12:00", ["03-31 03:00 +0200", "04-01 02:30 +0200"]),
        ("15,45 2 * * *", "Europe/Berlin", "2024-03-30 12:00", ["03-31 03:00 +0200", "04-01 02:15 +0200"]),
        ("0 2,3 * * *", "Europe/Berlin", "2024-03-30 12:00", ["03-31 03:00 +0200", "04-01 02:00 +0200"]),
        ("30 2 * * *", "America/New_York", "2024-03-09 12:00", ["03-10 03:00 -0400", "03-11 02:30 -0400"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2024-10-05 12:00", ["10-06 02:30 +1100", "10-07 02:15 +1100"]),
        # ... real time goes on as it does
        ("*/30 * * * *", "Europe/Berlin", "2024-03-31 01:30", ["03-31 03:00 +0200", "03-31 03:30 +0200"]),
        ("*/30 2 * * *", "Europe/Berlin", "2024-03-31 01:30", ["04-01 02:00 +0200", "04-01 02:30 +0200"]),
        # back, 03:00 -> 02:00: a fixed time that is repeated comes once
        ("30 2 * * *", "Europe/Berlin", "2024-10-26 12:00", ["10-27 02:30 +0200", "10-28 02:30 +0100"]),
        ("30 1 * * *", "America/New_York", "2024-11-02 12:00", ["11-03 01:30 -0400", "11-04 01:30 -0500"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2024-04-06 12:00", ["04-07 01:45 +1100", "04-08 01:45 +1030"]),
        # ... and real time twice
        (
            "30 * * * *", "Europe/Berlin", "2024-10-27 01:30",
            ["10-27 02:30 +0200", "10-27 02:30 +0100", "10-27 03:30 +0100"],
        ),
        (
            "*/15 * * * *", "Australia/Lord_Howe", "2024-04-07 01:30",
            ["04-07 01:45 +1100", "04-07 01:30 +1030", "04-07 01:45 +1030", "04-07 02:00 +1030"],
        ),
    ],
)  # fmt: skip
def test_what_comes_next(expression: str, zone: str, start: str, expected: list[str]) -> None:
    assert following(expression, zone, start, len(expected)) == expected


@pytest.mark.parametrize(
    ("expression", "zone", "start", "expected"),
    [
        ("30 2 * * *", "UTC", "2024-05-01 02:30", "04-30 02:30 +0000"),
        ("0 0 29 2 *", "UTC", "2024-02-29 00:00", "02-29 00:00 +0000"),
        ("30 2 * * *", "Europe/Berlin", "2024-03-31 12:00", "03-31 03:00 +0200"),
        ("30 2 * * *", "Europe/Berlin", "2024-10-27 12:00", "10-27 02:30 +0200"),
        ("30 * * * *", "Europe/Berlin", "2024-10-27 03:00", "10-27 02:30 +0100"),
        ("*/30 2 * * *", "Europe/Berlin", "2024-03-31 12:00", "03-30 02:30 +0100"),
    ],
)
def test_what_came_last(expression: str, zone: str, start: str, expected: str) -> None:
    assert shown(last_before(expression, zone, utc(start, zone)), zone) == expected


def test_a_moment_is_neither_after_nor_before_itself() -> None:
    at = utc("2024-05-01 02:30")
    assert next_after("30 2 * * *", "UTC", at - 1) == at == last_before("30 2 * * *", "UTC", at + 1)
    assert next_after("30 2 * * *", "UTC", at) == at + 24 * 60 * MINUTE
    assert last_before("30 2 * * *", "UTC", at) == at - 24 * 60 * MINUTE


def test_at_the_end_of_time_nothing_comes() -> None:
    assert next_after("0 0 1 1 *", "Europe/Berlin", utc("9999-12-30 00:00")) is None
    assert last_before("0 0 1 1 *", "UTC", utc("0001-01-01 00:00")) is None


def test_the_fifth_monday_of_a_february_is_found_over_a_century_without_a_leap_day() -> None:
    assert shown(next_after("0 0 * 2 MON#5", "UTC", utc("2072-03-01 00:00")), "UTC") == "02-29 00:00 +0000"


@pytest.mark.parametrize(
    ("expression", "zone", "said"),
    [
        (
            "61 * * * *",
            "UTC",
            "'61' is not a valid minute in '61 * * * *' (0 to 59; lists, ranges and steps of them, or *)",
        ),
        ("0 9-5 * * *", "UTC", "'9-5' is not a valid hour in '0 9-5 * * *' (0 to 23; "),
        ("*/0 * * * *", "UTC", "'*/0' is not a valid minute"),
        (
            "*/61 * * * *",
            "UTC",
            "the step of '*/61' is longer than a whole hour in '*/61 * * * *' (at most 60 for the minute; ",
        ),
        ("5,10-20/70 * * * *", "UTC", "the step of '10-20/70' is longer than a whole hour"),
        ("0 */25 * * *", "UTC", "longer than a whole day in '0 */25 * * *' (at most 24 for the hour; "),
        ("0 0 */32 * *", "UTC", "longer than a whole month"),
        ("0 0 1 */13 *", "UTC", "longer than a whole year"),
        ("0 0 * * */8", "UTC", "longer than a whole week"),
        ("0 0 1,32 * *", "UTC", "'32' is not a valid day of the month in '0 0 1,32 * *' (1 to 31, L (the last one)"),
        ("0 0 1 JAM *", "UTC", "'JAM' is not a valid month in '0 0 1 JAM *' (1 to 12 or JAN to DEC; "),
        ("0 0 * * 1#6", "UTC", "'1#6' is not a valid day of the week"),
        ("0 0 * *", "UTC", "'0 0 * *' has 4 fields, not 5 (minute hour day month weekday, as in"),
        ("0 0 0 * * *", "UTC", "has 6 fields, not 5"),
        ("", "UTC", "'' has 0 fields, not 5"),
        ("@dayly", "UTC", "'@dayly' is not a cron expression (did you mean @daily?)"),
        ("@reboot", "UTC", "'@reboot' is not a cron expression (one of @hourly, "),
        ("0 0 30 2 *", "UTC", "'0 0 30 2 *' never fires (a day that one of its months has)"),
        ("0 0 31 2,4,6 *", "UTC", "never fires"),
        ("0 0 */31 2 MON#5", "UTC", "never fires"),
        ("0 0 * * *", "europe/berlin", "zone: there is no time zone 'europe/berlin' (did you mean Europe/Berlin?)"),
        ("0 0 * * *", "Europe/Berln", "(did you mean Europe/Berlin?)"),
        ("0 0 * * *", "Los Angeles", "(did you mean America/Los_Angeles?)"),
        ("0 0 * * *", "../etc/passwd", "(a name such as Europe/Berlin, Asia/Shanghai or UTC)"),
        ("0 0 * * *", "right/Europe/Berlin", "(did you mean Europe/Berlin?)"),
        ("0 0 * * *", "", "there is no time zone ''"),
    ],
)
def test_what_is_wrong_is_said(expression: str, zone: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        check(expression, zone)
    assert said in str(error.value)


def test_spaces_and_case_do_not_matter() -> None:
    check("  0\t8 * jan  mon-fri ")
    check("@Daily")


# --- the oracle: every minute of some days, one by one ---------------------------------------------------------------

SPAN = 40 * 60  # minutes
# Days round which clocks are changed in one of the zones.
DAYS = ("2024-03-09", "2024-03-30", "2024-04-06", "2024-10-05", "2024-10-26", "2024-11-02", "2024-02-28", "2026-03-21")


def _matches(field: str, value: int, first: int, last: int) -> bool:
    """Whether a number is one of a field's, written without names."""
    for term in field.split(","):
        span, _, step = term.partition("/")
        low, _, high = (f"{first}-{last}" if span == "*" else span).partition("-")
        if value in range(int(low), int(high or (last if step else low)) + 1, int(step or 1)):
            return True
    return False


def _matches_local(expression: str, local: datetime) -> bool:
    minute, hour, day, month, weekday = expression.split()
    days = (
        _matches(day, local.day, 1, 31),
        any(_matches(weekday, each, 0, 7) for each in {local.isoweekday(), local.isoweekday() % 7}),
    )
    either = all(days) if day.startswith("*") or weekday.startswith("*") else any(days)
    return (
        _matches(minute, local.minute, 0, 59) and _matches(hour, local.hour, 0, 23)
        and _matches(month, local.month, 1, 12) and either
    )  # fmt: skip


def slowly(expression: str, zone: str, start: datetime) -> list[int]:
    """All moments of the span after ``start`` (UTC), by looking at the clock every minute."""
    clock = ZoneInfo(zone)
    fixed = not any(field.startswith("*") for field in expression.split()[:2])
    found: list[int] = []
    before: datetime | None = None
    latest: datetime | None = None  # the latest time that clocks have shown
    for minute in range(-2 * 60, SPAN):
        moment = start + timedelta(minutes=minute)
        local = moment.astimezone(clock).replace(tzinfo=None, fold=0)
        comes = _matches_local(expression, local)
        if fixed and latest is not None and before is not None:
            if local <= latest:
                comes = False  # shown before
            skipped = before + timedelta(minutes=1)
            while skipped < local:
                comes = comes or _matches_local(expression, skipped)
                skipped += timedelta(minutes=1)
        before, latest = local, local if latest is None else max(latest, local)
        if comes and minute > 0:
            found.append(round(moment.timestamp()) * 1_000_000)
    return found


def fields(first: int, last: int) -> st.SearchStrategy[str]:
    """Texts of one field."""
    number = st.integers(first, last)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    # cronsim reads 3-3/5 as 3/5.
    wide = span.filter(lambda text: len(set(text.split("-"))) > 1)
    step = st.tuples(st.one_of(st.just("*"), wide), st.integers(1, 30)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    term = st.one_of(number.map(str), span, step)
    return st.one_of(st.just("*"), st.lists(term, min_size=1, max_size=3).map(",".join))


expressions = st.tuples(
    fields(0, 59), st.one_of(fields(0, 23), fields(0, 4)), st.one_of(st.just("*"), fields(1, 31)), st.just("*"),
    st.one_of(st.just("*"), fields(0, 7)),
).map(" ".join)  # fmt: skip


@examples(14)
@given(expressions, st.sampled_from(ZONES), st.sampled_from(DAYS))
def test_they_are_those_that_a_clock_shows(expression: str, zone: str, day: str) -> None:
    start = datetime.fromisoformat(day).replace(tzinfo=UTC)
    first = round(start.timestamp()) * 1_000_000
    last = first + SPAN * MINUTE
    expected = slowly(expression, zone, start)
    found, at = [], first
    while (following := next_after(expression, zone, at)) is not None and following < last:
        found.append(following)
        at = following
    assert found == expected
    backward, at = [], last
    while (before := last_before(expression, zone, at)) is not None and before > first:
        backward.append(before)
        at = before
    assert backward[::-1] == expected
