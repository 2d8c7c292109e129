"""Gangs with an f(x): after so long, or at such a load, they start with a least number of tasks (source E §3.3)."""

from __future__ import annotations

import pytest

from cress.model.errors import InputError
from cress.model.events import Outcome
from cress.model.times import SECOND
from tests.core.builders import World, group, job, node, nodes
from tests.core.stories import sent_away

LATER = "IssueAsWhole = 3 && f(x) = (Waittime > 10s)"
GANG = job("gang").tasks(6).gang().requires(LATER)


def test_it_starts_as_a_whole_while_it_may() -> None:
    made = World(nodes=nodes(2, cpu=3))
    made.submit(GANG).decide()
    assert len(made.running) == 6


def test_it_starts_with_a_least_number_later_and_goes_on_one_by_one() -> None:
    made = World(nodes=nodes(1, cpu=4))
    made.submit(GANG).decide()
    assert made.running == {}
    assert made.wake() == 10_000_001
    assert made.nodes_of("gang") == ["n1"] * 4
    made.add_node(node("n2").cpu(1)).decide()
    assert len(made.running) == 5
    made.finish("gang", 0)
    assert [start.task for start in made.running.values()] == [1, 2, 3, 4, 5]
    made.finish("gang")
    assert made.ids["gang"] not in made.core.jobs


def test_the_tasks_that_start_first_are_placed_as_a_gang() -> None:
    """For a single task zone b would be closed once the first one runs in a; for all three it is open."""
    made = World(nodes=[node("a").cpu(1).where(Zone="a"), node("b").cpu(2).where(Zone="b")])
    made.submit(GANG.requires(f'near("self", Zone) && {LATER}')).decide()
    made.wake()
    assert made.running == {}
    made.change_node(node("b").cpu(3).where(Zone="b")).decide()
    assert made.nodes_of("gang") == ["b"] * 3


def test_fewer_than_the_least_number_never_start() -> None:
    made = World(nodes=nodes(1, cpu=2))
    made.run(job("other")).submit(GANG).decide()
    made.wait(100).decide()
    assert len(made.running) == 1
    made.add_node(node("n2").cpu(2)).decide()
    assert made.nodes_of("gang") == ["n1", "n2", "n2"]


def test_a_restored_gang_offers_nothing_while_room_is_made_for_one_of_its_tasks() -> None:
    made = World(group("rich", 1), group("poor", 6), nodes=nodes(1, cpu=6), min_runtime=30 * SECOND)
    made.run(job("victim").cpu(3).group("rich")).submit(GANG.group("poor")).decide()
    made.wait(20).decide()
    made.wait(11).decide()
    assert made.victims() == ["victim"]
    gang, back = made.state("gang"), sent_away(made.core)
    assert (len(gang.attempts), gang.waiting, gang.queued) == (3, 2, False)
    assert back.validate() == []
    assert not back.jobs[gang.job.id].queued


def test_a_failed_task_makes_it_start_again_as_a_whole() -> None:
    made = World(nodes=nodes(1, cpu=4))
    made.submit(GANG).decide()
    made.wake()
    made.finish("gang", 0, outcome=Outcome.FAILED, again=True)
    assert len(made.told) == 3
    made.yield_victims()
    assert made.running == {}
    made.wake()
    assert len(made.running) == 4


def test_a_load_makes_it_start_in_part() -> None:
    made = World(nodes=nodes(1, cpu=4))
    made.submit(GANG.requires("IssueAsWhole = True && f(x) = (ClusterLoad < 50%)")).decide()
    assert len(made.running) == 4


def test_its_racks_are_near_each_other_also_in_part() -> None:
    made = World(nodes=[node("n1").cpu(2).rack("r1"), node("n2").cpu(4).rack("r2")])
    made.submit(GANG.requires(f"{LATER} && NetworkAdjacent = True")).decide()
    made.wake()
    assert set(made.nodes_of("gang")) == {"n2"}


@pytest.mark.parametrize("text", ["IssueAsWhole = True", "IssueAsWhole = 0 && f(x) = (Waittime > 1s)"])
def test_what_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="does not depend on the node"):
        World().submit(GANG.requires(text))
