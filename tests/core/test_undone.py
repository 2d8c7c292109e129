"""No decision is undone by the next (design note 0011): what starts is not stopped by a unit that could have had its
room.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random
from typing import Any, TypeAlias

import pytest

from cress.core.charges import dominant_share
from cress.core.groups.guarantees import charge_of_tasks
from cress.core.placing.vetoes import Verdict
from cress.model.decisions import Claim, Decision, Preempt, Start
from cress.model.errors import InputError, NotAccepted
from cress.model.events import Outcome
from cress.model.group import SchedPolicy
from cress.model.job import JobType
from cress.model.times import HOUR, NEVER, SECOND
from tests.core.builders import GroupBuilder, JobBuilder, NodeBuilder, World, group, job, node, nodes
from tests.core.test_advance_reservations import NOON, at, keep, reservation

GRACE = 5 * SECOND
# A submission, the end of an attempt, or a promised time.
Event: TypeAlias = "JobBuilder | tuple[int, Outcome] | None"


# --- narrative cases -------------------------------------------------------------------------------------------------


def saturated(cores: float, count: int, quota: int) -> World:
    """Two groups with half of the cluster each, on equal nodes."""
    return World(group("a", quota), group("b", quota), nodes=nodes(count, cpu=cores))


def hours(name: str, cpu: float, run: float, tasks: int) -> JobBuilder:
    return job(name).cpu(cpu).tasks(tasks).limit(run * 3600).group(name)


def test_a_due_unit_does_not_start_above_its_quota_before_a_group_that_is_owed_the_room() -> None:
    """Two units of 4 cores on 10: each group has one, and whoever's task ends has the next."""
    world = Play(saturated(10, 1, 5)).submit(0, hours("b", 4, 3, 2)).submit(60, hours("a", 4, 3, 2)).play()
    assert world.preempted == ["b"], "the first one, by a group that had nothing"


def test_units_that_do_not_divide_a_quota_are_not_started_in_vain() -> None:
    world = Play(saturated(8, 4, 16)).submit(0, hours("a", 7, 2, 5)).submit(10, hours("b", 7, 2, 5)).play()
    assert world.preempted == ["a", "a"]


def test_an_older_task_does_not_pay_for_a_start_above_the_quota() -> None:
    """With the small task its group would be so far above its quota that the wide one could be stopped."""
    world = World(group("g", 9), group("h", 9), nodes=nodes(1, cpu=11), min_runtime=60 * SECOND)
    world.run(job("wide").cpu(9).limit("1h").group("g")).wait(1800)
    world.submit(job("owed").cpu(9).limit("1h").group("h"), job("small").cpu(2).limit("10min").group("g")).decide()
    assert world.victims() == []
    assert world.veto("small").kind is Verdict.OWED
    world.finish("wide")
    assert world.jobs_running() == ["owed", "small"], "both, as soon as nothing can be taken back"


def test_a_wide_unit_of_the_group_with_the_smallest_share_comes_after_who_is_owed() -> None:
    """G's order alone would start it first, only to stop it for the other group."""
    world = World(group("wide", 5), group("owed", 20), nodes=nodes(1, cpu=25))
    world.run(job("has").cpu(4).group("wide"), job("has too").cpu(17).group("owed"))
    world.submit(job("more").cpu(4).group("wide"), job("small").group("owed")).decide()
    assert world.jobs_running() == ["has", "has too", "small"]
    assert world.victims() == []


def test_in_a_tree_who_takes_for_the_group_above_comes_after_those_who_could_take_it_back() -> None:
    """a, which has nothing, takes for p; b takes for m, from o and from a. Five cores are free."""
    world = World(
        group("p", 0), group("a", 1).inside("p"), group("m", 0).inside("p"), group("b", 4).inside("m"),
        group("c", 5).inside("m"), group("o", 9), nodes=nodes(1, cpu=19),
    )  # fmt: skip
    world.run(job("others").tasks(10).group("o"), job("has").tasks(4).group("b"))
    world.submit(job("for p").cpu(4).group("a"), job("for m").cpu(4).group("b")).decide()
    assert world.jobs_running() == ["for m", *["has"] * 4, *["others"] * 10]
    world.wait(60).decide()
    assert world.victims() == []
    assert world.veto("for p").kind in (Verdict.NO_ROOM, Verdict.FORBIDDEN)
    # Without the other one it starts at once.
    world.finish("for m")
    assert "for p" in world.jobs_running()


def test_a_task_that_leaves_its_group_too_much_of_a_kind_of_node_comes_after_who_is_guaranteed_that_kind() -> None:
    """Group a has 4 of its 5 devices of the kind x, and four are free; b has none of its 3, but 2 of 2 of the other."""
    here = [node(f"{kind}{i}").cpu(8).has(gpu=4).where(GPUModel=kind) for kind in ("x", "y") for i in (1, 2)]
    world = World(
        group("a", "<cpu=20, gpu(x)=5, gpu(y)=5>"), group("b", "<cpu=5, gpu(x)=3, gpu(y)=2>"), nodes=here,
        dimensions=("gpu",), accounting="dominant",
    )  # fmt: skip
    large = job("large").needs(gpu=4).group("a")
    world.run(
        large.named("on x").requires('Name = "x1"'),
        large.named("on y").requires('Name = "y1"'),
        job("has").needs(gpu=2).group("b").requires('Name = "y2"'),
    )
    world.submit(large, job("small").needs(gpu=1).group("b").requires('GPUModel = "x"')).decide()
    assert world.victims() == []
    assert world.jobs_running() == ["has", "on x", "on y", "small"]


def of_kinds(*groups: GroupBuilder) -> World:
    """A node with four devices of the kind x, and one with four of the kind y."""
    here = [node(kind).cpu(8).has(gpu=4).where(GPUModel=kind) for kind in ("x", "y")]
    return World(*groups, nodes=here, dimensions=("gpu",), accounting="dominant")


def test_who_may_have_a_kind_of_node_for_the_group_above_comes_before_who_has_only_another_kind_to_take_back() -> None:
    """Group a takes x for p. Group b could take the device of the kind y from a, but not the room on x."""
    world = of_kinds(
        group("p", 0), group("a", "<cpu=3, gpu(x)=2>").inside("p"), group("c", "<cpu=1, gpu(x)=2>").inside("p"),
        group("b", "<cpu=12, gpu(y)=4>"),
    )  # fmt: skip
    some = job("on x").needs(gpu=2).group("a").requires('GPUModel = "x"')
    world.run(some, job("on y").needs(gpu=2).group("a").requires('GPUModel = "y"'))
    world.submit(some.named("for p"), job("other").tasks(2).needs(gpu=1).group("b").requires('GPUModel = "x"'))
    world.decide()
    assert world.jobs_running() == ["for p", "on x", "on y"]
    assert world.wait(60).decide() == []


def test_a_due_unit_starts_on_no_kind_of_node_that_another_group_is_owed() -> None:
    world = of_kinds(group("a", "<cpu=8, gpu(x)=4, gpu(y)=2>"), group("b", "<cpu=8, gpu(y)=2>"))
    world.run(job("all").tasks(2).needs(gpu=4).gang().group("a").limit(3600))
    world.submit(job("any").needs(gpu=2).group("b")).decide()
    world.wait(1800).submit(job("x").tasks(4).needs(gpu=1).group("a").requires('GPUModel = "x"')).decide()
    world.wait(1800).finish("all")
    assert world.nodes_of("any") == ["y"]
    assert world.jobs_running() == ["any", "x", "x", "x", "x"]


def test_in_a_tree_a_unit_behind_one_that_no_node_can_hold_takes_its_room_first_as_well() -> None:
    """Group b may have 11 of its 10 cores; but then a, which takes 4 for p, would take 3 of them back."""
    world = World(
        group("p", 0), group("a", 1).inside("p"), group("e", 4).inside("p"), group("b", 10), nodes=nodes(1, cpu=15)
    )
    world.run(job("has").group("a"), job("others").cpu(8).group("b"))
    world.submit(
        job("nowhere").group("a").requires('Rack = "none"'),
        job("for p").cpu(4).group("a"),
        job("more").cpu(3).group("b"),
    ).decide()
    assert world.jobs_running() == ["for p", "has", "others"]
    assert world.wait(60).decide() == []


def test_a_claimed_unit_beyond_the_quota_gives_up_its_room_to_a_group_that_came_to_be_owed_it() -> None:
    """Group a, with 8 of 10 cores, makes room for 3; meanwhile group c comes, which may take them back."""
    quotas = {"a": 10, "b": 5, "c": 20}
    world = World(
        *(group(name, f"<cpu={cpu}, gpu(x)=1>") for name, cpu in quotas.items()),
        nodes=[node("x").cpu(33).has(gpu=4).where(GPUModel="x")], dimensions=("gpu",), accounting="dominant",
    )  # fmt: skip
    world.run(job("a's").cpu(8).group("a"), job("first").cpu(5).group("b"), job("c's").cpu(17).group("c"))
    world.wait(60).run(job("second").cpu(3).group("b"))
    world.wait(60).submit(job("claims").cpu(3).group("a")).decide()
    assert world.victims() == ["second"]
    world.submit(job("owed").cpu(3).group("c")).decide()
    world.yield_victims()
    assert world.jobs_running() == ["a's", "c's", "first", "owed"]
    assert world.wait(60).decide() == []


def test_room_that_a_claimed_unit_gives_up_goes_at_once_to_a_group_that_was_asked_before_it() -> None:
    """Group a comes first in the order and is refused the claimed room; then b, whose quota fell, gives it up."""
    world = World(group("a", 2), group("b", 3), nodes=nodes(1, cpu=5))
    world.run(job("b's").group("b"), job("a's").tasks(4).group("a"))
    world.wait(60).submit(job("claims").cpu(2).group("b")).decide()
    assert world.victims() == ["a's", "a's"]
    world.apply(group("a", 4), group("b", 1))
    world.yield_victims()
    assert world.jobs_running() == ["a's"] * 4 + ["b's"]
    assert world.wait(60).decide() == []


def test_a_gang_starts_on_no_kind_of_node_that_another_group_is_owed() -> None:
    """It would fit on either kind; only one of them is its group's."""
    world = of_kinds(group("g", "<cpu=8, gpu(y)=4>"), group("o", "<cpu=8, gpu(x)=4>"))
    gang = job("gang").tasks(2).needs(gpu=2).gang().group("g")
    world.submit(gang, job("x").needs(gpu=4).group("o").requires('GPUModel = "x"')).decide()
    assert world.victims() == []
    assert world.jobs_running() == ["gang", "gang", "x"]


def test_a_gang_on_two_kinds_of_nodes_does_not_start_before_who_could_take_one_of_them_back() -> None:
    """They could take room from each other, but not on the same kind."""
    world = of_kinds(
        group("p", 0), group("a", "<cpu=8, gpu(x)=1>").inside("p"), group("b", "<cpu=8, gpu(y)=1>").inside("p")
    )
    world.submit(job("gang").tasks(3).needs(gpu=2).gang().group("a"), job("one").needs(gpu=4).group("b")).decide()
    assert world.jobs_running() == ["one"]
    assert world.wait(60).decide() == []


def test_in_a_tree_the_unit_that_comes_next_is_the_first_that_its_group_may_start_for_the_group_above() -> None:
    """The first unit of group a is beyond what a may take for p; the one behind it took the room back from the gang."""
    world = of_kinds(
        group("p", 0), group("a", "<cpu=1, gpu(y)=3>").inside("p"),
        group("b", "<cpu=12, gpu(x)=3, gpu(y)=1>").inside("p"), group("o", "<cpu=3, gpu(x)=1>"),
    )  # fmt: skip
    on_x = 'GPUModel = "x"'
    world.run(
        job("y").cpu(2).needs(gpu=3).group("a").requires('GPUModel = "y"'),
        job("x").needs(gpu=2).group("a").requires(on_x),
    )
    world.submit(
        job("b").cpu(2).needs(gpu=4).group("b"),
        job("wide").needs(gpu=2).group("a"),
        job("small").needs(gpu=1).group("a").requires(on_x),
        job("gang").needs(gpu=1).tasks(3).gang().group("o"),
    ).decide()
    assert world.jobs_running() == ["small", "x", "y"]
    assert world.wait(30).decide() == []


def test_nothing_starts_behind_an_urgent_unit_that_it_would_stop_at_once() -> None:
    """The free core and one of the two that run suffice for it."""
    world = World(group("g", 3, "Urgency"), nodes=nodes(1, cpu=3)).set_clock(NOON)
    world.run(job("runs").tasks(2).limit(3600).group("g")).wait(60)
    urgent = job("urgent").cpu(2).limit(600).deadline(at("12:12"))
    world.submit(urgent.group("g"), job("small").limit(10).group("g")).decide()
    assert world.victims() == ["runs"]
    assert "small" not in world.jobs_running()


def test_a_unit_that_becomes_urgent_leaves_a_task_the_grace_of_its_start() -> None:
    world = World(group("g", 2, "Urgency"), nodes=nodes(1, cpu=2)).set_clock(NOON)
    world.run(job("stays").limit(3600).group("g"))
    world.submit(job("urgent").cpu(2).limit(600).deadline(at("12:15")).group("g")).decide()
    world.wait(148).submit(job("small").limit(60).group("g")).decide()
    assert world.wake() == 150 * SECOND + 1, "urgent: 600 s of 750"
    assert world.victims() == []
    assert world.wake() == 153 * SECOND, "5 s after the start"
    assert world.victims() == ["small", "stays"]


FULL = {
    "it is owed up to quota x B": [("a", 18, "large"), ("c", 6, "large"), ("b", 13, "other"), ("c", 11, "other")],
    "it is owed its quota": [
        ("a", 12, "large"),
        ("c", 6, "large"),
        ("b", 6, "large"),
        ("b", 3, "other"),
        ("c", 21, "other"),
    ],
}


@pytest.mark.parametrize("full", FULL.values(), ids=FULL)
def test_a_unit_is_owed_no_room_where_it_costs_more_than_its_group_may_take(full: list[tuple[str, int, str]]) -> None:
    """On the small node a task costs its group four times as much as on the large one, where it would be in the quota.

    It was started there first, stopped for the other group, and took the room back: for ever, every 20 s.
    """
    world = World(
        group("a", 1), group("b", 1, "Urgency"), group("c", 2),
        nodes=[node("small").cpu(6), node("large").cpu(24), node("other").cpu(24)], accounting="dominant",
    )  # fmt: skip
    world.run(*(
        job(f"{name}{i}").cpu(cpu).group(name).requires(f'Name == "{place}"')
        for i, (name, cpu, place) in enumerate([*full, ("b", 2, "small")])
    ))  # fmt: skip
    play = Play(world)
    play.submit(0, job("dear").cpu(4).group("a").limit(60), job("owed").group("b").limit(300)).play()
    assert play.preempted == []
    assert world.started()[-2:] == ["owed", "dear"]
    assert world.now == 360 * SECOND, "one after the other"


def of_unequal_nodes(accounting: str, quotas: dict[str, float], **sizes: tuple[int, int]) -> World:
    """Nodes with these numbers of cores and GiB, and groups with quotas in cores or servers."""
    unit = 1_000_000 if accounting == "dominant" else 1_000
    groups = [group(name, 1).exactly(round(quota * unit)) for name, quota in quotas.items()]
    places = [node(name).cpu(cores).memory(f"{memory}G") for name, (cores, memory) in sizes.items()]
    return World(*groups, nodes=places, accounting=accounting)


def test_a_gang_starts_on_no_nodes_where_it_would_cost_its_group_more_than_its_quota_and_be_stopped() -> None:
    """On the small node, the only one with room for its second task, that costs as much as four on a large one.

    It was started there first, and stopped for the other group.
    """
    world = of_unequal_nodes("dominant", {"a": 1, "b": 2}, small=(4, 4), one=(16, 32), two=(16, 32))
    world.run(job("has").cpu(12).tasks(2).group("b").requires('Name != "small"'))
    owed, gang = job("owed").cpu(4).group("b"), job("gang").cpu(4).tasks(2).gang().group("a")
    world.run(job("too").cpu(4).group("a").requires('Name == "one"'))
    world.submit(owed, gang).decide()
    assert world.jobs_running() == ["has", "has", "owed", "too"]
    assert world.wait(60).decide() == []
    world.finish("has")
    assert world.jobs_running() == ["gang", "gang", "owed", "too"]
    assert "small" not in world.nodes_of("gang")


@pytest.mark.parametrize(
    "gang",
    [
        pytest.param(job("gang").cpu(4).tasks(2).gang(), id="plain"),
        pytest.param(job("gang").parts(job("x").cpu(4), job("y").cpu(4)), id="parts that ask for the same"),
    ],
)
def test_a_gang_takes_its_quota_on_cheap_nodes_although_a_dear_one_is_free(gang: JobBuilder) -> None:
    world = of_unequal_nodes("dominant", {"a": 1.1, "b": 1.5, "idle": 0.4}, small=(4, 4), one=(16, 32), two=(16, 32))
    world.run(job("all").cpu(4).tasks(8).group("b").requires('Name != "small"'))
    world.submit(gang.group("a")).decide()
    assert world.victims() == ["all", "all"], "one victim would do, but then the gang cost 1.25 servers"
    world.yield_victims()
    assert "small" not in world.nodes_of("gang")


def where_dear_starts_are_refused(quota: int, *places: NodeBuilder) -> World:
    """Another group is owed room, so gangs of group a start cheapest node first; node ``small`` is dear."""
    every = [*places, node("small").cpu(1), node("full").cpu(8)]
    world = World(group("a", quota), group("b", 2), nodes=every, accounting="dominant").set_clock(NOON)
    world.run(job("has").cpu(8).group("b").requires('Name == "full"'))
    world.submit(job("owed").cpu(8).group("b").requires('Name == "full"')).decide()
    return world


def test_a_gang_on_the_cheapest_nodes_takes_those_reserved_for_its_group_first_if_they_cost_the_same() -> None:
    world = where_dear_starts_are_refused(2, node("n1").cpu(8), node("n2").cpu(8))
    world.run(job("in").cpu(6).group("a").requires('Name == "n2"'))
    keep(world, reservation("r", "12:05", "13:00", "n2", group="a"))
    world.wait(301).submit(job("gang").tasks(4).gang().group("a").limit(60)).decide()
    assert world.nodes_of("gang") == ["n2", "n2", "n1", "n1"]


def test_a_gang_on_the_cheapest_nodes_waits_where_whole_disks_would_leave_less_than_is_held() -> None:
    world = where_dear_starts_are_refused(1, node("n1").cpu(8).disks("50M", "50M"))
    world.run(job("first").group("a").requires("ExclusiveDisk = True"))
    world.change_node(node("n1").cpu(8).disks("20M", "20M", "20M"))
    world.submit(job("gang").requires("ExclusiveDisk = True").tasks(2).gang().group("a"))
    assert world.decide() == []


def test_a_task_costs_at_least_what_it_costs_on_some_node() -> None:
    """No node has as many cores as one of them and as much memory as the other."""
    world = of_unequal_nodes("dominant", {"a": 1, "b": 1}, cores=(16, 16), memory=(8, 32))
    world.submit(job("one").cpu(2).memory("4G").group("a"), job("gang").cpu(4).tasks(5).gang().group("a"))
    one, gang = (world.core.jobs[number] for number in (1, 2))
    assert charge_of_tasks(one, 1, world.core.cluster) == (250_000,)
    assert charge_of_tasks(gang, 5, world.core.cluster) == (4 * 250_000 + 500_000,), "four of them fit on the first"
    parts = job("parts").parts(job("x").cpu(4).tasks(5), job("y").cpu(2).memory("4G")).group("a")
    world.submit(parts)
    assert charge_of_tasks(world.core.jobs[3], 6, world.core.cluster) == (4 * 250_000 + 500_000 + 250_000,)


def test_charges_of_any_number_of_gangs_are_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cress.core.tables.cluster._MOST_REQUESTS", 3)
    world = of_unequal_nodes("dominant", {"a": 1}, cores=(16, 16), memory=(8, 32))
    cluster, request = world.core.cluster, job("x").cpu(4).vector(world.dimensions)
    for tasks in range(2, 12):
        assert cluster.least_charge_of(tasks, request, dominant_share) >= 250_000 * tasks
    assert len(cluster._extremes[2]) <= 4


def test_nobody_takes_room_that_its_victims_would_then_keep() -> None:
    """Group b lends nothing of its core. As long as it has more, a may have all the rest; it took b's node for that."""
    world = World(group("a", 119), group("b", 1).lends(0), nodes=nodes(6, cpu=20))
    world.submit(job("large").cpu(20).tasks(6).group("a")).decide()
    assert world.veto("large").kind is Verdict.KEPT
    world.submit(job("wide").cpu(20).group("b")).decide()
    assert world.jobs_running() == [*["large"] * 5, "wide"]
    world.wait(60).decide()
    assert world.victims() == []


def test_who_takes_room_is_within_what_others_lend_by_its_cost_on_the_nodes_of_its_victims() -> None:
    """It costs 2 cores on the large node, and 8 on the other, where its memory is half of the node."""
    world = of_unequal_nodes("cpu", {"a": 16, "b": 16}, large=(16, 64), small=(16, 16))
    world.apply(group("a", 16), group("b", 16).lends(0))
    for name, cpu, of, place in (("a1", 8, "a", "large"), ("a2", 4, "a", "small"), ("y", 11, "b", "small")):
        world.run(job(name).cpu(cpu).group(of).requires(f'Name == "{place}"'))
    world.run(job("x").cpu(8).group("b").requires('Name == "large"'))
    world.submit(job("want").cpu(2).memory("8G").group("a")).decide()
    assert world.victims() == ["x"]


def test_a_start_keeps_its_grace_against_a_group_that_lacks_its_quota_once_its_own_victim_has_ended() -> None:
    assert random_play(236).play().undone == Counter()


def test_a_task_in_the_grace_of_its_start_yields_to_no_unit_that_waited_before() -> None:
    world = World(group("a", 2), group("b", 6), nodes=nodes(1, cpu=8))
    world.run(
        job("stays").cpu(2).group("a"),
        job("too").cpu(4).group("b").type(JobType.DATABASE),
        job("ends").cpu(2).group("b"),
    )
    world.submit(job("waits").cpu(2).group("a"), job("new").cpu(2).group("b")).wait(10).finish("ends")
    assert world.jobs_running() == ["new", "stays", "too"]
    world.wait(2).apply(group("a", 6), group("b", 2)).decide()
    assert world.victims() == []
    assert world.wake() == 15 * SECOND, "5 s after its start"
    assert world.victims() == ["new"]


def test_a_task_yields_at_once_to_a_unit_that_came_after_its_start() -> None:
    world = World(group("a", 4), group("b", 4), nodes=nodes(1, cpu=8)).wait(10)
    world.run(job("new").cpu(2).tasks(4).group("b")).wait(1).submit(job("comes").cpu(2).group("a")).decide()
    assert world.victims() == ["new"]


# --- cooling-off -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cooling", ["as configured", "none"])
def test_a_trivial_task_a_minute_costs_a_borrowing_group_no_more_than_its_own_room(cooling: str) -> None:
    options: dict[str, Any] = {"cooling": 0, "cooling_above_quota": 0} if cooling == "none" else {}
    world = World(group("physics", 8, "BackFill"), group("ticks", 1), nodes=nodes(3, cpu=16), **options)
    play = Play(world)
    play.submit(0, job("borrow").cpu(4).tasks(200).limit(15).group("physics"))
    for minute in range(1, 4):
        play.submit(60 * minute, job(f"tick{minute}").limit(1).group("ticks"))
    play.play()
    assert play.ended_at == 255 * SECOND, (
        "17 rounds of 12 tasks: the three that had to begin again find room in the last"
    )


POLICIES = ("FIFO", "Priority", "BackFill", "Capacity", "Urgency", "EDF")
OPTIONS = {
    "backfill": ("conservative", "off"),
    "preempt_within": ("lower_priority",),
    "min_runtime": ("10s", "2min"),
    "preempt_above": ("1.0", "1.2"),
}


# --- random worlds ---------------------------------------------------------------------------------------------------


class Play:
    """A world whose tasks run exactly as long as their limits, and end in time order; victims end after their grace."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.preempted: list[str] = []
        # Preempted in the very decision in which they started; and without any cause since then.
        self.undone: Counter[str] = Counter()
        self.ended_at = 0
        # Core seconds that victims ran in vain, and that tasks ran to their end.
        self.lost = self.done = 0.0
        # How long (s) each task waited for its first start.
        self.waits: list[float] = []
        self._first: set[tuple[int, int]] = set()
        self._events: list[tuple[int, int, Event]] = []
        self._runs: dict[str, int] = {}
        self._started: dict[int, tuple[int, int]] = {}
        # What may cause a preemption of a task of other groups: submissions ("") and ends, by group.
        self._causes: list[str] = []

    def submit(self, at: float, *jobs: JobBuilder) -> Play:
        for each in jobs:
            self._runs[each.name] = dict(each.rest)["time_limit"]
            self._at(round(at * SECOND), each)
        return self

    def _at(self, time: int, what: Event) -> None:
        heapq.heappush(
            self._events, (time, len(self._causes) * 2**20 + len(self._events) + len(self._started) * 2**40, what)
        )

    def play(self, most: int = 5_000) -> Play:
        """Play until nothing happens any more."""
        world = self.world
        for _ in range(most):
            wake = world.core.next_wakeup()
            if not self._events and (wake is None or wake > world.now + 100 * HOUR):
                return self
            first = self._events[0][0] if self._events else wake
            world.now = max(world.now, min(each for each in (first, wake) if each is not None))
            while self._events and self._events[0][0] <= world.now:
                self._happen(heapq.heappop(self._events)[2])
            before = len(world.decisions)
            world.decide()
            self._follow(world.decisions[before:])
        raise AssertionError("it never ends")

    def promise(self, *times: int) -> Play:
        """At these times (µs) reservations begin or end, which is a cause too."""
        for time in times:
            self._at(time, None)
        return self

    def _happen(self, what: Event) -> None:
        world = self.world
        if what is None:
            self._causes.append("")
        elif isinstance(what, JobBuilder):
            world.submit(what)
            self._causes.append("")
        elif what[0] in world.running:
            start = world.running[what[0]]
            attempt = world.core.attempts[start.attempt]
            self._causes.append(attempt.job.group.name)
            work = (world.now - attempt.start) / SECOND * attempt.amounts[0] / 1000
            if what[1] is Outcome.PREEMPTED:
                self.lost += work
            else:
                self.done += work
            world.end([start], what[1])
            self.ended_at = world.now

    def _follow(self, decided: list[Decision]) -> None:
        world, now = self.world, self.world.now
        fresh = set()
        # In a tree, the end of a task may be the cause for others to take room from its own group and from outside,
        # for a group above both: so there all victims of one claim are judged together, elsewhere each by itself.
        together = bool(world.core.groups.tree.inner)
        without: list[list[bool]] = [[]]
        for each in decided:
            if isinstance(each, Claim) or not together:
                without.append([])
            if isinstance(each, Start):
                fresh.add(each.attempt)
                if (each.job, each.task) not in self._first:
                    self._first.add((each.job, each.task))
                    self.waits.append((now - world.core.jobs[each.job].submitted) / SECOND)
                self._started[each.attempt] = now, len(self._causes)
                self._at(now + self._runs[world.names[each.job]], (each.attempt, Outcome.SUCCEEDED))
            elif isinstance(each, Preempt):
                name = world.names[each.job]
                self.preempted.append(name)
                own = world.core.jobs[each.job].group.name
                began, causes = self._started[each.attempt]
                since = self._causes[causes:]
                if each.attempt in fresh:
                    self.undone["at once"] += 1
                else:
                    without[-1].append(all(cause == own for cause in since) and not self._became_urgent(each.by))
                    if not without[-1][-1] and began < now < began + GRACE and "" not in since:
                        self.undone["in its grace"] += 1
                self._at(now + GRACE, (each.attempt, Outcome.PREEMPTED))
        self.undone += Counter({"without a cause": sum(len(claim) for claim in without if all(claim))})

    def _became_urgent(self, number: int | None) -> bool:
        """A job becomes urgent by itself, with time."""
        job = self.world.core.jobs.get(number) if number is not None else None
        return job is not None and job.group.spec.policy is SchedPolicy.URGENCY and job.deadline < NEVER


def random_play(seed: int) -> Play:
    """Saturated groups whose units do not divide their quotas, flat or in a tree, with any policy that orders by time
    or priority.
    """
    random = Random(seed)
    number, count, cores = random.choice([2, 2, 3, 4]), random.choice([1, 2, 4, 6]), random.choice([8, 10, 16, 20])
    cuts = sorted(random.sample(range(1, count * cores), number - 1))
    quotas = [end - begin for begin, end in zip([0, *cuts], [*cuts, count * cores], strict=True)]
    groups = [
        group(name, quota, random.choice(["FIFO", "Priority", "BackFill", "Capacity"]))
        for name, quota in zip("abcd", quotas, strict=False)
    ]
    if number > 2 and random.random() < 0.4:
        groups = [group("p", 0), *(each.inside("p") if each.name in "ab" else each for each in groups)]
    world = World(
        *groups,
        nodes=[node(f"n{i}").cpu(cores) for i in range(count)],
        check=False,
        drain_after=random.choice([0, 60, 600]) * SECOND,
        behind_blocked=random.choice(["reserve", "reserve", "quota_only"]),
        max_per_round=random.choice([0.1, 1.0]),
    )
    play = Play(world)
    for name, quota in zip("abcd", quotas, strict=False):
        for k in range(random.choice([1, 1, 2, 3])):
            width = max(1, min(cores, round(quota * random.uniform(0.1, 0.6))))
            each = job(f"{name}{k}").cpu(width).tasks(random.randint(2, 12)).group(name)
            play.submit(
                random.choice([0, 1, 60, 300]),
                each.limit(random.choice([60, 600, 1800, 7200])).priority(random.choice([0, 0, 5])),
            )
    return play


def any_play(seed: int) -> Play:
    """The same with all policies and options of groups, gangs, deadlines, and an advance reservation."""
    random = Random(f"any {seed}")
    number, count, cores = random.choice([2, 2, 3, 4]), random.choice([1, 2, 4, 6]), random.choice([8, 10, 16, 20])
    cuts = sorted(random.sample(range(1, count * cores), number - 1))
    quotas = [end - begin for begin, end in zip([0, *cuts], [*cuts, count * cores], strict=True)]
    groups = [group(name, quota, random.choice(POLICIES)) for name, quota in zip("abcd", quotas, strict=False)]
    for i, made in enumerate(groups):
        chosen = {key: random.choice(values) for key, values in OPTIONS.items() if random.random() < 0.2}
        groups[i] = made.with_options(**chosen) if chosen else made
    if number > 2 and random.random() < 0.4:
        groups = [group("p", 0), *(made.inside("p") if made.name in "ab" else made for made in groups)]
    cooling = random.choice([20, 20, 0, 10, 120]) * SECOND
    world = World(
        *groups,
        nodes=nodes(count, cpu=cores),
        check=False,
        drain_after=random.choice([1, 60, 600]) * SECOND,
        behind_blocked=random.choice(["reserve", "reserve", "quota_only"]),
        max_per_round=random.choice([0.1, 1.0]),
        cooling=cooling,
        cooling_above_quota=cooling * random.choice([1, 3]),
        order=random.choice(["share", "share", "share", "urgency", "deadline"]),
    ).set_clock(NOON)
    play = Play(world)
    if random.random() < 0.3:
        begin = random.randint(0, 2)
        with suppress(InputError, NotAccepted):
            owner, place = random.choice("ab"), f"n{random.randint(1, count)}"
            keep(world, reservation("r", f"{12 + begin}:20", f"{13 + begin}:40", place, group=owner))
            play.promise((begin * 60 + 20) * 60 * SECOND, (begin * 60 + 100) * 60 * SECOND)
    for name, quota in zip("abcd", quotas, strict=False):
        for k in range(random.choice([1, 1, 2, 3])):
            width = max(1, min(cores, round(quota * random.uniform(0.1, 0.6))))
            asked = job(f"{name}{k}").cpu(width).tasks(random.randint(2, 12)).group(name)
            if random.random() < 0.2:
                size = random.randint(2, 4)
                asked = job(f"{name}{k}").cpu(max(1, width // size)).tasks(size).group(name).gang()
            run, come = random.choice([60, 600, 1800, 7200]), random.choice([0, 1, 60, 300])
            if random.random() < 0.5:
                asked = asked.deadline(at("12:00") + (come + random.choice([1, 3, 10]) * run) * SECOND)
            play.submit(come, asked.limit(run).priority(random.choice([0, 0, 5])))
    return play


def unequal_play(seed: int) -> Play:
    """Nodes of different sizes, so that a task costs its group more on some than on others."""
    random = Random(f"unequal {seed}")
    number, accounting = random.choice([2, 2, 3]), random.choice(["dominant", "cpu"])
    sizes = [random.choice([4, 8, 16, 24]) for _ in range(random.choice([2, 3, 4]))]
    total, unit = (len(sizes) * 1000, 1000) if accounting == "dominant" else (sum(sizes) * 1000, 1)
    cuts = sorted(random.sample(range(1, total), number - 1))
    quotas = [(end - begin) * unit for begin, end in zip([0, *cuts], [*cuts, total], strict=True)]
    groups = [
        group(name, 1, random.choice(POLICIES)).exactly(quota) for name, quota in zip("abc", quotas, strict=False)
    ]
    world = World(
        *groups,
        nodes=[node(f"n{i}").cpu(size).memory(f"{random.choice([1, 2, 4]) * size}G") for i, size in enumerate(sizes)],
        check=False,
        accounting=accounting,
        drain_after=random.choice([1, 60, 600]) * SECOND,
        behind_blocked=random.choice(["reserve", "reserve", "quota_only"]),
    ).set_clock(NOON)
    play = Play(world)
    for name in "abc"[:number]:
        for k in range(random.choice([1, 1, 2, 3])):
            width, memory = random.choice([1, 2, 3, 4]), random.choice([1, 2, 4, 8, 12])
            run, come = random.choice([60, 600, 1800, 7200]), random.choice([0, 1, 60, 300])
            asked = job(f"{name}{k}").cpu(width).memory(f"{memory}G").tasks(random.randint(2, 12)).group(name)
            if random.random() < 0.2:
                asked = asked.tasks(random.randint(2, 3)).gang()
            play.submit(come, asked.limit(run).priority(random.choice([0, 0, 5])))
    return play


def undone(seeds: Iterable[int], made: Callable[[int], Play] = random_play) -> tuple[int, dict[int, Counter[str]]]:
    """Return the number of preemptions in random worlds, and those that undo a decision, by seed."""
    plays = {seed: made(seed).play() for seed in seeds}
    return sum(len(play.preempted) for play in plays.values()), {
        n: play.undone for n, play in plays.items() if play.undone
    }


@pytest.mark.parametrize(("made", "first"), [(random_play, 100), (any_play, 100), (unequal_play, 20)])
def test_nothing_is_started_that_the_next_decision_stops(made: Callable[[int], Play], first: int) -> None:
    preempted, found = undone(range(first, first + 40), made)
    assert found == {}
    assert preempted > 40, "worlds in which groups take room from each other"


def test_worlds_in_which_a_gang_on_unequal_nodes_was_started_in_vain_do_so_no_more() -> None:
    """In each it was charged as if all its tasks had been on the cheapest node. In 650 a single task was so."""
    _, found = undone((445, 518, 650, 799, 887, 919, 942), unequal_play)
    assert found == {}


@pytest.mark.long
@pytest.mark.parametrize("made", [random_play, any_play, unequal_play])
def test_nothing_is_started_in_vain_in_a_thousand_worlds(made: Callable[[int], Play]) -> None:
    """Known to be left: in a tree a start up to quota × B may be taken back on behalf of a group above; a group that
    comes below its quota when its own victims end may take what others started on free room a moment before.
    """
    preempted, found = undone(range(1_000), made)
    total = sum(found.values(), Counter[str]())
    assert total["at once"] + total["without a cause"] <= preempted / 400, found
    assert total["in its grace"] <= preempted / 400, found
