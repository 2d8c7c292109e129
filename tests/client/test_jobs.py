"""Jobs as objects: the keys of a job file and no others, the mapping that a job file would be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cress.client.handle import Handle
from cress.client.jobs import Cron, Dag, Database, Job, JobFile, Service, Step, mapping_of
from cress.model.errors import InputError
from cress.model.job import JobType
from cress.model.jobfile.deadlines import deadline
from cress.model.jobfile.keys import TABLE
from cress.model.jobfile.misplaced import misplaced
from cress.model.jobfile.submit import parse_jobs
from cress.model.resources import Dimensions


@pytest.mark.parametrize("kind", [Job, Service, Database, Cron, Dag])
def test_the_keys_are_those_of_the_job_file(kind: type[JobFile]) -> None:
    of_type = {key.name for key in TABLE if JobType(kind.TYPE) in key.types}
    assert set(kind.KEYS) == of_type - {"type", *(["steps"] if kind is Dag else [])}


def test_the_keys_of_a_step_are_those_of_the_job_file() -> None:
    of_steps = {key.name for key in TABLE if misplaced(key.name, None) is None}
    assert {key.rstrip("_") for key in Step.KEYS} == of_steps


def job(**keys: Any) -> Job:
    return Job(**{"command": "true", **keys})


def test_what_is_said_in_python_is_what_a_job_file_says() -> None:
    behind = Handle(7)
    given = job(
        command=["sh", Path("x.sh")],
        time_limit=timedelta(minutes=2),
        resource={"cpu": 2},
        after={behind: "any"},
        directory=Path("/tmp"),
        rank=None,
        environment={"A": "b"},
    )
    assert given.mapping() == {
        "type": "batch",
        "command": ["sh", "x.sh"],
        "time_limit": 120.0,
        "resource": {"cpu": 2},
        "after": {"7": "any"},
        "directory": "/tmp",
        "environment": {"A": "b"},
    }
    assert mapping_of(job())["directory"] == str(Path.cwd())
    assert mapping_of({"Command": "x", "DIR": Path("/x")}) == {"Command": "x", "DIR": "/x"}
    assert repr(Job("true", tasks=3)) == "Job(command='true', tasks=3)"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: job(taks=3), "taks: Job has no key 'taks' (did you mean tasks?)"),
        (lambda: job(max_unavailable=1), "max_unavailable: Job has no key 'max_unavailable'"),
        (lambda: Service("web", "run", retries=3), "retries: Service has no key 'retries'"),  # type: ignore[call-arg]
        (lambda: Dag("etl").step("a", "x", nam=3), "nam: Step has no key 'nam'"),  # type: ignore[call-arg]
        (lambda: job(environment=object()).mapping(), "environment: <object object"),
        (lambda: job(environment={"A": b"x"}).mapping(), "environment: b'x' of bytes cannot stand in a job file"),
    ],
)
def test_what_is_wrong_is_said_at_once(wrong: Any, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        wrong()
    assert str(caught.value).startswith(sentence)


def test_steps_come_after_each_other_and_make_the_jobs_that_they_say() -> None:
    dag = Dag("etl", retries=2, group="web")
    extract = dag.step("extract", "./extract")
    clean = dag.step("clean", "./clean", after=extract, continue_=True)
    dag.step("load", ["./load"], after={extract: "ok", clean: "any"}, tasks=3)
    assert dag.mapping() == {
        "type": "dag",
        "name": "etl",
        "retries": 2,
        "group": "web",
        "steps": {
            "extract": {"command": "./extract"},
            "clean": {"command": "./clean", "after": "extract", "continue": True},
            "load": {"command": ["./load"], "after": {"extract": "ok", "clean": "any"}, "tasks": 3},
        },
    }
    specs = parse_jobs([dag.mapping()], dimensions=Dimensions(), user="ann")
    assert [spec.job.name for spec in specs] == ["etl", "etl.extract", "etl.clean", "etl.load"]
    with pytest.raises(InputError, match="there is already a step extract"):
        dag.step("extract", "x")
    with pytest.raises(InputError, match="clean is a step of another dag"):
        Dag("other").step("x", "x", after=[clean])


@pytest.mark.parametrize(
    "given",
    [
        Job("true", ports={"http": "dynamic"}, hold=True),
        Service("web", "run", tasks=3, ready={"port": "http", "every": timedelta(seconds=2)}, ports={"http": 80}),
        Database("db", ["postgres"], move_after="5min"),
        Cron("nightly", "0 2 * * *", "./backup", zone="Europe/Berlin", overlap="replace", missed="once"),
    ],
    ids=lambda given: given.TYPE,
)
def test_every_type_is_read_by_the_center(given: JobFile) -> None:
    (spec,) = parse_jobs([given.mapping()], dimensions=Dimensions(), user="ann")
    assert spec.job.type.value == given.TYPE


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("6h", "6h"),
        (timedelta(hours=6), 21_600.0),
        (datetime(2026, 12, 1, 18, tzinfo=UTC), "2026-12-01T18:00:00+00:00"),
        (datetime(2026, 12, 1, 18), "2026-12-01T18:00:00"),
    ],
)
def test_a_deadline_is_a_time_or_a_moment(given: str | timedelta | datetime, written: object) -> None:
    mapping = Job("true", deadline=given).mapping()
    assert mapping["deadline"] == written
    deadline(mapping["deadline"])
