"""Answers about a waiting job look only at what can matter for it."""

from __future__ import annotations

from cress.core.answers.prospects import Prospects
from cress.core.diagnostics.smallest_change import smallest_change
from tests.core.builders import World, group, job, nodes
from tests.counted import calls_of


def _full(waiting: int) -> World:
    """A full node, and so many jobs that wait for it."""
    world = World(group("g", 4), nodes=nodes(1, cpu=4))
    world.run(job("runs").cpu(4).limit("1h").group("g"))
    return world.submit(*(job(f"waits{i}").cpu(4).limit("1h").group("g") for i in range(waiting)))


def test_a_queue_is_not_read_of_which_no_unit_was_offered_first() -> None:
    """A group that is passed over offers none."""
    few, many = _full(5), _full(50)
    of_few = calls_of(lambda: Prospects(few.core.books, few.state("waits4")))
    of_many = calls_of(lambda: Prospects(many.core.books, many.state("waits49")))
    assert of_few == of_many


def test_without_a_clause_over_domains_no_room_is_counted() -> None:
    world = _full(1)
    world.decide()
    assert calls_of(lambda: smallest_change(world.core.books, world.state("waits0"))) < 10


def test_answers_are_kept_to_the_end_of_the_outer_of_two_contexts() -> None:
    """They were no longer kept after the inner one."""
    fit = _full(0).core.books.fit
    asked: list[int] = []
    with fit.unchanged(1):
        with fit.unchanged(1):
            pass
        for _ in range(2):
            fit._once("question", lambda: asked.append(1))
    assert asked == [1]
    fit._once("question", lambda: asked.append(1))
    assert asked == [1, 1]
