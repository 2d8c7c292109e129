"""Services, databases, cron jobs and dags in job files: what they come to, and what is refused with which sentence."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cress.model.errors import InputError, InputErrors
from cress.model.family import Cron, Dag, Database, Missed, Overlap, Service
from cress.model.job import Condition, JobType
from cress.model.jobfile.dag import alike_steps, without_done
from cress.model.jobfile.directory import in_folder
from cress.model.jobfile.job import JobSpec
from cress.model.jobfile.submit import parse_jobs
from cress.model.resources import Dimensions
from cress.model.run import Check, File
from cress.model.times import HOUR, MINUTE, SECOND

OK, ANY, FAILED = Condition.OK, Condition.ANY, Condition.FAILED
SERVICE = {"name": "web", "type": "service", "command": "serve"}


def read(*entries: dict[str, Any]) -> list[JobSpec]:
    return parse_jobs(list(entries), dimensions=Dimensions(("gpu",)), user="ann")


def refused(*entries: dict[str, Any]) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(*entries)
    errors = caught.value.errors if isinstance(caught.value, InputErrors) else [caught.value]
    return [str(error) for error in errors]


def dag(**steps: Any) -> dict[str, Any]:
    return {"type": "dag", "name": "etl", "steps": steps}


def step(**keys: Any) -> dict[str, Any]:
    return {"command": "true", **keys}


def test_a_service_says_how_it_is_kept() -> None:
    entry = {
        **SERVICE,
        "Tasks": 3,
        "ports": {"http": "dynamic", "admin": 80},
        "ready": {"url": "/health", "On": "http", "every": "1s", "timeout": "500ms", "delay": 3, "failures": "5"},
        "alive": {"command": ["pgrep", "x"]},
        "minimum": 2,
        "MaxUnavailable": 2,
        "update_timeout": "1min",
        "timetable": [{"at": "0  8 * * 1-5", "Tasks": 10}, {"at": "@daily", "tasks": 0}],
        "zone": "Europe/Berlin",
    }
    (spec,) = read(entry)
    assert (spec.job.type, spec.job.tasks, spec.job.minimum) == (JobType.SERVICE, 3, 2)
    assert spec.job.plan == Service(
        checked=True,
        max_unavailable=2,
        update_timeout=MINUTE,
        timetable=(("0 8 * * 1-5", 10), ("@daily", 0)),
        zone="Europe/Berlin",
    )
    assert spec.run.ready == Check(
        url="/health", on="http", interval=SECOND, timeout=SECOND // 2, delay=3 * SECOND, failures=5
    )
    assert spec.run.alive == Check(command=("pgrep", "x"))
    assert msgspec.json.decode(spec.run.source) == entry


def test_a_database_and_a_cron_job() -> None:
    database, cron = read(
        {"type": "Database", "command": "postgres", "ready_after": "2s", "move_after": "1h"},
        {"type": "cron", "command": "report", "when": "30 2 * * *", "overlap": "Replace", "missed": "once"},
    )
    assert database.job.plan == Database(ready_after=2 * SECOND, move_after=HOUR)
    assert cron.job.plan == Cron(when="30 2 * * *", overlap=Overlap.REPLACE, missed=Missed.ONCE)


def test_a_dag_is_followed_by_its_steps() -> None:
    first, whole, load, check, tidy, other = read(
        step(name="before"),
        {
            **dag(
                load=step(tasks=4, environment={"A": 1}),
                check=step(after="load", Continue="yes", retries=5),
                tidy=step(after={"check": "failed", "load": "any"}),
            ),
            "retries": 2,
            "environment": {"A": 0, "B": 2},
            "resource": "<2, 1G>",
            "requirement": "GCC >= 4",
            "after": ["before"],
        },
        step(name="other", after=["etl", "etl.check"]),
    )
    assert whole.job.plan == Dag(steps=("load", "check", "tidy"))
    assert (whole.job.tasks, whole.job.after) == (3, ((-1, OK),))
    assert [each.job.name for each in (load, check, tidy)] == ["etl.load", "etl.check", "etl.tidy"]
    assert {each.job.family for each in (load, check, tidy)} == {-2}
    assert [each.job.after for each in (load, check, tidy)] == [(), ((-3, OK),), ((-4, FAILED), (-3, ANY))]
    assert other.job.after == ((-2, OK), (-4, OK))
    assert [each.job.retries for each in (load, check, tidy)] == [2, 5, 2]
    assert load.run.environment == (("A", "1"), ("B", "2"))
    assert dict(load.run.limits)["cpu"] == 2000
    assert [each.text for each in load.clauses] == ["GCC >= 4"]
    assert [each.place for each in (first, whole, load, other)] == [
        "jobs[0]",
        "jobs[1]",
        "jobs[1].steps.load",
        "jobs[2]",
    ]
    assert whole.run.source
    assert not load.run.source


def test_a_step_may_let_those_behind_it_go_on() -> None:
    _, _, b, c = read(dag(a=step(**{"continue": True}), b=step(after=["a"]), c=step(after={"a": "ok"})))
    assert b.job.after == ((-2, ANY),)
    assert c.job.after == ((-2, OK),)


@pytest.mark.parametrize(
    ("done", "left"),
    [
        (
            [],
            {
                "a": [],
                "b": [("a", OK)],
                "c": [("b", OK)],
                "alarm": [("b", FAILED)],
                "end": [("c", ANY), ("alarm", ANY)],
            },
        ),
        (["a"], {"b": [], "c": [("b", OK)], "alarm": [("b", FAILED)], "end": [("c", ANY), ("alarm", ANY)]}),
        (["a", "b"], {"c": [], "end": [("c", ANY)]}),
        (["a", "alarm"], {"b": [], "c": [("b", OK)], "end": [("c", ANY)]}),
        (["a", "b", "c", "end"], {}),
    ],
)
def test_what_is_left_of_a_dag(done: list[str], left: dict[str, list[tuple[str, Condition]]]) -> None:
    specs = read(
        dag(
            a=step(),
            b=step(after="a"),
            c=step(after="b"),
            alarm=step(after={"b": "failed"}),
            end=step(after={"c": "any", "alarm": "any"}),
        )
    )
    found = without_done(specs, done, 7)
    assert bool(found) == bool(left)
    if found:
        names = {place: spec.job.name.removeprefix("etl.") for place, spec in enumerate(found, 1)}
        after = [[(names[-each], condition) for each, condition in spec.job.after] for spec in found[1:]]
        assert dict(zip(list(names.values())[1:], after, strict=True)) == left
        assert found[0].job.plan == Dag(steps=tuple(left), resumed=7)


def test_files_and_outputs_in_both_spellings() -> None:
    one, other = read(
        step(files={"a.csv": "https://x/a"}, outputs={"out/*": "s3://b/$CRESS_TASK_INDEX/"}),
        step(
            files=[{"source": "https://x/a", "path": "a.csv"}],
            outputs=[{"path": "out/*", "to": "s3://b/$CRESS_TASK_INDEX/"}],
        ),
    )
    assert one.run.files == other.run.files == (File(source="https://x/a", path="a.csv"),)
    assert one.run.outputs == other.run.outputs == (File(source="s3://b/$CRESS_TASK_INDEX/", path="out/*"),)
    (more,) = read(step(files=[{"source": "/srv/x.tar", "path": "x", "mode": "0755", "unpack": True}]))
    assert more.run.files == (File(source="/srv/x.tar", path="x", mode=0o755, unpack=True),)


def test_how_a_task_runs_and_what_it_may_use() -> None:
    keys = {
        "runtime": "Container",
        "root": "/img",
        "pids": "50",
        "run_as": "postgres",
        "log_size": "10M",
        "log_copy": "s3://l/",
    }
    (spec,) = read(step(**keys, resource="<0.5, 1G>"))
    run = spec.run
    assert (run.runtime, run.root, run.pids, run.run_as) == ("container", "/img", 50, "postgres")
    assert (run.log_size, run.log_copy) == (10 * 2**20, "s3://l/")
    assert run.limits == (("cpu", 500), ("memory", 2**30))
    assert not read(step())[0].run.limits


REFUSED: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "a key of other types",
        step(when="@daily", ready={"port": 1}),
        [
            "jobs[0].when: belongs to jobs of type cron (a job without a type is of type batch; add type: cron)",
            (
                "jobs[0].ready: belongs to jobs of type service or database"
                " (a job without a type is of type batch; add type: service or type: database)"
            ),
        ],
    ),
    (
        "steps without a type, where no command is missing",
        {"steps": {"a": {"command": "true"}}},
        [
            (
                "jobs[0].steps: belongs to jobs of type cron or dag"
                " (a job without a type is of type batch; add type: cron or type: dag)"
            ),
        ],
    ),
    (
        "what services have not",
        {**SERVICE, "retries": 1, "MoveAfter": "1h"},
        [
            "jobs[0].retries: belongs to jobs of type batch, cron or dag (this one is of type service)",
            "jobs[0].MoveAfter: belongs to jobs of type database (this one is of type service)",
        ],
    ),
    (
        "a key of steps",
        step(**{"continue": True}),
        ["jobs[0].continue: belongs to a step of a dag (steps: {NAME: {…, continue: true}})"],
    ),
    (
        "a mistyped check",
        {**SERVICE, "ready": {"prot": 1, "port": 2}},
        ["jobs[0].ready.prot: unknown key 'prot' (did you mean port?)"],
    ),
    (
        "a check in two ways",
        {**SERVICE, "alive": {"port": 1, "url": "/"}},
        [
            (
                "jobs[0].alive: has port and url (exactly one of them: {port: http}, {url: /health, on: http} or "
                "{command: "
                "[./check.sh]}, with every, timeout, delay, failures)"
            )
        ],
    ),
    (
        "a port that is not there",
        {**SERVICE, "ports": {"http": 80}, "ready": {"port": "htp"}},
        ["jobs[0].ready.port: the job has no port htp (did you mean http?)"],
    ),
    (
        "a page on no port",
        {**SERVICE, "ready": {"url": "/"}},
        ["jobs[0].ready.on: is needed: the job has no port (a number, or ports: {http: dynamic} and on: http)"],
    ),
    (
        "more than there are",
        {**SERVICE, "tasks": 2, "minimum": 3},
        ["jobs[0].minimum: 3 is more than the 2 tasks (0 to 2)"],
    ),
    (
        "a timetable with a hole",
        {**SERVICE, "timetable": [{"at": "@daily"}]},
        ['jobs[0].timetable[0].tasks: is missing (a list of {at: "0 8 * * 1-5", tasks: 10})'],
    ),
    (
        "an overlap",
        {"type": "cron", "command": "x", "when": "@daily", "overlap": "alow"},
        ["jobs[0].overlap: 'alow' is not one of forbid, allow, replace (did you mean allow?)"],
    ),
    ("a runtime", step(runtime="docker"), ["jobs[0].runtime: unknown runtime 'docker' (one of process, container)"]),
    (
        "a file above",
        step(files={"../x": "/y"}),
        [
            (
                "jobs[0].files.../x.path: '../x' is not a path of a file (below the task's directory, or absolute; no "
                "`..`)"
            )
        ],
    ),
    (
        "an address",
        step(outputs={"x": "y"}),
        [
            (
                "jobs[0].outputs.x.to: 'y' is not an address (https://…, s3://…, sftp://…, file:///…, or a path that "
                "begins with /)"
            )
        ],
    ),
    (
        "no steps",
        {"type": "dag"},
        ["jobs[0].steps: is missing (steps: {load: {command: …}, train: {command: …, after: [load]}})"],
    ),
    (
        "mistakes in steps, all of them",
        {**dag(load=step(tasks=0), b={"name": "x"}, c=step(after=["laod"])), "retries": "x"},
        [
            "jobs[0].retries: 'x' is not a whole number (a whole number from 0 to 1000)",
            "jobs[0].steps.load.tasks: 0 is too small (a whole number from 1 to 10000000)",
            "jobs[0].steps.b.name: belongs to the whole dag (the step is called as its key)",
            'jobs[0].steps.b.command: is missing (a list such as ["python3", "train.py"], or one text for the shell)',
            "jobs[0].steps.c.after: there is no step laod (did you mean load?)",
        ],
    ),
    (
        "a circle",
        dag(a=step(), b=step(after=["d", "a"]), c=step(after="b"), d=step(after="c")),
        ["jobs[0].steps.b.after: comes after itself: b after d after c after b (a dag must not have cycles)"],
    ),
]


@pytest.mark.parametrize(
    ("entry", "sentences"), [case[1:] for case in REFUSED], ids=[case[0].replace(" ", "_") for case in REFUSED]
)
def test_what_is_refused_and_why(entry: dict[str, Any], sentences: list[str]) -> None:
    assert refused(entry) == sentences


@pytest.mark.parametrize("kind", [{"type": "dag"}, {"type": "cron", "when": "@daily"}])
def test_names_of_steps_may_look_alike_unless_values_are_handed_on(kind: dict[str, str]) -> None:
    # An earlier release has accepted both, and what it has stored is read as a submit is.
    last = step(command="echo $CRESS_OUTPUT_A_B_ROWS")
    steps = {"a-b": step(), "a_b": step(), "A.b": step(), "ab": step()}
    assert alike_steps(read({**kind, "steps": steps})) == []
    assert [str(error) for error in alike_steps(read(step(), {**kind, "steps": {**steps, "last": last}}))] == [
        f"jobs[1].steps.{name}: later steps find its values under the same names as those of a-b (names that differ in "
        "more than case and punctuation)"
        for name in ("a_b", "A.b")
    ]


@pytest.mark.parametrize(
    ("given", "placed"),
    [
        ({"command": "x"}, {"command": "x", "directory": "/here"}),
        ({"command": "x", "Directory": "/there"}, {"command": "x", "Directory": "/there"}),
        ({"command": "x", "files": {}}, {"command": "x", "files": {}}),
        ({"steps": {"a": {"command": "x"}}}, {"steps": {"a": {"command": "x"}}, "directory": "/here"}),
        (
            {"Steps": {"a": {"command": "x"}, "b": {"Files": {}}, "c": {"dir": "/c"}}},
            {"Steps": {"a": {"command": "x", "directory": "/here"}, "b": {"Files": {}}, "c": {"dir": "/c"}}},
        ),
        ({"steps": {"b": {"files": {}}}, "directory": "/all"}, {"steps": {"b": {"files": {}}}, "directory": "/all"}),
        ({"steps": ["no", "steps"]}, {"steps": ["no", "steps"], "directory": "/here"}),
    ],
)
def test_jobs_start_where_they_are_submitted_but_for_those_with_files(
    given: dict[str, object], placed: dict[str, object]
) -> None:
    assert in_folder(given, "/here") == placed
