"""Frameworks in simulations: how they are generated or dealt, loans with and without lending, what is measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cress.model.errors import InputError
from cress.model.times import SECOND
from cress.simulator import run
from cress.simulator.fragments import FragmentLog
from cress.simulator.frameworks import as_frameworks
from cress.simulator.request import Request, Result
from cress.simulator.traces import load_workload
from tests.core.builders import World
from tests.simulator.builders import workload
from tests.simulator.plain import LogJob
from tests.simulator.test_cli import cress

CLUSTER = "nodes: [{name: n, resource: {cpu: 4, memory: 4G}}]\n"
# A task of a framework, then, in its lease, a smaller one; another framework has a short task that does not fit beside
# them.
LENDING = """\
job,submit,run,time_limit,cpu,memory,group,workload
first,0,10,20,2,2G,a,spark
other,0,200,200,1,1G,b,
small,10,60,60,1,1G,a,spark
short,20,20,20,1500m,1G,b,dask
"""


def simulated(tmp_path: Path, text: str, *options: str) -> dict[str, Result]:
    (tmp_path / "jobs.csv").write_text(text)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    request = Request(
        trace=str(tmp_path / "jobs.csv"),
        out=tmp_path / "out",
        cluster=tmp_path / "cluster.yaml",
        options=options,
        compare="lending=off,on",
        check=True,
    )
    plan = run.plan(request)
    return {choice.label: run.simulate(plan, choice) for choice in plan.choices}


def test_a_short_task_borrows_what_another_framework_has_idle(tmp_path: Path) -> None:
    found = simulated(tmp_path, LENDING, "preemption=off")
    off, on = found["lending=off"].analysis, found["lending=on"].analysis
    assert off.summary["loans"] == 0
    assert on.summary["loans"] == 1
    assert on.summary["loans_stopped"] == 0
    # Without lending it waits for the end of the small one, and of the time for which the idle lease is kept.
    assert (off.times.end // 1_000_000).tolist() == [10, 200, 70, 100]
    assert (on.times.end // 1_000_000).tolist() == [10, 200, 70, 40]
    assert on.fragments is not None
    assert {name: each.loans for name, each in on.fragments.workloads.items()} == {"a/spark": 0, "b/dask": 1}
    assert on.fragments.workloads["b/dask"].completion_mean_s == 20
    # From 20 s to 40 s half a core of four is lent, and half a core is left over beside it.
    assert on.fragments.lent.at(np.array([30_000_000])).tolist() == [0.125]
    assert on.fragments.second_order.at(np.array([30_000_000])).tolist() == [0.125]
    assert on.summary["utilisation_arrivals_mean"] == pytest.approx(0.625)


def test_what_the_owner_takes_back_is_counted_as_lost(tmp_path: Path) -> None:
    back = LENDING + "next,25,10,10,1,1G,a,spark\n"
    on = simulated(tmp_path, back, "preemption=off")["lending=on"].analysis
    assert on.summary["loans_stopped"] == 1
    assert on.summary["loan_lost_share"] == on.summary["lost_work_share"] > 0


def test_jobs_and_dags_are_dealt_to_frameworks_in_turn() -> None:
    work = as_frameworks(workload([LogJob(i, 10, 1, 10) for i in range(5)]), 2)
    assert work.group_index.tolist() == [0, 1, 0, 1, 0]
    assert [work.template(i).workload for i in range(3)] == ["framework1", "framework2", "framework1"]
    assert [group.quota.scalar for group in work.groups] == [5000, 5000]
    generated = load_workload("frameworks:count=3,nodes=2,applications=9,tasks=4", None, 1)
    assert generated.family_index is not None
    for family in range(9):
        assert len(set(generated.group_index[generated.family_index == family].tolist())) == 1


def test_the_same_seed_gives_the_same_frameworks_and_the_load_their_density() -> None:
    one, two = (load_workload("frameworks:nodes=2,applications=30", None, 4) for _ in range(2))
    assert one.ids == two.ids
    assert one.submit.tolist() == two.submit.tolist()
    dense = load_workload("frameworks:nodes=2,applications=30,load=2", None, 4)
    assert dense.submit.max() == pytest.approx(one.submit.max() / 2, rel=0.01)


@pytest.mark.parametrize(
    ("text", "message"),
    [("lending", "does not compare values"), ("lending=on", "does not compare values"), ("lending=on,maybe", "maybe")],
    ids=["no values", "one value", "a wrong value"],
)
def test_a_comparison_needs_values_of_an_option(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run.plan(Request(trace="frameworks:nodes=1,applications=2", out=tmp_path, compare=text))


def test_the_report_compares_both_and_has_the_fragments(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = cress(
        "simulate",
        "frameworks:nodes=1,applications=6,tasks=4",
        "--policy",
        "BackFill",
        "--compare",
        "lending=off,on",
        "--out",
        out,
    )
    assert result.returncode == 0, result.stderr
    assert "framework1/framework1, mean completion time" in result.stdout
    summary = json.loads((out / "lending=on" / "summary.json").read_text())
    assert list(summary["workloads"]) == ["framework1/framework1", "framework2/framework2"]
    page = (out / "report.html").read_text()
    assert "Fragments over time" in page
    assert "@@" not in page.split("<script>")[0]


def test_a_run_without_leases_says_nothing_of_fragments() -> None:
    core = World().core
    log = FragmentLog(core)
    # An estimate that is corrected may make a loan possible: the leases are looked at, and there are none.
    core.pool.stamp += 1
    log.look(10, until=10 * SECOND)
    assert log.result() is None


def test_what_leases_have_idle_counts_from_the_moment_at_which_it_changed(tmp_path: Path) -> None:
    # The first lease is given back at 20 s, half a second after another one became idle; the next step comes at 29.5 s.
    text = "job,submit,run,time_limit,cpu,memory,group,workload\n"
    text += "first,0,10,20,2,2G,a,spark\nsecond,9500ms,10,20,1,1G,b,dask\nlong,0,100,200,1,1G,b,\n"
    on = simulated(tmp_path, text)["lending=on"].analysis
    assert on.fragments is not None
    times = np.array([9, 11, 19, 21, 30]) * SECOND
    assert on.fragments.idle.at(times).tolist() == [0, 0.5, 0.5, 0.25, 0]
