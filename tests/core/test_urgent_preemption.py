"""Order and preemption by urgency across groups (source S): who goes first, who yields to whom, and that nobody gains
by lying.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.placing.vetoes import Verdict
from cress.model.events import ClockSet, Outcome
from cress.model.job import JobType
from cress.model.times import HOUR, MINUTE, SECOND
from tests.core.builders import GroupBuilder, JobBuilder, World, group, job, node, nodes
from tests.core.test_advance_reservations import NOON, at, keep, reservation

LATER = 100 * HOUR


def urgent(name: str, quota: int, **options: str) -> GroupBuilder:
    return group(name, quota, "Urgency").with_options(**options)


def clocked(*groups: GroupBuilder, cpu: int, count: int = 1, **options: Any) -> World:
    """Nodes of ``cpu`` cores, and the wall clock at 0 when the core begins."""
    world = World(*groups, nodes=nodes(count, cpu=cpu), node_order="first", **options)
    world.observe([ClockSet(0)])
    return world


def of(name: str, label: str, cpu: int = 1, *, limit: str = "1h", due: int = LATER) -> JobBuilder:
    return job(label).cpu(cpu).group(name).limit(limit).deadline(due)


# Urgency 1 within the first hour.
TIGHT = HOUR + MINUTE


# --- the order of the groups -----------------------------------------------------------------------------------------


def test_of_groups_not_above_their_quota_the_one_with_the_most_urgent_job_goes_first() -> None:
    for order, first in (("share", "loose"), ("urgency", "tight")):
        world = clocked(urgent("a", 4), urgent("b", 4), group("c", 1), cpu=4, order=order)
        world.run(job("full").cpu(4).group("c"))
        world.submit(of("a", "loose", 4)).wait(1)
        world.submit(of("b", "tight", 4, due=2 * HOUR)).finish("full")
        assert world.started() == ["full", first]


def test_a_group_above_its_quota_comes_after_those_below_theirs_however_urgent_its_job_is() -> None:
    world = clocked(urgent("a", 1), urgent("b", 4), group("c", 9), cpu=6, order="urgency", preemption="off")
    world.run(job("full").cpu(4).group("c"), of("a", "above", 2))
    world.submit(of("a", "tight", 4, due=TIGHT), job("no deadline").cpu(4).group("b")).decide()
    world.finish("full")
    assert world.started()[2:] == ["no deadline"]


def test_the_order_of_groups_changes_at_the_time_that_is_named() -> None:
    world = clocked(
        urgent("a", 9), urgent("b", 9), group("c", 1), cpu=4, order="urgency", preemption="off", drain_after=240 * HOUR
    )
    world.run(job("full").cpu(4).group("c"))
    world.submit(of("a", "long", 4, limit="1h", due=3 * HOUR), of("b", "short", 4, limit="1min", due=HOUR)).decide()
    # 60 / (180 - t) = 1 / (60 - t) in minutes.
    moments = [world.wake()]
    while moments[-1] < 57 * MINUTE:
        moments.append(world.wake())
    assert moments[-1] < 58 * MINUTE
    world.finish("full")
    assert world.started() == ["full", "short"]


def test_without_deadlines_the_order_is_that_of_shares() -> None:
    def starts(order: str) -> list[str]:
        world = clocked(urgent("a", 3), urgent("b", 1), urgent("c", 2), cpu=6, order=order)
        for number in range(8):
            world.submit(*(job(f"{name}{number}").cpu(1).group(name) for name in "abc"))
        world.decide()
        return world.started()

    assert starts("urgency") == starts("share")


# --- preemption ------------------------------------------------------------------------------------------------------


def test_a_group_not_above_its_quota_takes_from_those_above_theirs_then_from_its_own() -> None:
    world = clocked(urgent("own", 3), group("other", 2), cpu=6)
    world.run(of("own", "ours", 2), job("theirs").cpu(1).tasks(4).group("other"))
    world.submit(of("own", "first", 1, due=TIGHT)).decide()
    assert world.victims() == ["theirs"]
    world.yield_victims()
    # Its quota is used: what it takes now, it takes from its own.
    world.submit(of("own", "second", 2, due=TIGHT)).decide()
    assert world.victims() == ["theirs", "ours"]


def test_a_group_above_its_quota_takes_only_from_its_own() -> None:
    world = clocked(urgent("own", 1), group("other", 1), cpu=5)
    world.run(of("own", "ours", 2), job("theirs").cpu(1).tasks(3).group("other"))
    world.submit(of("own", "tight", 3, due=TIGHT)).decide()
    assert world.victims() == []
    world.cancel("tight").submit(of("own", "smaller", 2, due=TIGHT)).decide()
    assert world.victims() == ["ours"]


def test_a_gang_that_others_need_not_yield_to_where_it_costs_too_much_takes_from_its_own() -> None:
    """On the small node its memory costs 16 cores, twice the quota of its group, and on the large one 4."""
    places = [node("large").cpu(16).memory("64G"), node("small").cpu(16).memory("16G")]
    world = World(urgent("own", 8), group("other", 4), group("c", 20), nodes=places)
    world.observe([ClockSet(0)])
    world.run(of("own", "ours", 2).memory("16G").requires('Name == "large"'))
    world.run(job("fill").cpu(12).group("c").memory("48G").requires('Name == "large"'))
    world.run(job("theirs").cpu(8).memory("8G").tasks(2).group("other").requires('Name == "small"'))
    world.submit(of("own", "gang", due=TIGHT).memory("8G").tasks(2).gang()).decide()
    assert world.victims() == ["ours"]


@pytest.mark.parametrize(
    ("due", "preempts"),
    [
        pytest.param(75 * MINUTE, False, id="at the threshold of 0.8"),
        pytest.param(75 * MINUTE - 1, True, id="just above it"),
        pytest.param(HOUR, True, id="when it must start at once"),
        pytest.param(HOUR - 1, False, id="when it cannot be met any more"),
    ],
)
def test_a_unit_preempts_when_its_urgency_is_above_the_threshold(due: int, preempts: bool) -> None:
    world = clocked(urgent("own", 4), cpu=4)
    world.run(of("own", "ours", 4)).submit(of("own", "tight", 4, due=due).expected(3600)).decide()
    assert bool(world.victims()) is preempts


def test_an_urgent_unit_looks_for_victims_before_anything_ever_ran() -> None:
    """At the time 0, at which simulations begin."""
    world = World(group("g", 3, "Urgency"), group("o", 1), nodes=nodes(1, cpu=4)).set_clock(NOON)
    keep(world, reservation("r", "12:05", "13:00", "n1", group="o"))
    world.submit(job("urgent").cpu(2).limit(600).deadline(at("12:11")).group("g")).decide()
    assert world.veto("urgent").kind is Verdict.RESERVED_AHEAD


def test_a_unit_that_waits_preempts_at_the_time_at_which_it_becomes_urgent() -> None:
    world = clocked(urgent("own", 4), cpu=4, drain_after=240 * HOUR)
    world.run(of("own", "ours", 4)).submit(of("own", "tight", 4, due=2 * HOUR)).decide()
    while not world.victims():
        world.wake()
    # 60 / (120 - t) = 0.8 in minutes.
    assert 45 * MINUTE <= world.now <= 45 * MINUTE + SECOND


@pytest.mark.parametrize(
    ("due", "yields"),
    [
        # Urgency of the unit: 1; the limit of the task that runs is one hour.
        pytest.param(HOUR * 100 // 91, False, id="0.91: less urgent, not by the margin"),
        pytest.param(HOUR * 100 // 89, True, id="0.89"),
        pytest.param(HOUR - 1, True, id="its deadline is lost, so it is not urgent"),
    ],
)
def test_a_task_yields_only_if_it_is_less_urgent_by_the_margin(due: int, yields: bool) -> None:
    world = clocked(urgent("own", 4, urgency_cost="2"), cpu=4)
    world.run(of("own", "ours", 4, due=due).expected(3600)).submit(of("own", "tight", 4, due=HOUR)).decide()
    assert bool(world.victims()) is yields


@pytest.mark.parametrize(
    ("one", "other", "yields"),
    [
        pytest.param(3 * HOUR, 5 * HOUR, "other", id="the less urgent"),
        pytest.param(5 * HOUR, LATER, "other", id="the less urgent of two that are not urgent"),
    ],
)
def test_the_least_urgent_yields_first(one: int, other: int, yields: str) -> None:
    for names in (("one", "other"), ("other", "one")):
        world = clocked(urgent("own", 4), cpu=4)
        due = {"one": one, "other": other}
        world.run(*(of("own", name, 2, due=due[name]) for name in names))
        world.submit(of("own", "tight", 2, due=TIGHT)).decide()
        assert world.victims() == [yields]


def test_one_that_would_lose_its_own_deadline_yields_only_if_nothing_else_does() -> None:
    """After 50 of its 60 minutes ``nearly done`` is not urgent, and begun again it would miss its deadline.

    One deadline lost for one saved is no gain, so it yields only where more may be lost.
    """
    cases: list[tuple[str, int | None, list[str]]] = [
        ("1", LATER, ["other"]), ("1", 3 * HOUR, ["other"]), ("1", None, []),
        ("2", LATER, ["other"]), ("2", 3 * HOUR, ["other"]), ("2", None, ["nearly done"]),
    ]  # fmt: skip
    for cost, other, expected in cases:
        world = clocked(urgent("own", 4, urgency_cost=cost), cpu=2)
        world.run(of("own", "nearly done", 2, due=105 * MINUTE)).wait(50 * 60)
        if other is not None:
            world.add_node(nodes(2, cpu=2)[1])
            world.run(of("own", "other", 2, due=other))
        world.submit(of("own", "tight", 2, due=world.now + TIGHT)).decide()
        assert world.victims() == expected


def test_work_without_a_deadline_counts_a_tenth_of_what_an_urgent_unit_may_cost() -> None:
    """A unit of an hour takes what has run for ten hours without a deadline, and for one hour with one."""
    for minutes, due, yields in ((599, None, True), (601, None, False), (59, 90 * HOUR, True), (61, 90 * HOUR, False)):
        world = clocked(urgent("own", 4), cpu=2)
        old = of("own", "old", 2, due=due) if due else job("old").group("own").cpu(2)
        world.run(old.limit("40h")).wait(minutes * 60)
        world.submit(of("own", "tight", 2, due=world.now + TIGHT)).decide()
        assert bool(world.victims()) is yields, (minutes, due)


@pytest.mark.parametrize(
    ("minutes", "tasks", "yields"),
    [
        pytest.param(5, 1, True, id="a tenth of the work of the unit"),
        pytest.param(6, 1, False, id="more"),
        pytest.param(6, 9, False, id="more, of an array: a unit is one of its tasks"),
    ],
)
def test_victims_lose_at_most_a_share_of_the_work_of_the_unit(minutes: int, tasks: int, yields: bool) -> None:
    """Two cores that ran for five minutes, for one core for an hour and 40 minutes: with 0.1 that is just worth it."""
    world = clocked(urgent("own", 4, urgency_cost="0.1"), cpu=2)
    world.run(of("own", "ours", 2, limit="5h")).wait(60 * minutes)
    world.submit(of("own", "tight", 1, limit="100min", due=world.now + 101 * MINUTE).tasks(tasks)).decide()
    assert bool(world.victims()) is yields


def test_the_rules_between_groups_hold() -> None:
    """A group that yielded cools off; a task is no victim before ``min_runtime``; a group is not pushed below its
    quota.
    """
    world = clocked(urgent("own", 4), group("other", 2), cpu=4, cooling=20 * SECOND)
    world.run(job("theirs").cpu(1).tasks(4).group("other").limit("5h"))
    world.submit(of("own", "tight", 3, due=TIGHT)).decide()
    # Two are above the quota, the third would be below it.
    assert world.victims() in ([], ["theirs"] * 3)
    world.cancel("tight")
    before = len(world.victims())
    world.submit(of("own", "smaller", 2, due=TIGHT)).decide()
    assert len(world.victims()) - before <= 2

    young = clocked(urgent("own", 4, min_runtime="1h"), group("other", 2).with_options(min_runtime="10min"), cpu=4)
    young.run(job("theirs").cpu(1).tasks(4).group("other").limit("5h"))
    young.submit(of("own", "tight", 2, due=2 * HOUR + TIGHT)).decide()
    assert young.victims() == []


def test_databases_and_services_at_their_minimum_stay() -> None:
    world = clocked(urgent("own", 4), cpu=2)
    world.run(of("own", "db").type(JobType.DATABASE), job("web").cpu(1).group("own").type(JobType.SERVICE, minimum=1))
    world.submit(of("own", "tight", due=TIGHT)).decide()
    assert world.victims() == []


def test_a_tight_job_that_comes_late_to_a_full_cluster_meets_its_deadline() -> None:
    world = clocked(urgent("a", 4), group("b", 4), group("c", 4), cpu=12, grace=0)
    world.run(job("big").cpu(1).tasks(8).group("b").limit("9h"), job("theirs").cpu(4).group("c").limit("9h"))
    world.submit(of("a", "tight", 4, due=TIGHT)).decide()
    assert world.victims() == ["big"] * 4
    world.yield_victims()
    assert world.started()[-1] == "tight"
    world.wait(3600).finish("tight")
    assert world.now <= TIGHT


# --- nobody gains by lying -------------------------------------------------------------------------------------------

# Who submits how many tasks of how many minutes; or one of the running tasks ends.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["honest", "liar"]), st.integers(1, 6), st.integers(1, 90)),
        st.tuples(st.just("end"), st.integers(0, 20), st.integers(1, 90)),
    ),
    min_size=2,
    max_size=25,
)


@given(
    steps=STEPS, order=st.sampled_from(["share", "urgency"]), late=st.sampled_from(["best_effort", "urgent"]),
)  # fmt: skip
def test_who_puts_a_minute_on_everything_takes_nobody_below_its_quota(
    steps: list[tuple[str, int, int]], order: str, late: str
) -> None:
    """A minute after each of its submits everything of the liar is due; the honest group's jobs have all the time."""
    groups = (urgent("honest", 8, late=late), urgent("liar", 4, late=late))
    world = clocked(*groups, cpu=1, count=12, order=order, grace=0, cooling=0, cooling_above_quota=0)
    for number, (what, count, minutes) in enumerate(steps):
        if what == "end" and world.running:
            started = sorted(world.running)
            world.end([world.running[started[count % len(started)]]], Outcome.SUCCEEDED)
            world.wait(60 * minutes)
        elif what != "end":
            due = LATER if what == "honest" else world.now + MINUTE
            world.submit(of(what, f"job{number}", limit=f"{minutes}min", due=due).tasks(count))
        world.decide()
        while world.told:
            world.yield_victims()
        honest = world.running_of("honest")
        waits = any(state.waiting for state in world.core.jobs.values() if state.group.name == "honest")
        assert honest >= 8 or not waits, f"{honest} of 8 while more wait"


@pytest.mark.parametrize(("late", "victims"), [("urgent", []), ("best_effort", ["old"])])
def test_a_task_that_outlived_its_limit_and_its_deadline_is_late(late: str, victims: list[str]) -> None:
    world = clocked(urgent("a", 4, late=late), cpu=4)
    world.run(of("a", "old", 4, limit="1min", due=MINUTE + SECOND))
    world.wait(62).submit(of("a", "tight", 4, due=HOUR + 62 * SECOND).expected(3600)).decide()
    assert world.victims() == victims
