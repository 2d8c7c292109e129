"""A day of 100,000 jobs, recorded as a center records it, and decided again; the reference is deciding alone."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.result import Result
from cress.center.keeping.event_log import EventLog
from cress.lifecycle.effects import StepResult
from cress.lifecycle.inputs import Input
from cress.lifecycle.machine import Machine
from cress.lifecycle.record import encode_record, record_of
from cress.model.options import Options
from cress.past.chronicle import story
from cress.past.recorded_log import RecordedLog
from cress.past.recorded_work import recorded_work
from cress.past.replaying import replay_log
from cress.simulator.managed import LifecyclePath, ManagedRun
from cress.simulator.traces import load_workload

JOBS, NODES = 100_000, 1_213
# Median run time in seconds with which so many jobs fill the nodes to nine tenths for a day.
RUN = 570


class Recording(Machine):
    """A machine whose steps are appended to an event log, as a center does."""

    log: EventLog
    decided = 0.0

    def step(self, now: int, utc: int, inputs: Sequence[Input] = ()) -> StepResult:
        """Take a step, and append its record."""
        begin = time.perf_counter()
        step = super().step(now, utc, inputs)
        self.decided += time.perf_counter() - begin
        self.log.append(encode_record(record_of(now, utc, inputs, step.facts)))
        if self.log.wants_new_file(utc):
            self.log.begin(self.export(), utc)
        return step


def record_day(folder: Path, jobs: int = JOBS, nodes: int = NODES, seed: int = 7) -> float:
    """Record a generated workload in ``folder/events``; return the seconds that the decisions took."""
    workload = load_workload(f"generated:jobs={jobs},nodes={nodes},groups=20,run={RUN}", None, seed)
    path: Any = LifecyclePath(workload, workload.groups, Options())
    machine = path._machine  # noqa: SLF001 – the recorder stands in its place
    machine.__class__ = Recording
    machine.log = EventLog(folder / "events")
    utc = workload.utc + workload.begin
    machine.log.open(0, [], machine.export, utc)
    names = [workload.group_names[i] for i in workload.group_index.tolist()]
    ManagedRun(workload, machine, list(range(len(workload))), names).run()
    machine.log.close()
    return float(machine.decided)


def results() -> Iterator[Result]:
    """Yield the figures."""
    with tempfile.TemporaryDirectory(prefix="cress-day-") as name:
        folder = Path(name)
        decided = record_day(folder)
        log = RecordedLog(folder)
        size = sum(path.stat().st_size for path in log.paths) / 2**20
        yield Result(f"a day of {JOBS:,} jobs: deciding it, the reference", decided, "s")
        begin = time.perf_counter()
        found = replay_log(log)
        assert found.difference is None, found.difference
        yield Result("cress replay: deciding it again and comparing", time.perf_counter() - begin, "s", goal=60)
        begin = time.perf_counter()
        work = recorded_work(log)
        assert len(work.jobs) == JOBS
        yield Result("reading it as a trace", time.perf_counter() - begin, "s")
        begin = time.perf_counter()
        _, entries = story(log, str(JOBS // 2))
        assert entries
        yield Result("the story of one job", time.perf_counter() - begin, "s")
        yield Result("event files", size, "MiB")


if __name__ == "__main__":
    for result in results():
        print(f"{result.name:<60} {result.value:10.2f} {result.unit}")
