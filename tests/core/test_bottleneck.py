"""Applications with the same bottleneck are kept apart (source 002, contribution 2): balance does that by itself."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest

from tests.core.builders import JobBuilder, World, job, node

# What keeps a service busy is the processor of one, the disk of the other.
CPU = job("").cpu(4).needs(memory="1G", disk_read="10M")
DISK = job("").cpu(1).needs(memory="1G", disk_read="100M")
KINDS = {"cpu a": CPU, "cpu b": CPU, "disk a": DISK, "disk b": DISK}
ORDERS = sorted(set(permutations(KINDS)))
NODES = [node(name).cpu(8).offers(memory="16G", disk_read="200M", network="1G") for name in ("n1", "n2")]


def service(name: str, tasks: int = 1) -> JobBuilder:
    return KINDS[name].named(name).tasks(tasks)


def kinds_on(world: World) -> dict[str, Counter[str]]:
    """By node: how many tasks of each kind run there."""
    found: dict[str, Counter[str]] = {"n1": Counter(), "n2": Counter()}
    for start in world.starts:
        found[start.node][start.job.split()[0]] += 1
    return found


@pytest.mark.parametrize("one_by_one", [True, False], ids=["one after the other", "together"])
@pytest.mark.parametrize("order", ORDERS, ids=", ".join)
def test_two_of_each_kind_end_as_one_of_each_on_a_node(order: tuple[str, ...], one_by_one: bool) -> None:
    world = World(nodes=NODES)
    for name in order:
        world.submit(service(name))
        if one_by_one:
            world.decide()
    world.decide()
    assert kinds_on(world) == {"n1": Counter(cpu=1, disk=1), "n2": Counter(cpu=1, disk=1)}


@pytest.mark.parametrize("order", ORDERS, ids=", ".join)
def test_with_several_tasks_too(order: tuple[str, ...]) -> None:
    nodes = [each.cpu(32).offers(memory="64G", disk_read="800M") for each in NODES]
    world = World(nodes=nodes)
    for name in order:
        world.submit(service(name, 3)).decide()
    assert kinds_on(world) == {"n1": Counter(cpu=3, disk=3), "n2": Counter(cpu=3, disk=3)}


@pytest.mark.parametrize("node_order", ["first", "best_fit"])
def test_other_orders_of_nodes_do_not(node_order: str) -> None:
    """So it is balance that does it, and not the order in which they come."""
    world = World(nodes=NODES, node_order=node_order)
    for name in ("cpu a", "cpu b", "disk a", "disk b"):
        world.submit(service(name)).decide()
    assert kinds_on(world)["n1"]["cpu"] == 2
