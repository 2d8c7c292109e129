"""Curves of the past: means over points, gaps, bounds, and what is read again."""

from __future__ import annotations

import pytest

from cress.shell.center import past_use
from cress.shell.center.past_use import GROUP, SPANS, USE, PastUse

CPU = (USE, "cpu")
BEGIN = 1_800_000_000.0  # a multiple of all steps


def curve(past: PastUse, span: str, now: float, key: tuple[str, str] = CPU) -> list[float | None]:
    return dict(past.curves(span, now)).get(key, [])


def test_a_point_is_the_mean_of_its_samples_and_a_time_without_one_is_a_gap() -> None:
    past = PastUse()
    for at, value in ((0, 0.0), (5, 0.5), (10, 1.0), (15, 0.25), (62, 0.75)):
        past.add(BEGIN + at, {CPU: value})
    now = BEGIN + 62
    assert curve(past, "hour", now)[-6:] == [None, 0.5, 0.25, None, None, 0.75]
    assert curve(past, "day", now)[-2:] == [None, 0.5]
    assert curve(past, "week", now)[-1] == 0.5
    assert past.begin("hour", now) == BEGIN + 60 - 239 * 15
    # What was known is moved, as time goes on without a sample, and is forgotten at last.
    assert curve(past, "hour", now + 30)[-3:] == [0.75, None, None]
    assert set(curve(past, "hour", now + 3600)) == {None}
    # A span later nothing of the old round is taken for the new one.
    past.add(now + 3600, {CPU: 0.125})
    assert curve(past, "hour", now + 3600) == [None] * 239 + [0.125]
    # A clock that was set back changes nothing.
    past.add(BEGIN + 600, {CPU: 1.0})
    assert curve(past, "hour", now + 3600)[-1] == 0.125
    # Unless it was far ahead: then the curves begin anew.
    past.add(now + 1e8, {CPU: 1.0})
    past.add(now, {CPU: 0.25})
    assert curve(past, "hour", now) == [None] * 239 + [0.25]
    assert curve(past, "week", now)[-1] == 0.25


def test_curves_are_read_while_a_sample_comes() -> None:
    past = PastUse()
    past.add(BEGIN, {CPU: 0.5, (GROUP, "a"): 0.5})
    reading = past.curves("hour", BEGIN)
    assert next(reading)[0] == CPU
    past.add(BEGIN, {(GROUP, "b"): 0.5})
    assert [key for key, _ in reading] == [(GROUP, "a")]


def test_curves_are_read_again_and_damaged_ones_are_refused() -> None:
    past = PastUse()
    past.add(BEGIN, {CPU: 0.5, (GROUP, "lab"): 1.5})
    again = PastUse.decoded(past.encoded())
    again.add(BEGIN + 15, {CPU: 1.0})
    assert curve(again, "hour", BEGIN + 15)[-2:] == [0.5, 1.0]
    assert curve(again, "day", BEGIN + 15, (GROUP, "lab"))[-1] == 1.5
    for damaged in (
        b"",
        b"\x00",
        past.encoded()[:-1],
        b"\x91\x93\x0f\x01\x91\x93\xa3use\xa3cpu\xc4\x04\x00\x00\x00\x00",
    ):
        with pytest.raises(ValueError):  # noqa: PT011 – of the decoder, or of the curve
            PastUse.decoded(damaged)


def test_groups_that_come_and_go_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_use, "MOST_CURVES", 5)
    past = PastUse()
    for number in range(20):
        past.add(BEGIN + 15 * number, {CPU: 0.5, **{(GROUP, f"g{number + i}"): 1.0 for i in range(3)}})
    found = dict(past.curves("hour", BEGIN + 300))
    assert len(found) == 5
    # Those of now are all there.
    assert {CPU, (GROUP, "g19"), (GROUP, "g20"), (GROUP, "g21")} <= set(found)
    # A group that is gone for the whole of a span has no curve any more.
    for number in range(2 * SPANS["hour"].points):
        past.add(BEGIN + 300 + 15 * number, {CPU: 0.5})
    assert set(dict(past.curves("hour", BEGIN + 300 + 15 * number))) == {CPU}
