"""When fragments are lent: before their owner needs them, and as long as little work is lost by it (design note
0024).
"""

from __future__ import annotations

import pytest

from cress.model.times import MINUTE
from tests.core.test_fragments import cluster, of


@pytest.mark.parametrize(("limit", "borrows"), [("20s", True), ("40s", False)], ids=["before", "too late"])
def test_a_fragment_is_not_lent_beyond_the_time_at_which_its_owners_next_unit_fits(limit: str, borrows: bool) -> None:
    world = cluster(cpu=4)
    world.run(of("a", "first", 4, workload="w")).finish("first")
    world.run(of("a", "running", 2, workload="w", limit="30s"))
    world.submit(of("a", "next", 4, workload="w"), of("b", "short", 2, limit=limit)).decide()
    assert bool(world.state("short").attempts) is borrows


def test_a_fragment_is_lent_beside_a_waiting_unit_that_never_fits_there() -> None:
    world = cluster(cpu=4)
    world.run(of("a", "first", 3, workload="w"), of("b", "other", 1, limit="9h")).finish("first")
    world.run(of("a", "running", 1, workload="w", limit="30s"))
    world.submit(of("a", "next", 4, workload="w"), of("b", "short", 2)).decide()
    assert world.state("short").attempts


def test_work_of_loans_that_are_taken_back_lowers_the_limit() -> None:
    world = cluster(cpu=4)
    world.run(of("a", "first", 4, workload="w")).finish("first")
    for number in range(20):
        world.run(of("b", f"b{number}", 3)).wait(1)
        world.submit(of("a", f"a{number}", 4, workload="w")).decide()
        world.yield_victims()
        world.cancel(f"b{number}")
        world.finish(f"a{number}")
    assert world.core.pool.limit.limit < 5 * MINUTE
