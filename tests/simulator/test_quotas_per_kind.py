"""Quotas per kind of node in a simulation: nodes of a cluster file, groups of a file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.simulator.test_cli import cress

CLUSTER = """\
dimensions: [gpu]
nodes:
  - {name: a, resource: <16>, devices: {gpu: {count: 4, model: A100}}}
  - {name: t, resource: <16>, devices: {gpu: {count: 4, model: T4}}}
  - {name: f, resource: <16>, attributes: {NodeType: fat}}
"""
GROUPS = """\
Name: vision
ResourceQuota: <8,gpu(A100)=2,gpu(T4)=1>

Name: batch
ResourceQuota: <24,gpu(T4)=3,cpu(fat)=16>
SchedPolicy: BackFill
"""
# Batch has all devices and one T4 is vision's; vision asks for three A100s at 10 s: two are guaranteed.
T4, A100 = (f'"GPUModel = ""{model}"""' for model in ("T4", "A100"))
JOBS = f"""\
job,group,submit,run,time_limit,cpu,gpu,tasks,requirement
t,vision,0,100,100,1,1,1,{T4}
ba,batch,1,100,100,1,1,4,{A100}
bt,batch,1,100,100,1,1,3,{T4}
back,vision,10,50,50,1,1,3,{A100}
"""


def _simulate(folder: Path, groups: str) -> tuple[int, str, str]:
    for name, text in (("jobs.csv", JOBS), ("nodes.yaml", CLUSTER), ("Group.conf", groups)):
        (folder / name).write_text(text)
    result = cress(
        "simulate",
        folder / "jobs.csv",
        "--cluster",
        folder / "nodes.yaml",
        "--groups",
        folder / "Group.conf",
        "--json",
        "--option",
        "accounting=dominant",
        "--option",
        "grace=0s",
        "--option",
        "max_per_round=1",
        "--out",
        folder / "out",
    )
    return result.returncode, result.stdout, result.stderr


def test_a_group_gets_its_kind_back_and_no_more(tmp_path: Path) -> None:
    code, out, err = _simulate(tmp_path, GROUPS)
    assert code == 0, err
    (summary,) = json.loads(out)
    assert summary["preemptions"] == 2
    rows = [line.split(",") for line in (tmp_path / "out" / "configured" / "jobs.csv").read_text().splitlines()]
    jobs = {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[1:]}
    # Two start at 10 s, the third one when they end.
    assert (jobs["back"]["start"], jobs["back"]["end"]) == ("10", "110")
    assert {name: job["preemptions"] for name, job in jobs.items()} == {"t": "0", "ba": "2", "bt": "0", "back": "0"}
    # Of the cores of the cluster, and of the cores of fat nodes, which are all the group's.
    assert (summary["groups"]["vision"]["quota_share"], summary["groups"]["batch"]["quota_share"]) == (0.5, 1.0)


def test_a_kind_that_no_node_has_is_refused_with_its_line(tmp_path: Path) -> None:
    code, _, err = _simulate(tmp_path, GROUPS.replace("cpu(fat)", "cpu(flat)"))
    assert code == 2
    assert (
        "Group.conf:5: ResourceQuota: group batch has a quota of cpu(flat), and no node with cpu is of the kind flat"
        in err
    )
    assert "did you mean fat?" in err
