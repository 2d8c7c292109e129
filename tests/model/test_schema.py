"""The JSON Schema of job files: it takes what is documented, and refuses nothing that is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.cli.jobfile import read_jobs
from cress.client.inputs import Inputs
from cress.model.errors import InputError
from cress.model.job import JobType
from cress.model.jobfile.keys import ALIASES, BY_NAME, KEYS
from cress.model.jobfile.misplaced import misplaced
from cress.model.jobfile.schema import job_schema, keys_of, schema_text
from cress.model.jobfile.submit import parse_jobs
from cress.model.resources import Dimensions

ROOT = Path(__file__).parents[2]
SCHEMA = job_schema()
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)
SHELL = {"command": ["true"]}
BLOCK = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
# Pages whose blocks of YAML are job files.
NAMES = ("commands", "constraints", "containers", "files", "jobs", "services", "workflows")
PAGES = [ROOT / "docs" / f"{name}.md" for name in NAMES]


def is_read(entries: object) -> bool:
    try:
        parse_jobs(entries if isinstance(entries, list) else [entries], dimensions=Dimensions(("gpu",)), user="ann")
    except InputError:
        return False
    return True


def test_the_schema_is_one_and_has_the_keys_that_are_read() -> None:
    assert jsonschema_rs.meta.is_valid(SCHEMA)
    for type_ in (*JobType, None):
        found = SCHEMA["$defs"][type_.value if type_ else "step"]["properties"]
        assert list(found) == [key for key in KEYS if misplaced(key, type_) is None]
    assert {key.name for type_ in (*JobType, None) for key in keys_of(type_)} == set(KEYS) == set(BY_NAME)
    assert '"$defs"' in schema_text()


def files() -> list[tuple[str, str]]:
    found = [
        (f"{page.name}-{number}", text) for page in PAGES for number, text in enumerate(BLOCK.findall(page.read_text()))
    ]
    found += [
        (file.name, file.read_text())
        for file in sorted((ROOT / "examples").rglob("*.yaml"))
        if "command:" in file.read_text()
    ]
    return found


@pytest.mark.parametrize("text", [text for _, text in files()], ids=[name for name, _ in files()])
def test_job_files_that_are_shown_are_valid_and_read(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    file = folder / "jobs.yaml"
    file.write_text(text)
    entries = [entry.mapping for entry in read_jobs([str(file)])]
    assert [error.message for entry in entries for error in VALIDATOR.iter_errors(entry)] == []
    assert is_read([brought(entry, folder) for entry in entries])


def brought(entry: Mapping[str, object], folder: Path) -> Mapping[str, object]:
    """The job as clients send it; files that it brings from here are made first."""
    for name in re.findall(r"'((?:\.\./|settings/)[\w./]+)'", repr(entry)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    with Inputs() as inputs:
        return inputs.of_job(entry, folder)


SERVICE = {"type": "service", "command": "serve"}
STEPS = {"a": {"command": "true"}, "b": {"command": "true", "after": ["a"], "continue": True}}
VALID: list[Any] = [
    SHELL,
    [SHELL, {**SERVICE, "name": "web"}],
    {"Command": "true", "TIME-LIMIT": "5min", "IssueAsWhole": True, "environment": {"A": 1}},
    {"command": "true", "type": "BATCH", "tasks": "3", "after": [12]},
    {
        **SERVICE,
        "ports": {"http": "dynamic"},
        "ready": {"port": "http", "Every": "2s"},
        "alive": {"url": "/", "on": 80},
    },
    {"Type": "Service", "command": "x", "timetable": [{"at": "0 8 * * *", "tasks": 0}], "zone": "UTC"},
    {"type": "cron", "command": "true", "when": "@daily", "overlap": "Allow", "missed": "once"},
    {"Type": "DAG", "steps": STEPS, "resource": "<1, 1G>"},
    {"type": "database", "command": "postgres", "move_after": "1h", "tasks": 3},
    {"parts": {"a": {"command": "true"}, "b": {"TASKS": 3, "resource": "<1, 1G>", "command": ["x"]}}},
    {"command": "true", "gang": True, "parts": {"a": {}}},
    {"type": "cron", "when": "@daily", "parts": {"a": {"command": "true", "rank": "CPU"}}},
    {"Type": "DAG", "steps": {"a": {"parts": {"x": {"command": "true"}}}}},
    {"command": "true", "files": {"a": "https://x/a"}, "outputs": [{"path": "out/*", "to": "s3://b/"}], "pids": 9},
]
REFUSED: list[Any] = [
    [],
    3,
    {},
    {"command": []},
    {"command": {"a": 1}},
    {"comand": "true"},
    {"command": "true", "tasks": 0},
    {"command": "true", "tasks": 1.5},
    {"command": "true", "when": "@daily"},
    {"command": "true", "type": "deamon"},
    {"command": "true", "gang": "perhaps"},
    {"command": "true", "directory": "here"},
    {"command": "true", "time_limit": "soon"},
    {"command": "true", "ports": {}},
    {"command": "true", "runtime": "docker"},
    {"command": "true", "files": [{"path": "a"}]},
    {"command": "true", "outputs": [{"path": "a", "to": "/b", "mode": "755"}]},
    {"command": "true", "continue": True},
    {"parts": {}},
    {"command": "true", "parts": {"a": {"ports": 80}}},
    {"command": "true", "parts": [{"tasks": 3}]},
    {**SERVICE, "parts": {"a": {}}},
    {**SERVICE, "retries": 3},
    {**SERVICE, "steps": STEPS},
    {**SERVICE, "ready": "http"},
    {**SERVICE, "ready": {"url": "health"}},
    {**SERVICE, "timetable": [{"at": "@daily"}]},
    {"type": "cron", "command": "true"},
    {"type": "cron", "command": "true", "when": "@daily", "overlap": "perhaps"},
    {"type": "dag"},
    {"type": "dag", "steps": {}},
    {"type": "dag", "steps": {"a": {"command": "true", "name": "b"}}},
    {"type": "dag", "steps": {"a": {"command": "true", "ready": {"port": 1}}}},
    {"type": "database", "command": "true", "max_unavailable": 1},
]


@pytest.mark.parametrize("entry", VALID, ids=repr)
def test_what_is_well_formed_is_valid(entry: object) -> None:
    assert VALIDATOR.is_valid(entry)
    assert is_read(entry)


@pytest.mark.parametrize("entry", REFUSED, ids=repr)
def test_what_is_not_is_refused_by_both(entry: object) -> None:
    assert not VALIDATOR.is_valid(entry)
    assert not is_read(entry)


VALUES = st.recursive(
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        [
            "<1, 1G>",
            "5min",
            "true",
            " On",
            "/srv",
            "dynamic",
            "in (a)",
            "service",
            "4M",
            "3",
            "https://x/y",
            "0 8 * * *",
            "http",
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["port", "URL", "command", "a", "at", "tasks", "source", "path", "to"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)


@given(
    st.sampled_from([*(type_.value for type_ in JobType), "Service", "CRON"]),
    st.dictionaries(st.sampled_from([*KEYS, *ALIASES, "TimeLimit", "Ready", "x"]), VALUES, max_size=4),
)
def test_what_is_read_is_valid(type_: str, more: dict[str, Any]) -> None:
    entry = {"type": type_, "command": "true", **more}
    if is_read(entry):
        assert [error.message for error in VALIDATOR.iter_errors(entry)] == []
