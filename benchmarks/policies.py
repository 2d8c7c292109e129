"""Policies, ranks, clauses, parts of trees and preemption, each beside first come, first served in the same run.

All take turns, so that a busy machine slows them alike. What is told is the processor time of a start or an end, as a
multiple of that with ``FIFO`` and jobs that ask for amounts only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.core import CAPACITY, SHAPES
from benchmarks.groups import NODES, Cluster
from benchmarks.result import Result
from cress.model.decisions import Start
from cress.model.events import JobSubmitted
from cress.model.group import Group, Quota, SchedPolicy
from cress.model.job import Job
from cress.model.times import DAY, HOUR

GROUPS = 20
# Jobs of each group, and the tasks of each; the cluster holds about half of all.
JOBS, TASKS = 20, 50
ROUNDS = 7
# No variant takes more than this many times as long as the first (issue 43).
MOST = 10.0


class Variant(NamedTuple):
    """What differs from first come, first served: the policy, options of the cluster, and keys of every job."""

    policy: SchedPolicy = SchedPolicy.FIFO
    options: Mapping[str, Any] = MappingProxyType({})
    job: Mapping[str, Any] = MappingProxyType({})
    levels: int = 1


VARIANTS = {
    "FIFO": Variant(),
    "Priority": Variant(SchedPolicy.PRIORITY),
    "Capacity": Variant(SchedPolicy.CAPACITY),
    "BackFill": Variant(SchedPolicy.BACKFILL),
    "Urgency": Variant(SchedPolicy.URGENCY, job={"deadline": DAY}),
    "EDF": Variant(SchedPolicy.EDF, job={"deadline": DAY}),
    "FIFO with a rank": Variant(job={"rank": "IdleCPU"}),
    "FIFO with a requirement": Variant(job={"requirement": "IdleCPU > 1"}),
    "FIFO in a tree of two levels": Variant(levels=2),
    "FIFO with preemption": Variant(options={"preemption": "on"}),
    "BackFill with preemption": Variant(SchedPolicy.BACKFILL, options={"preemption": "on"}),
}


class Played(Cluster):
    """A full cluster on which the jobs of one variant wait."""

    def __init__(self, variant: Variant) -> None:
        quota = Quota(CAPACITY[0] * NODES // (2 * GROUPS))
        inner = [Group(name=f"a{i}") for i in range(4)] if variant.levels > 1 else []
        leaves = (
            Group(name=f"g{i}", quota=quota, policy=variant.policy, parent=inner[i % 4].name if inner else "")
            for i in range(GROUPS)
        )
        super().__init__((*inner, *leaves), **{"preemption": "off", **variant.options})
        self.variant = variant

    def begin(self) -> None:
        """Every group gets jobs of several users, of which no more fit in the end."""
        jobs = [
            Job(
                id=number, group=f"g{number % GROUPS}", user=f"u{number % 7}", request=self.wanted[number % SHAPES],
                tasks=TASKS, priority=number % 3, time_limit=(1 + number % 5) * HOUR, **self.variant.job,
            )
            for number in range(1, GROUPS * JOBS + 1)
        ]  # fmt: skip
        self.core.observe(self.now, list(map(JobSubmitted, jobs)))
        self.running = [fact.attempt for fact in self.core.decide(self.now).items if isinstance(fact, Start)]


def results() -> Iterator[Result]:
    """All figures of policies, as they are measured."""
    played = {name: Played(variant) for name, variant in VARIANTS.items()}
    for cluster in played.values():
        cluster.begin()
        cluster.start_and_end()
        cluster.starting.clear()
        cluster.ending.clear()
    for i in range(ROUNDS):
        for cluster in list(played.values()) if i % 2 else reversed(played.values()):
            cluster.start_and_end()
    first = played["FIFO"]
    yield Result("FIFO, many starts at once", median(first.starting) * 1e6, "µs", note="a start or end")
    for name, cluster in played.items():
        if cluster is not first:
            many = median(a / b for a, b in zip(cluster.starting, first.starting, strict=True))
            single = median(a / b for a, b in zip(cluster.ending, first.ending, strict=True))
            yield Result(f"{name} / FIFO, many starts at once", many, "×", MOST)
            yield Result("the same after single ends", single, "×", MOST, note=name)
