"""Overloaded nodes: which are, what becomes of what waits for them, what people are told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.placing.vetoes import Verdict
from cress.core.scheduler import Scheduler
from cress.core.tables.measured_load import NOT, Over, Promised, judged
from cress.model.node import Load
from cress.model.options import Options
from tests.core.builders import World, group, job, node, nodes
from tests.core.stories import sent_away

GIB = 2**30
FREE = Promised(0, 64 * GIB)


# --- the rule --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "busy"),
    [
        (Load(cpu=900, free_memory=GIB), NOT),
        (Load(cpu=901, free_memory=GIB), Over(cpu=True)),
        (Load(cpu=0, free_memory=GIB - 1), Over(memory=True)),
        (Load(cpu=1000, free_memory=0), Over(cpu=True, memory=True)),
        (Load(memory=1000, network=1000, disk=1000, free_memory=GIB), NOT),
    ],
)
def test_the_thresholds(load: Load, busy: Over) -> None:
    assert judged(load, FREE, NOT, Options()) == busy


@pytest.mark.parametrize(
    ("load", "still"),
    [
        (Load(cpu=801, free_memory=2 * GIB), Over(cpu=True)),
        (Load(cpu=800, free_memory=2 * GIB), NOT),
        (Load(cpu=0, free_memory=GIB + GIB // 4 - 1), Over(memory=True)),
        (Load(cpu=0, free_memory=GIB + GIB // 4), NOT),
    ],
)
def test_it_comes_back_ten_points_below_and_a_quarter_above(load: Load, still: Over) -> None:
    before = Over(cpu=True, memory=True)
    assert judged(load, FREE, before, Options()) == still


def test_zero_switches_either_off() -> None:
    load = Load(cpu=1000, free_memory=0)
    assert judged(load, FREE, NOT, Options(overload_cpu=0.0)) == Over(memory=True)
    assert judged(load, FREE, NOT, Options(overload_memory=0)) == Over(cpu=True)
    assert judged(load, FREE, Over(True, True), Options(overload_cpu=0.0, overload_memory=0)) == NOT


@pytest.mark.parametrize(
    ("promised", "load", "before", "busy"),
    [
        # All of it promised and used: full. Nine tenths promised: what is beyond is no more than inaccuracy.
        (Promised(1000, 64 * GIB), Load(cpu=1000, free_memory=9 * GIB), NOT, NOT),
        (Promised(900, 64 * GIB), Load(cpu=1000, free_memory=9 * GIB), NOT, NOT),
        (Promised(890, 64 * GIB), Load(cpu=1000, free_memory=9 * GIB), NOT, Over(cpu=True)),
        (Promised(890, 64 * GIB), Load(cpu=891, free_memory=9 * GIB), Over(cpu=True), Over(cpu=True)),
        (Promised(890, 64 * GIB), Load(cpu=890, free_memory=9 * GIB), Over(cpu=True), NOT),
        # Half a GiB is left by the promises: that no more is free is no wonder.
        (Promised(0, GIB // 2), Load(free_memory=GIB // 4), NOT, NOT),
        (Promised(0, GIB // 2), Load(free_memory=GIB // 4 - 1), NOT, Over(memory=True)),
        (Promised(0, GIB // 2), Load(free_memory=GIB // 2 - 1), Over(memory=True), Over(memory=True)),
        (Promised(0, GIB // 2), Load(free_memory=GIB // 2), Over(memory=True), NOT),
        (Promised(0, -GIB), Load(free_memory=0), NOT, NOT),
    ],
)
def test_a_node_whose_tasks_were_promised_that_is_full_and_not_overloaded(
    promised: Promised, load: Load, before: Over, busy: Over
) -> None:
    assert judged(load, promised, before, Options()) == busy


loads = st.builds(Load, st.integers(0, 1000), free_memory=st.integers(0, 4 * GIB))
promises = st.builds(Promised, st.integers(0, 1500), st.integers(-GIB, 4 * GIB))
options = st.builds(
    Options,
    overload_cpu=st.sampled_from((0.0, 0.05, 0.5, 0.9, 1.0)),
    overload_memory=st.sampled_from((0, 1, 2**20, GIB, 3 * GIB)),
)


@given(loads, promises, options)
def test_what_is_said_twice_changes_nothing(load: Load, promised: Promised, some: Options) -> None:
    """A node at one load does not go to and fro, whatever was before."""
    for before in (NOT, Over(cpu=True), Over(memory=True), Over(True, True)):
        once = judged(load, promised, before, some)
        assert judged(load, promised, once, some) == once
        # Nobody comes back at a load at which he would have to go.
        fresh = judged(load, promised, NOT, some)
        assert all(
            then or not now for now, then in zip(fresh, judged(load, promised, Over(True, True), some), strict=True)
        )


# --- in the scheduler ------------------------------------------------------------------------------------------------


def test_an_overloaded_node_takes_no_new_tasks_until_it_is_not_any_more() -> None:
    world = World(nodes=nodes(2, cpu=4))
    world.run(job("early").cpu(1).requires("Nodes in (n1)"))
    world.load("n1", cpu=95)
    world.run(*(job(f"j{i}").cpu(1) for i in range(4)))
    assert {world.nodes_of(f"j{i}")[0] for i in range(4)} == {"n2"}
    world.submit(job("more").cpu(1)).decide()
    assert world.why("more") == ("no node has enough free; of 1 node 1 lacks cpu; n1 is overloaded (cpu 95%)")
    world.load("n1", cpu=85).decide()
    assert world.nodes_of("more") == []
    world.load("n1", cpu=80).decide()
    assert world.nodes_of("more") == ["n1"]
    assert world.nodes_of("early") == ["n1"], "what ran there went on"


def test_who_must_run_there_is_told_why_it_waits() -> None:
    world = World(group("g"), group("h"), nodes=[node(f"n{i}").cpu(4).memory("8G") for i in range(1, 7)])
    world.load("n1", cpu=97, free="312M").load("n2", cpu=92)
    world.submit(job("one").requires("Nodes in (n1)"), job("both").requires("Nodes in (n1, n2)").group("g")).decide()
    assert world.veto("one").kind is Verdict.NO_NODE
    assert not world.veto("one").never
    assert world.why("one").endswith("; n1 is overloaded (cpu 97%, 312M of memory free)")
    assert world.why("both").endswith("; 2 nodes are overloaded: n1 (cpu 97%, 312M of memory free), n2 (cpu 92%)")
    for i in range(3, 7):
        world.load(f"n{i}", cpu=99)
    world.submit(job("any").group("h")).decide()
    assert world.why("any") == (
        "every node is closed to new tasks; "
        "6 nodes are overloaded: n1 (cpu 97%, 312M of memory free), n2 (cpu 92%), n3 (cpu 99%), …"
    )
    world.load("n1").load("n2").decide()
    assert world.nodes_of("one") == ["n1"]


def test_a_job_that_is_too_large_is_not_told_of_busy_nodes() -> None:
    world = World(nodes=[node("n1").cpu(4), node("n2").cpu(8)])
    world.run(job("there").cpu(6).requires("Nodes in (n2)"))
    world.load("n1", cpu=99)
    world.submit(job("large").cpu(6)).decide()
    assert "overloaded" not in world.why("large")


def test_a_node_that_is_not_judged_takes_tasks_at_any_load() -> None:
    world = World(nodes=[node("n1").cpu(4).not_judged()])
    world.load("n1", cpu=100, free="0").run(job("a"))
    world.change_node(node("n1").cpu(4))
    world.submit(job("b")).decide()
    assert world.why("b").endswith("n1 is overloaded (cpu 100%)"), "judged as soon as it may be"


def test_it_is_nothing_that_lasts() -> None:
    world = World(nodes=[node("n1").cpu(4)]).load("n1", cpu=100)
    world.submit(job("a")).decide()
    assert not world.core.never_fits(world.state("a").job)
    world.load("n1", cpu=None).decide()
    assert world.nodes_of("a") == ["n1"], "nobody measures it any more"


def test_the_load_goes_with_the_node() -> None:
    world = World(nodes=[node("n1").cpu(4)]).load("n1", cpu=100)
    world.lose_node("n1").add_node(node("n1").cpu(4)).run(job("a"))
    assert world.nodes_of("a") == ["n1"]
    world.lose_node("n1").load("n1", cpu=100).add_node(node("n1").cpu(4)).decide()
    assert world.nodes_of("a") == ["n1"], "what is said of a node that is away means nothing"


def test_a_node_that_its_tasks_keep_busy_is_full_and_can_be_preempted_on() -> None:
    world = World(group("small", 2), group("large", 1), nodes=[node("n1").cpu(4)], cooling=0, grace=0)
    world.run(job("burn").cpu(1).tasks(4).group("large"))
    world.load("n1", cpu=100)
    assert world.core.cluster.overloaded == [None]
    world.submit(job("needs").cpu(1).group("small")).decide()
    assert world.victims() == ["burn"]
    world.yield_victims()
    assert world.nodes_of("needs") == ["n1"]


def test_more_than_tasks_were_promised_is_too_much() -> None:
    world = World(nodes=[node("n1").cpu(4)])
    world.run(job("greedy").cpu(1)).load("n1", cpu=100)
    world.submit(job("next")).decide()
    assert world.why("next").endswith("n1 is overloaded (cpu 100%)")


def test_a_node_that_offers_a_part_of_its_machine_is_judged_by_the_whole() -> None:
    there = node("n1").cpu(2).memory("2G").where(CPUs=8, MemoryTotal=16 * GIB)
    world = World(nodes=[there]).run(job("all").cpu(2).memory("2G"))
    world.load("n1", cpu=100, free="100M")
    assert world.core.cluster.overloaded == ["cpu 100%, 100M of memory free"], "2 of 8 processors explain a quarter"


def test_what_victims_make_room_for_does_not_wait_for_an_overloaded_node() -> None:
    """As with a cordon: the claim is void, and its task starts where there is room first."""
    world = World(group("small", 3), group("large", 1), nodes=[node("n1").cpu(4)], cooling=0)
    world.run(job("burn").cpu(1).tasks(4).group("large"))
    world.submit(job("needs").cpu(2).group("small")).decide()
    assert len(world.core.claims) == 1
    told = {start.task for start in world.told.values()}
    stays = next(task for task in range(4) if task not in told)
    world.finish("burn", stays, decide=False)
    assert len(world.core.claims) == 1
    world.load("n1", cpu=100)
    assert not world.core.claims
    world.yield_victims()
    assert world.why("needs") == "every node is closed to new tasks; n1 is overloaded (cpu 100%)"
    world.load("n1", cpu=70).decide()
    assert world.nodes_of("needs") == ["n1"]


def test_no_reservation_stands_on_an_overloaded_node() -> None:
    world = World(group("g", 4, "BackFill"), nodes=nodes(2, cpu=2))
    world.run(job("long").cpu(1).tasks(2).limit("1h").group("g"), job("short").cpu(1).limit("10m").group("g"))
    world.submit(job("wide").cpu(2).limit("1h").group("g")).decide()
    world.load("n1", cpu=100).decide()
    reserved = world.core.books.reservations.of(world.state("wide"))
    assert reserved is None or all(world.core.cluster.names[f] != "n1" for f, _ in reserved.nodes)


# --- leaving and coming back -----------------------------------------------------------------------------------------


def test_restored_it_knows_what_was_overloaded() -> None:
    world = World(nodes=nodes(2, cpu=4)).load("n1", cpu=95).load("n1", cpu=85).load("n2", cpu=85)
    twin = sent_away(world.core)
    assert twin.cluster.overloaded == world.core.cluster.overloaded == ["cpu 85%", None]
    assert twin.export() == world.core.export()


def test_with_other_options_it_is_judged_again() -> None:
    world = World(nodes=nodes(2, cpu=4, memory="4T")).load("n1", cpu=95).load("n1", cpu=85).load("n2", cpu=85)
    for change, overloaded in (
        ({"overload_cpu": 0.8}, ["cpu 85%", "cpu 85%"]),
        ({"overload_cpu": 0.95}, [None, None]),
        ({"overload_cpu": 0.0}, [None, None]),
        ({"overload_memory": 2**41}, ["1T of memory free", "1T of memory free"]),
    ):
        state = world.core.export()
        state.options = replace(replace(world.options, overload_cpu=0.99), **change)
        restored = Scheduler.restore(state)
        assert restored.cluster.overloaded == overloaded, change
        assert restored.validate() == []


# --- names in constraints --------------------------------------------------------------------------------------------


def test_constraints_and_ranks_ask_for_the_load() -> None:
    world = World(nodes=nodes(3, cpu=4), overload_cpu=0.0)
    world.load("n1", cpu=50).load("n2", cpu=20, disk=90)
    world.submit(job("calm").requires("CPULoad < 30%")).decide()
    assert world.nodes_of("calm") == ["n2"]
    world.submit(job("disk").requires("DiskLoad < 0.5 && FreeMemory > 1G")).decide()
    assert world.nodes_of("disk") == ["n1"]
    world.submit(job("unknown").requires("! defined(CPULoad)").ranks("-CPULoad")).decide()
    assert world.nodes_of("unknown") == ["n3"]
    world.submit(job("waits").requires("CPULoad < 10%")).decide()
    assert world.veto("waits").kind is Verdict.UNSATISFIED, "it changes, so it is not never"
    world.load("n3", cpu=5).decide()
    assert world.nodes_of("waits") == ["n3"]
    world.submit(job("best").ranks("0 - CPULoad")).decide()
    assert world.nodes_of("best") == ["n3"]
    world.load("n3", cpu=70).submit(job("then").ranks("0 - CPULoad")).decide()
    assert world.nodes_of("then") == ["n2"]


def test_that_nobody_measures_is_said() -> None:
    world = World(nodes=nodes(1, cpu=4)).submit(job("a").requires("NetworkLoad < 50%"))
    world.decide()
    assert world.why("a") == (
        "no node satisfies NetworkLoad < 50% (1 of 1 node does not); NetworkLoad is not measured on any node"
    )
