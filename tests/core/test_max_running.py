"""Arrays of which only so many tasks run at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.placing.vetoes import Verdict
from cress.model.errors import InputError
from cress.model.events import Outcome
from tests.core.builders import World, group, job, node, nodes
from tests.examples import examples


def running(world: World, name: str = "array") -> int:
    return sum(start.job == world.ids[name] for start in world.running.values())


def test_no_more_run_at_once_than_may() -> None:
    world = World(nodes=nodes(2, cpu=8)).submit(job("array").tasks(10).at_once(3))
    world.decide()
    assert running(world) == 3
    assert world.veto("array").kind is Verdict.FULL
    assert world.why("array") == "limit reached: max_running = 3"
    for _ in range(7):
        world.finish("array", min(start.task for start in world.running.values()))
        assert running(world) == 3
    world.finish("array")
    assert running(world) == 0
    assert world.ids["array"] not in world.core.jobs
    assert sorted(start.task for start in world.starts) == list(range(10)), "each once, in order"


def test_others_behind_it_are_not_kept_waiting() -> None:
    world = World(nodes=nodes(1, cpu=4))
    world.submit(job("array").tasks(10).at_once(1), job("next")).decide()
    assert [start.job for start in world.starts] == ["array", "next"]


def test_a_task_that_is_tried_again_later_leaves_its_place() -> None:
    world = World(nodes=nodes(1, cpu=8)).submit(job("array").tasks(3).at_once(1))
    world.decide()
    world.finish("array", 0, outcome=Outcome.FAILED, again=True, after=60)
    assert [start.task for start in world.starts] == [0, 1]
    world.wait(61).decide()
    assert running(world) == 1, "its time has come, and another one runs"
    world.finish("array", 1)
    assert [start.task for start in world.starts] == [0, 1, 0]


def test_room_that_is_being_made_counts() -> None:
    world = World(group("a", 1), group("b", 3), nodes=nodes(1, cpu=4), max_per_round=1.0, grace=0)
    world.run(job("old").tasks(4).group("a"))
    world.submit(job("array").tasks(9).at_once(2).group("b")).decide()
    assert len(world.told) == 2
    world.yield_victims()
    assert running(world) == 2


def test_it_moves_with_the_job_that_it_depends_on() -> None:
    world = World(nodes=[node("n1").cpu(8), node("n2").cpu(8)], node_order="first")
    world.run(job("a"))
    world.submit(job("array").tasks(4).at_once(2).requires("JobDependency = a")).decide()
    assert running(world) == 2
    world.lose_node("n1").decide()
    assert [start.node for start in world.running.values()].count("n2") == 3


@pytest.mark.parametrize("policy", ["FIFO", "Capacity", "BackFill", "Priority"])
@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_under_every_policy(policy: str, backfill: str) -> None:
    each = group("g", 4, policy).with_options(backfill=backfill) if policy == "BackFill" else group("g", 4, policy)
    world = World(each, nodes=nodes(2, cpu=4))
    arrays = (job("array").tasks(6).at_once(2), job("other").tasks(6).at_once(1))
    world.submit(*(one.limit(60).group("g") for one in arrays)).decide()
    for _ in range(6):
        assert running(world) <= 2
        assert running(world, "other") <= 1
        for name in ("array", "other"):
            if running(world, name):
                world.wait(1).finish(name)
    assert len(world.starts) == 12


def test_a_gang_starts_all_its_tasks_at_once() -> None:
    with pytest.raises(InputError, match="a gang at once"):
        World(nodes=nodes(1, cpu=8)).submit(job("array").tasks(3).gang().at_once(2))


@examples(9)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=25), st.integers(1, 4))
def test_whatever_happens(steps: list[tuple[int, int]], most: int) -> None:
    """The invariants, which hold after each call, say that no more run at once."""
    world = World(group("a", 4), group("b", 4), nodes=nodes(2, cpu=4), grace=0)
    world.submit(job("array").tasks(12).at_once(most).group("a"), job("old").tasks(8).group("b")).decide()
    for kind, number in steps:
        world.wait(1)
        live = list(world.running.values())
        if kind == 0 and live:
            world.end([live[number % len(live)]], Outcome.SUCCEEDED).decide()
        elif kind == 1 and live:
            world.end([live[number % len(live)]], Outcome.FAILED, again=True, after=number * 1_000_000).decide()
        elif kind == 2 and world.told:
            world.yield_victims()
        elif kind == 3:
            name = f"n{number % 2 + 1}"
            world.lose_node(name).decide()
            world.add_node(node(name).cpu(4)).decide()
