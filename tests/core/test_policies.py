"""Level two: the order of the jobs inside a group, and what may start beside a blocked one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.groups.policies.counted_queue import CountedQueue
from cress.core.groups.policies.queue import GAP, MOST_PENDING, Queue
from cress.core.groups.policies.ranked_queue import RankedQueue
from cress.core.placing.shape import Shape
from cress.core.placing.vetoes import Verdict
from cress.model.events import Outcome
from cress.model.job import Job
from cress.model.times import HOUR, MINUTE, SECOND
from tests.core.builders import JobBuilder, World, group, job, node, nodes


def one_at_a_time(policy: str, **options: str) -> World:
    """One core and one group g, whose first job runs already."""
    world = World(group("g", 1, policy).with_options(**options), nodes=nodes(1, cpu=1))
    return world.run(job("first").group("g"))


def order_of(world: World) -> list[str]:
    """Let one job after the other have the core; their names in the order in which they started."""
    while world.running:
        world.wait(1).finish(world.jobs_running()[0])
    return world.started()


# --- FIFO ------------------------------------------------------------------------------------------------------------


def test_fifo_goes_by_submit_time_then_by_number() -> None:
    world = one_at_a_time("FIFO")
    world.submit(job("b").group("g").priority(1), job("a").group("g").priority(9))
    world.wait(1).submit(job("c").group("g").priority(99))
    assert order_of(world) == ["first", "b", "a", "c"]


def test_fifo_offers_only_the_head() -> None:
    world = World(group("g", 9), nodes=nodes(1, cpu=4))
    world.run(job("runs").cpu(3).limit(9).group("g"))
    world.submit(job("wide").cpu(2).limit(1).group("g"), job("small").limit(1).group("g")).decide()
    assert world.started() == ["runs"]


def test_the_tasks_of_an_array_start_in_their_order() -> None:
    world = World(group("g", 9), nodes=nodes(1, cpu=4))
    world.submit(job("array").tasks(9).group("g"), job("next").group("g")).decide()
    world.finish("array", 2)
    world.finish("array", 0, 1, 3)
    world.finish("array")
    assert [(start.job, start.task) for start in world.starts] == [*(("array", i) for i in range(9)), ("next", 0)]


# --- Priority --------------------------------------------------------------------------------------------------------


def test_priority_goes_by_priority_then_submit_time() -> None:
    world = one_at_a_time("Priority")
    for name, priority in (("low", -1), ("high 1", 5), ("middle", 0), ("high 2", 5), ("top", 6)):
        world.wait(1).submit(job(name).group("g").priority(priority))
    assert order_of(world) == ["first", "top", "high 1", "high 2", "middle", "low"]


def test_priority_offers_only_the_head() -> None:
    world = World(group("g", 9, "Priority"), nodes=nodes(1, cpu=4))
    world.run(job("runs").cpu(3).limit(9).group("g"))
    world.submit(job("small").limit(1).group("g"), job("wide").cpu(2).priority(1).limit(1).group("g")).decide()
    assert world.started() == ["runs"]


@pytest.mark.parametrize(
    ("later_by", "microseconds", "first"),
    [
        pytest.param(3600, -1, "vip", id="a microsecond short of an hour"),
        pytest.param(3600, 0, "old", id="an hour makes up for 2 points; a tie goes to the first"),
        pytest.param(3600, 1, "old", id="more than an hour"),
    ],
)
@pytest.mark.parametrize("decided_after", [0, 100_000])
def test_ageing_gains_points_by_the_hour(later_by: int, microseconds: int, first: str, decided_after: int) -> None:
    """The order of two jobs does not change while both wait: their keys are static."""
    world = one_at_a_time("Priority", priority_ageing="2")
    world.submit(job("old").priority(1).group("g"))
    world.wait(later_by, microseconds).submit(job("vip").priority(3).group("g"))
    world.wait(decided_after).finish("first")
    assert world.started()[1] == first


def test_by_default_an_hour_of_waiting_is_worth_a_point_so_that_nobody_starves() -> None:
    """A stream of jobs of priority 5, each of which takes ten minutes, and one of priority 0."""
    world = one_at_a_time("Priority")
    world.submit(job("low").priority(0).group("g"))
    names = ["first"]
    while "low" not in world.started():
        names.append(f"high {len(names)}")
        world.submit(job(names[-1]).priority(5).group("g")).wait(600).finish(names[-2])
        assert len(names) < 40
    assert world.now == pytest.approx(5 * HOUR, abs=20 * MINUTE)


def test_without_ageing_waiting_changes_nothing() -> None:
    world = one_at_a_time("Priority", priority_ageing="0")
    world.submit(job("old").priority(1).group("g"))
    world.wait(10**6).submit(job("vip").priority(2).group("g"))
    world.finish("first")
    assert world.started()[1] == "vip"


# --- Capacity --------------------------------------------------------------------------------------------------------


def arrays(*users: str, tasks: int = 100) -> list[JobBuilder]:
    return [job(f"of {user}").tasks(tasks).user(user).group("g") for user in users]


def shares(world: World) -> dict[str, int]:
    return {name.removeprefix("of "): world.jobs_running().count(name) for name in sorted(set(world.jobs_running()))}


def test_capacity_shares_the_group_among_its_users_by_weight() -> None:
    world = World(group("g", 9, "Capacity").user_weights(ann=1, bob=2, cid=3), nodes=nodes(1, cpu=12))
    world.submit(*arrays("ann", "bob", "cid")).decide()
    assert shares(world) == {"ann": 2, "bob": 4, "cid": 6}


def test_capacity_gives_what_ends_to_the_user_with_the_smallest_share() -> None:
    world = World(group("g", 9, "Capacity"), nodes=nodes(1, cpu=9))
    world.submit(*arrays("ann")).decide()
    assert shares(world) == {"ann": 9}
    world.submit(*arrays("bob", "cid")).decide()
    for task in range(6):
        world.finish("of ann", task)
    assert shares(world) == {"ann": 3, "bob": 3, "cid": 3}


def test_capacity_counts_cores_not_tasks() -> None:
    world = World(group("g", 9, "Capacity"), nodes=nodes(1, cpu=12))
    world.submit(job("of ann").cpu(2).tasks(9).user("ann").group("g"), *arrays("bob")).decide()
    assert shares(world) == {"ann": 3, "bob": 6}


def test_capacity_is_fifo_inside_a_user_and_equal_users_go_by_name() -> None:
    world = one_at_a_time("Capacity")
    world.submit(*(job(name).user(name[:3]).group("g") for name in ("cid 1", "bob 2", "bob 1", "ann 1")))
    assert order_of(world) == ["first", "ann 1", "bob 2", "bob 1", "cid 1"]


def test_capacity_offers_the_head_of_every_user() -> None:
    world = World(group("g", 9, "Capacity"), nodes=nodes(1, cpu=4))
    world.run(job("runs").cpu(3).limit(60).user("zoe").group("g"))
    world.submit(
        job("wide").cpu(2).limit(9).user("ann").group("g"),
        job("behind").limit(9).user("ann").group("g"),
        job("small").limit(60).user("bob").group("g"),
    ).decide()
    assert world.started() == ["runs", "small"]
    assert world.veto("behind").kind is Verdict.BEHIND


def test_capacity_lets_nobody_delay_the_head_of_another_user() -> None:
    world = World(group("g", 9, "Capacity"), nodes=nodes(1, cpu=4))
    world.run(job("runs").cpu(3).limit(60).user("zoe").group("g"))
    world.submit(job("wide").cpu(4).limit(9).user("ann").group("g"))
    world.submit(job("small").limit(61).user("bob").group("g")).decide()
    assert world.veto("small").kind is Verdict.RESERVED


@pytest.mark.parametrize(
    ("factor", "weights", "expected"),
    [
        pytest.param("1", {}, {"ann": 5, "bob": 5}, id="half of the quota of 10 each"),
        pytest.param("1.3", {}, {"ann": 6, "bob": 6}, id="1.3 times half: 6.5"),
        pytest.param("0.5", {}, {"ann": 2, "bob": 2}, id="half of half"),
        pytest.param("1", {"bob": 4}, {"ann": 2, "bob": 8}, id="by weight 1 to 4"),
        pytest.param("0", {}, {"ann": 10, "bob": 10}, id="no limit"),
    ],
)
def test_user_limit_factor_bounds_every_user(factor: str, weights: dict[str, int], expected: dict[str, int]) -> None:
    world = World(
        group("g", 10, "Capacity").user_weights(**weights).with_options(user_limit_factor=factor),
        nodes=nodes(1, cpu=20),
    )
    world.submit(*arrays("ann", "bob")).decide()
    assert shares(world) == expected
    if factor != "0":
        assert world.why("of ann") == "user ann already uses the most that one user may in group g (user_limit_factor)"


def test_a_user_who_comes_narrows_the_limit_of_the_others_and_who_goes_widens_it() -> None:
    world = World(group("g", 12, "Capacity").with_options(user_limit_factor="1"), nodes=nodes(1, cpu=99))
    world.submit(*arrays("ann")).decide()
    assert shares(world) == {"ann": 12}
    world.submit(*arrays("bob", "cid", tasks=4)).decide()
    assert shares(world) == {"ann": 12, "bob": 4, "cid": 4}, "nobody stops what runs"
    world.finish("of ann", *range(9))
    assert shares(world) == {"ann": 4, "bob": 4, "cid": 4}
    world.finish("of bob")
    assert shares(world) == {"ann": 6, "cid": 4}


def test_a_user_at_his_limit_does_not_block_his_group() -> None:
    world = World(
        group("g", 10, "Capacity").with_options(user_limit_factor="1"), group("h", 1), nodes=nodes(1, cpu=20),
        behind_blocked="quota_only",
    )  # fmt: skip
    world.submit(*arrays("ann", "bob"), job("other").tasks(9).group("h")).decide()
    assert world.used("g") == 10
    assert world.used("h") == 9, "it counts as nothing waiting: nobody is held to his quota by it"


# --- BackFill, EASY --------------------------------------------------------------------------------------------------


def backfill(head: JobBuilder, *, runs: JobBuilder, **options: str) -> World:
    """A node of 4 cores and 16 G and group g with BackFill: ``runs`` runs, ``head`` is blocked."""
    world = World(
        group("g", 99, "BackFill").with_options(**options),
        nodes=nodes(1, cpu=4, memory="16G"),
    )
    world.run(runs.group("g"))
    world.submit(head.named("head").group("g")).decide()
    assert world.veto("head").kind is Verdict.NO_ROOM
    return world


@pytest.mark.parametrize(
    ("head", "later", "starts"),
    [
        pytest.param(job("").cpu(4), job("later").limit(100), True, id="ends when the head starts"),
        pytest.param(job("").cpu(4), job("later").limit(100.000001), False, id="ends a microsecond later"),
        pytest.param(job("").cpu(4), job("later"), False, id="no known end"),
        pytest.param(job("").cpu(3), job("later").limit(9999), True, id="leaves enough for the head"),
        pytest.param(job("").cpu(3), job("later"), True, id="leaves enough for ever"),
        pytest.param(job("").cpu(3.001), job("later"), False, id="a millicore too little"),
        pytest.param(job("").cpu(4), job("later").cpu(1.001).limit(1), False, id="does not fit at all"),
        pytest.param(job("").cpu(2).memory("12G"), job("later").memory("4G"), True, id="memory is enough for both"),
        pytest.param(job("").cpu(2).memory("12G"), job("later").memory("5G"), False, id="memory would lack"),
    ],
)
def test_a_later_job_starts_if_it_does_not_delay_the_head(head: JobBuilder, later: JobBuilder, starts: bool) -> None:
    world = backfill(head, runs=job("runs").cpu(3).limit(100))
    world.submit(later.group("g")).decide()
    assert ("later" in world.started()) is starts
    world.wait(100)
    if dict(later.rest).get("time_limit") == 100 * SECOND:
        world.finish("later", decide=False)
    world.finish("runs")
    assert "head" in world.started(), "at 100 s, come what may"


def test_on_many_nodes_only_the_reserved_one_is_kept() -> None:
    world = World(group("g", 99, "BackFill"), nodes=nodes(3, cpu=4), node_order="first")
    for number, limit in enumerate((300, 100, 200)):
        world.run(job(f"runs {number}").cpu(3).limit(limit).group("g"))
    world.submit(job("head").cpu(4).limit(50).group("g"), job("long").tasks(3).limit(9999).group("g")).decide()
    assert world.nodes_of("long") == ["n1", "n3"], "n2 is reserved from 100 s on"
    world.submit(job("short").limit(100).group("g")).decide()
    assert world.nodes_of("short") == ["n2"]
    world.wait(100).finish("short")
    world.finish("runs 1")
    assert world.nodes_of("head") == ["n2"]


def test_a_gang_is_reserved_for_on_as_many_nodes_as_it_needs() -> None:
    world = World(group("g", 99, "BackFill"), nodes=nodes(3, cpu=4), node_order="first")
    for number, limit in enumerate((50, 100, 9999)):
        world.run(job(f"runs {number}").cpu(4).limit(limit).group("g"))
    world.submit(job("gang").cpu(2).tasks(4).gang().limit(10).group("g")).decide()
    world.wait(50).finish("runs 0")
    world.submit(job("too long").cpu(4).limit(51).group("g"), job("in time").cpu(4).limit(50).group("g")).decide()
    assert world.nodes_of("in time") == ["n1"]
    assert world.veto("too long").kind is not None
    world.wait(50).finish("in time")
    assert world.started()[-1] == "in time", "the gang waits for both nodes"
    world.finish("runs 1")
    assert world.nodes_of("gang") == ["n1", "n1", "n2", "n2"]
    assert {start.at for start in world.starts if start.job == "gang"} == {100}


def test_a_gang_is_backfilled_as_a_whole_or_not_at_all() -> None:
    world = World(group("g", 99, "BackFill"), nodes=nodes(2, cpu=4), node_order="first")
    world.run(job("r1").cpu(2).limit(100).group("g"), job("r2").cpu(3).limit(300).group("g"))
    world.submit(job("head").cpu(4).limit(9).group("g"), job("gang").tasks(3).gang().limit(200).group("g")).decide()
    assert "gang" not in world.started(), "three fit now, but two of them on the reserved node for too long"
    assert world.veto("gang").kind in (Verdict.RESERVED, Verdict.NO_ROOM_TOGETHER)
    world.submit(job("short gang").tasks(3).gang().limit(100).group("g")).decide()
    assert world.nodes_of("short gang") == ["n1", "n1", "n2"]


def test_when_the_running_job_ends_early_the_head_starts_at_once() -> None:
    world = backfill(job("").cpu(4).limit(9), runs=job("runs").cpu(3).limit(100))
    world.wait(10).finish("runs")
    assert world.starts[-1].job == "head"
    assert world.starts[-1].at == 10


def test_a_task_that_outlives_its_limit_is_taken_to_end_any_moment() -> None:
    world = backfill(job("").cpu(4), runs=job("runs").cpu(3).limit(100))
    world.wait(150).submit(job("later").limit(1).group("g")).decide()
    assert "later" not in world.started()


@pytest.mark.parametrize(("depth", "expected"), [(1, []), (2, ["fits"]), (0, ["fits"])])
def test_backfill_depth_is_how_many_jobs_behind_the_head_are_looked_at(depth: int, expected: list[str]) -> None:
    world = backfill(job("").cpu(4), runs=job("runs").cpu(3).limit(100), backfill_depth=str(depth))
    world.submit(job("too large").cpu(2).limit(1).group("g"), job("fits").limit(1).group("g")).decide()
    assert world.started()[1:] == expected
    if not expected:
        assert world.veto("fits").kind is Verdict.BEHIND


def test_backfill_depth_counts_jobs_not_tasks_and_goes_on_as_jobs_start() -> None:
    world = backfill(job("").cpu(4), runs=job("runs").cpu(2).limit(100), backfill_depth="1")
    world.submit(job("array").tasks(2).limit(9).group("g"), job("next").limit(9).group("g")).decide()
    assert world.started()[1:] == ["array", "array"]
    world.finish("array")
    assert world.started()[-1] == "next"


# --- BackFill, conservative ------------------------------------------------------------------------------------------


def planned(world: World, *names: str) -> list[float]:
    starts = []
    for name in names:
        veto = world.veto(name)
        assert veto.kind is Verdict.PLANNED
        assert veto.until is not None
        starts.append(veto.until / SECOND)
    return starts


def three_planned(kind: str) -> World:
    """Head at 100 on 3 of 4 cores for 50 s, then second on all 4; a long job on 1 core would delay only second."""
    world = World(group("g", 99, "BackFill").with_options(backfill=kind), nodes=nodes(1, cpu=4), node_order="first")
    world.run(job("runs").cpu(3).limit(100).group("g"))
    world.submit(job("head").cpu(3).limit(50).group("g"), job("second").cpu(4).limit(20).group("g"))
    world.submit(job("long").limit(1000).group("g")).decide()
    return world


def test_easy_lets_a_job_delay_all_but_the_head() -> None:
    world = three_planned("easy")
    assert world.started() == ["runs", "long"]


def test_conservative_starts_a_gang_as_soon_as_its_racks_are_neighbours() -> None:
    """What changes there is on no node: its unknown start is asked for again all the same."""
    racks = [node("n1").cpu(1).rack("r1"), node("n2").cpu(1).rack("r2")]
    world = World(group("g", 9, "BackFill").with_options(backfill="conservative"), nodes=racks)
    world.submit(job("gang").limit(9).tasks(2).gang().requires("NetworkAdjacent = True").group("g")).decide()
    assert world.state("gang").waiting == 2
    world.neighbours("r1 r2")
    world.decide()
    assert world.jobs_running() == ["gang", "gang"]


def test_conservative_lets_a_job_delay_nobody_planned_before_it() -> None:
    world = three_planned("conservative")
    assert world.started() == ["runs"]
    assert planned(world, "head", "second", "long") == [100, 150, 170]
    world.submit(job("short").limit(100).group("g")).decide()
    assert world.started() == ["runs", "short"], "it ends when head and second need its core"


def test_conservative_keeps_no_room_for_a_job_behind_those_that_it_looks_at() -> None:
    own = group("g", 4, "BackFill").with_options(backfill="conservative", backfill_depth="1")
    world = World(own, group("h", 1), nodes=[node("n1").cpu(6)], preemption="off")
    world.run(job("runs").cpu(3).group("g").limit(100), job("own").group("h").limit(200))
    first = job("first").cpu(4).group("g").limit(100)
    world.submit(first, first.named("second"), first.named("third").cpu(1).limit(10))
    world.submit(job("other").cpu(2).group("h").limit(100)).decide()
    assert world.jobs_running() == ["other", "own", "runs"]
    assert world.why("third") == "the policy of group g puts job 3 first"


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_jobs_that_a_bound_keeps_waiting_do_not_count_among_those_that_backfill_looks_at(backfill: str) -> None:
    own = group("g", 5, "BackFill").most(5).with_options(backfill=backfill, backfill_depth="1")
    world = World(own, nodes=[node("n1").cpu(5)])
    world.run(job("runs").cpu(2).group("g").limit(100), job("other").group("default").cpu(1).limit(100))
    # The first two would exceed the MaxQuota of g; the third and fourth wait for room.
    bound = job("first").cpu(4).group("g").limit(100)
    wide = bound.named("third").cpu(3)
    world.submit(bound, bound.named("second"), wide, wide.named("fourth"), bound.named("fifth").cpu(1)).decide()
    assert world.jobs_running() == ["other", "runs"]
    assert world.why("fifth") == "the policy of group g puts job 5 first"
    world.cancel("fourth").decide()
    assert world.jobs_running() == ["fifth", "other", "runs"]


def test_conservative_keeps_its_plan_as_long_as_everything_ends_as_predicted() -> None:
    world = three_planned("conservative")
    world.wait(100).finish("runs")
    world.wait(50).finish("head")
    world.wait(20).finish("second")
    assert [(start.job, start.at) for start in world.starts] == [
        ("runs", 0), ("head", 100), ("second", 150), ("long", 170),
    ]  # fmt: skip


def test_conservative_plans_again_in_queue_order_when_something_ends_early() -> None:
    world = three_planned("conservative")
    before = planned(world, "head", "second", "long")
    world.wait(30).finish("runs")
    assert world.starts[-1].job == "head"
    after = planned(world, "second", "long")
    assert after == [80, 100]
    assert all(new <= old for new, old in zip(after, before[1:], strict=True))


def test_conservative_moves_no_job_later_when_an_early_end_lets_another_one_jump() -> None:
    """n1 is free early: long may take it at once, but not at the cost of wide, which has both nodes from 100 s on."""
    world = World(
        group("g", 99, "BackFill").with_options(backfill="conservative"), nodes=nodes(2, cpu=4), node_order="first"
    )
    world.run(job("r1").cpu(4).limit(100).group("g"), job("r2").cpu(4).limit(100).group("g"))
    world.submit(job("wide").cpu(4).tasks(2).gang().limit(50).group("g"), job("long").cpu(4).limit(80).group("g"))
    world.submit(job("short").cpu(4).limit(60).group("g")).decide()
    assert planned(world, "wide", "long", "short") == [100, 150, 150]
    world.wait(40).finish("r1")
    assert world.started()[-1] == "short", "60 s fit before the wide job, 80 s do not"
    assert planned(world, "wide", "long") == [100, 150]


def test_conservative_gives_an_earlier_job_the_room_that_a_later_one_left_when_it_moved() -> None:
    """Wide is looked at before hole moves away from n1; what ends next is on n2, and n1 is looked at again all the
    same.
    """
    big, small = node("n1").cpu(4), node("n2").cpu(3)
    world = World(
        group("g", 99, "BackFill").with_options(backfill="conservative"), nodes=[big, small], node_order="first"
    )
    world.run(job("r1").cpu(3).limit(100).group("g"), job("r2").limit(120).group("g"))
    world.run(job("r3").cpu(3).limit(300).group("g"))
    world.submit(job("wide").cpu(4).limit(50).group("g"), job("hole").cpu(3).limit(20).group("g")).decide()
    assert planned(world, "wide", "hole") == [120, 100]
    world.wait(5).finish("r2")
    assert planned(world, "wide", "hole") == [120, 100], "hole has its place before wide"
    world.wait(5).finish("r3")
    assert world.started()[-1] == "hole"
    world.wait(2).finish("hole")
    assert planned(world, "wide") == [100]
    world.submit(job("late").cpu(4).limit(20).group("g")).decide()
    assert planned(world, "late") == [150], "not in a gap before wide, which would keep it there"


def test_conservative_puts_a_gang_on_the_first_nodes_as_if_it_were_planned_for_the_first_time() -> None:
    world = World(
        group("g", 99, "BackFill").with_options(backfill="conservative"), nodes=nodes(2, cpu=2), node_order="first"
    )
    world.run(job("r1").limit(100).group("g"), job("r2").limit(200).group("g"), job("r3").cpu(2).limit(100).group("g"))
    world.submit(job("gang").tasks(2).gang().limit(50).group("g"), job("next").cpu(2).limit(50).group("g")).decide()
    assert planned(world, "gang", "next") == [100, 150], "one task on n1, one on n2"
    world.wait(10).finish("r2")
    assert planned(world, "gang", "next") == [100, 100], "both on n1, of which more is free, and n2 is left"
    world.wait(90)
    world.finish("r1", decide=False)
    world.finish("r3")
    assert world.nodes_of("gang") == ["n1", "n1"]
    assert world.nodes_of("next") == ["n2"]


@dataclass
class Planned:
    cores: int
    limit: int


def profile_starts(jobs: list[Planned], cores: int) -> list[int]:
    """A plain conservative planner for one node, everything submitted at 0: the earliest second that fits."""
    horizon = sum(each.limit for each in jobs) + 1
    free = [cores] * horizon
    starts = []
    for each in jobs:
        start = next(t for t in range(horizon) if min(free[t : t + each.limit]) >= each.cores)
        for t in range(start, start + each.limit):
            free[t] -= each.cores
        starts.append(start)
    return starts


@pytest.mark.parametrize("seed", range(12))
def test_conservative_equals_a_plain_planner_when_everything_ends_as_predicted(seed: int) -> None:
    draw = random.Random(seed)
    jobs = [Planned(draw.randint(1, 8), draw.randint(1, 30)) for _ in range(25)]
    expected = profile_starts(jobs, 8)
    world = World(group("g", 99, "BackFill").with_options(backfill="conservative"), nodes=nodes(1, cpu=8))
    world.submit(*(job(f"j{i}").cpu(each.cores).limit(each.limit).group("g") for i, each in enumerate(jobs))).decide()
    ends: dict[str, float] = {}
    while world.running:
        ends.update({s.job: s.at + jobs[int(s.job[1:])].limit for s in world.starts})
        now = min(ends[name] for name in world.jobs_running())
        world.now = round(now * SECOND)
        for name in [name for name in world.jobs_running() if ends[name] == now]:
            world.finish(name, decide=False)
        world.decide()
    assert {s.job: s.at for s in world.starts} == {f"j{i}": start for i, start in enumerate(expected)}


# --- a unit keeps its place ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["FIFO", "Priority", "Capacity", "BackFill"])
@pytest.mark.parametrize("how", ["retried", "lost", "preempted"])
def test_a_unit_that_is_queued_again_keeps_its_place(policy: str, how: str) -> None:
    world = World(group("g", 1, policy), group("other", 9), nodes=nodes(1, cpu=4))
    world.run(job("stays").priority(1).group("g"))
    world.wait(1).run(job("early").cpu(3).limit(100).group("g"))
    world.wait(1).submit(job("late").cpu(3).limit(100).group("g")).decide()
    world.wait(1)
    if how == "retried":
        world.finish("early", outcome=Outcome.FAILED, again=True)
    elif how == "lost":
        world.lose_node("n1").add_node(node("n1").cpu(4)).decide()
    else:
        world.submit(job("urgent").cpu(3).group("other")).decide()
        assert world.victims() == ["early"]
        world.yield_victims()
        assert world.started()[-1] == "urgent"
        world.wait(20).finish("urgent")
    assert world.started()[-1] == "early"
    world.finish("early")
    assert world.started()[-1] == "late"


def test_of_an_array_the_task_that_is_queued_again_goes_first() -> None:
    world = World(group("g", 9), nodes=nodes(1, cpu=2))
    world.submit(job("array").tasks(6).group("g")).decide()
    world.finish("array", 0)
    world.finish("array", 1, outcome=Outcome.FAILED, again=True)
    assert [start.task for start in world.starts] == [0, 1, 2, 1]
    world.finish("array", 2)
    assert world.starts[-1].task == 3


def test_a_gang_of_which_one_task_failed_starts_again_as_a_whole() -> None:
    world = World(group("g", 9), nodes=nodes(1, cpu=4))
    world.run(job("gang").tasks(3).gang().group("g"))
    world.finish("gang", 1, outcome=Outcome.FAILED, again=True)
    assert world.veto("gang").kind is Verdict.GANG_RUNS
    world.finish("gang", 0, outcome=Outcome.FAILED, again=True)
    assert world.started() == ["gang"] * 3
    world.finish("gang", 2, outcome=Outcome.FAILED, again=True)
    assert [(start.job, start.task) for start in world.starts[3:]] == [("gang", 0), ("gang", 1), ("gang", 2)]


def test_a_queue_stays_where_it_is_when_only_the_quota_changes() -> None:
    world = one_at_a_time("Priority")
    world.submit(job("low").group("g").priority(1), job("high").group("g").priority(9))
    policy = world.core.groups.get("g").policy
    world.apply(group("g", 2, "Priority"))
    assert world.core.groups.get("g").policy is policy
    world.apply(group("g", 2, "FIFO"))
    assert world.core.groups.get("g").policy is not policy
    assert order_of(world) == ["first", "low", "high"]


# --- Queues ----------------------------------------------------------------------------------------------------------


@dataclass
class Queued:
    key: tuple[int, int]
    job: Job
    submitted: int
    shape: Shape
    limit: int
    run: int = 0
    cost: int = 0
    work: int = 0
    overdue_at: int = 0
    duration: int = 0
    is_predicted: bool = False

    def waiting_work(self) -> int:
        return self.limit


def ranked() -> RankedQueue[Any]:
    return RankedQueue(2, lambda job: (job.run, job.cost))


@pytest.mark.parametrize("kind", [Queue, CountedQueue, ranked])
@given(places=st.lists(st.integers(0, 400), unique=True), data=st.data())
def test_a_queue_that_is_filled_is_the_queue_of_the_same_jobs_added_one_by_one(
    kind: Callable[[], Queue[Any]], places: list[int], data: st.DataObject
) -> None:
    shapes = [Shape((1, 1), 1), Shape((2, 2), 1)]
    for row, shape in zip((0, 40), shapes, strict=True):
        shape.row = row
    jobs = [
        Queued(
            (place, 0), Job(id=place, group="", request=(1, 1)), 0, shapes[place % 2], place, run=place, cost=2 * place
        )
        for place in places
    ]
    one, other = kind(), kind()
    for each in jobs:
        one.add(each)
    other.fill(jobs)
    for each in data.draw(st.permutations(jobs)):
        for queue in (one, other):
            queue.remove(each)
        assert list(one) == list(other)
        assert (len(one), one.head) == (len(other), other.head)
        for queue in (one, other):
            if isinstance(queue, CountedQueue):
                for row in (0, 40):
                    there = sum(job.shape.row == row for job in queue)
                    assert queue.waiting[row : row + 1].sum() == there == queue.waiting[row : row + 40].sum()
            if isinstance(queue, RankedQueue):
                assert queue.work == sum(job.limit for job in queue)
                for job in queue:
                    assert queue.values[:2, queue.position(job)].tolist() == [job.run, job.cost]
                assert {queue.values[0, i] for i in range(queue.end) if queue.at(i) is None} <= {GAP}
            pending = [queue.at(place) for place in range(queue.first, queue._horizon)]
            assert sum(each is not None for each in pending) == min(MOST_PENDING, len(queue))
