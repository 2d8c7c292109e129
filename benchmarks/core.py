"""The core alone: node choice, the two-level cycle, a million pending tasks."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator

from benchmarks.result import Result, best_of
from cress.core.scheduler import Scheduler
from cress.model.decisions import Start
from cress.model.events import GroupsApplied, JobSubmitted, NodeAdded, TaskEnded
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.node import Node
from cress.model.options import Options
from cress.model.resources import Dimensions, ResourceVector
from cress.model.times import HOUR

DIMENSIONS = Dimensions(("gpu",))
CAPACITY = DIMENSIONS.vector(cpu=64_000, memory=256 << 30, network=10**10, disk_read=10**9, gpu=8_000)
SHAPES = 50


def shapes(number: int, seed: int = 1) -> list[ResourceVector]:
    """Requests of 0.5 to 2 cores in five dimensions."""
    chance = random.Random(seed)
    return [
        DIMENSIONS.vector(
            cpu=chance.randint(500, 2000),
            memory=chance.randint(1, 8) << 30,
            network=chance.randint(1, 50) * 10**6,
            disk_read=chance.randint(1, 10) * 10**6,
            gpu=chance.choice((0, 0, 100, 200)),
        )
        for _ in range(number)
    ]


def cluster(nodes: int, groups: int, options: Options | None = None) -> Scheduler:
    """Equal nodes, equal groups."""
    core = Scheduler(DIMENSIONS, options or Options())
    core.observe(0, [NodeAdded(Node(name=f"n{i}", capacity=CAPACITY)) for i in range(nodes)])
    quota = Quota(64_000 * nodes // groups)
    core.observe(0, [GroupsApplied(tuple(Group(name=f"g{i}", quota=quota) for i in range(groups)))])
    return core


def node_choice(nodes: int) -> float:
    """Placements a second: choose a node among all, hold it; 20 tasks of a shape at a time, 50 shapes in turn.

    The cluster is filled beyond the threshold from which every node is looked at.
    """
    core = cluster(nodes, 1)
    wanted = shapes(SHAPES)
    half = tuple(amount * 55 // 100 for amount in CAPACITY)
    core.observe(0, [JobSubmitted(Job(id=1, group="g0", request=half, tasks=nodes))])
    core.observe(0, [JobSubmitted(Job(id=i + 2, group="g0", request=each)) for i, each in enumerate(wanted)])
    core.decide(0)
    live = [shape for shape in core.books.fit.row_shapes if shape is not None and shape.request != half]
    end = HOUR

    def work() -> int:
        for i in range(100):
            slots = [core.books.leases.take_slot(end) for _ in range(20)]
            core.books.balance.place_many(live[i % SHAPES], slots, end)
        return 2000

    spent, count = best_of(7, work)
    return count / spent


def cycle(nodes: int, groups: int) -> float:
    """Decisions a second through ``observe`` and ``decide``, as objects, on a cluster that is not full."""
    core = cluster(nodes, groups)
    wanted = shapes(SHAPES)
    tasks = max(1, nodes * 2 // groups)
    number = 0

    def work() -> int:
        nonlocal number
        jobs = []
        for i in range(groups * 2):
            number += 1
            request = wanted[i % SHAPES]
            jobs.append(
                JobSubmitted(Job(id=number, group=f"g{i % groups}", request=request, tasks=tasks, time_limit=HOUR))
            )
        core.observe(0, jobs)
        return len(core.decide(0).items)

    work()
    spent, count = best_of(5, work)
    return count / spent


def million_pending() -> tuple[float, float]:
    """Milliseconds of ``decide`` after one task ended, 1,000,000 waiting jobs behind a full cluster: median, worst."""
    nodes, groups = 10_000, 100
    core = cluster(nodes, groups)
    chance = random.Random(2)
    wanted = shapes(200, seed=3)
    big = DIMENSIONS.vector(cpu=8_000, memory=32 << 30, network=10**9, disk_read=10**8, gpu=1_000)
    full = [
        JobSubmitted(Job(id=g + 1, group=f"g{g}", request=big, tasks=nodes * 8 // groups, time_limit=HOUR))
        for g in range(groups)
    ]
    core.observe(0, full)
    started = core.decide(0).items
    jobs = (
        JobSubmitted(Job(id=1000 + i, group=f"g{i % groups}", request=wanted[i % 200], time_limit=HOUR))
        for i in range(1_000_000)
    )
    for chunk in _chunks(jobs, 10_000):
        core.observe(0, chunk)
    core.decide(0)
    # What a shell does once its jobs are loaded: the collector need not walk a million live jobs again and again.
    gc.collect()
    gc.freeze()
    times = []
    for ended in chance.sample(started, 70):
        assert isinstance(ended, Start)
        core.observe(1, [TaskEnded(ended.attempt)])
        begin = time.perf_counter()
        core.decide(1)
        times.append((time.perf_counter() - begin) * 1000)
    # The first ones fill the caches of the earliest times, one for each group's head.
    times = sorted(times[10:])
    return times[len(times) // 2], times[-1]


def _chunks(jobs: Iterator[JobSubmitted], size: int) -> Iterator[list[JobSubmitted]]:
    chunk = []
    for job in jobs:
        chunk.append(job)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def results() -> Iterator[Result]:
    """All figures of the core, as they are measured."""
    for nodes, goal in ((1_000, None), (10_000, 100_000), (100_000, 10_000)):
        yield Result(f"node choice, {nodes:,} nodes", node_choice(nodes), "placements/s", goal, at_least=True)
    for nodes, goal in ((1_000, None), (10_000, 50_000)):
        yield Result(f"cycle, {nodes:,} nodes, 100 groups", cycle(nodes, 100), "placements/s", goal, at_least=True)
    median, worst = million_pending()
    yield Result("decide behind 1,000,000 pending, median", median, "ms", 5)
    yield Result("decide behind 1,000,000 pending, worst of 60", worst, "ms", 5)
