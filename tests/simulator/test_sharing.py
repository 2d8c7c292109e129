"""The loop of the benchmarks in which tasks that are bound by the same slow each other down."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace as with_

from benchmarks.bottleneck import mixed
from benchmarks.sharing import Sharing
from cress.model.option_text import parse_assignments
from cress.simulator.workload import NO_LIMIT, Workload
from tests.simulator.builders import SECOND, workload
from tests.simulator.plain import LogJob


def shared(work: Workload, burst: int, order: str = "first") -> tuple[float, float, float]:
    times = Sharing(work, parse_assignments([f"node_order={order}"]), burst).run()
    return times.wait, times.makespan, times.slowdown


def jobs(*rows: tuple[int, int, int]) -> Workload:
    """Jobs on one node of 10 cores: submit and run time in seconds, cores."""
    return workload([LogJob(submit, run, procs, NO_LIMIT) for submit, run, procs in rows])


@pytest.mark.parametrize(
    ("work", "burst", "expected"),
    [
        pytest.param(jobs((0, 100, 4)), 2, (0, 100, 1), id="one alone has all that it wants"),
        pytest.param(jobs((0, 100, 5), (0, 100, 5)), 1, (0, 100, 1), id="two that want what there is"),
        pytest.param(jobs((0, 100, 5), (0, 100, 5)), 2, (0, 200, 2), id="two that want twice that"),
        # 50 s alone, 100 s at half speed: 150 s. Then the other one, 50 s of its work done, has 50 s alone.
        pytest.param(jobs((0, 100, 5), (50, 100, 5)), 2, (0, 200, 1.5), id="two that overlap"),
        pytest.param(jobs((0, 100, 10), (0, 100, 10)), 1, (50, 200, 1), id="one waits for the other"),
    ],
)
def test_how_fast_tasks_go(work: Workload, burst: int, expected: tuple[float, float, float]) -> None:
    assert shared(work, burst) == pytest.approx(expected, abs=1e-3)


def test_tasks_that_are_bound_by_different_things_do_not_slow_each_other_down() -> None:
    work = jobs((0, 100, 5), (0, 100, 1))
    node = work.cluster.nodes[0]
    d = work.cluster.dimensions
    disk = with_(node, capacity=d.vector(cpu=10_000, disk_read=100))
    work.requests[:] = [d.vector(cpu=1000, disk_read=60), d.vector(cpu=6000, disk_read=1)]
    object.__setattr__(work, "cluster", type(work.cluster)(d, (disk,)))
    # Each wants more than half: bound by one thing they would need longer.
    assert shared(work, 1)[1:] == pytest.approx((100, 1))


def test_the_mixed_load_is_half_of_each_kind_and_as_dense_as_it_says() -> None:
    work = mixed(0.5, 1)
    assert np.bincount(work.request_index).tolist() == [750, 750]
    need = np.array(work.requests)[work.request_index] * (work.tasks * work.run)[:, None]
    span = int(work.submit.max())
    total = np.array(work.cluster.total())
    there = total > 0
    assert float((need.sum(axis=0)[there] / total[there] / span).max()) == pytest.approx(0.5, rel=0.01)
    assert span > 10_000 * SECOND
