"""Accounting in cores: what a task asks most of counts, so nobody fills the memory for a few cores (design note
0014).
"""

from __future__ import annotations

import pytest

from cress.core.charges import core_share
from tests.core.builders import World, group, job, node, nodes


@pytest.mark.parametrize(
    ("cpu", "memory", "cores"),
    [
        pytest.param(2, "4G", 2, id="2 of 4 cores and 4 of 16 G: its cores"),
        pytest.param(2, "8G", 2, id="half of both"),
        pytest.param(0.1, "8G", 2, id="half of the memory is half of the cores"),
        pytest.param(1, 0, 1, id="cores only"),
        pytest.param(0, 1, 0.001, id="a single byte counts: rounded up"),
    ],
)
def test_a_task_counts_as_its_cores_or_as_its_largest_share_of_the_nodes_cores(
    cpu: float, memory: str, cores: float
) -> None:
    world = World(group("web", 3), nodes=[node("n1").cpu(4).memory("16G")])
    world.run(job("task").cpu(cpu).memory(memory).group("web"))
    assert world.used("web") == cores
    world.finish("task")
    assert world.used("web") == 0


def test_it_is_the_share_of_the_node_that_it_runs_on_and_follows_that_nodes_capacity() -> None:
    world = World(
        group("web", 4), nodes=[node("n1").cpu(4).memory("8G"), node("n2").cpu(4).memory("64G")], node_order="first"
    )
    world.run(job("one").cpu(1).memory("4G").group("web"))
    assert world.used("web") == 2
    world.run(job("two").cpu(1).memory("8G").group("web"))
    assert world.used("web") == 3
    world.change_node(node("n1").cpu(4).memory("16G"))
    assert world.used("web") == 2


def test_nodes_without_memory_or_cores_divide_by_nothing() -> None:
    assert core_share((1000, 0), (4000, 0)) == 1000
    assert core_share((0, 5), (0, 10)) == 0


def test_whoever_fills_the_memory_with_few_cores_gives_it_back_to_a_group_below_its_quota() -> None:
    """The hog has 1.6 of its 20 cores and all memory; the other group has nothing of its 20 cores."""
    world = World(group("hog", 20), group("other", 20), nodes=nodes(2, cpu=20, memory="80G"), max_per_round=1.0)
    world.run(job("hog").cpu(0.1).memory("10G").tasks(16).group("hog"))
    assert world.used("hog") == 40
    world.wait(100).submit(job("other").cpu(1).memory("4G").tasks(40).group("other")).decide()
    assert world.victims()
    while world.told:
        world.yield_victims()
    assert world.used("other") >= 18, "nine tenths of its quota"
    assert world.used("hog") >= 20, "and the hog keeps its own"


def test_memory_is_shared_in_proportion_to_quotas() -> None:
    world = World(group("one", 10), group("three", 30), nodes=nodes(4, cpu=10, memory="40G"))
    world.submit(*(job(name).cpu(0.1).memory("4G").tasks(100).group(name) for name in ("one", "three"))).decide()
    assert (world.running_of("one"), world.running_of("three")) == (10, 30)


def test_a_users_limit_counts_what_is_short() -> None:
    web = group("web", 20, "Capacity").with_options(user_limit_factor="1")
    world = World(web, nodes=nodes(1, cpu=20, memory="40G"))
    world.submit(job("wide").cpu(0.1).memory("8G").tasks(9).group("web").user("ann"))
    world.submit(job("lean").cpu(4).tasks(9).group("web").user("bob")).decide()
    # A fifth of the memory counts as 4 cores, and each of them may use 10.
    assert world.jobs_running() == ["lean"] * 2 + ["wide"] * 2


def test_a_unit_counts_as_where_it_costs_least_when_its_quota_is_compared() -> None:
    """On the node with much memory it is 1 of 2 cores: within the quota, so room is kept for it."""
    world = World(
        group("web", 2), group("other", 40), drain_after=0,
        nodes=[node("lean").cpu(32).memory("32G"), node("rich").cpu(8).memory("256G")],
    )  # fmt: skip
    assert (
        world.core.cluster.least_charge(job("j").memory("32G").build(1, world.dimensions).request, core_share) == 1000
    )
    world.cordon("rich")
    assert (
        world.core.cluster.least_charge(job("j").memory("32G").build(1, world.dimensions).request, core_share) == 32000
    )
