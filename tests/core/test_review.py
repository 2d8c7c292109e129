"""Stories that a reader of the core asked about, each as short as it can be."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from cress.core.placing.vetoes import Verdict
from cress.core.scheduler import Scheduler
from cress.model.decisions import Start, Stop
from cress.model.errors import InputError
from cress.model.events import GroupsApplied, JobSubmitted, Outcome, ZoneSet
from cress.model.job import Job
from cress.model.options import Options
from tests.core.builders import World, group, job, node, nodes


def overdue() -> World:
    """The head waits for a task that outlives its predicted end."""
    world = World(group("g", 4, "BackFill"), nodes=[node("n1").cpu(4)])
    world.run(job("late").cpu(2).limit(100).group("g"))
    world.submit(job("head").cpu(4).limit(10).group("g"), job("long").cpu(2).limit(500).group("g")).decide()
    return world.wait(120)


def test_a_head_that_waits_for_an_overdue_task_is_not_delayed() -> None:
    world = overdue()
    world.submit(job("another").cpu(2).limit(400).group("g"))
    assert world.decide() == []
    (start,) = world.finish("late")
    assert isinstance(start, Start)
    assert start.job == world.ids["head"]


def test_a_copy_decides_as_the_original_while_something_is_overdue() -> None:
    world = overdue()
    one = world.apart()
    twin = one.clone()
    late = Job(id=99, group="g", request=world.dimensions.vector(cpu=2000), time_limit=400_000_000)
    for core in (one, twin):
        core.observe(one.now, [JobSubmitted(late)])
    assert one.decide(one.now).items == twin.decide(one.now).items == []


def test_nodes_are_drained_as_soon_as_it_is_due_although_a_reservation_was_asked_for_before() -> None:
    world = World(group("a", 2), group("b", 4), group("c", 4), nodes=[node("n1").cpu(4)], preemption="off")
    world.run(job("endless").cpu(1).group("a"), job("more").cpu(1).group("c"))
    world.submit(job("wide").cpu(4).group("b"), job("short").cpu(1).limit(9).group("c")).decide()
    world.wait(600).decide()
    assert world.veto("wide").kind is Verdict.DRAINING
    world.submit(job("later").cpu(1).group("c"))
    assert world.decide() == []


def test_a_gang_that_loses_a_task_starts_again_as_a_whole() -> None:
    world = World(group("g", 9), nodes=nodes(2, cpu=1))
    world.run(job("gang").cpu(1).tasks(2).gang().group("g"))
    world.lose_node("n1")
    (stop,) = world.decide()
    assert isinstance(stop, Stop)
    assert world.veto("gang").kind is Verdict.NEVER_TOGETHER
    world.add_node(node("n3").cpu(1))
    assert world.decide() == []
    world.end([world.running[stop.attempt]], Outcome.FAILED)
    assert len(world.decide()) == 2


def test_users_of_a_vector_quota_go_by_the_measure_in_which_they_use_most() -> None:
    world = World(
        group("g", "<100,100G>", policy="Capacity"), nodes=[node("n1").cpu(200).memory("200G")], accounting="dominant"
    )
    world.run(
        job("hog").cpu(90).memory("1G").group("g").user("hog"),
        job("small").cpu(1).memory("2G").group("g").user("small"),
    )
    world.submit(
        job("hog again").cpu(1).memory("1G").group("g").user("hog"),
        job("small again").cpu(1).memory("1G").group("g").user("small"),
    )
    first = world.decide()[0]
    assert isinstance(first, Start)
    assert first.job == world.ids["small again"]


def test_a_user_who_holds_nothing_may_always_start_one_unit() -> None:
    world = World(group("g", 4, "Capacity").with_options(user_limit_factor="1"), nodes=[node("n1").cpu(100)])
    world.submit(*(job(f"of {user}").cpu(1).tasks(2).group("g").user(user) for user in "abcdefgh"))
    assert len(world.decide()) == 8


def test_a_copy_keeps_the_time_zones_of_the_cluster_and_of_its_groups() -> None:
    core = Scheduler(World(nodes=[]).dimensions, Options(), ZoneInfo("Asia/Tokyo"))
    assert str(Scheduler.restore(core.export()).groups.zone) == "Asia/Tokyo"
    core.observe(0, [GroupsApplied((), zone="Europe/Berlin")])
    core.observe(0, [ZoneSet("Asia/Shanghai")])
    copy = core.clone()
    assert (str(copy.groups.zone), str(copy.groups.cluster_zone)) == ("Europe/Berlin", "Asia/Shanghai")
    for wrong in GroupsApplied((), zone="Europe/Berlyn"), ZoneSet("Europe/Berlyn"):
        with pytest.raises(InputError, match="did you mean Europe/Berlin"):
            core.observe(1, [wrong])


def test_a_copy_gives_the_same_reasons() -> None:
    world = World(group("g", 4), nodes=[node("n1").cpu(4)])
    world.run(job("runs").cpu(3).group("g"))
    world.submit(job("head").cpu(2).group("g"), job("second").cpu(1).group("g")).decide()
    twin = world.core.clone()
    for name in ("head", "second"):
        assert twin.veto(world.ids[name]) == world.core.veto(world.ids[name])


def test_a_group_that_plans_no_more_leaves_no_bookings_behind() -> None:
    planning = group("g", 4, "BackFill").with_options(backfill="conservative")
    world = World(planning, nodes=[node("n1").cpu(4)])
    world.run(job("runs").cpu(3).limit(100).group("g"))
    world.submit(job("planned").cpu(4).limit(100).group("g")).decide()
    assert world.veto("planned").kind is Verdict.PLANNED
    world.apply(group("g", 4, "FIFO")).decide()
    assert world.veto("planned").kind is Verdict.NO_ROOM
