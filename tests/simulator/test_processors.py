"""Processor logs as columns: the starts of the scheduler and of a plain EASY, and which logs take this path."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_

from benchmarks.plain_easy import PlainJob, easy
from cress.model.group import Group, Quota, SchedPolicy
from cress.model.job import Condition
from cress.model.node import Node
from cress.model.options import Options
from cress.simulator.attempts import AttemptHistory
from cress.simulator.event_orders import ONE_BY_ONE, ORDERS, TOGETHER
from cress.simulator.paths import Path, path_of
from cress.simulator.processors import path as processors
from cress.simulator.processors.path import ProcessorsPath, is_processor_log
from cress.simulator.scheduler_path import DirectPath
from cress.simulator.workload import NO_LIMIT, Outage, Workload, template
from tests.simulator.builders import SECOND, log_text, workload, write_swf
from tests.simulator.plain import LogJob, easy_starts

CORES = 10
POLICIES = [(SchedPolicy.FIFO, "easy"), (SchedPolicy.BACKFILL, "easy"), (SchedPolicy.BACKFILL, "off")]

rows = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 30), st.integers(1, CORES), st.integers(0, 20)),
    min_size=1,
    max_size=60,
)


def log(drawn: list[tuple[int, int, int, int]]) -> list[LogJob]:
    """Jobs at crowded moments; every second one runs until its limit."""
    now, jobs = 0, []
    for gap, run, cores, over in drawn:
        now += max(0, gap - 3)
        jobs.append(LogJob(now, run, cores, run + max(0, over - 10)))
    return jobs


def crowded(seed: int, n: int) -> list[LogJob]:
    """A longer log with a long queue, many equal ends and small jobs that may pass the head."""
    rng = np.random.default_rng(seed)
    submit = np.cumsum(rng.choice([0, 0, 0, 1, 2, 5, 20], n))
    run = rng.choice([0, 1, 2, 5, 10, 10, 20, 60], n)
    over = rng.choice([0, 0, 1, 5, 30, 100], n)
    cores = np.minimum(CORES, rng.geometric(0.3, n))
    columns = (column.tolist() for column in (submit, run, cores, run + over))
    return [LogJob(*row) for row in zip(*columns, strict=True)]


def of(work: Workload, policy: SchedPolicy = SchedPolicy.BACKFILL) -> Workload:
    """The workload with one group of this policy."""
    return replace(work, groups=(Group(name="default", quota=Quota(scalar=CORES * 1000), policy=policy),))


def run(path: Path, work: Workload) -> AttemptHistory:
    """One run of all jobs."""
    return path.run(list(range(len(work))), ["default"] * len(work), check=False, progress=None)


def rows_of(history: AttemptHistory) -> list[list[int]]:
    """Every column of the attempts, how the jobs ended, and the number of events."""
    attempts = history.attempts
    columns = (attempts.job, attempts.task, attempts.node, attempts.start, attempts.end, attempts.how, history.ends)
    return [*(column.tolist() for column in columns), [history.events]]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("policy", "backfill"), POLICIES)
@given(rows)
def test_a_log_has_the_attempts_that_the_scheduler_decides(
    order: str, policy: SchedPolicy, backfill: str, drawn: list[tuple[int, int, int, int]]
) -> None:
    work = of(workload(log(drawn), CORES), policy)
    given = (work, work.groups, Options(backfill=backfill), order)
    fast = path_of(*given)
    assert isinstance(fast, ProcessorsPath)
    assert rows_of(run(fast, work)) == rows_of(run(DirectPath(*given), work))


@pytest.mark.parametrize("order", ORDERS)
def test_a_long_queue_has_the_attempts_that_the_scheduler_decides(order: str) -> None:
    work = of(workload(crowded(3, 700), CORES))
    given = (work, work.groups, Options(), order)
    assert rows_of(run(path_of(*given), work)) == rows_of(run(DirectPath(*given), work))


@pytest.mark.parametrize("seed", range(3))
def test_the_plain_reference_has_the_same_starts(seed: int) -> None:
    jobs = crowded(seed, 400)
    work = of(workload(jobs, CORES))
    attempts = run(path_of(work, work.groups, Options(), ONE_BY_ONE), work).attempts
    starts = np.empty(len(jobs), np.int64)
    starts[attempts.job] = attempts.start // SECOND
    assert starts.tolist() == easy_starts(jobs, CORES)
    plain = [PlainJob(job.submit, job.run, job.procs, job.limit) for job in jobs]
    assert starts.tolist() == easy(plain, CORES)


@pytest.mark.parametrize("order", ORDERS)
@given(st.data())
def test_a_long_run_goes_on_in_compiled_loops_from_any_moment(order: str, data: st.DataObject) -> None:
    work = of(workload(log(data.draw(rows)), CORES), data.draw(st.sampled_from([POLICIES[0][0], POLICIES[1][0]])))
    given = (work, work.groups, Options(), order)
    whole = rows_of(run(path_of(*given), work))
    # 0 steps: all of it runs in compiled loops.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processors, "STRIDE", data.draw(st.integers(1, 9)))
        patch.setattr(processors, "MOST_STEPS", data.draw(st.integers(0, 60)))
        assert rows_of(run(path_of(*given), work)) == whole


@pytest.mark.parametrize("most", [0, 10**9])
def test_progress_comes_in_steps_and_ends_with_all_events(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(processors, "STRIDE", 7)
    monkeypatch.setattr(processors, "MOST_STEPS", most)
    work = of(workload(crowded(5, 300), CORES))
    seen: list[int] = []
    path = path_of(work, work.groups, Options(), TOGETHER)
    history = path.run(list(range(len(work))), ["default"] * len(work), check=False, progress=seen.append)
    assert len(seen) > 30
    assert seen == sorted(seen)
    assert seen[-1] == history.events


def test_a_short_log_needs_neither_scheduler_nor_numba(tmp_path: FilePath) -> None:
    write_swf(tmp_path / "log.swf", log_text(crowded(1, 50)))
    words = ["simulate", str(tmp_path / "log.swf"), "--policy", "FIFO", "--policy", "BackFill", "--processes", "1"]
    code = "import sys; from cress.cli.main import main\ntry: main()\nexcept SystemExit: print(*sys.modules)"
    command = [sys.executable, "-c", code, *words, "--out", str(tmp_path / "out")]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1].split()
    assert "cress.simulator.processors.interpreted" in loaded
    assert not {"numba", "cress.core.scheduler", "cress.lifecycle.machine", "cress.past.recorded_log"} & set(loaded)


def test_jobs_larger_than_the_machine_never_fit() -> None:
    work = of(workload([LogJob(0, 1, 4, 1), LogJob(0, 1, 11, 1), LogJob(1, 1, 10, 1)], CORES))
    given = (work, work.groups, Options(), TOGETHER)
    admitted, groups = np.array([0, 1, 2]), ["default"] * 3
    assert path_of(*given).never_fit(admitted, groups).tolist() == [False, True, False]
    assert DirectPath(*given).never_fit(admitted, groups).tolist() == [False, True, False]


def with_node(**keys: Any) -> Callable[[Workload], Workload]:
    """A change of the node, with the rest of the cluster in ``cluster_``."""

    def change(work: Workload) -> Workload:
        (node,) = work.cluster.nodes
        return replace(work, cluster=replace(work.cluster, nodes=(with_(node, **keys),)))

    return change


def with_group(**keys: Any) -> Callable[[Workload], Workload]:
    """A change of the group."""
    return lambda work: replace(work, groups=(with_(work.groups[0], **keys),))


def with_cluster(**keys: Any) -> Callable[[Workload], Workload]:
    """A change of the cluster."""
    return lambda work: replace(work, cluster=replace(work.cluster, **keys))


def with_columns(**keys: Any) -> Callable[[Workload], Workload]:
    """A change of the jobs."""
    return lambda work: replace(work, **keys)


ONES = np.ones(2, np.int64)
OTHERS = {
    "two nodes": with_cluster(nodes=(Node(name="a", capacity=(10_000, 0, 0, 0, 0, 0, 0)),) * 2),
    "a node with a rack": with_node(rack="r1"),
    "a node that fails": with_cluster(outages=(Outage(0, 5),)),
    "licences": with_cluster(licences=(("matlab", 1),)),
    "another policy": with_group(policy=SchedPolicy.PRIORITY),
    "a group with a limit": with_group(max_quota=Quota(scalar=5000)),
    "a group with another option": with_group(options=(("backfill_depth", "1"),)),
    "two groups": lambda work: replace(work, groups=(*work.groups, Group(name="b", quota=Quota(scalar=1)))),
    "an array": with_columns(tasks=2 * ONES),
    "a gang": with_columns(gang=np.ones(2, np.bool_)),
    "a job without a limit": with_columns(limit=np.array([NO_LIMIT, 5])),
    "a dependency": with_columns(after=((), ((0, Condition.ANY),))),
    "a think time": with_columns(think=ONES),
    "a cancelled job": with_columns(until=ONES),
    "a deadline": with_columns(deadline=100 * ONES * SECOND),
    "a clause": with_columns(templates=[template(requirement="Idle CPU > 1")]),
    "a job that asks for memory": with_columns(requests=[(1000, 1, 0, 0, 0, 0, 0)] * 2),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_more_than_a_processor_log_goes_to_the_scheduler(what: str) -> None:
    work = of(workload([LogJob(0, 1, 1, 1), LogJob(0, 1, 2, 1)], CORES))
    assert is_processor_log(work, work.groups, Options())
    changed = OTHERS[what](work)
    assert not is_processor_log(changed, changed.groups, Options())


@pytest.mark.parametrize(
    "options",
    [
        Options(backfill="conservative"),
        Options(backfill_depth=3),
        Options(estimates="predicted"),
        Options(backfill_order="shortest_first"),
        Options(rebalance="daily"),
    ],
)
def test_options_that_change_the_order_go_to_the_scheduler(options: Options) -> None:
    work = of(workload([LogJob(0, 1, 1, 1)], CORES))
    assert not is_processor_log(work, work.groups, options)


def test_checks_and_forecasts_need_a_scheduler() -> None:
    work = of(workload([LogJob(0, 1, 1, 1)], CORES))
    given = (work, work.groups, Options(), TOGETHER)
    assert isinstance(path_of(*given, check=True), DirectPath)
    assert isinstance(path_of(*given, 1), DirectPath)
    assert path_of(*given).core.cluster.node_count == 1
