"""Advance reservations: kept for their groups at their times, backfilled before, cleared at their starts (design note 0032)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cress.core.advance.choice import find
from cress.model.advance import AdvanceReservation
from cress.model.decisions import Stop
from cress.model.events import AdvanceReserved
from cress.model.times import HOUR, SECOND
from tests.core.builders import World, group, job, nodes

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
    found = find(world.core, spec).reservation
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
    found = find(world.core, reservation("exam", "14:00", "16:00", "n1", group="b"))
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
    assert (
        world.why("next")
        == "node n1 is kept for maintenance patch from 2026-12-01 14:00 to 16:00; with a time limit of at most 2h it could start now"
    )
    world.wait(7200).decide()
    assert world.why("next") == "node n1 is kept for maintenance patch until 16:00"
    world.wait(7200).decide()
    assert world.nodes_of("next") == ["n1"]
