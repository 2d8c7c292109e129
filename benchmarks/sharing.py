"""Tasks that share their bottleneck: a loop round the scheduler in which they slow each other down.

A task is bound by the dimension of which it asks for the largest part of its node, and wants ``burst`` times that
amount. Where a node's tasks want more of a dimension than the node has, each task that is bound by it progresses at the
fraction that is available: processor sharing. The scheduler sees requests only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil

import numpy as np

from cress.core.scheduler import Scheduler
from cress.model.decisions import Start
from cress.model.events import Event, GroupsApplied, JobSubmitted, NodeAdded, TaskEnded
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.options import Options
from cress.simulator.workload import Workload

SECOND = 10**6


@dataclass
class Running:
    """A task: its bound dimension, the amount of that it wants, its remaining time alone (µs), its rate of progress."""

    job: int
    start: int
    bound: int
    wants: int
    left: float
    rate: float = 1.0
    end: int = 0


@dataclass
class Host:
    """A node: its tasks by attempt, and since when their rates hold."""

    capacity: tuple[int, ...]
    tasks: dict[int, Running] = field(default_factory=dict)
    since: int = 0


@dataclass(frozen=True)
class Times:
    """Mean wait and the time to the last end in seconds; mean of run time / run time alone, each task alike."""

    wait: float
    makespan: float
    slowdown: float


class Sharing:
    """One run."""

    def __init__(self, workload: Workload, options: Options, burst: int) -> None:
        self._workload = workload
        self._burst = burst
        self._core = Scheduler(workload.cluster.dimensions, options)
        self._hosts = {node.name: Host(node.capacity) for node in workload.cluster.nodes}
        self._where: dict[int, Host] = {}
        self._ends: list[tuple[int, int]] = []  # stale entries stay in
        self._waits: list[int] = []
        self._slowdowns: list[float] = []
        whole = Quota(scalar=workload.cluster.total()[0])
        nodes = [NodeAdded(node) for node in workload.cluster.nodes]
        self._core.observe(0, [*nodes, GroupsApplied((Group(name="default", quota=whole),))])

    def run(self) -> Times:
        """Run everything to its end."""
        submit = self._workload.submit.tolist()
        position, now, last = 0, 0, 0
        while position < len(submit) or self._where:
            while self._ends and not self._is_due(*self._ends[0]):
                heappop(self._ends)
            due = [self._ends[0][0]] if self._ends else []
            now = min([*due, *submit[position : position + 1]])
            events: list[Event] = []
            while self._ends and self._ends[0][0] == now:
                end, attempt = heappop(self._ends)
                if self._is_due(end, attempt):
                    events.append(self._end(attempt, now))
                    last = now
            while position < len(submit) and submit[position] == now:
                events.append(self._submitted(position))
                position += 1
            self._core.observe(now, events)
            self._decide(now)
        return Times(
            wait=float(np.mean(self._waits)) / SECOND,
            makespan=(last - submit[0]) / SECOND,
            slowdown=float(np.mean(self._slowdowns)),
        )

    def _is_due(self, end: int, attempt: int) -> bool:
        host = self._where.get(attempt)
        return host is not None and host.tasks[attempt].end == end

    def _submitted(self, i: int) -> JobSubmitted:
        request = self._workload.requests[int(self._workload.request_index[i])]
        tasks = int(self._workload.tasks[i])
        return JobSubmitted(Job(id=i + 1, name=str(i + 1), group="default", request=request, tasks=tasks))

    def _decide(self, now: int) -> None:
        while True:
            decisions = self._core.decide(now)
            for each in decisions.items:
                assert isinstance(each, Start)
                self._start(each, now)
            if not decisions.more:
                return

    def _start(self, start: Start, now: int) -> None:
        host, i = self._hosts[start.node], start.job - 1
        request = self._workload.requests[int(self._workload.request_index[i])]
        bound = max(range(len(request)), key=lambda k: request[k] / host.capacity[k] if request[k] else 0.0)
        alone = int(self._workload.run[i])
        self._pass(host, now)
        host.tasks[start.attempt] = Running(i, now, bound, self._burst * request[bound], alone)
        self._where[start.attempt] = host
        self._share(host, now)
        self._waits.append(now - int(self._workload.submit[i]))

    def _end(self, attempt: int, now: int) -> TaskEnded:
        host = self._where.pop(attempt)
        self._pass(host, now)
        task = host.tasks.pop(attempt)
        self._slowdowns.append((now - task.start) / int(self._workload.run[task.job]))
        self._share(host, now)
        return TaskEnded(attempt)

    def _pass(self, host: Host, now: int) -> None:
        """Advance the tasks of a node to now."""
        for task in host.tasks.values():
            task.left -= (now - host.since) * task.rate
        host.since = now

    def _share(self, host: Host, now: int) -> None:
        """Set the rates of a node's tasks from now on."""
        wanted = [0] * len(host.capacity)
        for task in host.tasks.values():
            wanted[task.bound] += task.wants
        for attempt, task in host.tasks.items():
            task.rate = min(1.0, host.capacity[task.bound] / wanted[task.bound])
            end = now + max(1, ceil(task.left / task.rate))
            if end != task.end:
                task.end = end
                heappush(self._ends, (end, attempt))
