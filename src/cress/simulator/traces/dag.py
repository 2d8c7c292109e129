"""Batch jobs of Alibaba's cluster-trace-v2018 as dags: one JSON object a line, also gzipped.

``{"job": "j_1", "tasks": [{"name": "R2_1", "instances": 3, "start_time": 9, …}, …]}``. A task of the trace becomes a
job, a step of its dag, with one task for each instance. The numbers in its name are its own and those of its
predecessors: ``J5_2_4`` is number 5, after 2 and 4. A name without numbers has no predecessors. The dag is submitted
when its first task started in the trace.

``cpu_requested`` is hundredths of a core, ``mem_requested`` hundredths of a machine's memory, ``actual_duration`` the
mean run time of an instance in seconds. ``expected_duration``, from the task's first start to its last end, is the time
limit.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cress.model.errors import InputError
from cress.model.job import Condition
from cress.model.node import Node
from cress.model.resources import Dimensions
from cress.model.times import SECOND
from cress.simulator.files import UNREADABLE
from cress.simulator.tidying import tidy
from cress.simulator.trace_notes import TraceNotes
from cress.simulator.workload import NO_LIMIT, SimulatedCluster, Workload

# A letter or two, the task's own number, those of its predecessors; "_Stg1" at the end is a remark of the trace.
NAME = re.compile(r"[A-Za-z]+(\d+)((?:_\d+)*)(?:_Stg\d+)?")

# The machines of the trace; their memory is assumed, since the trace has only parts of it.
CORES, MEMORY = 96, 512 * 2**30
# Without --cluster, the number of machines makes this the average use of their cores.
LOAD = 0.25
CENT = 10  # thousandths of a core in a hundredth

MOST_INSTANCES = 10_000_000


class _TraceStep(NamedTuple):
    """One task of the trace, as read."""

    dag: int
    name: str
    number: int
    before: tuple[int, ...]
    instances: int
    start: float
    run: float
    limit: float
    cpu: int
    memory: float
    line: int


def load(path: Path, cluster: SimulatedCluster | None) -> Workload:
    """Read a trace. Raise ``InputError`` if the file cannot be read or has no dag at all."""
    notes = TraceNotes()
    names, steps = _read(path, notes)
    if not steps:
        raise InputError(
            "no dag in it", hint='lines such as {"job": "j_1", "tasks": [{"name": "M1", …}]}', file=str(path)
        )
    if cluster is None:
        cluster = _machines(steps)
    largest = max(node.capacity[1] for node in cluster.nodes)
    begins = [math.inf] * len(names)
    for step in steps:
        begins[step.dag] = min(begins[step.dag], step.start)
    # The lines of the trace have no particular order.
    steps.sort(key=lambda step: (begins[step.dag], step.dag))
    vectors = [cluster.dimensions.vector(cpu=step.cpu, memory=math.ceil(step.memory / 100 * largest)) for step in steps]
    requests = sorted(set(vectors))
    known = {request: i for i, request in enumerate(requests)}
    return tidy(
        Workload(
            name=path.name.removesuffix(".gz").removesuffix(".jsonl"),
            cluster=cluster,
            ids=[f"{names[step.dag]}.{step.name}" for step in steps],
            submit=np.array([_microseconds(begins[step.dag]) for step in steps], dtype=np.int64),
            run=np.array([_microseconds(step.run) for step in steps], dtype=np.int64),
            limit=np.array([_limit(step) for step in steps], dtype=np.int64),
            tasks=np.array([step.instances for step in steps], dtype=np.int64),
            gang=np.zeros(len(steps), dtype=np.bool_),
            killed=np.zeros(len(steps), dtype=np.bool_),
            priority=np.zeros(len(steps), dtype=np.int64),
            request_index=np.array([known[vector] for vector in vectors], dtype=np.int64),
            requests=requests,
            user_index=np.zeros(len(steps), dtype=np.int64),
            users=[""],
            group_index=np.zeros(len(steps), dtype=np.int64),
            group_names=[""],
            line=np.array([step.line for step in steps], dtype=np.int64),
            notes=notes,
            after=_after(steps, notes),
            family_index=np.array([step.dag for step in steps], dtype=np.int64),
            family_names=tuple(names),
        )
    )


def _read(path: Path, notes: TraceNotes) -> tuple[list[str], list[_TraceStep]]:
    """Return the names of the dags, and all their steps."""
    names: list[str] = []
    steps: list[_TraceStep] = []
    malformed: list[int] = []
    seen: dict[str, int] = {}
    complaint = ""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for line, text in enumerate(file, start=1):
                if not text.strip():
                    continue
                try:
                    name, found = _dag(json.loads(text), len(names), line)
                except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                    malformed.append(line)
                    complaint = complaint or _why(error)
                    continue
                if name in seen:
                    notes.add("duplicate job id", [line])
                seen[name] = line
                names.append(name)
                steps += found
    except UNREADABLE as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot be read: {reason}", file=str(path)) from error
    notes.add("malformed line", malformed, detail=complaint)
    return names, steps


def _why(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no {error.args[0]}"
    return "not valid JSON" if isinstance(error, json.JSONDecodeError) else str(error)


def _dag(data: Any, dag: int, line: int) -> tuple[str, list[_TraceStep]]:
    """Return the dag of one line. Raise ``KeyError``, ``TypeError`` or ``ValueError`` if the line is invalid."""
    steps = [_step(entry, dag, line) for entry in data["tasks"]]
    if not steps:
        raise ValueError("no tasks")
    numbers = [step.number for step in steps if step.number]
    if len(set(numbers)) < len(numbers):
        raise ValueError("two tasks with the same number")
    _check_order(steps)
    return str(data["job"]), steps


def _step(data: dict[str, Any], dag: int, line: int) -> _TraceStep:
    name = str(data["name"])
    match = NAME.fullmatch(name)
    run = data.get("actual_duration")
    limit = data.get("expected_duration")
    figures: list[float] = [float(data["start_time"]), float(data["expected_duration"] if run is None else run)]
    figures.append(float(data["cpu_requested"]))
    instances, memory = float(data["instances"]), float(data.get("mem_requested") or 0)
    if not all(0 <= figure < 1e12 for figure in (*figures, memory)) or not 1 <= instances <= MOST_INSTANCES:
        raise ValueError("a number is too large or negative")
    start, length, cpu = figures
    return _TraceStep(
        dag=dag,
        name=name,
        number=int(match[1]) if match else 0,
        before=tuple(dict.fromkeys(int(word) for word in match[2].split("_")[1:])) if match else (),
        instances=int(instances),
        start=start,
        run=length,
        limit=-1.0 if limit is None else float(limit),
        cpu=max(1, math.ceil(cpu * CENT)),
        memory=memory,
        line=line,
    )


def _check_order(steps: list[_TraceStep]) -> None:
    """Raise ``ValueError`` if the predecessors of tasks form a cycle."""
    left = {step.number: {number for number in step.before if number != step.number} for step in steps if step.number}
    if any(step.number in step.before for step in steps if step.number):
        raise ValueError("a task depends on itself")
    while left:
        free = [number for number, before in left.items() if not before & left.keys()]
        if not free:
            raise ValueError("tasks wait for each other")
        for number in free:
            del left[number]


def _after(steps: list[_TraceStep], notes: TraceNotes) -> tuple[tuple[tuple[int, Condition], ...], ...]:
    place = {(step.dag, step.number): i for i, step in enumerate(steps) if step.number}
    missing = [step.line for step in steps for number in step.before if (step.dag, number) not in place]
    notes.add("unknown predecessor", missing)
    return tuple(
        tuple((place[step.dag, number], Condition.OK) for number in step.before if (step.dag, number) in place)
        for step in steps
    )


def _machines(steps: list[_TraceStep]) -> SimulatedCluster:
    """Return machines like those of the trace, as many as give the mean load ``LOAD``; at least one."""
    dimensions = Dimensions()
    work = sum(step.cpu / 1000 * step.instances * step.run for step in steps)
    span = max(step.start + step.run for step in steps) - min(step.start for step in steps)
    count = max(1, math.ceil(work / max(span, 1) / LOAD / CORES))
    capacity = dimensions.vector(cpu=CORES * 1000, memory=MEMORY)
    return SimulatedCluster(dimensions, tuple(Node(name=f"machine-{i + 1}", capacity=capacity) for i in range(count)))


def _limit(step: _TraceStep) -> int:
    # The trace rounds the mean duration, which may therefore exceed the limit.
    return NO_LIMIT if step.limit < 0 else _microseconds(max(step.limit, step.run))


def _microseconds(seconds: float) -> int:
    return round(seconds * SECOND)
