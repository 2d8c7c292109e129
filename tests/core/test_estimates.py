"""BackFill by estimates: predicted ends, other orders, and what bounds the price of a wrong estimate."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.placing.vetoes import Verdict
from cress.model.errors import InputError
from cress.model.estimates import RunEstimate
from cress.model.events import RunEstimated
from cress.model.times import HOUR, SECOND, seconds
from tests.core.builders import JobBuilder, World, group, job, nodes
from tests.examples import examples


def predicting(*running: JobBuilder, order: str = "submit", estimates: str = "predicted", **options: str) -> World:
    """A group on one node with 4 cores on which some jobs run."""
    options = {"estimates": estimates, "backfill_order": order, **options}
    world = World(group("g", 99, "BackFill").with_options(**options), nodes=nodes(1, cpu=4))
    if running:
        world.run(*(each.group("g") for each in running))
    return world


def submit(world: World, *jobs: JobBuilder) -> World:
    world.submit(*(each.group("g") for each in jobs)).decide()
    return world


RUNS = job("runs").cpu(3).limit(100).expected(50)
HEAD = job("head").cpu(4).limit(100).expected(50)


@pytest.mark.parametrize(
    ("estimates", "limit", "expected", "starts"),
    [
        ("predicted", 100, 50, True),
        ("predicted", 100, 51, False),
        ("requested", 100, 50, True),
        ("requested", 101, 50, False),
    ],
)
def test_a_job_is_backfilled_if_it_is_expected_to_end_before_the_head_starts(
    estimates: str, limit: int, expected: int, starts: bool
) -> None:
    world = submit(predicting(RUNS, estimates=estimates), HEAD, job("small").limit(limit).expected(expected))
    assert ("small" in world.started()) is starts


def test_a_job_without_an_estimate_is_expected_to_run_to_its_limit() -> None:
    world = submit(predicting(RUNS), HEAD, job("short").limit(50), job("long").limit(51))
    assert world.started() == ["runs", "short"]


def test_a_task_that_outlives_its_estimate_is_expected_to_use_its_limit() -> None:
    world = submit(predicting(RUNS), HEAD)
    assert world.wake() == 50 * SECOND
    submit(world, job("too long").limit(100).expected(51), job("in time").limit(100).expected(50))
    assert world.started() == ["runs", "in time"]
    assert len(world.running) == 2, "an estimate ends nothing"


def test_the_limit_ends_the_reservation_of_a_wrong_estimate() -> None:
    """An under-estimate delays the head: what was backfilled beside it is not stopped, but it ends by its own limit."""
    world = submit(predicting(RUNS), HEAD, job("liar").limit(80).expected(5))
    assert world.started() == ["runs", "liar"]
    world.wait(60).finish("runs")
    assert "head" not in world.started()
    world.wait(20).finish("liar")
    assert world.starts[-1].job == "head"


def test_a_new_estimate_counts_for_what_starts_from_then_on() -> None:
    world = submit(predicting(RUNS), HEAD, job("small").limit(100))
    assert "small" not in world.started()
    world.observe([RunEstimated((world.ids["small"],), RunEstimate(*[seconds(10)] * 4))]).decide()
    assert world.started()[-1] == "small"
    world.observe([RunEstimated((10**6,), RunEstimate(*[seconds(10)] * 4))])


def test_an_estimate_above_the_limit_is_the_limit() -> None:
    world = submit(predicting(RUNS), HEAD, job("small").limit(40).expected(1000))
    assert world.started()[-1] == "small"


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("submit", ["runs", "long"]),
        ("shortest_first", ["runs", "short"]),
        ("expansion_factor", ["runs", "short"]),
    ],
)
def test_the_order_of_what_is_backfilled(order: str, expected: list[str]) -> None:
    """One core is free beside the head."""
    world = predicting(RUNS, order=order)
    world.submit(HEAD.limit(1).expected(1).group("g")).wait(1)
    submit(world, job("long").limit(100).expected(40), job("short").limit(100).expected(11))
    assert world.started() == expected


def test_by_expansion_factor_a_short_job_becomes_the_head_and_passes_one_that_waits_for_longer() -> None:
    world = submit(predicting(RUNS, order="expansion_factor"), job("long").cpu(4).limit(3600))
    world.wait(10)
    submit(world, job("short").cpu(4).limit(20))
    # (wait + 1) / length: 31 / 3600 and 21 / 20.
    world.wait(20).finish("runs")
    assert world.started() == ["runs", "short"]


def test_by_expansion_factor_waiting_counts_in_proportion_to_the_length() -> None:
    world = submit(predicting(RUNS, order="expansion_factor"), job("long").cpu(4).limit(60))
    world.wait(90)
    submit(world, job("short").cpu(4).limit(20))
    # 91 / 60 and 1 / 20.
    world.finish("runs")
    assert world.started() == ["runs", "long"]


def test_a_job_that_is_overdue_goes_before_all_others() -> None:
    options = {"order": "expansion_factor", "overdue_after": "1h"}
    world = submit(predicting(job("runs").cpu(4).limit(7200), **options), job("long").cpu(4).limit("10h"))
    # One hour, two of what runs and, on the group's share of the cores, ten of its own.
    overdue = world.state("long").overdue_at
    assert 13 * HOUR < overdue < 14 * HOUR
    assert world.core.next_wakeup() == overdue
    world.wait(0, overdue - 1)
    submit(world, job("short").cpu(4).limit(10))
    world.wait(0, 1).finish("runs")
    assert world.started() == ["runs", "long"]


def test_while_the_head_is_overdue_limits_count_instead_of_estimates() -> None:
    world = submit(predicting(RUNS.limit("3h"), overdue_after="1h"), HEAD.limit(100))
    overdue = world.state("head").overdue_at
    world.wait(0, overdue - 1)
    submit(world, job("before").cpu(0.5).limit("2h").expected(10))
    assert world.started()[-1] == "before"
    world.wait(0, 1)
    submit(world, job("after").cpu(0.5).limit("2h").expected(10))
    assert world.veto("after").kind is Verdict.RESERVED
    submit(world, job("sure").cpu(0.5).limit("90m").expected(10))
    assert world.started()[-1] == "sure"
    # The clone reads the same.
    assert world.core.clone().validate() == []
    world.finish("runs")
    world.finish("before")
    world.finish("sure")
    assert world.started()[-1] == "head"
    # From then on estimates count again.
    submit(world, job("next").cpu(4).limit(100))
    assert not world.core.books.expected.limits_count


def test_a_task_that_is_told_to_stop_is_expected_back_after_its_grace_whatever_was_estimated() -> None:
    world = submit(predicting(RUNS.stop_grace("30s")), HEAD, job("short").limit(100).expected(31))
    assert "short" in world.started()
    world.cancel("runs").decide()
    submit(world, job("in time").cpu(0.1).limit(100).expected(30), job("late").cpu(0.1).limit(100).expected(31))


def test_an_array_counts_what_waits_of_it_in_the_work_ahead() -> None:
    world = submit(predicting(order="expansion_factor"), job("array").tasks(6).limit(100).expected(10))
    assert world.core.groups.get("g").policy.work() == 2 * 10 * SECOND * 1000
    world.finish("array", 0, again=True)
    assert world.core.groups.get("g").policy.work() == 2 * 10 * SECOND * 1000
    world.finish("array", 1)
    assert world.core.groups.get("g").policy.work() == 10 * SECOND * 1000


@pytest.mark.parametrize(("backfill", "does"), [("conservative", "plans"), ("off", "starts")])
@pytest.mark.parametrize("options", [{"estimates": "predicted"}, {"backfill_order": "shortest_first"}])
def test_only_easy_backfill_takes_estimates_and_other_orders(options: dict[str, str], backfill: str, does: str) -> None:
    with pytest.raises(InputError, match=f"{does} every job in the order of submission.*backfill=easy"):
        World(group("g", 99, "BackFill").with_options(backfill=backfill, **options), nodes=nodes(1, cpu=4))


def test_the_depth_is_counted_in_the_order_of_the_offers() -> None:
    world = predicting(RUNS, order="shortest_first", backfill_depth="1")
    submit(world, HEAD, job("large").cpu(2).limit(5), job("small").limit(6))
    assert world.started() == ["runs"]
    assert world.veto("small").kind is Verdict.BEHIND
    submit(world, job("shortest").limit(1))
    assert world.started()[-1] == "shortest"


def test_what_is_decided_does_not_depend_on_how_often_it_is_asked_for() -> None:
    calls = []
    for often in (False, True):
        world = submit(predicting(RUNS, order="expansion_factor"), job("a").cpu(4).limit(60), job("b").cpu(2).limit(50))
        for _ in range(40):
            world.wait(2)
            if often:
                world.decide()
        world.decide()
        world.finish("runs")
        calls.append([(each.job, each.at) for each in world.starts])
    assert calls[0] == calls[1]


@examples(12)
@given(
    seed=st.integers(0, 2**32),
    order=st.sampled_from(["submit", "shortest_first", "expansion_factor"]),
    count=st.integers(4, 60),
)
def test_however_wrong_estimates_are_an_overdue_job_waits_for_those_before_it_and_the_longest_limit(
    seed: int, order: str, count: int
) -> None:
    """Once it is the first of those that are overdue, nothing that starts delays it."""
    rng = Random(seed)
    world = predicting(order=order, overdue_after="30s")
    longest = 0
    ends: list[tuple[int, str]] = []  # of running jobs
    overdue: dict[str, int] = {}
    runs: dict[str, int] = {}
    arrivals = sorted(rng.randrange(10 * count * SECOND) for _ in range(count))
    while arrivals or ends or world.core.jobs:
        wake = world.core.next_wakeup()
        times = [*arrivals[:1], *[end for end, _ in ends], *([] if wake is None else [wake])]
        world.now = max(world.now, min(times))
        for end, name in [each for each in ends if each[0] <= world.now]:
            ends.remove((end, name))
            world.finish(name, decide=False)
        while arrivals and arrivals[0] <= world.now:
            arrivals.pop(0)
            limit, cpu = rng.choice((5, 20, 80)), rng.choice((1, 1, 1, 2, 4))
            name = f"j{len(runs)}"
            longest = max(longest, limit * SECOND)
            runs[name] = (limit if rng.random() < 0.7 else 1) * SECOND
            world.submit(job(name).cpu(cpu).limit(limit).expected(rng.choice((1, 1, 20))).group("g"))
            overdue[name] = world.state(name).overdue_at
        before = len(world.starts)
        world.decide()
        ends += [(world.now + runs[each.job], each.job) for each in world.starts[before:]]
    starts = {start.job: round(start.at * SECOND) for start in world.starts}
    # By submit time, what is before a job is what was submitted before it.
    place = {name: (at if order == "expansion_factor" else 0, int(name[1:])) for name, at in overdue.items()}
    for name, start in starts.items():
        before_it = [starts[each] for each in starts if place[each] < place[name]]
        assert start <= max([overdue[name], *before_it]) + longest


def test_a_task_outlives_its_estimate_after_its_group_has_gone_back_to_limits() -> None:
    """Another group's head is overdue meanwhile, so that limits count for whoever predicts."""
    g, h = group("g", 2, "BackFill"), group("h", 2, "BackFill").with_options(estimates="predicted", overdue_after="0s")
    world = World(g.with_options(estimates="predicted"), h, nodes=nodes(1, cpu=4))
    world.run(job("runs").cpu(1).limit(200).expected(90).group("g"))
    world.apply(g, h)
    world.submit(job("waits").cpu(4).limit(1).group("h")).decide()
    world.wait(30).decide()
    assert world.core.books.expected.limits_count
    world.wait(90).decide()


def test_a_job_of_a_group_that_is_gone_needs_no_estimate() -> None:
    world = predicting()
    assert not world.core.needs_estimate(job("x").group("gone").build(1, world.dimensions))


def test_a_run_is_never_expected_to_be_longer_than_its_limit() -> None:
    """A limit of 1 µs counts as two: what is booked now counts from the next microsecond."""
    world = predicting()
    world.submit(job("x").cpu(1).limit(0.000_001).expected(0).group("g"))
    state = world.state("x")
    assert state.run == state.limit == 2


def test_by_width_the_wider_a_unit_is_the_sooner_it_is_overdue() -> None:
    options = {"overdue_after": "8h", "overdue_by": "width"}
    world = submit(predicting(**options), *(job(f"j{cpu}").cpu(cpu).limit(1) for cpu in (1, 2, 3, 4)))
    patience = [world.state(f"j{cpu}").overdue_at / HOUR for cpu in (1, 2, 3, 4)]
    assert patience == pytest.approx([4.5, 2, 0.5, 0], abs=0.01)
    gang = submit(world, job("gang").cpu(1).tasks(3).gang().limit(1)).state("gang")
    assert gang.overdue_at / HOUR == pytest.approx(0.5, abs=0.01)
    # Half of the time for its own work counts as well.
    long = submit(world, job("long").cpu(4).limit("10h")).state("long")
    assert long.overdue_at / HOUR == pytest.approx(5, abs=0.1)
