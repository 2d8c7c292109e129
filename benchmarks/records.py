"""The size of the log: bytes for each start of a task of an array, and for the whole life of a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.reconcile import ATTRIBUTES, DIMENSIONS, UTC, node
from benchmarks.result import Result
from cress.lifecycle.inputs import Input, NodeJoined, Reported, Submit
from cress.lifecycle.machine import Machine
from cress.lifecycle.record import encode_record, record_of
from cress.model.job import Job
from cress.model.options import Options
from cress.model.reports import Cause, Ended, Report, Started, Usage
from cress.model.times import MINUTE, SECOND

NODES, ROUNDS = 100, 20
# 16 of them fill a node.
REQUEST = DIMENSIONS.vector(cpu=8_000, memory=8 << 30)


class _Log:
    """A machine whose steps are written as records, of which only the sizes are kept."""

    def __init__(self) -> None:
        self.machine = Machine(DIMENSIONS, Options())
        self.now = SECOND

    def step(self, inputs: Sequence[Input] = ()) -> int:
        """Take a step; return the bytes of its record."""
        self.now += SECOND
        utc = UTC + self.now
        step = self.machine.step(self.now, utc, inputs)
        return len(encode_record(record_of(self.now, utc, inputs, step.facts)))


def sizes() -> tuple[float, float, float]:
    """Bytes for each start when an array begins, for each start in its course, and for each task from start to end."""
    log = _Log()
    machine = log.machine
    log.step([NodeJoined(node=node(f"node-{number:05d}", ATTRIBUTES), boot="b") for number in range(NODES)])
    job = Job(id=0, name="array", group="", user="ann", request=REQUEST, tasks=1_000_000, time_limit=100 * MINUTE)
    first = log.step([Submit(jobs=(job,))])
    at_once = first / len(machine.attempts)
    starts = whole = tasks = 0
    for _ in range(ROUNDS):
        by_node: dict[str, list[int]] = {}
        for attempt in machine.attempts.values():
            by_node.setdefault(attempt.node, []).append(attempt.id)
        begun = UTC + log.now
        for name, attempts in by_node.items():
            reports: list[Report] = [Started(attempt=attempt, at=begun, pid=4_000) for attempt in attempts]
            whole += log.step([Reported(node=name, reports=tuple(reports))])
        for name, attempts in by_node.items():
            ended = [
                Ended(
                    attempt=attempt,
                    cause=Cause.EXITED,
                    code=0,
                    started=begun,
                    at=begun + SECOND,
                    usage=Usage(SECOND, 2**20),
                )
                for attempt in attempts
            ]
            before = len(machine.attempts)
            size = log.step([Reported(node=name, reports=tuple(ended))])
            assert len(machine.attempts) == before
            whole += size
            starts += size
            tasks += len(attempts)
    return at_once, starts / tasks, whole / tasks


def results() -> Iterator[Result]:
    """The figures of an array of tasks of which 16 fill a node."""
    at_once, course, whole = sizes()
    yield Result("log: bytes a start, when an array begins", at_once, "bytes", 64)
    yield Result("log: bytes an end and the start in its place", course, "bytes")
    yield Result("log: bytes a task, from its start to its end", whole, "bytes")
