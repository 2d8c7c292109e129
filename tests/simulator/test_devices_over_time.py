"""The use of devices in a replay: allocated and unusable over time, the moments of the heat map, and the section of the
report.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.simulator.packing.device_use import DeviceUse
from cress.simulator.packing.devices import LOOKS, MOST_LOOKS
from cress.simulator.request import Request
from cress.simulator.run import plan, run_all
from tests.simulator.builders import SECOND

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,16000,65536,2,T4\nn2,16000,65536,0,\n"
JOBS = """\
job,submit,run,cpu,gpu,retries
half,0,200,1,500m,{retries}
whole,50,200,1,1,0
waits,100,10,1,1,0
"""
# Half a GPU, later one and a half of two; 500 thousandths beside `half` are of no use to two of three shapes.
UNUSABLE = 2 / 3 * 0.5 / 2


def replay(folder: Path, jobs: str, nodes: str = NODES) -> tuple[dict[str, float], DeviceUse | None, str]:
    """The summary, the devices and the page of a run."""
    (folder / "nodes.csv").write_text(nodes)
    (folder / "jobs.csv").write_text(jobs)
    request = Request(trace=str(folder / "jobs.csv"), cluster=folder / "nodes.csv", out=folder / "out")
    ((result, _),) = run_all([plan(request)])
    return result.analysis.summary, result.run.history.devices, (folder / "out" / "report.html").read_text()


@pytest.mark.parametrize("retries", [pytest.param(0, id="to the scheduler"), pytest.param(1, id="by the lifecycle")])
def test_what_is_allocated_and_unusable_until_the_last_submission(tmp_path: Path, retries: int) -> None:
    summary, use, page = replay(tmp_path, JOBS.format(retries=retries))
    assert summary["devices_allocated_mean"] == pytest.approx((0.25 + 0.75) / 2)
    assert summary["devices_unusable_mean"] == pytest.approx(UNUSABLE)
    assert summary["devices_unusable_of_idle"] == pytest.approx(UNUSABLE / 0.5)
    assert use is not None
    assert [(each.name, each.time // SECOND, each.devices) for each in use.moments] == [
        ("half of the submissions' time", 50, [[500, 1000], []]),
        ("the last submission", 100, [[500, 1000], []]),
        ("the most allocated", 200, [[1000, 1000], []]),
    ]
    assert "<h2>Packing</h2>" in page
    assert "the last submission, after 100 s: 75.0%" in page


@pytest.mark.parametrize(
    ("jobs", "nodes"),
    [
        pytest.param("job,submit,run,cpu\na,0,10,1\n", NODES, id="nobody asks for devices"),
        pytest.param("job,submit,run,cpu\na,0,10,1\n", NODES.replace(",2,T4", ",0,"), id="there are none"),
    ],
)
def test_without_devices_there_is_no_such_section(tmp_path: Path, jobs: str, nodes: str) -> None:
    summary, use, page = replay(tmp_path, jobs, nodes)
    assert use is None
    assert "devices_allocated_mean" not in summary
    assert "<h2>Packing</h2>" not in page


def test_a_long_drain_costs_few_looks(tmp_path: Path) -> None:
    rows = [f"j{i},{i},{60 + 60 * i},10m,1m" for i in range(1000)]
    _, use, _ = replay(tmp_path, "\n".join(["job,submit,run,cpu,gpu", *rows]) + "\n")
    assert use is not None
    until = int((use.allocated.times <= use.until).sum())
    assert 0.8 * LOOKS <= until <= LOOKS + 5
    assert len(use.allocated.times) <= until + MOST_LOOKS
    assert use.allocated.times[-1] > 59_000 * SECOND
    assert [each.name for each in use.moments][-1] in {"the most allocated", "the last submission"}
