"""The forecast for jobs with deadlines: fine, at risk, or not to be met."""

from __future__ import annotations

import msgspec
import pytest

from cress.model.estimates import RunEstimate
from cress.model.events import ClockSet, JobSubmitted
from cress.model.job import Condition
from cress.model.outlook import Outlook, Promise
from cress.model.times import HOUR, MINUTE
from tests.core.builders import JobBuilder, World, group, job, nodes


def clocked(*, full_for: str = "") -> World:
    """A node of 4 cores, full for so long."""
    world = World(group("g", 4, "Urgency"), nodes=nodes(1, cpu=4))
    world.observe([ClockSet(0)])
    if full_for:
        world.run(job("runs").cpu(4).group("g").limit(full_for))
    return world


def wants(due: int, *, limit: str = "1h", cpu: int = 4) -> JobBuilder:
    return job("wants").cpu(cpu).group("g").limit(limit).deadline(due)


def told(world: World, name: str = "wants") -> Outlook:
    outlook = world.core.outlook(world.ids[name])
    assert outlook is not None
    return outlook


@pytest.mark.parametrize(
    ("full_for", "due", "promise", "earliest"),
    [
        pytest.param("", HOUR, Promise.FINE, HOUR, id="there is room at once"),
        pytest.param("", HOUR - 1, Promise.CANNOT, HOUR, id="its limit is longer than its deadline is away"),
        pytest.param("2h", 3 * HOUR, Promise.FINE, 3 * HOUR, id="room comes in time"),
        pytest.param("2h", 3 * HOUR - 1, Promise.CANNOT, 3 * HOUR, id="room comes too late"),
    ],
)
def test_limits_tell_whether_a_deadline_can_be_met(full_for: str, due: int, promise: Promise, earliest: int) -> None:
    world = clocked(full_for=full_for).submit(wants(due))
    outlook = told(world)
    assert (outlook.promise, outlook.earliest_end, outlook.deadline) == (promise, earliest, due)
    assert outlook.chance == (1.0 if promise is Promise.FINE else 0.0)


@pytest.mark.parametrize(
    ("due", "promise", "chance"),
    [
        pytest.param(9, Promise.CANNOT, 0, id="shorter than the optimistic estimate"),
        pytest.param(10, Promise.AT_RISK, 0.1, id="the optimistic estimate"),
        pytest.param(20, Promise.AT_RISK, 0.5, id="the mean"),
        pytest.param(30, Promise.AT_RISK, 0.7, id="between mean and pessimistic estimate"),
        pytest.param(40, Promise.FINE, 0.9, id="the pessimistic estimate"),
    ],
)
def test_estimates_tell_how_likely_it_is(due: int, promise: Promise, chance: float) -> None:
    world = clocked()
    estimate = RunEstimate(optimistic=10 * MINUTE, mean=20 * MINUTE, pessimistic=40 * MINUTE, run=20 * MINUTE)
    world.ids["wants"], world.names[1] = 1, "wants"
    world.observe([JobSubmitted(wants(due * MINUTE).build(1, world.dimensions), None, estimate)])
    outlook = told(world)
    assert outlook.promise is promise
    assert outlook.chance == pytest.approx(chance)
    assert outlook.earliest_end == 10 * MINUTE
    assert outlook.slack == (due - 20) * MINUTE


def test_work_with_nearer_deadlines_makes_it_a_risk() -> None:
    for nearer, promise in ((True, Promise.AT_RISK), (False, Promise.FINE)):
        world = clocked(full_for="1h")
        due = 90 * MINUTE if nearer else 9 * HOUR
        world.submit(*(job(f"other{i}").cpu(4).group("g").limit("30min").deadline(due) for i in range(4)))
        world.submit(wants(2 * HOUR))
        assert told(world).promise is promise


def test_a_dry_run_tells_what_the_submit_would() -> None:
    """It counts the queue ahead, and a job that waits for another one or for its release is not promised anything."""
    world = clocked(full_for="1h")
    world.submit(*(job(f"other{i}").cpu(4).group("g").limit("30min").deadline(90 * MINUTE) for i in range(4)))
    asked = wants(2 * HOUR).build(99, world.dimensions)
    behind = msgspec.structs.replace(asked, after=((world.ids["other0"], Condition.OK),))
    held = msgspec.structs.replace(asked, hold=True)
    late = msgspec.structs.replace(held, deadline=90 * MINUTE)
    found = [world.core.foreseen(each) for each in (asked, behind, held, late)]
    assert [each and each.promise for each in found] == [
        Promise.AT_RISK, Promise.UNKNOWN, Promise.UNKNOWN, Promise.CANNOT,
    ]  # fmt: skip
    world.submit(wants(2 * HOUR))
    assert told(world).promise is Promise.AT_RISK


@pytest.mark.parametrize(
    ("requirement", "promise", "earliest"),
    [
        pytest.param("", Promise.FINE, HOUR, id="the empty node"),
        pytest.param('Name = "n1"', Promise.CANNOT, 2 * HOUR, id="the full node alone"),
        pytest.param('Name = "n1" && f(x) = (Waittime > 15min)', Promise.FINE, HOUR, id="a clause that may relax"),
        pytest.param('Name = "n9"', Promise.UNKNOWN, None, id="no node"),
    ],
)
@pytest.mark.parametrize("submitted", [False, True], ids=["a dry run", "submitted"])
def test_clauses_that_never_relax_count(
    requirement: str, promise: Promise, earliest: int | None, *, submitted: bool
) -> None:
    world = World(group("g", 4, "Urgency"), nodes=nodes(2, cpu=4))
    world.observe([ClockSet(0)])
    world.run(job("runs").cpu(4).group("g").limit("1h").requires('Name = "n1"'))
    asked = wants(90 * MINUTE).requires(requirement)
    if submitted:
        outlook = told(world.submit(asked))
    else:
        found = world.core.foreseen(asked.build(99, world.dimensions))
        assert found is not None
        outlook = found
    assert (outlook.promise, outlook.earliest_end) == (promise, earliest)
    assert not world.core.validate()


def test_what_runs_is_foreseen_from_when_it_started() -> None:
    world = clocked().run(wants(90 * MINUTE)).wait(40 * 60)
    world.decide()
    outlook = told(world)
    assert (outlook.promise, outlook.earliest_end, outlook.slack) == (Promise.FINE, HOUR, 30 * MINUTE)
    assert outlook.urgency == pytest.approx(20 / 50)


def test_nothing_is_foreseen_without_a_deadline_a_clock_or_a_limit() -> None:
    world = clocked().submit(job("plain").group("g"), wants(HOUR))
    assert world.core.outlook(world.ids["plain"]) is None
    dark = World(group("g", 4), nodes=nodes(1, cpu=4)).submit(wants(HOUR))
    assert dark.core.outlook(dark.ids["wants"]) is None
    unlimited = clocked().submit(job("wants").cpu(4).group("g").deadline(HOUR))
    assert told(unlimited).promise is Promise.UNKNOWN
