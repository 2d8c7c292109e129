"""The real core in the simulator: exact starts, published averages, and the same results every time."""

from __future__ import annotations

import csv
import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.model.options import Options
from cress.simulator import request, run
from cress.simulator.event_orders import ONE_BY_ONE, TOGETHER
from cress.simulator.groups import parse_policy, place
from cress.simulator.workload import Workload
from tests.simulator.builders import SECOND, workload
from tests.simulator.plain import LogJob, easy_starts


def replay(work: Workload, policy: str, events: str, *, check: bool = False) -> request.Result:
    """One run of a workload through the real core."""
    names, group_of = place(work)
    plan = request.Plan(
        request=request.Request(trace="test", out=Path(), events=events, check=check),
        workload=work,
        options=Options(),
        choices=(parse_policy(policy),),
        group_names=names,
        group_of=group_of,
    )
    return run.simulate(plan, plan.choices[0])


def _starts(result: request.Result) -> list[int]:
    return [int(start) for start in result.analysis.times.start // SECOND]


def _log(seed: int, n: int) -> list[LogJob]:
    """A log with crowded seconds, exact limits and jobs of every size."""
    rng = np.random.default_rng(seed)
    submit = np.cumsum(rng.choice([0, 0, 0, 1, 2, 5, 20], n))
    run_times = rng.choice([0, 1, 2, 5, 10, 10, 20, 60], n)
    over = rng.choice([0, 0, 1, 5, 30, 100], n)
    procs = np.minimum(10, rng.geometric(0.3, n))
    columns = (submit, run_times, procs, run_times + over)
    return [LogJob(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


rows = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 30), st.integers(1, 10), st.integers(0, 20)), min_size=1, max_size=50
)


@given(rows)
def test_backfill_is_the_plain_easy_start_by_start(drawn: list[tuple[int, int, int, int]]) -> None:
    now, jobs = 0, []
    for gap, run_time, procs, over in drawn:
        now += max(0, gap - 3)
        jobs.append(LogJob(now, run_time, procs, run_time + max(0, over - 10)))
    assert _starts(replay(workload(jobs), "BackFill", ONE_BY_ONE, check=True)) == easy_starts(jobs, 10)


@pytest.mark.parametrize("seed", range(4))
def test_backfill_is_the_plain_easy_on_longer_logs(seed: int) -> None:
    jobs = _log(seed, 600)
    assert _starts(replay(workload(jobs), "BackFill", ONE_BY_ONE)) == easy_starts(jobs, 10)


@pytest.mark.parametrize("seed", range(2))
def test_fifo_starts_in_the_order_of_submission(seed: int) -> None:
    jobs = _log(seed, 300)
    starts = _starts(replay(workload(jobs), "FIFO", TOGETHER))
    assert starts == sorted(starts)
    free = 10
    held: list[tuple[int, int]] = []
    for job, start in zip(jobs, starts, strict=True):
        # Each job starts as soon as those before it have started and enough is free.
        earliest = max([job.submit, *starts[: jobs.index(job)][-1:]])
        moments = sorted({earliest, *(end for end, _ in held if end > earliest)})
        expected = next(t for t in moments if free - sum(procs for end, procs in held if end > t) >= job.procs)
        assert start == expected
        held.append((start + job.run, job.procs))


def test_exact_estimates_change_the_plan_not_the_work() -> None:
    jobs = _log(7, 300)
    exact = [LogJob(job.submit, job.run, job.procs, job.run) for job in jobs]
    result = replay(workload(jobs).exact_estimates(), "BackFill", ONE_BY_ONE)
    assert _starts(result) == easy_starts(exact, 10)
    assert (result.run.workload.run == workload(jobs).run).all()


def _expected(traces: Path, name: str, column: str) -> list[int]:
    with gzip.open(traces / "swf" / f"{name}.expected_starts.csv.gz", "rt") as file:
        return [int(row[column]) for row in csv.DictReader(file)]


def _published(traces: Path, name: str, policy: str, events: str, estimates: str = "requested") -> request.Result:
    trace = str(traces / "swf" / f"{name}.swf.gz")
    asked = request.Request(trace=trace, out=Path(), policies=(policy,), events=events, estimates=estimates)
    plan = run.plan(asked)
    return run.simulate(plan, plan.choices[0])


def _check_averages(result: request.Result, slowdown: float, wait: float) -> None:
    summary = result.analysis.summary
    # As many digits as were published.
    assert summary["bounded_slowdown_mean"] == pytest.approx(slowdown, abs=0.006 if slowdown > 1000 else 0.0006)
    assert summary["wait_mean_s"] == pytest.approx(wait, abs=0.06)


def test_every_published_start_comes_out_and_so_do_the_averages(traces: Path) -> None:
    result = _published(traces, "KTH-SP2", "BackFill", ONE_BY_ONE)
    assert _starts(result) == _expected(traces, "KTH-SP2", "start_easy")
    _check_averages(result, 92.576540, 6836.87)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "estimates", "column"),
    [
        pytest.param("KTH-SP2", "exact", "start_easy_clairvoyant", id="clairvoyant-KTH-SP2"),
        pytest.param("SDSC-SP2", "requested", "start_easy", id="easy-SDSC-SP2"),
        pytest.param("SDSC-SP2", "exact", "start_easy_clairvoyant", id="clairvoyant-SDSC-SP2"),
    ],
)
def test_every_published_start_of_other_runs_comes_out(traces: Path, name: str, estimates: str, column: str) -> None:
    result = _published(traces, name, "BackFill", ONE_BY_ONE, estimates)
    assert _starts(result) == _expected(traces, name, column)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "policy", "events", "slowdown", "wait"),
    [
        pytest.param("KTH-SP2", "BackFill", TOGETHER, 92.688, 6834.6, id="KTH-SP2 together"),
        pytest.param("KTH-SP2", "FIFO", TOGETHER, 6814.97, 353776.41, id="KTH-SP2 FIFO"),
        pytest.param("SDSC-SP2", "BackFill", TOGETHER, 87.806, 20570.9, id="SDSC-SP2 together"),
    ],
)
def test_published_averages(traces: Path, name: str, policy: str, events: str, slowdown: float, wait: float) -> None:
    _check_averages(_published(traces, name, policy, events), slowdown, wait)


POLICIES = ("FIFO", "Priority", "Capacity", "BackFill", "BackFill/conservative")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_generated_workload_ends_with_every_invariant_held(policy: str) -> None:
    asked = request.Request(
        trace="generated:jobs=250,nodes=12,groups=4,shapes=20,arrays=0.2,gangs=0.1",
        out=Path(),
        policies=(policy,),
        seed=3,
        check=True,
    )
    plan = run.plan(asked)
    result = run.simulate(plan, plan.choices[0])
    summary, work, attempts = result.analysis.summary, plan.workload, result.run.attempts
    assert summary["jobs_finished"] + summary["jobs_rejected"] == 250
    assert summary["tasks_finished"] == int(work.tasks[~result.run.rejected].sum())
    requests = np.array(work.requests)[work.request_index[attempts.job]]
    for f, node in enumerate(work.cluster.nodes):
        here = attempts.node == f
        moments = np.concatenate([attempts.end[here], attempts.start[here]])
        changes = np.concatenate([-requests[here], requests[here]])
        # Ends before starts at one moment: what is given back can be taken at once.
        order = np.lexsort((np.arange(len(moments)), moments))
        used = np.cumsum(changes[order], axis=0)
        assert (used <= np.array(node.capacity)).all()
    for job in np.flatnonzero(work.gang & ~result.run.rejected):
        starts = attempts.start[(attempts.job == job) & ~attempts.preempted]
        assert len(set(starts.tolist())) == 1


def test_the_order_of_hashes_changes_nothing(tmp_path: Path) -> None:
    tables = []
    for seed in ("1", "2"):
        out = tmp_path / seed
        command = [sys.executable, "-c", "from cress.cli.main import main; main()", "simulate"]
        options = ["generated:jobs=300,nodes=10,groups=4", "--policy", "Capacity", "--out", str(out)]
        subprocess.run(
            [*command, *options], check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        tables.append((out / "Capacity" / "jobs.csv").read_text())
    assert tables[0] == tables[1]
