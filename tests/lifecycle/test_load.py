"""The gate for loads: what the machine is told, and what becomes of it when nodes leave."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cress.lifecycle.inputs import NodeJoined, NodeLeft, Restarted
from cress.lifecycle.machine import Machine
from cress.lifecycle.nodes.load_reports import differs, is_news, sane
from cress.model.events import LoadSeen
from cress.model.node import Load
from cress.model.options import Options
from cress.model.times import MINUTE
from tests.lifecycle.builders import World, job, launched, node

GIB = 2**30
CALM = Load(free_memory=64 * GIB)


def with_load(load: Load, options: Options | None = None) -> World:
    """A machine with a node of which it knows this load."""
    world = World(options)
    world.join("n1", 32)
    world.step(LoadSeen(name="n1", load=load))
    return world


def news(world: World, load: Load) -> bool:
    return is_news(world.machine, "n1", load)


@pytest.mark.parametrize(
    ("known", "now", "told"),
    [
        # Over a border of a tenth, and 2.5 points beyond it.
        (0, 99, False),
        (0, 124, False),
        (0, 125, True),
        (110, 199, False),
        (110, 224, False),
        (110, 225, True),
        (110, 76, False),
        (110, 75, False),
        (110, 74, True),
        (0, 1000, True),
        (950, 1000, False),
        (1000, 875, False),
        (1000, 874, True),
        (850, 900, False),
    ],
)
def test_a_report_counts_when_a_share_is_in_another_tenth(known: int, now: int, told: bool) -> None:
    for place in ("memory", "network", "disk"):
        world = with_load(Load(**{place: known}, free_memory=64 * GIB))
        assert news(world, Load(**{place: now}, free_memory=64 * GIB)) is told, place
    assert differs(Load(cpu=known), Load(cpu=now)) is told


@pytest.mark.parametrize(
    ("story", "told"),
    [
        # The thresholds of overload, exactly: beyond 90 %, back at 80 %; nothing in between says anything new.
        ("850 900 901 900 890 905 880 876", "901"),
        ("850 901 899 824 801 800 805 850", "901 824 800"),
        ("780 824 799 901 800 899 901", "901 800 901"),
    ],
)
def test_a_report_counts_when_the_node_is_overloaded_by_it_or_no_more(story: str, told: str) -> None:
    first, *rest = [int(each) for each in story.split()]
    world = with_load(Load(cpu=first, free_memory=64 * GIB))
    heard = []
    for cpu in rest:
        load = Load(cpu=cpu, free_memory=64 * GIB)
        if news(world, load):
            heard.append(str(cpu))
            world.step(LoadSeen(name="n1", load=load))
    assert " ".join(heard) == told


def test_free_memory_counts_at_its_thresholds_only() -> None:
    world = World()
    world.join("n1", 32)
    world.step(LoadSeen(name="n1", load=CALM))
    heard = []
    for free in (2 * GIB, GIB, GIB - 1, GIB // 2, GIB, GIB + GIB // 4 - 1, GIB + GIB // 4, GIB, GIB - 1):
        load = Load(free_memory=free)
        if news(world, load):
            heard.append(free)
            world.step(LoadSeen(name="n1", load=load))
    assert heard == [GIB - 1, GIB + GIB // 4, GIB - 1]


def test_thresholds_that_are_switched_off_or_of_nodes_that_are_not_judged_say_nothing() -> None:
    world = with_load(Load(cpu=880, free_memory=64 * GIB), Options(overload_cpu=0.0, overload_memory=0))
    assert not news(world, Load(cpu=910, free_memory=0))
    assert news(world, Load(cpu=925, free_memory=0)), "a tenth does"
    world = World()
    world.step(NodeJoined(node=msgspec.structs.replace(node("n1"), judged=False), boot="b"))
    world.step(LoadSeen(name="n1", load=Load(cpu=880)))
    assert not news(world, Load(cpu=910))


def test_a_node_whose_tasks_end_is_judged_by_what_is_left_although_its_load_is_the_same() -> None:
    """Full of tasks that use what they were promised, it is not overloaded; with a stranger in their place it is."""
    world = World()
    world.join("n1")
    (number,) = world.submit(job(tasks=4))
    busy = Load(cpu=1000, free_memory=64 * GIB)
    world.step(LoadSeen(name="n1", load=busy))
    assert world.machine.core.cluster.overloaded == [None]
    assert not news(world, busy)
    world.finish(number)
    assert news(world, busy)
    world.step(LoadSeen(name="n1", load=busy))
    assert world.machine.core.cluster.overloaded == ["cpu 100%"]
    assert not news(world, busy)
    (late,) = world.submit(job())
    assert launched(world.last) == []
    assert world.machine.reason(late) == "every node is closed to new tasks; n1 is overloaded (cpu 100%)"
    world.step(LoadSeen(name="n1", load=CALM))
    assert launched(world.last) == [(late, 0, "n1")]


def test_a_node_that_leaves_takes_its_load_with_it() -> None:
    busy = Load(cpu=1000, free_memory=64 * GIB)
    for away in (NodeLeft(name="n1"), Restarted(epoch=2)):
        world = with_load(busy)
        world.step(away)
        assert world.machine.nodes["n1"].load is None
        assert world.machine.core.cluster.overloaded == ["cpu 100%"]
        assert not news(world, busy), "it is away"
        # One that was on its way.
        world.step(LoadSeen(name="n1", load=busy))
        assert world.machine.nodes["n1"].load is None
        world.step(NodeJoined(node=world.machine.nodes["n1"].node, boot="b"))
        (number,) = world.submit(job())
        assert launched(world.last) == [], "it may be as busy as it was"
        assert world.machine.reason(number) == "every node is closed to new tasks; n1 is overloaded (cpu 100%)"
        copy = Machine.restore(world.machine.export())
        assert copy.core.cluster.overloaded == ["cpu 100%"]
        assert copy.export() == world.machine.export()
        assert news(world, CALM), "the first report counts"
        world.step(LoadSeen(name="n1", load=CALM))
        assert launched(world.last) == [(number, 0, "n1")]


def test_an_overloaded_node_whose_executor_measures_nothing_any_more_takes_tasks_after_a_minute() -> None:
    world = with_load(Load(cpu=1000, free_memory=64 * GIB))
    world.step(Restarted(epoch=2))
    (number,) = world.submit(job())
    world.step(after=10 * MINUTE)
    world.step(NodeJoined(node=world.machine.nodes["n1"].node, boot="b"))
    world.step(after=MINUTE - 1)
    assert launched(world.last) == []
    world.step(after=1)
    assert launched(world.last) == [(number, 0, "n1")]


def test_of_a_node_that_nobody_knows_nothing_is_news() -> None:
    world = with_load(CALM)
    assert not is_news(world.machine, "n9", CALM)
    assert world.refuse(LoadSeen(name="n9", load=CALM)).startswith("there is no node 'n9'")


def test_the_load_survives_a_snapshot() -> None:
    world = with_load(Load(cpu=1000, free_memory=64 * GIB))
    copy = Machine.restore(world.machine.export())
    assert copy.nodes["n1"].load == Load(cpu=1000, free_memory=64 * GIB)
    assert copy.core.cluster.overloaded == ["cpu 100%"]
    assert copy.validate() == []
    assert copy.export() == world.machine.export()


shares = st.integers(0, 1000)
loads = st.builds(Load, shares, shares, shares, shares, st.integers(0, 4 * GIB))


@settings(max_examples=min(40, settings().max_examples))
@given(st.lists(loads, min_size=2, max_size=20))
def test_the_gate_hides_nothing_that_matters(story: list[Load]) -> None:
    """Behind the gate every share is within 12.5 points of what is known, and the same nodes are overloaded."""
    world, all_told = World(), World()
    for each in (world, all_told):
        each.join("n1", 32)
    for load in story:
        if is_news(world.machine, "n1", load):
            world.step(LoadSeen(name="n1", load=load))
        # What nothing is hidden from.
        all_told.step(LoadSeen(name="n1", load=load))
        known = world.machine.nodes["n1"].load
        assert known is not None
        for mine, theirs in zip(_shares(known), _shares(load), strict=True):
            assert abs(mine - theirs) < 125
        over = [each.machine.core.loads.over for each in (world, all_told)]
        assert over[0] == over[1]


def _shares(load: Load) -> tuple[int, ...]:
    return load.cpu, load.memory, load.network, load.disk


@given(st.builds(Load, *[st.integers(-(2**70), 2**70)] * 5))
def test_whatever_an_executor_says_is_within_bounds(load: Load) -> None:
    held = sane(load)
    assert all(0 <= each <= 1000 for each in _shares(held))
    assert 0 <= held.free_memory < 2**50
    assert sane(held) == held
