"""The path of processor logs: a plain log on one node, run as columns.

A log of processors has one node, one group, and jobs of one task that ask for cores only. FIFO and EASY backfilling of
such a log need no scheduler: loops over columns lead to the same starts in a fraction of the time. A short log runs in
plain Python, without numba; a long one goes on in compiled loops. Property tests compare both with the scheduler and
with a plain EASY.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cress.model.group import Group, SchedPolicy
from cress.model.node import Node
from cress.model.options import Options
from cress.simulator.attempts import AttemptHistory, Attempts, How, JobEnd
from cress.simulator.event_orders import TOGETHER, Progress
from cress.simulator.processors.interpreted import InterpretedRun, LogColumns
from cress.simulator.workload import NO_LIMIT, Bools, Ints, SimulatedCluster, Workload, template

if TYPE_CHECKING:
    from cress.core.scheduler import Scheduler
    from cress.simulator.forecasts import Foretelling

# Steps or events between two calls of the progress callback.
STRIDE = 50_000
# Steps in plain Python, some seconds at most, after which a run is long enough for compiled loops.
MOST_STEPS = 8_000_000


def is_processor_log(workload: Workload, groups: tuple[Group, ...], options: Options) -> bool:
    """Return whether jobs of one task share the cores of one node, in one group, by FIFO or EASY backfilling."""
    return _is_one_node(workload.cluster) and _has_one_plain_group(groups, options) and _are_plain_jobs(workload)


def _is_one_node(cluster: SimulatedCluster) -> bool:
    """Return whether the cluster is one node with nothing but its amounts."""
    if len(cluster.nodes) != 1:
        return False
    node = cluster.nodes[0]
    plain = SimulatedCluster(cluster.dimensions, (Node(name=node.name, capacity=node.capacity),))
    return cluster == plain


def _has_one_plain_group(groups: tuple[Group, ...], options: Options) -> bool:
    """Return whether there is one group without limits, under FIFO or EASY backfilling, with default options."""
    if len(groups) != 1 or replace(options, backfill="easy") != Options() or options.backfill == "conservative":
        return False
    (group,) = groups
    if group != Group(name=group.name, quota=group.quota, policy=group.policy, options=group.options):
        return False
    return group.policy in (SchedPolicy.FIFO, SchedPolicy.BACKFILL) and group.options in ((), (("backfill", "easy"),))


def _are_plain_jobs(workload: Workload) -> bool:
    """Return whether each job is one task with known times that asks for cores only and depends on nothing."""
    nothing = (workload.after, workload.think, workload.fails, workload.until, workload.deadline, workload.options)
    if any(column is not None for column in nothing) or workload.scales:
        return False
    if len(workload.templates) != 1 or workload.templates[0] != template():
        return False
    if any(any(request[1:]) for request in workload.requests):
        return False
    known = (workload.run != NO_LIMIT).all() and (workload.limit != NO_LIMIT).all()
    return bool(known and (workload.tasks == 1).all() and not workload.gang.any())


class ProcessorsPath:
    """Path of a processor log; it makes no scheduler unless it is asked for one."""

    foretelling: Foretelling | None = None

    def __init__(self, workload: Workload, groups: tuple[Group, ...], options: Options, order: str) -> None:
        self._workload, self._groups, self._options, self._order = workload, groups, options, order
        self._backfills = groups[0].policy is SchedPolicy.BACKFILL and options.backfill == "easy"
        self._cores: Ints = np.array([request[0] for request in workload.requests], np.int64)[workload.request_index]

    @property
    def core(self) -> Scheduler:
        """Return a scheduler with the node and the group, for questions."""
        from cress.simulator.scheduler_path import DirectPath

        return DirectPath(self._workload, self._groups, self._options, self._order).core

    def never_fit(self, admitted: Ints, groups: list[str]) -> Bools:
        """Return the jobs ``[n]`` that ask for more cores than the node has."""
        never = np.zeros(len(self._workload), np.bool_)
        never[admitted] = self._cores[admitted] > self._workload.cluster.nodes[0].capacity[0]
        return never

    def run(self, jobs: list[int], groups: list[str], *, check: bool, progress: Progress | None) -> AttemptHistory:
        """Run the jobs at these positions."""
        work = self._workload
        columns = LogColumns(*(column.tolist() for column in (work.submit, work.run, work.limit, self._cores)))
        capacity = work.cluster.nodes[0].capacity[0]
        run = InterpretedRun(jobs, columns, capacity, together=self._order == TOGETHER, backfills=self._backfills)
        ended, steps = False, 0
        while not ended and steps < MOST_STEPS:
            ended = run.go_on(STRIDE)
            steps += STRIDE
            if progress is not None:
                progress(run.events)
        if not ended:
            order, start, end, events = self._go_on_compiled(jobs, run, progress)
        else:
            order, start, end = (np.array(column, np.int64) for column in (run.order, run.start, run.end))
            events = run.events
        nothing = np.zeros(len(order), np.int64)
        how = np.full(len(order), How.FINISHED, np.int64)
        ends = np.full(len(work), JobEnd.WAITING, np.int64)
        ends[jobs] = JobEnd.FINISHED
        return AttemptHistory(
            attempts=Attempts(job=order, task=nothing, node=nothing, start=start, end=end, how=how),
            ends=ends,
            events=events,
            refusals={},
        )

    def _go_on_compiled(
        self, jobs: list[int], run: InterpretedRun, progress: Progress | None
    ) -> tuple[Ints, Ints, Ints, int]:
        """Go on with a long run in compiled loops; return job, start and end of each attempt, and the events."""
        # numba takes half a second to import, which short logs need not wait for.
        from cress.simulator.processors import loops

        work, n = self._workload, len(jobs)
        numbers = np.zeros(loops.SCALARS, np.int64)
        numbers[loops.FREE], numbers[loops.LAST], numbers[loops.RUNNING] = run.free, len(run.queue), len(run.heap)
        numbers[loops.PLANNED], numbers[loops.STARTED] = len(run.plan), len(run.order)
        numbers[loops.SUBMITTED], numbers[loops.EVENTS] = run.submitted, run.events
        # A sorted list is a heap.
        heap, plan = ([attempt for _, attempt in sorted(found)] for found in (run.heap, run.plan))
        known = (run.queue, heap, plan, run.order, run.start, run.end, run.planned)
        queue, heaped, held, order, start, end, planned = (_filled(column, n) for column in known)
        given = (np.array(jobs, np.int64), numbers, queue, heaped, held, work.submit, work.run, work.limit, self._cores)
        ended = False
        while not ended:
            until = int(numbers[loops.EVENTS]) + STRIDE
            ended = loops.go_on(until, self._order == TOGETHER, self._backfills, *given, order, start, end, planned)
            if progress is not None:
                progress(int(numbers[loops.EVENTS]))
        return order, start, end, int(numbers[loops.EVENTS])


def _filled(values: list[int], length: int) -> Ints:
    """Return a column of this length that begins with these values."""
    column = np.zeros(length, np.int64)
    column[: len(values)] = values
    return column
