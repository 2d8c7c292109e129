"""``cress simulate --forecasts``: forecasts beside the starts that came, and decisions that stay the same."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from cress.simulator.forecasts import COLUMNS, MEASURES
from tests.simulator.builders import swf_line, write_swf
from tests.simulator.test_cli import cress


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("events", ["together", "one-by-one"])
@pytest.mark.parametrize("policy", ["BackFill", "BackFill/predicted"])
def test_the_forecasts_of_waiting_jobs_stand_beside_their_starts(tmp_path: Path, events: str, policy: str) -> None:
    """One of ten processors runs at a time; each job runs for half of its limit."""
    log = write_swf(tmp_path / "log.swf", [swf_line(n, 10 * n, 50, 10, 100) for n in range(1, 41)])
    given = ("simulate", log, "--policy", policy, "--events", events)
    result = cress(*given, "--forecasts", 1, "--json", "--out", tmp_path / "with")
    assert result.returncode == 0, result.stderr
    folder = policy.replace("/", "-")
    found = rows(tmp_path / "with" / folder / "forecasts.csv")
    jobs = rows(tmp_path / "with" / folder / "jobs.csv")
    assert list(found[0]) == list(COLUMNS)
    # The first one starts at once, all others wait.
    assert [row["job"] for row in found] == [str(n) for n in range(2, 41)]
    starts = {row["job"]: row["start"] for row in jobs}
    for row in found:
        assert row["start"] == starts[row["job"]]
        moments = [float(row[word]) for word in ("submit", "earliest", "likely", "latest")]
        assert moments == sorted(moments)
    # The second job waits for the first one, which has run for 10 of its 100 seconds at most.
    first = found[0]
    assert (first["by_limits"], first["because"], first["behind"]) == ("110", "1", "0")
    assert found[-1]["behind"] != "0"
    measured = json.loads(result.stdout)[0]["forecasts"]
    assert list(measured) == list(MEASURES)
    assert measured["started"] == 39
    # Once runs are known, the run forward is nearer to the truth than the limits are.
    assert measured["error_mean_s"] < measured["limits_error_mean_s"] / 2
    # Nothing is decided in another way because of it.
    assert cress(*given, "--out", tmp_path / "without").returncode == 0
    assert rows(tmp_path / "without" / folder / "jobs.csv") == jobs


def test_every_nth_job_that_waits_is_foretold(tmp_path: Path) -> None:
    log = write_swf(tmp_path / "log.swf", [swf_line(n, 10 * n, 50, 10, 100) for n in range(1, 12)])
    result = cress("simulate", log, "--forecasts", 4, "--json", "--out", tmp_path / "out")
    assert json.loads(result.stdout)[0]["forecasts"]["forecasts"] == 2
    found = rows(tmp_path / "out" / "FIFO" / "forecasts.csv")
    assert [row["job"] for row in found] == ["5", "9"]


def test_workloads_that_need_the_lifecycle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job,submit,run,cpu,until\na,0,50,1,20\nb,0,50,1,\n")
    (tmp_path / "nodes.yaml").write_text("nodes:\n  - {name: n, resource: <1>}\n")
    given = (tmp_path / "jobs.csv", "--cluster", tmp_path / "nodes.yaml", "--out", tmp_path / "out")
    result = cress("simulate", *given, "--forecasts", 1)
    assert result.returncode == 2
    assert "--forecasts: starts are foretold for plain workloads only, and this one has jobs that are cancelled" in (
        result.stderr
    )
