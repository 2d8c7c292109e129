"""Services, cron jobs and many small services in the machine alone: no store, no network, no processes."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator

from benchmarks.result import Result
from cress.lifecycle.effects import StepResult
from cress.lifecycle.inputs import Input, NodeJoined, Reported, Restarted, Scale, Submit, Update
from cress.lifecycle.machine import Machine
from cress.lifecycle.name_table import NamesRevision, NameTable
from cress.lifecycle.tables.family_rows import CronState
from cress.model.family import Cron, FamilySpec, Service
from cress.model.job import Job, JobType
from cress.model.node import Node
from cress.model.options import Options
from cress.model.reports import Cause, Ended, Report, Started
from cress.model.resources import Dimensions
from cress.model.times import MINUTE, SECOND

DIMENSIONS = Dimensions()
UTC = 1_700_000_000_000_000
REQUEST = DIMENSIONS.vector(cpu=1_000, memory=1 << 30)
NODE = DIMENSIONS.vector(cpu=64_000, memory=128 << 30)
# So many tasks of a service are replaced at a time in the updates that are measured.
AT_ONCE = 100
SINGLE = 200


def table_of(machine: Machine) -> NameTable:
    """Return the name table of a machine."""
    table = NameTable()
    table.load(machine, NamesRevision("", 0))
    return table


def job(name: str, tasks: int, type_: JobType, plan: FamilySpec) -> Job:
    """A family."""
    return Job(id=0, request=REQUEST, name=name, tasks=tasks, group="", user="ann", type=type_, plan=plan)


def service(tasks: int, name: str = "web", **plan: int) -> Job:
    """A service that is ready at its start."""
    return job(name, tasks, JobType.SERVICE, Service(**plan))  # type: ignore[arg-type]  # integers only


class Cluster:
    """A machine whose executors do at once what they are told; ``spent`` are the seconds of each of its steps."""

    def __init__(self, tasks: int) -> None:
        self.machine = Machine(DIMENSIONS, Options())
        self.now = 0
        self.spent: list[float] = []
        self.step(Restarted(epoch=1))
        nodes = tasks // 50 + 2
        self.step(*(NodeJoined(node=Node(name=f"n{i}", capacity=NODE), boot="b") for i in range(nodes)))
        self.spent.clear()

    def step(self, *inputs: Input, after: int = 1_000) -> StepResult:
        """One step, and all that it leads to at once."""
        self.now += after
        begin = time.perf_counter()
        whole = self.machine.step(self.now, UTC + self.now, inputs)
        rest = whole
        while rest.more:
            rest = self.machine.step(self.now, UTC + self.now)
            whole.launches += rest.launches
            whole.halts += rest.halts
        self.spent.append(time.perf_counter() - begin)
        return whole

    def obey(self, step: StepResult) -> None:
        """Everything that is launched runs, what is halted ends, until nothing new is said."""
        while step.launches or step.halts:
            reports: dict[str, list[Report]] = {}
            for each in step.launches:
                reports.setdefault(each.node, []).append(Started(attempt=each.attempt, at=UTC + self.now, pid=1))
            for halt in step.halts:
                reports.setdefault(halt.node, []).append(self.end(halt.attempt, -15, Cause.STOPPED))
            step = self.step(*(Reported(node=name, reports=tuple(each)) for name, each in reports.items()))

    def end(self, attempt: int, code: int, cause: Cause = Cause.EXITED) -> Ended:
        """The end of an attempt."""
        return Ended(attempt=attempt, cause=cause, code=code, started=UTC, at=UTC + self.now)

    def wake(self, until: int) -> None:
        """Time passes, with what it brings."""
        while (due := self.machine.next_wakeup()) is not None and due <= until:
            self.obey(self.step(after=max(0, due - self.now)))


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    gc.collect()
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _median(values: list[float]) -> float:
    return 1000 * sorted(values)[len(values) // 2]


def results() -> Iterator[Result]:
    """All figures, as they are measured."""
    for tasks in (1_000, 5_000, 10_000):
        yield from large(tasks)
    yield from crons(1_000)
    yield from small(1_000)


def large(tasks: int) -> Iterator[Result]:
    """What becomes of one service of so many tasks."""
    cluster, name = Cluster(tasks), f"service of {tasks:,}"
    machine = cluster.machine
    first = service(tasks, max_unavailable=AT_ONCE)
    spent = timed(lambda: cluster.obey(cluster.step(Submit(jobs=(first,)))))
    (number,) = machine.families
    yield Result(f"{name}: submitted, placed, ready", spent, "s")
    yield from single(cluster, name)
    yield Result(f"{name}: next wakeup", 1000 * timed(machine.next_wakeup), "ms")
    names = table_of(machine)
    yield Result(f"{name}: who is there, by name", 1000 * timed(lambda: names.places("web")), "ms")
    exported: list[bytes] = []
    yield Result(f"{name}: export", timed(lambda: exported.append(machine.export())), "s")
    yield Result(f"{name}: restore", timed(lambda: Machine.restore(exported[0])), "s")
    spec = service(tasks, max_unavailable=AT_ONCE, update_timeout=10 * MINUTE)
    yield from one_by_one(cluster, name, Update(job=number, spec=spec))
    cluster.spent.clear()
    spent = timed(lambda: cluster.obey(cluster.step(Update(job=number, spec=spec))))
    rounds = len(cluster.spent)
    assert all(member.template == machine.families[number].template for member in machine.jobs.values())
    yield Result(f"{name}: updated, {AT_ONCE} at a time", spent, "s", note=f"{rounds} steps")
    spent = timed(lambda: cluster.obey(cluster.step(Scale(job=number, tasks=tasks // 10))))
    yield Result(f"{name}: scaled to a tenth", spent, "s")
    spent = timed(lambda: cluster.obey(cluster.step(Scale(job=number, tasks=tasks))))
    assert len(machine.attempts) == tasks
    yield Result(f"{name}: and back", spent, "s")


def one_by_one(cluster: Cluster, name: str, update: Update) -> Iterator[Result]:
    """The first tasks of an update, each told of in a step of its own; the rest of it is left to do."""
    step = cluster.step(update)
    cluster.spent.clear()
    steps = [
        cluster.step(Reported(node=each.node, reports=(cluster.end(each.attempt, -15, Cause.STOPPED),)))
        for each in step.halts
    ]
    yield Result(f"{name}: step of an update in which one task ends", _median(cluster.spent), "ms", 1)
    cluster.spent.clear()
    launches = [each for step in steps for each in step.launches]
    steps = [
        cluster.step(Reported(node=each.node, reports=(Started(attempt=each.attempt, at=UTC + cluster.now, pid=1),)))
        for each in launches
    ]
    assert len(steps) == AT_ONCE
    yield Result(f"{name}: and in which its successor runs", _median(cluster.spent), "ms", 1)
    for each in steps:
        cluster.obey(each)


def single(cluster: Cluster, name: str) -> Iterator[Result]:
    """One task ends, waits and starts again, again and again: the three steps of it."""
    ends, starts, runs = [], [], []
    for _ in range(SINGLE):
        attempt = next(iter(cluster.machine.attempts.values()))
        step = cluster.step(Reported(node=attempt.node, reports=(cluster.end(attempt.id, 1),)))
        ends.append(cluster.spent[-1])
        due = cluster.machine.next_wakeup()
        assert due is not None
        assert not step.launches
        step = cluster.step(after=max(0, due - cluster.now))
        starts.append(cluster.spent[-1])
        cluster.obey(step)
        runs.append(cluster.spent[-1])
    yield Result(f"{name}: step in which one task fails", _median(ends), "ms", 1)
    yield Result(f"{name}: step in which it is started again", _median(starts), "ms", 1)
    yield Result(f"{name}: step in which it runs", _median(runs), "ms", 1)


def crons(count: int) -> Iterator[Result]:
    """Cron jobs, each minute or each hour, for ten minutes; their runs are held by nobody and take no time."""
    cluster = Cluster(1_000)
    jobs = tuple(job(f"c{i}", 1, JobType.CRON, Cron(when=f"{i % 60} * * * *")) for i in range(count))
    spent = timed(lambda: cluster.step(Submit(jobs=jobs)))
    yield Result(f"{count:,} cron jobs: submitted", spent, "s")
    cluster.spent.clear()
    spent = timed(lambda: cluster.wake(cluster.now + 600 * SECOND))
    clocks = [family.state for family in cluster.machine.families.values()]
    made = sum(clock.runs for clock in clocks if isinstance(clock, CronState))
    yield Result(f"{count:,} cron jobs: ten minutes of them", spent, "s", note=f"{made} runs")
    cluster.spent.clear()
    for _ in range(SINGLE):
        cluster.step()
    yield Result(f"{count:,} cron jobs: a step of nothing", _median(cluster.spent), "ms", 1)
    yield Result(f"{count:,} cron jobs: next wakeup", 1000 * timed(cluster.machine.next_wakeup), "ms")


def small(count: int) -> Iterator[Result]:
    """Many services of three tasks."""
    cluster, name = Cluster(3 * count), f"{count:,} services of 3"
    jobs = tuple(service(3, f"s{i}") for i in range(count))
    spent = timed(lambda: cluster.obey(cluster.step(Submit(jobs=jobs))))
    yield Result(f"{name}: submitted, placed, ready", spent, "s")
    yield from single(cluster, name)
    names = table_of(cluster.machine)
    yield Result(f"{name}: who is there, by name", 1000 * timed(lambda: names.places("s7")), "ms")
