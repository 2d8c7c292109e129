"""Training jobs with deadlines, in the format of the Chronus simulator (SoCC'21) for Microsoft's Philly clusters.

One job a row: ``job_id,user,num_gpu,submit_time,duration,expect_time_list,job_type,…``. Times are minutes. The user is
a virtual cluster, which becomes a group with a quota by its demand. A strict or soft job should have ended
``expect_time_list`` after its submission. The scheduler of that work knows how long jobs run, so run times are time
limits. Without ``--cluster`` there are nodes of eight GPUs, as many as the load requires.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from math import ceil, gcd
from pathlib import Path

import numpy as np

from cress.model.errors import InputError
from cress.model.group import Group, Quota
from cress.model.node import Node
from cress.model.resources import Dimensions
from cress.model.whole_numbers import whole_number
from cress.simulator.load import DEFAULT_LOAD, demand, span
from cress.simulator.trace_notes import TraceNotes
from cress.simulator.traces.table import Columns, read_csv, workload_of
from cress.simulator.workload import SimulatedCluster, Workload

GPU = "gpu"
GPUS_OF_NODE = 8
CORE = 1000
# Types of jobs with a deadline. That of a soft one may be missed at a price, which later times of its list name.
STRICT, SOFT = "strict", "soft"
NOT_GIVEN = ("", "0", "-1")
TIMES = re.compile(r"[-;|\s]+")


def load(path: Path, cluster: SimulatedCluster | None, load: float | None = None) -> Workload:
    """Return the jobs. Raise ``InputError`` for a cluster without GPUs, and if both a cluster and a load are given."""
    if cluster is not None and load is not None:
        raise InputError("sets the number of nodes of this trace", hint="either --load or --cluster", field="--load")
    if cluster is not None and GPU not in cluster.dimensions.index:
        raise InputError("the nodes have no GPUs", hint="dimensions: [gpu]", file=str(path))
    known = cluster or _nodes(1)
    index = known.dimensions.index[GPU]
    largest = max(1, max(node.capacity[index] for node in known.nodes) // CORE)
    notes = TraceNotes()
    jobs, lines = read_csv(path, notes)
    lines = _in_order(jobs, lines)
    workload = workload_of(path, _columns(jobs, lines, largest, notes), lines, known, notes)
    notes.add("no time limits in the trace", count=1)
    if cluster is None:
        work = demand(workload)[index]
        # Jobs that are all submitted at once have no load: they get room for all of them.
        asks = np.array([request[index] for request in workload.requests], dtype=np.float64)
        at_once = float((asks[workload.request_index] * workload.tasks).sum())
        cores = work / span(workload) / (load or DEFAULT_LOAD) if span(workload) else at_once
        number = ceil(cores / (GPUS_OF_NODE * CORE))
        workload = replace(workload, cluster=_nodes(max(number, _most_nodes(workload))))
    return replace(workload, groups=_groups(workload, index))


def _in_order(jobs: Columns, lines: list[int]) -> list[int]:
    """Sort the columns by submit time, since the file is not sorted; return the lines in the same order."""
    order = sorted(range(len(lines)), key=lambda i: _number(jobs["submit_time"][i]))
    for name, column in jobs.items():
        jobs[name] = [column[i] for i in order]
    return [lines[i] for i in order]


def _number(cell: object) -> float:
    text = str(cell).strip()
    return float(text) if text.isascii() and text.replace(".", "", 1).isdigit() else 0.0


def _columns(jobs: Columns, lines: list[int], largest: int, notes: TraceNotes) -> Columns:
    """Return the rows of a table of jobs.

    A job with more GPUs than a node becomes a gang of equal tasks, as few as divide them.
    """
    gpus = [str(cell).strip() for cell in jobs["num_gpu"]]
    tasks = [number // gcd(number, largest) if (number := whole_number(text) or 0) > largest else 1 for text in gpus]
    per_task = [str(int(text) // k) if k > 1 else text for text, k in zip(gpus, tasks, strict=True)]
    run = _minutes(jobs, "duration")
    kinds = [str(kind).strip().lower() for kind in jobs["job_type"]]
    notes.add("soft deadline", [number for number, kind in zip(lines, kinds, strict=True) if kind == SOFT])
    due = [
        _first_time(times) if kind in (STRICT, SOFT) else ""
        for times, kind in zip(jobs["expect_time_list"], kinds, strict=True)
    ]
    return {
        "job": jobs["job_id"],
        "group": jobs["user"],
        "submit": _minutes(jobs, "submit_time"),
        "run": run,
        "time_limit": run,
        "tasks": [str(k) for k in tasks],
        "gang": ["true" if k > 1 else "" for k in tasks],
        "cpu": per_task,
        GPU: per_task,
        "deadline": due,
    }


def _first_time(times: object) -> str:
    """Return the first of the times of a job, as in ``60-120``; empty if none is given."""
    text = str(times).strip()
    return "" if text in NOT_GIVEN else f"{TIMES.split(text)[0] or text}min"


def _minutes(jobs: Columns, name: str) -> list[str]:
    return [f"{str(cell).strip()}min" for cell in jobs[name]]


def _nodes(number: int) -> SimulatedCluster:
    """Return a cluster of nodes with eight GPUs and a core for each GPU."""
    dimensions = Dimensions((GPU,))
    capacity = dimensions.vector(cpu=GPUS_OF_NODE * CORE, gpu=GPUS_OF_NODE * CORE)
    width = len(str(number))
    return SimulatedCluster(
        dimensions, tuple(Node(name=f"gpu-{i:0{width}d}", capacity=capacity) for i in range(1, number + 1))
    )


def _most_nodes(workload: Workload) -> int:
    """Return the number of nodes that the largest job takes."""
    return int(workload.tasks.max())


def _groups(workload: Workload, index: int) -> tuple[Group, ...]:
    """Return a group for each virtual cluster; its part of the cores equals its part of the demand for GPUs."""
    asks = [request[index] for request in workload.requests]
    work: dict[str, int] = defaultdict(int)
    for i, (name, request) in enumerate(
        zip(workload.group_index.tolist(), workload.request_index.tolist(), strict=True)
    ):
        work[workload.group_names[name]] += asks[request] * int(workload.tasks[i]) * int(workload.run[i])
    whole, cores = sum(work.values()), workload.cluster.total()[0] // CORE
    return tuple(
        Group(name=name, quota=Quota(scalar=CORE * max(1, round(cores * part / whole))))
        for name, part in sorted(work.items())
    )
