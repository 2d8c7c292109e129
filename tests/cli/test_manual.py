"""Manual pages and units of systemd: written from the help, and read by those who read them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cress.cli.install_service import UnitProgram, unit
from tests.forked import run_cress


def test_each_verb_has_a_page_that_man_understands(tmp_path: Path) -> None:
    done = run_cress(["man", str(tmp_path / "man1")])
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "man1").iterdir()}
    assert {"cress.1", "cress-submit.1", "cress-nodes-drain.1", "cress-update.1"} <= names
    text = (tmp_path / "man1" / "cress-update.1").read_text()
    assert "cress update 12 time_limit=2h priority=5" in text
    assert "\\-\\-dry\\-run" in text
    assert not [line for line in text.splitlines() if line.startswith("'")]
    groff = shutil.which("groff")
    if groff is not None:
        page = [groff, "-k", "-man", "-Tutf8", "-ww", str(tmp_path / "man1" / "cress-update.1")]
        read = subprocess.run(page, capture_output=True, text=True, check=False)
        assert (read.returncode, read.stderr) == (0, "")


@pytest.mark.parametrize("program", list(UnitProgram))
def test_a_unit_starts_the_program_with_its_options(program: UnitProgram) -> None:
    text = unit(program, ["--name", "a b", "--label", "x=100%"], "cress", user=False)
    assert f' {program.value} --name "a b" --label x=100%%\n' in text
    assert "User=cress\n" in text
    assert ("KillMode=process" in text) == (program is UnitProgram.EXECUTOR)


def test_a_unit_is_written_where_asked(tmp_path: Path) -> None:
    done = run_cress(["install-service", "center", "--dir", str(tmp_path), "--", "--data", "/var/lib/cress"])
    assert done.returncode == 0, done.stderr
    assert "systemctl enable --now cress-center" in done.stdout
    assert "-m cress center --data /var/lib/cress\n" in (tmp_path / "cress-center.service").read_text()
    done = run_cress(["install-service", "portal", "--name", "a/b", "--dir", str(tmp_path)])
    assert (done.returncode, "--name: 'a/b' is not a name" in done.stderr) == (2, True)
