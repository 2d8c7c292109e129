"""Executors that come back after a restart of the center: each tells what runs on it, and is made one with what is
stored.

``python -m benchmarks.reconcile NODES TASKS`` measures one size in this process and prints it as JSON.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec

from benchmarks.result import Result
from cress.lifecycle.inputs import NodeJoined, Reported, Restarted, Submit
from cress.lifecycle.machine import Machine
from cress.model.job import Job
from cress.model.node import Node, Value
from cress.model.options import Options
from cress.model.reports import Report, Started
from cress.model.resources import Dimensions
from cress.model.times import HOUR, SECOND

NODES, TASKS = 10_000, 100_000
# Executors of one step: those whose messages have come while the step before was under way.
BATCH = 20
DIMENSIONS = Dimensions()
CAPACITY = DIMENSIONS.vector(cpu=128_000, memory=256 << 30, network=10**9, disk_read=10**8)
REQUEST = DIMENSIONS.vector(cpu=1_000, memory=1 << 30)
ATTRIBUTES: dict[str, Value] = {
    "OS": "debian", "OSKernel": "6.1.0-13-amd64", "OSVersion": "12", "Glibc": "2.36", "GCC": "12.2", "Python": "3.11.2",
    "Architecture": "x86_64", "CPUModel": "AMD EPYC 7543 32-Core Processor", "CPUs": 16, "MemoryTotal": 64 << 30,
}  # fmt: skip
UTC = 1_800_000_000 * SECOND


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """The fields of an executor's first message that cost something."""

    name: str
    boot: str
    attributes: dict[str, Value]
    reports: tuple[Report, ...]


def node(name: str, attributes: dict[str, Value]) -> Node:
    """A node of this name."""
    return Node(name=name, capacity=CAPACITY, address=name, attributes=tuple(attributes.items()))


def stored(nodes: int, tasks: int) -> tuple[bytes, list[bytes]]:
    """A snapshot of a cluster on which so many tasks run, and what its executors say when they come back."""
    machine = Machine(DIMENSIONS, Options())
    names = [f"node-{number:05d}" for number in range(nodes)]
    now = SECOND
    for first in range(0, nodes, 1000):
        joins = [NodeJoined(node=node(name, ATTRIBUTES), boot="b", terms=True) for name in names[first : first + 1000]]
        machine.step(now, UTC, joins)
    job = Job(id=0, name="array", group="", user="ann", request=REQUEST, tasks=tasks, time_limit=100 * HOUR)
    machine.step(now, UTC, [Submit(jobs=(job,))])
    while (due := machine.next_wakeup()) is not None and due <= now:
        machine.step(now, UTC)
    reports: dict[str, list[Report]] = {name: [] for name in names}
    for attempt in machine.attempts.values():
        reports[attempt.node].append(Started(attempt=attempt.id, at=UTC, pid=4_000 + attempt.id))
    running = [Reported(node=name, reports=tuple(each)) for name, each in reports.items() if each]
    for first in range(0, len(running), 100):
        machine.step(now, UTC, running[first : first + 100])
    assert sum(map(len, reports.values())) == tasks
    hellos = [
        msgspec.msgpack.encode(Hello(name=name, boot="b", attributes=ATTRIBUTES, reports=tuple(reports[name])))
        for name in names
    ]
    return machine.export(), hellos


def measure(nodes: int, tasks: int) -> dict[str, float]:
    """Seconds to restore the snapshot, and until all executors are back; the longest step; the reference; megabytes."""
    program = [sys.executable, "-m", "benchmarks.reconcile", str(nodes), str(tasks), "again"]
    snapshot, hellos = stored(nodes, tasks)
    # In a process of its own: the memory of what made the snapshot does not count.
    process = subprocess.run(program, input=msgspec.msgpack.encode((snapshot, hellos)), capture_output=True, check=True)
    figures: dict[str, float] = json.loads(process.stdout)
    return figures


def again(data: bytes) -> dict[str, float]:
    """What a center does that was started again: load, then take its executors in as they come."""
    snapshot, hellos = msgspec.msgpack.decode(data, type=tuple[bytes, list[bytes]])
    del data
    decode = msgspec.msgpack.Decoder(Hello).decode
    begin = time.process_time()
    for message in hellos:
        decode(message)
    reference = time.process_time() - begin
    begin = time.process_time()
    machine = Machine.restore(snapshot)
    restore = time.process_time() - begin
    del snapshot
    now = 10 * SECOND
    machine.step(now, UTC + now, [Restarted(epoch=2)])
    gc.collect()
    gc.freeze()
    longest, begin = 0.0, time.process_time()
    for first in range(0, len(hellos), BATCH):
        joins = []
        for message in hellos[first : first + BATCH]:
            hello = decode(message)
            joins.append(
                NodeJoined(node=node(hello.name, hello.attributes), boot="b", reports=hello.reports, terms=True)
            )
        start = time.process_time()
        step = machine.step(now, UTC + now, joins)
        longest = max(longest, time.process_time() - start)
        assert not step.launches
        assert not step.halts
    spent = time.process_time() - begin
    assert all(each.connected for each in machine.nodes.values())
    return {
        "restore": restore,
        "reconcile": spent,
        "longest": longest,
        "reference": reference,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def results() -> Iterator[Result]:
    """The figures of 10,000 executors with 100,000 tasks, in seconds of processor time."""
    figures = measure(NODES, TASKS)
    called = f"{NODES:,} executors, {TASKS:,} tasks"
    yield Result(f"come back after a restart: {called}", figures["reconcile"], "s", 5)
    yield Result("reference: their messages decoded, nothing else", figures["reference"], "s")
    yield Result(f"longest step of {BATCH} executors", 1000 * figures["longest"], "ms", 50)
    yield Result("the state before that, restored", figures["restore"], "s")
    yield Result("memory with all of them back", figures["memory"], "MB", 1_200)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        print(json.dumps(again(sys.stdin.buffer.read())))
    else:
        print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
