"""Advance reservations of a cluster file: the simulation keeps them as a live cluster does, and mistakes have their
line.
"""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import numpy as np
import pytest

from cress.model.errors import InputError
from cress.model.groups.conf import parse_groups
from cress.model.options import Options
from cress.model.times import MINUTE
from cress.simulator.clusterfile import load_cluster
from cress.simulator.clusterreservations import reserve_all
from cress.simulator.paths import path_of
from cress.simulator.traces.jobfile import load
from cress.simulator.workload import UNDATED_START
from tests.forked import run_cress

CLUSTER = """
nodes:
  - {name: n, count: 2, resource: "<4, 16G>"}
reservations:
  - {name: exam, group: b, nodes: n-1, from: 60min, for: 60min}
  - {name: patch, nodes: n-2, from: 120min, for: 30min}
"""
JOBS = """
jobs:
- {name: long, group: a, tasks: 2, resource: "<4, 1G>", time_limit: 150min, run: 150min}
- {name: short, group: a, resource: "<4, 1G>", time_limit: 50min, run: 40min}
- {name: own, submit: 61min, group: b, resource: "<4, 1G>", time_limit: 20min, run: 20min}
"""
GROUPS = "Name: a\nResourceQuota: 8\n\nName: b\nResourceQuota: 8\n"


def written(folder: Path, cluster: str = CLUSTER) -> Path:
    (folder / "cluster.yaml").write_text(cluster)
    (folder / "jobs.yaml").write_text(JOBS)
    return folder


def test_a_simulation_keeps_reservations(tmp_path: Path) -> None:
    written(tmp_path)
    cluster = load_cluster(tmp_path / "cluster.yaml")
    workload = load(tmp_path / "jobs.yaml", cluster)
    groups = parse_groups(GROUPS, accounting="cpu", dimensions=cluster.dimensions).groups
    path = path_of(workload, groups, Options(), "together")
    history = path.run([0, 1, 2], ["a", "a", "b"], check=True, progress=None)
    starts = sorted(
        (int(history.attempts.job[i]), int(history.attempts.start[i]) // MINUTE, int(history.attempts.node[i]))
        for i in range(len(history.attempts.job))
    )
    # The long tasks of two hours and a half wait for the ends of both; the job of the group begins inside, at once.
    assert [each for each in starts if each[0] != 1] == [(0, 120, 0), (0, 150, 1), (2, 61, 0)]
    assert np.all(history.ends >= 0)


@pytest.mark.parametrize(
    ("entry", "field", "what"),
    [
        ("{name: r, nodes: n-9, for: 1h}", "nodes", "there is no node 'n-9'"),
        ("{name: r, nodes: n-1}", "for", "it has no end"),
        ("{name: r, node: n-1, for: 1h}", "node", "unknown key"),
        ("{name: exam, nodes: n-1, for: 1h}", "name", "there are two reservations exam"),
        ("{name: r, count: four, for: 1h}", "count", "'four' is not a number"),
        ("{name: r, nodes: n-1, from: 1h, until: 30min}", "until", "it ends before it begins"),
        ("{name: r, nodes: n-1, from: 9999-12-31 23:00, for: 5d}", "from", "it begins after 9989-12-31"),
    ],
)
def test_mistakes_have_their_line_and_field(tmp_path: Path, entry: str, field: str, what: str) -> None:
    written(tmp_path, f"{CLUSTER}  - {entry}\n")
    with pytest.raises(InputError) as refused:
        load_cluster(tmp_path / "cluster.yaml")
    assert (refused.value.line, refused.value.field) == (7, field)
    assert what in refused.value.what


def test_both_times_are_counted_from_the_begin_of_the_trace(tmp_path: Path) -> None:
    written(tmp_path, f"{CLUSTER}  - {{name: r, group: b, nodes: n-1, from: 2h, until: 150min}}\n")
    cluster = load_cluster(tmp_path / "cluster.yaml")
    spec = reserve_all(cluster, UNDATED_START, UTC)[-1].reservation
    assert (spec.start - UNDATED_START, spec.end - UNDATED_START) == (120 * MINUTE, 150 * MINUTE)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (
            "{name: r, nodes: n-1, from: 90min, for: 1h}",
            "7: nodes: node n-1 is reserved by exam from 90m to 2h (another time, or other nodes)",
        ),
        ("{name: r, group: zz, nodes: n-1, for: 1h}", "7: group: there is no group 'zz' (one of a, b, default)"),
        (
            "{name: r, count: 2, from: 90min, for: 1h}",
            (
                "7: reservations: there is no room for 2 whole nodes on 2 nodes, 2 of them have other "
                "reservations at that time"
                " (fewer of them, another time, or another requirement)"
            ),
        ),
    ],
)
def test_what_the_cluster_refuses_has_its_line_and_times_of_the_trace(tmp_path: Path, entry: str, told: str) -> None:
    written(tmp_path, f"{CLUSTER}  - {entry}\n")
    (tmp_path / "groups.conf").write_text(GROUPS)
    files = ("--cluster", str(tmp_path / "cluster.yaml"), "--groups", str(tmp_path / "groups.conf"))
    done = run_cress(("simulate", str(tmp_path / "jobs.yaml"), *files, "--out", str(tmp_path / "out")))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"cress simulate: {tmp_path / 'cluster.yaml'}:{told}\n"
