"""Advance reservations of a cluster file: the simulation keeps them as a live cluster does, and mistakes have their line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cress.model.errors import InputError
from cress.model.groups.conf import parse_groups
from cress.model.options import Options
from cress.model.times import MINUTE
from cress.simulator.clusterfile import load_cluster
from cress.simulator.paths import path_of
from cress.simulator.traces.jobfile import load

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
    ],
)
def test_mistakes_have_their_line_and_field(tmp_path: Path, entry: str, field: str, what: str) -> None:
    written(tmp_path, f"{CLUSTER}  - {entry}\n")
    with pytest.raises(InputError) as refused:
        load_cluster(tmp_path / "cluster.yaml")
    assert (refused.value.line, refused.value.field) == (7, field)
    assert what in refused.value.what
