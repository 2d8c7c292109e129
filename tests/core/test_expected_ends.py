"""Expected ends of running tasks: which of them outlive an estimate, and what is kept of those that are over."""

from __future__ import annotations

from tests.core.builders import World, group, job, nodes


def test_tasks_that_are_over_are_forgotten_long_before_the_end_that_was_expected_of_them() -> None:
    world = World(group("lab", policy="BackFill").with_options(estimates="predicted"), nodes=nodes(1, cpu=2))
    world.submit(job("long").group("lab").limit("10h").expected(3600))
    world.decide()
    for number in range(300):
        name = f"crash{number}"
        world.submit(job(name).group("lab").limit("10h").expected(7200))
        world.decide()
        world.finish(name)
    assert len(world.core.books.expected.heap) < 100
    # The one that goes on is still known to outlive its estimate.
    assert world.core.books.expected.next() == world.now + 3600 * 10**6
