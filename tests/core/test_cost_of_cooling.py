"""A group that cools off is passed over at a cost that does not grow with its queue."""

from __future__ import annotations

from cress.model.times import SECOND
from tests.core.builders import World, group, job, node
from tests.counted import calls_of


def _calls_beside(waiting: int) -> int:
    """Return the calls of a pass in which a group cools off, with so many equal jobs in its queue."""
    world = World(
        group("gave", 4),
        group("owed", 4),
        nodes=[node("n1").cpu(8)],
        cooling=600 * SECOND,
        cooling_above_quota=600 * SECOND,
    )
    world.submit(*(job(f"first{i}").cpu(1).limit("1h").group("gave") for i in range(8))).decide()
    world.wait(60).submit(job("taker").cpu(4).limit("1h").group("owed")).decide()
    world.yield_victims()
    world.submit(job("big").cpu(4).limit("1h").group("owed")).decide()
    world.submit(*(job(f"more{i}").cpu(1).limit("1h").group("gave") for i in range(waiting))).decide()
    return calls_of(lambda: world.core.decide(world.now, 100))


def test_equal_units_of_a_group_that_cools_off_are_refused_at_once() -> None:
    """A step of an iterator counts as a call: it was 3 for each waiting job, and 37 when each was asked for."""
    few, many = _calls_beside(10), _calls_beside(200)
    assert many - few <= 6 * (200 - 10), f"{few} calls with 10 waiting jobs, {many} with 200"
