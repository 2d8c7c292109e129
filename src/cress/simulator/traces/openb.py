"""The GPU cluster of Alibaba's cluster-trace-gpu-v2023: its nodes with their single GPUs, its lists of pods.

Nodes: ``sn,cpu_milli,memory_mib,gpu,model``. Pods: ``name,cpu_milli,memory_mib,num_gpu,gpu_milli`` and, in most lists,
``gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time`` (seconds). Each pod becomes a row of a table of
jobs.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from cress.model.devices import MOST_DEVICES, facts_of
from cress.model.errors import InputError, InputErrors
from cress.model.node import Device, Node
from cress.model.resources import Dimensions
from cress.simulator.trace_notes import TraceNotes
from cress.simulator.traces.table import Columns, read_csv, workload_of
from cress.simulator.workload import SimulatedCluster, Workload

GPU = "gpu"
MIB = 2**20
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
TIMES = ("creation_time", "deletion_time")
# Latency-sensitive and guaranteed pods first, then burstable ones, then best effort.
PRIORITIES = {"LS": "2", "Guaranteed": "2", "Burstable": "1", "BE": "0"}
# Run time of the pods of a list without times.
STAYS = "365d"
HOW = "cress simulate openb_pod_list_default.csv --cluster openb_node_list_gpu_node.csv"


def is_nodes(header: Sequence[str]) -> bool:
    """Return whether a table with these columns is the list of nodes."""
    return set(NODE_COLUMNS) <= set(header)


def is_pods(header: Sequence[str]) -> bool:
    """Return whether a table with these columns is a list of pods."""
    return set(POD_COLUMNS) <= set(header)


def load_nodes(text: str, file: str) -> SimulatedCluster:
    """Return the cluster of this list: every GPU is a device, its model an attribute.

    Raise ``InputError`` for every mistake.
    """
    dimensions = Dimensions((GPU,))
    reader = csv.DictReader(text.splitlines())
    nodes: list[Node] = []
    errors: list[InputError] = []
    seen: set[str] = set()
    for row in reader:
        try:
            node = _node(row, dimensions, seen)
        except InputError as error:
            errors.append(error.at(file=file, line=reader.line_num))
        else:
            seen.add(node.name)
            nodes.append(node)
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    if not nodes:
        raise InputError("no nodes in it", hint="a row a node", file=file)
    return SimulatedCluster(dimensions, tuple(nodes))


def _node(row: Mapping[str | None, str | None], dimensions: Dimensions, seen: set[str]) -> Node:
    name, model = (row["sn"] or "").strip(), (row["model"] or "").strip()
    if not name:
        raise InputError("a node has no name", hint="openb-node-0000", field="sn")
    if name in seen:
        raise InputError(f"node {name} is defined twice", hint="node names must be unique", field="sn")
    cpu, memory, gpus = (_amount(row[column], column) for column in ("cpu_milli", "memory_mib", "gpu"))
    if gpus > MOST_DEVICES:
        raise InputError(f"{gpus} GPUs are too many for a node", hint=f"at most {MOST_DEVICES}", field="gpu")
    devices = tuple(Device(kind=GPU, id=str(i), model=model) for i in range(gpus))
    capacity = dimensions.vector(cpu=cpu, memory=memory * MIB, gpu=gpus * 1000)
    if not any(capacity):
        raise InputError(f"node {name} has no resources", hint="cores, memory or GPUs")
    return Node(name=name, capacity=capacity, attributes=tuple(facts_of(devices).items()), devices=devices)


def _amount(text: str | None, column: str) -> int:
    word = (text or "").strip()
    if not (word.isascii() and word.isdigit() and len(word) < 13):
        raise InputError(f"{word!r} is not a whole number", hint="0 or more", field=column)
    return int(word)


def load(path: Path, cluster: SimulatedCluster | None) -> Workload:
    """Read a list of pods. Raise ``InputError`` without a cluster, and if no pod is left."""
    if cluster is None:
        raise InputError(
            "a list of pods has no cluster",
            hint=HOW,
            file=str(path),
        )
    notes = TraceNotes()
    pods, lines = read_csv(path, notes)
    jobs: Columns = {
        "job": pods["name"],
        "cpu": [f"{_text(cell)}m" for cell in pods["cpu_milli"]],
        "memory": [f"{_text(cell)}MiB" for cell in pods["memory_mib"]],
        GPU: [_gpus(_text(n), _text(m)) for n, m in zip(pods["num_gpu"], pods["gpu_milli"], strict=True)],
        **_times(pods, lines, notes),
    }
    if "gpu_spec" in pods:
        jobs["requirement"] = [_requirement(_text(cell)) for cell in pods["gpu_spec"]]
    if "qos" in pods:
        jobs["user"] = pods["qos"]
        jobs["priority"] = [PRIORITIES.get(_text(cell), "0") for cell in pods["qos"]]
    return workload_of(path, jobs, lines, cluster, notes)


def _gpus(number: str, milli: str) -> str:
    """Return the text for a part of one GPU, or for whole GPUs."""
    return f"{milli}m" if number == "1" else number


def _requirement(models: str) -> str:
    """Return a text such as ``V100M16|A10`` as a requirement."""
    names = [f'"{name.strip()}"' for name in models.split("|") if name.strip()]
    return f"GPUModel in ({', '.join(names)})" if names else ""


def _times(pods: Columns, lines: list[int], notes: TraceNotes) -> Columns:
    """Return the arrival and run time of each pod; in a list without times, one pod arrives each second and stays."""
    if not all(name in pods for name in TIMES):
        notes.add("no times in the trace", count=1)
        return {"submit": [str(i) for i in range(len(lines))], "run": [STAYS] * len(lines)}
    created, deleted = ([_text(cell) for cell in pods[name]] for name in TIMES)
    scheduled = [_text(cell) for cell in pods.get("scheduled_time", [""] * len(lines))]
    never = [line for line, cell in zip(lines, scheduled, strict=True) if not cell]
    notes.add("not started in the trace", never)
    begun = [start or creation for start, creation in zip(scheduled, created, strict=True)]
    return {"submit": created, "run": [_between(*both) for both in zip(begun, deleted, strict=True)]}


def _between(first: str, last: str) -> str:
    """Return the seconds between two times; without an end -1, which means unknown.

    A cell that is not a time is returned for the table's reader to report.
    """
    if not last:
        return "-1"
    wrong = next(
        (number for number in (first, last) if not (number.isascii() and number.isdigit() and len(number) < 13)), ""
    )
    return wrong or str(max(-1, int(last) - int(first)))


def _text(cell: object) -> str:
    return "" if cell is None else str(cell).strip()
