"""Forecasts of jobs with deadlines: from the earliest start and the limit, or the estimates."""

from __future__ import annotations

import msgspec
import pytest

from cress.core.scheduler import Scheduler
from cress.model.decisions import Start
from cress.model.estimates import RunEstimate
from cress.model.events import ClockSet, JobSubmitted, NodeAdded
from cress.model.job import Job
from cress.model.node import Node
from cress.model.options import Options
from cress.model.outlook import Outlook, Promise
from cress.model.resources import Dimensions
from cress.model.times import HOUR, MINUTE
from cress.model.vectors import parse_vector

DIMENSIONS = Dimensions()
UTC = 1_700_000_000_000_000


def job(number: int, hours: float, limit: float | None = 1, cpus: int = 1, **more: object) -> Job:
    """A job whose deadline is ``hours`` from the start of the world on, with a limit in hours."""
    values = {
        "deadline": UTC + round(hours * HOUR),
        "time_limit": None if limit is None else round(limit * HOUR),
        **more,
    }
    return Job(id=number, group="", request=parse_vector(f"<{cpus}, 1G>", DIMENSIONS), **values)  # type: ignore[arg-type]


def world(*jobs: Job | JobSubmitted) -> Scheduler:
    """A scheduler with one node of one core, that has decided about these jobs."""
    made = Scheduler(DIMENSIONS, Options())
    made.observe(0, [ClockSet(UTC), NodeAdded(Node(name="n1", capacity=parse_vector("<1, 8G>", DIMENSIONS)))])
    made.observe(0, [each if isinstance(each, JobSubmitted) else JobSubmitted(each) for each in jobs])
    made.decide(0)
    return made


def found(made: Scheduler, number: int, now: int | None = None) -> Outlook:
    outlook = made.outlook(number, now)
    assert outlook is not None
    return outlook


RUNNING: list[tuple[float, float, Promise, float]] = [
    # limit and deadline in hours, what is foreseen, slack in hours
    (1, 2, Promise.FINE, 1),
    (1, 1, Promise.FINE, 0),
    (2, 1.5, Promise.AT_RISK, -0.5),
]


@pytest.mark.parametrize(("limit", "hours", "promise", "slack"), RUNNING)
def test_a_job_that_runs_is_foreseen_from_its_start_on(
    limit: float, hours: float, promise: Promise, slack: float
) -> None:
    made = world(job(1, hours, limit))
    for now in (0, HOUR // 2):
        outlook = found(made, 1, now)
        assert (outlook.promise, outlook.slack) == (promise, slack * HOUR)
        assert outlook.likely_end == UTC + limit * HOUR
        assert outlook.earliest_end == UTC + now


def test_what_waits_starts_when_there_is_room() -> None:
    made = world(job(1, 10), job(2, 2), job(3, 1.9))
    # What runs may end at once.
    soon, end = UTC + 1, UTC + 2 * HOUR
    assert found(made, 2) == Outlook(UTC + 2 * HOUR, 0.5, HOUR, Promise.FINE, 1.0, soon, end)
    assert (found(made, 3).promise, found(made, 3).likely_end) == (Promise.AT_RISK, UTC + 3 * HOUR)


def test_the_slack_of_what_waits_goes_down() -> None:
    made = world(job(1, 10), job(2, 4))
    assert [(found(made, 2, minutes * MINUTE).slack or 0) // MINUTE for minutes in (0, 30)] == [180, 150]


ESTIMATE = RunEstimate(optimistic=HOUR, mean=2 * HOUR, pessimistic=3 * HOUR, run=2 * HOUR)
CHANCES = [(0.5, Promise.CANNOT, 0.0), (1, Promise.AT_RISK, 0.1), (2, Promise.AT_RISK, 0.5), (3, Promise.FINE, 0.9)]


@pytest.mark.parametrize(("hours", "promise", "chance"), CHANCES)
def test_the_chance_follows_the_estimate(hours: float, promise: Promise, chance: float) -> None:
    made = world(JobSubmitted(job(1, hours, 4), estimate=ESTIMATE))
    outlook = found(made, 1)
    assert outlook.promise is promise
    assert outlook.chance == pytest.approx(chance)


NOTHING_KNOWN = [{"limit": None}, {"hold": True}]


@pytest.mark.parametrize("keys", NOTHING_KNOWN)
def test_without_a_known_start_or_length_nothing_is_foreseen(keys: dict[str, object]) -> None:
    made = world(job(1, 4, **keys))  # type: ignore[arg-type]
    assert (found(made, 1).promise, found(made, 1).chance) == (Promise.UNKNOWN, None)


def test_what_waits_for_others_cannot_end_before_it_could_if_it_started_now() -> None:
    made = world(JobSubmitted(job(1, 0.5, 4, hold=True), estimate=ESTIMATE), job(2, 0.5, hold=True))
    assert [found(made, number).promise for number in (1, 2)] == [Promise.CANNOT, Promise.AT_RISK]


def test_a_deadline_that_has_passed_cannot_be_met() -> None:
    outlook = found(world(job(1, 2, None)), 1, 3 * HOUR)
    assert (outlook.promise, outlook.earliest_end) == (Promise.CANNOT, None)


@pytest.mark.parametrize(("hours", "promise"), [(2, Promise.FINE), (1.5, Promise.AT_RISK)])
def test_a_job_that_is_not_submitted_is_foreseen_as_if_it_was(hours: float, promise: Promise) -> None:
    made = world(job(1, 10))
    before = made.export()
    outlook = made.foreseen(job(2, hours))
    assert outlook is not None
    assert (outlook.promise, outlook.likely_end) == (promise, UTC + 2 * HOUR)
    assert made.export() == before
    assert made.validate() == []
    made.observe(0, [JobSubmitted(job(2, hours))])
    made.decide(0)
    assert found(made, 2) == outlook


def test_without_a_deadline_there_is_no_forecast() -> None:
    made = world(msgspec.structs.replace(job(1, 1), deadline=0))
    assert made.outlook(1) is None
    assert made.outlook(2) is None
    assert made.foreseen(msgspec.structs.replace(job(2, 1), deadline=0)) is None


def test_forecasts_change_no_decision() -> None:
    def starts(made: Scheduler) -> list[Start]:
        made.observe(HOUR, [NodeAdded(Node(name="n2", capacity=parse_vector("<2, 8G>", DIMENSIONS)))])
        return [each for each in made.decide(HOUR).items if isinstance(each, Start)]

    asked, plain = (world(*(job(number, 1 + number) for number in range(1, 6))) for _ in range(2))
    for number in range(1, 6):
        asked.outlook(number)
        asked.foreseen(job(number + 10, 3, cpus=2))
    assert starts(asked) == starts(plain)
