"""The demo as data: the submits, the measurements, and the checks at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from cress.client import AttemptView, Client, GroupView, JobView, NodeView, TaskView

NODES, CORES = 3, 4
RESOURCE = f"<{CORES}, 8G, 1G, 500M>"
QUOTAS = {"science": 6, "web": 3, "office": 3}
GROUPS = """\
Name: science
ResourceQuota: 6
SchedPolicy: BackFill

Name: web
ResourceQuota: 3

Name: office
ResourceQuota: 3
"""
# Short, so that effects that take a cluster minutes are visible within seconds.
OPTIONS = ("grace=1s", "cooling=2s", "cooling_above_quota=3s", "max_per_round=0.5")

# Shares are compared from this many seconds after the second act began until a group has no more tasks to start.
SETTLED_AFTER = 4.0
# Most seconds between the moment that allows a start and the start, on a busy machine.
SLACK = 1.0


class GroupSample(NamedTuple):
    """The running and waiting tasks of each group at one time, in seconds since the demo began."""

    at: float
    running: dict[str, int]
    waiting: dict[str, int]


class Seen(NamedTuple):
    """One view of the cluster."""

    nodes: tuple[NodeView, ...]
    groups: tuple[GroupView, ...]
    jobs: tuple[JobView, ...]
    running: dict[str, list[str]]  # by node, the groups of its tasks


class DemoCheck(NamedTuple):
    """One condition that must hold: its name, what was seen, and the result."""

    what: str
    seen: str
    holds: bool


@dataclass
class Story:
    """The story of the demo.

    ``tick`` submits the jobs that are due and looks at the cluster; ``over`` is true when everything has ended.
    """

    client: Client
    ran: Path  # every task adds a line when it ends normally
    tell: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)
    act: int = 0
    since: float = 0.0
    jobs: dict[str, int] = field(default_factory=dict)
    tasks: dict[str, int] = field(default_factory=dict)
    samples: list[GroupSample] = field(default_factory=list)
    preempted: int = 0

    @property
    def now(self) -> float:
        """Return the seconds since the demo began."""
        return time.monotonic() - self.began

    def tick(self) -> Seen:
        """Continue the story, and return a view of the cluster."""
        seen = self._look()
        waited = self.now - self.since
        idle = all(job.ended is not None for job in seen.jobs)
        if self.act == 0:
            self._begin("office is alone and borrows all 12 cores; its quota is 3")
            self._submit("report", "office", tasks=14, seconds=5)
        elif self.act == 1 and waited > 2:
            self._begin("science and web come; both are below their quotas and take cores back")
            self._submit("simulate", "science", tasks=30, seconds=1.5)
            self._submit("render", "web", tasks=15, seconds=1.5)
        elif self.act == 2 and idle:
            self._begin("a gang of 8 starts as one; a wide job waits for it; short ones fill the gap")
            self._submit("gang", "science", tasks=8, seconds=3, gang=True, limit="4s")
            self._submit("wide", "science", tasks=2, seconds=1, gang=True, limit="4s", cores=CORES)
            self._submit("short", "science", tasks=4, seconds=1, limit="2s")
        elif self.act == 3 and idle:
            self._begin("all is done")
        self._sample(seen)
        preempted = sum(job.preempted for job in seen.jobs)
        if preempted > self.preempted:
            self.tell(f"{preempted - self.preempted} tasks of office were preempted; they will run again")
            self.preempted = preempted
        return seen

    @property
    def over(self) -> bool:
        """Return whether the story has ended."""
        return self.act > 3

    def _begin(self, sentence: str) -> None:
        self.act += 1
        self.since = self.now
        self.tell(sentence)

    def _submit(
        self, name: str, group: str, *, tasks: int, seconds: float, cores: int = 1, gang: bool = False, limit: str = ""
    ) -> None:
        script = f'sleep {seconds:g} && echo "$CRESS_JOB_NAME $CRESS_TASK_INDEX" >> "$RAN"'
        job: dict[str, object] = {
            "name": name,
            "group": group,
            "tasks": tasks,
            "resource": f"<{cores}, {cores}G>",
            "gang": gang,
            "command": script,
            "environment": {"RAN": str(self.ran)},
        }
        if limit:
            job["time_limit"] = limit
        self.jobs[name] = self.client.submit([job]).jobs[0].id
        self.tasks[name] = tasks

    def _look(self) -> Seen:
        client = self.client
        jobs = tuple(reversed(client.jobs(limit=20).jobs))
        running: dict[str, list[str]] = {}
        for job in jobs:
            if job.tasks.running:
                for task in client.tasks(job.id, limit=100).tasks:
                    last = task.attempts[-1] if task.attempts else None
                    if last is not None and last.ended is None:
                        running.setdefault(last.node, []).extend([job.group] * _cores(job))
        return Seen(client.nodes(), client.groups().groups, jobs, running)

    def _sample(self, seen: Seen) -> None:
        groups = [group for group in seen.groups if group.name in QUOTAS]
        running = {group.name: group.running for group in groups}
        self.samples.append(GroupSample(self.now, running, {group.name: group.waiting for group in groups}))

    # --- at the end ----------------------------------------------------------------------------------------------

    def checks(self) -> list[DemoCheck]:
        """Check the required conditions, from records of the center and of the tasks themselves."""
        jobs = {name: self.client.job(id) for name, id in self.jobs.items()}
        tasks = {name: self._tasks(id) for name, id in self.jobs.items()}
        return [
            self._shares(),
            self._all_succeeded(jobs),
            self._once(),
            self._preempted(jobs["simulate"], tasks),
            _together(tasks["gang"]),
            _backfilled(tasks, jobs),
        ]

    def _tasks(self, id: int) -> tuple[TaskView, ...]:
        return self.client.tasks(id, limit=1000).tasks

    def _shares(self) -> DemoCheck:
        start = self._second_act() + SETTLED_AFTER
        window = []
        for sample in self.samples:
            if sample.at >= start:
                if not all(sample.waiting.values()):
                    break
                window.append(sample)
        what = "under load every group runs its quota, within one task"
        if len(window) < 5:
            return DemoCheck(what, f"only {len(window)} looks at it", False)
        means = {name: sum(sample.running[name] for sample in window) / len(window) for name in QUOTAS}
        seen = ", ".join(f"{name} {means[name]:.1f} of {quota}" for name, quota in QUOTAS.items())
        return DemoCheck(what, seen, all(abs(means[name] - quota) <= 1 for name, quota in QUOTAS.items()))

    def _second_act(self) -> float:
        """Return the time at which science had its first task waiting or running."""
        return next((s.at for s in self.samples if s.running.get("science") or s.waiting.get("science")), 0.0)

    def _all_succeeded(self, jobs: dict[str, JobView]) -> DemoCheck:
        good = sum(job.tasks.succeeded for job in jobs.values())
        total = sum(self.tasks.values())
        return DemoCheck("every task succeeded", f"{good} of {total}", good == total)

    def _once(self) -> DemoCheck:
        lines = sorted(self.ran.read_text(encoding="utf-8").split("\n")[:-1]) if self.ran.exists() else []
        expected = sorted(f"{name} {index}" for name, count in self.tasks.items() for index in range(count))
        what = "every task came to its end once, by its own account"
        return DemoCheck(what, f"{len(lines)} lines from {len(set(lines))} tasks", lines == expected)

    def _preempted(self, simulate: JobView, tasks: dict[str, tuple[TaskView, ...]]) -> DemoCheck:
        victims = {name: [task for task in all_ if _outcomes(task).count("preempted")] for name, all_ in tasks.items()}
        again = sum(_outcomes(task)[-1] == "succeeded" for task in victims["report"])
        others = [name for name, found in victims.items() if found and name != "report"]
        starts = sorted(_last(task).started or 0.0 for task in tasks["simulate"])
        needed = starts[QUOTAS["science"] - 1] - simulate.submitted
        seen = (
            f"{len(victims['report'])} preempted, {again} of them ran again; science had its quota after {needed:.1f} s"
        )
        holds = bool(again) and again == len(victims["report"]) and not others and needed < SETTLED_AFTER
        return DemoCheck("science took back the cores that office had borrowed", seen, holds)


def _cores(job: JobView) -> int:
    return int(job.resource.get("cpu", "1"))


def _outcomes(task: TaskView) -> list[str]:
    return [attempt.outcome for attempt in task.attempts]


def _last(task: TaskView) -> AttemptView:
    return task.attempts[-1]


def _together(gang: tuple[TaskView, ...]) -> DemoCheck:
    starts = [_last(task).started or 0.0 for task in gang]
    spread = max(starts) - min(starts)
    return DemoCheck("the gang of 8 started as one", f"within {1000 * spread:.0f} ms", spread < SLACK)


def _backfilled(tasks: dict[str, tuple[TaskView, ...]], jobs: dict[str, JobView]) -> DemoCheck:
    shorts = [_last(task).started or 0.0 for task in tasks["short"]]
    wide = min(_last(task).started or 0.0 for task in tasks["wide"])
    gang_end = max(_last(task).ended or 0.0 for task in tasks["gang"])
    before = sum(start < wide for start in shorts)
    seen = (
        f"{before} of {len(shorts)} short ones went first; the wide one started {max(0.0, wide - gang_end):.2f} s "
        "after it could"
    )
    in_order = jobs["wide"].submitted <= jobs["short"].submitted
    return DemoCheck(
        "short jobs filled the gap and did not delay the wide one",
        seen,
        in_order and before == len(shorts) and wide - gang_end < SLACK,
    )
