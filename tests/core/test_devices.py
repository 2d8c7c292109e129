"""Devices of nodes: which of them tasks get, who waits for one, and for whom others make room (design note 0007)."""

from __future__ import annotations

import pytest

from cress.model.events import Outcome
from cress.model.times import HOUR
from tests.core.builders import JobBuilder, NodeBuilder, World, group, job, node

GPU = ("gpu",)


def gpus(name: str, count: int = 2, cpu: float = 16) -> NodeBuilder:
    return node(name).cpu(cpu).gpus(count)


def wants(name: str, gpu: float, cpu: float = 1) -> JobBuilder:
    return job(name).group("g").cpu(cpu).needs(gpu=gpu)


def world(*nodes: NodeBuilder, policy: str = "FIFO") -> World:
    return World(group("g", 1000, policy), nodes=nodes, dimensions=GPU)


def has(made: World, name: str) -> list[str]:
    """What each running task of the job has, as ``gpu:0`` or, of a part, ``gpu:0=460``."""
    number = made.ids[name]
    starts = sorted((each for each in made.running.values() if each.job == number), key=lambda each: each.task)
    shown = {1000: "", 0: " shared"}
    return [
        " ".join(f"{each.kind}:{each.id}{shown.get(each.amount, f'={each.amount}')}" for each in start.devices)
        for start in starts
    ]


# --- of a dimension ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ([1, 1], ["gpu:0", "gpu:1"]),
        ([2], ["gpu:0 gpu:1"]),
        ([0.5, 0.5, 1], ["gpu:0=500", "gpu:0=500", "gpu:1"]),
        ([0.6, 0.6], ["gpu:0=600", "gpu:1=600"]),
        ([0.6, 0.3, 0.2], ["gpu:0=600", "gpu:0=300", "gpu:1=200"]),
        # Of those with enough left the one with least.
        ([0.4, 0.7, 0.2], ["gpu:0=400", "gpu:1=700", "gpu:1=200"]),
        # What is left of two is not one.
        ([0.5, 0.6, 0.9], ["gpu:0=500", "gpu:1=600", None]),
        ([0.1, 2], ["gpu:0=100", None]),
    ],
)
def test_whole_devices_and_parts(asked: list[float], given: list[str | None]) -> None:
    made = world(gpus("n1"))
    for i, amount in enumerate(asked):
        made.submit(wants(f"j{i}", amount)).decide()
    assert [next(iter(has(made, f"j{i}")), None) for i in range(len(asked))] == given


def test_who_waits_for_a_device_waits_for_room_and_nobody_behind_takes_it() -> None:
    made = world(gpus("n1"))
    made.run(wants("a", 0.6), wants("b", 0.6))
    made.submit(wants("whole", 1), wants("small", 0.1)).decide()
    assert "gpu" in made.why("whole")
    # FIFO: the small one could have its part, and waits behind the whole one.
    assert made.jobs_running() == ["a", "b"]
    made.finish("a", 0)
    assert has(made, "whole") == ["gpu:0"]
    assert has(made, "small") == ["gpu:1=100"]


@pytest.mark.parametrize(("amount", "never"), [(1, False), (2, False), (3, True), (1.5, True), (0.001, False)])
def test_what_no_node_could_ever_give(amount: float, never: bool) -> None:
    made = world(gpus("n1"), gpus("n2"))
    made.submit(wants("j", amount)).decide()
    assert bool(made.running) is not never
    if never:
        assert made.veto("j").never


def test_a_node_with_a_bare_amount_counts_it_as_before() -> None:
    made = world(node("n1").cpu(8).offers(gpu=3))
    made.run(wants("a", 1.5), wants("b", 1.5))
    assert has(made, "a") == has(made, "b") == [""]


def test_models_are_attributes() -> None:
    there = [node("v").cpu(8).gpus(2, model="V100M16"), node("a").cpu(8).gpus(2, model="A10"), node("c").cpu(8)]
    made = world(*there)
    made.run(wants("j", 1).tasks(2).requires('GPUModel in ("A10", "T4")'))
    assert made.nodes_of("j") == ["a", "a"]
    made.run(wants("k", 1).requires('GPUs >= 2 && GPUModel != "A10"'))
    assert made.nodes_of("k") == ["v"]


def test_a_gang_gets_devices_for_all_or_none() -> None:
    made = world(gpus("n1"), gpus("n2"))
    made.run(wants("part", 0.5))
    # 3.5 devices are free, three of them whole.
    made.submit(wants("gang", 1).tasks(4).gang()).decide()
    assert made.jobs_running() == ["part"]
    made.submit(wants("other", 0.3))
    made.finish("part", 0)
    assert sorted(has(made, "gang")) == ["gpu:0", "gpu:0", "gpu:1", "gpu:1"]
    # Two tasks of 0.6 each fit on a node, by amounts it would be three.
    made = world(gpus("n1"), gpus("n2"))
    made.submit(wants("three", 0.6).tasks(5).gang()).decide()
    assert made.veto("three").never
    made = world(gpus("n1"), gpus("n2"))
    made.run(wants("two", 0.6).tasks(4).gang())
    assert sorted(has(made, "two")) == ["gpu:0=600", "gpu:0=600", "gpu:1=600", "gpu:1=600"]


def test_a_gang_of_gpus_has_a_reservation() -> None:
    made = world(gpus("n1"), policy="BackFill")
    made.run(wants("now", 1).limit(100))
    made.submit(wants("gang", 1).tasks(2).gang().limit(50))
    made.submit(wants("long", 1).limit(1000), wants("short", 1).limit(60)).decide()
    assert sorted(made.jobs_running()) == ["now", "short"]


def test_devices_are_given_back_and_kept_over_a_restart() -> None:
    made = world(gpus("n1"))
    made.run(wants("a", 0.5), wants("b", 1), wants("c", 0.5))
    again = made.core.clone()
    assert again.validate() == []
    assert again.export() == made.core.export()
    made.finish("a", 0)
    made.finish("c", 0)
    made.run(wants("d", 1))
    assert has(made, "d") == ["gpu:0"]


def test_a_node_that_comes_back_has_its_devices_free() -> None:
    made = world(gpus("n1"))
    made.run(wants("a", 2))
    made.lose_node("n1").decide()
    assert made.state("a").waiting == 1
    made.add_node(gpus("n1", 3)).decide()
    assert has(made, "a") == ["gpu:0 gpu:1"]


# --- disks ---------------------------------------------------------------------------------------------------


def reads(name: str, amount: str, alone: bool = False) -> JobBuilder:
    made = job(name).group("g").needs(disk_read=amount, disk_write=amount)
    return made.requires("ExclusiveDisk = True") if alone else made


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        # Balance between disks: each goes to the one with most idle bandwidth.
        (["50M", "50M", "30M", "30M"], ["sda shared", "sdb shared", "sda shared", "sdb shared"]),
        (["80M", "50M", "30M", "60M"], ["sda shared", "sdb shared", "sdb shared", None]),
        (["!50M", "50M", "!10M"], ["sda", "sdb shared", None]),
        (["10M", "!10M", "!10M"], ["sda shared", "sdb", None]),
        (["!0", "!0", "10M"], ["sda", "sdb", None]),
        (["120M"], [None]),
        (["!120M"], [None]),
    ],
)
def test_disks_are_shared_or_somebodys_alone(asked: list[str], given: list[str | None]) -> None:
    made = world(node("n1").cpu(8).disks("100M", "100M"))
    for i, amount in enumerate(asked):
        made.submit(reads(f"j{i}", amount.strip("!"), "!" in amount)).decide()
    found = [next(iter(has(made, f"j{i}")), None) for i in range(len(asked))]
    assert [each and each.removeprefix("disk:") for each in found] == given


def test_a_disk_of_ones_own_is_held_whole() -> None:
    made = world(node("n1").cpu(8).disks("100M", "300M"))
    made.run(reads("own", "10M", alone=True))
    assert has(made, "own") == ["disk:sda"]
    assert made.core.cluster.free(0)[3:5] == (300_000_000, 300_000_000)
    made.finish("own", 0)
    assert made.core.cluster.free(0)[3:5] == (400_000_000, 400_000_000)
    # The slow one is too slow.
    made.run(reads("fast", "200M", alone=True))
    assert has(made, "fast") == ["disk:sdb"]


def test_a_wish_for_a_disk_of_ones_own_becomes_a_share_where_none_is_free() -> None:
    made = world(node("n1").cpu(8).disks("100M"))
    made.run(reads("a", "30M").ranks("ExclusiveDisk = True"))
    made.submit(reads("b", "30M").ranks("ExclusiveDisk = True")).decide()
    assert has(made, "a") == ["disk:sda"]
    assert has(made, "b") == []
    made.finish("a", 0)
    assert has(made, "b") == ["disk:sda"]
    made = world(node("n1").cpu(8).disks("100M"))
    made.run(reads("a", "30M"), reads("b", "30M").ranks("ExclusiveDisk = True"))
    assert has(made, "b") == ["disk:sda shared"]


def test_a_gang_shares_disks_that_its_tasks_would_like_alone() -> None:
    made = world(node("n1").cpu(8).disks("100M", "100M"))
    made.run(reads("gang", "40M").ranks("ExclusiveDisk = True").tasks(3).gang())
    assert has(made, "gang") == ["disk:sda shared", "disk:sdb shared", "disk:sda shared"]


def test_random_access_is_by_its_own_amounts() -> None:
    made = world(node("n1").cpu(8).disks("100M", "100M"))
    # Neither disk says how many operations it does: nobody gets any.
    made.submit(job("j").group("g").needs(iops_read=100)).decide()
    assert made.running == {}


# --- making room ---------------------------------------------------------------------------------------------


def test_victims_are_those_whose_devices_make_room() -> None:
    made = World(
        group("rich", 1, "FIFO"), group("poor", 8, "FIFO"), nodes=[gpus("n1", 3, cpu=8)], dimensions=GPU, cooling=1
    )
    for i, amount in enumerate((0.6, 0.6, 0.4, 0.4, 0.3)):
        made.submit(job(f"r{i}").group("rich").needs(gpu=amount)).decide()
        made.wait(1)
    # 0: r0 and r2, 1: r1 and r3, 2: r4. One whole device: r4 alone frees one; by amounts r3 would have done.
    made.submit(job("p").group("poor").needs(gpu=1)).decide()
    assert made.victims() == ["r4"]
    made.yield_victims()
    assert has(made, "p") == ["gpu:2"]


def test_a_unit_keeps_its_claim_while_some_of_its_victims_still_hold_devices() -> None:
    made = World(group("rich", 1), group("poor", 8), nodes=[gpus("n1", 2, cpu=8)], dimensions=GPU, cooling=1)
    made.run(job("r0").group("rich").needs(gpu=1), job("r1").group("rich").needs(gpu=1)).wait(1)
    made.submit(job("p").group("poor").needs(gpu=2)).decide()
    assert sorted(made.victims()) == ["r0", "r1"]
    (claim,) = made.core.claims
    made.end([start for start in made.told.values() if made.names[start.job] == "r0"], Outcome.PREEMPTED).decide()
    assert list(made.core.claims) == [claim]
    made.yield_victims()
    assert has(made, "p") == ["gpu:0 gpu:1"]


def test_nobody_is_stopped_who_frees_no_device() -> None:
    made = World(group("rich", 1), group("poor", 8), nodes=[gpus("n1", 2, cpu=8)], dimensions=GPU, cooling=1)
    for name, who, amount in (("own0", "poor", 0.2), ("r0", "rich", 0.8), ("own1", "poor", 0.3), ("r1", "rich", 0.7)):
        made.submit(job(name).group(who).needs(gpu=amount)).decide()
    assert [has(made, name) for name in ("own0", "r0", "own1", "r1")] == [
        ["gpu:0=200"], ["gpu:0=800"], ["gpu:1=300"], ["gpu:1=700"],
    ]  # fmt: skip
    # Both victims together would free 1.5, and no whole device.
    made.submit(job("p").group("poor").needs(gpu=1)).decide()
    assert made.victims() == []
    assert made.state("p").waiting == 1


def test_what_was_lost_together_finds_its_devices_together() -> None:
    made = World(group("g", 100), nodes=[gpus("n1", 2).disks("100M", "100M")], dimensions=GPU)
    made.run(wants("a", 0.6).has(disk_read="60M"))
    made.run(wants("b", 0.6).has(disk_read="60M").requires("JobDependency = a && ExclusiveDisk = True"))
    # One disk is too few for both, although its bandwidth is enough.
    made.add_node(gpus("n2", 2).disks("200M")).add_node(gpus("n3", 2).disks("80M", "70M"))
    made.lose_node("n1").decide()
    assert made.nodes_of("a") == made.nodes_of("b") == ["n3"]
    # Who has a disk alone chooses first, the slowest that will do.
    assert has(made, "b") == ["gpu:0=600 disk:sdb"]
    assert has(made, "a") == ["gpu:1=600 disk:sda shared"]


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CANCELLED, Outcome.LOST, Outcome.PREEMPTED])
def test_an_end_of_any_kind_gives_the_device_back(outcome: Outcome) -> None:
    made = world(gpus("n1", 1))
    made.run(wants("first", 1))
    made.cancel("first").end(list(made.running.values()), outcome)
    made.run(wants("last", 1))
    assert has(made, "last") == ["gpu:0"]


# --- plans ---------------------------------------------------------------------------------------------------


def planned(*nodes: NodeBuilder) -> World:
    everybody = group("g", 1000, "BackFill").with_options(backfill="conservative")
    return World(everybody, nodes=nodes, dimensions=GPU, node_order="first")


def test_a_plan_is_where_a_device_is_free_and_not_where_what_is_left_of_two_would_do() -> None:
    made = planned(gpus("n1"), gpus("n2"))
    made.run(wants("a", 0.6), wants("b", 0.6))
    made.run(wants("half", 0.5))
    assert made.nodes_of("half") == ["n2"]


def test_a_plan_begins_when_a_device_is_given_back() -> None:
    made = planned(gpus("n1"))
    made.run(wants("a", 0.6).limit("1h"), wants("b", 0.6).limit("2h"))
    made.submit(wants("half", 0.5).limit("1h"), wants("two", 2).limit("1h")).decide()
    starts = [made.core.books.plans.planned_start(made.state(name)) for name in ("half", "two")]
    assert starts == [1 * HOUR, 2 * HOUR]


def test_a_planned_gang_begins_whole_or_not_at_all() -> None:
    made = planned(gpus("n1", cpu=4), gpus("n2", 1))
    made.run(wants("a", 0.6), wants("b", 0.6), wants("c", 0.5, cpu=3))
    made.submit(wants("gang", 0.5).tasks(2).gang()).decide()
    assert made.state("gang").waiting == 2
    made.finish("a", 0)
    assert has(made, "gang") == ["gpu:0=500", "gpu:0=500"]


def test_a_disk_of_ones_own_is_not_taken_from_a_reservation_that_needs_a_part_of_it() -> None:
    made = World(group("g", 1000, "BackFill"), nodes=[node("n1").cpu(4).disks("100M")])
    made.run(job("first").group("g").cpu(3).limit("1h"))
    # From then on the head has most of the cpu and some of the disk.
    made.submit(reads("head", "60M").cpu(3).limit("1h"), reads("own", "10M", alone=True).cpu(1).limit("2h"))
    made.submit(reads("shares", "10M").cpu(1).limit("2h")).decide()
    assert sorted(made.jobs_running()) == ["first", "shares"]
    made.finish("first", 0)
    assert sorted(made.jobs_running()) == ["head", "shares"]


def test_no_node_is_kept_free_for_whom_its_devices_would_not_do() -> None:
    made = World(
        group("g", 1000),
        nodes=[node("n1").cpu(8).disks("100M", "100M"), node("n2").cpu(8).disks("200M")],
        drain_after=0,
    )
    made.run(reads("a", "60M").requires("Nodes in (n1)"), reads("b", "70M").requires("Nodes in (n2)"))
    made.submit(reads("wide", "150M"), job("behind").group("g").cpu(1)).decide()
    assert made.state("wide").foreseen.drain == [(1, 1)]
