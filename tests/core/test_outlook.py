"""The forecast for jobs with deadlines: fine, at risk, or not to be met."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from cress.model.estimates import RunEstimate
from cress.model.events import ClockSet, JobSubmitted, TasksReleased
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
    ("full_for", "due", "promise", "likely"),
    [
        pytest.param("", HOUR, Promise.FINE, HOUR, id="there is room at once"),
        pytest.param("", HOUR - 1, Promise.AT_RISK, HOUR, id="its limit is longer than its deadline is away"),
        pytest.param("2h", 3 * HOUR, Promise.FINE, 3 * HOUR, id="room comes in time"),
        pytest.param("2h", 3 * HOUR - 1, Promise.AT_RISK, 3 * HOUR, id="room comes too late"),
    ],
)
def test_limits_tell_that_a_deadline_is_met_never_that_it_cannot_be(
    full_for: str, due: int, promise: Promise, likely: int
) -> None:
    world = clocked(full_for=full_for).submit(wants(due))
    outlook = told(world)
    assert (outlook.promise, outlook.likely_end, outlook.deadline) == (promise, likely, due)
    assert outlook.chance == (1.0 if promise is Promise.FINE else None)


# --- what runs, and the queue ahead, by their estimates --------------------------------------------------------------

RUN = RunEstimate(optimistic=20 * MINUTE, mean=30 * MINUTE, pessimistic=40 * MINUTE, run=30 * MINUTE, least=20 * MINUTE)


def estimated(label: str, due: int = 0, *, cpu: int = 4, name: str = "g") -> JobBuilder:
    """A job of 20 to 40 minutes, with a limit that says little."""
    made = replace(job(label).cpu(cpu).group(name).limit("9h"), estimate=RUN)
    return made.deadline(due) if due else made


def behind(policy: str, queue: int, due: int, *, cpu: int = 4, cores: int = 4, **options: str) -> Outlook:
    """The forecast for a job behind one that runs for 10 minutes already and some that wait, all alike."""
    world = World(group("g", cores, policy).with_options(**options), nodes=nodes(1, cpu=cores))
    world.observe([ClockSet(0)])
    world.run(*(estimated(f"runs{i}", cpu=cpu) for i in range(cores // cpu))).wait(10 * 60)
    world.submit(*(estimated(f"ahead{i}", due=due - 1, cpu=cpu) for i in range(queue)))
    world.submit(estimated("wants", due, cpu=cpu)).decide()
    return told(world)


@pytest.mark.parametrize(
    ("queue", "due", "promise"),
    [
        # The running one ends 20 to 40 minutes from its start on, each further one takes as long.
        pytest.param(0, 40, Promise.AT_RISK, id="by the optimistic ends it is just in time"),
        pytest.param(0, 39, Promise.CANNOT, id="by the optimistic ends it is late"),
        pytest.param(1, 60, Promise.AT_RISK, id="one ahead, just in time"),
        pytest.param(1, 59, Promise.CANNOT, id="one ahead, late"),
        pytest.param(0, 80, Promise.AT_RISK, id="the limit of what runs is 9 hours"),
        pytest.param(0, 580, Promise.FINE, id="late enough for its limit"),
    ],
)
@pytest.mark.parametrize("policy", ["FIFO", "BackFill", "EDF"])
def test_only_optimistic_ends_show_that_a_deadline_cannot_be_met(
    policy: str, queue: int, due: int, promise: Promise
) -> None:
    assert behind(policy, queue, due * MINUTE, late="urgent").promise is promise


def test_those_ahead_that_may_become_late_make_way() -> None:
    assert behind("EDF", 1, 59 * MINUTE).promise is Promise.AT_RISK


def test_several_cores_work_at_the_queue_together() -> None:
    """Four run, four wait ahead: by the optimistic ends it starts at 40 minutes."""
    assert behind("FIFO", 4, 60 * MINUTE, cpu=1).promise is Promise.AT_RISK
    assert behind("FIFO", 4, 59 * MINUTE, cpu=1).promise is Promise.CANNOT
    assert behind("FIFO", 3, 59 * MINUTE, cpu=1).promise is Promise.AT_RISK


def test_what_outlived_its_estimates_may_end_at_any_time() -> None:
    world = World(group("g", 4, "FIFO"), nodes=nodes(1, cpu=4))
    world.observe([ClockSet(0)])
    world.run(estimated("runs", HOUR)).wait(50 * 60)
    world.decide()
    assert told(world, "runs").promise is Promise.AT_RISK
    world.submit(estimated("wants", 71 * MINUTE), estimated("late", 69 * MINUTE))
    assert [told(world, name).promise for name in ("wants", "late")] == [Promise.AT_RISK, Promise.CANNOT]


def test_preemption_may_make_room_before_anything_ends() -> None:
    for preemption, promise in (("on", Promise.AT_RISK), ("off", Promise.CANNOT)):
        world = World(group("a", 1), group("b", 4), nodes=nodes(1, cpu=5), preemption=preemption)
        world.observe([ClockSet(0)])
        world.run(estimated("borrows", cpu=5, name="a"))
        world.submit(estimated("wants", 30 * MINUTE, name="b"))
        assert told(world).promise is promise


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
        Promise.AT_RISK, Promise.UNKNOWN, Promise.UNKNOWN, Promise.UNKNOWN,
    ]  # fmt: skip
    world.submit(wants(2 * HOUR))
    assert told(world).promise is Promise.AT_RISK


@pytest.mark.parametrize(
    ("requirement", "promise", "likely"),
    [
        pytest.param("", Promise.FINE, HOUR, id="the empty node"),
        pytest.param('Name = "n1"', Promise.AT_RISK, 2 * HOUR, id="the full node alone"),
        pytest.param('Name = "n1" && f(x) = (Waittime > 15min)', Promise.FINE, HOUR, id="a clause that may relax"),
        pytest.param('Name = "n9"', Promise.UNKNOWN, None, id="no node"),
    ],
)
@pytest.mark.parametrize("submitted", [False, True], ids=["a dry run", "submitted"])
def test_clauses_that_never_relax_count(
    requirement: str, promise: Promise, likely: int | None, *, submitted: bool
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
    assert (outlook.promise, outlook.likely_end) == (promise, likely)
    assert not world.core.validate()


def test_what_runs_is_foreseen_from_when_it_started() -> None:
    world = clocked().run(wants(90 * MINUTE)).wait(40 * 60)
    world.decide()
    outlook = told(world)
    assert (outlook.promise, outlook.likely_end, outlook.slack) == (Promise.FINE, HOUR, 30 * MINUTE)
    assert outlook.urgency == pytest.approx(20 / 50)


def test_tasks_that_are_not_released_or_in_backoff_are_still_to_run() -> None:
    world = clocked()
    world.ids["wants"], world.names[1] = 1, "wants"
    world.observe([JobSubmitted(wants(2 * HOUR, cpu=1).tasks(2).build(1, world.dimensions), by_task=True)])
    assert told(world).promise is Promise.UNKNOWN
    world.observe([TasksReleased(world.ids["wants"], (0,))])
    assert told(world).promise is Promise.UNKNOWN
    world.decide()
    assert told(world).promise is Promise.UNKNOWN
    assert told(world).urgency == pytest.approx(0.5)
    world.observe([TasksReleased(world.ids["wants"], dropped=(1,))])
    assert told(world).promise is Promise.FINE


def test_nothing_is_foreseen_without_a_deadline_a_clock_or_a_limit() -> None:
    world = clocked().submit(job("plain").group("g"), wants(HOUR))
    assert world.core.outlook(world.ids["plain"]) is None
    dark = World(group("g", 4), nodes=nodes(1, cpu=4)).submit(wants(HOUR))
    assert dark.core.outlook(dark.ids["wants"]) is None
    unlimited = clocked().submit(job("wants").cpu(4).group("g").deadline(HOUR))
    assert told(unlimited).promise is Promise.UNKNOWN
