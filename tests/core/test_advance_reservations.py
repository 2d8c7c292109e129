"""Advance reservations: kept for their groups at their times, backfilled before, cleared at their starts (design note
0032).
"""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from cress.core.advance.choice import find
from cress.core.scheduler import Scheduler
from cress.model.advance import AdvanceReservation
from cress.model.decisions import AdvanceReservationMoved, Stop
from cress.model.errors import InputError, NotAccepted
from cress.model.events import AdvanceReservationRemoved, AdvanceReserved, Outcome
from cress.model.job import JobType
from cress.model.times import HOUR, SECOND
from tests.core.builders import World, group, job, node, nodes
from tests.counted import calls_of

DAY = "2026-12-01"
NOON = f"{DAY}T12:00+00:00"


def at(clock: str, day: str = DAY) -> int:
    """The moment of a time of day, in UTC."""
    return round(datetime.fromisoformat(f"{day}T{clock}+00:00").timestamp()) * SECOND


def reservation(name: str, start: str, end: str, *names: str, group: str = "", **rest: Any) -> AdvanceReservation:
    return AdvanceReservation(
        name=name, group=group, start=at(start), end=at(end), places=tuple((each, 1) for each in names), **rest
    )


def keep(world: World, spec: AdvanceReservation) -> AdvanceReservation:
    """Have the nodes of a reservation chosen or checked, and make it."""
    found = find(world.core.books, spec).reservation
    world.observe([AdvanceReserved(found)])
    return found


def cluster(count: int = 1, **options: Any) -> World:
    world = World(group("a", 8), group("b", 8), nodes=nodes(count, cpu=4), **options)
    return world.set_clock(NOON)


def test_a_task_that_ends_before_the_start_is_backfilled_and_a_longer_one_waits() -> None:
    world = cluster()
    keep(world, reservation("exam", "14:00", "16:00", "n1", group="b"))
    world.submit(
        job("short").group("a").limit("2h"),
        job("long").group("a").limit("2h 1s".replace(" ", "")),
        job("endless").group("a"),
    )
    world.decide()
    assert world.started() == ["short"]


def test_its_group_may_start_at_any_time_and_others_again_at_its_end() -> None:
    world = cluster()
    keep(world, reservation("exam", "14:00", "16:00", "n1", group="b"))
    world.submit(job("mine").group("b").cpu(2), job("other").group("a").cpu(1).limit("3h")).decide()
    assert world.started() == ["mine"]
    world.wait(2 * 3600).decide()
    assert world.started() == ["mine"]
    world.wait(2 * 3600).decide()
    assert world.started() == ["mine", "other"]
    assert not world.core.advance_reservations.by_name


def test_what_still_runs_at_the_start_is_stopped_and_queued_again() -> None:
    world = cluster(2)
    world.run(job("before").group("a").tasks(2).cpu(4).stop_grace("30s"))
    found = find(world.core.books, reservation("exam", "14:00", "16:00", "n1", group="b"))
    assert [each.node for each in found.attempts] == [0]
    keep(world, reservation("exam", "14:00", "16:00", "n1", group="b"))
    world.decide()
    assert world.core.next_wakeup() == 2 * HOUR
    world.submit(job("mine").group("b").cpu(4)).decide()
    world.wait(7200).decide()
    (stop,) = [each for each in world.decisions if isinstance(each, Stop)]
    assert (stop.node, stop.reservation, stop.end - world.now) == ("n1", "exam", 15 * SECOND)
    world.yield_victims()
    assert world.nodes_of("mine") == ["n1"]
    world.finish("mine")
    # What is kept for the group stays free, although nothing of it waits.
    assert world.nodes_of("before") == ["n2"]
    assert world.why("before") == "node n1 is kept for reservation exam of group b until 16:00"
    world.wait(7200).decide()
    assert world.nodes_of("before") == ["n1", "n2"]


def test_maintenance_keeps_everybody_off() -> None:
    world = cluster(2)
    keep(world, reservation("patch", "14:00", "16:00", "n1"))
    world.run(job("other").group("a").cpu(4))
    assert world.nodes_of("other") == ["n2"]
    world.submit(job("next").group("b").limit("3h")).decide()
    assert world.why("next") == (
        "node n1 is kept for maintenance patch from 2026-12-01 14:00 to 16:00; with a time_limit of at most "
        "2h it could start now"
    )
    world.wait(7200).decide()
    assert world.why("next") == "node n1 is kept for maintenance patch until 16:00"
    world.wait(7200).decide()
    assert world.nodes_of("next") == ["n1"]


# --- refused and chosen -----------------------------------------------------------------------------------------------


def test_overlapping_reservations_are_refused_with_the_name_and_the_time_of_the_other() -> None:
    world = cluster(2)
    keep(world, reservation("exam", "14:00", "16:00", "n1", group="b"))
    with pytest.raises(NotAccepted) as refused:
        find(world.core.books, reservation("patch", "15:00", "17:00", "n2", "n1"))
    assert refused.value.what == "node n1 is reserved by exam from 2026-12-01 15:00 to 16:00"
    # One after the other, and on another node.
    find(world.core.books, reservation("patch", "16:00", "17:00", "n1"))
    find(world.core.books, reservation("patch", "15:00", "17:00", "n2"))


def test_a_group_with_groups_below_it_has_no_reservations() -> None:
    groups = (group("physics", 8), group("optics", 4).inside("physics"), group("atoms", 4).inside("physics"))
    world = World(*groups, nodes=nodes(1, cpu=8)).set_clock(NOON)
    with pytest.raises(InputError) as refused:
        find(world.core.books, reservation("exam", "14:00", "16:00", "n1", group="physics"))
    assert str(refused.value) == (
        "group: group 'physics' has groups below it and takes no jobs"
        " (a reservation is of a group that takes jobs, one of these: optics, atoms)"
    )


@pytest.mark.parametrize(
    ("days", "start", "clash"),
    [
        ((1,), "2026-12-08T14:00", True),  # the Tuesday a week later
        ((1,), "2026-12-09T14:00", False),
        ((0, 1, 2, 3, 4), "2027-11-30T15:30", True),  # a Tuesday almost a year later
        ((0, 1, 2, 3, 4), "2027-11-28T15:30", False),  # a Sunday
    ],
)
def test_a_repetition_is_compared_with_what_comes_much_later(days: tuple[int, ...], start: str, clash: bool) -> None:
    begin = round(datetime.fromisoformat(f"{start}+00:00").timestamp()) * SECOND
    once = AdvanceReservation(name="once", start=begin, end=begin + HOUR, places=(("n1", 1),))
    weekly = reservation("weekly", "14:00", "16:00", "n1", group="b", days=days, zone="UTC")
    for first, second in ((once, weekly), (weekly, once)):
        world = cluster()
        keep(world, first)
        if clash:
            with pytest.raises(NotAccepted, match=f"reserved by {first.name} from"):
                find(world.core.books, second)
        else:
            find(world.core.books, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # The start, the hours and the days of each, on Tuesdays and Saturdays.
        (("2026-12-01T14:00", 2, (0, 1, 2, 3, 4, 5, 6)), ("2036-12-02T15:00", 1, ())),
        (("2026-12-01T14:00", 2, (0, 1, 2, 3, 4, 5, 6)), ("2029-12-01T13:30", 1, (5,))),
        (("2026-12-01T14:00", 2, (1,)), ("2036-12-02T15:00", 1, (1,))),
        (("2026-12-01T14:00", 24 * 3650, ()), ("2030-12-03T15:00", 1, (1,))),
    ],
)  # fmt: skip
def test_reservations_that_first_meet_after_years_are_refused_in_either_order(
    first: tuple[str, int, tuple[int, ...]], second: tuple[str, int, tuple[int, ...]]
) -> None:
    made = []
    for name, (start, hours, days) in (("first", first), ("second", second)):
        begin = round(datetime.fromisoformat(f"{start}+00:00").timestamp()) * SECOND
        made.append(
            AdvanceReservation(
                name=name, group="b", start=begin, end=begin + hours * HOUR, days=days, zone="UTC", places=(("n1", 1),)
            )
        )
    for one, other in (made, made[::-1]):
        world = cluster()
        keep(world, one)
        with pytest.raises(NotAccepted, match=f"node n1 is reserved by {one.name} from 20"):
            find(world.core.books, other)


def test_what_meets_only_together_after_years_is_refused() -> None:
    world = cluster(1)
    two = world.dimensions.vector(cpu=2000)
    keep(world, reservation("daily", "14:00", "16:00", "n1", group="a", amounts=two, days=tuple(range(7)), zone="UTC"))
    later = round(datetime.fromisoformat("2036-12-02T15:00+00:00").timestamp()) * SECOND
    once = AdvanceReservation(
        name="once", group="a", start=later, end=later + HOUR, places=(("n1", 1),), amounts=two
    )  # fmt: skip
    keep(world, once)
    with pytest.raises(NotAccepted, match="node n1 is reserved by daily from"):
        find(
            world.core.books,
            reservation("weekly", "14:30", "15:30", "n1", group="b", amounts=two, days=(1,), zone="UTC"),
        )
    # On the day before it has room.
    find(world.core.books, reservation("monday", "14:30", "15:30", "n1", group="b", amounts=two, days=(0,), zone="UTC"))


def test_amounts_may_share_a_node_as_far_as_they_fit() -> None:
    world = cluster(1)
    two = world.dimensions.vector(cpu=2000)
    keep(world, reservation("left", "14:00", "16:00", "n1", group="a", amounts=two))
    keep(world, reservation("right", "15:00", "17:00", "n1", group="b", amounts=two))
    with pytest.raises(NotAccepted, match="node n1 is reserved by left from"):
        find(world.core.books, reservation("more", "15:30", "15:40", "n1", group="b", amounts=two))
    world.wait(3 * 3600 + 600)
    world.submit(job("a").group("a").tasks(3), job("b").group("b").tasks(3), job("c").tasks(1)).decide()
    assert sorted(world.jobs_running()) == ["a", "a", "b", "b"]


def test_nodes_are_chosen_where_fewest_tasks_have_to_stop_and_again_when_one_is_lost() -> None:
    world = cluster(4)
    world.run(job("endless").group("a").cpu(4).tasks(2), job("short").group("a").cpu(4).limit("1h"))
    world.submit(job("db").type(JobType.DATABASE).group("a").cpu(4)).decide()
    assert [world.nodes_of(each) for each in ("endless", "short", "db")] == [["n1", "n2"], ["n3"], ["n4"]]
    spec = reservation("exam", "14:00", "16:00", group="b", count=1)
    assert find(world.core.books, spec).reservation.places == (("n3", 1),)
    two = find(world.core.books, reservation("exam", "14:00", "16:00", group="b", count=2))
    assert (two.reservation.places, [each.node for each in two.attempts]) == ((("n1", 1), ("n3", 1)), [0])
    with pytest.raises(NotAccepted, match="there is no room for 4 whole nodes on 4 nodes"):
        find(world.core.books, reservation("exam", "14:00", "16:00", group="b", count=4))
    keep(world, spec)
    world.lose_node("n3").decide()
    moved = [each for each in world.decisions if isinstance(each, AdvanceReservationMoved)]
    assert moved == [AdvanceReservationMoved("exam", (("n1", 1),))]


def test_a_search_for_other_nodes_does_not_look_two_years_ahead_again_at_each_decision() -> None:
    """It was made of 33,000 calls: while a node is away, every end of a task lets the scheduler search."""
    world = cluster(3)
    world.run(job("waits").cpu(1).limit("1h"), job("ends").cpu(1).limit("1h"), job("other").cpu(1).limit("1h"))
    daily = {"days": tuple(range(7)), "zone": "Europe/Berlin"}
    keep(world, reservation("exam", "14:00", "16:00", group="b", count=2, **daily))
    keep(world, reservation("course", "15:00", "17:00", "n3", group="a", **daily))
    world.lose_node("n1").decide()
    world.wait(60).finish("ends", decide=False)
    assert calls_of(lambda: world.core.decide(world.now, 100)) < 4000
    assert not [each for each in world.decisions if isinstance(each, AdvanceReservationMoved)]


def test_nodes_are_chosen_again_by_a_requirement_that_an_older_release_accepted() -> None:
    """A new one would be refused: FreeMemory is in bytes, and 4 has no unit."""
    world = cluster(2, check=False)
    found = find(world.core.books, reservation("exam", "14:00", "16:00", group="b", count=1)).reservation
    stored = AdvanceReserved(msgspec.structs.replace(found, requirement="FreeMemory >= 4 || IdleCPU > 0"))
    world.core.apply(world.now, [stored])
    world.lose_node("n1").decide()
    assert AdvanceReservationMoved("exam", (("n2", 1),)) in world.decisions


def test_amounts_are_chosen_in_copies_on_nodes_that_satisfy_the_requirement() -> None:
    world = World(
        group("b", 8), nodes=[node("n1").cpu(4), node("n2").cpu(4).where(SSD=True), node("n3").cpu(4).where(SSD=True)]
    ).set_clock(NOON)
    two = world.dimensions.vector(cpu=2000)
    spec = reservation("course", "14:00", "16:00", group="b", amounts=two, count=3, requirement="SSD = True")
    assert find(world.core.books, spec).reservation.places == (("n2", 2), ("n3", 1))


def test_a_node_with_a_database_is_refused_and_the_database_goes_on() -> None:
    world = cluster(1)
    world.run(job("pg").type(JobType.DATABASE).group("a"))
    with pytest.raises(NotAccepted) as refused:
        find(world.core.books, reservation("patch", "14:00", "16:00", "n1"))
    assert refused.value.what == "node n1 runs a task of the database job 1 (pg), which is never stopped"
    # Beside it there is room.
    find(
        world.core.books,
        reservation("exam", "14:00", "16:00", "n1", group="b", amounts=world.dimensions.vector(cpu=3000)),
    )


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (reservation("r", "14:00", "16:00", "n9"), "there is no node 'n9'"),
        (reservation("r", "14:00", "16:00", "n1", group="c"), "there is no group 'c'"),
        (reservation("r", "16:00", "14:00", "n1"), "it ends before it begins"),
        (reservation("r", "10:00", "11:00", "n1"), "it is over already"),
        (reservation("r", "14:00", "16:00"), "it has no nodes"),
    ],
)
def test_what_makes_no_sense_is_refused(spec: AdvanceReservation, what: str) -> None:
    with pytest.raises(InputError) as refused:
        find(cluster().core.books, spec)
    assert refused.value.what == what


# --- who may be there -------------------------------------------------------------------------------------------------


def test_others_may_use_what_the_group_uses_beyond_its_reservation_only() -> None:
    world = cluster(1)
    keep(world, reservation("exam", "12:00", "16:00", "n1", group="b", amounts=world.dimensions.vector(cpu=2000)))
    world.submit(job("b").group("b").tasks(1), job("a").group("a").tasks(4)).decide()
    # One core of the reservation is in use, one stays free.
    assert world.jobs_running() == ["a", "a", "b"]
    world.submit(job("b2").group("b").tasks(1)).decide()
    assert world.jobs_running() == ["a", "a", "b", "b2"]


def test_two_of_one_group_on_a_node_keep_the_sum_beside_what_it_holds() -> None:
    world = cluster()
    half = world.dimensions.vector(cpu=2000)
    for name, start, end in (("one", "12:00", "16:00"), ("two", "12:30", "14:00")):
        keep(world, reservation(name, start, end, "n1", group="b", amounts=half))
    world.submit(job("mine").group("b").cpu(2)).decide()
    # The other half is kept from 12:30 to 14:00 as well.
    world.submit(job("long").group("a").cpu(2).limit("1h"), job("short").cpu(2).limit("30min")).decide()
    assert world.started() == ["mine", "short"]


def test_two_maintenance_windows_on_a_node_get_the_room_of_both() -> None:
    world = cluster()
    half = world.dimensions.vector(cpu=2000)
    world.run(*(job(f"j{i}").group("a").cpu(1) for i in range(4)))
    for name in ("one", "two"):
        keep(world, reservation(name, "12:30", "14:00", "n1", amounts=half))
    world.wait(1800).decide()
    assert len([each for each in world.decisions if isinstance(each, Stop)]) == 4


def test_what_is_foreseen_for_others_at_its_end_does_not_keep_its_group_out() -> None:
    world = cluster(1)
    keep(world, reservation("exam", "12:00", "13:00", "n1", group="b"))
    world.submit(job("waits").group("a").cpu(4)).decide()
    world.run(job("mine").group("b").tasks(4))


def test_its_group_goes_there_first() -> None:
    world = cluster(3)
    keep(world, reservation("exam", "12:00", "16:00", "n3", group="b"))
    world.run(job("one").group("b").tasks(4), job("two").group("b").tasks(2))
    assert (world.nodes_of("one"), world.nodes_of("two")) == (["n3"] * 4, ["n1", "n1"])


@pytest.mark.parametrize(("reserved", "victims"), [(4, []), (3, []), (2, ["holds"]), (1, ["holds"])])
def test_what_a_group_holds_of_a_reservation_ahead_is_preempted_for_nobody_who_would_run_into_it(
    reserved: int, victims: list[str]
) -> None:
    world = World(group("a", 4), group("b", 1), nodes=nodes(1, cpu=4)).set_clock(NOON)
    world.run(job("holds").cpu(2).tasks(2).group("b"))
    spec = reservation("exam", "20:00", "21:00", group="b", amounts=world.dimensions.vector(cpu=1000))
    keep(world, msgspec.structs.replace(spec, places=(("n1", reserved),)))
    # Without a limit: in the place of a task that covers the exam it could not start, and that task would start again.
    world.submit(job("endless").cpu(2).group("a")).decide()
    assert world.victims() == victims
    if victims:
        world.yield_victims()
        assert world.jobs_running() == ["endless", "holds"]


def test_nobody_preempts_its_group_there() -> None:
    world = World(group("a", 4), group("b", 4), nodes=nodes(2, cpu=4)).set_clock(NOON)
    keep(world, reservation("exam", "12:00", "16:00", "n1", group="b"))
    world.run(job("big").group("b").tasks(8))
    world.submit(job("poor").group("a").cpu(4)).decide()
    assert {start.node for start in world.told.values()} == {"n2"}


def test_nobody_counts_free_room_there_instead_of_victims() -> None:
    """n1 is free, and kept for b; a gets its room on n2."""
    world = World(group("a", 4), group("b", 1), nodes=nodes(2, cpu=4)).set_clock(NOON)
    world.run(
        job("big").group("b").tasks(4).requires("Nodes in (n2)"), job("more").group("b").requires("Nodes in (n1)")
    )
    keep(world, reservation("exam", "13:00", "16:00", "n1", group="b"))
    world.submit(job("poor").group("a").cpu(3).limit("2h")).decide()
    assert {start.node for start in world.told.values()} == {"n2"}


def test_a_gang_waits_for_the_gap_and_starts_after_it() -> None:
    world = cluster(2)
    keep(world, reservation("exam", "13:00", "14:00", "n2", group="b"))
    world.submit(job("gang").group("a").cpu(4).tasks(2).gang().limit("2h")).decide()
    assert world.started() == []
    assert world.why("gang") == (
        "node n2 is kept for reservation exam of group b from 2026-12-01 13:00 to 14:00; with a time_limit "
        "of at most 1h it could start now"
    )
    world.wait(7200).decide()
    assert world.started() == ["gang", "gang"]


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_backfill_before_a_reservation(backfill: str) -> None:
    world = World(
        group("a", 8, "BackFill").with_options(backfill=backfill), group("b", 8), nodes=nodes(1, cpu=4)
    ).set_clock(NOON)
    keep(world, reservation("exam", "13:00", "14:00", "n1", group="b"))
    world.submit(
        job("long").group("a").cpu(4).limit("2h"),
        job("fits").group("a").limit("1h"),
        job("not").group("a").limit("61m"),
    ).decide()
    assert world.started() == ["fits"]
    world.wait(3600).finish("fits")
    assert world.started() == ["fits"]
    world.wait(3600).decide()
    assert world.started() == ["fits", "long"]


# --- ends, repetitions, clocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at_end", "stopped"), [("keep", []), ("stop", ["n1"])])
def test_what_outlasts_it_goes_on_or_stops(at_end: str, stopped: list[str]) -> None:
    world = cluster(1)
    keep(world, reservation("exam", "13:00", "14:00", "n1", group="b", at_end=at_end))
    world.run(job("early").group("b"))
    world.wait(3600).run(job("inside").group("b"))
    world.wait(3600).decide()
    stops = [each for each in world.decisions if isinstance(each, Stop)]
    assert [each.node for each in stops] == stopped
    assert all((each.reservation, each.job) == ("exam", world.ids["inside"]) for each in stops)


def test_a_task_of_many_days_meets_the_next_weekly_window() -> None:
    world = cluster(1)
    keep(world, reservation("patch", "14:00", "16:00", "n1", days=(1,), zone="UTC"))
    world.submit(job("ten").group("a").limit("10d"), job("hours").group("a").limit("2h")).decide()
    assert world.started() == ["hours"]
    assert world.why("ten") == (
        "job 1 is longer than every gap between repetitions of reservation patch (6d22h at most); with a "
        "time_limit of at most 2h it could start now"
    )
    world.finish("hours")
    for _ in range(3):
        world.wait(7 * 86400).submit(job(f"week{world.now}").group("a").limit("1h")).decide()
        assert not any(start.job == world.ids["ten"] for start in world.running.values())
    # On a second node it finds room.
    world.add_node(node("n2").cpu(4)).decide()
    assert world.nodes_of("ten") == ["n2"]


def test_a_shorter_limit_is_recommended_only_to_jobs_that_have_room() -> None:
    world = cluster(1)
    keep(world, reservation("patch", "14:00", "16:00", "n1", days=(1,), zone="UTC"))
    world.run(job("before").group("a").cpu(4).limit("1h"))
    world.submit(job("ten").group("b").cpu(2).limit("10d"), job("gang").group("b").tasks(2).gang().cpu(2).limit("10d"))
    world.decide()
    short = "is longer than every gap between repetitions of reservation patch (6d22h at most); "
    short += "it needs a shorter time_limit"
    assert [world.why("ten"), world.why("gang")] == [f"job 2 {short}", f"job 3 {short}"]
    world.finish("before")
    assert world.why("ten").endswith("; with a time_limit of at most 2h it could start now")
    assert world.why("gang").endswith("; with a time_limit of at most 2h it could start now")


def test_a_shorter_limit_is_not_recommended_while_all_devices_are_in_use() -> None:
    world = World(
        group("a", 8), group("b", 8), nodes=[node("n1").cpu(8).gpus(4, model="T4")], dimensions=("gpu",)
    ).set_clock(NOON)
    keep(world, reservation("patch", "14:00", "16:00", "n1", days=(1,), zone="UTC"))
    world.run(job("before").group("a").has(gpu=4).limit("1h"))
    world.submit(job("ten").group("b").has(gpu=1).limit("10d")).decide()
    assert world.why("ten").endswith("(6d22h at most); it needs a shorter time_limit")


def test_a_gang_that_has_room_for_some_tasks_only_is_not_told_to_be_shorter() -> None:
    world = cluster(2)
    world.run(job("before").group("a").cpu(4).limit("1h"))
    keep(world, reservation("exam", "14:00", "16:00", "n1", "n2", group="b"))
    world.submit(job("gang").group("a").tasks(2).gang().cpu(4).limit("3h")).decide()
    assert world.why("gang") == "node n2 is kept for reservation exam of group b from 2026-12-01 14:00 to 16:00"
    world.finish("before")
    assert world.why("gang").endswith("; with a time_limit of at most 2h it could start now")


@pytest.mark.parametrize(
    ("day", "limit"),
    [("2026-12-01", "2h29m"), ("2026-12-04", "3d2h"), ("2027-04-02", "122d"), ("2536-12-01", "36500d")],
)
def test_limits_are_told_as_people_read_them(day: str, limit: str) -> None:
    world = cluster(1)
    begin = at("14:29:30", day)
    keep(world, AdvanceReservation(name="exam", group="b", start=begin, end=begin + HOUR, places=(("n1", 1),)))
    world.submit(job("endless").group("a")).decide()
    assert world.why("endless").endswith(
        f"; the job has no time limit; with a time_limit of at most {limit} it could start now"
    )


def test_a_job_that_never_fits_holds_up_nobody() -> None:
    world = cluster(1)
    keep(world, reservation("patch", "14:00", "16:00", "n1", days=(0, 1, 2, 3, 4, 5, 6), zone="UTC"))
    world.submit(job("endless").group("a"), job("short").group("a").limit("1h")).decide()
    assert world.started() == ["short"]


def test_the_clock_may_be_set_and_without_one_nothing_is_reserved() -> None:
    world = World(group("a", 8), group("b", 8), nodes=nodes(1, cpu=4))
    world.observe([AdvanceReserved(reservation("exam", "14:00", "16:00", "n1", group="b"))])
    world.run(job("first").group("a"))
    world.set_clock(f"{DAY}T15:00+00:00")
    world.decide()
    assert [each.node for each in world.told.values()] == ["n1"]
    world.yield_victims()
    world.set_clock(f"{DAY}T16:30+00:00").decide()
    assert world.jobs_running() == ["first"]


def test_removing_it_opens_the_node_at_once() -> None:
    world = cluster(1)
    keep(world, reservation("exam", "12:00", "16:00", "n1", group="b"))
    world.submit(job("a").group("a")).decide()
    assert world.started() == []
    world.observe([AdvanceReservationRemoved("exam")]).decide()
    assert world.started() == ["a"]


def test_the_ends_of_removed_reservations_are_no_times_at_which_a_gang_is_tried() -> None:
    world = World(group("a", 8), nodes=[node(name).cpu(2).where(zone="z") for name in ("n1", "n2")]).set_clock(NOON)
    world.run(job("runs").group("a").cpu(2).tasks(2).limit("1h"))
    keep(world, reservation("exam", "15:00", "16:00", "n1"))
    # The gang would run into the exam from each of these ends on: halving them finds none before 16:00.
    ends = ("14:10", "14:20", "14:30")
    for start, end in pairwise(("14:00", *ends)):
        keep(world, reservation(f"until {end}", start, end, "n1"))
    for end in ends:
        world.observe([AdvanceReservationRemoved(f"until {end}")])
    world.submit(job("gang").group("a").cpu(2).tasks(2).gang().limit("1h").requires("within(Zone)")).decide()
    slot = world.core.books.timeline.earliest(world.state("gang").shape, HOUR, world.now)
    assert slot is not None
    assert slot.start == HOUR


def test_a_group_with_a_reservation_stays() -> None:
    world = cluster(1)
    keep(world, reservation("exam", "14:00", "16:00", "n1", group="b"))
    with pytest.raises(InputError, match="group b has the advance reservation exam"):
        world.apply(group("a", 8))


def test_a_restored_scheduler_stops_at_the_start_what_the_first_one_would_have() -> None:
    world = cluster(1)
    world.run(job("before").group("a").cpu(4))
    keep(world, reservation("exam", "14:00", "16:00", "n1", group="b", at_end="stop"))
    other = Scheduler.restore(world.core.export())
    # It was away at the start.
    assert [each.reservation for each in other.decide(world.now + 3 * HOUR).items if isinstance(each, Stop)] == ["exam"]


def test_an_outcome_of_a_stopped_task_does_not_count_as_its_own() -> None:
    world = cluster(1)
    world.run(job("before").group("a").cpu(4))
    keep(world, reservation("exam", "12:00", "13:00", "n1", group="b"))
    world.decide()
    world.end(world.told.copy().values(), Outcome.FAILED).decide()
    assert world.state("before").waiting == 1


@pytest.mark.parametrize(("cpu", "starts"), [(2, True), (3, False)])
def test_a_claim_whose_victims_took_too_long_starts_only_beside_what_is_reserved(cpu: int, starts: bool) -> None:
    world = World(group("a", 4), group("b", 1), group("c", 4), nodes=nodes(1, cpu=4), cooling=0).set_clock(NOON)
    world.run(job("victim").group("b").cpu(4).stop_grace("20s").limit("50m"))
    half = world.dimensions.vector(cpu=2000)
    keep(world, reservation("exam", "13:01", "14:00", "n1", group="c", amounts=half))
    world.submit(job("it").group("a").cpu(cpu).limit("1h")).decide()
    assert world.victims() == ["victim"]
    world.wait(90).yield_victims()
    assert ("it" in world.started()) is starts
    assert world.core.claims == []


def test_a_gang_that_runs_in_part_offers_nothing_while_one_of_its_tasks_gives_way() -> None:
    in_part = "IssueAsWhole = 2 && f(x) = (Waittime > 10s)"
    world = cluster(2)
    world.submit(job("gang").group("a").cpu(4).tasks(4).gang().requires(in_part)).decide()
    world.wake()
    assert world.nodes_of("gang") == ["n1", "n2"]
    assert world.state("gang").queued
    keep(world, reservation("exam", "13:00", "14:00", "n1", group="b", at_end="stop"))
    world.set_clock(f"{DAY}T13:00+00:00").decide()
    assert len(world.told) == 2
    assert not world.state("gang").queued
    # Both tasks end well before they have to stop: the other two begin again as a whole.
    world.end([*world.told.values()], Outcome.SUCCEEDED)
    assert world.state("gang").queued


def test_a_change_that_would_need_a_reserved_node_is_not_said_to_help() -> None:
    reasons = {}
    for kept in (False, True):
        world = cluster(2)
        world.run(job("first").group("b").cpu(4))
        if kept:
            keep(world, reservation("exam", "11:00", "16:00", "n2", group="b"))
        world.submit(job("it").group("a").tasks(2).gang().spread(per_node=1)).decide()
        reasons[kept] = world.why("it")
    told = "without at most 1 of its tasks on one node it would start"
    assert reasons[False].endswith(told)
    assert told not in reasons[True]


def test_a_reservation_is_removed_at_the_moment_at_which_it_ends() -> None:
    """The order was right when it was given; the end that comes with its time leaves nothing to remove."""
    world = cluster()
    keep(world, reservation("exam", "12:10", "13:00", "n1", group="a"))
    world.wait(3600).observe([AdvanceReservationRemoved("exam")]).decide()
    assert not world.core.advance_reservations.by_name
