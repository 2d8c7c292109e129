"""The jobs A and B of source E (§2.3 to §3.4) in a simulation: B goes where A runs, and both move together."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.simulator.test_cli import cress

GOOD = "OSKernel: 2.6.32, Java: 1.7.0, GCC: 4.8.5, Disks: 2"
# The nodes of the source, 192.168.1.120 and .121; old and new come up when A and B run.
CLUSTER = f"""\
nodes:
  - {{name: e, count: 2, rack: r1, resource: '<8,16G,1G,100M>', address: 192.168.1.120, attributes: {{{GOOD}}}}}
  - {{name: old, rack: r1, resource: '<8,16G,1G,100M>', attributes: {{OSKernel: 2.6.32, Java: 1.7.0, GCC: 4.1.2, Disks: 2}}}}
  - {{name: new, rack: r1, resource: '<8,16G,1G,100M>', attributes: {{{GOOD}}}}}
outages:
  - {{node: old, from: 0s, to: 50s}}
  - {{node: new, from: 0s, to: 50s}}
"""  # noqa: E501
JOBS = """\
job,submit,run,tasks,cpu,memory,network,disk_read,disk_write,requirement,rank,ports
A,1s,1h,2,4,8G,500M,50M,50M,OSKernel >= 2.6.32&&Java > = 1.5 && NetworkAdjacent = True,0.5 × CPU + 0.5 × IdleNetwork,
B,5s,1h,2,1,2G,100M,50M,50M,GCC >= 4.5 && ExclusiveDisk = True && f(x) = (Waittime > 5min) && JobDependency = A,CPU,80
"""
FAILURE = "  - {node: e-1, from: 100s}\n"


def attempts(tmp_path: Path, cluster: str, jobs: str = JOBS) -> list[tuple[str, ...]]:
    (tmp_path / "c.yaml").write_text(cluster)
    (tmp_path / "jobs.csv").write_text(jobs)
    out = tmp_path / "out"
    done = cress(
        "simulate", tmp_path / "jobs.csv", "--cluster", tmp_path / "c.yaml", "--out", out, "--attempts", "--check",
        "--policy", "BackFill",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    with (out / "BackFill" / "attempts.csv").open() as file:
        return [(row["job"] + row["task"], row["node"], row["start"], row["end"]) for row in csv.DictReader(file)]


def test_b_runs_where_a_runs(tmp_path: Path) -> None:
    found = attempts(tmp_path, CLUSTER)
    assert found == [
        ("A0", "e-1", "1", "3601"),
        ("A1", "e-2", "1", "3601"),
        ("B0", "e-1", "5", "3605"),
        ("B1", "e-2", "5", "3605"),
    ]


def test_a_and_b_of_a_failed_node_move_together_to_a_node_that_holds_both(tmp_path: Path) -> None:
    found = attempts(tmp_path, CLUSTER + FAILURE)
    # A alone could go to the node with the old compiler, which registered first.
    assert found[:4] == [
        ("A0", "e-1", "1", "100"),
        ("A1", "e-2", "1", "3601"),
        ("B0", "e-1", "5", "100"),
        ("B1", "e-2", "5", "3605"),
    ]
    assert sorted(found[4:]) == [("A0", "new", "100", "3700"), ("B0", "new", "100", "3700")]


@pytest.mark.parametrize(
    ("disks", "start"),
    [("Disks: 2", "5"), ("Disks: 0", "305.000001")],
    ids=["a disk is free", "none is: after five minutes it is only a wish"],
)
def test_b_takes_a_disk_of_its_own_or_waits_for_five_minutes(tmp_path: Path, disks: str, start: str) -> None:
    cluster = CLUSTER.replace("Disks: 2", disks)
    found = {task: begun for task, _, begun, _ in attempts(tmp_path, cluster)}
    assert found == {"A0": "1", "A1": "1", "B0": start, "B1": start}


def test_b_waits_as_long_as_a_does_not_run(tmp_path: Path) -> None:
    head, a, b = JOBS.splitlines()
    jobs = "\n".join((head, b, a.replace("A,1s,", "A,10min,"))) + "\n"
    found = attempts(tmp_path, CLUSTER, jobs)
    assert {task: begun for task, _, begun, _ in found} == {"A0": "600", "A1": "600", "B0": "600", "B1": "600"}
    nodes = {task: node for task, node, _, _ in found}
    assert {nodes["B0"], nodes["B1"]} <= {nodes["A0"], nodes["A1"]}
