"""Intervals of expected starts, learned from what came (note 0054)."""

from __future__ import annotations

from collections.abc import Callable
from math import exp

import numpy as np
import pytest

from cress.core.answers.start_errors import ENOUGH, Interval, StartErrors
from cress.model.times import HOUR, MINUTE

# How much longer a job waits than a run forward says: a generator and a job's place in the story → a factor.
Error = Callable[[np.random.Generator, float], float]


def story(error: Error, *, jobs: int = 1_500, delay: int = 30) -> list[tuple[Interval, int]]:
    """Jobs that come one after another, and start ``delay`` jobs later or more: intervals, and waits that came."""
    chance = np.random.default_rng(7)
    errors, found = StartErrors(), []
    gap = 10 * MINUTE
    starts: list[tuple[int, int]] = []
    for number in range(jobs):
        now = number * gap
        for start, job in sorted(starts):
            if start <= now:
                errors.started(job, start)
        starts = [(start, job) for start, job in starts if start > now]
        errors.waits(now)
        told = delay * gap + int(chance.uniform(0, 5 * HOUR))
        real = int(told * error(chance, number / jobs))
        interval = errors.interval(told, 2 * told)
        errors.told(number, now, told, 2 * told, interval)
        starts.append((now + real, number))
        found.append((interval, real))
    return found


def shares(found: list[tuple[Interval, int]]) -> tuple[float, float, float]:
    """The shares of starts before, in and after their intervals."""
    before = np.mean([real < interval.earliest for interval, real in found])
    after = np.mean([real > interval.latest for interval, real in found])
    return float(before), float(1 - before - after), float(after)


def constant(width: float, middle: float = 0.0) -> Error:
    """Errors whose logarithms are normal."""
    return lambda chance, _: exp(chance.normal(middle, width))


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(constant(0.1), id="small errors"),
        pytest.param(constant(1.0), id="large errors"),
        pytest.param(constant(0.5, middle=0.8), id="jobs wait twice as long as they are told"),
        pytest.param(lambda chance, place: exp(chance.normal(-0.7 if place < 0.5 else 0.7, 0.4)), id="it changes"),
    ],
)
def test_the_interval_holds_eight_of_ten_starts_whatever_the_errors_are(error: Error) -> None:
    before, inside, after = shares(story(error))
    assert 0.77 <= inside <= 0.83
    assert 0.06 <= before <= 0.14
    assert 0.06 <= after <= 0.14


def test_small_errors_lead_to_narrow_intervals_around_what_is_told() -> None:
    interval, _ = story(constant(0.05))[-1]
    assert interval.latest / interval.earliest < 1.3
    wide, _ = story(constant(0.5))[-1]
    assert wide.latest / wide.earliest > 2


def test_before_anything_was_learned_the_interval_is_wide() -> None:
    errors = StartErrors()
    told = errors.interval(HOUR, None)
    # Runs may end long before their limits, and more jobs may come before it.
    assert told.earliest <= HOUR // 5
    assert told.latest >= HOUR * 3
    assert told.likely == HOUR
    assert not errors.learned


def test_a_start_that_is_too_late_is_known_before_it_comes() -> None:
    errors = StartErrors()
    for job in range(ENOUGH):
        errors.told(job, 0, HOUR, None, Interval(0, HOUR, 2 * HOUR))
    high = errors.high
    errors.waits(2 * HOUR)
    assert errors.high == high
    errors.waits(2 * HOUR + 1)
    assert errors.high > high
    moved = errors.high
    # Each of them counts once.
    errors.waits(3 * HOUR)
    for job in range(ENOUGH):
        errors.started(job, 3 * HOUR)
    assert errors.high == moved
    assert errors.learned
    assert errors.awaited() == ()


def test_a_job_that_never_starts_teaches_nothing() -> None:
    errors = StartErrors()
    errors.told(1, 0, HOUR, None, errors.interval(HOUR, None))
    errors.dropped(1)
    errors.started(1, 9 * HOUR)
    assert (errors.awaited(), errors.low, errors.high) == ((), 0.1, 0.9)


def test_only_the_first_forecast_of_a_job_counts() -> None:
    errors = StartErrors()
    errors.told(1, 0, HOUR, None, Interval(0, HOUR, 2 * HOUR))
    errors.told(1, HOUR, MINUTE, None, Interval(0, MINUTE, 2 * MINUTE))
    low, high = errors.low, errors.high
    errors.started(1, 90 * MINUTE)
    assert (errors.low > low, errors.high < high) == (True, True)
