"""Traces with deadlines: where they come from, the load, the policies that are compared, and what is measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cress.model.errors import InputError
from cress.model.group import SchedPolicy
from cress.simulator.clusterfile import load_cluster
from cress.simulator.deadline_measures import tightness
from cress.simulator.deadlines import parse_deadlines, with_deadlines
from cress.simulator.groups import VARIANTS
from cress.simulator.load import at_load, load_of, overload
from cress.simulator.traces import load_workload
from cress.simulator.workload import NO_LIMIT, Workload
from tests.simulator.builders import SECOND, swf_line, workload, write_swf
from tests.simulator.plain import LogJob
from tests.simulator.test_cli import cress

MINUTE = 60 * SECOND
HEADER = "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type"  # noqa: E501
# Two virtual clusters, the second of which asks for three times as much; the file is not in the order of submission.
CHRONUS = f"""\
{HEADER}
0,vc_b,4,90,6910,resnet101,30,8,45,10,0,strict
1,vc_a,1,0,8897,vgg16,40,6,88,10,0,strict
2,vc_b,12,100,7676,vgg16,20,24,241,10,0,strict
3,vc_a,2,60,7676,vgg16,40,24,50,10,0,best
4,vc_a,0,70,7676,vgg16,40,24,50,10,0,strict
"""


def chronus(tmp_path: Path, load: float | None = None, nodes: str = "") -> Workload:
    (tmp_path / "jobs.csv").write_text(CHRONUS)
    cluster = None
    if nodes:
        (tmp_path / "nodes.yaml").write_text(nodes)
        cluster = load_cluster(tmp_path / "nodes.yaml")
    return load_workload(str(tmp_path / "jobs.csv"), cluster, 1, load)


def test_jobs_of_a_chronus_trace_come_in_minutes_with_their_deadlines(tmp_path: Path) -> None:
    work = chronus(tmp_path)
    assert work.ids == ["1", "3", "0", "2"]
    assert (work.submit // MINUTE).tolist() == [0, 60, 90, 100]
    assert (work.run // MINUTE).tolist() == [40, 40, 30, 20]
    assert work.limit.tolist() == work.run.tolist()
    assert work.deadline is not None
    assert (work.deadline // MINUTE).tolist()[0] == 88
    assert (work.deadline // MINUTE).tolist()[2:] == [135, 341]
    assert work.deadline[1] == NO_LIMIT  # not strict
    assert work.notes.sentences() == [
        "1 × zero processors: left out (line 6)",
        "1 × no time limits in the trace: run times taken as time limits",
    ]


@pytest.mark.parametrize(
    ("kind", "times", "minutes"),
    [
        ("soft", "60-120-240", 60),
        ("Soft", "60;120", 60),
        ("soft", "-1", None),
        ("strict", "0", None),
        ("best", "9", None),
    ],
)
def test_a_soft_deadline_is_the_first_of_its_times(tmp_path: Path, kind: str, times: str, minutes: int | None) -> None:
    (tmp_path / "jobs.csv").write_text(
        f"{HEADER}\n0,a,1,0,9,x,30,8,60,10,0,strict\n1,a,1,0,9,x,30,8,{times},10,0,{kind}\n"
    )
    work = load_workload(str(tmp_path / "jobs.csv"), None, 1)
    assert work.deadline is not None
    assert work.deadline.tolist()[1] == (NO_LIMIT if minutes is None else minutes * MINUTE)
    soft = "1 × soft deadline: first of its times taken as deadline (line 3)"
    assert (soft in work.notes.sentences()) == (kind.lower() == "soft")


def test_more_gpus_than_a_node_has_are_a_gang(tmp_path: Path) -> None:
    work = chronus(tmp_path)
    gpu = work.cluster.dimensions.index["gpu"]
    asks = [work.requests[i][gpu] // 1000 for i in work.request_index.tolist()]
    assert list(zip(work.tasks.tolist(), asks, work.gang.tolist(), strict=True)) == [
        (1, 1, False),
        (1, 2, False),
        (1, 4, False),
        (3, 4, True),
    ]


def test_virtual_clusters_are_groups_with_quotas_by_their_demand(tmp_path: Path) -> None:
    work = chronus(tmp_path)
    # 120 and 360 GPU minutes on 3 nodes of 8: a gang of three tasks needs them.
    assert [(group.name, group.quota.scalar // 1000) for group in work.groups] == [("vc_a", 6), ("vc_b", 18)]


@pytest.mark.parametrize(("load", "nodes"), [(0.05, 12), (0.1, 6), (0.9, 3)])
def test_the_load_says_how_many_nodes_there_are(tmp_path: Path, load: float, nodes: int) -> None:
    # 480 GPU minutes in 100 minutes; the largest job must fit.
    assert len(chronus(tmp_path, load).cluster.nodes) == nodes


def test_a_cluster_file_has_the_nodes_else(tmp_path: Path) -> None:
    nodes = "dimensions: [gpu]\nnodes:\n  - {name: n, count: 5, resource: {cpu: 64, gpu: 4}}\n"
    work = chronus(tmp_path, nodes=nodes)
    assert len(work.cluster.nodes) == 5
    assert work.tasks.tolist() == [1, 1, 1, 3]
    with pytest.raises(InputError, match="sets the number of nodes of this trace"):
        chronus(tmp_path, 0.9, nodes)
    with pytest.raises(InputError, match="the nodes have no GPUs"):
        chronus(tmp_path, nodes="nodes:\n  - {name: n, resource: <4>}\n")


def test_other_traces_get_a_load_by_the_times_between_submissions() -> None:
    # 10 × 100 s of the 10 processors in 200 s.
    work = workload([LogJob(50, 100, 5, 100), LogJob(100, 60, 5, 60), LogJob(250, 40, 5, 40)])
    work = with_deadlines(work, parse_deadlines("all=2-2"), 1)
    assert load_of(work) == pytest.approx(0.5)
    denser = at_load(work, 1.0)
    assert (denser.submit // SECOND).tolist() == [50, 75, 150]
    assert denser.deadline is not None
    assert (denser.deadline // SECOND).tolist() == [250, 195, 230]
    assert load_of(denser) == pytest.approx(1.0)


def test_a_load_above_1_is_told_with_its_dimension_unless_it_says_nothing() -> None:
    whole = workload([LogJob(10 * i, 100, 10, 100) for i in range(11)])
    assert told(whole, 11) == ("cpu", 11.0)
    # Two of them alone are within what the cluster can do.
    assert overload(whole, np.array([0, 10])) is None
    assert told(workload([LogJob(0, 100, 10, 100)] * 5), 5) is None
    assert told(whole, 0) is None
    assert told(workload([LogJob(i, 2, 4, 2) for i in range(100)]), 100) is None
    assert told(workload([LogJob(i, 2, 6, 2) for i in range(100)]), 100) == ("cpu", 1.2)


def told(work: Workload, jobs: int) -> tuple[str, float] | None:
    """The overload by the first jobs, with one decimal."""
    found = overload(work, np.arange(jobs))
    return None if found is None else (found[0], round(found[1], 1))


def test_the_load_of_a_trace_with_other_times_cannot_be_changed(tmp_path: Path) -> None:
    work = workload([LogJob(0, 100, 5, 100), LogJob(100, 60, 5, 60)])
    with pytest.raises(InputError, match="needs a trace in which all jobs end"):
        at_load(replace(work, until=np.array([NO_LIMIT, 500 * SECOND])), 1.0)
    result = cress("simulate", "generated", "--load", "0.5", "--out", tmp_path / "out")
    assert result.returncode == 2
    assert "a generated workload has its own load (generated:load=0.5)" in result.stderr


# --- policies ----------------------------------------------------------------------------------------------------

GROUPS = "Name: a\nResourceQuota: 4\n\nName: b\nResourceQuota: 4\n"
NODE = "nodes:\n  - {name: n, resource: <8>}\n"
# At 1 s group a takes all; at 10 s b asks for its half, and a for more, with an earlier deadline.
JOBS = """\
job,group,submit,run,time_limit,cpu,deadline
a1,a,1,100,100,8,1d
b1,b,10,100,100,4,1000
a2,a,10,100,100,4,300
a3,a,10,100,100,4,
"""


def compared(tmp_path: Path, *policies: str, more: tuple[str, ...] = ()) -> dict[str, dict[str, object]]:
    for name, text in (("jobs.csv", JOBS), ("nodes.yaml", NODE), ("Group.conf", GROUPS)):
        (tmp_path / name).write_text(text)
    each = [word for policy in policies for word in ("--policy", policy)]
    result = cress(
        "simulate", tmp_path / "jobs.csv", "--cluster", tmp_path / "nodes.yaml", "--groups", tmp_path / "Group.conf",
        *each, *more, "--json", "--out", tmp_path / "out",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return {summary["policy"]: summary for summary in json.loads(result.stdout)}


def starts(tmp_path: Path, policy: str) -> dict[str, str]:
    rows = [line.split(",") for line in (tmp_path / "out" / policy / "jobs.csv").read_text().splitlines()]
    where, name, group = rows[0].index("start"), rows[0].index("job"), rows[0].index("group")
    return {f"{row[group]}.{row[name]}": row[where] for row in rows[1:]}


def test_capacity_fifo_preempts_between_groups_and_edf_cluster_knows_none(tmp_path: Path) -> None:
    runs = compared(tmp_path, "Capacity/fifo", "EDF/cluster", "Urgency/cluster")
    assert list(runs) == ["Capacity/fifo", "EDF/cluster", "Urgency/cluster"]
    assert runs["Capacity/fifo"]["preemptions"] == 1
    assert runs["EDF/cluster"]["preemptions"] == 0
    # Nobody is preempted: when the first job ends, the earliest deadlines start, whosever they are; what has none is
    # last.
    started = starts(tmp_path, "EDF-cluster")
    assert started == {"a.a1": "1", "b.b1": "101", "a.a2": "101", "a.a3": "201"}
    assert compared(tmp_path, "EDF/strict")["EDF/strict"]["preemptions"] == 0
    assert starts(tmp_path, "EDF-strict") == started
    # The measures know the groups all the same.
    groups = runs["EDF/cluster"]["groups"]
    assert isinstance(groups, dict)
    assert groups["a"]["jobs"] == 3
    assert groups["a"]["quota_share"] == 0.5


def borrowing(tmp_path: Path) -> None:
    """Two groups fill 12 cores with long jobs, 2 above the quota of each; the third has short jobs with deadlines."""
    rows = ["job,group,submit,run,time_limit,cpu,deadline"]
    rows += [f"{name}{i},{name},{i},20000,20000,1," for i in range(20) for name in "ab"]
    rows += [f"c{i},c,{1000 + 100 * i},300,300,1,600" for i in range(60)]
    (tmp_path / "jobs.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "nodes.yaml").write_text("nodes:\n  - {name: n, count: 2, resource: <6>}\n")
    (tmp_path / "Group.conf").write_text("\n".join(f"Name: {name}\nResourceQuota: 4\n" for name in "abc"))


# Those that are told from all others by their names: one queue for the whole cluster, and no preemption.
WITHOUT_QUOTAS = {"EDF/strict", "EDF/cluster", "EDF/no-preemption"}


@pytest.mark.parametrize(
    "policy", sorted({*(choice.label for choice in VARIANTS.values()), *(each.value for each in SchedPolicy)})
)
def test_a_policy_of_the_simulator_keeps_what_quotas_promise(tmp_path: Path, policy: str) -> None:
    """A group within its quota has its room within moments, whatever others run: it misses no deadline."""
    borrowing(tmp_path)
    result = cress(
        "simulate", tmp_path / "jobs.csv", "--cluster", tmp_path / "nodes.yaml", "--groups", tmp_path / "Group.conf",
        "--policy", policy, "--json", "--out", tmp_path / "out",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    (summary,) = json.loads(result.stdout)
    missed = summary["deadlines"] - summary["deadlines_met"]
    assert (missed > 30) if policy in WITHOUT_QUOTAS else (missed == 0)


@pytest.mark.parametrize(
    ("policy", "option", "told"),
    [
        ("EDF/no-preemption", "preemption=on", "EDF with order=deadline, preemption=off"),
        ("EDF/strict", "late=best_effort", "EDF with late=urgent, backfill=off"),
        ("BackFill/predicted", "estimates=requested", "BackFill with estimates=predicted"),
    ],
)
def test_an_option_that_contradicts_a_policy_is_refused(tmp_path: Path, policy: str, option: str, told: str) -> None:
    borrowing(tmp_path)
    given = [tmp_path / "jobs.csv", "--cluster", tmp_path / "nodes.yaml", "--groups", tmp_path / "Group.conf"]
    result = cress("simulate", *given, "--policy", policy, "--option", option, "--out", tmp_path / "out")
    assert result.returncode == 2
    assert f"--option: {option} contradicts --policy {policy}, which is {told}" in result.stderr
    assert not (tmp_path / "out").exists()


def test_an_option_that_agrees_with_a_policy_or_is_compared_is_taken(tmp_path: Path) -> None:
    same = compared(tmp_path, "EDF/no-preemption", more=("--option", "preemption=off"))
    assert same["EDF/no-preemption"]["preemptions"] == 0
    found = compared(tmp_path, "EDF/no-preemption", more=("--compare", "preemption=off,on"))
    assert [summary["preemptions"] for summary in found.values()] == [0, 1]


# --- measures ----------------------------------------------------------------------------------------------------


def test_misses_are_counted_by_tightness_by_group_and_over_time(tmp_path: Path) -> None:
    summary = compared(tmp_path, "FIFO")["FIFO"]
    assert (summary["deadlines"], summary["deadlines_met"]) == (3, 3)
    late = compared(tmp_path, "FIFO", more=("--deadlines", "tight=1-1,loose=9-9"))["FIFO"]
    assert late["deadlines"] == 4
    kinds, groups, times = late["deadlines_by_tightness"], late["groups"], late["deadlines_over_time"]
    assert isinstance(kinds, dict)
    assert isinstance(groups, dict)
    assert isinstance(times, dict)
    assert list(kinds) == ["tight", "loose"]
    for key in ("deadlines", "deadlines_met"):
        assert sum(each[key] for each in kinds.values()) == late[key]
        assert sum(each[key] for each in groups.values()) == late[key]
        assert sum(each[key] for each in times["periods"]) == late[key]
    assert times["period_s"] == 86_400
    assert late["deadlines_missed_share"] == pytest.approx(1 - int(str(late["deadlines_met"])) / 4)


def test_the_report_shows_deadlines_only_where_there_are_some(tmp_path: Path) -> None:
    compared(tmp_path, "FIFO", "EDF")
    page = (tmp_path / "out" / "report.html").read_text()
    assert '<div id="misses"' in page
    assert "<td>of these, loose</td>" in page
    assert '<th class="number">missed</th>' in page
    log = write_swf(tmp_path / "log.swf", [swf_line(1, 0, 100, 2, 200)])
    cress("simulate", log, "--out", tmp_path / "plain")
    page = (tmp_path / "plain" / "report.html").read_text()
    assert '<div id="misses"' not in page
    assert "deadlines missed" not in page.split("<script>")[0]


def test_jobs_csv_has_the_deadlines(tmp_path: Path) -> None:
    compared(tmp_path, "FIFO")
    rows = [line.split(",") for line in (tmp_path / "out" / "FIFO" / "jobs.csv").read_text().splitlines()]
    place = rows[0].index("deadline")
    assert [row[place] for row in rows[1:]] == ["86401", "1010", "310", ""]


def test_without_a_tightness_of_its_own_a_deadline_is_judged_by_the_time_limit() -> None:
    work = workload([LogJob(0, 10, 1, 100), LogJob(0, 10, 1, 100), LogJob(0, 10, 1, 100)])
    deadline = np.array([149, 150, 300], dtype=np.int64) * SECOND
    names, index = tightness(work, deadline)
    assert [names[i] for i in index.tolist()] == ["tight", "normal", "loose"]


def test_a_part_that_is_given_twice_is_refused() -> None:
    with pytest.raises(InputError, match="share is given twice"):
        parse_deadlines("all=2-2,share=0.5,share=0.6")
