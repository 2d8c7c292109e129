"""Jobs that come after others, and dags: orders, cancellations, measures, and the real trace."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cress.model.errors import InputError
from cress.model.job import Condition
from cress.simulator import request, run
from cress.simulator.clusterfile import load_cluster
from cress.simulator.dags import dags_of
from cress.simulator.groups import configure
from cress.simulator.traces import load_workload
from cress.simulator.workload import Workload
from tests.simulator import test_core
from tests.simulator.builders import SECOND, workload
from tests.simulator.plain import LogJob

OK, ANY, FAILED = Condition.OK, Condition.ANY, Condition.FAILED


def replay(work: Workload, policy: str, events: str, *, check: bool = False) -> request.Result:
    """One run of a workload through the real core, in one group with everything."""
    return test_core.replay(configure(work, None, "cpu"), policy, events, check=check)


def task(name: str, run_s: float = 10, start: float = 0, instances: int = 1, **more: object) -> dict[str, object]:
    values: dict[str, object] = {
        "name": name, "instances": float(instances), "start_time": start, "actual_duration": run_s,
        "expected_duration": run_s + 1, "cpu_requested": 100.0, "mem_requested": 0.5,
    }  # fmt: skip
    return values | more


DIAMOND = [task("J4_2_3", 5), task("R2_1", 20), task("R3_1", 30), task("M1", 10)]


def write(path: Path, dags: dict[str, list[dict[str, object]]], *lines: str) -> Path:
    texts = [json.dumps({"job": name, "tasks": tasks}) for name, tasks in dags.items()]
    path.write_text("\n".join([*texts, *lines]) + "\n")
    return path


def test_a_diamond_runs_as_its_names_say(tmp_path: Path) -> None:
    work = load_workload(str(write(tmp_path / "d.jsonl", {"j_1": DIAMOND})), None, 1)
    assert work.ids == ["j_1.J4_2_3", "j_1.R2_1", "j_1.R3_1", "j_1.M1"]
    assert work.after == (((1, OK), (2, OK)), ((3, OK),), ((3, OK),), ())
    result = replay(work, "FIFO", "together", check=True)
    times = result.analysis.times
    assert (times.start // SECOND).tolist() == [40, 10, 10, 0]
    assert (times.end // SECOND).tolist() == [45, 30, 40, 10]
    assert (times.wait // SECOND).tolist() == [0, 0, 0, 0]
    summary = result.analysis.summary
    assert (summary["dags"], summary["dags_finished"]) == (1, 1)
    assert (summary["dag_makespan_mean_s"], summary["dag_critical_path_mean_s"]) == (45, 45)
    assert summary["dag_stretch_max"] == 1.0


@pytest.mark.parametrize("events", ["together", "one-by-one"])
def test_without_room_the_steps_wait_and_the_critical_path_stays(tmp_path: Path, events: str) -> None:
    (tmp_path / "c.yaml").write_text("nodes:\n  - {name: n, resource: '<1, 4G>'}\n")
    work = load_workload(
        str(write(tmp_path / "d.jsonl", {"j_1": DIAMOND})), load_cluster(tmp_path / "c.yaml"), 1
    )  # fmt: skip
    result = replay(work, "FIFO", events, check=True)
    assert (result.analysis.times.start // SECOND).tolist() == [60, 10, 30, 0]
    summary = result.analysis.summary
    assert (summary["dag_makespan_mean_s"], summary["dag_critical_path_mean_s"]) == (65, 45)
    assert summary["dag_stretch_mean"] == pytest.approx(65 / 45)
    # One waited 20 s for room; what a step waits for those before it is none of it.
    assert summary["wait_max_s"] == 20


def test_what_a_line_says(tmp_path: Path) -> None:
    dag = [task("M1", 10, 107), task("R2_1_Stg3", 20, 105, instances=7), task("task_Nzg3", 3, 111, cpu_requested=50.0)]
    path = tmp_path / "d.jsonl.gz"
    path.write_bytes(
        gzip.compress(write(tmp_path / "d.jsonl", {"late": dag, "early": [task("M1", 1, 50)]}).read_bytes())
    )
    work = load_workload(str(path), None, 1)
    assert work.name == "d"
    assert work.ids == ["early.M1", "late.M1", "late.R2_1_Stg3", "late.task_Nzg3"]
    assert (work.submit // SECOND).tolist() == [50, 105, 105, 105]
    assert (work.run // SECOND).tolist() == [1, 10, 20, 3]
    assert (work.limit // SECOND).tolist() == [2, 11, 21, 4]
    assert work.tasks.tolist() == [1, 1, 7, 1]
    assert work.after == ((), (), ((1, OK),), ())
    memory = -(-512 * 2**30 * 5 // 1000)
    assert [work.requests[i][:2] for i in work.request_index] == [(1000, memory)] * 3 + [(500, memory)]
    assert [node.capacity[0] for node in work.cluster.nodes] == [96_000]
    assert not work.notes


ODD: dict[str, tuple[list[dict[str, object]] | str, str]] = {
    "no JSON": ("{", "1 × malformed line: left out (line 2) [not valid JSON]"),
    "a key is missing": ('{"job": "x", "tasks": [{"name": "M1"}]}', "[no start_time]"),
    "something else": ("[1]", "1 × malformed line: left out (line 2)"),
    "no tasks": ([], "[no tasks]"),
    "two of one number": ([task("M1"), task("R1")], "[two tasks with the same number]"),
    "after itself": ([task("M1_1")], "[a task depends on itself]"),
    "after each other": ([task("M1_2"), task("R2_1")], "[tasks wait for each other]"),
    "no instance": ([task("M1", instances=0)], "malformed line"),
    "runs for ever": ([task("M1", run_s=1e300)], "malformed line"),
    "after one that is not there": ([task("R2_1")], "1 × unknown predecessor: not waited for (line 2)"),
    "one name twice": (json.dumps({"job": "good", "tasks": [task("M1")]}), "1 × duplicate job id: kept (line 2)"),
}  # fmt: skip


@pytest.mark.parametrize(("odd", "said"), ODD.values(), ids=ODD)
def test_what_is_odd_is_said_and_stops_nothing(tmp_path: Path, odd: list[dict[str, object]] | str, said: str) -> None:
    line = odd if isinstance(odd, str) else json.dumps({"job": "odd", "tasks": odd})
    work = load_workload(str(write(tmp_path / "d.jsonl", {"good": DIAMOND}, line)), None, 1)
    assert len(work) in (4, 5)
    assert said in "\n".join(work.notes.sentences())


def test_a_file_without_dags_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text("\n")
    with pytest.raises(InputError, match="no dag in it"):
        load_workload(str(tmp_path / "d.jsonl"), None, 1)


# --- tables ----------------------------------------------------------------------------------------------------------

CLUSTER = "nodes:\n  - {name: n, resource: '<8, 8G>'}\n"


def table(folder: Path, text: str) -> Workload:
    (folder / "c.yaml").write_text(CLUSTER)
    (folder / "jobs.csv").write_text(text)
    return load_workload(str(folder / "jobs.csv"), load_cluster(folder / "c.yaml"), 1)


TABLE = """job,submit,run,cpu,time_limit,after,family
load,0,10,1,,,etl
sum,0,20,1,5,load,etl
mail,0,5,1,,load sum,etl
clean,0,5,1,,sum:failed,etl
tell,0,5,1,,sum:any mail:any,etl
alone,3,5,1,,,
"""


def test_a_table_says_what_comes_after_what_and_conditions_mean_what_they_do_in_a_live_cluster(tmp_path: Path) -> None:
    result = replay(table(tmp_path, TABLE), "FIFO", "together", check=True)
    ends = dict(zip(result.run.workload.ids, (result.analysis.times.end // SECOND).tolist(), strict=True))
    # sum is cut at its limit and has failed: mail is cancelled, clean runs.
    assert ends == {"load": 10, "sum": 15, "mail": -1, "clean": 20, "tell": 20, "alone": 8}
    assert [result.run.workload.ids[i] for i in np.flatnonzero(result.run.cancelled)] == ["mail"]
    summary = result.analysis.summary
    assert (summary["jobs_cancelled"], summary["jobs_waiting"], summary["jobs_finished"]) == (1, 0, 5)
    assert (summary["dags"], summary["dags_finished"]) == (1, 0)
    assert "1 × dependency failed: cancelled" in "\n".join(result.notes.sentences())


@pytest.mark.parametrize("events", ["together", "one-by-one"])
def test_what_comes_after_a_job_that_fits_no_node_is_cancelled(tmp_path: Path, events: str) -> None:
    text = "job,submit,run,cpu,after\nhuge,0,10,99,\nnext,0,10,1,huge\nlast,0,10,1,next\nany,5,10,1,huge:any\n"
    result = replay(table(tmp_path, text), "FIFO", events, check=True)
    assert (result.analysis.times.end // SECOND).tolist() == [-1, -1, -1, 15]
    assert result.run.cancelled.tolist() == [False, True, True, False]


def test_an_array_must_be_over_as_a_whole(tmp_path: Path) -> None:
    text = "job,submit,run,cpu,tasks,after\nmap,0,10,2,6,\nreduce,0,10,1,1,map\n"
    result = replay(table(tmp_path, text), "FIFO", "together", check=True)
    # Four tasks of the array fit at once.
    assert (result.analysis.times.start // SECOND).tolist() == [0, 20]


def test_a_job_waits_for_room_from_the_end_of_the_first_single_task_that_it_needs(tmp_path: Path) -> None:
    text = "job,submit,run,cpu,tasks,after\nmap,0,10,4,3,\nreduce,0,10,4,2,map:tasks\n"
    result = replay(table(tmp_path, text), "FIFO", "together", check=True)
    # Two tasks fit at once: the last of the first job and the first of the second run beside each other.
    times = result.analysis.times
    assert (times.start // SECOND).tolist() == [0, 10]
    assert (times.wait // SECOND).tolist() == [0, 0]
    assert (times.end // SECOND).tolist() == [20, 30]


def test_names_that_are_not_there_are_said(tmp_path: Path) -> None:
    work = table(tmp_path, "job,submit,run,cpu,after\na,0,10,1,nobody\nb,0,x,1,\nc,0,10,1,b\nd,0,10,1,a:perhaps\n")
    assert work.after == ((), ())
    assert work.notes.count("unknown predecessor") == 2
    assert "after: NAME, or NAME:ok, any, failed" in "\n".join(work.notes.sentences())


def test_a_circle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="these jobs wait for each other: a → b → a"):
        table(tmp_path, "job,submit,run,cpu,after\na,0,10,1,b\nb,0,10,1,a\n")


def test_a_selection_keeps_the_order_of_what_is_left() -> None:
    work = workload([LogJob(0, 10, 1, 20), LogJob(1, 10, 1, 20), LogJob(2, 10, 1, 20)])
    work = replace(work, after=((), ((0, OK),), ((0, ANY), (1, FAILED))))
    assert work.select(np.array([0, 2])).after == ((), ((0, ANY),))
    assert work.select(np.array([2, 1, 0])).after == (((2, ANY), (1, FAILED)), ((2, OK),), ())


def test_the_critical_path_counts_from_the_submission_of_each_step() -> None:
    work = workload([LogJob(5, 10, 1, 20), LogJob(100, 10, 1, 20)])
    work = replace(work, after=((), ((0, OK),)), family_index=np.array([0, 0]), family_names=("d",))
    dags = dags_of(work, np.array([15, 110]) * SECOND)
    assert dags is not None
    assert (dags.path // SECOND).tolist() == (dags.makespan // SECOND).tolist() == [105]


# --- the whole thing -------------------------------------------------------------------------------------------------


def test_from_the_command_line_dags_have_a_table_and_measures(tmp_path: Path) -> None:
    from tests.simulator.test_cli import cress

    out = tmp_path / "out"
    path = write(tmp_path / "d.jsonl", {"j_1": DIAMOND, "j_2": [task("M1", 7, 3)]})
    result = cress("simulate", path, "--out", out, "--policy", "FIFO", "--policy", "BackFill")
    assert result.returncode == 0, result.stderr
    assert (out / "FIFO" / "dags.csv").read_text() == (
        "dag,steps,submit,end,makespan_s,critical_path_s,stretch\nj_1,4,0,45,45,45,1.0000\nj_2,1,3,10,7,7,1.0000\n"
    )
    assert re.search(r"^dags finished +2 +2$", result.stdout, re.MULTILINE)
    assert "dags, mean of time / critical path" in (out / "report.html").read_text()


TRACES = os.environ.get("CRESS_TRACES")


@pytest.mark.skipif(not TRACES, reason="CRESS_TRACES is not set: point it to the folder of the real traces to run this")
@pytest.mark.parametrize(
    ("policy", "part"),
    [
        ("FIFO", 10),
        *(pytest.param(each, 1, marks=pytest.mark.long) for each in ("FIFO", "BackFill", "Priority", "Capacity")),
    ],
)
def test_dags_of_the_real_trace_run_and_no_step_starts_before_those_before_it(
    policy: str, part: int, tmp_path: Path
) -> None:
    """All dags of the trace, or each tenth."""
    path = tmp_path / "dags.jsonl.gz"
    with gzip.open(Path(TRACES or "") / "dag" / "alibaba-v2018-dags.jsonl.gz") as file, gzip.open(path, "w") as chosen:
        lines = file.readlines()[::part]
        chosen.writelines(lines)
    trace = [json.loads(line) for line in lines]
    steps = sum(len(dag["tasks"]) for dag in trace)
    plan = run.plan(request.Request(trace=str(path), out=tmp_path, policies=(policy,)))
    result = run.simulate(plan, plan.choices[0])
    run.write_result(result, plan)
    assert not result.notes
    with (result.directory / "jobs.csv").open() as table:
        rows = {row["job"]: row for row in csv.DictReader(table)}
    assert len(rows) == steps
    assert Counter(row["state"] for row in rows.values()) == {"finished": steps}
    assert result.analysis.summary["tasks_finished"] == sum(task["instances"] for dag in trace for task in dag["tasks"])
    edges = 0
    for dag in trace:
        # Straight from the names, as somebody who knows the trace would read them.
        number = {re.split(r"\D+", each["name"].split("_")[0])[1]: each["name"] for each in dag["tasks"]}
        for each in dag["tasks"]:
            for before in each["name"].split("_")[1:]:
                edges += 1
                first, then = rows[f"{dag['job']}.{number[before]}"], rows[f"{dag['job']}.{each['name']}"]
                assert float(then["start"]) >= float(first["end"])
    if part == 1:
        assert (len(trace), steps, edges) == (3_690, 22_409, 20_108)
    assert edges > 1_000
    summary = result.analysis.summary
    assert (summary["dags"], summary["dags_finished"]) == (len(trace), len(trace))
    assert summary["dag_stretch_median"] >= 1.0
    dags = result.analysis.dags
    assert dags is not None
    assert (dags.makespan >= dags.path[dags.finished]).all()
