"""What people read of services, cron jobs and dags."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from cress.cli import families, job, jobs
from cress.cli.tables import Cell, plain
from cress.client import AttemptView, CronView, DagView, JobView, ServiceView, StepView, TaskCounts, TaskView

NOW = 1_000_000.0


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    """Clocks show UTC."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def view(type_: str, tasks: TaskCounts, **more: Any) -> JobView:
    values: dict[str, Any] = {
        "id": 5,
        "name": "web",
        "group": "shop",
        "user": "ann",
        "type": type_,
        "state": "running",
        "priority": 0,
        "gang": False,
        "resource": {"cpu": "1"},
        "time_limit": None,
        "submitted": NOW - 400,
        "command": ("serve",),
        **more,
    }
    return JobView(tasks=tasks, **values)


def texts(pairs: list[tuple[str, Cell]]) -> list[tuple[str, str]]:
    found = [(name, value if isinstance(value, str) else value[0]) for name, value in pairs]
    return [(name, value) for name, value in found if value]


SERVICE = ServiceView(
    wanted=4,
    ready=3,
    version=3,
    updated=2,
    updating=True,
    waits="update in progress: 2 of 4 tasks left, waiting for task 1 to be ready",
    next=NOW + 7200,
    next_tasks=10,
)


def test_a_service_says_its_version_what_is_ready_and_what_an_update_waits_for() -> None:
    of_service = view("service", TaskCounts(total=4, running=4), service=SERVICE, reason=SERVICE.waits)
    assert texts(families.facts_of(of_service, NOW)) == [
        ("Ready", "3 of 4 tasks"),
        ("Version", "3 (2 of 4 tasks)"),
        ("Update", "update in progress: 2 of 4 tasks left, waiting for task 1 to be ready"),
        ("Timetable", "10 tasks from 1970-01-12 15:46 (UTC) on, in 2h00m"),
    ]
    told = texts(job.about(of_service, NOW))
    assert [name for name, _ in told][:9] == [
        "Job",
        "Name",
        "Group",
        "User",
        "Type",
        "State",
        "Ready",
        "Version",
        "Update",
    ]
    assert "Reason" not in dict(told)  # the update says it


def test_a_version_that_was_taken_back() -> None:
    why = "version 2 was rolled back: task 0 failed 3 times"
    service = ServiceView(wanted=1, ready=1, version=3, updated=1, returned=True, returned_because=why)
    told = dict(texts(families.facts_of(view("service", TaskCounts(total=1, running=1), service=service), NOW)))
    assert told == {"Ready": "1 of 1 task", "Version": "3", "Rolled back": why}


def test_tasks_of_a_service() -> None:
    def attempt(id: int, **more: Any) -> AttemptView:
        values = {"node": "n1", "outcome": "running", "placed": NOW - 100, "started": NOW - 90, **more}
        return AttemptView(id=id, **values)

    tasks = [
        TaskView(index=0, state="running", attempts=(attempt(1, ports={"http": 8080}),), job=6, ready=True),
        TaskView(
            index=1,
            state="running",
            attempts=(attempt(2, outcome="failed", ended=NOW - 80, code=1), attempt(3)),
            job=7,
            ready=False,
            why="/health answers 503",
        ),
        TaskView(index=2, state="waiting"),
        TaskView(index=3, state="waiting", attempts=(attempt(4, outcome="failed", ended=NOW - 80, code=3),), job=8),
    ]
    assert plain(families.SERVICE_TASKS, [families.service_row(task, NOW) for task in tasks]) == [
        "TASK  STATE    READY  NODE    AGE  RESTARTS  PORTS      REASON",
        "   0  running  yes    n1    1m30s         0  http=8080",
        "   1  running  no     n1    1m30s         1  -          /health answers 503",
        "   2  waiting  -      -         -         0  -",
        "   3  waiting  -      -         -         0  -          exit code 3",
    ]


def test_a_cron_job_says_when_it_runs_next_and_how_it_went() -> None:
    cron = CronView(
        when="30 2 * * *",
        zone="Europe/Berlin",
        overlap="forbid",
        missed_runs="once",
        next=(NOW + 60, NOW + 86_460),
        last=NOW - 86_340,
        last_job=12,
        last_state="failed",
        runs=1_200,
        skipped=2,
        missed=1,
    )
    assert texts(families.facts_of(view("cron", TaskCounts(total=0), cron=cron), NOW)) == [
        ("When", "30 2 * * * (Europe/Berlin)"),
        ("Overlap", "forbid"),
        ("Missed", "once"),
        ("Next", "1970-01-12 14:47 (in 1m00s), 1970-01-13 14:47"),
        ("Last", "1970-01-11 14:47: job 12, failed"),
        ("Runs", "1,200, 2 left out, 1 missed"),
    ]
    run = view(
        "batch", TaskCounts(total=3, succeeded=2, failed=1), id=12, state="failed", started=NOW - 390, ended=NOW - 300
    )
    assert plain(families.RUNS, [families.run_row(run, NOW, "Asia/Shanghai")]) == [
        "RUN  STATE   DONE  SUBMITTED             TIME  REASON",
        " 12  failed   3/3  1970-01-12 21:40:00  1m30s",
    ]


def test_the_steps_of_a_dag_are_a_tree() -> None:
    def step(name: str, id: int, state: str, reason: str = "", **after: str) -> StepView:
        return StepView(name=name, id=id, state=state, after=after, reason=reason)

    steps = (
        step("load", 2, "succeeded"),
        step("check", 3, "failed", load="ok"),
        step("other", 4, "running"),
        step("publish", 5, "waiting", "waiting for job 4 (etl.other), and job 1", check="ok", other="ok"),
        step("alarm", 6, "running", check="failed"),
        step("tidy", 7, "waiting", publish="any", alarm="any"),
    )
    assert plain(families.STEPS, families.step_rows(steps)) == [
        "STEP         JOB  STATE      AFTER                       REASON",
        "load           2  succeeded",
        "  check        3  failed     load",
        "    publish    5  waiting    check, other                waiting for step other, and job 1",
        "      tidy     7  waiting    publish (any), alarm (any)",
        "    alarm      6  running    check (failed)",
        "other          4  running",
    ]
    tasks = TaskCounts(total=6, waiting=2, running=2, succeeded=1, failed=1)
    of_dag = view("dag", tasks, dag=DagView(steps=steps, resumed=1))
    told = texts(families.facts_of(of_dag, NOW))
    assert told == [("Progress", "[###.................] 1 of 6 steps succeeded, 1 failed"), ("Resumes", "job 1")]
    assert ("Steps", "6: 2 waiting, 2 running, 1 succeeded, 1 failed") in texts(job.about(of_dag, NOW))


def test_a_list_of_jobs_tells_types_where_there_are_several() -> None:
    rows = [
        view("service", TaskCounts(total=4, running=4), service=SERVICE, started=NOW - 300),
        view("cron", TaskCounts(total=0), id=4, name="nightly", state="waiting"),
        view("dag", TaskCounts(total=3, succeeded=1, running=2), id=1, name="etl", started=NOW - 10),
    ]
    assert plain(*jobs.table(rows, NOW)) == [
        "ID  NAME     TYPE     GROUP  USER  STATE    DONE  RUNNING    AGE   TIME  REASON",
        " 5  web      service  shop   ann   running   3/4        4  6m40s  5m00s",
        " 4  nightly  cron     shop   ann   waiting     -        0  6m40s      -",
        " 1  etl      dag      shop   ann   running   1/3        2  6m40s    10s",
    ]
    batch = view("batch", TaskCounts(total=1, running=1))
    assert plain(*jobs.table([batch], NOW))[0].split()[:3] == ["ID", "NAME", "GROUP"]
