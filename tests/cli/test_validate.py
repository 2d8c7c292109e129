"""``cress validate``: mistakes are told at their key, without a center."""

from __future__ import annotations

import json
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
