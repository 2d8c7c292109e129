"""Facts from outside: placements that exist already, foreign use, and nodes that change under their tasks."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from cress.core.scheduler import Scheduler
from cress.model.decisions import Start, Stop
from cress.model.errors import InputError
from cress.model.events import ForeignUse, JobSubmitted, NodeAdded, NodeChanged, Outcome, TaskAdopted, TaskEnded
from cress.model.times import SECOND
from tests.core.builders import JobBuilder, NodeBuilder, World, group, job, node, nodes
from tests.core.promises import promised_state
from tests.core.settings import EVERYTHING, seeded_operations, seeded_setting
from tests.core.stories import Player, sent_away


def changed(world: World, each: NodeBuilder) -> None:
    world.observe([NodeChanged(each.build(world.dimensions))])


def submitted(world: World, *jobs: JobBuilder) -> None:
    world.submit(*jobs)


def adopted(
    world: World, attempt: int, on: str, *, of: str = "", task: int = 0, name: str = "", **amounts: object
) -> None:
    vector = job("x").has(**amounts).vector(world.dimensions)
    number = world.ids[of] if of else None
    world.observe([TaskAdopted(attempt, on, vector, number, task, name, world.now)])


# --- tasks that run already --------------------------------------------------------------------------------------


def test_a_task_that_was_found_running_is_not_started_again() -> None:
    world = World(nodes=nodes(2, cpu=4))
    submitted(world, job("etl").cpu(2).tasks(3))
    adopted(world, 70, "n2", of="etl", task=1, cpu=2)
    starts = [each for each in world.decide() if isinstance(each, Start)]
    assert [start.task for start in starts] == [0, 2]
    assert min(start.attempt for start in starts) > 70
    assert world.used("default") == 6
    world.observe([TaskEnded(70)])
    assert world.used("default") == 4


def test_an_adopted_task_ends_by_its_limit_since_it_began() -> None:
    world = World(nodes=nodes(1, cpu=4), behind_blocked="reserve")
    world.wait(100)
    submitted(world, job("long").cpu(4).limit(60), job("next").cpu(4).limit(10))
    vector = job("x").cpu(4).vector(world.dimensions)
    world.observe([TaskAdopted(1, "n1", vector, world.ids["long"], since=70 * SECOND)])
    world.decide()
    assert world.core.books.reservations.kept == [] or world.core.books.reservations.kept[0].start == 130 * SECOND
    world.observe([TaskEnded(1)])
    assert [each.job for each in world.decide() if isinstance(each, Start)] == [world.ids["next"]]


def test_a_task_of_a_cancelled_job_is_adopted_and_stopped() -> None:
    world = World(nodes=nodes(1, cpu=2))
    world.run(job("etl").tasks(1))
    world.cancel("etl")
    submitted(world, job("other"))
    world.observe([TaskEnded(1)])
    with pytest.raises(InputError, match="there is no job 1"):
        adopted(world, 9, "n1", of="etl", cpu=1)


def test_a_stranger_holds_room_until_it_ends_and_is_no_victim() -> None:
    world = World(group("a", 4), nodes=nodes(1, cpu=4))
    adopted(world, 5, "n1", name="backup", cpu=3)
    submitted(world, job("etl").cpu(2).group("a"))
    assert world.decide() == []
    assert world.used("a") == 0
    world.observe([TaskEnded(5)])
    assert [each.attempt for each in world.decide() if isinstance(each, Start)] == [6]


def test_more_than_a_node_has_is_adopted_and_nothing_starts_there_until_enough_has_ended() -> None:
    world = World(nodes=nodes(1, cpu=4))
    submitted(world, job("etl").cpu(0.5).tasks(2))
    adopted(world, 5, "n1", name="a", cpu=3)
    adopted(world, 6, "n1", name="b", cpu=3)
    assert world.core.cluster.free(0)[0] == -2000
    assert world.decide() == []
    world.observe([TaskEnded(5)])
    assert len(world.decide()) == 2


def test_devices_and_ports_of_an_adopted_task_are_taken() -> None:
    world = World(nodes=[node("n1").cpu(8).gpus(2)], dimensions=("gpu",))
    submitted(world, job("old").needs(gpu=1).ports(web=80), job("new").needs(gpu=1).ports(web=80))
    started = World(nodes=[node("n1").cpu(8).gpus(2)], dimensions=("gpu",))
    started.run(job("old").needs(gpu=1).ports(web=80))
    (start,) = started.running.values()
    world.observe(
        [
            TaskAdopted(
                1, "n1", job("old").needs(gpu=1).vector(world.dimensions), 1, devices=start.devices, ports=start.ports
            )
        ]
    )
    assert world.decide() == []  # the port is taken
    world.observe([TaskEnded(1)])
    (next_start,) = world.decide()
    assert isinstance(next_start, Start)
    assert next_start.ports == (80,)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (TaskAdopted(1, "n9", (0,) * 7), "no such node"),
        (TaskAdopted(1, "n1", (0,) * 7, 4), "there is no job 4"),
        (TaskAdopted(1, "n1", (0,) * 7, 1, 7), "task 7 of job 1 is not waiting"),
        (TaskAdopted(1, "n1", (0,)), "1 amounts"),
        (ForeignUse("n9", (0,) * 7), "there is no node 'n9'"),
    ],
)
def test_what_cannot_be_is_refused(event: TaskAdopted | ForeignUse, why: str) -> None:
    world = World(nodes=nodes(1, cpu=4))
    submitted(world, job("etl"))
    if isinstance(event, TaskAdopted) and len(event.amounts) == 7:
        event = msgspec.structs.replace(event, amounts=(0,) * len(world.dimensions))
    with pytest.raises(InputError, match=why):
        world.core.observe(world.now, [event])


@pytest.mark.parametrize("seed", range(4))
def test_a_scheduler_is_rebuilt_without_a_log(seed: int) -> None:
    """Nodes, jobs and the tasks that run are enough to go on."""
    player = Player(seeded_setting(seed, windows=False), check=False).play(seeded_operations(seed, 60, EVERYTHING))
    old = player.core
    fresh = Scheduler(old.dimensions, old.options)
    there = [f for f in range(old.cluster.node_count) if not old.cluster.lost[f]]
    alive = [each for each in old.jobs.values() if not each.cancelled]
    fresh.observe(player.now, [*player.setting.first_events()[len(player.setting.nodes) :]])
    fresh.observe(player.now, [NodeAdded(old.cluster.specs[f]) for f in there])
    jobs = [msgspec.structs.replace(each.job, group="default", hold=False) for each in alive]
    fresh.observe(player.now, [JobSubmitted(each) for each in jobs])
    running = [each for each in old.attempts.values() if not each.job.cancelled]
    found = [
        TaskAdopted(
            each.id, old.cluster.names[each.node], each.amounts, each.job.job.id, each.task, since=each.start,
            ports=each.ports,
        )
        for each in running
    ]  # fmt: skip
    fresh.observe(player.now, found)
    assert fresh.validate() == []
    assert promised_state(sent_away(fresh)) == promised_state(fresh)
    busy = {(each.job.job.id, each.task) for each in running}
    rng = Random(seed)
    now = player.now
    for _ in range(30):
        now += SECOND
        for decision in fresh.decide(now).items:
            if isinstance(decision, Start):
                assert (decision.job, decision.task) not in busy
                busy.add((decision.job, decision.task))
        assert fresh.validate() == []
        for attempt in rng.sample(sorted(fresh.attempts), min(2, len(fresh.attempts))):
            gone = fresh.attempts[attempt]
            fresh.observe(now, [TaskEnded(attempt)])
            busy.discard((gone.job.job.id, gone.task))
            assert fresh.validate() == []


# --- foreign use and nodes that change ---------------------------------------------------------------------------


def test_foreign_use_reduces_what_is_free_and_is_replaced() -> None:
    world = World(nodes=nodes(1, cpu=4))
    submitted(world, job("etl").cpu(1).tasks(4))
    use = job("x").cpu(3).vector(world.dimensions)
    world.observe([ForeignUse("n1", use)])
    assert len(world.decide()) == 1
    world.observe([ForeignUse("n1", job("x").cpu(2).vector(world.dimensions))])
    assert len(world.decide()) == 1
    world.observe([ForeignUse("n1", (0,) * len(use))])
    assert len(world.decide()) == 2
    assert world.used("default") == 4
    world.lose_node("n1")
    world.observe([NodeAdded(node("n1").cpu(4).build(world.dimensions))])
    assert len(world.decide()) == 4


def test_a_node_that_shrinks_below_what_runs_takes_nothing_until_enough_has_ended() -> None:
    world = World(nodes=[node("n1").cpu(4)])
    world.run(job("etl").tasks(3))
    submitted(world, job("more").tasks(5).cpu(0.5))
    changed(world, node("n1").cpu(2))
    assert world.decide() == []
    world.finish("etl", 0)
    assert world.jobs_running() == ["etl", "etl"]
    world.finish("etl", 1)
    assert world.jobs_running() == ["etl", "more", "more"]
    changed(world, node("n1").cpu(8))
    world.decide()
    assert world.jobs_running() == ["etl", "more", "more", "more", "more", "more"]


def test_a_claim_on_a_node_that_shrinks_is_void() -> None:
    world = World(group("old", 1), group("new", 10), nodes=[node("n1").cpu(5)])
    world.run(job("old").tasks(5).group("old"))
    submitted(world, job("wants").cpu(4).group("new"))
    world.decide()
    assert world.core.claims
    changed(world, node("n1").cpu(3))
    assert not world.core.claims
    world.yield_victims()
    assert "wants" not in world.jobs_running()
    changed(world, node("n1").cpu(5))
    world.wait(3600).decide()
    assert world.state("wants").waiting in (0, 1)


def test_a_device_that_is_gone_goes_with_the_task_that_has_it() -> None:
    world = World(nodes=[node("n1").cpu(8).gpus(2)], dimensions=("gpu",))
    world.run(job("both").needs(gpu=2))
    changed(world, node("n1").cpu(8).gpus(1))
    assert world.core.cluster.gone
    submitted(world, job("next").needs(gpu=1))
    assert world.decide() == []
    twin = sent_away(world.core)
    assert twin.validate() == []
    assert twin.export() == world.core.export()
    world.finish("both")
    assert not world.core.cluster.gone
    assert world.jobs_running() == ["next"]


def test_disks_change_while_one_is_held_alone() -> None:
    world = World(nodes=[node("n1").cpu(8).disks("100M", "50M")])
    world.run(job("alone").requires("ExclusiveDisk = True"))
    changed(world, node("n1").cpu(8).disks("100M", "80M", "20M"))
    submitted(world, job("second").requires("ExclusiveDisk = True").tasks(3))
    world.decide()
    assert len(world.running) == 3
    world.finish("alone")
    assert len(world.running) == 3


def test_a_node_is_closed_by_a_whole_disk_beside_one_that_has_become_smaller() -> None:
    """The lease of the first task keeps the 100M that its disk had: with the second one more is held than there is."""
    world = World(nodes=[node("n1").cpu(8).disks("100M", "100M")])
    world.run(job("first").requires("ExclusiveDisk = True"))
    changed(world, node("n1").cpu(8).disks("50M", "50M"))
    world.run(job("second").requires("ExclusiveDisk = True"))
    submitted(world, job("third"))
    assert world.decide() == []
    assert world.core.validate() == []
    twin = sent_away(world.core)
    assert twin.cluster.usable().tolist() == world.core.cluster.usable().tolist() == [False]
    world.finish("first")
    assert world.jobs_running() == ["second", "third"]


def test_a_gang_waits_where_its_first_task_would_leave_less_than_is_held() -> None:
    world = World(nodes=[node("n1").cpu(8).disks("50M", "50M")])
    world.run(job("first").requires("ExclusiveDisk = True"))
    changed(world, node("n1").cpu(8).disks("20M", "20M", "20M"))
    submitted(world, job("gang").requires("ExclusiveDisk = True").tasks(2).gang())
    assert world.decide() == []
    assert world.core.validate() == []
    world.finish("first")
    assert world.jobs_running() == ["gang", "gang"]


def test_more_capacity_is_used_at_once() -> None:
    world = World(nodes=[node("n1").cpu(1)])
    submitted(world, job("etl").tasks(3))
    world.decide()
    changed(world, node("n1").cpu(3).gpus(0))
    assert len(world.decide()) == 2


def test_what_a_group_is_charged_follows_the_capacity_of_its_nodes() -> None:
    """With the accounting ``dominant`` a task pays for its share of the node, which is larger on a smaller one."""
    world = World(group("g", 9), nodes=[node("n1").cpu(8)], accounting="dominant")
    world.run(job("etl").cpu(2).tasks(2).group("g"))
    assert world.used("g") == 0.5
    changed(world, node("n1").cpu(5))
    assert world.used("g") == 0.8
    world.finish("etl", 0)
    assert world.used("g") == 0.4
    assert world.core.validate() == []


def test_a_claim_on_a_node_that_is_judged_overloaded_is_void() -> None:
    world = World(group("old", 1), group("new", 10), nodes=[node("n1").cpu(5).not_judged()], overload_memory=1)
    world.load("n1", cpu=999)
    world.run(job("old").tasks(5).cpu(0.5).group("old"), job("wide").cpu(2.5).group("old"))
    submitted(world, job("wants").cpu(2).group("new"))
    world.decide()
    assert world.core.claims
    changed(world, node("n1").cpu(500))
    assert world.core.cluster.overloaded[0]
    assert not world.core.claims


def test_a_port_that_two_tasks_have_is_free_when_both_are_over() -> None:
    """A task is found running with a port that was given to another one, which is on its way and will fail."""
    world = World(nodes=nodes(1, cpu=4))
    world.run(job("web").ports(http=80))
    world.observe([TaskAdopted(9, "n1", (0,) * len(world.dimensions), name="nginx", ports=(80,))])
    submitted(world, job("next").ports(http=80))
    world.finish("web")
    assert world.jobs_running() == []
    world.observe([TaskEnded(9)])
    assert [each.job for each in world.decide() if isinstance(each, Start)] == [world.ids["next"]]


def test_who_has_a_disk_alone_holds_what_it_held_after_a_restore() -> None:
    # How fast the disk is was not known when it was given away.
    world = World(nodes=[node("n1").cpu(8).disks("0M")])
    world.run(job("alone").requires("ExclusiveDisk = True"))
    changed(world, node("n1").cpu(8).disks("30M"))
    twin = sent_away(world.core)
    assert twin.validate() == []
    assert twin.export() == world.core.export()


def test_stops_of_adopted_gangs_come_when_a_task_is_lost() -> None:
    world = World(nodes=nodes(2, cpu=2))
    submitted(world, job("gang").tasks(2).gang())
    adopted(world, 3, "n1", of="gang", task=0, cpu=1)
    adopted(world, 4, "n2", of="gang", task=1, cpu=1)
    assert world.decide() == []
    world.observe([TaskEnded(3, again=True)])
    (stop,) = world.apart().decide(world.now).orders
    assert isinstance(stop, Stop)
    assert stop.attempt == 4


def test_a_claim_does_not_rely_on_a_task_that_may_go_on_for_ever() -> None:
    """Somebody takes what one victim freed.

    The runner is expected to end at 50 s, but has no limit: nobody waits for it.
    """
    predicting = group("ours", 4, "BackFill").with_options(estimates="predicted")
    world = World(group("small", 4), predicting, nodes=nodes(1, cpu=8), max_per_round=1.0)
    world.run(job("runner").cpu(4).expected(50).group("ours"), job("fill").tasks(4).group("ours"))
    world.submit(job("late").cpu(4).group("small")).decide()
    assert world.victims() == ["fill"] * 4
    first, second, *_ = world.told.values()
    world.end([first, second], Outcome.PREEMPTED).decide()
    world.observe([ForeignUse("n1", job("x").cpu(2).vector(world.dimensions))])
    assert not world.core.claims
    assert world.state("late").waiting == 1
    world.wait(60).decide()
    world.end(world.told.values(), Outcome.PREEMPTED).decide()
    world.observe([ForeignUse("n1", job("x").cpu(0).vector(world.dimensions))])
    world.decide()
    assert "late" in world.jobs_running()
