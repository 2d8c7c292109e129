"""The cycle: each step and branch of G's figure 3, in both modes of ``behind_blocked``.

Letters are those of the recipe in ``Scheduler._pass``. Preemption is off where it would only blur the picture.
"""

from __future__ import annotations

import dataclasses

import pytest

from cress.core.live_options import take_over
from cress.core.placing.vetoes import Verdict
from cress.model.decisions import Preempt, Start
from cress.model.times import MINUTE, SECOND
from tests.core.builders import World, group, job, node, nodes

MODES = ["reserve", "quota_only"]
both_modes = pytest.mark.parametrize("mode", MODES)


# --- step a: cooling-off ---------------------------------------------------------------------------------------------


def preempted(old_quota: int, new_tasks: int, mode: str, *, others_wait: bool = True) -> World:
    """At time 0 the group old, which filled 10 cores, was preempted for ``new_tasks`` tasks of the group new.

    The victims stopped, and a second, empty node came: what keeps them waiting is cooling-off alone. It counts, as a
    job of a third group waits for room on a third node.
    """
    world = World(
        group("old", old_quota), group("new", 6), group("other", 1), nodes=nodes(1, cpu=10),
        behind_blocked=mode, max_per_round=1.0,
    )  # fmt: skip
    world.run(job("old").tasks(10).group("old"))
    world.submit(job("new").tasks(new_tasks).group("new")).decide()
    assert world.victims() == ["old"] * new_tasks
    world.wait(5).yield_victims()
    assert (world.used("old"), world.used("new")) == (10 - new_tasks, new_tasks)
    world.add_node(node("n2").cpu(20))
    if others_wait:
        world.add_node(node("n3").cpu(25)).submit(job("wall").cpu(22).group("other"))
        world.submit(job("waits").cpu(25).group("other"))
    world.decide()
    world.starts.clear()
    return world


@both_modes
def test_a_preempted_group_takes_part_again_after_20_s_to_the_microsecond(mode: str) -> None:
    world = preempted(5, 5, mode)
    assert world.why("old") == (
        "group old may start nothing beyond its quota while others wait for room: "
        "its tasks were preempted for job 2 (cooling-off)"
    )
    assert world.core.next_wakeup() == 20 * SECOND
    world.wait(15, -1).decide()
    assert world.now == 20 * SECOND - 1
    assert world.starts == []
    assert world.veto("old").until == 20 * SECOND
    world.wait(0, 1).decide()
    assert world.started() == ["old"], "with 6 of 5 it is above its quota again, and sits out the minute"
    assert world.wake() == 60 * SECOND
    assert world.started() == ["old"] * 5


def test_a_cooling_off_that_is_made_longer_holds_a_group_that_had_cooled() -> None:
    world = preempted(4, 5, "reserve")
    world.wait(56).decide()
    assert world.started() == ["old"] * 5
    for core in (world.core, world.follower):
        take_over(core, dataclasses.replace(core.options, cooling_above_quota=5 * MINUTE))
    world.submit(job("more").group("old")).decide()
    assert world.started() == ["old"] * 5, "it is above its quota, and was preempted a minute ago"
    assert world.wake() == 5 * MINUTE
    assert world.started()[5:] == ["more"]


@both_modes
def test_a_preempted_group_above_its_quota_takes_part_again_after_60_s_to_the_microsecond(mode: str) -> None:
    world = preempted(4, 5, mode)
    assert world.used("old") == 5
    assert world.core.next_wakeup() == 60 * SECOND
    world.wait(55, -1).decide()
    assert world.starts == []
    assert world.veto("old").until == 60 * SECOND
    world.wait(0, 1).decide()
    assert world.started() == ["old"] * 5


@both_modes
def test_a_cooling_group_that_falls_to_its_quota_waits_only_for_the_20_s(mode: str) -> None:
    world = preempted(4, 5, mode)
    world.wait(20).decide()
    assert world.starts == []
    kept = next(start.task for start in world.running.values() if start.job == world.ids["old"])
    world.finish("old", kept)
    assert world.started() == ["old"], "4 of 4 is not above the quota, 5 of 4 is"


@both_modes
def test_a_cooling_group_that_falls_below_its_quota_returns_to_it_at_once_and_beyond_it_after_the_20_s(
    mode: str,
) -> None:
    world = preempted(5, 5, mode)
    kept = next(start.task for start in world.running.values() if start.job == world.ids["old"])
    world.finish("old", kept)
    assert world.started() == ["old"], "from 4 of 5 to 5 of 5"
    assert world.wake() == 20 * SECOND
    assert world.started() == ["old"] * 2, "to 6 of 5"


@both_modes
def test_a_cooling_group_is_not_kept_below_its_quota(mode: str) -> None:
    world = preempted(5, 5, mode)
    world.submit(job("filler").tasks(25).group("new")).decide()
    world.finish("old")
    assert world.used("old") == 5, "it has its quota back at once, and no more"


@both_modes
def test_a_group_that_cools_off_goes_on_while_nobody_else_waits(mode: str) -> None:
    world = preempted(5, 5, mode, others_wait=False)
    assert world.used("old") == 10, "its victims ran on at once in the empty node"
    world.submit(job("late").cpu(30).group("other"), job("more").tasks(6).group("old")).decide()
    assert world.used("old") == 16, "no node is large enough for the other job: it waits for a node, not for room"
    world.submit(job("later").cpu(20).group("other"), job("last").group("old")).decide()
    assert world.veto("last").kind is Verdict.COOLING, "now somebody waits for room"


@both_modes
def test_a_cooling_group_is_skipped_without_counting_as_tried(mode: str) -> None:
    """The next group goes on as if the cooling one were not there, at its quota and above."""
    world = preempted(5, 5, mode)
    world.submit(job("beyond").tasks(12).group("new")).decide()
    assert world.started() == ["beyond"] * 12
    assert world.used("new") == 17, "of a quota of 6"


# --- step b: nothing waits -------------------------------------------------------------------------------------------


@both_modes
def test_groups_where_nothing_waits_hold_nobody_back(mode: str) -> None:
    world = World(group("a", 5), group("b", 1), nodes=nodes(1, cpu=10), behind_blocked=mode)
    world.submit(job("b").tasks(9).group("b")).decide()
    assert world.used("b") == 9, "nine times its quota: nobody else wants anything"


@both_modes
def test_nothing_anywhere_is_an_empty_decision(mode: str) -> None:
    world = World(group("a", 5), nodes=nodes(1, cpu=10), behind_blocked=mode)
    assert world.decide() == []
    assert not world.more
    assert world.core.next_wakeup() is None


# --- step c: behind a blocked unit -----------------------------------------------------------------------------------


def blocked(mode: str, limit: float | None = 100) -> World:
    """One node of 4 cores; group b (quota 2) runs 3 until 100 s, so that the 4 cores that a wants are blocked."""
    world = World(
        group("a", 4), group("b", 2), group("c", 2), nodes=nodes(1, cpu=4), behind_blocked=mode, preemption="off"
    )
    hog = job("hog").cpu(3).group("b")
    world.run(hog if limit is None else hog.limit(limit))
    world.submit(job("wide").cpu(4).group("a")).decide()
    assert world.veto("wide").kind is Verdict.NO_ROOM
    return world


@both_modes
def test_behind_a_blocked_unit_a_group_below_its_quota_goes_on(mode: str) -> None:
    world = blocked(mode)
    world.submit(job("short").limit(100).group("c")).decide()
    assert world.started() == ["hog", "short"]


def test_quota_only_ends_the_pass_at_the_first_group_that_is_not_below_its_quota() -> None:
    world = blocked("quota_only")
    world.submit(job("short").limit(1).group("b")).decide()
    assert world.started() == ["hog"]
    assert world.veto("short").kind is Verdict.QUOTA
    assert world.veto("short").behind == world.ids["wide"]


@pytest.mark.parametrize(("used", "goes_on"), [(1.999, True), (2, False), (2.001, False)])
def test_quota_only_compares_exactly(used: float, goes_on: bool) -> None:
    world = World(group("a", 9), group("b", 2), nodes=nodes(1, cpu=9), behind_blocked="quota_only", preemption="off")
    world.run(job("runs").cpu(used).group("b"))
    world.submit(job("wide").cpu(8).group("a"), job("next").cpu(0.001).group("b")).decide()
    assert ("next" in world.started()) is goes_on


def test_quota_only_lets_a_group_below_its_quota_delay_the_blocked_unit() -> None:
    """G to the letter: no reservation counts for others."""
    world = blocked("quota_only")
    world.submit(job("endless").group("c")).decide()
    assert world.started() == ["hog", "endless"]


@pytest.mark.parametrize("name", ["b", "c"])
def test_reserve_lets_later_groups_go_on_beside_the_reservation_even_above_their_quota(name: str) -> None:
    world = blocked("reserve")
    world.submit(job("a µs too long").limit(100.000001).group(name)).decide()
    assert world.veto("a µs too long").kind is Verdict.RESERVED
    assert world.veto("a µs too long").behind == world.ids["wide"]
    world.cancel("a µs too long").submit(job("just in time").limit(100).group(name)).decide()
    assert world.started() == ["hog", "just in time"]
    world.wait(100).finish("just in time")
    world.finish("hog")
    assert world.starts[-1].job == "wide"
    assert world.starts[-1].at == 100, "it was not delayed"


def test_reserve_keeps_one_reservation_for_each_blocked_group() -> None:
    world = World(
        group("a", 9), group("b", 9), group("c", 1), nodes=nodes(2, cpu=4), preemption="off", node_order="first"
    )
    world.run(job("h1").cpu(3).limit(50).group("c"), job("h2").cpu(3).limit(100).group("c"))
    world.submit(job("wide a").cpu(4).limit(1000).group("a"), job("wide b").cpu(4).limit(1000).group("b"))
    world.submit(job("until 50").limit(50).group("c"), job("until 101").limit(101).group("c")).decide()
    assert world.started()[2:] == ["until 50"]
    assert world.nodes_of("until 50") == ["n1"]
    world.cancel("until 101").submit(job("until 100").limit(100).group("c")).decide()
    assert world.nodes_of("until 100") == ["n2"], "beside the reservation of the second blocked group"


@pytest.mark.parametrize("name", ["b", "c"])
def test_reserve_without_a_known_end_lets_only_groups_below_their_quota_go_on(name: str) -> None:
    world = blocked("reserve", limit=None)
    world.submit(job("short").limit(1).group(name)).decide()
    if name == "c":
        assert world.started() == ["hog", "short"]
    else:
        assert world.veto("short").kind is Verdict.QUOTA
        assert world.veto("short").behind == world.ids["wide"]


@both_modes
def test_the_group_with_the_blocked_unit_itself_stops_at_its_head(mode: str) -> None:
    world = blocked(mode)
    world.submit(job("small").limit(1).group("a")).decide()
    assert world.veto("small").kind is Verdict.BEHIND
    assert world.veto("small").behind == world.ids["wide"]


# --- steps d and e: one unit a pass ----------------------------------------------------------------------------------


@both_modes
def test_a_pass_places_one_task_and_the_next_begins_with_a_new_order(mode: str) -> None:
    world = World(group("a", 1), group("b", 2), nodes=nodes(1, cpu=20), behind_blocked=mode)
    world.submit(job("a").tasks(3).group("a"), job("b").tasks(6).group("b")).decide()
    assert "".join(world.started()) == "babbabbab", "b, the larger, first among equals, then 1 : 2"


@both_modes
def test_a_pass_places_a_gang_as_a_whole(mode: str) -> None:
    world = World(group("a", 1), nodes=nodes(2, cpu=3), behind_blocked=mode)
    world.submit(job("gang").tasks(5).gang().group("a"), job("single").group("a"))
    assert len(world.decide(1)) == 5
    assert len(world.decide(1)) == 1
    assert world.started() == ["gang"] * 5 + ["single"]


@both_modes
def test_the_budget_is_a_number_of_passes_and_more_says_whether_it_ended_first(mode: str) -> None:
    world = World(group("a", 1), nodes=nodes(1, cpu=9), behind_blocked=mode)
    world.submit(job("a").tasks(3).group("a"))
    for _ in range(3):
        assert len(world.decide(1)) == 1
        assert world.more, "only a pass that places nothing shows that there is nothing left"
    assert world.decide(1) == []
    assert not world.more


@both_modes
def test_the_same_decisions_come_whatever_the_budget(mode: str) -> None:
    histories = []
    for budget in (1, 2, 7, 1000):
        world = World(group("a", 1), group("b", 2), group("c", 3), nodes=nodes(3, cpu=6), behind_blocked=mode)
        for name in "abc":
            world.submit(job(name).cpu(1.5).tasks(9).limit(60).group(name))
        world.decide(budget)
        while world.more:
            world.decide(budget)
        histories.append(world.decisions)
    assert all(history == histories[0] for history in histories)
    assert len(histories[0]) == 12


@both_modes
def test_a_unit_that_no_pass_has_reached_says_so(mode: str) -> None:
    world = World(group("a", 1), group("b", 2), nodes=nodes(1, cpu=9), behind_blocked=mode)
    world.submit(job("a").group("a"), job("b").group("b"))
    assert world.veto("b").kind is Verdict.UNVISITED
    world.decide(1)
    assert world.started() == ["b"]
    assert world.veto("a").kind is Verdict.UNVISITED


@both_modes
def test_a_unit_submitted_since_the_last_pass_says_that_no_pass_has_reached_it(mode: str) -> None:
    world = World(group("a", 1), nodes=nodes(1, cpu=9), behind_blocked=mode)
    world.run(job("early").group("a"))
    world.submit(job("late").group("a"))
    assert world.veto("late").kind is Verdict.UNVISITED


@both_modes
def test_nor_has_one_reached_a_unit_that_came_since_to_a_group_that_the_last_pass_looked_at(mode: str) -> None:
    world = World(group("a", 1, "BackFill"), nodes=nodes(1, cpu=9), behind_blocked=mode)
    world.run(job("early").cpu(5).limit(60).group("a"))
    world.submit(job("blocked").cpu(9).limit(60).group("a")).decide()
    world.submit(job("late").limit(60).group("a"))
    assert world.veto("late").kind is Verdict.UNVISITED
    world.decide()
    assert world.starts[-1].job == "late"


# --- steps f to h: not placed ----------------------------------------------------------------------------------------


@both_modes
def test_victims_end_the_pass(mode: str) -> None:
    world = World(group("a", 5), group("b", 4), group("c", 9), nodes=nodes(1, cpu=10), behind_blocked=mode)
    world.run(job("b").tasks(10).group("b"))
    world.submit(job("a").cpu(2).group("a"))
    decided = world.decide(1)
    assert [type(each) for each in decided] == [Preempt, Preempt]
    assert world.more, "the next pass begins at once"
    assert world.veto("a").kind is Verdict.VICTIMS
    assert world.decide(1) == [], "while the victims end, the unit starts no second preemption"
    assert not world.more


@both_modes
def test_a_unit_that_gets_no_victims_lets_the_next_group_try(mode: str) -> None:
    world = World(group("a", 9), group("b", 2), group("c", 2), nodes=nodes(2, cpu=4), behind_blocked=mode)
    world.run(job("b").cpu(2).group("b"), job("c").cpu(1).group("c"))
    world.submit(job("wide").cpu(4).tasks(2).gang().limit(9).group("a"), job("small").limit(1).group("c")).decide()
    assert world.victims() == [], "nobody is above 1.1 times its quota"
    assert world.started() == ["b", "c", "small"]


@both_modes
def test_the_pass_ends_after_the_last_group_and_waits_for_an_event(mode: str) -> None:
    world = World(group("a", 2), group("b", 2), nodes=nodes(1, cpu=4), behind_blocked=mode)
    world.run(job("a1").cpu(2).group("a"), job("b1").cpu(2).group("b"))
    world.submit(job("a2").group("a").limit(5), job("b2").group("b").limit(5))
    assert world.decide() == []
    assert not world.more
    assert world.decide() == [], "nothing changed, nothing happens"
    assert [type(each) for each in world.finish("a1")] == [Start, Start]


# --- units that no known end will ever free --------------------------------------------------------------------------


def hogged(mode: str) -> World:
    """Two nodes, each with 3 of 4 cores held without a known end; a unit of group a wants a whole node."""
    world = World(
        group("a", 4), group("b", 2), group("c", 4), nodes=nodes(2, cpu=4), behind_blocked=mode, preemption="off",
        node_order="first",
    )  # fmt: skip
    world.run(job("h1").cpu(3).group("b"), job("h2").cpu(3).group("b"))
    world.submit(job("wide").cpu(4).group("a")).decide()
    return world


@both_modes
def test_before_drain_after_small_units_take_what_a_blocked_one_without_a_known_end_waits_for(mode: str) -> None:
    world = hogged(mode)
    assert world.core.next_wakeup() == 10 * MINUTE
    world.wait(600, -1).submit(job("small").group("c")).decide()
    assert world.nodes_of("small") == ["n1"]
    assert world.veto("wide").kind is Verdict.NO_ROOM


@both_modes
def test_after_drain_after_a_node_is_kept_free_and_the_veto_says_so(mode: str) -> None:
    world = hogged(mode)
    assert world.wake() == 10 * MINUTE
    world.submit(job("small").tasks(2).group("c")).decide()
    assert world.why("wide") == "no running task is due to end in time; n1 is being kept free for job 3"
    assert world.nodes_of("small") == ["n2"]
    assert world.veto("small").kind is Verdict.RESERVED
    world.finish("h2")
    assert world.nodes_of("small") == ["n2", "n2"], "n2 is not kept free: there the small ones go on"
    world.finish("h1")
    assert world.nodes_of("wide") == ["n1"]


@both_modes
def test_an_end_that_becomes_known_replaces_the_drained_node(mode: str) -> None:
    world = hogged(mode)
    world.wait(600).submit(job("small").limit(30).group("c")).decide()
    assert world.veto("wide").places == ("n1",)
    world.finish("h2")
    assert world.veto("wide").kind is Verdict.NO_ROOM
    assert world.veto("wide").until == 630 * SECOND, "when small has ended, n2 is free"
    world.wait(30).finish("small")
    assert world.nodes_of("wide") == ["n2"]


@both_modes
def test_the_drained_node_stays_the_same_while_others_come_and_go(mode: str) -> None:
    world = hogged(mode)
    world.wait(600).submit(job("small").limit(1).group("c")).decide()
    assert world.veto("wide").places == ("n1",)
    world.finish("small")
    world.wait(60).submit(job("next").limit(1).group("c")).decide()
    assert world.veto("wide").places == ("n1",)
    assert world.nodes_of("next") == ["n2"]
    world.cordon("n1").decide()
    assert world.veto("wide").places == ("n2",), "a node that takes nothing cannot be kept free"


@both_modes
def test_drain_after_counts_from_when_the_unit_was_last_queued(mode: str) -> None:
    world = World(
        group("a", 4), group("b", 4), nodes=nodes(2, cpu=4), behind_blocked=mode, preemption="off",
        node_order="first", drain_after=30 * SECOND,
    )  # fmt: skip
    world.run(job("hog").cpu(2).group("b"))
    world.run(job("wide").cpu(4).group("a"))
    world.wait(100).lose_node("n2").decide()
    assert world.veto("wide").kind is Verdict.NO_ROOM
    assert world.wake() == 130 * SECOND
    assert world.veto("wide").kind is Verdict.DRAINING


@both_modes
@pytest.mark.parametrize("waited", [0, 600])
def test_what_the_nodes_are_too_small_for_holds_up_nobody_however_long_it_waits(mode: str, waited: float) -> None:
    giants = (job("giant").cpu(5).group("a"), job("crowd").cpu(2).tasks(5).gang().group("d"))
    world = World(group("a", 4), group("b", 1), group("d", 4), nodes=nodes(2, cpu=4), behind_blocked=mode,
                  preemption="off", node_order="first")  # fmt: skip
    world.run(job("at_quota").group("b"))
    world.submit(*giants).decide()
    world.wait(waited).submit(job("small").group("b")).decide()
    assert world.nodes_of("small") == ["n1"]
