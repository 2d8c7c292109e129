"""Reservations that are set aside for a while, and put in force again only where they still hold."""

from __future__ import annotations

from cress.model.decisions import Start
from cress.model.times import HOUR, SECOND
from tests.core.builders import World, group, job, nodes


def two_heads() -> World:
    """Two nodes that are full for 100 and 200 s, each for one of two jobs that wait."""
    world = World(group("g", 8, "BackFill"), nodes=nodes(2, cpu=4), check=False)
    world.run(job("x").cpu(4).limit(100).group("g"), job("y").cpu(2).limit(200).group("g"))
    world.submit(job("a").cpu(4).limit("1h").group("g"), job("b").cpu(4).limit("1h").group("g"))
    world.submit(job("z").cpu(2).limit("1h").group("g"))
    return world


def test_one_that_was_set_aside_is_made_anew_where_something_took_its_room() -> None:
    world = two_heads()
    core = world.core
    a, b = world.state("a"), world.state("b")
    core.reservations.heed([a, b], core.now)
    assert [each.start // SECOND for each in core.reservations.kept] == [100, 200]
    core.reservations.heed([a], core.now)
    assert [each.in_force for each in core.reservations.kept] == [True, False]
    z = world.state("z")
    core.apply_fact(Start(attempt=99, job=z.job.id, task=0, node="n2"))
    core.reservations.heed([a, b], core.now)
    assert [each.start for each in core.reservations.kept] == [100 * SECOND, HOUR]


def test_one_that_was_set_aside_is_taken_again_where_it_holds() -> None:
    world = two_heads()
    core = world.core
    a, b = world.state("a"), world.state("b")
    core.reservations.heed([a, b], core.now)
    kept = core.reservations.kept[1]
    core.reservations.heed([a], core.now)
    core.reservations.heed([a, b], core.now)
    assert core.reservations.kept[1] is kept
    assert kept.in_force
