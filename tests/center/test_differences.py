"""The keys in which a running job differs from a file."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cress.center.requests.differences import MOST_SHOWN, changes_of_keys, scaled_back
from cress.model.jobfile.job import JobSpec, parse_job
from cress.model.resources import Dimensions

DIMENSIONS = Dimensions()
WEB: dict[str, Any] = {
    "name": "web",
    "type": "service",
    "tasks": 2,
    "resource": "<1, 1G>",
    "environment": {"A": "1", "B": "2"},
    "command": ["serve"],
    "backoff": "10s",
}


def spec_of(mapping: dict[str, Any]) -> JobSpec:
    """The job of a mapping."""
    return parse_job(mapping, dimensions=DIMENSIONS, user="ann")


def differences(file: dict[str, Any], running: dict[str, Any] = WEB, tasks: int = 2) -> list[tuple[str, Any, Any]]:
    """The differences between a running job, with so many tasks, and a file."""
    old, new = spec_of(running), spec_of(file)
    before = msgspec.structs.replace(old.job, tasks=tasks)
    return [(key.key, key.before, key.after) for key in changes_of_keys(before, old.run, new.job, new)]


CASES: dict[str, tuple[dict[str, Any], list[tuple[str, Any, Any]]]] = {
    "nothing": (WEB, []),
    "another command": ({**WEB, "command": "serve -v"}, [("command", '["serve"]', "serve -v")]),
    "another spelling of the same": (
        {**WEB, "resource": {"cpu": 1, "memory": "1024M"}, "backoff": "10000ms", "command": ("serve",)},
        [],
    ),
    "a key in other letters": ({**{k: v for k, v in WEB.items() if k != "backoff"}, "BackOff": "10s"}, []),
    "an alias": ({**{k: v for k, v in WEB.items() if k != "environment"}, "env": {"A": "1", "B": "2"}}, []),
    "entries of a mapping": (
        {**WEB, "environment": {"A": "3", "C": "4"}},
        [("environment.A", "1", "3"), ("environment.B", "2", None), ("environment.C", None, "4")],
    ),
    "a key that is new": ({**WEB, "max_per_node": 1}, [("max_per_node", None, "1")]),
    "a key of the family": ({**WEB, "max_unavailable": 2}, [("max_unavailable", None, "2")]),
    "a requirement": ({**WEB, "requirement": "SSD"}, [("requirement", None, "SSD")]),
    "a default that is written": ({**WEB, "max_unavailable": 1}, []),
    "the order of the table": (
        {**WEB, "backoff": "20s", "resource": "<2, 1G>"},
        [("resource", "<1, 1G>", "<2, 1G>"), ("backoff", "10s", "20s")],
    ),
    "a long text": ({**WEB, "command": "x" * 999}, [("command", '["serve"]', "x" * (MOST_SHOWN - 1) + "…")]),
}


@pytest.mark.parametrize(("file", "expected"), CASES.values(), ids=CASES.keys())
def test_keys_that_differ_are_shown_as_written(file: dict[str, Any], expected: list[tuple[str, Any, Any]]) -> None:
    assert differences(file) == expected


def test_a_scaled_job_differs_in_its_number_of_tasks_and_goes_back() -> None:
    assert differences(WEB, tasks=5) == [("tasks", "5", "2")]
    old = spec_of(WEB)
    scaled = msgspec.structs.replace(old.job, tasks=5)
    assert scaled_back(scaled, old.run, old.job)
    assert not scaled_back(old.job, old.run, old.job)
    assert not scaled_back(scaled, old.run, spec_of({**WEB, "tasks": 3}).job)


def test_a_job_whose_file_is_not_kept_differs_in_what_is_known() -> None:
    old, new = spec_of(WEB), spec_of({**WEB, "tasks": 4, "backoff": "20s"})
    lost = msgspec.structs.replace(old.run, source="")
    assert [key.key for key in changes_of_keys(old.job, lost, new.job, new)] == ["tasks"]
    assert [key.key for key in changes_of_keys(old.job, None, new.job, new)] == ["tasks"]
