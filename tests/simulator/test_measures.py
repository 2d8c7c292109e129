"""The measures against plain arithmetic, and their documentation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.model.group import Group, Quota, QuotaWindow
from cress.simulator import forecasts, tables
from cress.simulator.measures import GROUP_MEASURES, MEASURES, WORKLOAD_MEASURES, analyse
from cress.simulator.series import Steps, accumulate, edges
from cress.simulator.trace_notes import TREATMENTS, TraceNotes
from tests.simulator.builders import SECOND, finished_run, workload
from tests.simulator.plain import LogJob

GUIDE = Path(__file__).parents[2] / "docs" / "simulate.md"


def test_two_jobs_by_hand() -> None:
    """10 processors; 6 for 100 s at once, then 5 for 50 s after a wait of 100 s."""
    work = workload([LogJob(0, 100, 6, 200), LogJob(0, 50, 5, 200)])
    summary = analyse(finished_run(work, [(0, 0, 100, False), (1, 100, 150, False)])).summary
    assert summary["wait_mean_s"] == 50
    assert summary["wait_max_s"] == 100
    assert summary["bounded_slowdown_mean"] == (1 + 150 / 50) / 2
    assert summary["makespan_s"] == 150
    assert summary["utilisation_cpu_mean"] == pytest.approx((600 + 250) / 1500)
    assert summary["utilisation_mean"] == summary["utilisation_cpu_mean"]
    assert summary["jobs_finished"] == 2
    assert summary["fairness_jain_mean"] == pytest.approx(1)
    assert summary["events_per_s"] == 8


def test_what_tasks_use_is_measured_beside_what_they_reserve() -> None:
    """The two jobs above use 1 and 4 of their 6 and 5 processors."""
    work = replace(workload([LogJob(0, 100, 6, 200), LogJob(0, 50, 5, 200)]), used={"cpu": np.array([1000.0, 4000.0])})
    summary = analyse(finished_run(work, [(0, 0, 100, False), (1, 100, 150, False)])).summary
    assert summary["utilisation_cpu_mean"] == pytest.approx((600 + 250) / 1500)
    assert summary["use_cpu_mean"] == pytest.approx((100 + 200) / 1500)
    assert summary["used_day_mean"] / summary["reserved_day_mean"] < 1


def test_short_runs_count_as_ten_seconds() -> None:
    work = workload([LogJob(0, 1, 1, 9), LogJob(0, 1, 1, 9)])
    summary = analyse(finished_run(work, [(0, 0, 1, False), (1, 99, 100, False)])).summary
    assert summary["bounded_slowdown_mean"] == (1 + 100 / 10) / 2


def test_preempted_work_is_lost_and_delays_its_job() -> None:
    work = workload([LogJob(0, 3600, 5, 9999)])
    analysis = analyse(finished_run(work, [(0, 0, 1800, True), (0, 1800, 5400, False)]))
    summary = analysis.summary
    assert summary["preemptions"] == 1
    assert summary["jobs_preempted"] == 1
    assert summary["tasks_finished"] == 1
    assert summary["lost_work_core_h"] == 2.5
    assert summary["lost_work_share"] == pytest.approx(1 / 3)
    assert summary["wait_mean_s"] == 0
    assert summary["bounded_slowdown_mean"] == 1.5
    assert analysis.group_summary["default"]["preemptions"] == 1


def test_fairness_of_a_starved_group() -> None:
    """Two groups with 5 of 10 processors each; both want everything all the time, the first has it for 100 s."""
    work = workload([LogJob(0, 100, 10, 100), LogJob(0, 100, 10, 100)], groups=("a", "b"))
    analysis = analyse(finished_run(work, [(0, 0, 100, False), (1, 100, 200, False)]))
    # While both have demand one has all it is entitled to, the other nothing: 1/2. Then one is left: 1.
    assert analysis.summary["fairness_jain_mean"] == pytest.approx((0.5 * 100 + 1 * 100) / 200)
    assert analysis.summary["fairness_jain_min"] == pytest.approx(0.5)
    assert analysis.group_summary["a"]["entitled_share_mean"] == pytest.approx(0.25)
    assert analysis.group_summary["b"]["entitled_share_mean"] == pytest.approx(0.5)
    assert analysis.group_summary["a"]["used_share_mean"] == pytest.approx(0.5)


def test_a_timetable_changes_the_quota_over_time() -> None:
    work = workload([LogJob(0, 7200, 10, 7200)], groups=("a",))
    # Second 0 is a Monday, 00:00; from 00:30 to 01:00 the group has all ten.
    window = QuotaWindow(days=(0,), start=30, end=60, quota=Quota(scalar=10_000))
    group = Group(name="a", quota=Quota(scalar=2000), windows=(window,))
    run = finished_run(work, [(0, 0, 7200, False)])
    analysis = analyse(type(run)(**{**vars(run), "groups": (group,)}))
    quota = analysis.groups["a"].quota
    assert (quota.times // (60 * SECOND)).tolist() == [0, 30, 60]
    assert quota.values.tolist() == [0.2, 1.0, 0.2]
    assert analysis.group_summary["a"]["quota_share"] == pytest.approx((0.2 * 90 + 1.0 * 30) / 120)


def test_jobs_that_did_not_finish_count_nowhere_but_in_their_number() -> None:
    work = workload([LogJob(0, 100, 6, 200), LogJob(0, 50, 5, 200)])
    summary = analyse(finished_run(work, [(0, 0, 100, False)])).summary
    assert summary["jobs_waiting"] == 1
    assert summary["jobs_finished"] == 1
    assert summary["wait_mean_s"] == 0
    assert summary["bounded_slowdown_max"] == 1


def test_a_run_in_which_nothing_ran_has_measures_too() -> None:
    work = workload([LogJob(7, 100, 6, 200)])
    summary = analyse(finished_run(work, [])).summary
    assert summary["makespan_s"] == 0
    assert all(np.isfinite(value) for value in summary.values())


rows = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 40), st.integers(1, 9), st.integers(0, 60)), min_size=1, max_size=20
)


@given(rows)
def test_measures_against_a_second_by_second_count(jobs: list[tuple[int, int, int, int]]) -> None:
    """The same figures from a plain list of seconds."""
    jobs = sorted(jobs)
    work = workload([LogJob(submit, run, procs, run) for submit, run, procs, _ in jobs], processors=200)
    order = sorted(range(len(jobs)), key=lambda i: jobs[i][0] + jobs[i][3])
    attempts = [(i, jobs[i][0] + jobs[i][3], jobs[i][0] + jobs[i][3] + jobs[i][1], False) for i in order]
    summary = analyse(finished_run(work, attempts)).summary
    first, last = min(submit for submit, *_ in jobs), max(end for _, _, end, _ in attempts)
    used = [sum(jobs[i][2] for i, start, end, _ in attempts if start <= t < end) for t in range(first, last)]
    assert summary["wait_mean_s"] == pytest.approx(fmean(wait for *_, wait in jobs))
    assert summary["bounded_slowdown_mean"] == pytest.approx(
        fmean(max(1, (wait + run) / max(run, 10)) for _, run, _, wait in jobs)
    )
    assert summary["utilisation_cpu_mean"] == pytest.approx(fmean(used) / 200)
    assert summary["makespan_s"] == last - first


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(-5, 5)), min_size=1, max_size=30),
    st.integers(0, 60),
    st.integers(1, 60),
)
def test_steps_against_a_plain_count(changes: list[tuple[int, int]], start: int, length: int) -> None:
    times, amounts = (np.array(column, dtype=np.int64) for column in zip(*changes, strict=True))
    steps = accumulate(times, amounts)

    def value(moment: int) -> int:
        return sum(amount for time, amount in changes if time <= moment)

    assert (np.diff(steps.times) > 0).all()
    assert steps.at(np.arange(70)).tolist() == [value(t) for t in range(70)]
    plain = [value(t) for t in range(start, start + length)]
    assert steps.mean(start, start + length) == pytest.approx(fmean(plain))
    cuts = edges(start, start + length, 7)
    area = float((steps.buckets(cuts) * np.diff(cuts)).sum())
    assert area == pytest.approx(sum(plain), abs=1e-6)


def test_steps_of_nothing_are_zero() -> None:
    nothing = Steps(np.zeros(0, dtype=np.int64), np.zeros(0))
    assert nothing.mean(0, 10) == 0
    assert nothing.at(np.array([3], dtype=np.int64)).tolist() == [0]


def _documented(title: str) -> dict[str, str]:
    """The first table under a heading of the guide: first column → second column."""
    part = GUIDE.read_text().split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("| `")]
    return {cells[1].strip().strip("`"): cells[2].strip() for cells in (line.split("|") for line in lines)}


@pytest.mark.parametrize(
    ("title", "code"),
    [
        ("Measures", MEASURES),
        ("Measures of a group", GROUP_MEASURES),
        ("Measures of a workload", WORKLOAD_MEASURES),
        ("jobs.csv", tables.COLUMNS),
        ("dags.csv", tables.DAG_COLUMNS),
        ("attempts.csv", tables.ATTEMPT_COLUMNS),
        ("forecasts.csv", forecasts.COLUMNS),
        ("Measures of forecasts", forecasts.MEASURES),
        ("Notes on a trace", TREATMENTS),
    ],
    ids=["measures", "groups", "workloads", "columns", "dags", "attempts", "forecasts", "errors", "notes"],
)
def test_the_guide_lists_what_the_code_gives(title: str, code: dict[str, str]) -> None:
    found = _documented(title)
    assert list(found) == list(code)
    if title != "Notes on a trace":
        assert found == code


def test_every_key_of_a_summary_is_documented() -> None:
    work = workload([LogJob(0, 100, 6, 200)])
    analysis = analyse(finished_run(work, [(0, 0, 100, False)]))
    known = set(MEASURES) | {"utilisation_cpu_mean"}
    assert set(analysis.summary) <= known
    sometimes = (
        "<",
        "gpu",
        "devices",
        "dag",
        "deadline",
        "loan",
        "lease",
        "arrivals",
        "peak",
        "_day_",
        "services_short",
    )
    assert {key for key in MEASURES if not any(each in key for each in sometimes)} <= set(analysis.summary)
    assert set(analysis.group_summary["default"]) == set(GROUP_MEASURES)
    json.dumps(analysis.summary)


def test_notes_keep_the_first_lines_and_all_counts() -> None:
    notes = TraceNotes()
    notes.add("malformed line", range(10, 30))
    notes.add("malformed line", [3])
    notes.add("not accepted", [8], detail="ops")
    notes.add("unknown column", ())
    assert notes.sentences() == [
        "21 × malformed line: left out (lines 3, 10, 11, 12, 13, …)",
        "1 × not accepted: refused (line 8) [ops]",
    ]
    assert notes.as_data()[0] == {
        "kind": "malformed line",
        "count": 21,
        "treatment": "left out",
        "lines": [3, 10, 11, 12, 13],
        "details": [],
    }
    other = notes.copy()
    other.add("not accepted", [9])
    assert notes.count("not accepted") == 1
    with pytest.raises(KeyError):
        notes.add("something else", [1])
