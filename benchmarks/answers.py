"""The cost of an explanation: at 10,000 nodes with 10,000 waiting jobs, by forks as in the center."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator

from benchmarks.core import CAPACITY, cluster
from benchmarks.result import Result
from cress.center.leader.explaining import Forks
from cress.core.answers.explain import expected_start, explain
from cress.model.events import JobSubmitted
from cress.model.job import Job
from cress.model.times import MINUTE

NODES = JOBS = 10_000
TRIES = 5


def results() -> Iterator[Result]:
    """Yield the times of an empty fork, of the remedies and of the expected start."""
    core = cluster(NODES, 10)
    half = tuple(amount * 60 // 100 for amount in CAPACITY)
    running = [
        JobSubmitted(Job(id=i + 1, group=f"g{i % 10}", request=half, time_limit=(1 + i % 600) * MINUTE))
        for i in range(NODES)
    ]
    core.observe(0, running)
    core.decide(0)
    waiting = [
        JobSubmitted(Job(id=NODES + i + 1, group=f"g{i % 10}", request=half, time_limit=(1 + i % 300) * MINUTE))
        for i in range(JOBS)
    ]
    core.observe(0, waiting)
    core.decide(0)
    numbers = [NODES + 1 + i * JOBS // TRIES for i in range(TRIES)]
    where = f"{NODES:,} nodes, {len(core.attempts):,} running, {JOBS:,} waiting; median of {TRIES}"
    fork = _median(lambda _: _fork(), numbers)
    yield Result("explain: an empty fork, for comparison", fork * 1000, "ms", note=where)
    remedies = _median(lambda number: explain(core, number, "", Forks(core)), numbers)
    yield Result("explain: clauses, nearest nodes and remedies", remedies * 1000, "ms", goal=50, note=where)
    start = _median(lambda number: expected_start(number, Forks(core), {}), numbers)
    yield Result("explain: the expected start, three runs forward", start * 1000, "ms", note=f"{where}; at most 2 s")


def _fork() -> None:
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)


def _median(ask: Callable[[int], object], numbers: list[int]) -> float:
    times = []
    for number in numbers:
        before = time.perf_counter()
        ask(number)
        times.append(time.perf_counter() - before)
    return statistics.median(times)
