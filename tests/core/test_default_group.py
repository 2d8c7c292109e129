"""The implied default group: its users share it, whoever came first."""

from __future__ import annotations

from cress.model.group import DEFAULT_GROUP, SchedPolicy
from tests.core.builders import World, job, node


def test_many_tasks_of_one_user_do_not_hold_off_another_one() -> None:
    """Found from outside: the group was FIFO, so a second user waited for a million tasks of the first one."""
    world = World(nodes=[node("n1").cpu(4).memory("8G")])
    world.submit(job("flood").cpu(1).tasks(1_000).user("ann")).decide()
    world.submit(job("late").cpu(1).tasks(2).user("bob")).decide()
    for task in range(2):
        world.finish("flood", task)
    assert [start.job for start in world.starts[-2:]] == ["late", "late"]
    (default,) = world.core.groups
    assert (default.name, default.spec.policy) == (DEFAULT_GROUP, SchedPolicy.CAPACITY)
