"""Look-alikes of the seventeen pod lists of cluster-trace-gpu-v2023, made of its default list, and what is allocated of
the GPUs with each.

"Beware of Fragmentation" (USENIX ATC'23, §6) varies its default list in four ways. Here each is drawn anew, with one
seed:

* ``cpu050`` … ``cpu250``: 5 to 25 % of the pods ask for no GPU;
* ``gpushare40`` … ``gpushare100``: so many percent of what is asked for of GPUs is asked for by pods that share one;
* ``multigpu20`` … ``multigpu50``: so many percent of it by pods with several GPUs, which are added;
* ``gpuspec10`` … ``gpuspec33``: so many percent of the pods with GPUs name the models that they can use: half of them
  one, half two, drawn in proportion to the square root of the number of their GPUs among those whose nodes are large
  enough, so that rare ones are asked for more often than they are there.

Beside the default order stand, with one seed each, ``balance`` and the published measure alone: the default order with
its weights of copies, filling, blend and balance at 0.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.openb import openb_folder
from benchmarks.result import Result
from cress.simulator.clusterfile import load_cluster
from cress.simulator.packing.runs import run_order
from cress.simulator.traces import load_workload

Row = dict[str, str]
LISTS = (
    "default",
    "cpu050",
    "cpu100",
    "cpu200",
    "cpu250",
    "gpushare40",
    "gpushare60",
    "gpushare80",
    "gpushare100",
    "multigpu20",
    "multigpu30",
    "multigpu40",
    "multigpu50",
    "gpuspec10",
    "gpuspec20",
    "gpuspec25",
    "gpuspec33",
)
DRAW = 7
# Others than those with which weights were tried.
SEEDS = (46, 47)
ARRIVED = 1.3
# The published policy looks at the next task alone.
PUBLISHED = (
    "fragmentation_copies=0",
    "fragmentation_filling=0",
    "fragmentation_balance=0",
    "fragmentation_blend=0",
)
# What is compared: a label, options, seeds.
COMPARED = (
    ("next alone", ("node_order=fragmentation", *PUBLISHED), SEEDS[:1]),
    ("balance", ("node_order=balance",), SEEDS[:1]),
    ("fragmentation", ("node_order=fragmentation",), SEEDS),
)
FOLDER = Path("build/look_alikes")


def _asks(row: Row) -> int:
    """Return the thousandths of GPUs that a pod asks for."""
    return int(row["num_gpu"]) * int(row["gpu_milli"])


def _some(rng: np.random.Generator, rows: Sequence[Row], number: int) -> list[Row]:
    """Return so many of the rows: different ones as far as there are any, then any."""
    order = rng.permutation(len(rows))[:number].tolist()
    order += rng.integers(len(rows), size=number - len(order)).tolist()
    return [dict(rows[i]) for i in order]


def look_alike(name: str, rows: Sequence[Row], nodes: Sequence[Row]) -> list[Row]:
    """Return the pods of the list of this name, made of those of the default list."""
    rng = np.random.default_rng(DRAW)
    kind = name.rstrip("0123456789")
    percent = int(name[len(kind) :] or 0)
    plain = [row for row in rows if row["num_gpu"] == "0"]
    parts = [row for row in rows if row["num_gpu"] == "1" and int(row["gpu_milli"]) < 1000]
    several = [row for row in rows if int(row["num_gpu"]) > 1]
    whole = [row for row in rows if _asks(row) >= 1000]
    gpus = [*parts, *whole]
    if kind == "cpu":
        number = round(percent / 1000 * len(rows))
        return _some(rng, plain, number) + _some(rng, gpus, len(rows) - number)
    if kind == "gpushare":
        part, one = fmean(map(_asks, parts)), fmean(map(_asks, whole))
        # x parts of the pods share, and x part / (x part + (1 - x) one) is the percentage.
        x = percent * one / (percent * one + (100 - percent) * part)
        number = round(x * len(gpus))
        return [*map(dict, plain), *_some(rng, parts, number), *_some(rng, whole, len(gpus) - number)]
    found = list(map(dict, rows))
    if kind == "multigpu":
        total, multi = sum(map(_asks, rows)), sum(map(_asks, several))
        while 100 * multi < percent * total:
            found.append(dict(several[int(rng.integers(len(several)))]))
            multi += _asks(found[-1])
            total += _asks(found[-1])
    if kind == "gpuspec":
        asking = [row for row in found if _asks(row)]
        for i in rng.permutation(len(asking))[: round(percent / 100 * len(asking))].tolist():
            asking[i]["gpu_spec"] = _models(rng, asking[i], nodes)
    return found


def _models(rng: np.random.Generator, pod: Row, nodes: Sequence[Row]) -> str:
    """Return one or two models whose nodes are large enough for the pod."""
    count: dict[str, int] = {}
    for node in nodes:
        if all(
            int(node[mine]) >= int(pod[its])
            for mine, its in (("gpu", "num_gpu"), ("cpu_milli", "cpu_milli"), ("memory_mib", "memory_mib"))
        ):
            count[node["model"]] = count.get(node["model"], 0) + int(node["gpu"])
    weights = np.sqrt(list(count.values()))
    number = min(len(count), int(rng.integers(1, 3)))
    return "|".join(
        rng.choice(sorted(count), size=number, replace=False, p=weights[np.argsort(list(count))] / weights.sum())
    )


def write(name: str, rows: Sequence[Row]) -> Path:
    """Write a list as the trace has them, and return its file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"openb_pod_list_{name}.csv"
    columns = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        for i, row in enumerate(rows):
            writer.writerow({**row, "name": f"openb-pod-{i:04}"})
    return path


def _read(path: Path) -> list[Row]:
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


def results() -> Iterator[Result]:
    """Yield what is allocated of the GPUs with each list, means over the seeds, by what is compared."""
    folder = openb_folder()
    if folder is None:
        return
    rows, nodes = (_read(folder / f"openb_{each}.csv.gz") for each in ("pod_list_default", "node_list_gpu_node"))
    cluster = load_cluster(folder / "openb_node_list_gpu_node.csv.gz")
    for name in LISTS:
        work = load_workload(str(write(name, look_alike(name, rows, nodes))), cluster, 1)
        for label, settings, seeds in COMPARED:
            runs = [run_order(work, settings, label, seed, ARRIVED, heat=False) for seed in seeds]
            found = [run.allocated[-1] for run in runs]
            note = (
                f"{min(found):.2f} to {max(found):.2f}; seeds {seeds[0]} to {seeds[-1]}, {len(work):,} pods, "
                f"bound {fmean(run.bound for run in runs):.2f}"
            )
            yield Result(f"look-alike of {name}, {label}", fmean(found), "% of GPUs", note=note)
