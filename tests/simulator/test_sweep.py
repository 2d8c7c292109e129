"""Sweeps: several simulations at once give the same figures, in the order asked for, and stop as one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cress.model.errors import InputError
from cress.simulator import run
from cress.simulator.request import Request
from cress.simulator.sweep import LocalSweep, Sweep, TaskFailed

CRESS = [sys.executable, "-m", "cress"]


def squared(number: int, seconds: float, *, tell: Callable[[int, int], None]) -> tuple[int, int]:
    """The square of a number, after some time; and who found it."""
    tell(1, 2)
    time.sleep(seconds)
    if number == 13:
        raise InputError("is unlucky", hint="another one", field="number")
    if number == 14:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 15:
        raise Unpicklable
    return number**2, os.getpid()


class Unpicklable(Exception):
    """An error that cannot be passed on."""

    def __reduce__(self) -> str:
        raise TypeError("no")


def results(sweep: Sweep, numbers: list[tuple[int, float]]) -> list[int]:
    """The squares, by a sweep."""
    return [number for number, _ in sweep.results(squared, numbers, [""] * len(numbers), None)]


def test_results_come_in_the_order_asked_for_not_in_that_of_their_ends() -> None:
    assert results(LocalSweep(3), [(1, 0.3), (2, 0.0), (3, 0.1), (4, 0.0), (5, 0.0)]) == [1, 4, 9, 16, 25]


def test_as_many_processes_run_at_once_as_are_allowed() -> None:
    found = list(LocalSweep(2).results(squared, [(i, 0.05) for i in range(6)], [""] * 6, None))
    assert len({pid for _, pid in found} - {os.getpid()}) == 6
    alone = list(LocalSweep(1).results(squared, [(i, 0.0) for i in range(3)], [""] * 3, None))
    assert {pid for _, pid in alone} == {os.getpid()}


def test_one_bar_shows_the_progress_of_all() -> None:
    seen: list[tuple[str, int, int]] = []
    numbers = [(1, 0.3), (2, 0.0), (3, 0.0)]
    for processes in (1, 3):
        seen.clear()
        list(LocalSweep(processes).results(squared, numbers, list("abc"), lambda *told: seen.append(told)))
        assert {label for label, _, _ in seen} == {"3 simulations"}
        done = [steps for _, steps, _ in seen]
        assert done == sorted(done)
        assert done[0] == 0
        assert {whole for _, _, whole in seen} == {3000}
    assert seen[-1][1] == 3000


def test_a_task_alone_has_the_bar_of_its_label() -> None:
    seen: list[str] = []
    list(LocalSweep(4).results(squared, [(1, 0.0)], ["FIFO"], lambda label, _done, _whole: seen.append(label)))
    assert set(seen) == {"FIFO"}


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_is_raised_in_its_turn(processes: int) -> None:
    sweep = LocalSweep(processes).results(squared, [(1, 0.0), (13, 0.0), (2, 0.0)], [""] * 3, None)
    assert next(sweep)[0] == 1
    with pytest.raises(InputError, match="is unlucky") as caught:
        next(sweep)
    assert caught.value.field == "number"


def test_a_process_that_is_killed_or_cannot_tell_its_error_is_told() -> None:
    with pytest.raises(TaskFailed, match="signal 9"):
        results(LocalSweep(2), [(14, 0.0), (1, 0.0)])
    with pytest.raises(TaskFailed, match="Unpicklable"):
        results(LocalSweep(2), [(15, 0.0), (1, 0.0)])


def test_who_goes_away_leaves_no_process_behind() -> None:
    begin = time.monotonic()
    sweep = LocalSweep(2).results(squared, [(1, 0.0), (2, 60.0), (3, 60.0)], [""] * 3, None)
    next(sweep)
    sweep.close()  # type: ignore[attr-defined]
    assert time.monotonic() - begin < 30


def files(folder: Path) -> dict[str, str]:
    """Every file of results, without the figures that are times of this machine."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "report.html":
            lines = path.read_text().splitlines()
            found[str(path.relative_to(folder))] = "\n".join(
                line for line in lines if "loop_s" not in line and "events_per_s" not in line
            )
    return found


def sweep_into(out: Path, sweep: Sweep) -> list[str]:
    """Several policies with several seeds; the labels of the results in order."""
    request = Request(
        trace="generated:jobs=60,nodes=4,groups=2", out=out, policies=("FIFO", "BackFill", "Priority"), attempts=True
    )
    return [result.run.label for result, _ in run.run_all(run.with_seeds(request, [], (3, 4)), None, sweep)]


def test_processes_give_the_files_that_one_gives(tmp_path: Path) -> None:
    labels = sweep_into(tmp_path / "one", LocalSweep(1))
    assert labels == [f"{policy} seed={seed}" for seed in (3, 4) for policy in ("FIFO", "BackFill", "Priority")]
    assert sweep_into(tmp_path / "many", LocalSweep(3)) == labels
    assert files(tmp_path / "many") == files(tmp_path / "one")
    assert len(files(tmp_path / "one")) == 18


def test_forecasts_come_back_from_another_process(tmp_path: Path) -> None:
    found = []
    for processes in (1, 2):
        out = tmp_path / str(processes)
        request = Request(
            trace="generated:jobs=40,nodes=2,groups=1", out=out, policies=("FIFO", "BackFill"), forecasts=3
        )
        run.run_all([run.plan(request)], None, LocalSweep(processes))
        found.append(files(out))
    assert found[0] == found[1]
    assert "BackFill/forecasts.csv" in found[0]


def test_seeds_of_a_trace_from_which_nothing_is_drawn_are_refused(tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text("1 0 -1 5 1 -1 -1 1 5 -1 1 1 -1 -1 -1 -1 -1 -1\n")
    with pytest.raises(InputError, match="have no effect") as caught:
        run.with_seeds(Request(trace=str(tmp_path / "log.swf"), out=tmp_path / "out"), [], (1, 2))
    assert caught.value.field == "--seeds"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--seeds", "1,2", "--seed", "3"), "--seed: cannot be combined with --seeds"),
        (("--seeds", "1,x"), "--seeds: '1,x' names no seeds"),
        (("--processes", "2", "--dask", "tcp://127.0.0.1:1"), "--processes: cannot be combined with --dask"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    command = [*CRESS, "simulate", "generated:jobs=5,nodes=1", *words, "--out", str(tmp_path / "out")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert found.stderr.startswith(f"cress simulate: {message}"), found.stderr
    assert not (tmp_path / "out").exists()
