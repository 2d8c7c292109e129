"""The cost of an explanation, and what fifty at once cost others: at 10,000 nodes with 10,000 waiting jobs.

The committer, the store and the explainer are those of a center; nothing is executed.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.core import CAPACITY, DIMENSIONS
from benchmarks.result import Result
from cress.center.committing.committer import Committer
from cress.center.leader.explaining import Explainer
from cress.center.process.kept_fork import ENDING
from cress.center.settings import CenterSettings
from cress.lifecycle.inputs import Declare, NodeJoined, Submit
from cress.model.events import GroupsApplied
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.node import Node
from cress.model.run import Run
from cress.model.times import MINUTE
from cress.store.sqlite import SqliteStore

NODES = JOBS = 10_000
TRIES = 5
# Small jobs that start at once, one after the other, while fifty questions are asked or not; twice each.
STARTS, QUESTIONS = 150, 50
PAUSE = 0.01
BATCH, GROUPS = 1_000, 10


class Measured(NamedTuple):
    """Seconds: of a fork; of explanations, as processor time and by the clock; of submit → start as the 99th percentile
    of the processor time of the center, without questions and beside them; of the last of many answers by the clock,
    and of all of them together as processor time of the fork that answered.
    """

    fork: float
    processor: float
    lasted: float
    alone: float
    beside: float
    last_answer: float
    many: float


def results() -> Iterator[Result]:
    """Yield the times of an empty fork and of an explanation, and how late starts are beside fifty of them."""
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(_measured(Path(folder)))
    where = f"{NODES:,} nodes, {NODES:,} running, {JOBS:,} waiting; median of {TRIES}"
    yield Result("explain: an empty fork, for comparison", found.fork * 1000, "ms of processor", note=where)
    yield Result("explain: reason, nodes, remedies", found.processor * 1000, "ms of processor", goal=50, note=where)
    yield Result("explain: the same by the clock", found.lasted * 1000, "ms", note=where)
    # By the clock the figure is that of the other programs of this machine.
    both = f"p99 {found.alone * 1000:.1f} ms alone, {found.beside * 1000:.1f} ms beside"
    later = (found.beside - found.alone) * 1000
    yield Result(f"submit → start beside {QUESTIONS} explanations", later, "ms of processor", goal=2, note=both)
    yield Result(f"explain: {QUESTIONS} at once", found.many * 1000, "ms of processor", note=where)
    yield Result("explain: the last of these by the clock", found.last_answer * 1000, "ms", note=where)


async def _measured(folder: Path) -> Measured:
    committer = Committer(SqliteStore(folder / "cress.db"), CenterSettings(data=folder))
    await committer.start()
    try:
        waiting = await _fill(committer)
        explainer = Explainer(committer)
        forks = [_spent_by_fork() for _ in range(TRIES)]
        spent, lasted = [], []
        for number in waiting[:: JOBS // TRIES]:
            # Each has to fork anew.
            await _start_one(committer)
            before, begin = _processor(), time.perf_counter()
            await explainer.explain(number)
            lasted.append(time.perf_counter() - begin)
            _end(explainer)
            spent.append(_processor() - before)
        alone, beside, ends, many = list[float](), list[float](), list[float](), list[float]()
        for _ in range(2):
            alone += await _starts(committer)
            begin, before = time.perf_counter(), _processor(resource.RUSAGE_CHILDREN)
            asked = asyncio.gather(*(explainer.explain(number) for number in waiting[:: JOBS // QUESTIONS]))
            beside += await _starts(committer)
            await asked
            ends.append(time.perf_counter() - begin)
            _end(explainer)
            many.append(_processor(resource.RUSAGE_CHILDREN) - before)
        return Measured(
            statistics.median(forks), statistics.median(spent), statistics.median(lasted),
            float(np.percentile(alone, 99)), float(np.percentile(beside, 99)), min(ends),
            min(many),
        )  # fmt: skip
    finally:
        await committer.stop()


async def _fill(committer: Committer) -> list[int]:
    """Let nodes join, and submit jobs that run and jobs that wait; return those that wait."""
    await committer.submit(Declare(dimensions=DIMENSIONS.custom))
    # Jobs of the last group are always within its quota.
    quota = Quota(64_000 * NODES // GROUPS)
    groups = tuple(Group(name=f"g{i}", quota=quota) for i in range(GROUPS + 1))
    await committer.submit(GroupsApplied(groups=groups))
    for i in range(NODES):
        committer.post(NodeJoined(node=Node(name=f"n{i}", capacity=CAPACITY), boot="b"))
    half = tuple(amount * 60 // 100 for amount in CAPACITY)
    numbers: list[int] = []
    for first in range(0, NODES + JOBS, BATCH):
        jobs = tuple(
            Job(id=0, name="work", group=f"g{i % GROUPS}", user="ann", request=half, time_limit=(1 + i % 600) * MINUTE)
            for i in range(first, first + BATCH)
        )
        numbers += await committer.submit(Submit(jobs=jobs), [Run(job=0, command=("true",))] * BATCH)
    return numbers[NODES:]


async def _start_one(committer: Committer) -> float:
    """Submit a job for which there is room; return the processor time of the center until its start is stored."""
    small = tuple(amount // 1000 for amount in CAPACITY)
    job = Job(id=0, name="small", group=f"g{GROUPS}", user="ann", request=small, time_limit=MINUTE)
    begin = time.process_time()
    (number,) = await committer.submit(Submit(jobs=(job,)), [Run(job=0, command=("true",))])
    assert committer.machine.jobs[number].running, "it should have started in the step of its submit"
    return time.process_time() - begin


async def _starts(committer: Committer) -> list[float]:
    found = []
    for _ in range(STARTS):
        await asyncio.sleep(PAUSE)
        found.append(await _start_one(committer))
    return found


def _spent_by_fork() -> float:
    before = _processor()
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    return _processor() - before


def _end(explainer: Explainer) -> None:
    """End the fork of an explainer; its processor time counts when its end is known."""
    explainer.close()
    for thread in threading.enumerate():
        if thread.name == ENDING:
            thread.join()


def _processor(*whose: int) -> float:
    """Return the processor time of ``whose``: by default of this process and its children that have ended."""
    both = (resource.getrusage(who) for who in whose or (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)
