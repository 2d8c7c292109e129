"""Units for which no node can be drained cost no look at all that runs for each of them."""

from __future__ import annotations

from cress.core.placing.vetoes import Verdict
from cress.model.job import JobType
from cress.model.times import SECOND
from tests.core.builders import World, group, job, nodes
from tests.counted import calls_of


def _calls_with(due: int, running: int) -> int:
    """Return the calls of a pass with so many due units, each of its own group, and so many running tasks."""
    groups = [group(f"g{i}", 8) for i in range(due)]
    world = World(group("runs", 8), *groups, nodes=nodes(12, cpu=10), drain_after=20 * SECOND, preemption="off")
    world.run(job("serves").cpu(4).tasks(12).type(JobType.SERVICE, 1).spread(1).group("runs"))
    world.submit(*(job(f"small{i}").cpu(0.1).limit("1h").group("runs") for i in range(running))).decide()
    world.submit(*(job(f"large{i}").cpu(8).group(f"g{i}") for i in range(due))).decide()
    world.wait(21).decide()
    assert world.veto("large0").kind is Verdict.NO_ROOM
    # Reservations are made again after an end.
    world.finish("small0", decide=False)
    return calls_of(lambda: world.core.decide(world.now, 100))


def test_running_tasks_are_looked_at_once_for_all_due_units() -> None:
    """It was once for each of them."""
    one = _calls_with(2, 150) - _calls_with(2, 50)
    many = _calls_with(12, 150) - _calls_with(12, 50)
    assert many - one <= 300, f"100 more running tasks cost {one} calls with 2 due units, {many} with 12"


def test_what_services_leave_is_found_anew_when_one_is_told_to_stop() -> None:
    """That changes no amounts; the end of the task does."""
    world = World(group("g", 10), nodes=nodes(1, cpu=10))
    world.run(job("serves").cpu(4).type(JobType.SERVICE, 1).group("g"), job("small").cpu(5).group("g"))
    left = world.core.books.reservations._left_by_services
    cpu = world.dimensions.index["cpu"]
    (stops,) = world.state("serves").attempts.values()
    before = left()[0, cpu]
    world.core.books.mark_leaving(stops)
    assert (before, left()[0, cpu]) == (6000, 10000)
