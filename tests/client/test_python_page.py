"""docs/python.md: its examples run, and print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.system.cluster import Cluster

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_examples_of_the_page_print_what_it_says(cluster: Cluster, tmp_path: Path) -> None:
    blocks = re.findall(r"```(python|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    script = tmp_path / "notebook.py"
    script.write_text("\n".join(text for kind, text in blocks if kind == "python"))
    said = "".join(text for kind, text in blocks if kind == "text")
    assert said.count("\n") > 10
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**cluster.environment, "XDG_CACHE_HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == (said, "")
    assert list((tmp_path / "cress" / "calls").iterdir()) == []
