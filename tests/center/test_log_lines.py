"""The center's own log: one JSON object a line, whatever a message contains."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from pathlib import Path

from cress.center.process.log_lines import JsonLines


def test_a_record_is_one_line_with_its_traceback() -> None:
    stream = io.StringIO()
    log = logging.getLogger("tests.log_lines")
    log.propagate = False
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    log.addHandler(handler)
    log.warning('node %s\nis "away" – 日本', "n1")
    try:
        int("two\nlines")
    except ValueError:
        log.exception("a step failed")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["level"], first["logger"], first["message"]) == (
        "warning", "tests.log_lines", 'node n1\nis "away" – 日本',
    )  # fmt: skip
    assert first["time"].endswith("Z")
    assert "error" not in first
    assert second["level"] == "error"
    assert second["error"].endswith(r"ValueError: invalid literal for int() with base 10: 'two\nlines'")


def test_a_center_writes_its_errors_as_lines_of_json(tmp_path: Path) -> None:
    """It refuses a host name that does not exist before it does anything."""
    program = (
        "import sys; from pathlib import Path; from cress.center.run import run_center;"
        "from cress.center.settings import *;"
        "run_center(CenterSettings(data=Path(sys.argv[1]), log_format=LogFormat.JSON, store='nowhere:x'))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (line,) = done.stderr.splitlines()
    found = json.loads(line)
    assert (found["level"], found["logger"]) == ("error", "cress.center")
    assert found["message"].startswith("--store: 'nowhere' is not a kind of store")
