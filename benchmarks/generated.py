"""Whole commands on a generated workload of 100,000 jobs on 1,213 nodes: the long part."""

from __future__ import annotations

import resource
from collections.abc import Iterator

from benchmarks.result import Result
from benchmarks.simulator import command

WORKLOAD = "generated:jobs={},nodes=1213,groups=20"
# Conservative backfill plans every waiting job again after every end: a smaller workload, and no goal.
RUNS = (
    ("FIFO", 100_000, 30),
    ("Priority", 100_000, 30),
    ("Capacity", 100_000, 30),
    ("BackFill", 100_000, 30),
    ("BackFill/conservative", 20_000, None),
)


def results() -> Iterator[Result]:
    """Yield the wall time with start-up, and the processor time of the command, on which other load has less effect."""
    for policy, jobs, goal in RUNS:
        words = ("simulate", WORKLOAD.format(jobs), "--policy", policy, "--seed", "1", "--out", "OUT")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        spent, _ = command(*words, times=1)
        user = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        name = f"simulate generated (1,213 nodes, {jobs:,} jobs), {policy}"
        yield Result(name, spent, "s", goal, note=f"{user:.1f} s of processor time")
