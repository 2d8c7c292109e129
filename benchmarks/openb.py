"""The share of the GPUs of cluster-trace-gpu-v2023 that each order of nodes can allocate, beside the published ones;
the plot of docs/packing.md.

The recipe of "Beware of Fragmentation" (USENIX ATC'23): no departures; the pods of a list, sorted by name and shuffled,
then random ones of them, until requests reach 130 % of the GPUs; a pod that fits nowhere is skipped. Another
generator's shuffle moves a result by some 0.3 points: means over seeds. Every list in the folder is measured.
"""

from __future__ import annotations

import csv
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.line_plot import Panel, line_plot
from benchmarks.result import Result
from cress.core.scheduler import Scheduler
from cress.model.events import GroupsApplied, JobCancelled, JobSubmitted, NodeAdded
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.option_text import parse_assignments
from cress.simulator.clusterfile import load_cluster
from cress.simulator.packing.arrivals import arrivals
from cress.simulator.packing.runs import PackingRun, run_order
from cress.simulator.traces import load_workload
from cress.simulator.workload import Workload

# The lists of the plot.
PLOTTED = ("default", "gpushare40", "multigpu20")
PREFIX = "openb_pod_list_"
# Of the seeds, so many for each order; the first ``DRAWN`` of them for the plot.
ORDERS = {"best_fit": 3, "balance": 3, "fragmentation": 10}
DRAWN = 1
# What the default order should reach; on the other lists more than every published policy.
GOALS = {"default": 96.2}
# Published policies of the same kind, at 130 % arrived.
BESIDE = {"01-Random": "random", "05-BestFit": "best fit", "06-FGD": "fragmentation gradient descent"}
SEEDS = tuple(range(42, 52))
ARRIVED = 1.3
# Where the plot begins, in percent arrived, and every so many-th point of it has a mark.
FROM, EVERY = 70, 5
PLOT = Path("build/packing.svg")


def rate(work: Workload, order: str, seed: int) -> float:
    """Return the pods that are decided in a second of processor time."""
    core = Scheduler(work.cluster.dimensions, parse_assignments([f"node_order={order}"]))
    nodes = [NodeAdded(node) for node in work.cluster.nodes]
    core.observe(0, [*nodes, GroupsApplied((Group(name="pods", quota=Quota(scalar=work.cluster.total()[0])),))])
    pods = arrivals(work, seed, ARRIVED)
    before = time.process_time()
    for number, i in enumerate(pods, 1):
        request = work.requests[int(work.request_index[i])]
        core.observe(0, [JobSubmitted(Job(id=number, name="pod", group="pods", request=request))])
        if not core.decide(0).items:
            core.observe(0, [JobCancelled(number)])
    return len(pods) / (time.process_time() - before)


def panel(title: str, runs: dict[str, Sequence[PackingRun]]) -> Panel:
    """Return what was asked for, up to all GPUs, and is not allocated, in % of the GPUs: means over the seeds."""
    points = range(FROM - 1, min(len(run.arrived) for each in runs.values() for run in each), EVERY)
    lines = {
        order: [fmean(min(100.0, run.arrived[i]) - run.allocated[i] for run in each) for i in points]
        for order, each in runs.items()
    }
    return Panel(title, [float(i + 1) for i in points], lines)


def openb_folder() -> Path | None:
    """Return the folder of the real pods and nodes; without it, say so on standard error."""
    traces = os.environ.get("CRESS_TRACES")
    if not traces:
        print("no real pods: set CRESS_TRACES to the folder that holds openb/", file=sys.stderr)
        return None
    return Path(traces) / "openb"


def results() -> Iterator[Result]:
    """Yield percents of the GPUs, the published ones first, then how fast pods are decided; write the plot."""
    folder = openb_folder()
    if folder is None:
        return
    cluster = load_cluster(folder / "openb_node_list_gpu_node.csv.gz")
    with (folder / "published_gpu_allocation.csv").open() as file:
        published = list(csv.DictReader(file))
    panels = []
    for path in sorted(folder.glob(f"{PREFIX}*.csv*")):
        name = path.name.partition(".")[0].removeprefix(PREFIX)
        for row in published:
            if row["workload"] == name and row["policy"] in BESIDE:
                note = f"published, {row['min_at_130']} to {row['max_at_130']}"
                yield Result(f"{name}, {BESIDE[row['policy']]}", float(row["mean_at_130"]), "% of GPUs", note=note)
        best = max((float(row["mean_at_130"]) for row in published if row["workload"] == name), default=None)
        work = load_workload(str(path), cluster, 1)
        runs: dict[str, Sequence[PackingRun]] = {}
        for order, number in ORDERS.items():
            settings = [f"node_order={order}"]
            runs[order] = [run_order(work, settings, order, seed, ARRIVED, heat=False) for seed in SEEDS[:number]]
            found = [run.allocated[-1] for run in runs[order]]
            note = f"{number} seeds, {min(found):.2f} to {max(found):.2f}"
            goal = GOALS.get(name, best) if order == "fragmentation" else None
            yield Result(f"{name}, node_order={order}", fmean(found), "% of GPUs", goal, at_least=True, note=note)
        yield Result(
            f"{name}, bound", fmean(run.bound for run in runs["fragmentation"]), "% of GPUs", note="relaxation"
        )
        if name in PLOTTED:
            panels.append(panel(name, {order: each[:DRAWN] for order, each in runs.items()}))
    PLOT.parent.mkdir(exist_ok=True)
    PLOT.write_text(line_plot(panels, x="GPUs asked for, % of all", y="asked for and not allocated, % of all GPUs"))
    work = load_workload(str(folder / "openb_pod_list_default.csv.gz"), cluster, 1)
    for order in ("balance", "fragmentation"):
        rate(work, order, SEEDS[0])
        yield Result(f"pods decided, node_order={order}", rate(work, order, SEEDS[0]), "pods/s", note="1,213 nodes")
