"""The order in which the events of one moment reach the core, and exact starts against a plain oracle."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.model.decisions import Decisions, Preempt
from cress.model.events import Event, NodeAdded, Outcome, TaskEnded
from cress.simulator.direct import DirectRun, InvariantBroken
from cress.simulator.event_orders import ONE_BY_ONE, TOGETHER
from cress.simulator.traces import load_workload
from cress.simulator.workload import Workload
from tests.simulator.builders import SECOND, workload
from tests.simulator.plain import LogJob, PlainCore, easy_starts


def _direct(work: Workload, core: PlainCore, *, check: bool = False) -> DirectRun:
    core.observe(0, [NodeAdded(node) for node in work.cluster.nodes])
    return DirectRun(work, core, list(range(len(work))), ["default"] * len(work), check=check)


def _log(jobs: Sequence[LogJob], order: str) -> list[tuple[object, ...]]:
    core = PlainCore()
    _direct(workload(jobs), core).run(order)
    return [(int(str(now)) // SECOND, *rest) for now, *rest in core.log]


# Two jobs end in second 10 (the first at its predicted end), two are submitted: one fits, the other does not.
BUSY = [LogJob(0, 10, 4, 10), LogJob(0, 10, 4, 50), LogJob(10, 5, 4, 5), LogJob(10, 5, 9, 5)]


def test_together_all_events_of_a_moment_come_before_one_decision() -> None:
    assert _log(BUSY, TOGETHER)[:8] == [
        (0, "submit", 1),
        (0, "submit", 2),
        (0, "decide"),
        (10, "end", 1),
        (10, "end", 2),
        (10, "submit", 3),
        (10, "submit", 4),
        (10, "decide"),
    ]


def test_one_by_one_predicted_ends_submissions_completions() -> None:
    assert _log(BUSY, ONE_BY_ONE)[:12] == [
        (0, "submit", 1),
        (0, "decide"),
        (0, "submit", 2),
        (0, "decide"),
        (10, "end", 1),  # its predicted end has come: given back, without a decision
        (10, "submit", 3),
        (10, "decide"),  # fits
        (10, "submit", 4),  # does not fit: no decision
        (10, "decide"),  # the completion of job 1, seen before, leads to a decision all the same
        (10, "end", 2),  # ended earlier than predicted: seen when its completion is handled
        (10, "decide"),
        (15, "end", 3),
    ]


def test_completions_of_a_moment_come_in_the_order_of_the_starts() -> None:
    # Job 2 is submitted first in time but starts last: the others end in the same second.
    jobs = [LogJob(0, 30, 6, 60), LogJob(1, 20, 8, 90), LogJob(2, 28, 2, 28), LogJob(3, 27, 2, 60)]
    ends = [entry for entry in _log(jobs, TOGETHER) if entry[1] == "end"]
    assert ends == [(30, "end", 1), (30, "end", 3), (30, "end", 4), (50, "end", 2)]


def test_a_job_that_runs_for_no_time_ends_in_its_second() -> None:
    for order in (TOGETHER, ONE_BY_ONE):
        attempts = _direct(workload([LogJob(5, 0, 10, 0), LogJob(5, 3, 10, 3)]), PlainCore()).run(order).attempts
        assert (attempts.start // SECOND).tolist() == [5, 5]
        assert (attempts.end // SECOND).tolist() == [5, 8]


jobs_strategy = st.lists(
    st.builds(
        lambda gap, run, procs, over: (gap, run, procs, over),
        st.integers(0, 6),
        st.integers(0, 30),
        st.integers(1, 10),
        st.integers(0, 20),
    ),
    min_size=1,
    max_size=60,
)


def _jobs(rows: list[tuple[int, int, int, int]]) -> list[LogJob]:
    now, jobs = 0, []
    for gap, run, procs, over in rows:
        # Most gaps are 0 or small, and many limits are exact: many events fall into one second.
        now += max(0, gap - 3)
        jobs.append(LogJob(now, run, procs, run + max(0, over - 10)))
    return jobs


@given(jobs_strategy)
def test_one_by_one_gives_the_starts_of_the_plain_simulator(rows: list[tuple[int, int, int, int]]) -> None:
    jobs = _jobs(rows)
    attempts = _direct(workload(jobs), PlainCore(), check=True).run(ONE_BY_ONE).attempts
    starts = np.zeros(len(jobs), dtype=np.int64)
    starts[attempts.job] = attempts.start // SECOND
    assert starts.tolist() == easy_starts(jobs, 10)


@given(jobs_strategy, st.sampled_from([TOGETHER, ONE_BY_ONE]))
def test_everything_runs_once_and_for_its_run_time(rows: list[tuple[int, int, int, int]], order: str) -> None:
    jobs = _jobs(rows)
    path = _direct(workload(jobs), PlainCore(), check=True)
    attempts = path.run(order).attempts
    assert sorted(attempts.job.tolist()) == list(range(len(jobs)))
    assert ((attempts.end - attempts.start) // SECOND == [jobs[j].run for j in attempts.job.tolist()]).all()
    assert path.events == 2 * len(jobs)


@pytest.mark.parametrize("name", ["KTH-SP2", "SDSC-SP2"])
@pytest.mark.parametrize("exact", [False, True], ids=["requested", "exact"])
def test_the_rules_are_those_of_the_published_starts(traces: Path, name: str, exact: bool) -> None:
    """The order of events alone, with a plain scheduler: what the core adds is tested with the command."""
    work = load_workload(str(traces / "swf" / f"{name}.swf.gz"), None, 1)
    work = work.exact_estimates() if exact else work
    core = PlainCore()
    attempts = _direct(work, core).run(ONE_BY_ONE).attempts
    starts = np.zeros(len(work), dtype=np.int64)
    starts[attempts.job] = attempts.start // SECOND
    with gzip.open(traces / "swf" / f"{name}.expected_starts.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    column = "start_easy_clairvoyant" if exact else "start_easy"
    assert starts.tolist() == [int(row[column]) for row in rows]


class PreemptingCore(PlainCore):
    """Starts jobs first come first served, and preempts the first attempt when told."""

    def __init__(self, at: int, grace: int) -> None:
        super().__init__(backfill=False)
        self.at, self.grace = at, grace
        self.outcomes: list[tuple[int, Outcome]] = []

    def observe(self, now: int, events: Sequence[Event]) -> None:
        again = [
            self.running[event.attempt][1]
            for event in events
            if isinstance(event, TaskEnded) and event.outcome is Outcome.PREEMPTED
        ]
        self.outcomes += [(now // SECOND, event.outcome) for event in events if isinstance(event, TaskEnded)]
        super().observe(now, events)
        self.queue[:0] = again

    def decide(self, now: int) -> Decisions:
        decisions = super().decide(now)
        if now == self.at * SECOND and 1 in self.running:
            decisions.items.append(Preempt(1, 1, 0, "machine", self.grace * SECOND, 2))
        return decisions

    def next_wakeup(self) -> int | None:
        return self.at * SECOND if self.log and int(str(self.log[-1][0])) < self.at * SECOND else None


PREEMPTIONS = {
    # preempted at, grace → the attempts as (start, end, preempted), and how they ended
    "stopped after the grace": (40, 15, [(0, 55, True), (55, 155, False)], [Outcome.PREEMPTED, Outcome.SUCCEEDED]),
    "stopped at once": (40, 0, [(0, 40, True), (40, 140, False)], [Outcome.PREEMPTED, Outcome.SUCCEEDED]),
    "ended by itself before": (90, 15, [(0, 100, False)], [Outcome.SUCCEEDED]),
    "ended by itself at that moment": (85, 15, [(0, 100, False)], [Outcome.SUCCEEDED]),
}


@pytest.mark.parametrize(("at", "grace", "expected", "outcomes"), PREEMPTIONS.values(), ids=PREEMPTIONS.keys())
@pytest.mark.parametrize("order", [TOGETHER, ONE_BY_ONE])
def test_a_preempted_attempt_ends_after_its_grace_and_the_task_runs_again(
    order: str, at: int, grace: int, expected: list[tuple[int, int, bool]], outcomes: list[Outcome]
) -> None:
    core = PreemptingCore(at, grace)
    attempts = _direct(workload([LogJob(0, 100, 5, 200)]), core).run(order).attempts
    columns = (attempts.start // SECOND, attempts.end // SECOND, attempts.preempted)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
    assert [outcome for _, outcome in core.outcomes] == outcomes


class Sleeper(PlainCore):
    """Starts nothing before ``opens``, and asks to be woken then."""

    def __init__(self, opens: int) -> None:
        super().__init__()
        self.opens = opens

    def fits_now(self, request: tuple[int, ...]) -> bool:
        return False

    def decide(self, now: int) -> Decisions:
        return super().decide(now) if now >= self.opens * SECOND else Decisions([])

    def next_wakeup(self) -> int | None:
        return self.opens * SECOND if self.queue else None


@pytest.mark.parametrize("order", [TOGETHER, ONE_BY_ONE])
def test_the_core_is_woken_when_it_asks(order: str) -> None:
    attempts = _direct(workload([LogJob(0, 5, 5, 5)]), Sleeper(77)).run(order).attempts
    assert (attempts.start // SECOND).tolist() == [77]


@pytest.mark.parametrize("order", [TOGETHER, ONE_BY_ONE])
def test_a_wake_up_that_falls_on_a_submission_is_not_lost(order: str) -> None:
    attempts = _direct(workload([LogJob(0, 5, 5, 5), LogJob(77, 5, 5, 5)]), Sleeper(77)).run(order).attempts
    assert (attempts.start // SECOND).tolist() == [77, 77]


def test_what_only_a_distant_clock_could_start_is_left_waiting() -> None:
    attempts = _direct(workload([LogJob(0, 5, 5, 5)]), Sleeper(30 * 86_400)).run(TOGETHER).attempts
    assert len(attempts) == 0


def test_a_wake_up_in_the_past_is_a_defect() -> None:
    class Stuck(Sleeper):
        def decide(self, now: int) -> Decisions:
            return Decisions([])

    with pytest.raises(RuntimeError, match="woken at 77000000 µs, but it is 77000000 µs already"):
        _direct(workload([LogJob(0, 5, 5, 5)]), Stuck(77)).run(TOGETHER)


def test_check_reports_what_is_broken() -> None:
    class Wrong(PlainCore):
        def validate(self) -> list[str]:
            return ["capacity exceeded on machine"] if self.running else []

    with pytest.raises(InvariantBroken, match="at 3000000 µs: capacity exceeded on machine"):
        _direct(workload([LogJob(3, 5, 5, 5)]), Wrong(), check=True).run(TOGETHER)


def test_start_is_recorded_on_its_node() -> None:
    core = PlainCore()
    attempts = _direct(workload([LogJob(0, 5, 5, 5)]), core).run(TOGETHER).attempts
    assert attempts.node.tolist() == [0]
