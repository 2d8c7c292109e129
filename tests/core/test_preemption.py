"""Preemption between groups (G, steps i to k): who needs it, who yields, what becomes of what is freed."""

from __future__ import annotations

from typing import Any

import pytest

from cress.core.placing.vetoes import Verdict
from cress.model.decisions import Preempt, Stop
from cress.model.events import Outcome
from cress.model.job import JobType
from cress.model.times import SECOND
from tests.core.builders import JobBuilder, World, group, job, node, nodes
from tests.core.stories import sent_away

both_modes = pytest.mark.parametrize("mode", ["reserve", "quota_only"])


def full(*victims: JobBuilder, cpu: float, quota: int = 1, **options: Any) -> World:
    """One node, full with tasks of the group old; the group new has a quota of 10 and uses nothing."""
    world = World(group("old", quota), group("new", 10), nodes=nodes(1, cpu=cpu), **options)
    return world.run(*(victim.group("old") for victim in victims))


def wants(cpu: float = 1) -> JobBuilder:
    return job("wants").cpu(cpu).group("new")


# --- the thresholds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "below", "preempts"),
    [
        pytest.param(8.999, "0.9", True, id="a millicore below 0.9 of 10"),
        pytest.param(9, "0.9", False, id="0.9 of 10 exactly"),
        pytest.param(9.999, "1", True, id="a millicore below the quota, with A = 1"),
        pytest.param(10, "1", False, id="at its quota, with A = 1"),
        pytest.param(2.999, "0.3", True, id="0.3 is taken as it is written"),
        pytest.param(3, "0.3", False, id="0.3 of 10 exactly"),
    ],
)
def test_a_group_needs_preemption_below_a_of_its_quota(used: float, below: str, preempts: bool) -> None:
    world = World(
        group("old", 2), group("new", 10).with_options(preempt_below=below), nodes=nodes(1, cpu=round(used + 5, 3))
    )
    world.run(job("old").tasks(5).group("old"), job("new").cpu(used).group("new"))
    world.submit(wants()).decide()
    assert bool(world.victims()) is preempts


@pytest.mark.parametrize(
    ("used", "above", "yields"),
    [
        pytest.param(11, "1.1", False, id="1.1 of 10 exactly"),
        pytest.param(11.001, "1.1", True, id="a millicore above"),
        pytest.param(13, "1.3", False, id="1.3 is taken as it is written"),
        pytest.param(13.001, "1.3", True, id="a millicore above 1.3 of 10"),
        pytest.param(10, "1", False, id="at its quota, with B = 1"),
    ],
)
def test_a_group_yields_above_b_of_its_quota(used: float, above: str, yields: bool) -> None:
    """Who is asked last is the only one above quota × B, unless ``old`` is."""
    old, last = group("old", 10).with_options(preempt_above=above), group("last", 1).preempt_priority(1)
    world = World(old, last, group("new", 10), nodes=nodes(1, cpu=round(used + 2, 3)))
    world.run(job("most").cpu(round(used - 1, 3)).priority(9).group("old"), job("old").group("old"))
    world.run(job("last").tasks(2).group("last"))
    world.submit(wants()).decide()
    assert world.victims() == ["old" if yields else "last"]


# --- nobody is above quota × B ----------------------------------------------------------------------------------------

CALM: dict[str, Any] = {"grace": 0, "cooling": 0, "cooling_above_quota": 0, "max_per_round": 1.0}


def settle(world: World) -> None:
    for _ in range(100):
        if not world.told:
            return
        world.yield_victims()
    raise AssertionError("preemption does not come to rest")


def used_by(world: World, *names: str) -> list[float]:
    return [world.core.groups.by_name[name].used[0] / 1000 for name in names]


def test_small_surpluses_of_many_groups_do_not_add_up_against_one() -> None:
    """Nine of ten groups have 11 of their 10, within quota × B: the tenth had 1 of its 10 for ever."""
    names = [f"g{i}" for i in range(10)]
    world = World(*(group(name, 10) for name in names), nodes=nodes(1, cpu=100), **CALM)
    world.run(*(job(name).tasks(11).group(name) for name in names[1:]), job("g0").group("g0"))
    world.submit(*(job(f"more of {name}").tasks(50).group(name) for name in names)).decide()
    settle(world)
    assert used_by(world, "g0") == [9]
    assert sorted(used_by(world, *names[1:])) == [10] * 8 + [11]
    assert len(world.victims()) == 8, "nobody is preempted who could take it back"


def test_the_group_furthest_above_its_quota_yields_on_whatever_node_it_is() -> None:
    world = World(group("most", 20), group("some", 20), group("new", 3), nodes=[node("n1").cpu(21), node("n2").cpu(22)])
    world.run(job("s").tasks(21).group("some").requires("Nodes in (n1)"))
    world.run(job("m").tasks(22).group("most").requires("Nodes in (n2)").priority(5))
    world.submit(wants()).decide()
    assert world.victims() == ["m"]


@pytest.mark.parametrize(
    ("cores", "yields"),
    [
        pytest.param(10, True, id="up to its quota"),
        pytest.param(11, False, id="beyond its quota, within quota × B"),
    ],
)
def test_from_those_within_b_a_group_takes_no_more_than_its_quota(cores: int, yields: bool) -> None:
    world = World(group("old", 110), group("new", 10), nodes=nodes(1, cpu=121), **CALM)
    world.run(job("old").tasks(121).group("old")).submit(wants(cores)).decide()
    assert bool(world.victims()) is yields


def test_of_those_within_b_a_wide_victim_is_not_exchanged_for_another_ones_need() -> None:
    """Without its only task the group would have as little of its quota as the one that waits: they could take
    turns.
    """
    world = World(group("old", 10), group("new", 10), nodes=nodes(1, cpu=20), **CALM)
    world.run(job("wide").cpu(11).group("old"))
    world.submit(job("ten").cpu(10).group("new")).decide()
    assert world.victims() == []


def test_of_those_within_b_the_last_victim_may_take_its_group_below_the_quota() -> None:
    """It keeps more of its quota than the one that waits has."""
    world = World(group("old", 10), group("new", 10), nodes=nodes(1, cpu=20), **CALM)
    world.run(job("old").cpu(5.5).tasks(2).group("old"))
    world.submit(job("more").cpu(5.5).tasks(9).group("old"), job("ten").cpu(10).tasks(9).group("new")).decide()
    settle(world)
    assert world.victims() == ["old"]
    assert used_by(world, "old", "new") == [5.5, 10]


def test_what_is_free_and_kept_for_another_unit_keeps_no_group_below_its_quota() -> None:
    """One core is kept free for a unit of four that is due, above the quota of its group: who is owed room goes first,
    and needs no victim.
    """
    world = World(group("old", 20), group("wide", 1), group("new", 10), nodes=nodes(1, cpu=40), **CALM)
    world.run(job("o").tasks(39).group("old"))
    world.submit(job("w").cpu(4).group("wide")).decide()
    world.wait(3600).decide()
    world.submit(wants()).decide()
    assert world.victims() == []
    assert world.started()[-1] == "wants"


def test_a_unit_that_fits_preempts_nobody() -> None:
    world = full(job("old").tasks(9), cpu=10)
    world.submit(wants()).decide()
    assert world.victims() == []
    assert world.started()[-1] == "wants"


def test_a_claim_counts_as_used_so_that_a_group_takes_no_more_than_it_needs() -> None:
    world = full(job("old").tasks(20), cpu=20, max_per_round=1.0)
    world.submit(wants().tasks(20)).decide()
    assert len(world.victims()) == 9, "with nine claimed it is not below 0.9 of its quota of 10 any more"


def test_preemption_can_be_switched_off() -> None:
    world = full(job("old").tasks(10), cpu=10, preemption="off")
    world.submit(wants()).decide()
    assert world.decisions[10:] == []
    assert world.veto("wants").kind is Verdict.NO_ROOM


# --- who yields ------------------------------------------------------------------------------------------------------


REST = job("rest").priority(99)


def test_victims_are_removed_in_order_and_filled_back_so_that_the_set_is_minimal() -> None:
    """For 4 cores p1, p2 and p3 are taken in this order; with p3 gone p1 and p2 are not needed."""
    world = full(job("p1").priority(1), job("p2").priority(2), job("p3").priority(3).cpu(4), REST, cpu=7)
    world.submit(wants(4)).decide()
    assert world.victims() == ["p3"]


def test_what_is_given_back_is_the_last_that_is_not_needed() -> None:
    world = full(job("p1").priority(1).cpu(2), job("p2").priority(2).cpu(1), job("p3").priority(3).cpu(2), REST, cpu=6)
    world.submit(wants(4)).decide()
    assert world.victims() == ["p1", "p3"]


def test_small_tasks_that_yield_first_do_not_keep_the_one_that_is_enough_from_yielding() -> None:
    """All three would take the group below its quota of 1; p3 alone would not."""
    world = full(job("p1").priority(1), job("p2").priority(2), job("p3").priority(3).cpu(4), cpu=6)
    world.submit(wants(4)).decide()
    assert world.victims() == ["p3"]


@pytest.mark.parametrize(
    ("policy", "victim"),
    [
        pytest.param("LowPriorityFirst", "low, old", id="LowPriorityFirst"),
        pytest.param("MostRecentFirst", "high, recent", id="MostRecentFirst"),
    ],
)
def test_the_preempting_groups_policy_orders_the_victims(policy: str, victim: str) -> None:
    world = World(
        group("old", 1).preemptive("LowPriorityFirst"),
        group("new", 10).preemptive(policy),
        nodes=nodes(1, cpu=3),
    )
    world.run(job("low, old").priority(1).group("old"), job("middle").priority(5).group("old"))
    world.wait(100).run(job("high, recent").priority(9).group("old"))
    world.wait(100).submit(wants()).decide()
    assert world.victims() == [victim]


def test_among_equal_priorities_the_most_recent_yields() -> None:
    world = full(job("first"), cpu=3)
    for name in ("second", "third"):
        world.wait(10).run(job(name).group("old"))
    world.submit(wants()).decide()
    assert world.victims() == ["third"]


def test_the_group_furthest_above_its_quota_yields_first() -> None:
    world = World(group("twice", 2), group("thrice", 2), group("new", 10), nodes=nodes(1, cpu=10))
    world.run(job("of twice").tasks(4).group("twice"), job("of thrice").tasks(6).priority(99).group("thrice"))
    world.submit(wants()).decide()
    assert world.victims() == ["of thrice"], "although its tasks have the higher priority"


@pytest.mark.parametrize(
    ("on_n1", "on_n2", "victims"),
    [
        pytest.param(
            [job("a").priority(5).cpu(2)], [job("b").priority(1).cpu(2)], ["b"], id="the lower priority decides"
        ),
        pytest.param(
            [job("a").priority(1).tasks(2)], [job("b").priority(1).cpu(2)], ["b"], id="then the smaller number"
        ),
        pytest.param(
            [job("a").priority(1).cpu(2)], [job("b").priority(1).cpu(2)], ["b"], id="then the less work is lost"
        ),
        pytest.param(
            [job("a").priority(2).tasks(2)], [job("b").priority(3).cpu(2)], ["a", "a"], id="priority before number"
        ),
    ],
)
def test_the_node_with_the_cheapest_set_is_chosen(
    on_n1: list[JobBuilder], on_n2: list[JobBuilder], victims: list[str]
) -> None:
    world = World(group("old", 1), group("new", 10), nodes=nodes(2, cpu=2), node_order="first")
    world.run(*(each.group("old") for each in on_n1))
    world.wait(1).run(*(each.group("old") for each in on_n2))
    assert world.nodes_of("a")[0] == "n1"
    assert world.nodes_of("b")[0] == "n2"
    world.wait(10).submit(wants(2)).decide()
    assert world.victims() == victims


def test_among_equal_nodes_the_first_registered_is_chosen() -> None:
    world = World(group("old", 1), group("new", 10), nodes=[node("z").cpu(2), node("a").cpu(2)], node_order="first")
    world.run(job("old").cpu(2).tasks(2).group("old"))
    world.submit(wants(2)).decide()
    assert [each.node for each in world.decisions if isinstance(each, Preempt)] == ["z"]


def test_what_is_free_on_the_node_counts() -> None:
    world = World(group("old", 1), group("new", 10), nodes=nodes(2, cpu=4), node_order="first")
    world.run(job("a").cpu(3).priority(1).group("old"), job("b").tasks(3).group("old"))
    assert world.nodes_of("b") == ["n1", "n2", "n2"]
    world.submit(wants(3)).decide()
    assert [(each.node, each.task) for each in world.decisions if isinstance(each, Preempt)] == [("n2", 2)]


# --- gangs -----------------------------------------------------------------------------------------------------------


def test_a_gang_yields_as_a_whole() -> None:
    world = World(group("old", 1), group("new", 10), nodes=nodes(2, cpu=3), node_order="first")
    world.run(job("gang").tasks(5).gang().priority(1).group("old"), job("single").priority(2).group("old"))
    world.submit(wants()).decide()
    assert world.victims() == ["gang"] * 5, "the cost is its priority; its number only comes after that"
    world.yield_victims()
    assert world.started()[-1] == "wants"
    assert world.state("gang").waiting == 5


def test_a_gang_of_equal_priority_is_dearer_than_a_single_task() -> None:
    world = World(group("old", 1), group("new", 10), nodes=nodes(2, cpu=3), node_order="first")
    world.run(job("gang").tasks(4).gang().group("old"), job("single").tasks(2).group("old"))
    world.submit(wants()).decide()
    assert world.victims() == ["single"]


def test_a_gang_that_would_take_its_group_below_the_quota_stays() -> None:
    world = full(job("gang").tasks(5).gang(), job("single").priority(9), cpu=6, quota=2)
    world.submit(wants()).decide()
    assert world.victims() == ["single"], "without the gang 1 of 2 would be left"


def test_victims_are_found_for_a_gang_as_a_whole() -> None:
    world = World(group("old", 1), group("new", 10), nodes=nodes(3, cpu=4), node_order="first")
    world.run(job("old").tasks(12).group("old"))
    world.submit(wants(2).tasks(4).gang()).decide()
    assert len(world.victims()) == 8, "at least the victims of one unit may be under way, whatever max_per_round says"
    assert world.started()[12:] == []
    world.yield_victims()
    assert world.started()[12:] == ["wants"] * 4


def test_for_a_gang_that_cannot_get_all_of_its_room_nobody_yields() -> None:
    world = World(group("old", 4), group("new", 10), nodes=nodes(2, cpu=4), node_order="first")
    world.run(job("old").tasks(8).group("old"))
    world.submit(wants(4).tasks(2).gang()).decide()
    assert world.victims() == [], "four tasks above the quota of 4 are half of what it needs"


# --- what may not yield ----------------------------------------------------------------------------------------------


def test_a_group_falls_below_its_quota_by_less_than_the_last_victim_and_only_if_nothing_else_helps() -> None:
    world = full(job("one").priority(9), job("two").cpu(2).tasks(2), cpu=5, quota=4)
    world.submit(wants()).decide()
    assert world.victims() == ["one"], "less 1 is the quota itself"
    world = full(job("one").priority(9), job("two").cpu(2).tasks(2), cpu=5, quota=4)
    world.submit(wants(2)).decide()
    assert world.victims() == ["two"], "5 of 4 less 2 is 3 of 4"
    world.yield_victims()
    world.submit(wants(2).named("more")).decide()
    assert len(world.victims()) == 1, "it is below its quota now"


@pytest.mark.parametrize("wide", [job("wide").cpu(1).tasks(16).gang(), job("wide").cpu(16)], ids=["gang", "task"])
def test_a_borrower_of_everything_yields_to_one_core_of_another_group_once(wide: JobBuilder) -> None:
    world = World(group("a", 8), group("b", 8), nodes=nodes(1, cpu=16))
    world.run(wide.group("b"))
    world.wait(100).submit(job("small").cpu(1).group("a")).decide()
    assert set(world.victims()) == {"wide"}
    world.yield_victims()
    assert world.started()[-1] == "small"
    for _ in range(20):
        world.wait(30).decide()
    assert not world.told, "the wide one takes nothing back from a group that is not above its quota"
    world.finish("small")
    assert world.started()[-1] == "wide"


def test_the_last_of_some_wide_tasks_yields() -> None:
    world = World(group("a", 50), group("b", 50), nodes=nodes(1, cpu=100))
    world.run(job("theirs").cpu(15).tasks(4).group("b"), job("ours").cpu(40).group("a"))
    world.wait(100).submit(job("more").cpu(5).group("a")).decide()
    assert world.victims() == ["theirs"]


def test_no_group_takes_victims_for_a_unit_that_would_make_it_a_victim_itself() -> None:
    world = World(group("a", 4), group("b", 4), nodes=nodes(1, cpu=8))
    world.run(job("theirs").cpu(1).tasks(8).group("b"))
    world.submit(job("wide").cpu(5).group("a")).decide()
    assert world.victims() == []
    world.cancel("wide").submit(job("right").cpu(4).group("a")).decide()
    assert len(world.victims()) == 4


def test_one_task_is_a_cheaper_victim_than_a_gang_of_the_same_priority() -> None:
    world = World(group("a", 20), group("b", 20), nodes=nodes(1, cpu=40))
    world.run(job("single").cpu(1).tasks(20).group("b")).run(job("gang").cpu(1).tasks(20).gang().group("b"))
    world.wait(100).submit(job("ours").cpu(1).group("a")).decide()
    assert world.victims() == ["single"]


def test_with_a_vector_quota_a_group_yields_while_it_stays_at_its_quota_somewhere() -> None:
    world = World(
        group("old", "<4,8G>"), group("new", "<8,16G>"), nodes=[node("n1").cpu(16).memory("12G")],
        accounting="dominant",
    )  # fmt: skip
    world.run(job("lean").cpu(2).memory("1G").tasks(2).group("old"), job("fat").memory("5G").tasks(2).group("old"))
    assert world.group("old").used == [6000, 12 * 2**30]
    world.submit(wants().memory("1G")).decide()
    assert len(world.victims()) == 1
    assert world.group("old").ratio() >= 1


def test_tasks_that_ran_less_than_min_runtime_stay_until_they_did_to_the_microsecond() -> None:
    world = full(job("old").tasks(5), cpu=5, min_runtime=30 * SECOND)
    world.submit(wants()).decide()
    assert world.victims() == []
    assert world.core.next_wakeup() == 30 * SECOND
    world.wait(30, -1).decide()
    assert world.victims() == []
    world.wait(0, 1).decide()
    assert world.victims() == ["old"]


def test_min_runtime_is_that_of_the_victims_group() -> None:
    world = World(group("a", 1).with_options(min_runtime="30s"), group("b", 2), group("new", 10), nodes=nodes(1, cpu=9))
    world.run(job("of a").tasks(5).group("a"), job("of b").tasks(4).group("b"))
    world.wait(29).submit(wants()).decide()
    assert world.victims() == ["of b"], "although a is further above its quota"


def test_a_service_keeps_its_minimum_of_tasks() -> None:
    world = full(job("web").tasks(4).type(JobType.SERVICE, minimum=3).priority(-1), job("old").tasks(2), cpu=6)
    world.submit(wants(2)).decide()
    assert sorted(world.victims()) == ["old", "web"], "only one of the service, low as its priority is"
    world.yield_victims()
    assert len(world.nodes_of("web")) == 3


def test_a_service_at_its_minimum_never_yields() -> None:
    world = full(job("web").tasks(4).type(JobType.SERVICE, minimum=4), cpu=4)
    world.submit(wants()).decide()
    assert world.victims() == []


def test_a_database_never_yields() -> None:
    world = full(job("db").tasks(4).type(JobType.DATABASE).priority(-9), job("old"), cpu=5)
    world.submit(wants(), wants().named("wants too")).decide()
    assert world.victims() == ["old"]


@pytest.mark.parametrize(
    ("share", "under_way"),
    [pytest.param(0.1, 2, id="10 % of 20"), pytest.param(0.29, 5, id="5.8, so 5"), pytest.param(0.01, 1, id="one")],
)
def test_victims_under_way_at_once_are_a_share_of_the_running_tasks(share: float, under_way: int) -> None:
    world = full(job("old").tasks(20), cpu=20, max_per_round=share)
    world.submit(wants().tasks(8)).decide()
    assert len(world.told) == under_way
    world.yield_victims()
    assert len(world.victims()) == 2 * under_way if share < 0.2 else 8, "when these are gone, the next"


# --- what becomes of victims and of what they free -------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [Outcome.PREEMPTED, Outcome.CANCELLED, Outcome.LOST])
def test_victims_are_always_queued_again(outcome: Outcome) -> None:
    world = full(job("old").tasks(5), cpu=5)
    world.submit(wants()).decide()
    world.end(list(world.told.values()), outcome).decide()
    assert world.state("old").waiting == 1
    assert world.group("old").kept.preempted_at == 0


def test_a_victim_that_finishes_within_its_grace_is_done() -> None:
    world = full(job("old").tasks(5), cpu=5)
    world.submit(wants()).decide()
    world.end(list(world.told.values()), Outcome.SUCCEEDED).decide()
    assert world.state("old").waiting == 0
    assert world.started()[-1] == "wants"


def test_grace_is_bounded_by_that_of_the_victims_group_and_the_veto_says_when_it_is_over() -> None:
    world = World(group("old", 1).with_options(grace="40s"), group("new", 10), nodes=nodes(1, cpu=5))
    world.run(job("old").tasks(5).group("old").stop_grace("2m"))
    world.wait(7).submit(wants()).decide()
    told = [each for each in world.decisions if isinstance(each, Preempt)]
    assert [each.grace for each in told] == [40 * SECOND]
    assert [world.names[each.by] for each in told] == ["wants"]
    assert world.veto("wants").until == 47 * SECOND
    assert world.veto("wants").places == ("n1",)


def test_a_victim_has_the_grace_of_its_job_where_its_group_would_give_it_more() -> None:
    world = World(group("old", 1).with_options(grace="40s"), group("new", 10), nodes=nodes(1, cpu=5))
    world.run(job("old").tasks(5).group("old").stop_grace("3s"))
    world.submit(wants()).decide()
    assert [each.grace for each in world.decisions if isinstance(each, Preempt)] == [3 * SECOND]
    assert world.veto("wants").until == 3 * SECOND


def test_the_end_of_a_cancelled_task_is_predicted_by_the_grace_of_its_job() -> None:
    world = World(group("old", 5).with_options(grace="1s"), nodes=nodes(1, cpu=5))
    world.run(job("old").group("old").stop_grace("7s"))
    (stop,) = world.wait(2).cancel("old").decide()
    assert isinstance(stop, Stop)
    assert stop.end == 9 * SECOND


@both_modes
@pytest.mark.parametrize("limit", [1, 100, None])
def test_what_is_freed_is_kept_for_the_unit(mode: str, limit: float | None) -> None:
    """Not even a task that would end before the grace does may have it: the victims may end before that, too."""
    world = World(
        group("old", 1), group("new", 10), group("third", 1), nodes=nodes(1, cpu=6), behind_blocked=mode,
        max_per_round=1.0,
    )  # fmt: skip
    world.run(job("old").tasks(5).group("old"), job("third").group("third"))
    world.submit(wants(2)).decide()
    first, second = world.told.values()
    thief = job("thief").group("third")
    world.submit(thief if limit is None else thief.limit(limit))
    world.end([first], Outcome.PREEMPTED).decide()
    assert "thief" not in world.started(), "one of two cores is free, and kept"
    world.end([second], Outcome.PREEMPTED).decide()
    assert world.started()[6:] == ["wants"]


@both_modes
def test_a_unit_with_victims_of_its_own_does_not_take_what_others_freed_for_another(mode: str) -> None:
    world = World(
        group("old", 1), group("new", 10), group("third", 10), nodes=nodes(1, cpu=6), behind_blocked=mode,
        max_per_round=1.0,
    )  # fmt: skip
    world.run(job("old").tasks(6).group("old"))
    world.submit(wants(2)).decide()
    first, second = world.told.values()
    world.submit(job("third").group("third")).decide()
    assert len(world.told) == 3
    world.end([first], Outcome.PREEMPTED).decide()
    world.end([second], Outcome.PREEMPTED).decide()
    assert world.started()[6:] == ["wants"]
    world.yield_victims()
    assert world.started()[6:] == ["wants", "third"]


@both_modes
def test_one_unit_starts_no_second_preemption(mode: str) -> None:
    world = World(group("old", 1), group("new", 10), nodes=nodes(2, cpu=4), behind_blocked=mode, max_per_round=1.0)
    world.run(job("old").tasks(8).group("old"))
    world.submit(wants(2)).decide()
    assert len(world.victims()) == 2
    for _ in range(5):
        world.wait(3).decide()
    first, _ = world.told.values()
    world.end([first], Outcome.PREEMPTED).decide()
    world.finish("old", next(s.task for a, s in world.running.items() if a not in world.told))
    assert len(world.victims()) == 2


def test_a_preempted_group_can_be_preempted_again_while_it_cools_off() -> None:
    world = full(job("old").tasks(10), cpu=10)
    world.submit(wants()).decide()
    world.yield_victims()
    world.wait(5).submit(wants().named("more")).decide()
    assert world.victims() == ["old", "old"]
    world.yield_victims()
    assert world.group("old").cools_until() == 65 * SECOND, "and the time runs anew"


def test_when_the_node_is_lost_the_unit_waits_again() -> None:
    world = World(group("old", 1), group("new", 10), nodes=nodes(2, cpu=2), node_order="first")
    world.run(job("old").tasks(4).group("old"))
    world.submit(wants()).decide()
    (victim,) = world.told.values()
    world.lose_node(victim.node).decide()
    other = {"n1": "n2", "n2": "n1"}[victim.node]
    assert [start.node for start in world.told.values()] == [other]
    world.yield_victims()
    assert world.nodes_of("wants") == [other]


def test_when_the_unit_is_cancelled_others_may_use_what_is_freed() -> None:
    world = World(group("old", 1), group("new", 10), group("third", 10), nodes=nodes(1, cpu=5))
    world.run(job("old").tasks(5).group("old"))
    world.submit(wants()).decide()
    world.submit(job("third").group("third"))
    world.cancel("wants").yield_victims()
    assert world.started()[-1] == "third"
    assert world.core.claims == []


# --- observe ---------------------------------------------------------------------------------------------------------


def test_in_the_mode_observe_it_is_said_and_not_done() -> None:
    world = full(job("old").tasks(5), cpu=5, preemption="observe")
    world.submit(wants(2)).decide()
    assert world.would_be_victims() == ["old", "old"]
    assert world.victims() == []
    assert world.told == {}
    assert world.veto("wants").kind is Verdict.NO_ROOM
    assert world.group("old").kept.preempted_at is None, "nobody cools off"
    world.wait(60).decide()
    assert world.would_be_victims() == ["old", "old"], "said once while nothing changes"


def test_what_was_said_is_not_said_again_after_a_restart() -> None:
    world = full(job("old").tasks(5), cpu=5, preemption="observe")
    world.submit(wants(2)).decide()
    twin = sent_away(world.core)
    twin.observe(world.now + 60 * SECOND, [])
    assert twin.decide(world.now + 60 * SECOND).items == []


def test_observe_names_the_same_victims_as_the_real_thing() -> None:
    tasks = [job("p1").priority(1), job("p2").priority(2), job("p3").priority(3).cpu(4), REST]
    real = full(*tasks, cpu=7)
    real.submit(wants(4)).decide()
    observed = full(*tasks, cpu=7, preemption="observe")
    observed.submit(wants(4)).decide()
    assert observed.would_be_victims() == real.victims() == ["p3"]


def test_what_is_claimed_does_not_count_on_tasks_that_should_have_ended() -> None:
    """Nobody knows when an overdue task ends: what starts beside a claim leaves it the room that its victims bring."""
    world = World(group("rich", 1), group("poor", 15), nodes=nodes(1, cpu=8), preemption="on", cooling=0)
    world.run(job("late").cpu(2).limit(5).group("rich"), job("victim").cpu(4).limit(5).group("rich"))
    world.wait(10).submit(job("it").cpu(6).group("poor")).decide()
    assert [each.job for each in world.told.values()] == [world.ids["victim"]]
    world.submit(job("small").cpu(2).limit(100).group("poor")).decide()
    assert world.ids["small"] not in {each.job for each in world.running.values()}
    world.yield_victims()
    assert [world.names[each.job] for each in world.running.values()] == ["late", "it"]


def test_what_is_claimed_does_not_count_on_a_task_that_should_end_in_the_next_microsecond() -> None:
    """A claim counts from the next microsecond on, too; the task may be late all the same."""
    world = World(group("rich", 1), group("poor", 15), nodes=nodes(2, cpu=8))
    world.run(job("victim").cpu(8).limit("1h").group("rich"), job("ends").cpu(2).limit(20).group("poor"))
    world.wait(20, -1).submit(job("it").cpu(4).tasks(2).gang().group("poor")).decide()
    assert world.victims() == ["victim"]
    world.submit(job("small").cpu(4).limit(100).group("poor")).decide()
    assert world.jobs_running() == ["ends", "victim"]
    world.yield_victims()
    assert world.jobs_running().count("it") == 2


def test_free_room_that_is_reserved_for_another_unit_is_left_to_it_and_victims_are_elsewhere() -> None:
    """The four free cores of n1 are kept for the head of first, so those of n2 are taken from a borrower."""
    world = World(
        group("first", 16), group("second", 8), group("old", 1),
        nodes=[node("n1").cpu(8), node("n2").cpu(4), node("n3").cpu(4)], drain_after=0,
    )  # fmt: skip
    world.run(
        job("runs").group("first").cpu(4).limit("1h").requires("Nodes in (n1)"),
        job("borrows").group("old").tasks(4).requires("Nodes in (n2)"),
        job("has").group("second").cpu(4).requires("Nodes in (n3)"),
    )
    world.submit(job("head").group("first").cpu(8), job("due").group("second").cpu(3)).decide()
    assert world.nodes_of("due") == []
    assert world.victims() == ["borrows"] * 3


def test_a_task_of_a_moment_starts_beside_what_is_claimed_and_not_in_it() -> None:
    """Its limit is 1 µs, and a claim counts from the next microsecond: it seemed to end before."""
    world = World(group("a", 6), group("b", 6), nodes=nodes(3, cpu=4))
    world.run(job("gang").group("a").tasks(2).gang().limit("90s"), job("first").group("b").cpu(3).limit("10s"))
    world.run(job("victim").group("a").cpu(2).tasks(3).limit("40s"))
    world.submit(job("claims").group("b").tasks(3).gang().limit("10s"))
    world.submit(job("moment").group("a").cpu(2).tasks(3).limit("0.000001")).decide()
    assert world.victims() == ["victim"]
    world.finish("first")
    assert world.jobs_running().count("moment") == 1
