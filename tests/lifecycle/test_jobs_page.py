"""docs/jobs.md says what the machine does: the example runs in its order, the thresholds are those of the options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from cress.lifecycle.inputs import Submit
from cress.model.job import Job
from cress.model.jobfile.submit import parse_jobs
from cress.model.options import Options
from cress.model.records import JobState
from cress.model.units import format_duration
from tests.lifecycle.builders import DIMENSIONS, World

PAGE = (Path(__file__).parents[2] / "docs" / "jobs.md").read_text(encoding="utf-8")


def test_the_example_is_a_job_file_and_runs_in_its_order() -> None:
    example = re.search(r"```yaml\n(- .*?)```", PAGE, re.DOTALL)
    assert example
    entries: Any = yaml.safe_load(example[1])
    jobs = tuple(spec.job for spec in parse_jobs(entries, dimensions=DIMENSIONS, user="ann"))
    world = World()
    world.join("n1")
    assert world.step(Submit(jobs=jobs)).replies == [(1, 2, 3)]
    for number in (1, 2, 3):
        assert [launch.job for launch in world.last.launches] == [number]
        world.finish(number, code=0 if number == 1 else 1)
    assert [record.state for record in world.over.values()] == [JobState.SUCCEEDED, JobState.FAILED, JobState.FAILED]


def test_the_thresholds_are_those_of_the_options() -> None:
    values = {name: getattr(Options(), name) for name in Options.__dataclass_fields__}
    values["backoff"] = Job(id=0, group="", request=()).backoff
    said = re.findall(r"`(\w+)` \((?:(\d+)|(\d+) (s|min))\)", PAGE)
    assert len(said) >= 6
    for name, number, amount, unit in said:
        expected = str(values[name]) if number else format_duration(values[name])
        assert (number or amount + unit[0]) == expected, name
