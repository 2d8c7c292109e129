"""The tree of groups (design note 0030): order, preemption, MaxQuota, Lendable, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from cress.core.groups.guarantees import Guarantees
from cress.core.placing.vetoes import Verdict
from cress.model.errors import InputError
from tests.core.builders import GroupBuilder, World, group, job, nodes

# One of two departments has two teams.
UNIVERSITY = (
    group("physics", 60),
    group("theory", 20).inside("physics"),
    group("lab", 40).inside("physics"),
    group("biology", 40),
)


def busy(world: World, *names: str, tasks: int = 200) -> World:
    """Queues without end of one-core tasks."""
    return world.submit(*(job(name).tasks(tasks).group(name) for name in names))


def used(world: World, *names: str) -> list[float]:
    return [world.core.groups.any_of(name).used[0] / 1000 for name in names]


# --- order -------------------------------------------------------------------------------------------------------


def test_a_group_with_groups_in_it_has_what_they_have() -> None:
    world = World(*UNIVERSITY, nodes=nodes(1, cpu=100))
    world.run(job("t").tasks(3).group("theory"), job("l").tasks(4).group("lab"))
    assert used(world, "theory", "lab", "physics", "biology") == [3, 4, 7, 0]
    world.finish("l", 0, 1)
    assert used(world, "physics") == [5]


@pytest.mark.parametrize(
    ("waiting", "shares"),
    [
        pytest.param(("theory", "lab", "biology"), [20, 40, 40], id="everybody has a quota"),
        pytest.param(
            ("theory", "biology"), [60, 0, 40], id="a sibling has what the other one leaves, before outsiders"
        ),
        pytest.param(("lab", "biology"), [0, 60, 40], id="the same the other way round"),
        pytest.param(("theory", "lab"), [33, 67, 0], id="what outsiders leave is shared in proportion"),
    ],
)
def test_siblings_share_what_is_theirs(waiting: tuple[str, ...], shares: list[int]) -> None:
    world = World(*UNIVERSITY, nodes=nodes(1, cpu=100), preemption="off")
    busy(world, *waiting).decide()
    assert used(world, "theory", "lab", "biology") == shares


def test_a_group_without_a_quota_has_the_sum_of_theirs_at_every_moment() -> None:
    world = World(
        group("all", 0),
        group("day", 10).windows("08:00-20:00 = 30").inside("all"),
        group("night", 10).inside("all"),
        nodes=nodes(1, cpu=100),
    )
    world.set_clock("2024-05-06T07:00+00:00").decide()
    assert world.core.groups.any_of("all").quota == [20_000]
    world.wake()
    assert world.core.groups.any_of("all").quota == [40_000]


def test_equal_groups_go_by_how_long_their_first_unit_waits_on_every_level() -> None:
    world = World(
        group("a", 10), group("a1", 5).inside("a"), group("b", 10), group("b1", 5).inside("b"), nodes=nodes(1, cpu=1)
    )
    world.run(job("first").group("a1"))
    world.wait(1).submit(job("late").group("a1")).wait(-1)
    world.now += 2_000_000
    world.submit(job("later").group("b1"))
    world.finish("first")
    assert world.started()[-1] == "late"


# --- preemption --------------------------------------------------------------------------------------------------

CALM: dict[str, Any] = {"grace": 0, "cooling": 0, "cooling_above_quota": 0, "max_per_round": 1.0}


def settle(world: World) -> World:
    for _ in range(100):
        if not world.told:
            break
        world.yield_victims()
    return world


def test_outsiders_give_back_before_siblings() -> None:
    """biology has 20 beyond its quota, lab nothing; theory is below its own quota as long as physics has room in
    its.
    """
    world = World(*UNIVERSITY, nodes=nodes(10, cpu=10), **CALM)
    world.run(job("l").tasks(40).group("lab"), job("b").tasks(60).group("biology"))
    settle(busy(world, "theory")).decide()
    settle(world)
    assert used(world, "theory", "lab", "biology") == [18, 40, 42], "theory has nine tenths of its quota"


def test_thresholds_of_two_levels_do_not_add_up_against_a_group() -> None:
    """Nobody beside lab is above quota × B, and physics does not need preemption: lab had nothing for ever."""
    world = World(
        group("physics", 60),
        group("lab", 10).inside("physics"),
        group("theory", 50).inside("physics"),
        group("biology", 40),
        nodes=nodes(1, cpu=100),
        **CALM,
    )
    world.run(job("t").tasks(55).group("theory"), job("b").tasks(45).group("biology"))
    settle(busy(world, "lab")).decide()
    settle(world)
    assert used(world, "lab", "theory", "biology") == [9, 51, 40]


def test_beyond_the_quota_of_its_branch_a_group_takes_from_siblings_alone() -> None:
    world = World(*UNIVERSITY, group("idle", 10), nodes=nodes(1, cpu=112), **CALM)
    world.run(job("l").tasks(43).group("lab"), job("b").tasks(52).group("biology"), job("t").tasks(17).group("theory"))
    busy(world, "theory").decide()
    settle(world)
    assert used(world, "theory", "lab", "biology") == [18, 42, 52]


def test_a_sibling_gives_back_what_is_within_the_quota_of_both() -> None:
    world = World(*UNIVERSITY, nodes=nodes(10, cpu=10), **CALM)
    world.run(job("l").tasks(60).group("lab"), job("b").tasks(40).group("biology"))
    busy(world, "theory").decide()
    settle(world)
    assert used(world, "theory", "lab", "biology") == [18, 42, 40]
    assert set(world.victims()) == {"l"}


def test_nobody_yields_to_a_group_whose_branch_has_its_quota() -> None:
    """theory is below its own quota, but physics has all of its: only lab yields, although biology borrowed from
    others.
    """
    world = World(*UNIVERSITY, group("idle", 40), nodes=nodes(14, cpu=10), **CALM)
    world.run(job("l").tasks(60).group("lab"), job("b").tasks(80).group("biology"))
    busy(world, "theory").decide()
    settle(world)
    assert set(world.victims()) == {"l"}


def test_a_group_above_its_quota_takes_for_its_branch_what_siblings_leave() -> None:
    world = World(*UNIVERSITY, nodes=nodes(10, cpu=10), **CALM)
    world.run(job("b").tasks(70).group("biology"), job("t").tasks(30).group("theory"))
    world.submit(job("more").tasks(100).group("theory")).decide()
    settle(world)
    assert used(world, "biology") == [46], "physics is entitled to 60, and theory may use what lab leaves"


# --- MaxQuota ----------------------------------------------------------------------------------------------------


def test_a_max_quota_bounds_a_group_and_those_in_it() -> None:
    world = World(
        group("physics", 20).most(30),
        group("theory", 10).inside("physics"),
        group("lab", 10).most(12).inside("physics"),
        nodes=nodes(1, cpu=100),
    )
    busy(world, "theory", "lab").decide()
    assert used(world, "theory", "lab", "physics") == [18, 12, 30]
    assert world.why("lab").startswith("group lab is at its MaxQuota of 12 cores: 12 cores used, job 2 asks for 1 core")
    assert world.why("theory").startswith(
        "group physics is at its MaxQuota of 30 cores: 30 cores used, job 1 asks for 1 core"
    )
    assert world.core.next_wakeup() is None


def test_a_unit_beyond_a_max_quota_holds_up_nobody() -> None:
    world = World(group("a", 4).most(4), group("b", 4), nodes=nodes(1, cpu=8))
    world.run(job("a1").cpu(3).group("a"))
    world.submit(job("a2").cpu(2).group("a"), job("a3").group("a"), job("b1").cpu(4).group("b")).decide()
    assert sorted(world.started()) == ["a1", "a3", "b1"]
    assert world.veto("a2").kind is Verdict.MAX_QUOTA
    world.finish("a1")
    assert world.started()[-1] == "a2"


def test_nobody_is_preempted_for_a_unit_beyond_a_max_quota() -> None:
    world = World(group("a", 4).most(4), group("b", 4), nodes=nodes(1, cpu=8), **CALM)
    world.run(job("a1").cpu(2).group("a"), job("b1").tasks(6).group("b"))
    world.submit(job("large").cpu(3).group("a")).decide()
    assert world.victims() == []


def test_within_the_max_quota_of_their_group_siblings_take_back_what_they_are_guaranteed() -> None:
    world = World(
        group("p", 8).most(8), group("a", 4).inside("p"), group("b", 4).inside("p"), group("o", 4),
        nodes=nodes(2, cpu=8), **CALM,
    )  # fmt: skip
    busy(world, "a").decide()
    assert used(world, "a", "p") == [8, 8]
    busy(world, "b").decide()
    # Room is free on the nodes, but p has no more: each unit of b takes the place of a task of a.
    assert len(world.victims()) == 4
    settle(world)
    assert used(world, "a", "b", "p") == [4, 4, 8]
    assert world.why("b").startswith("group p is at its MaxQuota of 8 cores: 8 cores used, job 2 asks for 1 core")


def test_beyond_its_own_max_quota_a_group_takes_nothing_back() -> None:
    world = World(
        group("p", 8).most(8),
        group("a", 4).inside("p"),
        group("b", 4).most(4).inside("p"),
        nodes=nodes(2, cpu=8),
        **CALM,
    )
    busy(world, "b").decide()
    busy(world, "a").decide()
    assert used(world, "a", "b", "p") == [4, 4, 8]
    assert world.victims() == []


# --- Lendable ----------------------------------------------------------------------------------------------------


def test_what_is_not_lent_is_kept_free() -> None:
    world = World(group("a", 40).lends(10), group("b", 60), nodes=nodes(1, cpu=100))
    busy(world, "b").decide()
    assert used(world, "b") == [70]
    assert world.why("b") == (
        "job 1 asks for 1 core beyond the quota of group b (60 cores), and other groups do not lend what is free "
        "(Lendable): group a 30 cores; nothing is reserved for it meanwhile, and jobs behind it may start first; "
        "to start earlier, raise Lendable of group a by 1 core"
    )
    busy(world, "a").decide()
    assert used(world, "a") == [30], "its own at once; the rest comes back by preemption"


def test_who_waits_because_all_is_in_use_is_not_told_that_others_keep_something() -> None:
    world = World(group("a", 40).lends(10), group("b", 60), nodes=nodes(2, cpu=50), preemption="off")
    busy(world, "a").decide()
    assert used(world, "a") == [100]
    busy(world, "b").decide()
    assert world.why("a") == "no node has enough free; of 2 nodes 2 lack cpu"
    assert world.why("b") == "no node has enough free; of 2 nodes 2 lack cpu"


def test_siblings_keep_from_each_other_within_the_quota_of_their_group() -> None:
    world = World(
        group("p", 60), group("p1", 20).lends(0).inside("p"), group("p2", 40).inside("p"), group("q", 40),
        nodes=nodes(1, cpu=100), preemption="off",
    )  # fmt: skip
    busy(world, "p2").decide()
    assert used(world, "p2") == [80], "what p1 keeps is free"
    assert world.veto("p2").kind is Verdict.KEPT
    busy(world, "q").decide()
    assert used(world, "q") == [20], "within its guarantee it starts wherever there is room"


def test_a_lost_node_stops_borrowing_but_nobody_within_a_guarantee() -> None:
    world = World(group("a", 40).lends(0), group("b", 60), nodes=nodes(10, cpu=10), preemption="off")
    for name in ("n1", "n2", "n3"):
        world.lose_node(name)
    busy(world, "b").decide()
    assert used(world, "b") == [60], "its guarantee, although 40 + 60 do not exist any more"


# --- refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        pytest.param((group("a", 1).inside("b"),), "group a: Parent: there is no group 'b'", id="unknown"),
        pytest.param((group("a", 1).inside("a"),), "group a is in itself", id="in itself"),
        pytest.param(
            (group("a", 1).inside("b"), group("b", 1).inside("a")), "group a is in itself: a in b in a", id="a circle"
        ),
        pytest.param((group("a", 1).inside("default"),), "no group is in the default group", id="in default"),
        pytest.param(
            (group("a", 5), group("b", 3).inside("a"), group("c", 3).inside("a")),
            "the groups in a have quotas of 6 cores together, its own is 5 cores",
            id="more than the parent has",
        ),
        pytest.param((group("a", 5).most(4),), "4 cores is below the quota of 5 cores", id="a low MaxQuota"),
        pytest.param((group("a", 0),), "a quota of 0", id="a leaf without a quota"),
    ],
)
def test_wrong_trees_are_refused(groups: tuple[GroupBuilder, ...], told: str) -> None:
    world = World(group("before", 1), nodes=nodes(1, cpu=10))
    with pytest.raises(InputError, match=told):
        world.apply(*groups)
    assert sorted(world.core.groups.by_name) == ["before", "default"]


def test_a_group_with_groups_in_it_takes_no_jobs() -> None:
    world = World(*UNIVERSITY, nodes=nodes(1, cpu=100))
    with pytest.raises(InputError, match="takes no jobs") as caught:
        world.submit(job("j").group("physics"))
    assert caught.value.hint == "one of these: theory, lab"


def test_a_group_with_live_jobs_gets_groups_below_it_only_when_told_where_they_go() -> None:
    world = World(group("physics", 60), nodes=nodes(1, cpu=3))
    world.run(job("runs").cpu(2).group("physics"))
    world.submit(job("waits").cpu(2).group("physics"))
    with pytest.raises(InputError, match="would have groups below them: physics"):
        world.apply(*UNIVERSITY)
    world.apply(*UNIVERSITY, moves={"physics": "lab"})
    assert used(world, "lab", "physics") == [2, 2]
    world.apply(group("physics", 60), moves={"lab": "physics"})
    assert used(world, "physics") == [2]
    world.finish("runs")
    assert world.started() == ["runs", "waits"]


def test_a_group_that_changes_its_place_takes_its_use_along() -> None:
    world = World(*UNIVERSITY, nodes=nodes(1, cpu=100))
    world.run(job("t").tasks(3).group("theory"))
    world.apply(
        group("physics", 60),
        group("lab", 40).inside("physics"),
        group("biology", 40),
        group("theory", 20).inside("biology"),
    )
    assert used(world, "physics", "biology") == [0, 3]


@pytest.mark.parametrize(("cpu", "left"), [(4, None), (5, 4)])
def test_a_unit_above_all_quotas_on_its_way_up_may_fill_the_cluster_exactly(cpu: int, left: int | None) -> None:
    groups = group("above", 2), group("inner", 2).inside("above"), group("other", 4)
    world = World(*groups, nodes=nodes(1, cpu=8), preemption="off").run(job("theirs").group("other").tasks(4))
    world.submit(job("it").group("inner").cpu(cpu))
    found = Guarantees(world.core.groups, world.core.cluster).against(world.state("it"))
    assert (None if found is None else found.left) == (None if left is None else left * 1000)
