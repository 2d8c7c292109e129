"""How good expected starts are: real logs, simulated, with forecasts for a sample of jobs that wait at their submit.

The forecast is the one of ``cress explain``: the scheduler runs forward three times. The bounds hold a start if it is
not earlier than the earliest and not later than the latest one. The plain forecast for comparison is the run by limits.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks.result import Result
from cress.core.answers.explain import expected_start
from cress.core.answers.forward import Forecast
from cress.core.estimator import Estimator
from cress.core.scheduler import Scheduler
from cress.model.decisions import Decisions, Start
from cress.model.events import Event, JobSubmitted, TaskEnded
from cress.model.explanation import ExpectedStart
from cress.model.group import Group, Quota, SchedPolicy
from cress.model.options import Options
from cress.simulator.direct import ONE_BY_ONE, DirectRun
from cress.simulator.paths import DirectPath
from cress.simulator.traces import load_workload

LOGS = ("KTH-SP2", "SDSC-SP2")
# Jobs of each log that are simulated, and every how many waiting ones gets a forecast.
MOST_JOBS, EVERY = 6_000, 8


class Restored:
    """Copies of a scheduler, each restored from its state."""

    def __init__(self, core: Scheduler) -> None:
        self._state = msgspec.msgpack.encode(core.export())

    def holds(self, trial: Callable[[Scheduler], bool]) -> bool:
        """See ``Copies``."""
        return trial(self._copy())

    def forecast(self, trial: Callable[[Scheduler], Forecast]) -> Forecast:
        """See ``Copies``."""
        return trial(self._copy())

    def patient(self) -> bool:
        """See ``Copies``."""
        return True

    def _copy(self) -> Scheduler:
        return Scheduler.restore(msgspec.msgpack.decode(self._state))


class Foretelling:
    """A scheduler as the simulator calls it, which also foretells the starts of some waiting jobs."""

    def __init__(self, core: Scheduler) -> None:
        self._core = core
        self._fresh: list[int] = []
        self._seen = 0
        self._estimator = Estimator(core.settled)
        self._known: dict[int, JobSubmitted] = {}
        self.submitted: dict[int, int] = {}
        self.foretold: dict[int, ExpectedStart] = {}
        self.started: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def observe(self, now: int, events: Sequence[Event]) -> None:
        """Learn from ends, as a center does, and note new jobs."""
        for event in events:
            if isinstance(event, TaskEnded) and event.attempt in self._core.attempts:
                attempt = self._core.attempts[event.attempt]
                self._estimator.ended(attempt.job.job, now - attempt.start)
            elif isinstance(event, JobSubmitted):
                self._fresh.append(event.job.id)
                self.submitted[event.job.id] = now
        self._core.observe(now, events)

    def decide(self, now: int) -> Decisions:
        """Decide, and foretell the starts of some of the new jobs that wait."""
        decided = self._core.decide(now)
        for item in decided.items:
            if isinstance(item, Start):
                self.started.setdefault(item.job, now)
        if not decided.more:
            for number in self._fresh:
                if number not in self.started:
                    self._seen += 1
                    if self._seen % EVERY == 0:
                        estimates = {job: self._estimator.expected(entry.job) for job, entry in self._core.jobs.items()}
                        self.foretold[number] = expected_start(number, Restored(self._core), estimates)
            self._fresh.clear()
        return decided


def results() -> Iterator[Result]:
    """Yield coverage, width and errors of the forecasts."""
    traces = os.environ.get("CRESS_TRACES")
    if not traces:
        print("no real logs: set CRESS_TRACES to the folder that holds swf/", file=sys.stderr)
        return
    for log in LOGS:
        yield from _of(log, Path(traces) / "swf" / f"{log}.swf.gz")


def _of(log: str, path: Path) -> Iterator[Result]:
    work = load_workload(str(path), None, 1)
    quota = Quota(scalar=sum(node.capacity[0] for node in work.cluster.nodes))
    group = Group(name="default", quota=quota, policy=SchedPolicy.BACKFILL)
    core = Foretelling(DirectPath(work, (group,), Options(), ONE_BY_ONE).core)
    jobs = list(range(min(MOST_JOBS, len(work))))
    DirectRun(work, core, jobs, ["default"] * len(jobs)).run(ONE_BY_ONE)
    rows = [
        (found.earliest, found.likely, found.latest, core.started[number], core.submitted[number])
        for number, found in core.foretold.items()
        if found.likely is not None and found.latest is not None and number in core.started
    ]
    early, likely, late, real, since = np.array(rows, np.int64).T / 1e6
    wait = np.maximum(1.0, real - since)
    where = f"{len(rows)} of {len(core.foretold)} forecasts, {len(jobs):,} jobs, EASY"
    inside = (early <= real + 1) & (real <= late + 1)
    yield Result(f"{log}: starts within the bounds", 100 * float(inside.mean()), "%", note=where)
    width = float(np.median((late - early) / wait))
    yield Result(f"{log}: width of the bounds / wait, median", width, "", note=where)
    error, plain = (float(np.abs(told - real).mean() / 60) for told in (likely, late))
    yield Result(f"{log}: error of the expected start, mean", error, "min", note=where)
    yield Result(f"{log}: error of the latest start (limits), mean", plain, "min", note="for comparison")
