"""Who waits for another job, a port or a label keeps nobody behind it waiting; who waits for room does."""

from __future__ import annotations

import pytest

from cress.core.placing.vetoes import Verdict
from tests.core.builders import JobBuilder, World, group, job, node

POLICIES = ("FIFO", "Priority", "Capacity", "BackFill", "conservative")


def plain(name: str, cores: float = 1) -> JobBuilder:
    return job(name).group("g").cpu(cores)


# What is first in the queue of a cluster of two nodes of 4 cores on which ``old`` has port 80 of n1 and all of n2.
WAITS_FOR_SOMETHING_ELSE = {
    "a job that comes behind it": plain("head").requires("JobDependency = later"),
    "a job that nobody submitted": plain("head").requires("JobDependency = ghost"),
    "a port that is taken": plain("head").ports(http=80).requires("Nodes in (n1)"),
    "a label that no node has": plain("head").requires('Zone = "eu"'),
    "a gang with a port, of more tasks than nodes": plain("head").tasks(3).gang().ports(http=81),
}
WAITS_FOR_ROOM = {
    "more than is free": plain("head", 4),
    "more than is free where its clause holds": plain("head").requires("Nodes in (n2)"),
}


def cluster(policy: str) -> World:
    everybody = group("g", 99, "BackFill" if policy == "conservative" else policy)
    if policy == "conservative":
        everybody = everybody.with_options(backfill=policy)
    made = World(everybody, nodes=[node("n1").cpu(4), node("n2").cpu(4)])
    return made.run(
        plain("old").ports(http=80).requires("Nodes in (n1)"), plain("full", 4).requires("Nodes in (n2)").limit(3600)
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("head", WAITS_FOR_SOMETHING_ELSE.values(), ids=WAITS_FOR_SOMETHING_ELSE)
def test_who_comes_behind_goes_on(head: JobBuilder, policy: str) -> None:
    made = cluster(policy)
    made.submit(head).submit(plain("later")).decide()
    assert made.nodes_of("later") == ["n1"]
    veto = made.core.veto(made.ids["head"])
    if veto is not None:
        assert veto.kind is not Verdict.BEHIND
    assert made.core.validate() == []


@pytest.mark.parametrize("policy", ["FIFO", "Priority"])
@pytest.mark.parametrize("head", WAITS_FOR_ROOM.values(), ids=WAITS_FOR_ROOM)
def test_who_waits_for_room_keeps_its_place(head: JobBuilder, policy: str) -> None:
    made = cluster(policy)
    made.submit(head).submit(plain("later")).decide()
    assert made.nodes_of("later") == []
    veto = made.core.veto(made.ids["later"])
    assert veto is not None
    assert (veto.kind, veto.behind) == (Verdict.BEHIND, made.ids["head"])


def test_a_gang_that_no_racks_near_each_other_hold_never_fits() -> None:
    made = World(group("g", 99), nodes=[node(f"n{i}").cpu(4).rack(f"r{i // 2}") for i in range(6)])
    made.neighbours("r0 r1", "r1 r2")
    gang = plain("wide").gang().spread(per_node=2).requires("NetworkAdjacent = True")
    # Each rack takes four; r0 and r2 are no neighbours.
    fits = {
        tasks: not made.core.never_fits(gang.tasks(tasks).build(9, made.core.dimensions)) for tasks in (4, 8, 9, 12)
    }
    assert fits == {4: True, 8: True, 9: False, 12: False}
    made.submit(gang.tasks(9)).submit(plain("later")).decide()
    assert made.nodes_of("later") != []
    veto = made.core.veto(made.ids["wide"])
    assert veto is not None
    assert veto.kind is Verdict.NEVER_TOGETHER


def test_several_wait_for_something_else_and_each_says_for_what() -> None:
    made = cluster("FIFO")
    made.submit(plain("one").requires("JobDependency = three"), plain("two").ports(http=80).requires("Nodes in (n1)"))
    made.decide()
    kinds = {name: made.core.veto(made.ids[name]) for name in ("one", "two")}
    assert {name: veto.kind for name, veto in kinds.items() if veto} == dict.fromkeys(kinds, Verdict.UNSATISFIED)
    made.submit(plain("three")).decide()
    assert made.nodes_of("one") == made.nodes_of("three") == ["n1"]
    made.finish("old")
    assert made.nodes_of("two") == ["n1"]
