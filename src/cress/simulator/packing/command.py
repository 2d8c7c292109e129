"""``cress simulate openb``: a comparison of orders of nodes by the recipe, as a summary, a table and a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from cress.model.errors import InputError
from cress.model.option_text import parse_assignments
from cress.simulator.clusterfile import load_cluster
from cress.simulator.packing.page import write_page
from cress.simulator.packing.runs import PackingRun, run_order
from cress.simulator.seeds import seeds_of
from cress.simulator.sweep import LocalSweep, Sweep
from cress.simulator.traces import load_workload
from cress.simulator.traces.openb import GPU
from cress.simulator.workload import Workload

TRACE = "openb"
DEFAULT = "node_order=fragmentation"
ORDER = "node_order"


def settings_of(options: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return a label and the options of each compared setting.

    There is one for each ``node_order``, and for each value of another option that is given several times; all other
    options apply to all settings.
    """
    values: dict[str, list[str]] = {}
    for option in [*options, *([] if any(_key(option) == ORDER for option in options) else [DEFAULT])]:
        values.setdefault(_key(option), []).append(option.strip())
    compared = {key: list(dict.fromkeys(some)) for key, some in values.items() if key == ORDER or len(set(some)) > 1}
    shared = [some[-1] for key, some in values.items() if key not in compared]
    found = [(", ".join(some), [*shared, *some]) for some in product(*compared.values())]
    for _, settings in found:
        parse_assignments(settings)
    return found


def _key(option: str) -> str:
    return option.partition("=")[0].strip()


def read_lists(pods: Path | None, nodes: Path | None, seed: int) -> Workload:
    """Return the pods of one list on the nodes of the other. Raise ``InputError``."""
    if pods is None or nodes is None:
        raise InputError("openb needs pods and nodes", hint="--pods FILE --nodes FILE", field="--pods")
    cluster = load_cluster(nodes)
    if not cluster.dimensions.custom or not cluster.total()[cluster.dimensions.index[GPU]]:
        raise InputError("no node has a GPU", hint="a list with a column gpu", file=str(nodes))
    return load_workload(str(pods), cluster, seed)


def simulate_packing(
    pods: Path | None, nodes: Path | None, out: Path, *, arrive: float, seeds: str, options: Sequence[str],
    tell: Callable[[str, int, int], None] | None, sweep: Sweep | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run every setting with every seed, write the page into ``out`` and return the summary."""
    numbers, compared = seeds_of(seeds), settings_of(options)
    work = read_lists(pods, nodes, numbers[0])
    asked = [(label, settings, seed) for label, settings in compared for seed in numbers]
    tasks = [(work, settings, label, seed, arrive, seed == numbers[0]) for label, settings, seed in asked]
    labels = [f"{label}, seed {seed}" for label, _, seed in asked]
    runs: dict[str, list[PackingRun]] = {}
    for run in (sweep or LocalSweep(1)).results(run_order, tasks, labels, tell):
        runs.setdefault(run.label, []).append(run)
    summary = {
        "pods": str(pods),
        "nodes": str(nodes),
        "arrive": arrive,
        "orders": [_order(result) for result in runs.values()],
    }
    write_page(out / "report.html", summary, work.cluster.nodes, [result[0] for result in runs.values()])
    return summary


def _order(runs: Sequence[PackingRun]) -> dict[str, Any]:
    ends = [run.allocated[-1] for run in runs]
    return {
        "order": runs[0].label,
        "seeds": [run.seed for run in runs],
        "mean": round(fmean(ends), 3),
        "min": min(ends),
        "max": max(ends),
        "bound": round(fmean(run.bound for run in runs), 3),
        "fragments": round(fmean(run.fragments[-1] for run in runs), 3),
        "failed": round(fmean(run.failed[-1] for run in runs), 1),
        "curves": [
            {
                "seed": run.seed, "arrived": run.arrived, "allocated": run.allocated, "fragments": run.fragments,
                "failed": run.failed,
            }
            for run in runs
        ],
    }  # fmt: skip


def table(summary: dict[str, Any]) -> list[list[str]]:
    """Return the rows of the table, the first is its head."""
    rows = [["order", "allocated %", "min", "max", "bound %", "unusable of idle %", "failed pods"]]
    for order in summary["orders"]:
        figures = (order["mean"], order["min"], order["max"], order["bound"])
        rows.append(
            [order["order"], *(f"{x:.2f}" for x in figures), f"{order['fragments']:.1f}", f"{order['failed']:,.0f}"]
        )
    return rows
