"""docs/commands.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cress.cli.jobfile import read_jobs
from cress.model.job import JobType
from cress.model.jobfile.job import parse_job
from cress.model.jobfile.keys import KEYS
from cress.model.jobfile.misplaced import keys_table, misplaced
from cress.model.jobfile.values import DEFAULT_RESOURCE
from cress.model.resources import Dimensions

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "commands.md").read_text(encoding="utf-8")
TYPES = (DOCS / "jobs.md").read_text(encoding="utf-8").split("## Types of jobs")[1]


def test_every_key_is_documented() -> None:
    table = PAGE.split("<!-- keys: begin")[1].split("<!-- keys: end")[0].partition("-->\n")[2]
    assert table == keys_table()
    common = [key for key in KEYS if misplaced(key, JobType.BATCH) is None]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == common
    assert f"| `{DEFAULT_RESOURCE}` |" in table


def test_every_key_of_a_type_is_documented_there() -> None:
    for type_ in (JobType.SERVICE, JobType.DATABASE, JobType.CRON, JobType.DAG):
        section = TYPES.split(f"### {type_.value}\n")[1].split("\n### ")[0]
        keys = re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]*)\|", section, re.MULTILINE)))
        own = {key for key in KEYS if misplaced(key, type_) is None and misplaced(key, JobType.BATCH) is not None}
        assert set(keys) - {"after"} == own | ({"when", "continue"} if type_ is JobType.DAG else set())
        assert (misplaced("retries", type_) is None) == (type_ in (JobType.CRON, JobType.DAG))
        assert (misplaced("gang", type_) is None) == (type_ is not JobType.DATABASE)
        assert (misplaced("job_failure", type_) is None) == (type_ is not JobType.DATABASE)


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_the_job_files_shown_are_accepted(tmp_path: Path, text: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    (entry,) = read_jobs([str(file)])
    assert parse_job(entry.mapping, dimensions=Dimensions(), user="ann").job.name in {"echo", "sweep", "index"}
