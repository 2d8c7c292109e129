"""Deadlines: a decision behind which 100,000 jobs with deadlines wait, and the forecast for one of them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from statistics import median

from benchmarks.core import CAPACITY, DIMENSIONS, shapes
from benchmarks.result import Result
from cress.core.scheduler import Scheduler
from cress.model.decisions import Preempt, Start
from cress.model.events import ClockSet, GroupsApplied, JobSubmitted, NodeAdded, Outcome, TaskEnded
from cress.model.group import Group, Quota, SchedPolicy
from cress.model.job import Job
from cress.model.node import Node
from cress.model.options import Options
from cress.model.times import DAY, MINUTE, SECOND

NODES = 10_000
WAITING = 100_000
GROUPS = 4
ENDS = 70


class Cluster:
    """A full cluster of 10,000 nodes and its queue; nine of ten jobs have a deadline."""

    def __init__(self, policy: SchedPolicy, order: str) -> None:
        self.chance = random.Random(5)
        self.wanted = shapes(50)
        self.core = Scheduler(DIMENSIONS, Options(order=order))
        quota = Quota(CAPACITY[0] * NODES // GROUPS)
        groups = tuple(Group(name=f"g{i}", quota=quota, policy=policy) for i in range(GROUPS))
        self.core.observe(0, [ClockSet(0), GroupsApplied(groups)])
        self.core.observe(0, [NodeAdded(Node(name=f"n{i}", capacity=CAPACITY)) for i in range(NODES)])
        full = DIMENSIONS.vector(cpu=16_000, memory=32 << 30)
        first = (Job(id=i, group=f"g{i % GROUPS}", request=full, tasks=NODES, time_limit=9 * DAY) for i in range(1, 5))
        self.core.observe(0, [JobSubmitted(job) for job in first])
        self.running = [each.attempt for each in self.core.decide(0).items if isinstance(each, Start)]
        self.core.observe(0, [JobSubmitted(self._job(number)) for number in range(5, 5 + WAITING)])
        self.core.decide(0)

    def _job(self, number: int) -> Job:
        limit = self.chance.randrange(10, 1_000) * MINUTE
        due = int(limit * self.chance.uniform(1.1, 10)) + self.chance.randrange(20 * DAY)
        deadline = due if self.chance.random() < 0.9 else 0
        request = self.chance.choice(self.wanted)
        return Job(id=number, group=f"g{number % GROUPS}", request=request, time_limit=limit, deadline=deadline)

    def decisions(self) -> tuple[float, float]:
        """Milliseconds of processor of ``observe``, ``decide`` and ``next_wakeup`` after one end: median, worst."""
        now, times = self.core.now, []
        for _ in range(ENDS):
            now += self.chance.randrange(1, 20) * SECOND
            ended = self.running.pop(self.chance.randrange(len(self.running)))
            begin = time.process_time()
            self.core.observe(now, [TaskEnded(ended)])
            decided = self.core.decide(now).items
            self.core.next_wakeup()
            times.append((time.process_time() - begin) * 1000)
            self.running += [each.attempt for each in decided if isinstance(each, Start)]
            gone = {each.attempt for each in decided if isinstance(each, Preempt)}
            self.running = [attempt for attempt in self.running if attempt not in gone]
            self.core.observe(now, [TaskEnded(attempt, Outcome.PREEMPTED) for attempt in gone])
        # The first ones fill the caches.
        return median(times[10:]), max(times[10:])

    def forecasts(self) -> tuple[float, float]:
        """Milliseconds of processor of the forecast for a job that was submitted just now: median, worst."""
        now, times = self.core.now, []
        for number in range(200):
            job = self._job(5 + WAITING + number)
            self.core.observe(now, [JobSubmitted(job)])
            begin = time.process_time()
            self.core.outlook(job.id)
            times.append((time.process_time() - begin) * 1000)
        return median(times), max(times)


def results() -> Iterator[Result]:
    """All figures of deadlines, as they are measured; the reference is the same cluster with FIFO."""
    plain, _ = Cluster(SchedPolicy.FIFO, "share").decisions()
    yield Result("FIFO, 10,000 nodes, 100,000 waiting: decide after one end", plain, "ms", note="reference")
    shares, groups = Cluster(SchedPolicy.URGENCY, "share"), Cluster(SchedPolicy.URGENCY, "urgency")
    for cluster, order in ((shares, "share"), (groups, "urgency")):
        middle, worst = cluster.decisions()
        name = f"Urgency, order={order}: decide after one end"
        yield Result(name, middle, "ms", 5, note=f"worst {worst:.1f} ms; {middle / plain:.1f} times the reference")
    middle, worst = groups.forecasts()
    yield Result("forecast at submit, 10,000 nodes, worst of 200", worst, "ms", 50, note=f"median {middle:.2f} ms")
