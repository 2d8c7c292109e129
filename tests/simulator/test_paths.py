"""The two paths, straight to the scheduler and through the lifecycle: the same starts, and production's rules for
stops.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_

from cress.model.group import Group, Quota, SchedPolicy
from cress.model.job import Condition
from cress.model.node import Node
from cress.model.options import Options
from cress.simulator.attempts import AttemptHistory, How, JobEnd
from cress.simulator.event_orders import ONE_BY_ONE, TOGETHER
from cress.simulator.managed import LifecyclePath
from cress.simulator.paths import Path, needs_lifecycle, path_of
from cress.simulator.scheduler_path import DirectPath
from cress.simulator.tidying import tidy
from cress.simulator.workload import Outage, PlannedDrain, SimulatedCluster, Workload, template
from tests.examples import examples
from tests.simulator.builders import SECOND, workload
from tests.simulator.plain import LogJob

# A job that waits for single tasks needs the lifecycle.
OF_WHOLE_JOBS = (Condition.OK, Condition.ANY, Condition.FAILED)

# With these, starts depend on what the runs before them have taught.
ORDERS: tuple[tuple[tuple[str, str], ...], ...] = (
    (),
    (("estimates", "predicted"), ("backfill_order", "shortest_first")),
    (("estimates", "predicted"), ("backfill_order", "expansion_factor"), ("overdue_after", "20s")),
)

Row = tuple[int, int, int, int, int, bool, int]


def cluster(work: Workload, nodes: int, *, cores: int = 4, **more: Any) -> Workload:
    """The workload on so many nodes; outages and drains in seconds."""
    (node,) = work.cluster.nodes
    capacity = work.cluster.dimensions.vector(cpu=cores * 1000)
    names = tuple(Node(name=f"n-{i + 1}", capacity=capacity) for i in range(nodes))
    assert node.capacity
    return replace(work, cluster=SimulatedCluster(work.cluster.dimensions, names, **more))


def gangs(work: Workload, tasks: list[int], gang: list[bool]) -> Workload:
    """The workload with so many tasks in its jobs."""
    return replace(work, tasks=np.array(tasks, dtype=np.int64), gang=np.array(gang, dtype=np.bool_))


def run(path: Path, work: Workload) -> AttemptHistory:
    """One run with every invariant checked after every moment."""
    names = [work.group_names[i] for i in work.group_index.tolist()]
    return path.run(list(range(len(work))), names, check=True, progress=None)


def both(work: Workload) -> tuple[AttemptHistory, AttemptHistory]:
    """The run on either path."""
    options = Options()
    return (
        run(DirectPath(work, work.groups, options, TOGETHER), work),
        run(LifecyclePath(work, work.groups, options), work),
    )


def table(history: AttemptHistory) -> list[tuple[int, int, int, int, int, str]]:
    """The attempts: job, task, node, start and end in seconds, how each ended."""
    each = history.attempts
    columns = (each.job, each.task, each.node, each.start // SECOND, each.end // SECOND)
    rows = zip(*(column.tolist() for column in columns), each.how.tolist(), strict=True)
    return [(*row, How(how).name.lower()) for *row, how in rows]


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Arrays and gangs of two groups that preempt each other, dependencies, think times, and nodes that come and go."""
    n = draw(st.integers(1, 12))
    jobs, tasks, gang, after = [], [], [], []
    now = 0
    for i in range(n):
        now += draw(st.sampled_from([0, 0, 1, 5, 20]))
        length = draw(st.sampled_from([0, 1, 10, 10, 40, 90]))
        jobs.append(LogJob(now, length, draw(st.integers(1, 3)), length + draw(st.sampled_from([0, 0, 30]))))
        tasks.append(draw(st.integers(1, 3)))  # as a gang of the largest tasks it fits the three nodes
        gang.append(draw(st.booleans()))
        firsts = draw(st.lists(st.integers(0, i - 1), max_size=2, unique=True)) if i and draw(st.booleans()) else []
        after.append(tuple((first, draw(st.sampled_from(OF_WHOLE_JOBS))) for first in firsts))
    outages = []
    for node in draw(st.lists(st.integers(0, 2), max_size=3, unique=True)):
        start = draw(st.integers(0, 120))
        end = start + draw(st.integers(1, 60))
        outages.append(Outage(node, start * SECOND, draw(st.sampled_from([end * SECOND, end * SECOND, None]))))
    killed = np.array([draw(st.booleans()) and job.run == job.limit for job in jobs], dtype=np.bool_)
    work = cluster(gangs(workload(jobs, 12, groups=("a", "b")), tasks, gang), 3, outages=tuple(outages))
    policies = draw(st.tuples(*[st.sampled_from([SchedPolicy.FIFO, SchedPolicy.PRIORITY, SchedPolicy.BACKFILL])] * 2))
    groups = tuple(
        Group(
            name=name,
            quota=Quota(scalar=quota * 1000),
            policy=policy,
            options=draw(st.sampled_from(ORDERS)) if policy is SchedPolicy.BACKFILL else (),
        )
        for name, quota, policy in zip("ab", draw(st.sampled_from([(6, 6), (2, 10)])), policies, strict=True)
    )
    think = [draw(st.sampled_from([0, 0, 3, 30])) if firsts else 0 for firsts in after]
    return tidy(
        replace(
            work,
            after=tuple(after) if any(after) else None,
            think=np.array(think, dtype=np.int64) * SECOND if any(think) else None,
            groups=groups,
            killed=killed,
        )
    )


@examples(20)
@given(workloads())
def test_both_paths_lead_to_the_same_attempts_and_ends(work: Workload) -> None:
    direct, managed = both(work)
    assert table(managed) == table(direct)
    assert managed.ends.tolist() == direct.ends.tolist()


def test_a_task_that_comes_to_its_time_limit_while_it_is_to_stop_runs_again_on_both_paths() -> None:
    # The gang of a takes more than its quota, and one second before its limit of two it is told to make room for b.
    jobs = [LogJob(0, 0, 1, 0), LogJob(0, 0, 1, 0), LogJob(0, 2, 3, 2), LogJob(1, 0, 2, 0)]
    work = cluster(gangs(workload(jobs, 12, groups=("a", "b")), [1, 1, 3, 1], [False, False, True, False]), 3)
    groups = tuple(Group(name=name, quota=Quota(scalar=6000)) for name in "ab")
    after = ((), (), (), ((0, Condition.OK),))
    direct, managed = both(replace(work, groups=groups, after=after, killed=np.array([False, False, True, False])))
    assert table(managed) == table(direct)
    assert How.PREEMPTED.name.lower() in {row[-1] for row in table(direct)}


def test_a_task_that_is_preempted_a_moment_after_its_start_is_stopped_on_both_paths() -> None:
    # Tasks of three cores on nodes of four: a borrows the second node, which is guaranteed to b.
    jobs = [LogJob(0, 20, 3, 20), LogJob(1, 10, 3, 10)]
    work = cluster(gangs(workload(jobs, 12, groups=("a", "b")), [3, 3], [False, False]), 3)
    quotas = {"a": 2000, "b": 10_000}
    groups = tuple(Group(name=name, quota=Quota(scalar=quota)) for name, quota in quotas.items())
    direct, managed = both(replace(work, groups=groups))
    assert table(managed) == table(direct)
    assert (0, 0, 0, 0, 6, "preempted") in table(managed)


# --- gangs -----------------------------------------------------------------------------------------------------------


def gang_on_two_nodes(**more: Any) -> Workload:
    """A gang of two tasks that fill a node each, and runs for 100 s."""
    return cluster(gangs(workload([LogJob(0, 100, 4, 200)]), [2], [True]), 2, **more)


@pytest.mark.parametrize("path", ["direct", "lifecycle"])
def test_a_gang_that_loses_a_task_with_its_node_starts_again_as_a_whole(path: str) -> None:
    work = gang_on_two_nodes(outages=(Outage(0, 40 * SECOND, 60 * SECOND),))
    history = both(work)[path == "lifecycle"]
    # The survivor is stopped at 40 and gone after its grace of 5 s; the node returns at 60.
    assert table(history) == [
        (0, 0, 0, 0, 40, "lost"),
        (0, 1, 1, 0, 45, "stopped"),
        (0, 0, 0, 60, 160, "finished"),
        (0, 1, 1, 60, 160, "finished"),
    ]
    assert history.ends.tolist() == [JobEnd.FINISHED]


@pytest.mark.parametrize("path", ["direct", "lifecycle"])
def test_a_survivor_that_ends_within_its_grace_has_done_its_task(path: str) -> None:
    work = gang_on_two_nodes(outages=(Outage(0, 97 * SECOND, 150 * SECOND),))
    history = both(work)[path == "lifecycle"]
    assert table(history)[:2] == [(0, 0, 0, 0, 97, "lost"), (0, 1, 1, 0, 100, "finished")]
    # The other task alone runs again, at once where there is room.
    assert table(history)[2:] == [(0, 0, 1, 100, 200, "finished")]


def test_without_its_node_a_gang_waits_and_nothing_of_it_counts_as_finished() -> None:
    history = both(gang_on_two_nodes(outages=(Outage(0, 40 * SECOND),)))[1]
    assert [row[-1] for row in table(history)] == ["lost", "stopped"]
    assert history.ends.tolist() == [JobEnd.WAITING]


def test_tasks_wait_for_single_tasks_of_an_earlier_job() -> None:
    # One task of the first job at a time, and room for one of the second beside it.
    work = cluster(gangs(workload([LogJob(0, 10, 3, 10), LogJob(0, 10, 1, 10)]), [3, 3], [False, False]), 1)
    work = replace(work, after=((), ((0, Condition.TASKS),)))
    path = path_of(work, work.groups, Options(), TOGETHER, check=True)
    history = run(path, work)
    # Job, task, start.
    assert [(row[0], row[1], row[3]) for row in table(history)] == [
        (0, 0, 0), (0, 1, 10), (1, 0, 10), (0, 2, 20), (1, 1, 20), (1, 2, 30),
    ]  # fmt: skip
    assert history.ends.tolist() == [JobEnd.FINISHED, JobEnd.FINISHED]


# --- the choice ------------------------------------------------------------------------------------------------------

PLAIN = workload([LogJob(0, 10, 1, 20), LogJob(0, 10, 1, 20)])
CHOICES = {
    "a log": (PLAIN, False),
    "dependencies": (replace(PLAIN, after=((), ((0, Condition.OK),))), False),
    "dependencies of single tasks": (replace(PLAIN, after=((), ((0, Condition.TASKS),))), True),
    "an outage": (cluster(PLAIN, 2, outages=(Outage(0, 5),)), True),
    "a drain": (cluster(PLAIN, 2, drains=(PlannedDrain(0, 5, 0),)), True),
    "retries": (replace(PLAIN, templates=(template(retries=1),)), True),
    "failures": (replace(PLAIN, fails=np.array([0, 1])), True),
    "no failures": (replace(PLAIN, fails=np.array([0, 0])), False),
    "cancellations": (replace(PLAIN, until=np.array([-1, 5])), True),
    "constraints": (replace(PLAIN, templates=(with_(template(), rank="CPU"),)), False),
}


@pytest.mark.parametrize(("work", "lifecycle"), CHOICES.values(), ids=CHOICES)
def test_what_is_not_plain_goes_through_the_lifecycle(work: Workload, lifecycle: bool) -> None:
    assert needs_lifecycle(work, TOGETHER) is lifecycle


def test_one_by_one_is_for_plain_logs() -> None:
    assert not needs_lifecycle(CHOICES["an outage"][0], ONE_BY_ONE)
    with pytest.raises(ValueError, match="one-by-one replays plain logs, and this workload has drains"):
        needs_lifecycle(CHOICES["a drain"][0], ONE_BY_ONE)


def test_runs_of_a_group_without_estimates_teach_both_paths() -> None:
    """A run of b uses a quarter of its limit, so a long job of a is expected to end soon, and is begun first."""
    jobs = [LogJob(0, 40, 1, 40), LogJob(5, 10, 2, 40), LogJob(5, 10, 2, 10), LogJob(5, 1, 3, 31), LogJob(10, 0, 3, 0)]
    tasks, gang, index = [2, 2, 2, 2, 3], [False, False, False, True, True], np.array([0, 1, 0, 1, 0])
    down = ((1, 50, 85), (2, 7, 43), (0, 13, 54))
    outages = tuple(Outage(node, start * SECOND, end * SECOND) for node, start, end in down)
    work = cluster(gangs(workload(jobs, 12, groups=("a", "b")), tasks, gang), 3, outages=outages)
    first = Group(name="a", quota=Quota(scalar=2000), policy=SchedPolicy.BACKFILL, options=ORDERS[2])
    groups = (first, Group(name="b", quota=Quota(scalar=10000)))
    killed = np.array([job.run == job.limit and job.run == 10 for job in jobs], dtype=np.bool_)
    after = ((), (), (), (), ((3, Condition.FAILED),))
    direct, managed = both(tidy(replace(work, after=after, groups=groups, killed=killed, group_index=index)))
    assert table(managed) == table(direct)


@pytest.mark.parametrize("accounting", ["cpu", "dominant"])
def test_quotas_that_are_no_whole_numbers_lead_to_the_same_attempts(accounting: str) -> None:
    work = cluster(workload([LogJob(0, 9, 2, 9), LogJob(0, 9, 3, 9), LogJob(1, 9, 4, 9)], groups=("a", "b")), 3)
    groups = tuple(with_(group, quota=Quota(scalar=1_500_500)) for group in work.groups)
    options = Options(accounting=accounting)
    paths = (DirectPath(work, groups, options, TOGETHER), LifecyclePath(work, groups, options))
    direct, managed = (table(run(path, work)) for path in paths)
    assert len(direct) == 3
    assert managed == direct
