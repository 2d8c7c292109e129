"""Parts of gangs in job files: what is read, and what is refused and where."""

from __future__ import annotations

from typing import Any

import pytest

from cress.core.placing.submitted_constraints import constrained
from cress.model.errors import InputError
from cress.model.job import Job, JobPart
from cress.model.jobfile.submit import parse_jobs
from cress.model.parts import part_of
from cress.model.resources import Dimensions
from cress.model.run import RunPart
from cress.model.vectors import parse_vector

DIMENSIONS = Dimensions(("gpu",))
TRAIN: dict[str, Any] = {
    "name": "train",
    "parts": {
        "driver": {"resource": "<4, 64G>", "command": "./driver"},
        "workers": {
            "tasks": 8,
            "resource": "<8, 32G, gpu=1>",
            "requirement": 'Model = "A100"',
            "command": ["./worker"],
        },
    },
}


def read(**keys: Any) -> Job:
    (job,) = constrained(parse_jobs([{**TRAIN, **keys}], dimensions=DIMENSIONS, user="ann"))
    return job


def vector(text: str) -> tuple[int, ...]:
    return parse_vector(text, DIMENSIONS)


def test_parts_are_a_gang_of_all_their_tasks() -> None:
    job = read()
    assert (job.tasks, job.gang, job.requirement) == (9, True, "")
    assert job.request == vector("<4, 32G>")
    assert job.parts == (
        JobPart(name="driver", tasks=1, request=vector("<4, 64G>")),
        JobPart(name="workers", tasks=8, request=vector("<8, 32G, gpu=1>"), requirement='Model = "A100"'),
    )
    assert [job.request_of(task) for task in (0, 1, 8)] == [job.parts[0].request, *[job.parts[1].request] * 2]
    assert job.total(0) == 68_000
    assert part_of(job.parts, 8) == (job.parts[1], 7)


def test_a_part_has_of_the_job_what_it_does_not_say() -> None:
    keys = {
        "command": "./run",
        "resource": "<2, 1G>",
        "requirement": "Fast = True",
        "rank": "CPU",
        "nodes": "n1",
        "parts": {"a": {}, "b": {"tasks": 2, "requirement": "Slow = True", "rank": "Memory"}},
    }
    job = read(**keys)
    assert [part.requirement for part in job.parts] == [
        'Fast = True && Nodes in ("n1")',
        'Slow = True && Nodes in ("n1")',
    ]
    assert [part.rank for part in job.parts] == ["CPU", "Memory"]
    assert {part.request for part in job.parts} == {vector("<2, 1G>")}
    (spec,) = parse_jobs([{**TRAIN, **keys}], dimensions=DIMENSIONS, user="ann")
    assert {part.command for part in spec.run.parts} == {("/bin/sh", "-c", "./run")}


def test_each_task_runs_the_program_of_its_part() -> None:
    (spec,) = parse_jobs([TRAIN], dimensions=DIMENSIONS, user="ann")
    run = spec.run
    assert [run.of_task(task).command for task in (0, 1, 8)] == [
        ("/bin/sh", "-c", "./driver"),
        ("./worker",),
        ("./worker",),
    ]
    assert dict(run.of_task(3).limits)["gpu"] == 1000
    assert run.of_task(3).memory_limit == 32 * 2**30
    assert run.parts[1] == RunPart(
        name="workers", tasks=8, command=("./worker",), memory_limit=32 * 2**30, limits=run.of_task(1).limits
    )


REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"parts": {}},
        [
            (
                "jobs[0].parts: is empty (parts: {driver: {tasks: 1, command: …}, workers: {tasks: 8, resource: …, "
                "command: …}})"
            )
        ],
    ),
    (
        {"command": "x", "parts": {"a": {"time_limit": "5min"}}},
        [
            (
                "jobs[0].parts.a.time_limit: belongs to the job, not to a part (it stands beside parts; a part has "
                "tasks, resource, command, requirement, rank)"
            )
        ],
    ),
    (
        {"parts": {"a": {"task": 2}}},
        [
            "jobs[0].parts.a.task: unknown key 'task' (did you mean tasks?)",
            "jobs[0].parts.a: has no command, and neither has the job",
        ],
    ),
    ({"parts": {"a b": {"command": "x"}}}, ["jobs[0].parts.a b: 'a b' is not a name"]),
    ({"movable": True}, ["jobs[0].movable: the tasks of a gang are not moved (leave it out)"]),
    ({"tasks": 3}, ["jobs[0].tasks: cannot be combined with parts, which have their own (tasks: in each part)"]),
    ({"gang": False}, ["jobs[0].gang: is false, and parts start together or not at all (leave it out)"]),
    (
        {"gang": "10 && f(x) = (Waittime > 5min)"},
        ["jobs[0].gang: starts with at least 10 of 9 tasks (1 to 9 && f(x) = (…))"],
    ),
    (
        {"max_running": 1},
        ["jobs[0].max_running: is a limit of running tasks, and parts start all at once (leave it out)"],
    ),
    (
        {"parts": {"a": {"command": "x", "requirement": "Fast ="}}},
        ["jobs[0].parts.a.requirement: at the end: a value is expected"],
    ),
    (
        {"parts": {"a": {"command": "x", "requirement": "spread(Switch)"}, "b": {"command": "x"}}},
        [
            (
                "jobs[0].parts: spread(Switch) is about all tasks of a gang, and only some parts have it (in the "
                "requirement of each part, or as a key of the job, such as spread: or gang:)"
            )
        ],
    ),
    (
        {"parts": {"a": {"command": "x", "requirement": "within(Switch)"}, "b": {"command": "x"}}},
        ["jobs[0].parts: within(Switch) is about all tasks of a gang, and only some parts have it"],
    ),
    ({"type": "service"}, ["jobs[0].parts: belongs to jobs of type batch or cron (this one is of type service)"]),
]


@pytest.mark.parametrize(("keys", "told"), REFUSED)
def test_what_is_wrong_is_told_where_it_stands(keys: dict[str, Any], told: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        read(**keys)
    lines = str(caught.value).splitlines()
    for each in told:
        assert any(line.startswith(each) for line in lines), lines
