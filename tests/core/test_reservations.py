"""Reservations of units that wait: in force while they are asked for, and only where they still hold."""

from __future__ import annotations

from cress.model.times import SECOND
from tests.core.builders import World, group, job, nodes


def test_a_reservation_that_was_set_aside_holds_again_only_if_its_room_is_still_there() -> None:
    world = World(group("g", 4), group("h", 4), nodes=nodes(1, cpu=8), preemption="off")
    world.run(job("runs").group("g").cpu(4).limit(10)).submit(job("waits").group("g").cpu(8).limit(10)).decide()
    reservations, waits = world.core.books.reservations, world.state("waits")
    reservations.heed([waits], world.now)
    reservations.heed([], world.now)
    assert [(each.start, each.in_force) for each in reservations.kept] == [(10 * SECOND, False)]
    reservations.heed([waits], world.now)
    assert [(each.start, each.in_force) for each in reservations.kept] == [(10 * SECOND, True)], "nothing has changed"
    reservations.heed([], world.now)
    world.run(job("other").group("h").cpu(4).limit(30))
    reservations.heed([waits], world.now)
    assert [(each.start, each.in_force) for each in reservations.kept] == [(30 * SECOND, True)]
