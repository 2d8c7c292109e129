"""Gangs with parts: kinds of tasks with their own requests, which start together or not at all (design note 0035)."""

from __future__ import annotations

from typing import Any

import pytest

from cress.core.widening import widened
from cress.model.resources import Dimensions
from tests.core.builders import JobBuilder, World, group, job, node, nodes


def train(driver: JobBuilder | None = None, workers: JobBuilder | None = None) -> JobBuilder:
    """One driver with much memory and some workers with a GPU each."""
    return job("train").parts(
        driver or job("driver").cpu(2).memory("48G"),
        workers or job("workers").cpu(2).memory("8G").needs(gpu=1).tasks(3),
    )


def cluster(**options: Any) -> World:
    return World(
        group("default", 100),
        nodes=[
            node("big").cpu(8).memory("64G"),
            node("g1").cpu(8).memory("32G").gpus(2),
            node("g2").cpu(8).memory("32G").gpus(2),
        ],
        dimensions=("gpu",),
        **options,
    )


def places(world: World, name: str) -> list[tuple[int, str]]:
    return [(start.task, start.node) for start in world.starts if start.job == name]


def test_all_parts_start_at_once_each_where_its_own_request_fits() -> None:
    world = cluster()
    world.submit(train()).decide()
    assert places(world, "train") == [(0, "big"), (1, "g1"), (2, "g1"), (3, "g2")]
    assert {start.at for start in world.starts} == {0}
    held = {world.core.attempts[each].task: world.core.attempts[each].amounts for each in world.running}
    assert held[0][:2] == (2000, 48 * 2**30)
    assert held[1][:2] == (2000, 8 * 2**30)


def test_while_one_part_has_no_room_none_starts() -> None:
    world = cluster()
    world.run(job("other").cpu(1).needs(gpu=2))
    world.submit(train()).decide()
    assert places(world, "train") == []
    world.finish("other")
    assert [task for task, _ in places(world, "train")] == [0, 1, 2, 3]


CASES = [
    # The driver fits everywhere, the workers on one node only: they get it.
    (
        [job("driver").cpu(4), job("workers").cpu(4).tasks(2)],
        "n1",
        [node("n1").cpu(8).where(Fast=True), node("n2").cpu(4)],
        [(0, "n2"), (1, "n1"), (2, "n1")],
    ),
    # Two requests share a node, to the last core.
    (
        [job("driver").cpu(3), job("workers").cpu(5)],
        "",
        [node("n1").cpu(8)],
        [(0, "n1"), (1, "n1")],
    ),
    # As many of one kind as fit beside the other.
    (
        [job("driver").cpu(6), job("workers").cpu(2).tasks(5)],
        "",
        [node("n1").cpu(8), node("n2").cpu(8)],
        None,
    ),
    (
        [job("driver").cpu(6), job("workers").cpu(2).tasks(6)],
        "",
        [node("n1").cpu(8), node("n2").cpu(8)],
        [],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "only", "there", "expected"), CASES)
def test_parts_share_what_is_there(parts: Any, only: Any, there: Any, expected: Any) -> None:
    world = World(group("default", 100), nodes=there)
    asked = [each.requires("Fast = True") if only and each.name == "workers" else each for each in parts]
    world.submit(job("train").parts(*asked)).decide()
    found = places(world, "train")
    if expected is None:
        assert len(found) == 6
    else:
        assert found == expected


def test_parts_that_ask_for_the_same_are_a_plain_gang() -> None:
    plain = World(group("default", 100), nodes=nodes(4, cpu=8, memory="16G"))
    parts = World(group("default", 100), nodes=nodes(4, cpu=8, memory="16G"))
    one = job("a").cpu(3).memory("2G")
    plain.submit(one.named("train").tasks(5).gang()).decide()
    parts.submit(job("train").parts(one.named("x").tasks(2), one.named("y").tasks(3))).decide()
    assert places(plain, "train") == places(parts, "train")


def test_quotas_count_all_parts() -> None:
    world = World(group("small", 4), group("large", 12), nodes=nodes(4, cpu=4))
    world.run(job("train").parts(job("driver").cpu(1), job("workers").cpu(4).tasks(3)).group("small"))
    assert world.core.groups.get("small").used == [13_000]
    assert world.core.groups.get("small").above_quota


def test_the_head_is_not_delayed_by_jobs_behind_it() -> None:
    world = World(group("default", 100, policy="BackFill"), nodes=nodes(2, cpu=4))
    world.run(job("first").cpu(4).limit(10))
    world.submit(job("train").parts(job("driver").cpu(2), job("workers").cpu(3).tasks(1)).limit(10)).decide()
    assert places(world, "train") == []
    # It would still run when the gang may start, on the node that the gang needs.
    world.submit(job("long").cpu(2).limit(20), job("short").cpu(2).limit(10)).decide()
    assert places(world, "long") == []
    assert places(world, "short") == [(0, "n2")]
    world.wait(10)
    world.finish("first").extend(world.finish("short"))
    assert [task for task, _ in places(world, "train")] == [0, 1]


def test_a_lost_task_restarts_the_whole_gang() -> None:
    world = cluster()
    world.submit(train()).decide()
    world.lose_node("g2").decide()
    assert sorted(start.task for start in world.told.values()) == [0, 1, 2]
    world.add_node(node("g2").cpu(8).memory("32G").gpus(2))
    for task in (0, 1, 2):
        world.finish("train", task, again=True)
    assert [task for task, _ in places(world, "train")] == [0, 1, 2, 3] * 2


def test_the_rest_of_a_gang_of_which_tasks_succeeded_starts_alone() -> None:
    world = cluster()
    world.submit(train()).decide()
    world.finish("train", 0)
    for task in (1, 2, 3):
        world.finish("train", task, again=True)
    assert [task for task, _ in places(world, "train")] == [0, 1, 2, 3, 1, 2, 3]


WAITING = [
    # What the first part with too few places lacks, and how many places each such part has.
    (
        [job("driver").cpu(1), job("workers").cpu(3).tasks(3)],
        [job("other").cpu(4)],
        (
            "not enough nodes have enough free for all tasks of the gang; of 3 nodes 1 lacks cpu; "
            "part workers: 2 of 3 places"
        ),
    ),
    (
        [job("driver").cpu(2).tasks(2), job("workers").cpu(3).tasks(2)],
        [job("a").cpu(3).tasks(2), job("b").cpu(2)],
        (
            "not enough nodes have enough free for all tasks of the gang; of 3 nodes 2 lack cpu; part driver: 1 of 2 "
            "places; part workers: 0 of 2 places"
        ),
    ),
    (
        [job("driver").cpu(3), job("workers").cpu(2).tasks(3)],
        [job("a").cpu(1).tasks(3).spread(per_node=1)],
        (
            "not enough nodes have enough free for all tasks of the gang; there is room for some of them only; "
            "each part has room by itself, but not all of them together"
        ),
    ),
    (
        [job("driver").cpu(2), job("workers").cpu(1).tasks(3).requires("Fast = True")],
        [job("a").cpu(2)],
        (
            "not enough nodes have enough free for all tasks of the gang; there is room for some of them only (of 3 "
            "nodes 2 do not satisfy Fast = True); part workers: 2 of 3 places"
        ),
    ),
    # Nodes are counted once, although one lacks cores and others do not satisfy the clause.
    (
        [job("driver").cpu(2), job("workers").cpu(2).tasks(2).requires("Fast = True")],
        [job("a").cpu(3)],
        (
            "not enough nodes have enough free for all tasks of the gang (of 3 nodes 2 do not satisfy Fast = True; "
            "1 lacks cpu); part workers: 0 of 2 places"
        ),
    ),
]


@pytest.mark.parametrize(("parts", "others", "sentence"), WAITING)
def test_the_reason_names_the_parts_without_room(parts: Any, others: Any, sentence: str) -> None:
    there = [node("n1").cpu(4).where(Fast=True), *(node(f"n{i}").cpu(4) for i in (2, 3))]
    world = World(group("default", 100), nodes=there, node_order="first")
    world.run(*others)
    world.submit(job("train").parts(*parts)).decide()
    assert world.why("train") == sentence


def test_a_part_that_can_never_run_is_named() -> None:
    world = cluster()
    world.submit(job("train").parts(job("driver").cpu(2), job("workers").cpu(9).tasks(2))).decide()
    assert world.why("train") == (
        "no node of this cluster is large enough for job 1, even when empty; this applies to part workers"
    )
    assert world.veto("train").never
    world.submit(job("wide").parts(job("driver").cpu(8).tasks(2), job("workers").cpu(7).tasks(2))).decide()
    assert world.why("wide") == "all nodes of this cluster together are too small for all tasks of the gang at once"


def test_a_group_below_its_quota_takes_room_for_all_parts_or_for_none() -> None:
    world = World(group("a", 8), group("b", 4), nodes=nodes(3, cpu=4))
    world.run(job("fill").cpu(1).tasks(12).group("b"))
    world.submit(job("train").parts(job("driver").cpu(3), job("workers").cpu(2).tasks(2)).group("a")).decide()
    # Seven cores: no victim more.
    assert len(world.told) == 7
    assert world.why("train") == "preempted tasks are making room for job 2 on n1, n2"
    restored = world.core.clone()
    assert restored.validate() == []
    world.yield_victims()
    assert places(world, "train") == [(0, "n1"), (1, "n2"), (2, "n2")]
    assert world.used("a") == 7
    assert world.used("b") == 5


def test_what_is_claimed_for_parts_is_kept_through_a_restore_and_dropped_when_it_is_lost() -> None:
    world = World(group("a", 8), group("b", 4), nodes=nodes(3, cpu=4))
    world.run(job("fill").cpu(1).tasks(12).group("b"))
    world.submit(job("train").parts(job("driver").cpu(3), job("workers").cpu(2).tasks(2)).group("a")).decide()
    world.core = world.core.clone()
    world.yield_victims()
    assert [task for task, _ in places(world, "train")] == [0, 1, 2]


def test_no_victims_where_they_would_not_do() -> None:
    world = World(group("a", 12), group("b", 8), nodes=[node("n1").cpu(4).where(Fast=True), *nodes(2, cpu=4)[1:]])
    world.run(job("keep").cpu(3).group("a").requires("Fast = True"))
    world.run(job("fill").cpu(1).tasks(5).group("b"))
    parts = job("driver").cpu(1), job("workers").cpu(2).tasks(1).requires("Fast = True")
    world.submit(job("train").parts(*parts).group("a")).decide()
    assert not world.told


def test_a_relaxed_requirement_of_one_part_lets_the_gang_start() -> None:
    there = [node("n1").cpu(4).where(Fast=True), node("n2").cpu(4)]
    world = World(group("default", 100), nodes=there)
    soft = "Fast = True && f(x) = (Waittime > 5min)"
    world.submit(job("train").parts(job("driver").cpu(1), job("workers").cpu(3).tasks(2).requires(soft))).decide()
    assert places(world, "train") == []
    world.wait(300, 1).decide()
    assert sorted(places(world, "train")) == [(0, "n1"), (1, "n1"), (2, "n2")]


def in_zones(*zones: str, cpu: int = 4, **options: Any) -> World:
    there = [node(f"{zone}{i}").cpu(cpu).where(Zone=zone) for i, zone in enumerate(zones)]
    return World(group("default", 100, "BackFill"), nodes=there, node_order="first", **options)


def within(clause: str = "within(Zone)", *, driver: int = 2, workers: int = 2, tasks: int = 3) -> JobBuilder:
    """A driver and workers that are to be within one domain together."""
    return job("train").parts(
        job("driver").cpu(driver).requires(clause), job("workers").cpu(workers).tasks(tasks).requires(clause)
    )


def test_all_parts_are_within_one_zone() -> None:
    world = in_zones("a", "b", "b", "c", "c", "c")
    world.submit(within()).decide()
    # The tightest zone that holds them; two nodes would do without the clause, too.
    assert [where[0] for _, where in places(world, "train")] == ["b"] * 4


def test_parts_wait_for_one_zone_and_say_so() -> None:
    world = in_zones("a", "a", "b", "b")
    world.run(job("x").cpu(2).requires('Zone = "a"'), job("y").cpu(2).requires('Zone = "b"'))
    world.submit(within()).decide()
    assert places(world, "train") == []
    assert world.why("train") == (
        "not enough nodes have enough free for all tasks of the gang; there is room for some of them only, "
        "with within(Zone); without within(Zone) it would start"
    )
    world.finish("y")
    assert [where[0] for _, where in places(world, "train")] == ["b"] * 4


def test_parts_that_no_zone_could_hold_never_run() -> None:
    world = in_zones("a", "b", "c")
    world.submit(within()).decide()
    assert world.veto("train").never
    assert world.why("train") == (
        "all nodes of this cluster together are too small for all tasks of the gang at once, with within(Zone)"
    )


def test_parts_may_leave_one_rack_after_a_while_and_not_their_zone() -> None:
    there = [node(f"{zone}{rack}").cpu(4).where(Zone=zone).rack(f"{zone}{rack}") for zone in "ab" for rack in "12"]
    world = World(group("default", 100), nodes=there, node_order="first")
    clause = "within(Rack) && f(x) = (Waittime >= 60s) && within(Zone)"
    world.submit(within(clause)).decide()
    assert places(world, "train") == []
    world.wait(60)
    world.decide()
    assert [where[0] for _, where in places(world, "train")] == ["a"] * 4


def test_victims_for_parts_are_within_one_zone() -> None:
    there = [node(f"{zone}{i}").cpu(4).where(Zone=zone) for zone in "ab" for i in "12"]
    world = World(group("a", 8), group("b", 8), nodes=there)
    world.run(
        job("x").cpu(4).tasks(2).group("b").requires('Zone = "a"'),
        job("y").cpu(1).tasks(8).group("b").requires('Zone = "b"'),
    )
    world.submit(within().group("a")).decide()
    world.yield_victims()
    assert len({where[0] for _, where in places(world, "train")}) == 1
    assert len(places(world, "train")) == 4


def test_a_place_for_parts_is_kept_within_one_zone() -> None:
    world = in_zones("a", "a", "b", "b")
    world.run(job("x").cpu(4).limit("1h").requires('Zone = "a"'), job("y").cpu(4).limit("2h").requires('Zone = "b"'))
    world.submit(within()).decide()
    world.submit(
        job("long").cpu(4).tasks(2).limit("10h"), job("short").cpu(4).limit("30min").requires('Zone = "a"')
    ).decide()
    # Zone a is free as a whole first, so what lasts longer goes to the other one.
    assert [where[0] for _, where in places(world, "long")] == ["b"]
    assert [where[0] for _, where in places(world, "short")] == ["a"]
    world.wait(3600)
    world.finish("x")
    world.finish("short")
    assert [where[0] for _, where in places(world, "train")] == ["a"] * 4


def test_a_rank_of_one_part_chooses_among_the_nodes_that_leave_room() -> None:
    there = [node(f"n{i}").cpu(4).where(Speed=i) for i in (1, 2, 3)]
    world = World(group("default", 100), nodes=there)
    world.submit(
        job("train").parts(job("driver").cpu(1).ranks("Speed"), job("workers").cpu(4).tasks(2).ranks("0 - Speed"))
    )
    world.decide()
    assert places(world, "train") == [(0, "n3"), (1, "n1"), (2, "n2")]


def test_at_most_so_many_tasks_on_one_node_counts_all_parts() -> None:
    world = World(group("default", 100), nodes=nodes(3, cpu=8))
    world.submit(job("train").parts(job("driver").cpu(1), job("workers").cpu(2).tasks(2)).spread(per_node=1)).decide()
    assert sorted(node for _, node in places(world, "train")) == ["n1", "n2", "n3"]
    world.submit(job("more").parts(job("driver").cpu(1), job("workers").cpu(2).tasks(3)).spread(per_node=1)).decide()
    assert places(world, "more") == []


def test_licences_are_taken_for_all_tasks_together() -> None:
    world = World(group("default", 100), nodes=nodes(2, cpu=8)).licences(matlab=3)
    world.run(job("other").cpu(1).licences(matlab=1))
    world.submit(job("train").parts(job("driver").cpu(1), job("workers").cpu(2).tasks(2)).licences(matlab=1)).decide()
    assert world.why("train") == "waiting for 3 of licence matlab: 1 of 3 in use"
    world.finish("other")
    assert len(places(world, "train")) == 3


def test_parts_of_devices_find_their_place_beside_each_other() -> None:
    world = World(group("default", 100), nodes=[node("n1").cpu(8).gpus(2)], dimensions=("gpu",))
    half, whole = job("driver").cpu(1).needs(gpu=0.5), job("workers").cpu(2).needs(gpu=1)
    world.submit(job("train").parts(half, whole)).decide()
    assert len(places(world, "train")) == 2
    world.finish("train")
    # By amounts three halves and one half would fit; but a whole one needs a device of its own.
    world.submit(job("more").parts(half.tasks(2), whole, job("third").cpu(3).needs(gpu=0.5))).decide()
    assert places(world, "more") == []


def test_a_gang_that_no_known_end_frees_has_nodes_drained_for_it() -> None:
    world = World(group("default", 100, policy="BackFill"), nodes=nodes(2, cpu=4), drain_after=60_000_000)
    world.run(job("endless").cpu(2).tasks(2).spread(per_node=1))
    world.submit(job("train").parts(job("driver").cpu(1), job("workers").cpu(2).tasks(3))).decide()
    world.submit(job("before").cpu(1)).decide()
    assert "before" in world.started()
    world.wait(61).decide()
    world.submit(job("small").cpu(1)).decide()
    assert world.why("train") == "no running task is due to end in time; n2, n1 are being kept free for job 2"
    assert world.why("small") == "job 4 fits, but would delay job 2 of group default"
    world.finish("endless").extend(world.finish("before"))
    assert [task for task, _ in places(world, "train")] == [0, 1, 2, 3]


def test_conservative_backfill_plans_a_gang_with_parts() -> None:
    world = World(group("default", 100, policy="BackFill").with_options(backfill="conservative"), nodes=nodes(2, cpu=4))
    world.run(job("first").cpu(4).limit(10))
    world.submit(job("train").parts(job("driver").cpu(2), job("workers").cpu(3)).limit(10)).decide()
    assert world.veto("train").until == 10_000_000
    world.submit(job("long").cpu(2).limit(20), job("short").cpu(2).limit(10)).decide()
    assert world.started() == ["first", "short"]
    world.wait(10)
    world.finish("first").extend(world.finish("short"))
    assert [task for task, _ in places(world, "train")] == [0, 1]


def test_planned_gangs_with_parts_start_at_one_moment() -> None:
    world = World(group("default", 100, policy="BackFill").with_options(backfill="conservative"), nodes=nodes(2, cpu=4))
    gang = job("one").parts(job("driver").cpu(1), job("workers").cpu(3)).limit(10)
    world.submit(gang, gang.named("two")).decide()
    assert sorted(world.started()) == ["one", "one", "two", "two"]


def test_a_cancelled_gang_frees_all_parts() -> None:
    world = cluster()
    world.run(train())
    world.cancel("train").decide()
    assert len(world.told) == 4
    world.yield_victims()
    assert world.core.groups.get("default").used == [0]


def test_parts_wait_on_when_a_dimension_is_declared() -> None:
    world = World(group("default", 100), nodes=nodes(2, cpu=4))
    world.run(job("fill").cpu(3).tasks(2))
    world.submit(job("train").parts(job("driver").cpu(2), job("workers").cpu(1).tasks(2))).decide()
    wider = widened(world.core, Dimensions(("gpu",)))
    assert wider.validate() == []
    assert {len(part.request) for part in wider.jobs[world.ids["train"]].job.parts} == {len(world.dimensions) + 1}
