"""Forecasts of deadlines beside what came: bursts of short jobs with history, whose limits say little.

A deadline that cannot be met is missed, and one that is fine is met, but for what estimates cannot know.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cress.core.scheduler import Scheduler
from cress.model.decisions import Decisions, Start
from cress.model.events import Event, JobSubmitted, TaskEnded
from cress.model.outlook import Promise
from cress.simulator import run
from cress.simulator.direct import DirectRun
from cress.simulator.groups import with_policy
from cress.simulator.paths import path_of
from cress.simulator.request import Request
from cress.simulator.scheduler_path import DirectPath
from cress.simulator.workload import NO_LIMIT

# Deadlines from the submission on (s).
DUE = (2, 4, 7, 10, 13, 16, 20, 40, 90)
ALARM = "alarm"
NODES = "nodes:\n  - {name: n, resource: <2>}\n"


class Asking:
    """A scheduler as the simulator calls it, which is asked for the forecast of each job once it was submitted."""

    def __init__(self, core: Scheduler) -> None:
        self._core = core
        self._fresh: list[int] = []
        self._job: dict[int, int] = {}
        self.promises: dict[int, Promise] = {}
        # Jobs of which an event would tell that their deadline is at risk.
        self.alarms: set[int] = set()
        self.ends: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def observe(self, now: int, events: Sequence[Event]) -> None:
        """Note submissions and ends."""
        self._fresh += [event.job.id for event in events if isinstance(event, JobSubmitted)]
        self.ends |= {self._job[event.attempt]: now for event in events if isinstance(event, TaskEnded)}
        self._core.observe(now, events)

    def decide(self, now: int) -> Decisions:
        """Decide, then ask."""
        decided = self._core.decide(now)
        self._job |= {item.attempt: item.job for item in decided.items if isinstance(item, Start)}
        for number in self._fresh if not decided.more else ():
            outlook = self._core.outlook(number)
            if outlook is not None:
                self.promises[number] = outlook.promise
                likely = outlook.likely_end
                late = outlook.chance is not None and likely is not None and likely > outlook.deadline
                if outlook.promise is Promise.CANNOT or (outlook.promise is Promise.AT_RISK and late):
                    self.alarms.add(number)
        self._fresh = [] if not decided.more else self._fresh
        return decided


def rows(seed: int) -> Iterable[str]:
    """A history of runs of about 3 s with a limit of a minute, then bursts of ten such jobs with deadlines."""
    chance = random.Random(seed)
    yield "job,group,user,submit,run,time_limit,cpu,deadline"
    now = 0
    for number in range(12):
        yield f"h{number},g,ann,{now},{3 * chance.uniform(0.95, 1.05):.3f},60,1,"
        now += 5
    for burst in range(8):
        for number in range(10):
            length = 3 * chance.uniform(0.95, 1.05)
            yield f"b{burst}.{number},g,ann,{now},{length:.3f},60,1,{chance.choice(DUE)}"
        now += 60


def outcomes(tmp_path: Any, policy: str, seeds: Iterable[int]) -> Counter[tuple[Promise | str, bool]]:
    """Count forecasts at submit, by what they were and whether the deadline was met."""
    found: Counter[tuple[Promise | str, bool]] = Counter()
    (tmp_path / "nodes.yaml").write_text(NODES)
    for seed in seeds:
        (tmp_path / "jobs.csv").write_text("\n".join(rows(seed)) + "\n")
        request = Request(
            trace=str(tmp_path / "jobs.csv"), cluster=tmp_path / "nodes.yaml", out=tmp_path / "out", policies=(policy,)
        )
        plan = run.plan(request)
        groups = with_policy(plan.workload.groups, plan.choices[0])
        path = path_of(plan.workload, groups, plan.options, "together")
        assert isinstance(path, DirectPath)
        core = Asking(path.core)
        # Jobs of a trace are named by their ids; here all have one name, so that earlier runs of it are known.
        work = replace(plan.workload, ids=["short"] * len(plan.workload))
        names = [plan.group_names[i] for i in plan.group_of.tolist()]
        DirectRun(work, core, list(range(len(work))), names).run("together")
        assert work.deadline is not None
        for number, promise in core.promises.items():
            due = int(work.deadline[number - 1])
            if due != NO_LIMIT:
                met = core.ends[number] <= due
                found[promise, met] += 1
                found[ALARM, met] += number in core.alarms
    return found


@pytest.mark.parametrize("policy", ["Urgency", "EDF", "FIFO", "BackFill"])
def test_what_cannot_be_met_is_missed_and_what_is_fine_is_met(tmp_path: Any, policy: str) -> None:
    found = outcomes(tmp_path, policy, range(3))
    lost, fine = (sum(found[promise, met] for met in (False, True)) for promise in (Promise.CANNOT, Promise.FINE))
    alarms = found[ALARM, True] + found[ALARM, False]
    # Each kind of forecast is made; at most one in fifty is wrong.
    assert lost >= 10
    assert fine >= 10
    assert found[Promise.CANNOT, True] <= lost / 50
    assert found[Promise.FINE, False] <= fine / 50
    assert found[ALARM, True] <= alarms / 10
