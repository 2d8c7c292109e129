"""Attempts whose files are brought before they start, and whose outputs are saved when they end: a real supervisor."""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.model.reports import Cause
from cress.model.run import File
from tests.executor.harness import Client, SupervisorProcess, shell


def test_files_are_there_and_outputs_are_saved(client: Client, parent: SupervisorProcess, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("one\n")
    run = shell(
        "cat data/words; echo two > result",
        files=(File(source=str(tmp_path / "words"), path="data/words"),),
        outputs=(File(path="result", source=f"{tmp_path}/out/$CRESS_JOB_ID-$CRESS_TASK_INDEX"),),
    )
    end = client.run(run, 5)
    assert (end.cause, end.code, end.error) == (Cause.EXITED, 0, "")
    assert parent.output(5) == "one\n"
    assert parent.output(5, "stderr") == ""
    assert (tmp_path / "out/1-0").read_text() == "two\n"


def test_in_a_container_the_stage_stays_outside(client: Client, parent: SupervisorProcess, tmp_path: Path) -> None:
    if not client.inventory.container:
        pytest.skip("no containers on this machine: that files come into them was not shown")
    (tmp_path / "words").write_text("one\n")
    run = shell(
        "cat words; readlink /proc/self/ns/mnt; echo two > result",
        runtime="container",
        files=(File(source=f"file://{tmp_path}/words", path="words"),),
        outputs=(File(path="result", source=f"{tmp_path}/out/"),),
    )
    end = client.run(run, 5)
    assert (end.cause, end.code, end.error) == (Cause.EXITED, 0, "")
    first, namespace = parent.output(5).splitlines()
    assert first == "one"
    assert namespace != str(Path("/proc/self/ns/mnt").readlink())
    assert (tmp_path / "out/result").read_text() == "two\n"
