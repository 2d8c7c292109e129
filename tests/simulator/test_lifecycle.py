"""Workloads with what production has: retries, services, cron jobs, drains, outages, cancellations, in job files and
tables.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cress.model.errors import InputError
from cress.model.job import JobType
from cress.model.times import SECOND
from cress.simulator import run
from cress.simulator.attempts import How, JobEnd
from cress.simulator.request import Request, Result

NODES = "nodes:\n  - {name: n, count: 2, resource: '<4>'}\n"

# (job, task, node, start, end in seconds, how it ended)
Attempt = tuple[str, int, str, int, int, str]


def simulated(
    folder: Path, jobs: str, cluster: str = NODES, *, suffix: str = "yaml", options: tuple[str, ...] = ()
) -> Result:
    """The run of this trace with every invariant checked after every moment."""
    (folder / "c.yaml").write_text(cluster)
    (folder / f"jobs.{suffix}").write_text(jobs)
    trace = str(folder / f"jobs.{suffix}")
    plan = run.plan(Request(trace=trace, out=folder / "out", cluster=folder / "c.yaml", check=True, options=options))
    return run.simulate(plan, plan.choices[0])


def attempts(result: Result) -> list[Attempt]:
    """The attempts in the order of their starts."""
    work, each = result.run.workload, result.run.attempts
    columns = (each.job, each.task, each.node, each.start // SECOND, each.end // SECOND, each.how)
    return [
        (work.ids[job], task, work.cluster.nodes[node].name, start, end, How(how).name.lower())
        for job, task, node, start, end, how in zip(*(column.tolist() for column in columns), strict=True)
    ]


def ends(result: Result) -> dict[str, str]:
    """How each job ended."""
    return {
        name: JobEnd(end).name.lower()
        for name, end in zip(result.run.workload.ids, result.run.history.ends.tolist(), strict=True)
    }


# --- retries ---------------------------------------------------------------------------------------------------------


def test_a_task_that_fails_is_tried_again_after_its_backoff_which_doubles(tmp_path: Path) -> None:
    result = simulated(tmp_path, "job,submit,run,cpu,retries,backoff,fails\na,0,100,1,2,20s,2\n", suffix="csv")
    # As in tests/lifecycle/test_retries.py: 20 s after the first failure, 40 s after the second.
    assert attempts(result) == [
        ("a", 0, "n-1", 0, 100, "failed"),
        ("a", 0, "n-1", 120, 220, "failed"),
        ("a", 0, "n-1", 260, 360, "finished"),
    ]
    assert ends(result) == {"a": "finished"}
    assert result.analysis.summary["attempts_failed"] == 2


def test_a_task_that_fails_once_more_than_it_is_tried_again_fails_its_job(tmp_path: Path) -> None:
    table = (
        "job,submit,run,cpu,retries,backoff,fails,after\na,0,100,1,1,20s,2,\nnext,0,5,1,,,,a\nclean,0,5,1,,,,a:failed\n"
    )
    result = simulated(tmp_path, table, suffix="csv")
    assert [row[-1] for row in attempts(result)] == ["failed", "failed", "finished"]
    assert ends(result) == {"a": "failed", "next": "cancelled", "clean": "finished"}
    assert result.analysis.times.start[2] == 220 * SECOND
    summary = result.analysis.summary
    assert (summary["jobs_failed"], summary["jobs_cancelled"], summary["jobs_waiting"]) == (1, 1, 0)


def test_tasks_wait_for_single_tasks_and_who_may_not_is_refused_as_live(tmp_path: Path) -> None:
    table = (
        "job,submit,run,cpu,tasks,gang,max_running,retries,after\n"
        "a,0,10,1,2,,1,1,\nb,0,5,1,2,,,,a:tasks\ng,0,5,1,2,yes,,,a:tasks\nmore,0,5,1,3,,,,a:tasks\n"
    )
    result = simulated(tmp_path, table, suffix="csv")
    found = attempts(result)
    assert sorted(start for name, _, _, start, _, _ in found if name == "b") == [10, 20]
    assert {name for name, *_ in found} == {"a", "b"}


def test_a_gang_fails_and_is_tried_again_as_a_whole(tmp_path: Path) -> None:
    table = "job,submit,run,cpu,tasks,gang,retries,backoff,fails\na,0,100,4,2,true,1,10s,1\n"
    result = simulated(tmp_path, table, suffix="csv")
    # One failure counts for the gang; the other task, which ends at the same moment, is tried again with it.
    assert [(row[3], row[4], row[-1] == "finished") for row in attempts(result)] == [
        (0, 100, False), (0, 100, False), (110, 210, True), (110, 210, True),
    ]  # fmt: skip


def test_a_gang_that_does_not_outlive_its_node_is_stopped_on_the_others(tmp_path: Path) -> None:
    jobs = "jobs:\n  - {name: a, run: 100s, tasks: 2, gang: true, resource: <4>, job_failure: false}\n"
    result = simulated(tmp_path, jobs, NODES + "outages:\n  - {node: n-1, from: 40s, to: 60s}\n")
    assert attempts(result) == [("a", 0, "n-1", 0, 40, "lost"), ("a", 1, "n-2", 0, 45, "stopped")]
    assert ends(result) == {"a": "failed"}


@pytest.mark.parametrize("managed", [False, True])
def test_a_gang_starts_in_part_later(tmp_path: Path, managed: bool) -> None:
    more = ", retries: 1" if managed else ""
    jobs = f"jobs:\n  - {{name: a, run: 100s, tasks: 3, resource: <4>, gang: 2 && f(x) = (Waittime > 30s){more}}}\n"
    result = simulated(tmp_path, jobs)
    assert [(row[1], round(row[3]), round(row[4])) for row in attempts(result)] == [
        (0, 30, 130),
        (1, 30, 130),
        (2, 130, 230),
    ]


def test_a_task_cut_at_its_time_limit_is_tried_again_too(tmp_path: Path) -> None:
    result = simulated(tmp_path, "job,submit,run,time_limit,cpu,retries,backoff\na,0,100,60,1,1,10s\n", suffix="csv")
    assert [(row[3], row[4], row[-1]) for row in attempts(result)] == [(0, 60, "failed"), (70, 130, "finished")]
    assert result.analysis.summary["jobs_killed"] == 1


# --- services and cron jobs ------------------------------------------------------------------------------------------


def test_a_service_moves_to_another_node_when_its_own_fails_and_ends_when_it_is_cancelled(tmp_path: Path) -> None:
    jobs = "jobs:\n  - {name: web, type: service, tasks: 2, resource: <1>, until: 10min}\n"
    result = simulated(tmp_path, jobs, NODES + "outages:\n  - {node: n-1, from: 60s, to: 2min}\n")
    # The tasks of a service go to different nodes; that of the failed one starts again at once on the other.
    assert attempts(result) == [
        ("web", 0, "n-1", 0, 60, "lost"),
        ("web", 1, "n-2", 0, 605, "stopped"),
        ("web", 0, "n-2", 60, 605, "stopped"),
    ]
    assert ends(result) == {"web": "cancelled"}


def test_a_service_without_an_end_runs_as_long_as_the_simulation(tmp_path: Path) -> None:
    jobs = (
        "jobs:\n  - {name: web, type: service, resource: <3>}\n  - {name: one, submit: 20s, run: 50s, resource: <4>}\n"
    )
    result = simulated(tmp_path, jobs)
    assert attempts(result) == [("web", 0, "n-1", 0, 70, "running"), ("one", 0, "n-2", 20, 70, "finished")]
    assert ends(result) == {"web": "kept", "one": "finished"}


def test_a_task_of_a_service_that_ends_is_started_again_after_its_backoff(tmp_path: Path) -> None:
    jobs = "jobs:\n  - {name: web, type: service, resource: <1>, run: 30s, backoff: 5s, until: 100s}\n"
    result = simulated(tmp_path, jobs)
    # As in tests/lifecycle/test_services.py: the wait doubles with every end in a row.
    assert [(row[3], row[4]) for row in attempts(result)] == [(0, 30), (35, 65), (75, 105)]


def test_a_cron_job_runs_at_its_moments_for_a_day(tmp_path: Path) -> None:
    # Second 0 is a Monday, 00:00 UTC.
    jobs = (
        "jobs:\n"
        "  - {name: hourly, type: cron, when: '30 * * * *', run: 10min, resource: <1>, until: 24h}\n"
        "  - {name: berlin, type: cron, when: '0 8 * * 1-5', zone: Europe/Berlin, run: 1min, resource: <1>, "
        "until: 24h}\n"
    )
    result = simulated(tmp_path, jobs)
    starts: dict[str, list[int]] = {}
    for name, _, _, start, end, how in attempts(result):
        assert (how, end - start) == ("finished", 600 if name == "hourly" else 60)
        starts.setdefault(name, []).append(start)
    assert starts == {"hourly": [1800 + 3600 * hour for hour in range(24)], "berlin": [7 * 3600]}
    assert ends(result) == {"hourly": "cancelled", "berlin": "cancelled"}


@pytest.mark.parametrize(
    ("overlap", "runs"),
    [
        ("forbid", [(0, 90, "finished"), (120, 210, "finished"), (240, 290, "stopped")]),
        ("allow", [(0, 90, "finished"), (60, 150, "finished"), (120, 210, "finished"), (180, 270, "finished"), (240, 290, "stopped")]),  # noqa: E501
        ("replace", [(0, 65, "stopped"), (65, 125, "stopped"), (125, 185, "stopped"), (185, 245, "stopped"), (245, 290, "stopped")]),  # noqa: E501
    ],
)  # fmt: skip
def test_runs_of_a_cron_job_that_overlap(tmp_path: Path, overlap: str, runs: list[tuple[int, int, str]]) -> None:
    jobs = (
        f"jobs:\n  - {{name: c, type: cron, when: '* * * * *', submit: 59s, run: 90s, resource: <1>, overlap: "
        f"{overlap}, until: 345s}}\n"
    )
    result = simulated(tmp_path, jobs)
    # From the first run on; one that is replaced, or cancelled with its job at 345 s, is gone 5 s later.
    assert [(start - 60, end - 60, how) for *_, start, end, how in attempts(result)] == runs


# --- dags ------------------------------------------------------------------------------------------------------------

ETL = """jobs:
  - {name: first, run: 10s, resource: <1>}
  - name: etl
    type: dag
    after: first
    run: 20s
    resource: <4>
    steps:
      load: {run: 60s, tasks: 2, resource: <2>, fails: FAILS}
      sum: {after: load}
      plot: {after: load, run: 30s}
      report: {after: [sum, plot]}
      alarm: {after: {load: failed}}
      note: {after: {alarm: tasks}}
  - {name: next, run: 5s, resource: <1>, after: etl}
  - {name: tidy, run: 5s, resource: <1>, after: {etl: any}}
"""


def test_the_steps_of_a_dag_run_after_each_other_each_with_its_run_time(tmp_path: Path) -> None:
    result = simulated(tmp_path, ETL.replace("FAILS", "0"))
    assert attempts(result) == [
        ("first", 0, "n-1", 0, 10, "finished"),
        ("etl.load", 0, "n-1", 10, 70, "finished"),
        ("etl.load", 1, "n-1", 10, 70, "finished"),
        ("etl.sum", 0, "n-1", 70, 90, "finished"),
        ("etl.plot", 0, "n-2", 70, 100, "finished"),
        ("etl.report", 0, "n-1", 100, 120, "finished"),
        ("next", 0, "n-1", 120, 125, "finished"),
        ("tidy", 0, "n-1", 120, 125, "finished"),
    ]
    # As in a live cluster, a dag has succeeded without the steps that only a failure calls for.
    assert {name for name, end in ends(result).items() if end == "cancelled"} == {"etl.alarm", "etl.note"}
    work = result.run.workload
    assert [work.family_names[i] for i in np.array(work.family_index).tolist()] == ["", *["etl"] * 6, "", ""]
    assert work.line.tolist() == [2, *range(9, 15), 15, 16]


def test_a_step_that_fails_cancels_the_steps_behind_it_and_what_needs_the_dag(tmp_path: Path) -> None:
    result = simulated(tmp_path, ETL.replace("FAILS", "1"))
    assert ends(result) == {
        "first": "finished",
        "etl.load": "failed",
        "etl.sum": "cancelled",
        "etl.plot": "cancelled",
        "etl.report": "cancelled",
        "etl.alarm": "finished",
        "etl.note": "finished",
        "next": "cancelled",
        "tidy": "finished",
    }
    # `tidy` waits for the last step, at 70 + 20 + 20 s.
    assert [row for row in attempts(result) if row[0] == "tidy"] == [("tidy", 0, "n-1", 110, 115, "finished")]


DUE = """jobs:
  - {name: soon, submit: 10s, run: 20s, resource: <1>, deadline: 15s}
  - {name: none, run: 20s, resource: <1>}
  - name: etl
    type: dag
    submit: 5s
    deadline: 2min
    run: 10s
    time_limit: 30s
    resource: <1>
    steps: {load: {}, sum: {after: load}}
  - {name: c, type: cron, when: '* * * * *', run: 1s, resource: <1>, deadline: 1h, until: 90s}
"""


def test_deadlines_of_a_file_of_jobs_count_from_their_submits(tmp_path: Path) -> None:
    work = simulated(tmp_path, DUE).run.workload
    due = {str(name): int(at) // 10**6 for name, at in zip(work.ids, np.array(work.deadline), strict=True) if at >= 0}
    # The first step has the time limit of the second behind it.
    assert due == {"soon": 25, "etl.load": 95, "etl.sum": 125}


# --- drains ----------------------------------------------------------------------------------------------------------


def test_a_drained_node_takes_nothing_and_is_empty_at_the_deadline_until_it_is_opened(tmp_path: Path) -> None:
    cluster = NODES + "drains:\n  - {node: n-1, from: 20s, deadline: 30s, to: 200s}\n"
    table = "job,submit,run,cpu\nlong,0,100,4\nshort,0,40,4\nlate,30,10,4\n"
    result = simulated(tmp_path, table, cluster, suffix="csv")
    # At 50 what still runs on n-1 is stopped, and gone after its grace; meanwhile n-2 has been free since 40.
    assert attempts(result) == [
        ("long", 0, "n-1", 0, 55, "stopped"),
        ("short", 0, "n-2", 0, 40, "finished"),
        ("late", 0, "n-2", 40, 50, "finished"),
        ("long", 0, "n-2", 55, 155, "finished"),
    ]
    assert result.analysis.summary["attempts_stopped"] == 1


def test_tasks_are_moved_by_the_option_rebalance(tmp_path: Path) -> None:
    """A move is a stop and a start; what the task had done is lost work."""
    table = "job,submit,run,cpu,movable\nlarge,0,9000,3,false\nsmall,0,9000,1,true\n"
    options = ("rebalance=1h", "node_order=spread", "rebalance_lost=2")
    result = simulated(tmp_path, table, NODES, suffix="csv", options=options)
    assert attempts(result) == [
        ("large", 0, "n-1", 0, 9000, "finished"),
        ("small", 0, "n-2", 0, 3605, "moved"),
        ("small", 0, "n-1", 3605, 12605, "finished"),
    ]
    summary = result.analysis.summary
    assert (summary["attempts_moved"], summary["attempts_stopped"]) == (1, 0)
    assert summary["lost_work_core_h"] == pytest.approx(3605 / 3600)


def test_room_is_made_for_a_job_that_waits_for_it(tmp_path: Path) -> None:
    table = "job,submit,run,cpu,movable\nleft,0,9000,2,true\nright,0,9000,2,true\nwide,1800,100,4,false\n"
    result = simulated(tmp_path, table, NODES, suffix="csv", options=("rebalance=1h", "node_order=spread"))
    assert attempts(result) == [
        ("left", 0, "n-1", 0, 3605, "moved"),
        ("right", 0, "n-2", 0, 9000, "finished"),
        ("left", 0, "n-2", 3605, 12605, "finished"),
        ("wide", 0, "n-1", 3605, 3705, "finished"),
    ]


def test_nothing_is_moved_beyond_the_budget(tmp_path: Path) -> None:
    table = "job,submit,run,cpu,movable\nlarge,0,9000,3,false\nsmall,0,9000,1,true\n"
    options = ("rebalance=1h", "node_order=spread", "rebalance_lost=0.9")
    result = simulated(tmp_path, table, NODES, suffix="csv", options=options)
    assert result.analysis.summary["attempts_moved"] == 0


def test_a_stopped_task_has_the_grace_of_its_job(tmp_path: Path) -> None:
    cluster = NODES + "drains:\n  - {node: n-1, from: 20s}\n"
    result = simulated(tmp_path, "job,submit,run,cpu,stop_grace\na,0,100,4,12s\n", cluster, suffix="csv")
    assert attempts(result) == [("a", 0, "n-1", 0, 32, "stopped"), ("a", 0, "n-2", 32, 132, "finished")]


def test_a_task_that_ends_before_the_deadline_is_not_stopped(tmp_path: Path) -> None:
    cluster = NODES + "drains:\n  - {node: n-1, from: 20s, deadline: 1h}\n"
    result = simulated(tmp_path, "job,submit,run,cpu\na,0,100,4\nb,30,10,4\n", cluster, suffix="csv")
    assert attempts(result) == [("a", 0, "n-1", 0, 100, "finished"), ("b", 0, "n-2", 30, 40, "finished")]


# --- a schedule by hand ----------------------------------------------------------------------------------------------

EVENING = """jobs:
  - {name: web, type: service, tasks: 2, resource: <1>, until: 300s}
  - {name: prepare, run: 50s, resource: <3>, retries: 1, backoff: 10s, fails: 1}
  - {name: train, run: 100s, tasks: 2, gang: true, resource: <3>, after: prepare}
  - {name: tidy, type: cron, when: '*/5 * * * *', run: 20s, resource: <1>, submit: 10s, until: 400s}
  - {name: never, run: 10s, resource: <1>, after: {prepare: failed}}
"""


def test_a_schedule_worked_out_by_hand(tmp_path: Path) -> None:
    cluster = NODES + "outages:\n  - {node: n-2, from: 180s, to: 200s}\n"
    result = simulated(tmp_path, EVENING, cluster)
    found = attempts(result)
    # web has one core of each node. prepare fails at 50 and runs again from 60 to 110. The gang train starts at 110
    # with three
    # cores of each node. At 180 n-2 fails: a part of train is lost, and the other one is gone at 185. The gang cannot
    # start
    # before n-2 is back, so it is passed over, and web's lost task takes a core of n-1. From 200 on the gang is first
    # in the
    # queue again, and needs three cores of n-1: it gets them when web is cancelled, at 300 and its grace, and tidy is
    # behind it.
    assert [row for row in found if row[0] == "prepare"] == [
        ("prepare", 0, "n-1", 0, 50, "failed"), ("prepare", 0, "n-1", 60, 110, "finished"),
    ]  # fmt: skip
    assert [row[2:] for row in found if row[0] == "train"] == [
        ("n-1", 110, 185, "stopped"),
        ("n-2", 110, 180, "lost"),
        ("n-1", 305, 405, "finished"),
        ("n-2", 305, 405, "finished"),
    ]
    assert [row[2:] for row in found if row[0] == "web"] == [
        ("n-1", 0, 305, "stopped"), ("n-2", 0, 180, "lost"), ("n-1", 185, 305, "stopped"),
    ]  # fmt: skip
    assert [row[3:] for row in found if row[0] == "tidy"] == [(305, 325, "finished")]
    assert ends(result) == {
        "web": "cancelled", "prepare": "finished", "train": "finished", "tidy": "cancelled", "never": "cancelled",
    }  # fmt: skip


# --- what is read ----------------------------------------------------------------------------------------------------


def test_a_table_and_a_file_of_jobs_say_the_same(tmp_path: Path) -> None:
    table = "job,submit,run,cpu,memory,type,when,overlap,until\nc,10,20,1,1G,cron,*/10 * * * *,allow,1h\n"
    file = (
        "jobs:\n  - {name: c, submit: 10s, run: 20s, resource: '<1, 1G>', type: cron, when: '*/10 * * * *', "
        "overlap: allow, until: 1h}\n"
    )
    cluster = "nodes:\n  - {name: n, resource: '<4, 8G>'}\n"
    one, two = (simulated(tmp_path, text, cluster, suffix=end) for text, end in ((table, "csv"), (file, "yaml")))
    assert one.run.workload.template(0) == two.run.workload.template(0)
    assert one.run.workload.template(0).type is JobType.CRON
    assert attempts(one) == attempts(two)
    assert [row[3] for row in attempts(one)] == [600 * i for i in range(1, 6)]


def test_the_job_file_of_the_guide_runs(tmp_path: Path) -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs" / "simulate.md").read_text(encoding="utf-8")
    text = next(each for each in guide.split("```yaml\n")[1:] if each.startswith("jobs:")).partition("```")[0]
    cluster = "nodes:\n  - {name: n, count: 4, resource: '<16, 64G>'}\n"
    result = simulated(tmp_path, text, cluster)
    finished = dict.fromkeys(("load", "train", "report.sum", "report.plot"), "finished")
    assert ends(result) == {"web": "cancelled", "nightly": "cancelled", **finished}
    summary = result.analysis.summary
    # Of the jobs with waiting times none waits, and only the first attempt of load is lost work: four cores for 10
    # minutes.
    assert summary["wait_max_s"] == 0
    assert summary["lost_work_core_h"] == pytest.approx(4 / 6)
    run.write_result(
        result, run.plan(Request(trace=str(tmp_path / "jobs.yaml"), out=tmp_path, cluster=tmp_path / "c.yaml"))
    )
    rows = (result.directory / "jobs.csv").read_text().splitlines()
    assert rows[1] == "web,default,,0,0,,cancelled,,,,,3,2,0,3,0"


DAG = "jobs:\n  - name: etl\n    type: dag\n    steps:\n      a: {run: 1s}\n"
MISTAKES = {
    "a key that is not known": ("jobs:\n  - {name: a, run: 1s, retry: 1}\n", "jobs.yaml:2: jobs[0].retry: "),
    "a key of another type": (
        "jobs:\n  - name: a\n    run: 1s\n    when: '* * * * *'\n",
        "jobs.yaml:4: jobs[0].when: belongs to jobs of type cron",
    ),
    "no run time": ("jobs:\n  - {name: a, run: 1s}\n  - {name: b}\n", "jobs.yaml:3: jobs[1].run: is missing"),
    "no time": ("jobs:\n  - {name: a, run: soon}\n", "jobs.yaml:2: jobs[0].run: "),
    "an end before the beginning": (
        "jobs:\n  - {name: a, run: 1s, submit: 10s, until: 5s}\n",
        "jobs.yaml:2: jobs[0].until: is not after submit",
    ),
    "a licence that is not there": (
        "jobs:\n  - {name: a, run: 1s, licences: ansis}\n",
        "jobs.yaml:2: jobs[0].licences: there is no licence 'ansis'",
    ),
    "a clause": ("jobs:\n  - {name: a, run: 1s, requirement: 'GCC >='}\n", "jobs.yaml:2: jobs[0].requirement: "),
    "after a job that is not there": ("jobs:\n  - {name: a, run: 1s, after: b}\n", "jobs.yaml:2: jobs[0].after: "),
    "after a job by its id": (
        "jobs:\n  - {name: a, run: 1s}\n  - {name: b, run: 1s, after: 1}\n",
        "jobs.yaml:3: jobs[1].after: job 1 is not in this file",
    ),
    "a step without a run time": (DAG + "      b: {}\n", "jobs.yaml:6: jobs[0].steps.b.run: is missing"),
    "a step with a time of its dag": (
        DAG + "      b: {run: 1s, submit: 2s}\n",
        "jobs.yaml:6: jobs[0].steps.b.submit: belongs to the whole dag",
    ),
    "a step after one that is not there": (
        DAG + "      b:\n        run: 1s\n        after: c\n",
        "jobs.yaml:8: jobs[0].steps.b.after: there is no step c",
    ),
    "after the failure of a dag": (
        DAG + "  - {name: b, run: 1s, after: {etl: failed}}\n",
        "jobs.yaml:6: jobs[1].after: a job after the failure of a whole dag (etl) cannot",
    ),
    "after a dag and its step": (
        DAG + "  - {name: b, run: 1s, after: [etl, etl.a]}\n",
        "jobs.yaml:6: jobs[1].after: etl.a is named both as a job and with its dag",
    ),
    "a dag after itself": (
        "jobs:\n  - {name: a, type: dag, run: 1s, after: a, steps: {b: {}}}\n",
        "these jobs wait for each other: a.b → a.b",
    ),
    "a deadline of the calendar": (
        "jobs:\n  - {name: a, run: 1s}\n  - {name: b, run: 1s, deadline: 2026-12-01 18:00}\n",
        "jobs.yaml:3: jobs[1].deadline: is a date, but a simulation has no calendar",
    ),
    "no jobs": ("cluster: a\n", "jobs.yaml: jobs: "),
    "nothing that ends": ("jobs:\n  - {name: a, type: service}\n", "no job of the trace ends"),
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_in_a_file_of_jobs_have_their_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        simulated(tmp_path, text, NODES + "licences: {ansys: 1}\n")
    assert message in str(caught.value)


def test_a_job_that_a_live_cluster_would_refuse_is_noted_and_the_others_run(tmp_path: Path) -> None:
    table = "job,submit,run,cpu,type,when,until\na,0,10,1,,,\nb,0,10,1,cron,61 * * * *,1h\nc,0,10,1,,,\n"
    result = simulated(tmp_path, table, suffix="csv")
    assert ends(result) == {"a": "finished", "b": "refused", "c": "finished"}
    (note,) = [each for each in result.notes.sentences() if "not accepted" in each]
    assert note.startswith("1 × not accepted: refused (line 3) [")
