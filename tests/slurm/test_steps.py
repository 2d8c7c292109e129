"""Steps of an allocation without a cluster: their folder, their input, the copies of sbcast."""

import os
import subprocess
from pathlib import Path
from typing import cast

import pytest

from cress.cli.slurm import allocations, layout
from cress.cli.slurm.copying import RECEIVE
from cress.cli.slurm.layout import AllocatedPlace, StepRank, step_folder
from cress.cli.slurm.running import RunningStep, run_step
from cress.client import Client, JobView, TaskCounts
from cress.model.errors import InputError
from cress.slurm.jobs import read_request


def job() -> JobView:
    counts = TaskCounts(total=1, waiting=0, running=1, succeeded=0, failed=0, cancelled=0)
    return JobView(
        id=7, name="x", group="lab", user="ann", type="batch", state="running", tasks=counts, priority=0, gang=False,
        resource={"cpu": "1"}, time_limit=None, submitted=1.5, command=("true",), directory="/d",
    )  # fmt: skip


def test_the_folder_of_steps_is_elsewhere_when_that_of_the_session_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "TEMPORARY", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    assert step_folder(job()) == tmp_path / f"cress-steps-{os.geteuid()}-7-1500000"
    monkeypatch.setattr(layout, "TEMPORARY", str(tmp_path / "gone too"))
    with pytest.raises(InputError, match="cannot be made: No such file"):
        step_folder(job())


@pytest.mark.parametrize("error", [InputError("it is somebody else's"), OSError(28, "No space left on device")])
def test_an_allocation_without_a_folder_of_steps_ends(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled: list[int] = []

    class Center:
        """A center that starts any job at once."""

        def submit(self, _jobs: object) -> object:
            return type("Page", (), {"jobs": (job(),)})

        def job(self, _id: int) -> JobView:
            return job()

        def cancel(self, id: int) -> None:
            cancelled.append(id)

    def fails(_job: JobView) -> Path:
        raise error

    monkeypatch.setattr(allocations, "_places", lambda *_: (AllocatedPlace(0, "n1", 1),))
    monkeypatch.setattr(allocations, "step_folder", fails)
    with pytest.raises(type(error)):
        allocations.allocate("salloc", cast("Client", Center()), read_request([], 0.0), [], "interactive")
    assert cancelled == [7]


def step(file: str, places: int) -> RunningStep:
    ranks = [StepRank(rank, AllocatedPlace(0, "n1", 1), rank, 0) for rank in range(places)]
    return RunningStep(name="srun", job=7, number=0, ranks=ranks, here=0, variables={}, input=file)


@pytest.mark.parametrize("places", [1, 2])
def test_nothing_starts_without_its_input(tmp_path: Path, places: int) -> None:
    with pytest.raises(FileNotFoundError):
        run_step(step(str(tmp_path / "missing"), places), [["touch", str(tmp_path / "started")]] * places)
    assert not (tmp_path / "started").exists()


def receive(folder: Path, to: str, size: int, *times: str) -> subprocess.CompletedProcess[str]:
    words = ["/bin/sh", "-c", RECEIVE, "sbcast", to, "in", "", "640", str(size), *(times or ("", ""))]
    return subprocess.run(words, input="12345", capture_output=True, text=True, cwd=folder, check=False, timeout=20)


def test_a_copy_is_whole_or_is_none(tmp_path: Path) -> None:
    done = receive(tmp_path, "out", 9)
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (1, "5 of 9 bytes of in have come\n", [])
    done = receive(tmp_path, "out", 5, "202611281200.30", "202011281200.31")
    facts = (tmp_path / "out").stat()
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (0, "", [tmp_path / "out"])
    assert (facts.st_mode & 0o777, facts.st_atime, facts.st_mtime) == (0o640, 1795867230.0, 1606564831.0)


def test_a_copy_follows_no_link_that_somebody_made_for_it(tmp_path: Path) -> None:
    words = f'to=$$; ln -s "{tmp_path}/victim" out.$to; set -- out in "" 640 5 "" ""; {RECEIVE}'
    done = subprocess.run(["/bin/sh", "-c", words], input="12345", capture_output=True, text=True, cwd=tmp_path,
                          check=False, timeout=20)  # fmt: skip
    assert done.returncode != 0
    assert not (tmp_path / "victim").exists()
