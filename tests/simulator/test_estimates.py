"""Estimates in the simulator: learned as the trace goes on, and what they bring on real logs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.model.option_text import parse_assignments
from cress.simulator.attempts import AttemptHistory
from cress.simulator.event_orders import ONE_BY_ONE, TOGETHER
from cress.simulator.groups import parse_policy
from cress.simulator.scheduler_path import DirectPath
from cress.simulator.workload import Workload
from tests.examples import examples
from tests.simulator.builders import SECOND, workload
from tests.simulator.plain import LogJob
from tests.simulator.test_cli import cress

OPTIONS = parse_assignments(
    [*(f"{key}={value}" for key, value in parse_policy("BackFill/predicted").options), "overdue_after=2m"]
)
JOBS = st.lists(
    st.builds(
        lambda gap, run, procs, more: (gap, run, procs, run + more),
        st.integers(0, 20),
        st.integers(1, 40),
        st.integers(1, 10),
        st.sampled_from([0, 10, 100, 400]),
    ),
    min_size=3,
    max_size=25,
)


def played(work: Workload, order: str) -> AttemptHistory:
    path = DirectPath(work, work.groups, OPTIONS, order)
    return path.run(list(range(len(work))), ["default"] * len(work), check=True, progress=None)


@examples(14)
@given(rows=JOBS, data=st.data(), order=st.sampled_from([ONE_BY_ONE, TOGETHER]))
def test_nothing_is_known_of_a_run_before_it_ends(
    rows: list[tuple[int, int, int, int]], data: st.DataObject, order: str
) -> None:
    """Another run of one job changes nothing that starts before the earlier one of its two ends."""
    times = np.cumsum([gap for gap, _, _, _ in rows]).tolist()
    work = workload([LogJob(time, run, procs, limit) for time, (_, run, procs, limit) in zip(times, rows, strict=True)])
    changed = data.draw(st.integers(0, len(rows) - 1))
    run = work.run.copy()
    run[changed] = data.draw(st.integers(1, rows[changed][3])) * SECOND
    one, other = played(work, order).attempts, played(replace(work, run=run), order).attempts
    known = min(int(each.end[each.job == changed][0]) for each in (one, other))

    def before(attempts: object) -> list[tuple[int, int]]:
        starts = zip(attempts.job.tolist(), attempts.start.tolist(), strict=True)  # type: ignore[attr-defined]
        return sorted((job, start) for job, start in starts if start < known)

    assert before(one) == before(other)


def test_a_comparison_names_the_variant(tmp_path: Path) -> None:
    policies = ("--policy", "BackFill", "--policy", "BackFill/predicted")
    done = cress("simulate", "generated:jobs=200,nodes=3", *policies, "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    assert [each["policy"] for each in json.loads(done.stdout)] == ["BackFill", "BackFill/predicted"]
    assert (tmp_path / "out" / "BackFill-predicted" / "jobs.csv").exists()


def test_conservative_plans_do_not_take_estimates(tmp_path: Path) -> None:
    policy = ("--policy", "BackFill/conservative", "--estimates", "predicted")
    done = cress("simulate", "generated:jobs=20,nodes=3", *policy, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "backfill=conservative plans every job" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(("log", "slowdown", "easy"), [("KTH-SP2", 45.8, 262_194), ("SDSC-SP2", 56.8, 459_740)])
def test_real_logs_wait_less(tmp_path: Path, traces: Path, log: str, slowdown: float, easy: float) -> None:
    """The goals of design note 0022; ``easy`` is the longest wait (s) under EASY, as published."""
    words = ("--policy", "BackFill/predicted", "--events", "one-by-one", "--json", "--out", tmp_path / "out")
    (found,) = json.loads(cress("simulate", traces / "swf" / f"{log}.swf.gz", *words).stdout)
    assert found["bounded_slowdown_mean"] <= slowdown
    assert found["wait_max_s"] <= 1.25 * easy
