"""Level one: accounting, the order of the groups, groups that change while things run, the quota timetable (G)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from cress.core.charges import dominant_share
from cress.model.events import GroupsApplied, ZoneSet
from cress.model.group import DEFAULT_GROUP, Group, Quota
from cress.model.times import HOUR, MINUTE
from tests.core.builders import GroupBuilder, World, group, job, node, nodes

SHANGHAI = ZoneInfo("Asia/Shanghai")


# --- the order -----------------------------------------------------------------------------------------------------


def test_quotas_2_and_3_running_1_and_2_tasks_have_the_values_3_and_4_and_the_first_goes_ahead() -> None:
    """G's worked example."""
    world = World(group("a", 2), group("b", 3), nodes=nodes(1, cpu=100))
    world.run(job("a1").group("a"), job("b1").group("b"))
    values = world.core.groups.priority_values()
    assert [values["a"], values["b"]] == [3, 2]
    world.submit(job("a2").group("a"), job("b2").group("b")).decide(1)
    assert world.started()[-1] == "b2"
    values = world.core.groups.priority_values()
    assert [values["a"], values["b"]] == [3, 4]
    world.submit(job("b3").group("b")).decide(1)
    assert world.started()[-1] == "a2"


def test_with_equal_quotas_whoever_runs_less_goes_ahead() -> None:
    """G's second example: A runs one and B none, so B; when B runs two, A."""
    world = World(group("a", 1), group("b", 1), nodes=nodes(1, cpu=100))
    world.run(job("a1").group("a"))
    world.submit(job("a2").group("a"), job("b1").group("b")).decide(1)
    assert world.started() == ["a1", "b1"]
    world.cancel("a2").run(job("b2").group("b"))
    world.submit(job("b3").group("b"), job("a3").group("a")).decide(1)
    assert world.started() == ["a1", "b1", "b2", "a3"]


def test_the_value_of_a_group_that_uses_nothing_is_0() -> None:
    world = World(group("a", 2), group("b", 3), nodes=nodes(1, cpu=1))
    values = world.core.groups.priority_values()
    assert values == {"a": 0, "b": 0, DEFAULT_GROUP: 0}


# Millicores; as floats, neighbours of it would give the same ratio.
HUGE = 2**59


@pytest.mark.parametrize(
    ("a", "b", "first"),
    [
        pytest.param((group("a", 2), 1), (group("b", 3), 1), "b", id="smaller ratio"),
        pytest.param(
            (group("a").exactly(HUGE), 7), (group("b").exactly(HUGE - 1), 7), "a", id="huge quotas that differ by one"
        ),
        pytest.param(
            (group("a").exactly(HUGE - 1), 7), (group("b").exactly(HUGE), 7), "b", id="the same the other way round"
        ),
        pytest.param(
            (group("a").exactly(HUGE), 1),
            (group("b").exactly(HUGE - 1), 0),
            "b",
            id="nothing is less than next to nothing",
        ),
        pytest.param((group("a", 2), 1), (group("b", 4).weight(2), 2), "b", id="a tie goes to the larger weight"),
        pytest.param((group("a", 2).weight(2), 1), (group("b", 4), 2), "a", id="weight before quota"),
        pytest.param((group("a", 2), 1), (group("b", 4), 2), "b", id="a tie goes to the larger quota"),
        pytest.param((group("b", 3), 1), (group("a", 3), 1), "a", id="a tie goes to the name"),
        pytest.param((group("a", 3), 0), (group("b", 5), 0), "b", id="both use nothing: the larger quota"),
    ],
)
def test_the_next_group(a: tuple[GroupBuilder, int], b: tuple[GroupBuilder, int], first: str) -> None:
    world = World(a[0], b[0], nodes=nodes(1, cpu=1000))
    for spec, used in (a, b):
        if used:
            world.run(job(f"{spec.name} runs").cpu(used).group(spec.name))
    world.submit(*(job(f"{spec.name} waits").group(spec.name) for spec, _ in (a, b))).decide(1)
    assert world.started()[-1] == f"{first} waits"


# --- accounting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "memory", "share"),
    [
        pytest.param(2, "4G", 500_000, id="2 of 4 CPUs and 4 of 16 G are half a server"),
        pytest.param(1, "12G", 750_000, id="memory is the key resource"),
        pytest.param(0.001, 0, 250, id="a millicore of 4 cores"),
        pytest.param(0, 1, 1, id="a single byte counts: rounded up"),
    ],
)
def test_the_key_resource_is_what_a_task_uses_of_a_server(cpu: float, memory: str, share: int) -> None:
    world = World(group("web", 3), nodes=[node("n1").cpu(4).memory("16G")], accounting="dominant")
    world.run(job("task").cpu(cpu).memory(memory).group("web"))
    assert world.group("web").used == [share]


def test_a_third_of_a_server_is_rounded_up_so_that_three_are_never_below_one_server() -> None:
    assert dominant_share((1,), (3,)) == 333_334
    world = World(group("web", 1), nodes=nodes(1, cpu=3), accounting="dominant")
    world.run(job("thirds").tasks(3).group("web"))
    assert world.group("web").used == [1_000_002]
    world.finish("thirds", 1)
    assert world.group("web").used == [666_668]


def test_the_same_task_uses_more_of_a_small_server_and_keeps_that_value() -> None:
    world = World(group("web", 4), nodes=[node("small").cpu(4), node("large").cpu(16)], accounting="dominant",
                  node_order="first")  # fmt: skip
    world.run(job("on small").cpu(4).group("web"), job("on large").cpu(4).group("web"))
    assert [start.node for start in world.starts] == ["small", "large"]
    assert world.used("web") == 1.25
    world.finish("on small")
    assert world.used("web") == 0.25


def test_a_vector_quota_counts_the_largest_ratio_and_the_group_is_below_it_only_everywhere() -> None:
    world = World(
        group("web", "<4,8G>"), group("sql", "<8,4G>"), nodes=[node("n1").cpu(32).memory("64G")], accounting="dominant"
    )
    world.run(job("w1").cpu(2).memory("6G").group("web"), job("s1").cpu(1).memory("3G").group("sql"))
    assert world.group("web").ratio() == Fraction(3, 4)
    assert world.group("sql").ratio() == Fraction(3, 4)
    assert world.core.groups.priority_values()["web"] == Fraction(3, 4), "the ratio itself, no common multiple"
    world.run(job("w2").cpu(0).memory("2G").group("web"))
    assert not world.group("web").below_quota, "half of the CPUs, but all of the memory"
    world.submit(job("w3").group("web"), job("s2").cpu(4).memory(0).group("sql")).decide(1)
    assert world.started()[-1] == "s2", "3/4 goes before 1"
    world.decide()
    assert world.group("web").used == [3000, 8 * 2**30]


def test_an_ordinary_quota_in_servers_stands_beside_vectors() -> None:
    world = World(group("a", 1), group("b", "<4,8G>"), nodes=[node("n1").cpu(8).memory("16G")], accounting="dominant")
    world.run(job("a1").cpu(2).group("a"), job("b1").cpu(2).group("b"))
    assert world.group("a").ratio() == Fraction(1, 4)
    assert world.group("b").ratio() == Fraction(1, 2)
    world.submit(job("b2").group("b"), job("a2").group("a")).decide(1)
    assert world.started()[-1] == "a2"


# --- the default group ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "options", "quota"),
    [
        pytest.param(20, {}, 4, id="2 % of 200 cores"),
        pytest.param(1, {}, 1, id="one core at least"),
        pytest.param(20, {"default_group_quota": 0.05}, 10, id="5 % of 200 cores"),
        pytest.param(100, {"accounting": "dominant"}, 2, id="2 % of 100 servers"),
        pytest.param(7, {"accounting": "dominant"}, 1, id="one server at least"),
    ],
)
def test_the_default_group_has_a_small_quota(count: int, options: dict[str, Any], quota: int) -> None:
    world = World(nodes=nodes(count, cpu=10), **options)
    scale = 1_000_000 if "accounting" in options else 1_000
    assert world.group(DEFAULT_GROUP).quota == [quota * scale]


def test_the_default_groups_quota_follows_the_nodes_that_are_there() -> None:
    world = World(nodes=nodes(2, cpu=100))
    assert world.group(DEFAULT_GROUP).quota == [4000]
    world.lose_node("n1")
    assert world.group(DEFAULT_GROUP).quota == [2000]
    world.add_node(node("n1").cpu(300))
    assert world.group(DEFAULT_GROUP).quota == [8000]


def test_a_configured_default_group_is_taken_as_it_is() -> None:
    world = World(group(DEFAULT_GROUP, 7), nodes=nodes(2, cpu=100))
    assert world.group(DEFAULT_GROUP).quota == [7000]


def test_a_job_that_names_no_group_belongs_to_the_default_group() -> None:
    world = World(group("web", 2), nodes=nodes(1, cpu=10))
    world.run(job("stray"))
    assert world.used(DEFAULT_GROUP) == 1
    assert world.used("web") == 0


def test_at_low_load_the_default_group_gets_what_is_idle_and_at_high_load_it_waits() -> None:
    """G: at high load it is soon above its quota; at low load it gets its share of what is idle."""
    world = World(group("a", 49), group("b", 49), nodes=nodes(1, cpu=100), preemption="off")
    world.submit(job("a").tasks(20).group("a"), job("stray").tasks(200)).decide()
    assert (world.used("a"), world.used(DEFAULT_GROUP)) == (20, 80)

    busy = World(group("a", 49), group("b", 49), nodes=nodes(1, cpu=100), preemption="off")
    busy.submit(job("a").tasks(200).group("a"), job("b").tasks(200).group("b"), job("stray").tasks(200)).decide()
    assert [busy.used(name) for name in ("a", "b", DEFAULT_GROUP)] == [49, 49, 2]
    for task in range(5):
        busy.finish("a", task)
        assert busy.used(DEFAULT_GROUP) == 2, "what the busy groups give back goes to them"


# --- users ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("users", "user", "admitted"),
    [
        (("alice", "bob"), "bob", True),
        (("alice", "bob"), "carol", False),
        (("alice", "bob"), "", False),
        (("alice",), "ALICE", False),
        (("*",), "carol", True),
        (("*", "alice"), "carol", True),
    ],
)
def test_who_may_submit(users: tuple[str, ...], user: str, admitted: bool) -> None:
    spec = Group(name="web", quota=Quota(scalar=1000), users=users)
    assert spec.admits(user) is admitted


# --- groups that change while things run ---------------------------------------------------------------------------


def test_a_group_is_created_while_others_run() -> None:
    world = World(group("a", 5), nodes=nodes(1, cpu=10), preemption="off")
    world.submit(job("a").tasks(20).group("a")).decide()
    world.apply(group("a", 5), group("b", 5)).submit(job("b").tasks(20).group("b"))
    for task in range(5):
        world.finish("a", task)
    assert (world.used("a"), world.used("b")) == (5, 5), "every freed core goes to the newcomer until both have 5"


def test_a_changed_quota_changes_the_order_at_once() -> None:
    world = World(group("a", 5), group("b", 5), nodes=nodes(1, cpu=10), preemption="off")
    world.run(job("a1").group("a"), job("b1").group("b"), job("b2").group("b"))
    world.submit(job("a2").group("a"), job("b3").group("b"))
    world.apply(group("a", 5), group("b", 20)).decide(1)
    assert world.started()[-1] == "b3", "2 of 20 is less than 1 of 5"


def test_a_larger_quota_lets_a_group_go_on_that_was_held_to_the_old_one() -> None:
    world = World(group("a", 6), group("b", 5), nodes=nodes(1, cpu=10), behind_blocked="quota_only", preemption="off")
    world.run(job("b1").cpu(5).group("b"))
    world.submit(job("too large").cpu(6).group("a"), job("b2").group("b")).decide()
    assert world.why("b2") == "job 2 of group a is blocked, and group b is not below its quota"
    world.apply(group("a", 6), group("b", 6)).decide()
    assert world.started() == ["b1", "b2"]


def test_a_group_with_live_jobs_is_removed_only_when_told_where_they_go() -> None:
    world = World(group("a", 5), group("b", 5), nodes=nodes(1, cpu=3))
    world.run(job("runs").cpu(2).group("a"))
    world.submit(job("waits").cpu(2).tasks(2).group("a"))
    with pytest.raises(ValueError, match="a"):
        world.apply(group("b", 5))
    assert world.core.validate() == []
    assert world.used("a") == 2, "the refused change changed nothing"
    world.apply(group("b", 5), moves={"a": "b"})
    assert world.used("b") == 2
    assert world.state("waits").group.name == "b"
    world.finish("runs")
    assert world.started() == ["runs", "waits"]
    assert world.used("b") == 2


def test_moved_jobs_keep_their_place_in_the_order() -> None:
    world = World(group("a", 5), group("b", 5), nodes=nodes(1, cpu=1))
    world.run(job("first").group("b"))
    world.wait(1).submit(job("second").group("a"))
    world.wait(1).submit(job("third").group("b"))
    world.apply(group("b", 5), moves={"a": "b"})
    world.finish("first")
    world.finish("second")
    assert world.started() == ["first", "second", "third"]


def test_a_group_without_jobs_is_removed_without_further_ado() -> None:
    world = World(group("a", 5), group("b", 5), nodes=nodes(1, cpu=3))
    world.run(job("done").group("a"))
    world.finish("done")
    world.apply(group("b", 5))
    assert sorted(each.name for each in world.core.groups) == ["b", DEFAULT_GROUP]


def test_a_refused_list_of_groups_changes_nothing() -> None:
    world = World(group("a", 5), nodes=nodes(1, cpu=3))
    world.run(job("runs").cpu(2).group("a"))
    world.submit(job("waits").cpu(2).group("a"))
    with pytest.raises(ValueError, match="nowhere"):
        world.apply(group("b", 5), moves={"a": "nowhere"})
    assert world.core.validate() == []
    assert sorted(each.name for each in world.core.groups) == ["a", DEFAULT_GROUP]
    world.finish("runs")
    assert world.started() == ["runs", "waits"]


def test_a_policy_changed_while_jobs_wait_orders_them_anew() -> None:
    world = World(group("a", 5), nodes=nodes(1, cpu=1))
    world.run(job("first").group("a"))
    for number, priority in enumerate((1, 5, 9)):
        world.wait(1).submit(job(f"p{priority}").group("a").priority(priority).user("xyz"[number]))
    world.apply(group("a", 5, "Priority"))
    world.finish("first")
    assert world.started() == ["first", "p9"]
    world.apply(group("a", 5, "Capacity"))
    world.finish("p9")
    assert world.started() == ["first", "p9", "p1"], "users without anything go by name: x before y"
    world.apply(group("a", 5, "BackFill"))
    world.finish("p1")
    assert world.started() == ["first", "p9", "p1", "p5"]


def test_a_change_of_the_measures_counts_what_runs_again() -> None:
    world = World(group("a", 2), nodes=[node("n1").cpu(4).memory("16G")], accounting="dominant")
    world.run(job("half").cpu(2).memory("4G").group("a"))
    assert world.group("a").used == [500_000]
    world.apply(group("a", "<4,16G>"))
    assert world.group("a").used == [2000, 4 * 2**30]
    world.apply(group("a", 2))
    assert world.group("a").used == [500_000]
    world.finish("half")
    assert world.group("a").used == [0]


# --- the quota timetable -------------------------------------------------------------------------------------------

# G's example: mobile applications are busy on the way to work and back, news in office hours, games in the evening.
TIMETABLE = (
    group("mobile", 10).windows("07:30-09:00 = 20", "17:30-19:30 = 20"),
    group("news", 20).windows("Mon-Fri 09:00-17:30 = 50"),
    group("games", 20).windows("20:00-23:00 = 50"),
)
DAY_OF_QUOTAS = [
    ("07:30", 20, 20, 20),
    ("09:00", 10, 50, 20),
    ("17:30", 20, 20, 20),
    ("19:30", 10, 20, 20),
    ("20:00", 10, 20, 50),
    ("23:00", 10, 20, 20),
]
MONDAY = "2024-05-06"


def quotas(world: World) -> list[int]:
    return [world.group(name).quota[0] // 1000 for name in ("mobile", "news", "games")]


def test_the_timetable_takes_effect_at_the_minute() -> None:
    world = World(*TIMETABLE, nodes=nodes(1, cpu=80), zone=SHANGHAI)
    assert world.core.next_wakeup() is None, "without a wall clock no window is known"
    world.wait(1234.567891).set_clock(f"{MONDAY}T07:00:00+08:00").decide()
    seven = world.now
    for time, *expected in DAY_OF_QUOTAS:
        hours, minutes = map(int, time.split(":"))
        moment = seven + (hours - 7) * HOUR + minutes * MINUTE
        before = quotas(world)
        world.now = moment - 1
        world.decide()
        assert (quotas(world), world.core.next_wakeup()) == (before, moment), f"a microsecond before {time}"
        assert world.wake() == moment
        assert quotas(world) == expected, time


def test_the_weekend_has_no_office_hours() -> None:
    world = World(*TIMETABLE, nodes=nodes(1, cpu=80), zone=SHANGHAI)
    world.set_clock("2024-05-11T08:59:59+08:00").decide()
    assert quotas(world) == [20, 20, 20]
    assert world.wake() == 1_000_000
    assert quotas(world) == [10, 20, 20]


def test_timetables_follow_the_clusters_zone_unless_the_groups_have_one() -> None:
    """A quota of 4, of 12 from 08:00 to 09:00, at 06:30 UTC in July."""
    world = World(group("web", 4).windows("08:00-09:00 = 12"), nodes=nodes(1, cpu=80))
    world.set_clock("2026-07-01T06:30+00:00")
    web = world.core.groups.configured
    quotas = [world.group("web").quota]
    for event in ZoneSet("Europe/Berlin"), GroupsApplied(web, zone="Asia/Shanghai"), GroupsApplied(web):
        world.observe([event])
        quotas.append(world.group("web").quota)
    assert quotas == [[4_000], [12_000], [4_000], [12_000]]


def test_a_window_is_a_window_of_the_groups_time_zone() -> None:
    world = World(*TIMETABLE, nodes=nodes(1, cpu=80), zone=SHANGHAI)
    world.set_clock("2024-05-06T00:00:00+00:00").decide()
    assert quotas(world) == [20, 20, 20], "midnight in Greenwich is eight in the morning in Shanghai"


def test_preemption_moves_resources_with_the_quotas_through_a_day() -> None:
    """G: the shares follow the timetable without anybody doing anything."""
    world = World(*TIMETABLE, nodes=nodes(4, cpu=20), zone=SHANGHAI, node_order="first")
    world.set_clock(f"{MONDAY}T07:00:00+08:00")
    for name in ("mobile", "news", "games"):
        world.submit(job(name).tasks(1000).group(name))
    world.decide()
    assert [world.used(name) for name in ("mobile", "news", "games")] == [16, 32, 32], "10 : 20 : 20 of 80"
    for time, *expected in DAY_OF_QUOTAS:
        while quotas(world) != expected:
            world.wake()
        # Until nothing moves any more: victims stop after their grace, cooling-off passes.
        for _ in range(30):
            world.wait(15)
            if world.told:
                world.yield_victims()
            else:
                world.decide()
        shares = [world.used(name) for name in ("mobile", "news", "games")]
        assert sum(shares) == 80, time
        assert all(share >= 0.9 * quota for share, quota in zip(shares, expected, strict=True)), (time, shares)
