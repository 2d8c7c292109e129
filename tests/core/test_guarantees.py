"""Guarantees: the demand of other groups up to their quotas, and the units that it leaves no room for (design note
0011).
"""

from __future__ import annotations

import pytest

from cress.core.groups.guarantees import ForbiddenBy, Guarantees
from tests.core.builders import GroupBuilder, World, group, job, node, nodes

CORE = 1000


def against(world: World, name: str) -> ForbiddenBy | None:
    """Return what forbids the next unit of a job."""
    return Guarantees(world.core.groups, world.core.cluster).against(world.state(name))


def pair(*, running: int, waiting: int, gang: int, above: GroupBuilder | None = None) -> World:
    """Ten cores; alpha, whose quota is 5 of them, has tasks that run and wait, beta with a quota of 5 has a gang."""
    inside = [group("alpha", 5), group("beta", 5)]
    if above is not None:
        inside = [above, *(each.inside(above.name) for each in inside)]
    world = World(*inside, nodes=nodes(1, cpu=10), preemption="off")
    if running:
        world.run(job("runs").group("alpha").tasks(running))
    if waiting:
        world.submit(job("waits").group("alpha").tasks(waiting))
    return world.submit(job("gang").group("beta").tasks(gang).gang())


TREE = pytest.mark.parametrize("above", [None, group("all", 10)], ids=["side by side", "in a tree"])


@TREE
@pytest.mark.parametrize(
    ("running", "waiting", "gang", "left"),
    [
        pytest.param(4, 0, 6, None, id="what is left suffices exactly"),
        pytest.param(4, 0, 7, 6, id="one core is missing"),
        pytest.param(0, 4, 7, 6, id="who waits demands as well"),
        pytest.param(2, 2, 7, 6, id="both together"),
        pytest.param(2, 9, 6, 5, id="up to the quota, no further"),
        pytest.param(9, 0, 6, 5, id="what is borrowed is no demand"),
        pytest.param(9, 9, 5, None, id="a unit as large as its quota is never forbidden"),
    ],
)
def test_the_demand_of_others_up_to_their_quota_leaves_the_rest(
    running: int, waiting: int, gang: int, left: int | None, above: GroupBuilder | None
) -> None:
    found = against(pair(running=running, waiting=waiting, gang=gang, above=above), "gang")
    assert found == (None if left is None else ForbiddenBy("beta", "", 5 * CORE, gang * CORE, left * CORE))


@TREE
def test_where_the_quotas_are_more_than_there_is_nothing_is_left(above: GroupBuilder | None) -> None:
    world = pair(running=5, waiting=0, gang=6, above=above)
    world.add_node(node("n2").cpu(1)).lose_node("n1").submit(job("more").group("alpha").tasks(5))
    found = against(world, "gang")
    assert found is not None
    assert found.left == 0


def test_room_that_is_being_made_for_another_group_is_its_demand() -> None:
    """Alpha uses nothing yet; it has a claim on five cores that beta borrows."""
    world = World(group("alpha", 5), group("beta", 5), nodes=nodes(1, cpu=10), cooling=0, cooling_above_quota=0)
    world.run(job("borrows").group("beta").tasks(10))
    world.submit(job("due").group("alpha").tasks(5).gang()).decide()
    assert world.victims() == ["borrows"] * 5
    world.submit(job("gang").group("beta").tasks(6).gang())
    found = against(world, "gang")
    assert found is not None
    assert found.left == 5 * CORE


def test_who_demands_its_quota_of_one_measure_still_demands_the_others() -> None:
    """Alpha uses all cores of its quota, and waits for devices."""
    world = World(
        group("alpha", "<4,gpu=4>"), group("beta", "<4,gpu=4>"), nodes=[node("n1").cpu(20).gpus(8)],
        dimensions=("gpu",), accounting="dominant", preemption="off",
    )  # fmt: skip
    world.run(job("cores").group("alpha").cpu(4))
    world.submit(job("devices").group("alpha").cpu(1).needs(gpu=1).tasks(4))
    world.submit(job("gang").group("beta").cpu(0.1).needs(gpu=1).tasks(6).gang())
    assert against(world, "gang") == ForbiddenBy("beta", "gpu", 4 * CORE, 6 * CORE, 4 * CORE)


@pytest.mark.parametrize(
    ("quota", "above"),
    [
        pytest.param("<64,gpu(A100)=3>", (), id="one other measure"),
        pytest.param("<64,gpu=9,gpu(A100)=3>", (), id="two other measures"),
        # In a tree all have the same ones.
        pytest.param("<64,gpu=9,gpu(A100)=3>", (group("all", 0),), id="in a tree"),
    ],
)
@pytest.mark.parametrize(("model", "left"), [("A100", 5), ("T4", None)])
def test_the_demand_of_a_kind_counts_whatever_else_a_group_is_measured_in(
    quota: str, model: str, left: int | None, above: tuple[GroupBuilder, ...]
) -> None:
    """The measures of kinds stand behind the others, of which groups have one or two."""
    own, other = group("own", "<64,gpu=16,gpu(A100)=4,gpu(T4)=4>"), group("other", quota)
    world = World(
        *above, *((own.inside("all"), other.inside("all")) if above else (own, other)),
        nodes=[node(each).cpu(64).gpus(8, model=each) for each in ("A100", "T4")],
        dimensions=("gpu",), accounting="dominant", preemption="off",
    )  # fmt: skip
    world.run(job("a").group("other").needs(gpu=1).tasks(3).requires('GPUModel = "A100"'))
    gang = job("gang").group("own").needs(gpu=1).tasks(6).gang().requires(f'GPUModel = "{model}"')
    found = against(world.submit(gang), "gang")
    expected = None if left is None else ForbiddenBy("own", f"gpu({model})", 4 * CORE, 6 * CORE, left * CORE)
    assert found == expected


@pytest.mark.parametrize(("workers", "forbidden"), [(4, False), (5, True)])
def test_a_gang_with_parts_asks_for_their_sum(workers: int, forbidden: bool) -> None:
    """Alpha demands all of its quota; a unit of beta that is exactly as large as beta's is within it."""
    world = World(group("alpha", 5), group("beta", 5), nodes=nodes(1, cpu=10), preemption="off")
    world.run(job("runs").group("alpha").tasks(5))
    world.submit(job("gang").group("beta").parts(job("driver"), job("workers").tasks(workers)))
    assert (against(world, "gang") is not None) == forbidden
