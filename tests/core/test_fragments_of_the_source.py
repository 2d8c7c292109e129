"""The four cases of source F, each as one story with numbers of its own (design note 0024)."""

from __future__ import annotations

from cress.model.decisions import Start
from cress.model.times import SECOND
from tests.core.builders import JobBuilder, World, group, job, node

GIB = 2**30


def of(name: str, label: str, cores: float, memory: float, *, limit: str = "9h", priority: int = 0) -> JobBuilder:
    """A job of the workload of a group, which has the same name."""
    made = job(label).cpu(cores).memory(f"{memory:g}G").group(name).workload(name)
    return made.limit(limit).priority(priority)


def cluster(*nodes: tuple[float, float]) -> World:
    """Nodes of so many cores and GiB."""
    built = [node(f"n{i + 1}").cpu(cores).memory(f"{memory:g}G") for i, (cores, memory) in enumerate(nodes)]
    groups = (group("a", 40, "Priority"), group("b", 40, "Priority"), group("c", 40))
    return World(*groups, nodes=built, node_order="first", lending="on", lease_idle=60 * SECOND)


def pools(world: World) -> dict[str, list[tuple[float, float]]]:
    """The idle parts of each workload: cores and GiB, by lease."""
    found: dict[str, list[tuple[float, float]]] = {}
    for lease in world.core.pool.leases.values():
        if amounts := lease.idle_amounts():
            found.setdefault(lease.workload.name, []).append((amounts[0] / 1000, amounts[1] / GIB))
    return found


def borrowed(world: World, name: str) -> list[float]:
    """The cores of each part that the running task of a job has borrowed."""
    (attempt,) = world.state(name).attempts.values()
    return sorted(part.amounts[0] / 1000 for part in attempt.parts if part.lease is not None)


def test_case_1_while_there_is_enough_every_workload_gets_leases_of_its_own() -> None:
    """Two nodes of 7 cores and 20 GiB; tasks of <3, 8G> of two workloads. Their proxies keep what they got."""
    world = cluster((7, 20), (7, 20))
    world.run(of("a", "first", 3, 8).tasks(2), of("b", "other", 3, 8))
    assert sorted(lease.workload.name for lease in world.core.pool.leases.values()) == ["a", "a", "b"]
    assert pools(world) == {}
    assert world.victims() == []
    world.finish("first")
    assert pools(world) == {"a": [(3, 8), (3, 8)]}
    # The next one of a starts in what a has; one of c in what nobody has, although a has as much idle.
    world.run(of("a", "second", 2, 5), of("c", "new", 3, 8, limit="1min"))
    assert sorted(pools(world)["a"]) == [(1, 3), (3, 8)]
    assert borrowed(world, "new") == []


def test_case_2_what_a_smaller_task_of_a_higher_priority_leaves_is_lent_to_another_workload_and_taken_back() -> None:
    """One node of 10 cores and 20 GiB, full of tasks of <5, 10G>; then one of <3, 7G> with a higher priority."""
    world = cluster((10, 20))
    world.run(of("a", "large", 5, 10).tasks(2))
    world.submit(of("a", "urgent", 3, 7, priority=5)).decide()
    assert world.victims() == ["large"]
    world.yield_victims()
    assert pools(world) == {"a": [(2, 3)]}
    world.run(of("b", "short", 2, 2, limit="1min"))
    assert borrowed(world, "short") == [2]
    assert pools(world) == {"a": [(0, 1)]}
    # A long task does not borrow, as it would be re-run.
    world.finish("short")
    world.submit(of("b", "long", 2, 2, limit="2h")).decide()
    assert not world.state("long").attempts
    world.cancel("long").run(of("b", "again", 1, 2, limit="1min")).wait(1)
    world.submit(of("a", "next", 2, 3, priority=6)).decide()
    assert world.victims() == ["large", "again"]
    world.yield_victims()
    assert "next" in world.started()
    assert pools(world) == {}


def test_case_3_fragments_of_two_workloads_on_one_node_are_joined_and_each_gets_back_its_own() -> None:
    """Nodes of 12 cores: a and b have 6 on the first, then a smaller task of a higher priority each."""
    world = cluster((12, 24), (12, 24))
    world.run(of("a", "a large", 6, 12).tasks(2), of("b", "b large", 6, 12).tasks(2))
    for name, cores in (("a", 4), ("b", 5)):
        world.submit(of(name, f"{name} urgent", cores, 10, priority=5).requires('Name = "n1"')).decide()
        world.yield_victims()
    assert pools(world) == {"a": [(2, 2)], "b": [(1, 2)]}
    world.run(of("c", "joined", 3, 4, limit="1min"))
    assert borrowed(world, "joined") == [1, 2]
    assert pools(world) == {}
    world.finish("joined")
    assert pools(world) == {"a": [(2, 2)], "b": [(1, 2)]}
    # On different nodes they are not joined.
    world.finish("b urgent", decide=False)
    world.submit(of("c", "larger", 9, 4, limit="1min")).decide()
    assert not world.state("larger").attempts


def test_case_4_what_nobody_has_comes_first_then_it_is_joined_and_the_rest_is_lent_again() -> None:
    """A node of 11 cores of which 2 were never given out, and fragments of 3 and 2 cores beside them."""
    world = cluster((11, 22))
    world.run(of("a", "a1", 5, 4), of("b", "b1", 4, 4))
    world.finish("a1", decide=False), world.finish("b1")
    world.run(of("a", "a2", 2, 2), of("b", "b2", 2, 2))
    assert pools(world) == {"a": [(3, 2)], "b": [(2, 2)]}
    world.run(of("c", "free", 1, 1, limit="1min"))
    assert borrowed(world, "free") == []
    world.run(of("c", "joined", 5, 5, limit="1min"))
    (start,) = [each for each in world.decisions if isinstance(each, Start) and each.job == world.ids["joined"]]
    assert sum(part.amounts[0] for part in start.parts) == 4000, "the core that nobody has is used as well"
    assert sum(cores for leases in pools(world).values() for cores, _ in leases) == 1
    world.run(of("c", "rest", 1, 1, limit="1min"))
    assert borrowed(world, "rest") == [1]
    for name in ("rest", "joined", "free"):
        world.finish(name)
    assert pools(world) == {"a": [(3, 2)], "b": [(2, 2)], "c": [(1, 1)]}
    assert world.core.cluster.free(0)[0] == 1000
