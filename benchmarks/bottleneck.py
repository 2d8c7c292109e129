"""A mixed load, half of it bound by processors and half by disks, under each order of nodes (source 002, contribution
2).

First as tasks run in every simulation: what they asked for is theirs, and who finds no room waits. Then as they run
where nobody enforces anything: each wants ``BURST`` times what it asked for of what binds it, and those on one node
that are bound by the same share it (``benchmarks/sharing.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.result import Result
from benchmarks.sharing import Sharing
from cress.model.node import Node
from cress.model.option_text import parse_assignments
from cress.model.resources import Dimensions
from cress.simulator import request, run
from cress.simulator.groups import configure, parse_policy, place
from cress.simulator.trace_notes import TraceNotes
from cress.simulator.workload import NO_LIMIT, SimulatedCluster, Workload

ORDERS = ("first", "best_fit", "spread", "balance")
SEEDS = (1, 2, 3)
SECOND = 10**6
GIB = 2**30
MEGA = 10**6

NODES = 20
JOBS = 1_500
# One task of a job that is bound by processors, by disks: thousandths of cores, bytes/s read.
CPU_BOUND, DISK_BOUND = (2000, 5 * MEGA), (500, 50 * MEGA)
CORES, BANDWIDTH = 16_000, 400 * MEGA
# Jobs are arrays of up to so many tasks: what comes together is bound by the same.
MOST_TASKS = 16
RUN, SPREAD = 600.0, 0.8  # median in seconds, sigma of the logarithm
BURST = 2


def mixed(load: float, seed: int) -> Workload:
    """The workload: ``load`` is what its tasks ask for of the processors, and of the disks alike, over the time of
    arrivals.
    """
    rng = np.random.default_rng(seed)
    dimensions = Dimensions()
    capacity = dimensions.vector(cpu=CORES, memory=64 * GIB, disk_read=BANDWIDTH)
    nodes = tuple(Node(name=f"n{i + 1:02d}", capacity=capacity) for i in range(NODES))
    requests = [dimensions.vector(cpu=cpu, memory=GIB, disk_read=disk) for cpu, disk in (CPU_BOUND, DISK_BOUND)]
    kind = rng.permutation(np.arange(JOBS, dtype=np.int64) % 2)
    tasks = rng.integers(1, MOST_TASKS + 1, JOBS)
    length = np.maximum(1, rng.lognormal(np.log(RUN), SPREAD, JOBS)).astype(np.int64)
    work = (tasks * length)[:, None] * np.array([CPU_BOUND, DISK_BOUND])[kind]
    span = float((work.sum(axis=0) / (NODES * np.array([CORES, BANDWIDTH]))).max()) / load
    none = np.zeros(JOBS, dtype=np.int64)
    return Workload(
        name="mixed",
        cluster=SimulatedCluster(dimensions, nodes),
        ids=[str(i + 1) for i in range(JOBS)],
        submit=np.sort(rng.random(JOBS) * span).astype(np.int64) * SECOND,
        run=length * SECOND,
        limit=np.full(JOBS, NO_LIMIT, dtype=np.int64),
        tasks=tasks,
        gang=np.zeros(JOBS, dtype=np.bool_),
        killed=np.zeros(JOBS, dtype=np.bool_),
        priority=none,
        request_index=kind,
        requests=requests,
        user_index=none,
        users=[""],
        group_index=none,
        group_names=[""],
        line=none,
        notes=TraceNotes(),
    )


def reserved(work: Workload, order: str) -> dict[str, float]:
    """The measures of a run in which tasks have what they asked for."""
    options = parse_assignments([f"node_order={order}"])
    work = configure(work, None, options.accounting)
    names, group_of = place(work)
    choice = parse_policy("FIFO")
    plan = request.Plan(
        request=request.Request(trace="mixed", out=Path()),
        workload=work,
        options=options,
        choices=(choice,),
        group_names=names,
        group_of=group_of,
    )
    summary = run.simulate(plan, choice).analysis.summary
    return {name: float(summary[name]) for name in ("wait_mean_s", "makespan_s", "utilisation_mean")}


def shared(work: Workload, order: str) -> dict[str, float]:
    """The measures of a run in which tasks want more than they asked for, and share it."""
    times = Sharing(work, parse_assignments([f"node_order={order}"]), BURST).run()
    return {"wait_mean_s": times.wait, "makespan_s": times.makespan, "slowdown": times.slowdown}


OF_RESERVED = (
    ("wait_mean_s", "mean wait", "s"),
    ("makespan_s", "makespan", "s"),
    ("utilisation_mean", "utilisation", "share"),
)
OF_SHARED = (
    ("slowdown", "run time / that alone", "times"),
    ("wait_mean_s", "mean wait", "s"),
    ("makespan_s", "makespan", "s"),
)
RUNS = (
    ("reserved", 0.9, reserved, OF_RESERVED),
    ("shared", 0.45, shared, OF_SHARED),
    ("shared", 0.6, shared, OF_SHARED),
)


def results() -> Iterator[Result]:
    """Means over the seeds, with their ratios to those of ``first``."""
    for kind, load, measure, figures in RUNS:
        loads = [mixed(load, seed) for seed in SEEDS]
        found = {order: [measure(work, order) for work in loads] for order in ORDERS}
        for key, label, unit in figures:
            mean = {order: float(np.mean([each[key] for each in runs])) for order, runs in found.items()}
            for order in ORDERS:
                note = "" if order == ORDERS[0] else f"{mean[order] / mean[ORDERS[0]]:.3f} of first"
                yield Result(f"mixed load {load}, {kind}, {label}, {order}", mean[order], unit, note=note)
