"""The examples of docs/api.md, run as they stand there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.center.program import PATIENCE, Center

_PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def test_the_examples_of_the_page_work(center: Center) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl: the examples of docs/api.md were not run")
    script = "\n".join(re.findall(r"```sh\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL))
    script = script.replace("DATA=~/.local/share/cress", f"DATA={center.data}").replace("wait=10", "wait=0.01")
    assert str(center.data) in script
    ran = subprocess.run(["sh", "-e"], input=script, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert '{"jobs":[{"id":1,"name":"hello","note":"","deadline":null,"expected_start":null}]}' in ran.stdout
    assert ran.stdout.count('"code"') == 1, "only the log of a job that nothing has started yet"
    job = center.get("/v1/jobs/1")
    assert (job["state"], job["tasks"]["total"]) == ("cancelled", 3)


def test_the_page_names_every_call(center: Center) -> None:
    page = _PAGE.read_text(encoding="utf-8")
    for path in center.get("/openapi.json")["paths"]:
        short = path.removesuffix("/uncordon") + "/cordon" if path.endswith("/uncordon") else path
        assert short in page, path
