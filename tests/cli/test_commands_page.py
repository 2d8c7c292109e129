"""docs/commands.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cress.cli.jobfile import read_jobs
from cress.model.jobspec import KEYS, parse_job
from cress.model.jobvalues import DEFAULT_RESOURCE
from cress.model.resources import Dimensions

PAGE = (Path(__file__).parents[2] / "docs/commands.md").read_text(encoding="utf-8")


def test_every_key_is_documented() -> None:
    table = PAGE.split("| key |")[1].split("\n\n")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == KEYS
    assert f"| `{DEFAULT_RESOURCE}` |" in table


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_the_job_files_shown_are_accepted(tmp_path: Path, text: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    (entry,) = read_jobs([str(file)])
    assert parse_job(entry.mapping, dimensions=Dimensions(), user="ann").job.name in {"echo", "sweep", "index"}
