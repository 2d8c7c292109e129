"""Priorities of groups for preemption: who yields first, and what no priority changes."""

from __future__ import annotations

from tests.core.builders import World, group, job, node


def borrowers(low: int, high: int, *, quota: int = 1) -> World:
    """Two groups that have borrowed all of two nodes: ``far`` is the furthest above its quota."""
    world = World(
        group("own", 4),
        group("far", 1).preempt_priority(high),
        group("near", quota).preempt_priority(low),
        nodes=[node("n1").cpu(4), node("n2").cpu(4)],
        cooling=0,
    )
    world.run(job("far").group("far").cpu(1).tasks(5))
    world.run(job("near").group("near").cpu(1).tasks(3))
    return world


def victims(world: World) -> set[str]:
    """The jobs of the tasks that were told to stop."""
    return {world.names[start.job] for start in world.told.values()}


def test_of_equal_priorities_the_group_furthest_above_its_quota_yields() -> None:
    world = borrowers(0, 0)
    world.submit(job("back").group("own").cpu(1)).decide()
    assert victims(world) == {"far"}


def test_the_group_of_the_lowest_priority_yields_first() -> None:
    world = borrowers(-1, 0)
    world.submit(job("back").group("own").cpu(1)).decide()
    assert victims(world) == {"near"}


def test_others_yield_if_it_does_not_suffice() -> None:
    """All of ``near`` above its quota are two cores; a whole node needs tasks of both."""
    world = borrowers(-1, 0)
    world.submit(job("back").group("own").cpu(3)).decide()
    assert "far" in victims(world)
    assert len(world.told) == 3


def test_a_group_within_its_quota_never_yields() -> None:
    world = borrowers(-9, 0, quota=3)
    world.submit(job("back").group("own").cpu(1)).decide()
    assert victims(world) == {"far"}
