"""How the cost of a start or an end grows with nodes, groups, shapes and waiting jobs, one of them at a time.

A full cluster under ``FIFO`` with jobs waiting in all groups; after an end of a task that filled a node, waiting jobs
start in its place. What is told is processor time as a multiple of that in the middle of the table, so that another
machine gives nearly the same figures, and beside it the time of one plain scan of the columns for a node.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.core import CAPACITY, cluster, shapes
from benchmarks.line_plot import Panel, line_plot
from benchmarks.result import Result
from cress.model.decisions import Start
from cress.model.events import JobSubmitted, TaskEnded
from cress.model.job import Job
from cress.model.times import HOUR

PLOT = Path("docs/images/growth.svg")
# The ends that are measured; those before them fill the caches.
ENDS, FIRST = 12, 4


class Size(NamedTuple):
    """The size of a cluster and its queue."""

    nodes: int = 1_000
    groups: int = 10
    shapes: int = 50
    waiting: int = 10_000


# From the middle of the table, one of the four at a time.
SIZES = {
    "nodes": (100, 1_000, 10_000, 100_000),
    "groups": (1, 10, 100, 1_000),
    "shapes": (1, 10, 100, 1_000, 10_000),
    # A million waiting jobs are in the part ``core``.
    "waiting": (1_000, 10_000, 100_000),
}


def cost(size: Size) -> float:
    """Return the microseconds of processor of a start or an end: the median over single ends and what starts then."""
    core = cluster(size.nodes, size.groups)
    wanted = shapes(size.shapes, seed=3)
    per_group = -(-size.nodes // size.groups)
    full = (
        Job(id=g + 1, group=f"g{g}", request=CAPACITY, tasks=per_group, time_limit=HOUR) for g in range(size.groups)
    )
    core.observe(0, [JobSubmitted(job) for job in full])
    running = [each.attempt for each in core.decide(0).items if isinstance(each, Start)]
    first = size.groups + 1
    for begin in range(0, size.waiting, 10_000):
        numbers = range(begin, min(size.waiting, begin + 10_000))
        jobs = (
            Job(id=first + i, group=f"g{i % size.groups}", request=wanted[i % size.shapes], time_limit=HOUR)
            for i in numbers
        )
        core.observe(0, [JobSubmitted(job) for job in jobs])
    core.decide(0)
    found = []
    for now, ended in enumerate(running[:: max(1, len(running) // (FIRST + ENDS))][: FIRST + ENDS], start=1):
        begun = time.process_time()
        core.observe(now, [TaskEnded(ended)])
        decided = len(core.decide(now).items)
        found.append((time.process_time() - begun) / (1 + decided))
    return 1e6 * float(np.median(found[FIRST:]))


def scan(nodes: int) -> float:
    """Return the microseconds of processor to find the fullest node with room by a plain scan of the columns."""
    free = np.random.default_rng(1).integers(1, 2**40, (nodes, len(CAPACITY)))
    request = np.array(CAPACITY, np.int64)
    times = max(3, 2_000_000 // nodes)
    begun = time.process_time()
    for _ in range(times):
        fits = np.all(free >= request, axis=1)
        np.argmin(np.where(fits, free.sum(axis=1), 2**62))
    return 1e6 * (time.process_time() - begun) / times


def results() -> Iterator[Result]:
    """The figures, and the plot of ``docs/performance.md``."""
    cost(Size())  # compiles and loads
    middle, reference = cost(Size()), scan(Size().nodes)
    yield Result("a start or an end: 1,000 nodes, 10 groups, 50 shapes, 10,000 waiting", middle, "µs", note="= 1")
    yield Result("a plain scan of 1,000 nodes", reference / middle, "×")
    panels = []
    for what, values in SIZES.items():
        grown = []
        for value in values:
            size = Size()._replace(**{what: value})
            grown.append(cost(size) / middle)
            beside = f"a plain scan: {scan(value) / middle:.3g}" if what == "nodes" else ""
            yield Result(f"a start or an end with {value:,} {what}", grown[-1], "×", note=beside)
        panels.append(Panel(what, [round(float(np.log10(value))) for value in values], {"a start or an end": grown}))
    PLOT.write_text(line_plot(panels, x="power of ten", y="processor time, of that in the middle"))
