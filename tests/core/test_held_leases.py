"""Leases that a holder has keep what they have: they yield as a whole, with all that runs in them (design note
0024).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any

import pytest

from cress.core.advance.choice import find
from cress.model.advance import AdvanceReservation
from cress.model.decisions import Claim, LeaseReduced, Preempt, Stop
from cress.model.events import AdvanceReserved, ForeignUse, LeaseUsed, Outcome
from cress.model.job import JobType
from cress.model.times import MINUTE, SECOND
from tests.core.builders import GroupBuilder, JobBuilder, World, group, job, node

GIB = 2**30


def of(name: str, label: str, size: float, *, workload: str = "", priority: int = 0, limit: str = "9h") -> JobBuilder:
    """A job of a group with one task of ``size`` cores and GiB."""
    made = job(label).cpu(size).memory(f"{size:g}G").group(name).priority(priority).limit(limit)
    return made.workload(workload) if workload else made


def cluster(*groups: GroupBuilder, cpu: float = 8, count: int = 1, **options: Any) -> World:
    """Nodes of ``cpu`` cores with as many GiB; group a is soon above its quota, group b may preempt it."""
    nodes = [node(f"n{i + 1}").cpu(cpu).memory(f"{cpu:g}G") for i in range(count)]
    return World(*(groups or (group("a", 1), group("b", 8))), nodes=nodes, **{"node_order": "first", **options})


def hold(world: World, size: float = 6, *, uses: float = 0, name: str = "lease", **rest: Any) -> World:
    """A lease of ``size`` cores that group a holds, whose holder uses so many of them."""
    made = of("a", name, size, workload="w").as_lease()
    for key, value in rest.items():
        made = getattr(made, key)(value) if value is not None else getattr(made, key)()
    world.run(made)
    return use(world, uses, name)


def use(world: World, cores: float, name: str = "lease") -> World:
    """The holders of leases use so many cores and GiB of each."""
    events = []
    for attempt in world.state(name).attempts.values():
        amounts = (int(1000 * cores), int(GIB * cores)) + (0,) * (len(attempt.job.job.request) - 2)
        events.append(LeaseUsed(attempt.id, amounts))
    return world.observe(events)


def books(world: World, name: str = "lease") -> tuple[float, float, float, float]:
    """The cores that a lease has: what its holder uses, what is idle, what its tasks have, what is lent."""
    (attempt,) = world.state(name).attempts.values()
    lease = world.core.pool.leases[attempt.id]
    inside = [amounts for task in lease.tasks.values() for of, (_, amounts) in task.inside if of is lease]
    parts = ([attempt.amounts], [part.amounts for part in lease.idle.values()], inside, [p.amounts for p in lease.lent])
    used, idle, tasks, lent = (sum(amounts[0] for amounts in each) / 1000 for each in parts)
    return used, idle, tasks, lent


def told(world: World) -> list[str]:
    """The jobs whose tasks were told to stop and still run."""
    return sorted(world.names[start.job] for start in world.told.values())


# --- between groups --------------------------------------------------------------------------------------------------


def test_a_task_inside_is_no_victim_by_itself_within_the_minimum_time_of_its_lease() -> None:
    """A lease of 6 of 8 cores with ``min_time``, and a task of 5 in it: a group below its quota waits until the minimum
    time is over.
    """
    world = cluster()
    hold(world, keeps="10min").run(of("a", "task", 5, workload="w")).wait(4)
    world.submit(of("b", "entitled", 5)).decide()
    assert not told(world)
    assert books(world) == (0, 1, 5, 0)
    assert world.core.next_wakeup() == 10 * MINUTE
    world.wake()
    assert told(world) == ["lease", "task"]
    world.yield_victims()
    assert "entitled" in world.started()
    assert not world.core.pool.leases


def test_a_lease_is_one_victim_with_the_grace_of_each_of_its_tasks() -> None:
    world = cluster(grace=20 * SECOND)
    hold(world, 6, uses=1, stop_grace="30s").run(of("a", "task", 2, workload="w").tasks(2).stop_grace("10s")).wait(4)
    world.submit(of("b", "entitled", 7)).decide()
    graces = [(world.names[each.job], each.grace) for each in world.decisions if isinstance(each, Preempt)]
    assert graces == [("lease", 20 * SECOND), ("task", 10 * SECOND), ("task", 10 * SECOND)]
    (claim,) = [each for each in world.decisions if isinstance(each, Claim)]
    assert not claim.leased
    # The tasks end first: what they had starts nothing of their workload again.
    world.end([each for each in world.told.values() if world.names[each.job] == "task"], Outcome.PREEMPTED).decide()
    assert world.jobs_running() == ["lease"]
    world.yield_victims()
    assert "entitled" in world.started()


def test_what_a_lease_does_not_use_goes_back_with_the_whole_lease_alone() -> None:
    """Two of its six cores are idle: they are not taken behind the holder's back, the lease is preempted."""
    world = cluster()
    hold(world, uses=4, keeps="1min")
    world.submit(of("b", "entitled", 4)).decide()
    assert (told(world), books(world)) == ([], (4, 2, 0, 0))
    world.wake()
    assert told(world) == ["lease"]
    assert not [each for each in world.decisions if isinstance(each, LeaseReduced)]
    world.yield_victims()
    assert "entitled" in world.started()


def test_an_idle_lease_goes_back_at_once_after_its_minimum_time() -> None:
    world = cluster()
    hold(world, keeps="1min")
    world.submit(of("b", "entitled", 4)).decide()
    assert (told(world), books(world)) == ([], (0, 6, 0, 0))
    assert world.wake() == MINUTE
    assert told(world) == ["lease"]
    assert "entitled" in world.started()


def test_the_cheapest_lease_goes_by_all_that_it_has() -> None:
    """A lease that uses nothing itself is worth the tasks inside; one with fewer of them goes first."""
    world = cluster(count=2)
    hold(world, 8, name="busy").run(of("a", "two", 2, workload="w").tasks(2))
    hold(world, 8, name="calm").run(of("a", "one", 2, workload="w").requires('Name = "n2"'))
    world.wait(5).submit(of("b", "entitled", 8)).decide()
    assert told(world) == ["calm", "one"]


def test_leases_of_a_gang_go_together_with_the_tasks_in_each() -> None:
    world = cluster(count=2)
    world.run(of("a", "lease", 6, workload="w").tasks(2).gang().as_lease())
    use(world, 0).run(of("a", "task", 5, workload="w").tasks(2)).wait(4)
    world.submit(of("b", "entitled", 8)).decide()
    assert told(world) == ["lease", "lease", "task", "task"]
    world.yield_victims()
    assert "entitled" in world.started()


def test_a_task_inside_two_leases_goes_with_both() -> None:
    world = cluster(group("a", 1), group("b", 8), cpu=8)
    hold(world, 3, name="one")
    hold(world, 3, name="two")
    world.run(of("a", "task", 5, workload="w")).wait(4)
    assert (books(world, "one"), books(world, "two")) == ((0, 0, 3, 0), (0, 1, 2, 0))
    world.submit(of("b", "entitled", 7)).decide()
    assert told(world) == ["one", "task", "two"]
    world.yield_victims()
    assert "entitled" in world.started()


def test_what_a_victim_has_lent_stays_with_the_borrower() -> None:
    world = cluster(group("a", 1), group("b", 8), group("c", 8), lending="on")
    hold(world, uses=2).run(of("c", "borrower", 3, limit="1min")).wait(4)
    assert books(world) == (2, 3, 0, 1)
    world.submit(of("b", "entitled", 5)).decide()
    assert told(world) == ["lease"]
    world.yield_victims()
    assert world.jobs_running() == ["borrower", "entitled"]


def test_a_borrower_that_is_a_victim_gives_its_lease_what_it_borrowed() -> None:
    world = cluster(group("a", 8), group("b", 8), group("c", 1), lending="on")
    hold(world).run(of("c", "own", 1), of("c", "borrower", 3, limit="1min")).wait(4)
    world.submit(of("b", "entitled", 1)).decide()
    assert told(world) == ["borrower"]
    world.yield_victims()
    # Nobody else waits, so it may borrow again at once.
    assert (books(world), world.jobs_running()) == ((0, 3, 0, 3), ["borrower", "entitled", "lease", "own"])


@pytest.mark.parametrize(
    ("inside", "goes"),
    [
        (of("a", "task", 5, workload="w").type(JobType.DATABASE), False),
        (of("a", "task", 2, workload="w").tasks(2).type(JobType.SERVICE, minimum=1), False),
        (of("a", "task", 2, workload="w").tasks(2).type(JobType.SERVICE), True),
    ],
    ids=["database", "minimum", "service"],
)
def test_a_lease_yields_only_if_all_in_it_may(inside: JobBuilder, goes: bool) -> None:
    world = cluster()
    hold(world).run(inside).wait(4)
    world.submit(of("b", "entitled", 5)).decide()
    assert bool(told(world)) is goes


def test_each_task_of_a_lease_runs_for_the_least_time_before_it_yields() -> None:
    world = cluster(min_runtime=30 * SECOND)
    hold(world).wait(20).run(of("a", "task", 5, workload="w"))
    world.submit(of("b", "entitled", 5)).decide()
    assert not told(world)
    assert world.wake() == 30 * SECOND
    assert world.wake() == 50 * SECOND
    assert told(world) == ["lease", "task"]


def test_gpus_of_a_lease_are_free_with_all_of_it() -> None:
    world = World(
        group("a", 1), group("b", 8), nodes=[node("n1").cpu(8).gpus(2)], dimensions=("gpu",), node_order="first",
    )  # fmt: skip
    world.run(job("lease").cpu(6).needs(gpu=2).group("a").workload("w").as_lease())
    use(world, 0).run(job("task").cpu(1).needs(gpu=1).group("a").workload("w")).wait(4)
    world.submit(job("entitled").cpu(1).needs(gpu=1).group("b")).decide()
    assert told(world) == ["lease", "task"]
    world.yield_victims()
    assert "entitled" in world.started()


# --- the other ways of preemption ------------------------------------------------------------------------------------


def within(**options: Any) -> World:
    return cluster(group("a", 8).with_options(preempt_within="lower_priority"), **options)


def test_within_a_group_a_lease_yields_to_another_workload_as_a_whole_or_stays() -> None:
    for priority, goes in ((0, ["lease", "task"]), (5, [])):
        world = within()
        hold(world).run(of("a", "task", 5, workload="w", priority=priority)).wait(4)
        world.submit(of("a", "urgent", 5, workload="x", priority=3)).decide()
        assert told(world) == goes


@pytest.mark.parametrize("how", ["priority in the group", "priority in the workload"])
def test_a_task_that_leaves_a_lease_to_another_of_its_workload_leaves_it_its_room(how: str) -> None:
    world = within() if how == "priority in the group" else cluster(group("a", 8), lending="on")
    hold(world, 8).run(of("a", "low", 2, workload="w").tasks(4)).wait(4)
    world.submit(of("a", "high", 2, workload="w", priority=1)).decide()
    assert told(world) == ["low"]
    assert not [each for each in world.decisions if isinstance(each, Claim)]
    # While that one ends, no other one has to.
    world.wait(1).decide()
    assert "was preempted" not in world.why("high")
    world.yield_victims()
    assert (world.jobs_running(), books(world)) == (["high", "lease", "low", "low", "low"], (0, 0, 8, 0))


@pytest.mark.parametrize("size", [2, 8])
def test_one_large_task_inside_is_no_wall_against_any_priority_of_its_workload(size: float) -> None:
    world = cluster(group("a", 8), lending="on")
    hold(world, 8).run(of("a", "low", 8, workload="w")).wait(4)
    world.submit(of("a", "high", size, workload="w", priority=1)).decide()
    assert told(world) == ["low"]
    world.yield_victims()
    assert (world.jobs_running(), books(world)) == (["high", "lease"], (0, 8 - size, size, 0))


def test_for_another_workload_no_task_leaves_a_lease_that_stays() -> None:
    """The lease of w is worth more than the unit of x, the task in it less."""
    world = within()
    hold(world, 4, priority=5).run(of("a", "low", 4, workload="w"))
    world.run(of("a", "other lease", 4, workload="x", priority=5).as_lease())
    use(world, 0, "other lease").run(of("a", "full", 4, workload="x", priority=5)).wait(4)
    world.submit(of("a", "urgent", 4, workload="x", priority=3)).decide()
    assert told(world) == []


def test_a_loan_is_given_back_to_the_lease_for_a_task_of_its_workload() -> None:
    world = cluster(group("a", 8), group("c", 8), lending="on", cpu=6)
    hold(world).run(of("c", "borrower", 5, limit="1min")).wait(1)
    world.submit(of("a", "task", 4, workload="w")).decide()
    assert told(world) == ["borrower"]
    world.yield_victims()
    assert books(world) == (0, 2, 4, 0)


def test_a_less_urgent_lease_yields_with_all_its_tasks() -> None:
    world = cluster(group("a", 8, "Urgency").with_options(urgency_threshold="0.5"))
    world.set_clock("2026-12-01T12:00+00:00")
    hold(world).run(of("a", "task", 5, workload="w")).wait(4)
    due = round(datetime.fromisoformat("2026-12-01T13:05+00:00").timestamp()) * SECOND
    world.submit(of("a", "tight", 5, limit="1h").deadline(due)).decide()
    assert told(world) == ["lease", "task"]


def test_an_exchange_in_a_tree_takes_a_lease_as_a_whole() -> None:
    world = World(
        group("p", 8).most(8), group("a", 4).inside("p"), group("b", 4).inside("p"), group("o", 4),
        nodes=[node("n1").cpu(8).memory("8G"), node("n2").cpu(4).memory("4G")], node_order="first",
    )  # fmt: skip
    hold(world, 8).run(of("a", "task", 3, workload="w")).wait(4)
    world.submit(of("b", "inner", 4)).decide()
    assert told(world) == ["lease", "task"]
    world.yield_victims()
    assert "inner" in world.started()


def test_an_advance_reservation_takes_a_lease_as_a_whole() -> None:
    world = cluster(group("a", 8), group("b", 8), cpu=6).set_clock("2026-12-01T12:00+00:00")
    hold(world, uses=1).run(of("a", "task", 3, workload="w"))
    start = round(datetime.fromisoformat("2026-12-01T13:00+00:00").timestamp()) * SECOND
    spec = AdvanceReservation(name="exam", group="b", start=start, end=start + 3600 * SECOND, places=(("n1", 1),))
    world.observe([AdvanceReserved(find(world.core.books, spec).reservation)]).decide()
    world.wait(3600).decide()
    assert told(world) == ["lease", "task"]
    assert {each.reservation for each in world.decisions if isinstance(each, Stop)} == {"exam"}
    world.end([each for each in world.told.values() if world.names[each.job] == "task"], Outcome.PREEMPTED).decide()
    assert not [each for each in world.decisions if isinstance(each, LeaseReduced)]
    world.yield_victims()
    assert world.core.cluster.free(0)[0] == 6000


def test_a_group_that_cools_off_starts_tasks_in_the_leases_that_it_holds_anyway() -> None:
    world = cluster(group("a", 1), group("b", 8), count=2)
    hold(world, 8, keeps="1h").run(of("a", "other", 8)).wait(4)
    world.submit(of("b", "entitled", 8)).decide()
    assert told(world) == ["other"]
    world.submit(of("a", "task", 5, workload="w"), of("a", "outside", 1)).decide()
    assert "task" in world.started()
    world.yield_victims()
    world.finish("entitled")
    # Elsewhere it starts what it borrows only as nobody else waits.
    assert world.started()[-1] == "other"
    assert books(world) == (0, 3, 5, 0)


def without_its_part(room: float, *, workload: str = "w") -> World:
    """A part of 6 cores of group a was preempted and has its room again; b waits for a node of 32 cores, and group a
    cools off.
    """
    world = cluster()
    made = of("a", "part", 6, workload=workload)
    world.run(made.as_lease() if workload else made).wait(4)
    world.submit(of("b", "entitled", 5)).decide()
    world.yield_victims()
    world.add_node(node("n2").cpu(32).memory("32G")).run(of("b", "big", 32))
    world.submit(of("b", "waits", room)).decide()
    world.finish("entitled")
    return world


def test_a_part_of_a_framework_comes_back_at_once_where_nobody_else_who_waits_could_run() -> None:
    assert "part" in without_its_part(32).jobs_running()
    # What costs somebody waits, and so do tasks of no framework.
    for world in (without_its_part(9, workload=""), without_its_part(32, workload="")):
        assert "cooling-off" in world.why("part")


def test_a_part_comes_back_only_to_the_nodes_that_nobody_else_waits_for() -> None:
    """Both nodes have room for it; the first one is what b waits for."""
    world = cluster(cpu=16)
    world.run(of("a", "part", 6, workload="w").as_lease(), of("a", "other", 8, priority=5)).wait(4)
    world.submit(of("b", "entitled", 3)).decide()
    assert told(world) == ["part"]
    world.yield_victims()
    world.finish("entitled", decide=False)
    world.add_node(node("n2").cpu(8).memory("8G")).submit(of("b", "waits", 9).requires('Name = "n1"')).decide()
    assert world.state("waits").waiting
    assert world.nodes_of("part") == ["n2"]


def test_parts_of_a_gang_come_back_together_where_nobody_else_could_run() -> None:
    world = cluster(count=2)
    world.run(of("a", "parts", 6, workload="w").tasks(2).gang().as_lease()).wait(4)
    world.submit(of("b", "entitled", 8)).decide()
    world.yield_victims()
    world.add_node(node("n3").cpu(32).memory("32G")).run(of("b", "big", 32))
    world.submit(of("b", "waits", 32)).decide()
    world.finish("entitled")
    assert world.jobs_running() == ["big", "parts", "parts"]


def test_foreign_use_of_a_node_takes_nothing_of_a_lease() -> None:
    world = cluster()
    hold(world)
    amounts = (4000, *(0,) * (len(world.core.dimensions.names) - 1))
    world.observe([ForeignUse("n1", amounts)]).decide()
    assert books(world) == (0, 6, 0, 0)
    world.finish("lease")
    assert world.core.cluster.free(0)[0] == 4000


# --- histories -------------------------------------------------------------------------------------------------------


class History:
    """A random history of three groups of which each holds leases, preempts and borrows; the world checks all
    invariants after every event.
    """

    def __init__(self, seed: int, seen: Counter[str]) -> None:
        self.rng = rng = Random(seed)
        self.seen = seen
        options: dict[str, Any] = {"cooling": 0, "cooling_above_quota": 0}
        options |= {"lending": rng.choice(("on", "off")), "min_runtime": rng.choice((0, 5 * SECOND))}
        inside = rng.choice(("off", "lower_priority"))
        groups = [
            group(name, quota, "Priority").with_options(preempt_within=inside)
            for name, quota in (("a", 2), ("b", 6), ("c", 8))
        ]
        self.world = cluster(*groups, count=2, **options)

    def play(self, count: int) -> None:
        for number in range(count):
            if number % 10 == 0:
                # Again from an empty cluster that holds leases of group a, with tasks inside.
                self.clear()
                for each in (-number - 1, -number - 2):
                    self.ask(each, "a")
                self.step(self.use, number)
                self.step(self.work, -number - 1)
            what = (self.ask, self.use, self.work, self.work, self.work, self.wait, self.stop, self.end)
            self.step(self.rng.choice(what), number)

    def step(self, what: Callable[[int], None], number: int) -> None:
        what(number)
        before = len(self.world.decisions)
        self.world.decide()
        self.look(self.world.decisions[before:])

    def clear(self) -> None:
        for name, number in self.world.ids.items():
            if number in self.world.core.jobs:
                self.world.cancel(name)
        self.world.end(list(self.world.running.values()), Outcome.CANCELLED).decide()

    def look(self, decisions: list[Any]) -> None:
        """No task in a held lease is preempted by itself for another group, no lease within its minimum time, and
        nothing goes back from one that is used.
        """
        core, told = self.world.core, {each.attempt: each for each in decisions if isinstance(each, Preempt)}
        for lease in core.pool.leases.values():
            if lease.holder is None:
                continue
            taken = told.keys() & {lease.id, *lease.tasks}
            others = {number for number in taken if core.jobs[told[number].by].group is not lease.workload.group}
            assert not others or lease.holder.stopping
            self.seen["whole"] += lease.id in taken and len(taken) > 1
            self.seen["left"] += bool(taken) and not lease.holder.stopping
            self.seen["lent"] += bool(lease.lent)
            if lease.id in taken:
                assert self.world.now >= lease.holder.start + lease.holder.job.job.min_time

    def ask(self, number: int, name: str = "") -> None:
        size, priority = self.rng.choice((2, 4, 6)), self.rng.randint(0, 2)
        made = of(name or self.rng.choice("abc"), f"lease{number}", size, workload="w", priority=priority)
        made = made.as_lease().keeps(self.rng.choice(("0s", "20s")))
        self.world.submit(made.tasks(2).gang() if self.rng.random() < 0.3 else made).decide()

    def use(self, number: int) -> None:
        for lease in [lease for lease in self.world.core.pool.leases.values() if lease.is_held]:
            assert lease.holder is not None
            share, has = self.rng.choice((0, 0, 0, 0.5, 1)), lease.holder.job.job.request
            self.world.observe([LeaseUsed(lease.id, tuple(int(share * each) for each in has))])

    def work(self, number: int) -> None:
        rng, inside = self.rng, number < 0 or self.rng.random() < 0.5
        name, size = "a" if inside else rng.choice("abc"), rng.choice((1, 2, 3, 5))
        made = of(name, f"job{number}", size, priority=rng.randint(0, 2), limit=rng.choice(("1min", "9h")))
        self.world.submit((made.workload("w") if inside else made).tasks(rng.choice((1, 1, 3))))

    def wait(self, number: int) -> None:
        self.world.wait(self.rng.choice((1, 6, 25)))

    def stop(self, number: int) -> None:
        told = list(self.world.told.values())
        if told:
            self.world.end([self.rng.choice(told)], Outcome.PREEMPTED)

    def end(self, number: int) -> None:
        running = [each for each in self.world.running.values() if each.attempt not in self.world.told]
        if running:
            self.world.end([self.rng.choice(running)], Outcome.SUCCEEDED)


def test_whatever_happens_a_held_lease_keeps_what_it_has_or_yields_as_a_whole() -> None:
    seen: Counter[str] = Counter()
    for seed in range(8):
        History(seed, seen).play(60)
    assert min(seen[name] for name in ("whole", "left", "lent")) > 1, seen


@pytest.mark.long
def test_long_histories_of_held_leases() -> None:
    for seed in range(100, 160):
        History(seed, Counter()).play(100)
