"""What is kept for a unit whose victims are stopping, while a center starts again and executors come and go."""

from __future__ import annotations

import pytest

from cress.lifecycle.inputs import NodeDead, NodeLeft, Restarted
from cress.lifecycle.machine import Machine
from cress.model.events import GroupsApplied, NodeCordoned
from cress.model.options import Options
from cress.model.reports import Cause
from cress.model.times import SECOND
from tests.lifecycle.builders import World, ended, group, job, launched, started
from tests.lifecycle.test_terms import joined

OPTIONS = Options(term=60 * SECOND, term_margin=5 * SECOND, max_per_round=1.0)


def preempting(*, terms: bool = True) -> tuple[World, int, list[int]]:
    """Two tasks of lab on n1 are told to stop for two of web; the number of that job, and the victims."""
    world = World(OPTIONS)
    world.step(joined("n1", terms=terms))
    world.step(GroupsApplied(groups=(group("lab", 2), group("web", 2))))
    world.submit(job(4, group="lab"))
    world.report("n1", *(started(number) for number in range(1, 5)))
    (number,) = world.submit(job(2, group="web", name="shop"))
    victims = [halt.attempt for halt in world.last.halts]
    assert len(victims) == len(world.machine.core.claims) == 2
    return world, number, victims


def back(world: World, victims: list[int], *, terms: bool = True) -> list[tuple[int, int, str]]:
    """N1 joins again and reports that the victims have ended; what is launched then."""
    reports = (started(number) for number in range(1, 5) if number not in victims)
    step = world.step(joined("n1", *reports, *(ended(each, -15, Cause.STOPPED) for each in victims), terms=terms))
    return launched(step)


@pytest.mark.parametrize("restored", [False, True])
def test_a_center_that_starts_again_keeps_what_was_claimed(restored: bool) -> None:
    world, number, victims = preempting()
    if restored:
        world.machine = Machine.restore(world.machine.export())
    assert not world.step(Restarted(epoch=2)).halts
    assert [claim.victims for claim in world.machine.core.claims] == [[each] for each in victims]
    assert back(world, victims) == [(number, 0, "n1"), (number, 1, "n1")]
    assert not world.last.halts


def test_an_executor_that_is_back_in_time_finds_what_was_claimed() -> None:
    world, number, victims = preempting()
    world.step(NodeLeft(name="n1", granted=world.now + 30 * SECOND))
    assert len(world.machine.core.claims) == 2
    assert back(world, victims) == [(number, 0, "n1"), (number, 1, "n1")]


def test_a_claim_ends_with_the_term_of_its_node() -> None:
    world, number, _ = preempting()
    world.step(NodeLeft(name="n1", granted=world.now + SECOND))
    assert len(world.machine.core.claims) == 2
    world.step(after=10 * SECOND)
    assert world.machine.core.claims == []
    assert {job for job, _, _ in launched(world.step(joined("n2")))} >= {number}


def test_a_claim_on_a_node_that_an_operator_cordons_while_it_is_away_is_void() -> None:
    world, _, _ = preempting()
    world.step(NodeLeft(name="n1", granted=world.now + 30 * SECOND))
    world.step(NodeCordoned(name="n1", cordoned=True, reason="repair"))
    assert world.machine.core.claims == []


def test_nothing_is_claimed_on_a_node_that_is_declared_dead() -> None:
    world, _, _ = preempting()
    world.step(NodeLeft(name="n1", granted=world.now + 30 * SECOND))
    world.step(NodeDead(name="n1"))
    assert world.machine.core.claims == []


def test_nothing_is_claimed_for_ever_on_a_node_without_terms() -> None:
    world, _, _ = preempting(terms=False)
    world.leave("n1")
    assert world.machine.core.claims == []
