"""Quotas per kind of node (design note 0034): who is below which, who yields, what bounds hold, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from cress.core.placing.vetoes import Verdict
from cress.model.errors import InputError
from tests.core.builders import GroupBuilder, JobBuilder, NodeBuilder, World, group, job, node

A100 = 'GPUModel = "A100"'
T4 = 'GPUModel = "T4"'


def gpus(name: str, model: str, count: int = 8) -> NodeBuilder:
    """A node with devices of one model, and cores for all of them."""
    return node(name).cpu(64).gpus(count, model=model)


def cluster(*groups: GroupBuilder, **options: Any) -> World:
    """A node with 8 A100 and one with 8 T4."""
    values = {
        "accounting": "dominant",
        "cooling": 0,
        "grace": 0,
        "max_per_round": 1,
        "preempt_below": 1,
        "preempt_above": 1,
    }
    return World(
        *groups, nodes=[gpus("a", "A100"), gpus("t", "T4")], dimensions=("gpu",), **{**values, **options}
    )  # fmt: skip


def wants(name: str, model: str = "", tasks: int = 1, *, gpu: float = 1) -> JobBuilder:
    """Tasks with a core and a device each, of one model or of any."""
    made = job(name).cpu(1).needs(gpu=gpu).tasks(tasks)
    return made.requires(f'GPUModel = "{model}"') if model else made


def held(world: World, name: str) -> dict[str, int]:
    """What a group uses per kind, in devices."""
    state = world.core.groups.any_of(name)
    return {
        kind: used // 1000 for kind, used in zip(world.core.groups.kinds.names, state.used[state.base :], strict=True)
    }


def victims(world: World) -> dict[str, int]:
    """The tasks that were told to stop, by job."""
    found: dict[str, int] = {}
    for start in world.told.values():
        found[world.names[start.job]] = found.get(world.names[start.job], 0) + 1
    return found


def taken_back(world: World) -> dict[str, int]:
    """The tasks that are stopped until no more are, by job."""
    found: dict[str, int] = {}
    while world.told:
        for name, count in victims(world).items():
            found[name] = found.get(name, 0) + count
        world.yield_victims()
    return found


# --- what is counted ---------------------------------------------------------------------------------------------


def test_a_task_is_charged_in_the_kind_of_its_node() -> None:
    world = cluster(group("g", "<40,gpu(A100)=4,gpu(T4)=8>"))
    world.run(wants("a", "A100", 3).group("g"), wants("t", "T4", 2).group("g"), job("c").cpu(2).group("g"))
    assert held(world, "g") == {"gpu(A100)": 3, "gpu(T4)": 2}
    assert world.core.groups.any_of("g").used[0] == 7_000
    world.finish("a", 0)
    assert held(world, "g") == {"gpu(A100)": 2, "gpu(T4)": 2}


def test_groups_that_name_no_kind_are_charged_all_the_same() -> None:
    world = cluster(group("g", "<gpu(A100)=4>"), group("plain", "<40>"), group("servers", 1))
    world.run(wants("p", "A100", 2).group("plain"), wants("s", "A100").group("servers"))
    assert held(world, "plain") == {"gpu(A100)": 2}
    assert held(world, "servers") == {"gpu(A100)": 1}


def test_the_label_says_the_kind_where_no_device_does() -> None:
    """Of cores and of devices without a model."""
    nodes = [
        node("n1").cpu(8).where(NodeType="fat"),
        node("n2").cpu(8),
        node("n3").cpu(8).gpus(2).where(NodeType="fat"),
    ]
    world = World(group("g", "<cpu(fat)=8,gpu(fat)=1>"), nodes=nodes, dimensions=("gpu",), accounting="dominant")
    world.run(wants("d").group("g"), job("c").cpu(1).tasks(23).group("g"))
    assert world.core.groups.any_of("g").used == [16_000, 1_000]
    world.finish("c")
    assert world.core.groups.any_of("g").used == [1_000, 1_000]


def test_a_node_that_becomes_another_kind_takes_its_tasks_along() -> None:
    world = World(group("g", "<cpu(fat)=8>"), nodes=[node("n").cpu(8).where(NodeType="fat")], accounting="dominant")
    world.run(job("c").cpu(3).group("g"))
    assert world.core.groups.any_of("g").used == [3_000]
    world.change_node(node("n").cpu(8).where(NodeType="thin"))
    assert world.core.groups.any_of("g").used == [0]
    world.change_node(node("n").cpu(8).where(NodeType="fat"))
    assert world.core.groups.any_of("g").used == [3_000]


# --- preemption --------------------------------------------------------------------------------------------------

BOTH = "<gpu(A100)=4,gpu(T4)=4>"


@pytest.mark.parametrize(
    ("quota", "has", "asks", "taken"),
    [
        pytest.param(BOTH, {"T4": 4}, "A100", {"other_a": 1}, id="all its T4s in use: it gets its A100s back"),
        pytest.param(BOTH, {"T4": 4}, "T4", {}, id="at its quota of T4s it takes no more of them"),
        pytest.param(BOTH, {"T4": 4}, "", {"other_a": 1}, id="any model will do: only A100s are taken"),
        pytest.param(BOTH, {"A100": 4}, "", {"other_t": 1}, id="the same the other way round"),
        pytest.param("<gpu(A100)=4>", {}, "T4", {}, id="without a quota of T4s it takes none"),
        pytest.param("<gpu(A100)=4>", {}, "", {"other_a": 1}, id="it takes the kind that it is guaranteed"),
        pytest.param("<1,gpu(A100)=4>", {"T4": 1}, "A100", {}, id="its cores are a bound as ever"),
    ],
)
def test_only_the_measures_in_which_it_is_charged_count(
    quota: str, has: dict[str, int], asks: str, taken: dict[str, int]
) -> None:
    world = cluster(group("own", quota), group("other", "<gpu(A100)=1,gpu(T4)=1>"))
    for model, count in has.items():
        world.run(wants(f"own_{model}", model, count).group("own"))
    world.run(
        wants("other_a", "A100", 8 - has.get("A100", 0)).group("other"),
        wants("other_t", "T4", 8 - has.get("T4", 0)).group("other"),
    )
    world.submit(wants("back", asks).group("own")).decide()
    assert victims(world) == taken


@pytest.mark.parametrize(
    ("quota", "a100", "t4", "taken"),
    [
        pytest.param("<gpu(A100)=8,gpu(T4)=1>", 8, 8, {}, id="above its quota of T4s it keeps its A100s"),
        pytest.param("<gpu(A100)=6,gpu(T4)=8>", 8, 8, {"a": 2}, id="down to its quota, no further"),
        pytest.param("<gpu(T4)=8>", 8, 8, {"a": 4}, id="who names other kinds holds A100s beyond its quota"),
        pytest.param("<64>", 8, 8, {"a": 4}, id="so does who names no kind"),
        pytest.param("2", 8, 8, {"a": 4}, id="and who has a number of servers"),
        pytest.param("<64,gpu=16,gpu(A100)=8>", 8, 8, {}, id="within its quota of A100s it yields nothing"),
        pytest.param("<2,gpu(A100)=8>", 8, 0, {}, id="also where its cores are beyond its quota"),
    ],
)
def test_who_yields_is_above_its_quota_of_that_kind(quota: str, a100: int, t4: int, taken: dict[str, int]) -> None:
    world = cluster(group("own", "<gpu(A100)=4>"), group("other", quota))
    world.run(wants("a", "A100", a100).group("other"))
    if t4:
        world.run(wants("t", "T4", t4).group("other"))
    world.submit(wants("back", "A100", 4).group("own")).decide()
    assert taken_back(world) == taken


def test_nobody_takes_the_guaranteed_devices_for_cores() -> None:
    """The cores are all in use; a group below its quota of cores takes them from tasks without devices, or with
    borrowed ones.
    """
    world = cluster(group("own", "<64>"), group("other", "<1,gpu(A100)=4>"))
    world.run(wants("a", "A100", 4).cpu(16).group("other"), job("c").cpu(32).tasks(2).group("other"))
    world.submit(job("back").cpu(16).group("own")).decide()
    assert victims(world) == {"c": 1}


def test_a_kind_that_neither_is_guaranteed_is_shared_as_the_rest() -> None:
    """Between groups with numbers nothing changes by a quota of a third one."""
    for t4, taken in ((0, {}), (1, {"a": 1})):
        world = cluster(group("third", "<gpu(A100)=1>"), group("own", 1), group("other", 1))
        world.run(wants("a", "A100", 8).group("other"))
        if t4:
            world.run(wants("t", "T4").group("other"))
        world.submit(wants("back", "A100").group("own")).decide()
        assert victims(world) == taken


def test_the_group_furthest_above_its_quota_of_the_kind_yields_first() -> None:
    world = cluster(
        group("own", "<gpu(A100)=3>"), group("far", "<gpu(A100)=1,gpu(T4)=8>"), group("t4", "<gpu(A100)=2,gpu(T4)=1>")
    )
    world.run(
        wants("far", "A100", 4).group("far"), wants("near", "A100", 4).group("t4"), wants("t", "T4", 8).group("t4")
    )
    world.submit(wants("back", "A100").group("own")).decide()
    assert victims(world) == {"far": 1}


def test_a_gang_gets_room_on_nodes_of_one_kind() -> None:
    world = cluster(group("own", BOTH), group("other", "<gpu(A100)=4,gpu(T4)=4>"))
    world.run(wants("a", "A100", 8).group("other"), wants("t", "T4", 8).group("other"))
    world.submit(wants("four", "", 4).gang().group("own")).decide()
    assert sum(victims(world).values()) == 4
    world = cluster(group("own", BOTH), group("other", "<gpu(A100)=1,gpu(T4)=1>"))
    world.run(wants("a", "A100", 8).group("other"), wants("t", "T4", 8).group("other"))
    world.submit(wants("five", "", 5).gang().group("own")).decide()
    assert victims(world) == {}, "five of a kind are beyond its quota"


# --- order and holding -------------------------------------------------------------------------------------------


def test_behind_a_blocked_unit_a_group_below_its_quota_of_the_kind_goes_on() -> None:
    """With quota_only: ``own`` has all its T4s, and is not below its quota as a whole."""
    for quota, starts in (("<gpu(A100)=4,gpu(T4)=4>", True), ("<gpu(A100)=1,gpu(T4)=4>", False)):
        world = cluster(
            group("first", "<gpu(A100)=8>"), group("own", quota), behind_blocked="quota_only", preemption="off"
        )
        world.run(wants("t", "T4", 4).group("own"), wants("a", "A100").group("own"))
        world.submit(wants("wide", "A100", gpu=8).group("first"), wants("back", "A100").group("own")).decide()
        assert ("back" in {each.job for each in world.starts}) is starts
        if not starts:
            assert world.veto("back").kind is Verdict.QUOTA


def test_a_group_below_its_quota_of_the_kind_goes_first() -> None:
    """``own`` has twice its T4s, ``other`` less than its cores; a free A100 is ``own``'s all the same."""
    world = cluster(group("own", "<64,gpu(A100)=4,gpu(T4)=2>"), group("other", "<64>"), preemption="off")
    world.run(wants("t", "T4", 4).group("own"), wants("a", "A100", 8).group("other"))
    world.submit(wants("more", "A100").group("other"), wants("back", "A100").group("own")).decide()
    world.finish("a", 0)
    assert world.starts[-1].job == "back"


# --- bounds ------------------------------------------------------------------------------------------------------


def test_max_quota_of_a_kind() -> None:
    world = cluster(group("g", "<gpu(A100)=2>").most("<gpu(A100)=3>"))
    world.submit(wants("a", "A100", 8).group("g"), wants("t", "T4", 8).group("g")).decide()
    assert held(world, "g") == {"gpu(A100)": 3}
    assert len(world.running) == 11, "other kinds are not bounded"
    assert world.veto("a").kind is Verdict.MAX_QUOTA
    assert world.why("a").startswith(
        "group g is at its MaxQuota of 3 gpu(A100): 3 gpu(A100) used, job 1 asks for 1 gpu(A100); "
    )


def test_a_unit_that_may_go_to_a_bounded_kind_counts_as_there() -> None:
    world = cluster(group("g", "<gpu(A100)=1>").most("<gpu(A100)=1>"))
    world.submit(wants("a", "A100").group("g"), wants("any").group("g")).decide()
    assert world.veto("any").kind is Verdict.MAX_QUOTA


def test_a_bound_of_a_kind_without_a_quota_of_it() -> None:
    world = cluster(group("g", "<64>").most("<64,gpu(A100)=2>"))
    world.submit(wants("a", "A100", 8).group("g")).decide()
    assert held(world, "g") == {"gpu(A100)": 2}


def test_what_is_not_lent_of_a_kind_stays_free_for_all_others() -> None:
    """6 of the 8 A100s are ``own``'s, of which it lends 1; nothing is kept of T4s."""
    world = cluster(group("own", "<gpu(A100)=6>").lends("<gpu(A100)=1>"), group("other", 1))
    world.submit(wants("a", "A100", 8).group("other"), wants("t", "T4", 8).group("other")).decide()
    assert held(world, "other") == {"gpu(A100)": 3}
    assert world.veto("a").kind is Verdict.KEPT
    assert "other groups do not lend what is free (Lendable): group own 5 gpu(A100); " in world.why("a")
    assert world.why("a").endswith("to start earlier, raise Lendable of group own by 1 gpu(A100)")
    world.run(wants("own", "A100", 5).group("own"))
    assert held(world, "own") == {"gpu(A100)": 5}


def test_a_kind_that_is_full_does_not_keep_a_job_for_any_model_from_others() -> None:
    """speech has no right to a T4 more, but to its A100s; whoever takes any model gets one of these."""
    world = cluster(
        group("vision", "<gpu(A100)=4>").lends("<gpu(A100)=2>"),
        group("speech", "<gpu(A100)=2,gpu(T4)=2>"),
        preemption="off",
    )
    world.run(wants("t", "T4", 8).group("speech"))
    world.submit(wants("any", tasks=3).group("speech")).decide()
    assert held(world, "speech") == {"gpu(A100)": 3, "gpu(T4)": 8}


def test_within_the_max_quota_of_a_kind_siblings_take_back_what_they_are_guaranteed() -> None:
    """The node has 12 A100s, of which ml may have 8; speech has taken 6 of them, and vision, which is guaranteed 4,
    2.
    """
    world = World(
        group("ml", "<gpu(A100)=6>").most("<gpu(A100)=8>"),
        group("vision", "<gpu(A100)=4>").inside("ml"),
        group("speech", "<gpu(A100)=2>").inside("ml"),
        nodes=[gpus("a", "A100", 12), gpus("t", "T4")], dimensions=("gpu",),
        accounting="dominant", cooling=0, grace=0, max_per_round=1, preempt_below=1, preempt_above=1,
    )  # fmt: skip
    world.run(wants("v", "A100", 2).group("vision"), wants("s", "A100", 6).group("speech"))
    world.submit(wants("more", "A100", 3).group("vision")).decide()
    assert taken_back(world) == {"s": 2}
    assert (held(world, "vision")["gpu(A100)"], held(world, "speech")["gpu(A100)"]) == (4, 4)
    assert world.why("more").startswith(
        "group ml is at its MaxQuota of 8 gpu(A100): 8 gpu(A100) used, job 3 asks for 1 gpu(A100); "
    )


# --- the tree ----------------------------------------------------------------------------------------------------

TREE = (
    group("physics", "<40,gpu(A100)=6>"),
    group("theory", "<20>").inside("physics"),
    group("lab", "<20,gpu(A100)=4>").inside("physics"),
    group("biology", "<24,gpu(A100)=2>"),
)


def test_a_department_takes_its_kind_back_for_any_of_its_teams() -> None:
    """``theory`` has no A100s of its own; physics has 6."""
    world = cluster(*TREE)
    world.run(wants("b", "A100", 8).group("biology"))
    world.submit(wants("t", "A100", 8).group("theory")).decide()
    assert taken_back(world) == {"b": 6}


def test_a_team_takes_its_kind_from_its_siblings_first_of_all_from_outsiders() -> None:
    world = cluster(*TREE)
    world.run(wants("t", "A100", 6).group("theory"), wants("b", "A100", 2).group("biology"))
    world.submit(wants("l", "A100", 8).group("lab")).decide()
    assert taken_back(world) == {"t": 4}
    assert held(world, "physics") == {"gpu(A100)": 6}


# --- timetables, restarts of the list -----------------------------------------------------------------------------


def test_a_window_changes_the_quota_of_a_kind() -> None:
    world = cluster(
        group("day", "<gpu(A100)=1>").windows("08:00-20:00 = <gpu(A100)=7>"), group("other", "<gpu(A100)=1>")
    )
    world.set_clock("2024-05-06T07:59+00:00")
    world.run(wants("d", "A100").group("day"), wants("a", "A100", 7).group("other"))
    world.submit(wants("back", "A100").group("day")).decide()
    assert victims(world) == {}
    world.wake()
    world.decide()
    assert victims(world) == {"a": 1}


def test_kinds_come_and_go_with_the_list_of_groups() -> None:
    world = cluster(group("g", "<64>"), group("h", 1))
    world.run(wants("a", "A100", 3).group("g"), wants("h", "A100", 2).group("h"))
    world.apply(group("g", "<64,gpu(A100)=4>"), group("h", 1))
    assert held(world, "g") == {"gpu(A100)": 3}
    assert held(world, "h") == {"gpu(A100)": 2}
    world.apply(group("g", "<64>"), group("h", 1))
    assert world.core.groups.any_of("g").used == [3_000]


def test_too_many_kinds_are_refused() -> None:
    kinds = ",".join(f"gpu(m{i})=1" for i in range(65))
    with pytest.raises(InputError, match="65 kinds of nodes"):
        cluster(group("g", f"<{kinds}>"))


# --- reasons -----------------------------------------------------------------------------------------------------


def test_reasons_name_the_kind() -> None:
    world = cluster(group("g", "<gpu(A100)=4>"), group("other", "<gpu(A100)=4>"))
    world.submit(wants("o", "A100", 4).group("other"), wants("a", "A100", 5).group("g")).decide()
    assert world.why("a").endswith("; group g has 4 of its 4 gpu(A100)")
    world.finish("a")
    world.submit(wants("any", "", 13).group("g")).decide()
    assert world.why("any").endswith("; group g has 4 of its 4 gpu(A100)")


def test_reasons_say_who_has_what_the_group_lacks() -> None:
    """Below its quota, and nobody may yield: preemption is off."""
    world = cluster(group("g", "<gpu(A100)=4>"), group("other", "<gpu(A100)=4>"), preemption="off")
    world.run(wants("o", "A100", 7).group("other"))
    world.submit(wants("a", "A100", 5).group("g")).decide()
    assert world.why("a").endswith("; group g has 1 of its 4 gpu(A100), group other 7 of its 4")
