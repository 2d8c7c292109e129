"""The first start after an installation: kernels are interpreted while they are compiled."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from cress.center.process.compilation import WantedKernels
from cress.model.options import Options
from tests.center.program import Center, eventually


def test_a_center_starts_tasks_while_its_kernels_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    with Center(tmp_path / "data") as center:
        center.submit(tasks=2, requirement='Name = "n1"', rank="IdleCPU")
        with center.executor() as executor:
            assert len(executor.launches()) == 2
        eventually(lambda: list((tmp_path / "cache").rglob("*.nbc")))
        assert len(list((tmp_path / "cache").rglob("*.nbc"))) < 20, "the compilation is over: this showed nothing"
        center.process.send_signal(signal.SIGTERM)
        _, said = center.process.communicate(timeout=60)
        # An interpreted decision on a slow machine may also be told as a wait.
        (told,) = (line for line in said.splitlines() if "everything waited" not in line)
        assert "compiling the scheduler for this machine" in told
        assert center.process.returncode == 0


def test_what_is_compiled_already_is_not_said_to_be_compiled(tmp_path: Path) -> None:
    with Center(tmp_path / "data") as center:
        center.process.send_signal(signal.SIGTERM)
        assert center.process.communicate(timeout=60)[1] == ""


@pytest.mark.parametrize("center_is_there", [True, False])
def test_the_compilation_ends_well_while_the_center_is_there_and_early_without_it(center_is_there: bool) -> None:
    wanted = msgspec.msgpack.encode(WantedKernels((), Options())).hex().encode() + b"\n"
    with subprocess.Popen(
        [sys.executable, "-m", "cress.center.process.compilation"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(wanted)
        process.stdin.flush()
        if not center_is_there:
            process.stdin.close()
        # With its end of the pipe open, as long as it needs.
        assert process.wait(120) == (0 if center_is_there else 1)
        assert process.stderr.read() == b""
