"""How many tasks of an array run at once, in a job file."""

from __future__ import annotations

import pytest

from cress.model.errors import InputError
from cress.model.job import Job
from cress.model.jobfile.submit import parse_jobs
from cress.model.resources import Dimensions


def job(**keys: object) -> Job:
    (spec,) = parse_jobs([{"command": "true", **keys}], dimensions=Dimensions(), user="ann")
    return spec.job


@pytest.mark.parametrize(
    ("keys", "tasks", "at_once"),
    [
        ({"tasks": "100%10"}, 100, 10),
        ({"tasks": " 100 % 10 "}, 100, 10),
        ({"tasks": 100, "MaxRunning": 10}, 100, 10),
        ({"tasks": "100"}, 100, 0),
        ({"max_running": 3}, 1, 3),
    ],
)
def test_a_number_of_tasks_and_how_many_at_once(keys: dict[str, object], tasks: int, at_once: int) -> None:
    assert (job(**keys).tasks, job(**keys).max_running) == (tasks, at_once)


@pytest.mark.parametrize(
    ("keys", "field", "what"),
    [
        ({"tasks": "100%"}, "tasks", "is not a whole number"),
        ({"tasks": "100%0"}, "tasks", "0"),
        ({"tasks": "100%10%2"}, "tasks", "'10%2'"),
        ({"tasks": "100%10", "max_running": 4}, "max_running", "cannot be combined with a % in tasks"),
        ({"tasks": "100%10", "gang": True}, "gang", "cannot be combined with a limit of running tasks"),
        ({"tasks": "3%1", "type": "service"}, "tasks", "all tasks of a service run at once"),
    ],
)
def test_mistakes(keys: dict[str, object], field: str, what: str) -> None:
    with pytest.raises(InputError, match=what.replace("%", "%")) as caught:
        job(**keys)
    assert caught.value.field == f"jobs[0].{field}"
