"""Nodes that fail in a simulation: what ran there runs again elsewhere, or when the node is back."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.simulator.test_cli import cress

NODES = "nodes:\n  - {name: n, count: 2, resource: '<4>'}\n"
OUTAGES = {
    "the task goes to the other node": (
        "outages:\n  - {node: n-1, from: 40s, to: 60s}\n",
        [("n-1", "0", "40", "lost"), ("n-2", "40", "140", "finished")],
    ),
    "nothing ran there": (
        "outages:\n  - {node: n-2, from: 40s, to: 60s}\n",
        [("n-1", "0", "100", "finished")],
    ),
    "it waits until a node is back": (
        "outages:\n  - {node: n-2, from: 30s}\n  - {node: n-1, from: 40s, to: 5min}\n",
        [("n-1", "0", "40", "lost"), ("n-1", "300", "400", "finished")],
    ),
    "an end and a failure at one moment": (
        "outages:\n  - {node: n-1, from: 100s}\n",
        [("n-1", "0", "100", "finished")],
    ),
}


@pytest.mark.parametrize("events", ["together", "one-by-one"])
@pytest.mark.parametrize(("outages", "attempts"), OUTAGES.values(), ids=OUTAGES)
def test_a_task_runs_again_when_its_node_has_failed(
    tmp_path: Path, outages: str, attempts: list[tuple[str, ...]], events: str
) -> None:
    (tmp_path / "c.yaml").write_text(NODES + outages)
    (tmp_path / "jobs.csv").write_text("job,submit,run,cpu\na,0,100,2\n")
    out = tmp_path / "out"
    done = cress(
        "simulate", tmp_path / "jobs.csv", "--cluster", tmp_path / "c.yaml", "--out", out, "--attempts", "--check",
        "--events", events,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with (out / "FIFO" / "attempts.csv").open() as file:
        rows = [(row["node"], row["start"], row["end"], row["ended"]) for row in csv.DictReader(file)]
    assert rows == attempts
    summary = json.loads((out / "FIFO" / "summary.json").read_text())
    lost = sum(row[-1] == "lost" for row in attempts)
    assert (summary["attempts_lost"], summary["tasks_finished"], summary["preemptions"]) == (lost, 1, 0)
