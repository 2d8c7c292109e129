"""The share of the GPUs of cluster-trace-gpu-v2023 that each order of nodes can allocate, beside the published ones.

The recipe of "Beware of Fragmentation" (USENIX ATC'23): no departures; the pods of a list, sorted by name and shuffled, then
random ones of them appended until requests reach 130 % of the GPUs; a pod that fits nowhere is skipped. Another generator's
shuffle moves a result by some 0.3 points: means over seeds.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.result import Result
from cress.core.scheduler import Scheduler
from cress.model.events import GroupsApplied, JobCancelled, JobSubmitted, NodeAdded
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.option_text import parse_assignments
from cress.simulator.clusterfile import load_cluster
from cress.simulator.traces import load_workload
from cress.simulator.workload import Workload

LISTS = ("default", "gpushare40", "multigpu20")
ORDERS = ("first", "best_fit", "spread", "balance", "fragmentation")
# Published policies of the same kind, at 130 % arrived.
BESIDE = {"01-Random": "random", "05-BestFit": "best fit", "06-FGD": "fragmentation gradient descent"}
SEEDS = (1, 2, 3)
ARRIVED = 1.3


def arrivals(work: Workload, seed: int) -> list[int]:
    """Return the positions of the pods in the order in which they arrive."""
    rng = np.random.default_rng(seed)
    gpu = work.cluster.dimensions.index["gpu"]
    asks = np.array(work.requests, dtype=np.int64)[work.request_index, gpu]
    order: list[int] = rng.permutation(
        np.array(sorted(range(len(work)), key=work.ids.__getitem__), dtype=np.int64)
    ).tolist()
    whole = ARRIVED * work.cluster.total()[gpu]
    arrived = int(asks.sum())
    while arrived < whole:
        order.append(int(rng.integers(len(work))))
        arrived += int(asks[order[-1]])
    return order


def allocated(work: Workload, order: str, seed: int) -> float:
    """Return the share of the GPUs that is allocated at the end."""
    core = Scheduler(work.cluster.dimensions, parse_assignments([f"node_order={order}"]))
    total = work.cluster.total()
    nodes = [NodeAdded(node) for node in work.cluster.nodes]
    core.observe(0, [*nodes, GroupsApplied((Group(name="default", quota=Quota(scalar=total[0])),))])
    gpu, given = work.cluster.dimensions.index["gpu"], 0
    for number, i in enumerate(arrivals(work, seed), 1):
        request = work.requests[int(work.request_index[i])]
        requirement = work.template(i).requirement
        core.observe(
            0, [JobSubmitted(Job(id=number, name="pod", group="default", request=request, requirement=requirement))]
        )
        if core.decide(0).items:
            given += request[gpu]
        else:
            core.observe(0, [JobCancelled(number)])
    return given / total[gpu]


def results() -> Iterator[Result]:
    """Yield percents of the GPUs, the published ones first."""
    traces = os.environ.get("CRESS_TRACES")
    if not traces:
        print("no real pods: set CRESS_TRACES to the folder that holds openb/", file=sys.stderr)
        return
    folder = Path(traces) / "openb"
    cluster = load_cluster(folder / "openb_node_list_gpu_node.csv.gz")
    with (folder / "published_gpu_allocation.csv").open() as file:
        published = list(csv.DictReader(file))
    for name in LISTS:
        for row in published:
            if row["workload"] == name and row["policy"] in BESIDE:
                note = f"published, {row['min_at_130']} to {row['max_at_130']}"
                yield Result(f"{name}, {BESIDE[row['policy']]}", float(row["mean_at_130"]), "% of GPUs", note=note)
        work = load_workload(str(folder / f"openb_pod_list_{name}.csv.gz"), cluster, 1)
        for order in ORDERS:
            found = [100 * allocated(work, order, seed) for seed in SEEDS]
            note = f"{len(SEEDS)} seeds, {min(found):.2f} to {max(found):.2f}"
            yield Result(f"{name}, node_order={order}", float(np.mean(found)), "% of GPUs", note=note)
