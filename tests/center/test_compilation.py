"""The first start after an installation: kernels are interpreted while they are compiled."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from cress.center.process import compilation
from cress.center.process.compilation import WantedKernels, load_kernels
from cress.core.warm import KERNELS
from cress.model.options import Options
from cress.model.resources import Dimensions
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


def test_kernels_are_loaded_once_for_each_kind_of_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[tuple[Dimensions, Options]] = []
    monkeypatch.setattr(compilation, "_COMPLETE", set())
    monkeypatch.setattr(compilation, "warm_up", lambda dimensions, options, _: played.append((dimensions, options)))
    plain, other = (Dimensions(), Options()), (Dimensions(("gpu",)), Options())
    for kind in (plain, other, plain, other):
        load_kernels(*kind)
    assert played == [plain, other]


def test_kernels_that_the_cache_lacks_are_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[Options] = []
    monkeypatch.setattr(compilation, "_COMPLETE", set())
    monkeypatch.setattr(compilation, "warm_up", lambda _, options, __: played.append(options))
    monkeypatch.setattr(KERNELS, "_missing", {"victims"})
    for _ in range(2):
        load_kernels(Dimensions(), Options())
    assert len(played) == 2


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
