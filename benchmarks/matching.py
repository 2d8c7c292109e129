"""Matching: a requirement and a rank over all nodes as if never seen before, and again after one node changed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.result import Result
from cress.core.scheduler import Scheduler
from cress.language.clauses import Rank, Requirement
from cress.language.columns import Columns
from cress.language.parser import parse_rank, parse_requirement
from cress.language.program import Program
from cress.language.tree import conjunction
from cress.model.events import GroupsApplied, JobSubmitted, NodeAdded
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.node import Node, Value
from cress.model.options import Options
from cress.model.resources import Dimensions

REQUIREMENT = 'OSKernel >= 2.6.32 && Java >= 1.5 && GCC >= 4.5 && Memory >= 8G && Rack in ("r1","r2","r3")'
RANK = "0.5 × CPU + 0.3 × IdleNetwork + 0.2 × (SSD = True)"
DIMENSIONS = Dimensions(("gpu",))
# HTCondor's ClassAd library (C++) evaluates 0.15 million a second on this kind of requirement.
CLASSADS = 150_000


class Cluster:
    """Nodes of many kinds, as columns, with tables of what is free; six columns come before the amounts."""

    FREE = 6

    def __init__(self, count: int) -> None:
        chance = random.Random(5)
        self.columns = Columns(DIMENSIONS, self.FREE)
        k = len(DIMENSIONS)
        self.specs: list[Node] = []
        self.nodes = np.zeros((count, self.FREE + 2 * k), np.int64)
        for f in range(count):
            capacity = DIMENSIONS.vector(
                cpu=chance.choice((8, 16, 64)) * 1000,
                memory=chance.choice((4, 16, 256)) << 30,
                network=10**10,
                disk_read=10**9,
            )
            attributes: dict[str, Value] = {
                "os_kernel": f"{chance.randint(2, 6)}.{chance.randint(0, 19)}.{chance.randint(0, 5)}",
                "java": f"1.{chance.randint(4, 8)}.0",
                "gcc": f"{chance.randint(3, 13)}.{chance.randint(0, 4)}",
                "ssd": chance.random() < 0.3,
            }
            rack, address = f"r{f % 40}", f"10.0.{f // 250}.{f % 250}"
            node = Node(
                name=f"n{f}", capacity=capacity, rack=rack, address=address, attributes=tuple(attributes.items())
            )
            self.specs.append(node)
            self.columns.set_node(f, node)
            self.nodes[f, self.FREE :] = (*(amount * chance.randint(0, 4) // 4 for amount in capacity), *capacity)
        self.truths = np.zeros(count, np.int8)
        self.scores = np.zeros(count, np.float32)

    def match(self, requirement: Requirement, rank: Rank) -> tuple[Program, Program]:
        """Work out which nodes satisfy a requirement and how they rank, with programs and tables made afresh."""
        self.columns.tables.clear()
        hard = Program(self.columns, conjunction(tuple(clause.expression for clause in requirement.clauses)))
        hard.truths(self.nodes, self.truths)
        soft = Program(self.columns, rank)
        soft.values(self.nodes, self.scores)
        return hard, soft

    def repair(self, hard: Program, soft: Program, f: int) -> None:
        """Node ``f`` has other amounts free than before."""
        self.truths[f] = hard.truth(self.nodes, f)
        self.scores[f] = soft.value(self.nodes, f)


def fastest(work: Callable[[], object], times: int) -> float:
    """The shortest of several runs in seconds."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def results() -> Iterator[Result]:
    """All figures of matching, as they are measured."""
    parse = fastest(lambda: parse_requirement.__wrapped__(REQUIREMENT), 50)
    yield Result("parsing a requirement of five clauses", parse * 1e3, "ms", 1)
    requirement, rank = parse_requirement(REQUIREMENT), parse_rank(RANK)
    for count, goal in ((1_000, None), (10_000, 2), (100_000, None)):
        cluster = Cluster(count)
        # Columns are there, as they are when any job before named these attributes.
        programs = cluster.match(requirement, rank)
        assert 0 < int(np.count_nonzero(cluster.truths == 1)) < count
        spent = fastest(lambda cluster=cluster: cluster.match(requirement, rank), 20)  # type: ignore[misc]
        yield Result(f"requirement and rank never seen, {count:,} nodes", spent * 1e3, "ms", goal)
        if goal is not None:
            note = f"{count / spent / CLASSADS:,.0f} times ClassAds in C++"
            yield Result("evaluations of a node", count / spent, "nodes/s", 5e6, at_least=True, note=note)
            yield from _repairs(cluster, *programs)


def _repairs(cluster: Cluster, hard: Program, soft: Program) -> Iterator[Result]:
    """What one changed node costs: in the language alone, and in the core, whose tables follow every change."""
    places = iter(range(10**9))

    def again() -> None:
        cluster.repair(hard, soft, next(places) % len(cluster.nodes))

    yield Result("one node again, condition and rank", fastest(again, 2000) * 1e6, "µs")
    core = Scheduler(DIMENSIONS, Options())
    core.observe(0, [NodeAdded(node) for node in cluster.specs])
    job = Job(id=1, group="g", request=DIMENSIONS.vector(cpu=1000), requirement=REQUIREMENT, rank=RANK)
    core.observe(0, [GroupsApplied((Group(name="g", quota=Quota(10**9)),)), JobSubmitted(job)])
    (shape,) = (each for each in core.fit.row_shapes if each is not None)

    def match() -> None:
        core.cluster.refresh(next(places) % len(cluster.nodes))
        core.matching.flush()
        core.fit.set_aside(shape, core.cluster.none_closed)

    note = "in the core: repair the row, then set aside all but the best"
    yield Result("matching again after one node changed", fastest(match, 2000) * 1e6, "µs", 20, note=note)
