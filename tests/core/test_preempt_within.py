"""Preemption inside a group: a unit that does not fit takes the room of running tasks of lower priority."""

from __future__ import annotations

import pytest
from hypothesis import given

from cress.core.placing.vetoes import Verdict
from cress.model.decisions import Preempt
from cress.model.events import ClockSet
from cress.model.job import JobType
from cress.model.times import HOUR, MINUTE, SECOND
from tests.core.builders import GroupBuilder, JobBuilder, World, group, job, node, nodes
from tests.core.settings import EVERYTHING, Operation, Setting, operations, settings_of_any_kind
from tests.core.stories import Player, sent_away


def ours(quota: int = 4, policy: str = "Priority", **options: str) -> GroupBuilder:
    return group("ours", quota, policy).with_options(preempt_within="lower_priority", **options)


def of_ours(name: str, priority: int = 0, cpu: float = 1) -> JobBuilder:
    return job(name).priority(priority).cpu(cpu).group("ours")


def full(*running: JobBuilder, cpu: float) -> World:
    """One node, full with these jobs of one group."""
    return World(ours(), nodes=nodes(1, cpu=cpu)).run(*running).wait(100)


# --- who takes from whom ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "victims"),
    [
        pytest.param(0, 1, ["low"], id="lower by one"),
        pytest.param(-5, -4, ["low"], id="both below zero"),
        pytest.param(1, 1, [], id="equal"),
        pytest.param(2, 1, [], id="higher"),
    ],
)
@pytest.mark.parametrize("policy", ["FIFO", "Priority", "Capacity", "BackFill"])
def test_only_tasks_of_strictly_lower_priority_yield(policy: str, low: int, high: int, victims: list[str]) -> None:
    world = World(ours(policy=policy), nodes=nodes(1, cpu=4)).run(of_ours("low", low, cpu=4))
    world.wait(100).submit(of_ours("high", high, cpu=4)).decide()
    assert world.victims() == victims
    if victims:
        assert world.why("high") == "preempted tasks are making room for job 2 on n1"
        world.yield_victims()
        assert world.jobs_running() == ["high"]
        assert world.state("low").waiting == 1


def test_it_is_off_by_default() -> None:
    world = World(group("ours", 4, "Priority"), nodes=nodes(1, cpu=4)).run(of_ours("low", 0, cpu=4))
    world.submit(of_ours("high", 9)).decide()
    assert world.victims() == []
    assert world.veto("high").kind is Verdict.NO_ROOM


def test_the_cluster_wide_option_holds_for_groups_without_a_value() -> None:
    world = World(group("ours", 4, "Priority"), nodes=nodes(1, cpu=4), preempt_within="lower_priority")
    world.run(of_ours("low", 0, cpu=4)).submit(of_ours("high", 9)).decide()
    assert world.victims() == ["low"]


def test_a_unit_that_fits_preempts_nobody() -> None:
    world = full(of_ours("low", 0, cpu=3), cpu=4)
    world.submit(of_ours("high", 9)).decide()
    assert world.victims() == []


def test_another_groups_tasks_of_lower_priority_stay() -> None:
    world = World(ours(), group("theirs", 4), nodes=nodes(1, cpu=4))
    world.run(job("theirs").cpu(4).priority(-9).group("theirs")).submit(of_ours("high", 9)).decide()
    assert world.victims() == []


@pytest.mark.parametrize(
    ("on_n1", "on_n2", "victims"),
    [
        pytest.param([of_ours("a", 3, 2)], [of_ours("b", 1, 2)], ["b"], id="the lowest priority"),
        pytest.param([of_ours("a", 1).tasks(2)], [of_ours("b", 1, 2)], ["b"], id="then the fewest tasks"),
        pytest.param([of_ours("a", 1, 2)], [of_ours("b", 1, 2)], ["b"], id="then the least work lost"),
        pytest.param([of_ours("a", 2).tasks(2)], [of_ours("b", 3, 2)], ["a", "a"], id="priority before number"),
        pytest.param([of_ours("a", 9, 2)], [of_ours("b", 4, 2)], ["b"], id="a task of equal priority stays"),
    ],
)
def test_the_cheapest_victims_yield(on_n1: list[JobBuilder], on_n2: list[JobBuilder], victims: list[str]) -> None:
    """Also with MostRecentFirst, which orders the tasks of other groups."""
    for order in ("LowPriorityFirst", "MostRecentFirst"):
        world = World(ours().preemptive(order), nodes=nodes(2, cpu=2), node_order="first")
        world.run(*on_n1).wait(1).run(*on_n2).wait(10).submit(of_ours("high", 9, 2)).decide()
        assert world.victims() == victims


def test_a_gang_takes_victims_on_several_nodes_and_yields_as_a_whole() -> None:
    world = World(ours(8), nodes=nodes(2, cpu=4)).run(of_ours("low", 1, 2).tasks(3).gang(), of_ours("single", 2, 2))
    world.submit(of_ours("high", 5, 4).tasks(2).gang()).decide()
    assert sorted(world.victims()) == ["low"] * 3 + ["single"]
    world.yield_victims()
    assert world.jobs_running() == ["high"] * 2


def test_services_keep_their_minimum_and_databases_stay() -> None:
    web = of_ours("web").tasks(2).type(JobType.SERVICE, minimum=1)
    world = full(web, of_ours("db").type(JobType.DATABASE), cpu=3)
    world.submit(of_ours("one", 5)).decide()
    assert world.victims() == ["web"]
    world.yield_victims()
    world.submit(of_ours("two", 5)).decide()
    assert world.victims() == ["web"], "one task of web is its minimum"


# --- borrowed room first ---------------------------------------------------------------------------------------------


def test_what_other_groups_borrowed_is_taken_back_first() -> None:
    world = World(ours(6), group("theirs", 2), nodes=nodes(1, cpu=8))
    world.run(of_ours("low", 0, 4), job("theirs").cpu(1).tasks(4).priority(9).group("theirs"))
    world.submit(of_ours("high", 5)).decide()
    assert world.victims() == ["theirs"]


def test_where_borrowed_room_is_too_little_lower_priorities_of_its_own_give_the_rest() -> None:
    world = World(ours(6), group("theirs", 2), nodes=nodes(1, cpu=6))
    world.run(of_ours("low", 0).tasks(2), job("theirs").cpu(1).tasks(4).priority(9).group("theirs"))
    world.submit(of_ours("high", 5, 4)).decide()
    assert sorted(world.victims()) == ["low", "low", "theirs", "theirs"]
    world.yield_victims()
    assert world.started()[-1] == "high"


@pytest.mark.parametrize(
    ("base", "victims"),
    [
        pytest.param(6, [], id="it would be above quota × B there"),
        pytest.param(1, ["low", "theirs"], id="without low it is not"),
    ],
)
def test_what_others_borrowed_is_taken_only_as_far_as_the_quota_allows_on_the_nodes_found(
    base: int, victims: list[str]
) -> None:
    """Four cores cost a quarter of a server on n1, and all of n2, where the victims are."""
    world = World(
        ours().exactly(1_000_000), group("theirs").exactly(300_000), group("third").exactly(2_000_000),
        nodes=[node("n1").cpu(16), node("n2").cpu(4)], accounting="dominant", node_order="first",
    )  # fmt: skip
    world.run(of_ours("base", 9, base), job("third").cpu(16 - base).group("third"))
    world.run(of_ours("low", 0, 1), job("theirs").cpu(3).group("theirs"))
    world.submit(of_ours("high", 5, 4)).decide()
    assert sorted(world.victims()) == victims


def test_a_group_at_or_above_its_quota_takes_from_itself_only() -> None:
    world = World(ours(2), group("theirs", 1), nodes=nodes(1, cpu=6))
    world.run(of_ours("low", 0).tasks(3), job("theirs").cpu(1).tasks(3).group("theirs"))
    world.submit(of_ours("high", 5)).decide()
    assert world.victims() == ["low"]


# --- no turns --------------------------------------------------------------------------------------------------------


def test_a_victim_does_not_take_the_room_back() -> None:
    world = full(of_ours("low", 0, 4), cpu=4)
    world.submit(of_ours("high", 1, 4)).decide()
    world.yield_victims()
    for _ in range(20):
        world.wait(60).decide()
    assert world.victims() == ["low"]
    world.finish("high")
    assert world.jobs_running() == ["low"]


def test_the_group_does_not_cool_off_for_a_task_of_its_own() -> None:
    world = full(of_ours("low", 0, 4), cpu=4)
    world.submit(of_ours("high", 1, 4)).decide()
    assert world.group("ours").kept.preempted_at is None
    world.yield_victims()
    assert world.jobs_running() == ["high"]


def test_a_group_that_cools_off_takes_no_victims_of_its_own_either() -> None:
    world = World(ours(2), group("theirs", 4), group("others", 1), nodes=nodes(1, cpu=7))
    world.run(of_ours("low", 0).tasks(6), job("runs").group("others"))
    world.submit(job("waits").group("others"), job("theirs").cpu(1).group("theirs")).decide()
    world.yield_victims()
    world.submit(of_ours("high", 5)).decide()
    assert world.victims() == ["low"]
    assert world.veto("high").kind is Verdict.COOLING
    world.wake()
    assert world.victims() == ["low", "low"]


def test_a_task_keeps_the_points_that_it_gained_by_waiting() -> None:
    """Else ageing would put it first, only to be preempted at once, and a stream of newcomers would starve it."""
    world = World(ours(priority_ageing="1"), nodes=nodes(1, cpu=4)).run(of_ours("before", 9, 4))
    world.submit(of_ours("aged", 0, 4)).wait(2 * 3600)
    world.finish("before")
    assert world.jobs_running() == ["aged"]
    world.submit(of_ours("like it", 2, 4)).decide()
    assert world.victims() == []
    world.submit(of_ours("above it", 3, 4)).decide()
    assert world.victims() == ["aged"]


def by_deadlines(cpu: float, **options: str) -> World:
    """A group with the policy Urgency, and the wall clock at 0 when the core begins."""
    group_of = group("ours", 4, "Urgency").with_options(preempt_within="lower_priority", **options)
    world = World(group_of, nodes=nodes(1, cpu=cpu), max_per_round=1.0)
    return world.observe([ClockSet(0)])


def test_a_task_that_has_just_taken_room_for_its_urgency_does_not_yield_it_to_a_higher_priority() -> None:
    """Else the two would stop each other for ever, at one and the same moment."""
    world = by_deadlines(4).run(of_ours("boss", 2, 4).limit("1h").stop_grace("0s"))
    world.submit(of_ours("rush", 0, 4).limit("1h").stop_grace("0s").deadline(HOUR + MINUTE)).decide()
    assert world.victims() == ["boss"]
    world.yield_victims()
    assert world.jobs_running() == ["rush"]
    assert world.victims() == ["boss"]


@pytest.mark.parametrize("margin", ["0.1", "0"])
def test_two_arrays_that_are_urgent_as_a_whole_do_not_stop_each_other(margin: str) -> None:
    """Each still takes five hours, one task after the other, but each single task has hours left."""
    world = by_deadlines(1, urgency_margin=margin)
    one, two = (
        of_ours(name).tasks(5).at_once(1).limit("1h").stop_grace("0s").deadline(5 * HOUR + MINUTE)
        for name in ("one", "two")
    )
    world.submit(one).decide()
    world.submit(two).decide()
    assert world.victims() == []
    assert world.jobs_running() == ["one"]


@pytest.mark.parametrize("margin", ["0.1", "0"])
def test_an_equally_urgent_job_takes_nothing(margin: str) -> None:
    world = by_deadlines(1, urgency_margin=margin)
    world.run(of_ours("one").limit("1h").deadline(HOUR + MINUTE))
    world.submit(of_ours("two").limit("1h").deadline(HOUR + MINUTE)).decide()
    assert world.victims() == []


@pytest.mark.parametrize("restored", [False, True])
def test_who_was_due_keeps_its_room_for_as_long_as_it_waited_for_its_turn(restored: bool) -> None:
    """Low is first in the queue and starts because it is due; one that comes then and outranks it has to wait."""
    world = World(ours(policy="FIFO"), nodes=nodes(1, cpu=4), drain_after=20 * SECOND)
    world.run(of_ours("before", 5, 4)).submit(of_ours("low", 0, 4)).decide()
    world.wait(30).finish("before")
    assert world.jobs_running() == ["low"]
    world.wait(5).submit(of_ours("high", 3, 4)).decide()
    assert world.victims() == []
    if restored:
        world.core = sent_away(world.core)
    assert world.wake() == (30 + 20) * SECOND
    assert world.victims() == ["low"]


def test_who_was_not_due_yields_at_once() -> None:
    world = World(ours(policy="FIFO"), nodes=nodes(1, cpu=4), drain_after=20 * SECOND)
    world.run(of_ours("before", 5, 4)).submit(of_ours("low", 0, 4)).decide()
    world.wait(19).finish("before")
    world.wait(1).submit(of_ours("high", 3, 4)).decide()
    assert world.victims() == ["low"]


@pytest.mark.parametrize("policy", ["FIFO", "BackFill", "Capacity"])
def test_who_waited_behind_a_job_does_not_stop_it_when_it_starts(policy: str) -> None:
    """The policy put the lower priority first; to stop it now would undo that decision in the moment in which it was
    made.
    """
    world = World(ours(policy=policy), nodes=nodes(1, cpu=4))
    world.run(of_ours("before", 5, 4)).submit(of_ours("low", 0, 4), of_ours("high", 3, 4)).decide()
    world.wait(19).finish("before")
    assert world.jobs_running() == ["low"]
    assert world.victims() == []


# --- limits ----------------------------------------------------------------------------------------------------------


def test_grace_and_min_runtime_are_those_of_the_group() -> None:
    world = World(ours(grace="40s", min_runtime="30s"), nodes=nodes(1, cpu=4))
    world.run(of_ours("low", 0, 4).stop_grace("2m")).submit(of_ours("high", 1)).decide()
    assert world.victims() == []
    assert world.wake() == 30 * SECOND
    assert [each.grace for each in world.decisions if isinstance(each, Preempt)] == [40 * SECOND]


@pytest.mark.parametrize(("mode", "would"), [("off", []), ("observe", ["low"])])
def test_the_switch_for_preemption_holds_inside_a_group_too(mode: str, would: list[str]) -> None:
    world = World(ours(), nodes=nodes(1, cpu=4), preemption=mode).run(of_ours("low", 0, 4))
    world.submit(of_ours("high", 1)).decide()
    assert (world.victims(), world.would_be_victims()) == ([], would)


def test_at_most_a_share_of_the_running_tasks_are_victims_at_once() -> None:
    world = World(ours(20), nodes=nodes(1, cpu=20), max_per_round=0.1).run(of_ours("low", 0).tasks(20))
    world.submit(of_ours("high", 1).tasks(5)).decide()
    assert len(world.victims()) == 2
    world.yield_victims()
    assert len(world.victims()) == 4


# --- beside others ---------------------------------------------------------------------------------------------------


def test_room_that_is_reserved_for_another_group_stays_reserved() -> None:
    """The gang waits for the end of low on n1; what takes the place of low would delay it."""
    world = World(ours(4), group("theirs", 8), nodes=[node("n1").cpu(4), node("n2").cpu(4)], node_order="first")
    world.run(of_ours("low", 0, 4).limit(50), job("theirs").cpu(4).limit(20).group("theirs"))
    world.submit(job("gang").cpu(4).tasks(2).gang().limit(100).group("theirs")).decide()
    world.submit(of_ours("high", 5, 4).limit(1000)).decide()
    assert world.victims() == []
    world.wait(20).finish("theirs")
    world.wait(30).finish("low")
    assert world.jobs_running() == ["gang", "gang"]


@given(
    setting=settings_of_any_kind(selective=False, within=1.0, preemption="on", windows=False, trees=False),
    story=operations(EVERYTHING),
)
def test_nobody_yields_to_an_equal_of_its_own_group_so_no_victim_takes_the_room_back(
    setting: Setting, story: list[Operation]
) -> None:
    """The plain account beside the story compares the priorities of every victim and its taker."""
    Player(setting, check=False).play(story)
