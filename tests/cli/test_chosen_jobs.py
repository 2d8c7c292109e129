"""Jobs chosen by ids, ranges, names and filters, for cancel, hold and release, on a real center."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.center.program import Center
from tests.forked import run_cress


@pytest.fixture(scope="module")
def center(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Center]:
    with Center(tmp_path_factory.mktemp("chosen") / "data", forked=True) as running:
        # Without a node all of them wait.
        for name in ("train-a", "train-b", "load", "train-a"):
            running.submit(name=name)
        yield running


def cress(center: Center, *words: str) -> subprocess.CompletedProcess[str]:
    return run_cress([*words, "--data", str(center.data)])


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["2", "load"], [2, 3]),
        (["2-3", "3"], [2, 3]),
        (["2-9999"], [2, 3, 4]),
        (["--name", "train-*"], [1, 2, 4]),
        (["--name", "train-a", "--state", "waiting"], [1, 4]),
        (["--group", "default", "--user", "*"], [1, 2, 3, 4]),
        (["--name", "load", "--before", "0s"], [3]),
    ],
)
def test_what_words_and_filters_choose(center: Center, words: list[str], ids: list[int]) -> None:
    done = cress(center, "cancel", "--dry-run", *words)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [int(line.split()[1]) for line in lines] == ids
    assert all(line.endswith(" would be cancelled") for line in lines)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "no job is given (ids or names of jobs, or a filter such as --state waiting)"),
        (["1", "--state", "waiting"], "jobs and filters are given (either ids and names, or filters)"),
        (["--state", "failed"], "--state: 'failed' is no state of a job that goes on (waiting or running)"),
        (["--state", "running"], "no job that waits or runs passes the filters (`cress jobs` lists jobs)"),
        (["--user", "nobody"], "no job that waits or runs passes the filters (`cress jobs` lists jobs)"),
        (
            ["--name", "load", "--before", "1h"],
            "no job that waits or runs passes the filters (`cress jobs` lists jobs)",
        ),
        (["5-2"], "5-2 is no range (2-5)"),
        (["50-60"], "no job of 50-60 waits or runs (`cress jobs` lists jobs)"),
        (["--before", "soon"], "--before: "),
    ],
)
def test_a_choice_of_no_job_is_refused(center: Center, words: list[str], why: str) -> None:
    done = cress(center, "hold", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"cress hold: {why}")


def test_filters_hold_release_and_cancel(center: Center) -> None:
    assert cress(center, "hold", "--name", "train-*").stdout == (
        "job 1 (train-a) waits until it is released\n"
        "job 2 (train-b) waits until it is released\n"
        "job 4 (train-a) waits until it is released\n"
    )
    assert [center.get(f"/v1/jobs/{number}")["held"] for number in (1, 2, 3, 4)] == [True, True, False, True]
    assert cress(center, "release", "1-4", "--dry-run").returncode == 0
    assert center.get("/v1/jobs/1")["held"]
    assert cress(center, "release", "--name", "train-a").returncode == 0
    assert [center.get(f"/v1/jobs/{number}")["held"] for number in (1, 2, 4)] == [False, True, False]
    done = center.submit(name="short")
    assert cress(center, "cancel", "--name", "sh*").stdout == f"job {done} (short) cancelled\n"


def test_jobs_in_a_form_an_order_and_a_span_of_time(center: Center) -> None:
    words = ["jobs", "--since", "1h", "--sort", "name", "--format", "{name}/{state}", "--name", "load"]
    assert cress(center, *words).stdout == "load/waiting\n"
    ids = [line.split()[0] for line in cress(center, "jobs", "--sort", "-id").stdout.splitlines()[1:]]
    assert ids == sorted(ids, reverse=True)
    done = cress(center, "jobs", "--until", "1h", "--format", "{id}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert cress(center, "jobs", "--until", "1h").stderr == "no jobs\n"
