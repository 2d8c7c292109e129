"""Members of services and databases: placed apart, counted as one job."""

from __future__ import annotations

import pytest

from cress.model.job import JobType
from tests.core.builders import JobBuilder, World, group, job, node, nodes

WEB, DB = 1_000_001, 1_000_002


def web(number: int) -> JobBuilder:
    return job(f"web {number}").member_of(WEB)


def members(count: int) -> list[JobBuilder]:
    return [web(number) for number in range(count)]


def places(world: World, prefix: str = "web") -> list[str]:
    return [start.node for start in world.starts if start.job.startswith(prefix)]


def test_tasks_of_a_service_go_to_different_nodes_as_far_as_there_are() -> None:
    world = World(nodes=nodes(3, cpu=8), node_order="first")
    world.submit(*members(5)).decide()
    assert sorted(places(world)) == ["n1", "n1", "n2", "n2", "n3"]
    assert sorted(places(world)[:3]) == ["n1", "n2", "n3"]


def test_where_only_one_node_has_room_they_share_it() -> None:
    world = World(nodes=nodes(2, cpu=4), node_order="first")
    world.run(job("big").cpu(4))
    world.submit(*members(3)).decide()
    assert places(world) == ["n2", "n2", "n2"]


def test_a_node_whose_task_has_gone_is_as_good_as_before() -> None:
    world = World(nodes=nodes(2, cpu=8), node_order="first")
    world.run(web(0), web(1)).finish("web 0")
    world.run(web(2))
    assert places(world) == ["n1", "n2", "n1"]


def test_the_rank_decides_among_nodes_with_as_few() -> None:
    world = World(nodes=[node("n1").cpu(8), node("n2").cpu(8).where(fast=True), node("n3").cpu(8)], node_order="first")
    world.run(*(each.ranks("Fast = True") for each in members(4)))
    assert places(world) == ["n2", "n1", "n3", "n2"]


def test_services_of_others_do_not_count() -> None:
    world = World(nodes=nodes(2, cpu=8), node_order="first")
    world.run(web(0), job("other").member_of(DB, JobType.DATABASE))
    assert places(world, "other") == ["n1"]


@pytest.mark.parametrize("kind", [JobType.BATCH, JobType.CRON, JobType.DAG])
def test_runs_and_steps_are_jobs_of_their_own(kind: JobType) -> None:
    world = World(nodes=nodes(2, cpu=8), node_order="first")
    world.run(*(job(f"run {i}").member_of(WEB, kind).spread(per_node=1) for i in range(3)))
    assert places(world, "run") == ["n1", "n1", "n1"]


def test_max_per_node_counts_all_tasks_of_the_service() -> None:
    world = World(nodes=nodes(2, cpu=8))
    world.submit(*(each.spread(per_node=1) for each in members(3))).decide()
    assert sorted(places(world)) == ["n1", "n2"]
    assert world.why("web 2") == (
        "no node satisfies at most 1 of its tasks on one node (2 of 2 nodes do not); "
        "with max_per_node 2 one more would start"
    )
    world.finish("web 0")
    assert len(places(world)) == 3


def test_max_per_rack_counts_all_tasks_of_the_service() -> None:
    racks = [node(f"n{i}").cpu(8).rack(f"r{i // 2}") for i in range(4)]
    world = World(nodes=racks)
    world.submit(*(each.spread(per_rack=1) for each in members(3))).decide()
    assert len(places(world)) == 2
    world.finish("web 1")
    assert len(places(world)) == 3


def test_its_tasks_are_near_each_other_if_it_asks_so() -> None:
    racks = [node(f"n{i}").cpu(1).rack(f"r{i // 2}") for i in range(4)]
    world = World(nodes=racks, node_order="first")
    world.run(job("big"))
    world.submit(*(each.requires("NetworkAdjacent = True") for each in members(3))).decide()
    assert places(world) == ["n1"], "the racks are no neighbours, and its own is full"


def test_it_keeps_its_minimum_as_a_whole() -> None:
    world = World(group("a", 1), group("b", 3), nodes=nodes(1, cpu=4), max_per_round=1.0)
    world.run(*(web(i).member_of(WEB, minimum=3).group("a") for i in range(4)))
    world.submit(job("wants").tasks(3).group("b")).decide()
    assert len(world.victims()) == 1, "three of four must stay"


def test_a_restored_scheduler_spreads_alike() -> None:
    world = World(nodes=nodes(4, cpu=8), node_order="first")
    world.run(*members(2))
    twin = World(nodes=(), check=True)
    twin.core, twin.follower = world.core.clone(), world.core.clone()
    twin.ids, twin.names, twin.now, twin.running = dict(world.ids), dict(world.names), world.now, dict(world.running)
    for each in (world, twin):
        each.submit(web(2), web(3), web(4)).decide()
    assert places(twin) == places(world)[2:] == ["n3", "n4", "n1"]
