"""``cress leases``: the table, the sums, the verbs that change leases."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cress.cli import leases
from cress.cli.tables import plain
from cress.client import LeaseTask, LeaseView
from cress.client.lease_changes import over
from cress.model.reports import Cause
from tests.center.program import Center, eventually
from tests.forked import run_cress

HELD = LeaseView(
    id="12.0",
    job=12,
    task=0,
    workload="dask",
    group="lab",
    user="ann",
    state="held",
    node="n1",
    holds={"cpu": "4", "memory": "8G"},
    uses={"cpu": "1", "memory": "1G"},
    wants={"cpu": "2", "memory": "1G"},
    idle={"memory": "6G"},
    tasks=(LeaseTask(job=13, task=2, group="lab", amounts={"cpu": "1", "memory": "1G"}),),
    lent=(
        LeaseTask(job=14, task=0, group="web", amounts={"cpu": "1"}),
        LeaseTask(job=None, task=None, group="hr", amounts={"cpu": "1"}),
    ),
)
WAITING = LeaseView(
    id="15",
    job=15,
    task=None,
    workload="dask",
    group="lab",
    state="waiting",
    count=3,
    holds={"cpu": "4"},
    reason="full",
)


def test_a_row_tells_who_uses_a_lease_and_to_whom_it_is_lent() -> None:
    lines = plain(leases.COLUMNS, [leases.row(WAITING), leases.row(HELD)])
    assert lines[1].split() == ["15", "×3", "waiting", "dask", "lab", "-", "-", "cpu", "4", *["-"] * 5, "full"]
    assert "12.0   held     dask      lab    ann   n1    cpu 4, memory 8G" in lines[2]
    assert "cpu 1, memory 1G (wants cpu 2, memory 1G)  memory 6G" in lines[2]
    assert "13.2 (cpu 1, memory 1G)  14.0 (cpu 1), group hr (cpu 1)" in lines[2]


def test_a_watched_lease_is_one_line() -> None:
    assert leases._line(WAITING) == "lease 15 (3) of dask is waiting: full"
    assert leases._line(HELD) == (
        "lease 12.0 of dask on n1 is held: uses cpu 1, memory 1G (wants cpu 2, memory 1G); idle memory 6G; "
        "tasks 13.2 (cpu 1, memory 1G); lent to 14.0 (cpu 1), group hr (cpu 1)"
    )
    assert leases._line(over(HELD)) == "lease 12.0 of dask is over"


def test_the_sums_leave_out_what_waits() -> None:
    told = leases._sums([WAITING, HELD, HELD])
    assert told == "2 leases, 3 waiting; hold: <8,16G>; use: <2,2G>; idle: <0,12G>; lent in 4 loans: <4>"


def cress(center: Center, *arguments: str, status: int = 0) -> str:
    done = run_cress([*arguments, "--data", str(center.data)])
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def test_leases_are_requested_used_and_released(tmp_path: Path) -> None:
    with Center(tmp_path / "data", forked=True) as center, center.executor() as executor:
        assert cress(center, "leases") == "there are no leases\n"
        words = ("leases", "request", "--workload", "dask", "--resource", "<2, 1G>", "--term", "10min")
        assert cress(center, *words).startswith("lease 1")
        executor.started(attempt := executor.launches()[0].attempt)
        eventually(lambda: "held" in cress(center, "leases"))
        assert "lease 1.0 is held on n1" in cress(center, "leases", "use", "1.0", "<1, 1G>")
        (lease,) = json.loads(cress(center, "leases", "--workload", "dask", "--json"))["leases"]
        assert (lease["uses"], lease["idle"]) == ({"cpu": "1", "memory": "1G"}, {"cpu": "1"})
        assert "1 lease; hold: <2,1G>; use: <1,1G>; idle: <1>; lent in 0 loans: -" in cress(center, "leases")
        (line,) = cress(center, "leases", "workloads").splitlines()[1:]
        assert line.split() == "dask default 1 0 cpu 2, memory 1G cpu 1, memory 1G cpu 1 - - - 1".split()
        assert json.loads(cress(center, "leases", "workloads", "--json"))["workloads"][0]["idle"] == {"cpu": "1"}
        assert cress(center, "leases", "workloads", "--group", "x") == "no workload holds anything\n"
        assert "lease 2" in cress(center, "leases", "grow", "1")
        assert "are held, not 5" in cress(center, "leases", "shrink", "1", "--count", "5", status=3)
        assert "lease 1.0 is held" in cress(center, "leases", "renew", "1")
        words = (sys.executable, "-m", "cress", "leases", "watch", "1", "--data", str(center.data))
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as watching:
            assert watching.stdout is not None
            assert watching.stdout.readline() == "lease 1.0 of dask on n1 is held: uses cpu 1, memory 1G; idle cpu 1\n"
            assert "lease 1.0 is stopping on n1" in cress(center, "leases", "release", "1.0")
            assert "is stopping: released by" in watching.stdout.readline()
            executor.launches(), executor.stops()
            executor.ended(attempt, cause=Cause.STOPPED, code=-15)
            assert watching.stdout.read() == "lease 1.0 of dask is over\n"
        assert cress(center, "leases", "release", "1") == "lease 1 has ended\n"


@pytest.mark.parametrize("words", [("request",), ("use", "1.0")])
def test_what_is_missing_is_named(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run_cress(["leases", *words], folder=tmp_path)
    assert done.returncode == 2
    assert "is missing" in done.stderr


def test_a_workload_is_named_on_the_command_line(tmp_path: Path) -> None:
    with Center(tmp_path / "data", forked=True) as center:
        file = tmp_path / "job.yaml"
        file.write_text("command: 'true'\nworkload: old\n")
        cress(center, "submit", "--workload", "dask", str(file))
        assert "Workload   dask" in re.sub(" +", "   ", cress(center, "job", "1"))
        assert "--workload" in cress(center, "submit", "--workload", "/no", str(file), status=2)
