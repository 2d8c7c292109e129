"""What the property tests found, each as the shortest story that shows it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cress.core.placing.vetoes import Verdict
from cress.model.decisions import Start, WouldPreempt
from cress.model.errors import InputError
from cress.model.events import GroupsApplied, JobCancelled
from cress.model.group import Group, Quota
from tests.core.builders import World, group, job, node
from tests.core.stories import sent_away


def occupied(**options: Any) -> World:
    """One node of 8 cores, full with four tasks of ``large``, which may hold half of it."""
    world = World(group("small", 4), group("large", 4), nodes=[node("n1").cpu(8)], **options)
    return world.run(job("fill").cpu(2).tasks(4).group("large"))


def test_a_gang_starts_whole_beside_a_drained_node_that_lacks_what_it_does_not_need() -> None:
    world = World(
        group("g", 9, policy="BackFill"),
        nodes=[node("n1").cpu(3).offers(gpu=4), node("n2").cpu(6)],
        dimensions=("gpu",),
        drain_after=0,
        node_order="first",
    )
    world.run(job("holds").cpu(0.5).needs(gpu=3).group("g"))
    world.submit(job("head").cpu(0.5).needs(gpu=3).group("g"), job("gang").cpu(1).tasks(7).gang().group("g")).decide()
    assert world.state("gang").waiting in (0, 7)


def test_a_quota_that_becomes_a_vector_keeps_the_group_in_order() -> None:
    world = World(group("a", 1), group("b", 1), nodes=[node("n1").cpu(4).memory("8G")], accounting="dominant")
    world.submit(job("never").cpu(8).group("a")).decide()
    world.apply(group("a", "<1,1G>"), group("b", 1))
    assert world.core.validate() == []


def test_a_job_that_moves_into_a_capacity_group_does_not_count_its_users_twice() -> None:
    world = World(group("old", 2), group("cap", 6, policy="Capacity"), nodes=[node("n1").cpu(8)])
    world.run(job("mine").cpu(2).group("cap").user("ann"), job("moves").cpu(1).group("old").user("bob"))
    world.apart().observe(
        0, [GroupsApplied((group("cap", 6, policy="Capacity").build("cpu", world.dimensions),), (("old", "cap"),))]
    )
    # bob uses less than ann, so bob goes first on the one place that is left when both queue.
    assert world.core.groups.by_name["cap"].policy._use.used == {"ann": [2000], "bob": [1000]}  # type: ignore[attr-defined]


def test_a_fifo_job_behind_the_head_says_that_it_is_behind() -> None:
    world = World(group("g", 4), nodes=[node("n1").cpu(4)])
    world.run(job("runs").cpu(3).group("g"))
    world.submit(job("head").cpu(2).group("g"), job("second").cpu(1).group("g")).decide()
    assert world.veto("second").kind is Verdict.BEHIND


def test_a_capacity_job_behind_another_of_its_user_says_so() -> None:
    world = World(group("g", 4, policy="Capacity"), nodes=[node("n1").cpu(4)])
    world.run(job("runs").cpu(3).group("g"))
    world.submit(job("first").cpu(2).group("g").user("ann"), job("second").cpu(1).group("g").user("ann")).decide()
    assert world.veto("second").kind is Verdict.BEHIND


def test_cancelling_a_job_whose_victims_leave_takes_its_group_out_of_the_order() -> None:
    world = occupied()
    world.submit(job("late").cpu(4).group("small")).decide()
    world.observe([JobCancelled(world.ids["late"])])
    assert world.core.validate() == []


def test_the_wake_up_for_a_victim_too_young_outlives_another_decide() -> None:
    world = occupied(min_runtime=60_000_000)
    world.submit(job("late").cpu(4).group("small")).decide()
    first = world.core.next_wakeup()
    world.decide()
    assert world.core.next_wakeup() == first == 60_000_000


def test_a_list_of_groups_that_is_refused_changes_nothing() -> None:
    world = occupied()
    before = msgspec.msgpack.encode(world.core.export())
    refused = Group(name="new", quota=Quota(scalar=0))
    with pytest.raises(InputError, match="a quota of 0"):
        world.core.observe(
            0, [GroupsApplied((Group(name="small", quota=Quota(scalar=9000)), refused), (("large", "small"),))]
        )
    assert msgspec.msgpack.encode(world.core.export()) == before
    assert world.core.validate() == []


def test_a_move_to_a_group_that_is_not_there_changes_nothing() -> None:
    world = occupied()
    before = msgspec.msgpack.encode(world.core.export())
    with pytest.raises((InputError, ValueError)):
        world.core.observe(
            0, [GroupsApplied((Group(name="small", quota=Quota(scalar=9000)),), (("large", "nowhere"),))]
        )
    assert msgspec.msgpack.encode(world.core.export()) == before
    assert world.core.validate() == []


def test_cancelling_a_planned_job_lets_the_next_one_start() -> None:
    world = World(group("g", 4, policy="BackFill").with_options(backfill="conservative"), nodes=[node("n1").cpu(4)])
    world.run(job("runs").cpu(2).limit(100).group("g"))
    world.submit(job("wide").cpu(4).limit(100).group("g"), job("long").cpu(2).limit(200).group("g")).decide()
    world.observe([JobCancelled(world.ids["wide"])])
    (start,) = world.decide()
    assert isinstance(start, Start)
    assert start.job == world.ids["long"]


def test_a_conservative_group_above_its_quota_stays_behind_a_unit_without_known_start() -> None:
    above = group("above", 4, policy="BackFill").with_options(backfill="conservative")
    world = World(above, group("below", 4), nodes=[node("n1").cpu(8)], preemption="off")
    world.run(job("fill").cpu(2).tasks(3).group("above"))
    world.submit(job("blocked").cpu(4).group("below"), job("more").cpu(2).group("above")).decide()
    assert world.state("more").waiting == 1


def test_the_second_unit_of_a_conservative_group_heeds_who_came_before_it_after_the_first() -> None:
    world = World(
        group("plans", 1, policy="BackFill"),
        group("waits", 3),
        nodes=[node("n1").cpu(1), node("n2").cpu(3)],
        node_order="first",
        preemption="off",
        backfill="conservative",
    )
    world.run(job("short").cpu(2).group("waits").limit(1))
    world.submit(job("blocked").cpu(3).group("waits").limit(60)).decide()
    # Its first task uses up the quota, which puts the other group in front.
    world.submit(job("long").cpu(1).tasks(6).group("plans").limit(300)).decide()
    assert world.nodes_of("long") == ["n1"]
    world.finish("short")
    assert world.nodes_of("blocked") == ["n2"]


def test_a_group_whose_units_wait_for_a_node_lets_nobody_pass_a_blocked_one() -> None:
    groups = group("blocked", 4), group("idle", 4), group("borrows", 1)
    nodes = [node("n1").cpu(4), node("n2").cpu(1)]
    world = World(*groups, nodes=nodes, behind_blocked="quota_only", preemption="off", node_order="first")
    world.run(job("fills").cpu(4).group("borrows").limit(10))
    world.cordon("n2")
    world.submit(job("first").cpu(4).group("blocked").limit(10)).decide()
    world.submit(job("nowhere").cpu(5).group("idle"), job("second").cpu(1).group("borrows")).decide()
    world.add_node(node("n3").cpu(1)).decide()
    assert world.nodes_of("second") == []


def test_what_would_be_preempted_is_told_at_once() -> None:
    world = occupied(preemption="observe")
    world.submit(job("late").cpu(4).group("small"))
    assert [type(each) for each in world.decide()] == [WouldPreempt, WouldPreempt]


def test_a_reservation_of_a_job_that_is_gone_does_not_keep_a_state_from_coming_back() -> None:
    world = World(
        group("g", 4, policy="BackFill").with_options(backfill="conservative"), group("h", 4), nodes=[node("n1").cpu(4)]
    )
    world.run(job("runs").cpu(3).limit(100).group("g"))
    world.submit(job("planned").cpu(4).limit(100).group("g")).decide()
    world.observe([JobCancelled(world.ids["planned"])])
    sent_away(world.core)


def test_a_job_held_by_the_gate_behind_a_blocked_head_starts_when_the_hold_is_over() -> None:
    world = World(group("g", 8, policy="BackFill"), nodes=[node("n1").cpu(10).memory("10G")], balance_gate="on")
    world.run(job("runs").cpu(3).memory("1G").limit(200).group("g"))
    world.submit(
        job("head").cpu(10).memory("10G").limit(1000).group("g"),
        job("lopsided").cpu(4).limit(1).group("g"),
        job("long").memory("4G").cpu(0).limit(1000).group("g"),
    ).decide()
    assert world.veto("lopsided").kind is Verdict.GATE
    assert world.wait(1).decide() == []
    assert world.core.next_wakeup() == 60_000_000
    world.wake()
    assert world.state("lopsided").waiting == 0
