"""Times of advance reservations: as written, and on clocks that are put forward and back."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from cress.model.advance import AdvanceReservation, known, local, longest_gap, occurrences
from cress.model.advancetext import free_name, parse_every, parse_span, say_every, split_names
from cress.model.errors import InputError
from cress.model.times import DAY, HOUR, SECOND

BERLIN = ZoneInfo("Europe/Berlin")


def berlin(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()) * SECOND


NOW = berlin("2026-11-25 14:30")


def test_a_reservation_without_a_name_gets_a_free_one() -> None:
    assert free_name("b", ()) == "b-1"
    assert free_name("b", {"b-1", "b-3"}) == "b-2"
    assert free_name("", ()) == "maintenance-1"
    # Not every name of a group is one of a reservation.
    assert free_name("Köln", ()) == "reservation-1"


@pytest.mark.parametrize(
    ("start", "until", "length", "every", "found"),
    [
        ("now", "", "4h", "", ("2026-11-25 14:30", "2026-11-25 18:30", ())),
        ("+2h", "", "90min", "", ("2026-11-25 16:30", "2026-11-25 18:00", ())),
        # Both from now on.
        ("+1h", "+90min", "", "", ("2026-11-25 15:30", "2026-11-25 16:00", ())),
        ("+10h", "02:00", "", "", ("2026-11-26 00:30", "2026-11-26 02:00", ())),
        ("18:00", "22:00", "", "", ("2026-11-25 18:00", "2026-11-25 22:00", ())),
        ("08:00", "10:00", "", "", ("2026-11-26 08:00", "2026-11-26 10:00", ())),
        ("22:00", "02:00", "", "day", ("2026-11-25 22:00", "2026-11-26 02:00", tuple(range(7)))),
        ("2026-12-01 18:00", "", "4h", "week", ("2026-12-01 18:00", "2026-12-01 22:00", (1,))),
        # The next Monday, as Saturday is none of the days.
        ("2026-11-28 08:00", "", "2h", "mon-fri", ("2026-11-30 08:00", "2026-11-30 10:00", (0, 1, 2, 3, 4))),
        ("2026-12-01 18:00 UTC", "", "1h", "", ("2026-12-01 19:00", "2026-12-01 20:00", ())),
    ],
)  # fmt: skip
def test_times_as_people_write_them(
    start: str, until: str, length: str, every: str, found: tuple[str, str, tuple[int, ...]]
) -> None:
    begin, end, days = parse_span(start, until, length, every, NOW, BERLIN)
    assert (f"{local(begin, BERLIN):%Y-%m-%d %H:%M}", f"{local(end, BERLIN):%Y-%m-%d %H:%M}", days) == found


@pytest.mark.parametrize(
    ("start", "until", "length", "every", "field", "what"),
    [
        ("tomorrow", "", "1h", "", "from", "'tomorrow' is not a moment"),
        ("2h", "", "1h", "", "from", "'2h' is not a moment"),
        ("2026-02-30 10:00", "", "1h", "", "from", "'2026-02-30 10:00' is not a moment"),
        ("now", "", "", "", "for", "it has no end"),
        ("now", "18:00", "1h", "", "for", "it has two ends"),
        ("now", "", "soon", "", "for", "'soon' does not begin with a number"),
        ("2026-12-01 18:00", "2026-12-01 17:00", "", "", "until", "it ends before it begins"),
        ("+1h", "+30min", "", "", "until", "it ends before it begins"),
        ("+1h", "now", "", "", "until", "it ends before it begins"),
        ("now", "", "1h", "often", "every", "'often' is not a repetition"),
        ("now", "", "25h", "day", "every", "it would begin again before it ends"),
        ("now", "", "2d", "mon,tue", "every", "it would begin again before it ends"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_field(
    start: str, until: str, length: str, every: str, field: str, what: str
) -> None:
    with pytest.raises(InputError) as refused:
        parse_span(start, until, length, every, NOW, BERLIN)
    assert (refused.value.field, refused.value.what) == (field, what)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Pacific/Kiritimati", "Etc/GMT+12"])
@pytest.mark.parametrize(
    ("start", "until", "length", "every", "field"),
    [
        ("9999-12-31 23:30", "", "5d", "", "from"),
        ("9999-12-31 23:30 -05:00", "", "1h", "", "from"),
        ("9999-12-31 23:30 -05:00", "", "1h", "week", "from"),
        ("9989-12-30 12:00", "", "5d", "", "for"),
        ("9989-12-30 12:00", "9999-12-31 23:59 -12:00", "", "", "until"),
        ("9989-12-31 10:00", "", "1h", "tue", "every"),
    ],
)  # fmt: skip
def test_what_no_clock_can_show_is_refused(
    start: str, until: str, length: str, every: str, field: str, zone: str
) -> None:
    with pytest.raises(InputError) as refused:
        parse_span(start, until, length, every, NOW, ZoneInfo(zone))
    verb = "begins" if field == "from" else "ends"
    assert str(refused.value) == (
        f"{field}: it {verb} after 9989-12-31, the last day that can be reserved (an earlier moment)"
    )


def test_a_reservation_of_a_hundred_years_has_an_end_and_a_late_repetition_its_times() -> None:
    begin, end, _ = parse_span("now", "", "36500d", "", NOW, BERLIN)
    assert list(occurrences(AdvanceReservation(name="r", start=begin, end=end), NOW, BERLIN)) == [(begin, end)]
    begin, end, days = parse_span("9989-12-30 10:00", "", "1h", "day", NOW, BERLIN)
    late = AdvanceReservation(name="r", start=begin, end=end, days=days, zone="Europe/Berlin")
    assert next(occurrences(late, NOW, BERLIN)) == (begin, end)


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        # Clocks skip 2 to 3 o'clock on 28 March 2027, and show it twice on 31 October.
        ("2027-03-27 02:30", "2027-03-27 04:00", [("01:30", 1.5), ("01:00", 1.0), ("00:30", 1.5)]),
        ("2027-10-30 01:30", "2027-10-30 02:30", [("23:30", 1.0), ("23:30", 2.0), ("00:30", 1.0)]),
        ("2027-10-30 12:00", "2027-10-30 13:00", [("10:00", 1.0), ("11:00", 1.0), ("11:00", 1.0)]),
    ],
)  # fmt: skip
def test_a_repetition_follows_the_clocks(start: str, end: str, found: list[tuple[str, float]]) -> None:
    begin = berlin(start)
    daily = AdvanceReservation(name="r", start=begin, end=berlin(end), days=tuple(range(7)), zone="Europe/Berlin")
    times = occurrences(daily, begin, BERLIN)
    seen = [next(times) for _ in range(3)]
    utc = ZoneInfo("UTC")
    assert [(f"{local(each, utc):%H:%M}", (last - each) / HOUR) for each, last in seen] == found


def test_the_horizon_is_counted_from_an_occurrence_so_that_nothing_changes_between_two() -> None:
    begin = berlin("2026-12-01 18:00")
    weekly = AdvanceReservation(name="r", start=begin, end=begin + 4 * HOUR, days=(1,), zone="Europe/Berlin")
    first = known(weekly, NOW, BERLIN)
    assert [start for start, _ in first] == [begin, begin + 7 * DAY, begin + 14 * DAY]
    assert known(weekly, begin + 4 * HOUR - 1, BERLIN) == first
    assert known(weekly, begin + 4 * HOUR, BERLIN)[0][0] == begin + 7 * DAY
    assert longest_gap(weekly, begin + 4 * HOUR, BERLIN) == 7 * DAY - 4 * HOUR


@pytest.mark.parametrize(("text", "days"), [("day", "day"), ("Mon-Fri", "Mon-Fri"), ("wed,mon", "Mon,Wed"), ("", "")])
def test_days_are_said_as_they_are_read(text: str, days: str) -> None:
    found = parse_every(text)
    assert found is not None
    assert say_every(found) == days


def test_a_comma_in_brackets_belongs_to_its_pattern() -> None:
    assert split_names("n1, n[2,4-6],rack1-*,") == ["n1", "n[2,4-6]", "rack1-*"]
