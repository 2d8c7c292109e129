"""What people read of events and usage; and the verbs for operators against a real center."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.cli import events, usage
from cress.cli.tables import plain
from cress.client import EfficiencyView, EventView, UsageView
from cress.model.errors import InputError
from tests.center.program import Center
from tests.forked import run_cress

HOUR = 3600.0


def test_events_are_a_line_each() -> None:
    at = 0.0
    found = [
        EventView(number=7, at=at, kind="job.submitted", job=3, group="web", name="etl", user="ann"),
        EventView(number=8, at=at, kind="task.placed", job=3, task=0, attempt=9, node="n1", group="web"),
        EventView(number=9, at=at, kind="task.ended", job=3, task=0, node="n1", state="failed", code=-9, text="no\x1b"),
        EventView(number=10, at=at, kind="node.cordoned", node="n1", text="new disk"),
        EventView(number=11, at=at, kind="groups.applied"),
        EventView(number=12, at=at, kind="gap"),
    ]
    lines = [re.sub(r" \d\d:\d\d:\d\d ", " TIME ", events.line(event)) for event in found]
    assert lines == [
        "     7 TIME job.submitted   3 (etl) by ann",
        "     8 TIME task.placed     3.0 on n1",
        "     9 TIME task.ended      3.0 on n1 failed with code -9 - no\\x1b",
        "    10 TIME node.cordoned   n1 - new disk",
        "    11 TIME groups.applied",
        "    12 TIME gap             earlier events are no longer kept",
    ]


def test_usage_is_a_table() -> None:
    found = [
        UsageView(
            group="lab",
            start=0.0,
            core_seconds=9000,
            byte_seconds=2**30 * 1800,
            cpu_seconds=36,
            attempts=1200,
            succeeded=1190,
            failed=2,
        ),
        UsageView(group="web", start=HOUR, core_seconds=1000),
    ]
    assert plain(*usage.table(found, usage.UsageSpan.HOUR)) == [
        "TIME              GROUP  CORE-HOURS  GB-HOURS  CPU-HOURS  TASKS  FAILED  SHARE",
        "1970-01-01 00:00  lab          2.50      0.50       0.01  1,200       2    90%",
        "1970-01-01 01:00  web          0.28      0.00       0.00      0       0    10%",
    ]
    assert plain(*usage.table(found[:1], usage.UsageSpan.ALL)) == [
        "GROUP  CORE-HOURS  GB-HOURS  CPU-HOURS  TASKS  FAILED  SHARE",
        "lab          2.50      0.50       0.01  1,200       2   100%",
    ]


def test_usage_counts_deadlines_where_there_were_some() -> None:
    found = [UsageView(group="lab", start=0.0, core_seconds=9000, met=12, missed=1)]
    assert plain(*usage.table(found, usage.UsageSpan.ALL)) == [
        "GROUP  CORE-HOURS  GB-HOURS  CPU-HOURS  TASKS  FAILED  MET  MISSED  SHARE",
        "lab          2.50      0.00       0.00      0       0   12       1   100%",
    ]


def test_usage_by_label_has_the_costs_of_finished_work() -> None:
    def work(label: str, cores: float, gpus: float = 0.0) -> EfficiencyView:
        held = {"cpu": 3600 * cores, "memory": 3600 * 2.0**30, "gpu": 3600 * gpus}
        return EfficiencyView("", "", "", 2, 3, 60.0, held, 1800.0, 0, 0, label=label)

    found = [work("", 1), work("red", 7, gpus=0.5)]
    assert plain(*usage.table_of_work(found, "label:team", "cpu=2,memory=0.5,gpu=20")) == [
        "TEAM  CORE-HOURS  GB-HOURS  GPU-HOURS  CPU-HOURS  JOBS  TASKS   COST  SHARE",
        "red         7.00      1.00       0.50       0.50     2      3  24.50    88%",
        "-           1.00      1.00       0.00       0.50     2      3   2.50    12%",
    ]


@pytest.fixture
def center(tmp_path: Path) -> Iterator[Center]:
    with Center(tmp_path / "data", forked=True) as running:
        yield running


def cress(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_cress(arguments, environment={**os.environ, "CRESS_DATA": str(data), "CRESS_URL": ""})


def test_jobs_and_nodes_by_the_operators_words(center: Center) -> None:
    def said(*arguments: str, code: int = 0) -> str:
        done = cress(center.data, *arguments)
        assert done.returncode == code, done
        return done.stdout + done.stderr

    id = center.submit(name="etl")
    assert said("hold", str(id), str(id)) == "job 1 (etl) waits until it is released\n"
    assert center.get("/v1/jobs/1")["held"]
    with center.executor() as executor:
        assert said("release", "1") == "job 1 (etl) is released\n"
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        assert "node n1 takes no new tasks; its running tasks have 10m (new disk)" in said(
            "nodes", "drain", "n1", "--deadline", "10m", "--reason", "new disk"
        )
        executor.ended(launch.attempt)
    assert "only waiting or running jobs can be held" in said("hold", "1", code=3)
    assert "there is no job 9" in said("hold", "9", code=2)
    assert "there is no node 'n9'" in said("nodes", "drain", "n9", "--deadline", "1m", code=2)
    assert said("nodes", "uncordon", "n1", "gpu-*", code=2) == (
        "cress nodes uncordon: there is no node 'gpu-*' (one of n1)\n"
    )
    assert center.get("/v1/nodes/n1")["reason"] != ""
    assert said("nodes", "uncordon", "n?", "n1") == "node n1 takes tasks (its executor is not connected)\n"
    assert said("nodes", "cordon", "n*", "--reason", "new disk").startswith("node n1 takes no new tasks")
    lines = said("events", "--job", "1").splitlines()
    kinds = [line.split()[2] for line in lines]
    assert kinds == [
        "job.submitted",
        "job.held",
        "job.released",
        "task.placed",
        "task.started",
        "task.ended",
        "job.ended",
    ]
    (last,) = said("events", "--json", "--after", lines[-1].split()[0], "--group", "default").splitlines() or ["{}"]
    assert json.loads(last) == {}
    assert said("usage", "--group", "web") == "nothing was used\n"


def test_users_and_their_costs_as_a_table() -> None:
    def of(user: str, cores: float, **more: float) -> EfficiencyView:
        held = {"cpu": cores * 3600, "memory": 2**30 * 7200.0, **{name: n * 3600 for name, n in more.items()}}
        numbers = {"jobs": 2, "attempts": 1000, "run_seconds": 9.0, "memory_asked": 0, "memory_peak": 0}
        return EfficiencyView(name="", user=user, group="", held=held, cpu_seconds=1800.0, **numbers)  # type: ignore[arg-type]

    work, prices = [of("bob", 10), of("ann", 30, gpu=0.5)], "cpu=1,memory=0.5,gpu=20"
    assert plain(*usage.table_of_work(work, "user")) == [
        "USER  CORE-HOURS  GB-HOURS  GPU-HOURS  CPU-HOURS  JOBS  TASKS  SHARE",
        "ann        30.00      2.00       0.50       0.50     2  1,000    75%",
        "bob        10.00      2.00       0.00       0.50     2  1,000    25%",
    ]
    assert [line.split()[7] for line in plain(*usage.table_of_work(work, "user", prices))] == [
        "COST", "41.00", "11.00",
    ]  # fmt: skip
    with pytest.raises(InputError, match="no job has held 'tpu'"):
        usage.table_of_work(work, "user", "tpu=1")
