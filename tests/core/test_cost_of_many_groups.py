"""A pass asks each group that waits; what one blocked unit costs does not grow with the number of groups."""

from __future__ import annotations

import pytest

from tests.core.builders import World, group, job, node
from tests.counted import calls_of


def _calls_with(groups: int, cores: int) -> int:
    """Return the calls of a pass in which each of so many groups, with a quota of one core, has a blocked unit."""
    world = World(
        group("above", 1),
        *(group(f"g{number}", 1) for number in range(groups)),
        nodes=[node("n1").cpu(8)],
        check=False,
        min_runtime=3_600_000_000,
    )
    world.submit(*(job(f"runs{number}").cpu(1).group("above") for number in range(8))).decide()
    world.submit(*(job(f"j{number}").cpu(cores).group(f"g{number}") for number in range(groups)))
    return calls_of(lambda: world.core.decide(world.now))


@pytest.mark.parametrize("cores", [1, 2], ids=["owed room", "beyond the quota of its group"])
def test_a_blocked_unit_costs_the_same_beside_more_groups(cores: int) -> None:
    """Each asked all groups whether they yield, or for their demand: with 2,000 of them a pass took 15 s."""
    _calls_with(1, cores)  # what is made at the first use is made now
    few, many = _calls_with(20, cores), _calls_with(80, cores)
    assert many <= 5 * few, f"{few} calls with 20 groups, {many} with 80"
