"""Groups by the deadlines of their first jobs: who waits without harm lends its quota, and who cannot wait has it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.placing.vetoes import Verdict
from cress.model.events import ClockSet, Outcome
from cress.model.times import HOUR, MINUTE
from tests.core.builders import GroupBuilder, JobBuilder, World, group, job, nodes


def edf(name: str, quota: int, **options: str) -> GroupBuilder:
    return group(name, quota, "EDF").with_options(**options)


def clocked(*groups: GroupBuilder, cpu: int, count: int = 1, **options: Any) -> World:
    """Nodes of ``cpu`` cores, the wall clock at 0, and groups in the order of deadlines."""
    world = World(
        *groups, nodes=nodes(count, cpu=cpu), node_order="first", order="deadline", preemption="off",
        drain_after=240 * HOUR, **options,
    )  # fmt: skip
    world.observe([ClockSet(0)])
    return world


def of(name: str, label: str, cpu: int = 4, *, limit: str = "1h", due: int | None = None) -> JobBuilder:
    found = job(label).cpu(cpu).group(name).limit(limit)
    return found if due is None else found.deadline(due)


# Of group b, which is below its quota while a is above its own; a job of a is due after three hours.
CASES = [
    pytest.param(5 * HOUR, "0.8", "above", id="it can wait: the nearest deadline of all goes first"),
    pytest.param(2 * HOUR, "0.8", "below", id="its deadline is the nearest"),
    pytest.param(5 * HOUR, "0.1", "below", id="it can wait, but not for its threshold"),
    pytest.param(5 * HOUR, "0", "below", id="its group never lends while one of its jobs waits"),
    pytest.param(None, "0.8", "below", id="it has no deadline: nothing tells that it can wait"),
    pytest.param(30 * MINUTE, "0.8", "below", id="it is late: it has its quota like one without a deadline"),
    pytest.param(30 * MINUTE, "1", "below", id="it is late, and its group lends as long as it can"),
]


@pytest.mark.parametrize(("due", "threshold", "first"), CASES)
def test_a_group_below_its_quota_goes_first_unless_its_first_job_can_wait(
    due: int | None, threshold: str, first: str
) -> None:
    world = clocked(edf("a", 1), edf("b", 4, urgency_threshold=threshold), edf("c", 9), cpu=6)
    world.run(of("c", "full"), of("a", "more than its quota", 2))
    world.submit(of("a", "above", due=3 * HOUR), of("b", "below", due=due)).decide()
    world.finish("full")
    assert world.started()[2:] == [first]


def test_a_job_that_can_wait_has_its_quota_from_the_time_that_is_named() -> None:
    world = clocked(edf("a", 1), edf("b", 4), edf("c", 9), cpu=6)
    world.run(of("c", "full", limit="9h"), of("a", "more than its quota", 2, limit="9h"))
    world.submit(of("a", "above", due=3 * HOUR), of("b", "below", due=5 * HOUR)).decide()
    # 1 h / (5 h - t) = 0.8
    moments = [world.wake()]
    while moments[-1] < 3 * HOUR + 45 * MINUTE:
        moments.append(world.wake())
    assert moments[-1] < 3 * HOUR + 46 * MINUTE
    world.finish("full")
    assert world.started()[2:] == ["below"]


@pytest.mark.parametrize(("order", "quota"), [("deadline", 2), ("urgency", 3)], ids=["above its quota", "at its quota"])
def test_behind_a_blocked_unit_a_group_below_its_quota_goes_on_although_one_that_is_not_comes_before_it(
    order: str, quota: int
) -> None:
    world = World(
        edf("a", quota), edf("b", 4), edf("c", 9), nodes=nodes(1, cpu=8),
        order=order, behind_blocked="quota_only", preemption="off", drain_after=240 * HOUR,
    )  # fmt: skip
    world.observe([ClockSet(0)])
    world.run(of("a", "a has 3 cores", 3, limit="9h"), of("c", "c has 1 core", 1, limit="9h"))
    world.submit(of("c", "blocked", 8, due=HOUR), of("a", "held", 1, due=2 * HOUR), of("b", "below", 1, due=5 * HOUR))
    world.decide()
    assert world.started()[2:] == ["below"]
    assert world.veto("held").kind is Verdict.QUOTA
    assert world.veto("held").behind == world.veto("blocked").job


def test_a_group_just_at_its_quota_is_not_above_it_so_its_nearer_deadline_has_one_task_more() -> None:
    world = clocked(edf("honest", 8), edf("liar", 4, late="urgent"), cpu=12)
    world.run(of("honest", "one", 1), of("honest", "two", 7), of("liar", "hurried", 4, due=MINUTE))
    world.submit(of("honest", "waits", 1), of("liar", "lies", 1, due=MINUTE).tasks(2)).decide()
    world.finish("one")
    assert world.started()[3:] == ["lies"]
    world.finish("two")
    # Above its quota it comes after the other one, which is below its own.
    assert world.started()[4:] == ["waits", "lies"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["honest", "liar"]), st.integers(1, 6), st.integers(1, 90)),
        st.tuples(st.just("end"), st.integers(0, 20), st.integers(1, 90)),
    ),
    min_size=2,
    max_size=25,
)


@given(steps=STEPS, never_lends=st.booleans(), late=st.sampled_from(["best_effort", "urgent"]))
def test_who_puts_a_minute_on_everything_gets_no_second_task_beyond_his_quota_that_a_group_that_does_not_lend_can_start(
    steps: list[tuple[str, int, int]], never_lends: bool, late: str
) -> None:
    """The honest group has no deadlines, or a threshold of 0: while it is below its quota and waits, nobody above the
    own quota starts anything.

    Who is just at his quota is not above it, so one task more may start by its deadline.
    """
    honest = edf("honest", 8, late=late, **({"urgency_threshold": "0"} if never_lends else {}))
    world = clocked(honest, edf("liar", 4, late=late), cpu=1, count=12)
    for number, (what, count, minutes) in enumerate(steps):
        if what == "end" and world.running:
            started = sorted(world.running)
            world.end([world.running[started[count % len(started)]]], Outcome.SUCCEEDED)
            world.wait(60 * minutes)
        elif what != "end":
            due = world.now + MINUTE if what == "liar" else 999 * HOUR if never_lends else None
            world.submit(of(what, f"job{number}", 1, limit=f"{minutes}min", due=due).tasks(count))
        before = world.running_of("liar")
        world.decide()
        waits = any(state.waiting for state in world.core.jobs.values() if state.group.name == "honest")
        if world.running_of("liar") > before:
            assert world.running_of("honest") >= 8 or not waits or world.running_of("liar") <= 4 + 1
