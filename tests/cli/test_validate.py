"""``cress validate``: mistakes are told at their key, without a center."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cress.cli.main import app

RESOURCES = {
    "a word of another system": ("{mem: 4GB}", "resource.mem: unknown dimension 'mem' (did you mean memory?)"),
    "its word in a vector": ('"<cpu=1, mem=4GB>"', "resource.mem: unknown dimension 'mem' (did you mean memory?)"),
    "cores": ("{cores: 2}", "resource.cores: unknown dimension 'cores' (did you mean cpu?)"),
    "gpus": ("{cpu: 1, gpus: 2}", "resource.gpus: unknown dimension 'gpus' (did you mean gpu?)"),
    "a unit": ("{memory: 4GX}", "resource.memory: '4GX' has an unknown unit 'GX' (did you mean 4G?"),
    "one that a cluster may declare": ("{cpu: 1, fpga: 2}", "nothing is wrong"),
}


@pytest.mark.parametrize(("resource", "sentence"), RESOURCES.values(), ids=RESOURCES.keys())
def test_a_wrong_name_of_a_resource_is_told_before_its_unit(tmp_path: Path, resource: str, sentence: str) -> None:
    (tmp_path / "job.yaml").write_text(f"command: x\nresource: {resource}\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["validate", str(tmp_path / "job.yaml")])
    assert sentence in result.output
    assert result.exit_code == ("nothing" not in sentence)


def test_missing_files_are_told_beside_all_other_mistakes(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "- {name: a, command: x, files: [no.csv, gone.csv]}\n- {command: x, tasks: 0}\n", encoding="utf-8"
    )
    result = CliRunner().invoke(app, ["validate", "--json", str(tmp_path / "job.yaml")])
    faults = json.loads(result.output)["faults"]
    assert [(fault["line"], fault["field"]) for fault in faults] == [(1, "files[0]"), (1, "files[1]"), (2, "tasks")]


def test_the_page_for_users_of_other_systems_shows_valid_job_files_for_files_that_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "data.csv"):
        (tmp_path / name).touch()
    page = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text(encoding="utf-8")
    blocks = [
        text for kind, text in re.findall(r"^```(\w*)\n(.*?)^```", page, re.DOTALL | re.MULTILINE) if kind != "console"
    ]
    said = []
    for block in blocks:
        (tmp_path / "job.yaml").write_text(block, encoding="utf-8")
        said.append(CliRunner().invoke(app, ["validate", "job.yaml"]).output)
    assert [text.partition(" (")[0].removeprefix("cress validate: job.yaml:1: ").strip() for text in said] == [
        "is a submit file of HTCondor, not a job file", "1 job: nothing is wrong",
        "is a manifest of Kubernetes, not a job file", "1 job: nothing is wrong",
    ]  # fmt: skip
    # The anchors that the errors name exist.
    for anchor in re.findall(r"coming-from\.md#([\w-]+)", " ".join(said)):
        assert f"### {anchor.replace('-', ' ')}" in page.lower(), anchor
