"""Groups: a thousand in a tree of four levels against as many in a flat list, and fair share with memory on against
off.

Tree and list take turns in one run, so that a busy machine slows both alike; their figure is a ratio of processor time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.core import CAPACITY, DIMENSIONS, SHAPES, shapes
from benchmarks.result import Result
from cress.core.groups.shares import Groups
from cress.core.scheduler import Scheduler
from cress.core.tree.memory import ShareMemory
from cress.core.tree.tree import Tree
from cress.model.decisions import Start
from cress.model.events import GroupsApplied, JobSubmitted, NodeAdded, TaskEnded
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.node import Node
from cress.model.options import Options
from cress.model.times import DAY, HOUR, SECOND

GROUPS = 1_000
NODES = 200
# Groups below each of the three inner levels: 10 × 10 × 10.
WIDTH = 10
ROUNDS = 15


def flat() -> tuple[Group, ...]:
    """A thousand groups side by side."""
    quota = Quota(CAPACITY[0] * NODES // (2 * GROUPS))
    return tuple(Group(name=f"g{i}", quota=quota) for i in range(GROUPS))


def tree() -> tuple[Group, ...]:
    """The same groups below 100 others, these below 10, and these below one."""
    inner = [Group(name="all")]
    inner += [Group(name=f"a{i}", parent="all") for i in range(WIDTH)]
    inner += [Group(name=f"b{i}", parent=f"a{i // WIDTH}") for i in range(WIDTH**2)]
    leaves = (Group(name=group.name, quota=group.quota, parent=f"b{i // WIDTH}") for i, group in enumerate(flat()))
    return (*inner, *leaves)


class Watch:
    """The time that was spent in some functions; where one calls another of them it counts once."""

    def __init__(self) -> None:
        self.spent = 0
        self._depth = 0

    def watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same and is watched; what watching costs counts as well."""

        def inner(*args: Any) -> Any:
            begin, self._depth = time.perf_counter_ns(), self._depth + 1
            try:
                return function(*args)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.spent += time.perf_counter_ns() - begin

        return inner


class Cluster:
    """A cluster with the thousand groups, all of which have jobs waiting, and what it spent."""

    def __init__(self, groups: tuple[Group, ...], **options: Any) -> None:
        self.core = Scheduler(DIMENSIONS, Options(**options))
        nodes = [NodeAdded(Node(name=f"n{i}", capacity=CAPACITY)) for i in range(NODES)]
        self.core.observe(0, [*nodes, GroupsApplied(groups)])
        self.wanted = shapes(SHAPES)
        self.chance = random.Random(3)
        self.number = 0
        self.now = 0
        self.running: list[int] = []
        self.starting: list[float] = []
        self.ending: list[float] = []

    def begin(self) -> None:
        """Every group gets jobs, of which none fits any more in the end."""
        jobs = []
        for i in range(GROUPS * 2):
            self.number += 1
            request = self.wanted[i % SHAPES]
            name = f"g{i % GROUPS}"
            jobs.append(JobSubmitted(Job(id=self.number, group=name, request=request, tasks=40, time_limit=HOUR)))
        self.core.observe(self.now, jobs)
        self.running = [each.attempt for each in self.core.decide(self.now).items if isinstance(each, Start)]

    def start_and_end(self) -> None:
        """A tenth of all tasks ends, and as many start; then one after the other ends, each of which lets a unit or two
        start.
        """
        self.many_end()
        self.few_end()

    def many_end(self) -> None:
        """A tenth of all tasks ends at once."""
        many = self.chance.sample(self.running, len(self.running) // 10)
        self.starting.append(self._spent(many))

    def few_end(self) -> None:
        """Twenty tasks end one after the other."""
        few = self.chance.sample(self.running, 20)
        self.ending.append(sum(self._spent([attempt]) for attempt in few))

    def _spent(self, ended: list[int]) -> float:
        """Return the processor time in which these end and others start, in seconds a start or end."""
        self.now += 20 * SECOND
        begin = time.thread_time()
        self.core.observe(self.now, [TaskEnded(attempt) for attempt in ended])
        decided = self.core.decide(self.now).items
        self.core.next_wakeup()
        spent = time.thread_time() - begin
        gone = set(ended)
        started = [each.attempt for each in decided if isinstance(each, Start)]
        self.running = [attempt for attempt in self.running if attempt not in gone] + started
        return spent / (len(ended) + len(started))


def compared(first: Cluster, second: Cluster) -> tuple[float, float, float]:
    """Return what the first spends as a multiple of the second: with many starts at once, and after single ends; and µs
    of the first.
    """
    for cluster in (first, second):
        cluster.begin()
        cluster.start_and_end()
        cluster.starting.clear()
        cluster.ending.clear()
    for i in range(ROUNDS):
        for cluster in (first, second) if i % 2 else (second, first):
            cluster.start_and_end()
    many = median(a / b for a, b in zip(first.starting, second.starting, strict=True))
    single = median(a / b for a, b in zip(first.ending, second.ending, strict=True))
    return many, single, median(first.starting) * 1e6


def results() -> Iterator[Result]:
    """All figures of groups, as they are measured."""
    many, single, spent = compared(Cluster(flat(), preemption="off"), Cluster(tree(), preemption="off"))
    yield Result(
        "1,000 groups: speed of a tree of four levels / flat", many, "×", 0.6, at_least=True,
        note=f"many starts at once; {spent:.0f} µs a start or end in the flat list",
    )  # fmt: skip
    yield Result(
        "the same after single ends", single, "×", 0.6, at_least=True, note="all groups wait on a full cluster"
    )
    many, single = remembered()
    yield Result("share_half_life=1d: part of the cycle", many, "%", 2, note="many starts at once")
    yield Result("the same after single ends", single, "%", 2, note="all groups wait on a full cluster")


def remembered() -> tuple[float, float]:
    """Return the percent of the cycle that is spent on memories: with many starts at once, and after single ends.

    Two clusters, one with memories, do not show it: they start other jobs, and even alike ones differ by more from run
    to run.
    """
    watch = Watch()
    cluster = Cluster(flat(), preemption="off", share_half_life=DAY)
    cluster.begin()
    cluster.start_and_end()
    parts = ((Groups, "advance"), (Tree, "next_tick"), (Tree, "remember"), (ShareMemory, "past"))
    found: tuple[list[float], list[float]] = [], []
    with ExitStack() as stack:
        for kind, name in parts:
            stack.enter_context(patch.object(kind, name, watch.watched(getattr(kind, name))))
        for _ in range(ROUNDS):
            for shares, one_round in zip(found, (cluster.many_end, cluster.few_end), strict=True):
                watch.spent, begin = 0, time.perf_counter_ns()
                one_round()
                shares.append(100 * watch.spent / (time.perf_counter_ns() - begin))
    return median(found[0]), median(found[1])
