"""The units for systemd: systemd takes them, and their commands exist."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNITS = sorted((Path(__file__).parents[2] / "examples" / "systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_takes_the_unit_and_the_program_its_options(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze (apt install systemd): the units were not tried")
    (start,) = (line for line in unit.read_text().splitlines() if line.startswith("ExecStart="))
    program, *words = start.removeprefix("ExecStart=").split()
    assert program == "/opt/cress/bin/cress"
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace(program, "/bin/true").replace("User=cress", "User=root"))
    found = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    command = [sys.executable, "-m", "cress", *words, "--help"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
