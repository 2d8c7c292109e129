"""A machine with nodes, and the executors that answer to it, without any I/O."""

from __future__ import annotations

from typing import Any

from cress.lifecycle.effects import (
    CordonChanged,
    DataMissing,
    DeadlineAtRisk,
    DeadlineMissed,
    Halt,
    Launch,
    LeaseChanged,
    LeaseResized,
    NodeDrained,
    Notice,
    Overloaded,
    Recovered,
    RolledBack,
    RoundEnded,
    RunSkipped,
    StepResult,
    TaskMoved,
)
from cress.lifecycle.follower import Follower
from cress.lifecycle.inputs import Cancel, Hold, Input, NodeJoined, NodeLeft, Reported, Restarted, Submit
from cress.lifecycle.machine import Machine
from cress.lifecycle.name_service import Place, order, place_of
from cress.lifecycle.name_table import NamesRevision, NameTable
from cress.lifecycle.record import Record, decode_record, encode_record, record_of
from cress.model.errors import InputError
from cress.model.group import Group, Quota
from cress.model.job import Condition, Job
from cress.model.node import Node
from cress.model.options import Options
from cress.model.records import JobRecord
from cress.model.reports import Cause, Ended, Report, Started
from cress.model.resources import Dimensions
from cress.model.vectors import parse_vector
from tests.core.promises import promised_state
from tests.later_checks import check_now_or_later

DIMENSIONS = Dimensions()
# Notices that are not of nodes.
WITHOUT_NODE = (
    DataMissing
    | RolledBack
    | DeadlineAtRisk
    | DeadlineMissed
    | LeaseChanged
    | LeaseResized
    | TaskMoved
    | RoundEnded
    | RunSkipped
    | NodeDrained
)
UTC_AT_START = 1_700_000_000_000_000


def job(tasks: int = 1, *, cpus: int = 1, group: str = "", user: str = "ann", **more: Any) -> Job:
    """A job as a user submits it, not numbered yet."""
    values: dict[str, Any] = {"name": f"job of {tasks}", "tasks": tasks, "group": group, "user": user, **more}
    return Job(id=0, request=parse_vector(f"<{cpus}, 1G>", DIMENSIONS), **values)


def after(*numbers: int, condition: Condition = Condition.OK) -> tuple[tuple[int, Condition], ...]:
    """That these jobs must end first; negative numbers are places in the same submit."""
    return tuple((number, condition) for number in numbers)


def group(name: str, cores: int, users: tuple[str, ...] = ("*",)) -> Group:
    """A group with a quota of so many cores."""
    return Group(name=name, quota=Quota(scalar=cores * 1000), users=users)


def node(name: str, cpus: int = 4) -> Node:
    """A node with 2 GiB for each core."""
    return Node(name=name, capacity=parse_vector(f"<{cpus}, {2 * cpus}G>", DIMENSIONS))


class World:
    """A machine and a clock, which the one on the wall is ``wall`` µs ahead of. ``said`` collects every step that was
    taken, for replaying; ``over`` the jobs that ended.

    With ``followed``, ``records`` collects what is logged, and a follower of the log is held against the machine after
    every step.
    """

    def __init__(self, options: Options | None = None, *, followed: bool = False) -> None:
        self.machine = Machine(DIMENSIONS, options or Options())
        self.now = 0
        self.wall = 0
        self.said: list[tuple[int, int, tuple[Input, ...]]] = []
        self.over: dict[int, JobRecord] = {}
        self.records: list[Record] = []
        self.names = NameTable()
        self.names.load(self.machine, NamesRevision("1", 0))
        self._named = id(self.machine), self.machine.now
        self.follower = Follower.empty(DIMENSIONS, options or Options()) if followed else None
        self.last = self.step(Restarted(epoch=1))

    def step(self, *inputs: Input, after: int = 1000) -> StepResult:
        """One step ``after`` microseconds later."""
        self.now += after
        self.said.append((self.now, UTC_AT_START + self.wall + self.now, inputs))
        self.last = self._step(*self.said[-1])
        while self.last.more:
            rest = self._step(*self.said[-1][:2])
            self.said.append((*self.said[-1][:2], ()))
            self.last.launches += rest.launches
            self.last.halts += rest.halts
            self.last.jobs += rest.jobs
            self.last.attempts += rest.attempts
            self.last.more = rest.more
        check_now_or_later(self, len(self.said), self._check)
        for record in self.last.jobs:
            assert record.id not in self.over, f"job {record.id} ends twice"
            self.over[record.id] = record
        return self.last

    def _check(self) -> None:
        assert self.machine.validate() == [], "CRESS_CHECK=1 checks after each step"

    def _step(self, now: int, utc: int, inputs: tuple[Input, ...] = ()) -> StepResult:
        before = _shown(self.machine)
        if self._named != (id(self.machine), self.machine.now):  # a test has exchanged or stepped the machine itself
            self.names.load(self.machine, self.names.revision)
        step = self.machine.step(now, utc, inputs)
        assert step.notices == _different(self.machine, before) + [
            each for each in step.notices if isinstance(each, WITHOUT_NODE)
        ]
        self._named = id(self.machine), self.machine.now
        self.names.stepped(self.machine, step.facts.rows, self.names.revision.number + 1)
        assert sorted(self.names, key=order) == all_places(self.machine)
        if self.follower is not None:
            self.records.append(decode_record(encode_record(record_of(now, utc, inputs, step.facts))))
            self.follower.apply(self.records[-1])
            # What differs in the scheduler does so for long: it is looked at now and then, which is much cheaper.
            assert differences(self.follower, self.machine, core=len(self.records) % 4 == 0) == []
        return step

    def join(self, name: str, cpus: int = 4, *, reports: tuple[Report, ...] = (), boot: str = "b1") -> StepResult:
        return self.step(NodeJoined(node=node(name, cpus), boot=boot, reports=reports))

    def leave(self, name: str) -> StepResult:
        return self.step(NodeLeft(name=name))

    def submit(self, *jobs: Job) -> tuple[int, ...]:
        """The ids of the jobs, which must be accepted."""
        reply = self.step(Submit(jobs=jobs)).replies[0]
        assert isinstance(reply, tuple), reply
        return reply

    def refuse(self, each: Input) -> str:
        """The sentence with which the input is refused."""
        reply = self.step(each).replies[0]
        assert isinstance(reply, InputError)
        return str(reply)

    def cancel(self, number: int) -> StepResult:
        return self.step(Cancel(job=number))

    def hold(self, number: int, held: bool = True, by: str = "eve") -> StepResult:
        return self.step(Hold(job=number, held=held, by=by))

    def wake(self) -> StepResult:
        """A step at the time at which the machine wants one."""
        wakeup = self.machine.next_wakeup()
        assert wakeup is not None, "nothing changes by itself"
        return self.step(after=max(0, wakeup - self.now))

    def cannot_start(self, *attempts: int, error: str = "no such file") -> StepResult:
        """The programs of these attempts cannot be started, as their nodes say."""
        by_node: dict[str, list[Report]] = {}
        for each in attempts:
            report = Ended(attempt=each, cause=Cause.NOT_STARTED, code=None, started=0, at=self.now, error=error)
            by_node.setdefault(self.machine.attempts[each].node, []).append(report)
        return self.step(*(Reported(node=name, reports=tuple(said)) for name, said in by_node.items()))

    def finish(self, number: int, code: int = 0) -> StepResult:
        """All running tasks of a job end with this exit code."""
        attempts = list(self.machine.jobs[number].attempts.values())
        return self.step(*(Reported(node=each.node, reports=(ended(each.id, code),)) for each in attempts))

    def report(self, node: str, *reports: Report) -> StepResult:
        return self.step(Reported(node=node, reports=reports))

    def run_all(self) -> StepResult:
        """Everything that was launched runs, as its node reports."""
        by_node: dict[str, list[Report]] = {}
        for attempt in self.machine.attempts.values():
            by_node.setdefault(attempt.node, []).append(started(attempt.id))
        return self.step(*(Reported(node=name, reports=tuple(said)) for name, said in by_node.items()))


def all_places(machine: Machine) -> list[Place]:
    """The places of all running tasks, found by a look at each attempt."""
    found = (place_of(machine, machine.jobs[each.job], each) for each in machine.attempts.values())
    return sorted((place for place in found if place is not None), key=order)


def resolve(machine: Machine, name: str, group: str | None = None) -> list[Place]:
    """The places of the jobs of a name."""
    return [each for each in all_places(machine) if each.name == name and group in (None, each.group)]


def _shown(machine: Machine) -> tuple[dict[str, tuple[bool, str]], dict[str, str]]:
    """What people are told of nodes: cordons and rests, and what is too high on those that are overloaded."""
    cluster = machine.core.cluster
    overloads = {name: what for name in cluster.names if (what := cluster.overloaded[cluster.index[name]]) is not None}
    return {name: node.barred for name, node in machine.nodes.items()}, overloads


def _different(machine: Machine, before: tuple[dict[str, tuple[bool, str]], dict[str, str]]) -> list[Notice]:
    """The notices of nodes, found by a look at all of them."""
    (barred, over), (now_barred, now_over) = before, _shown(machine)
    found: list[Notice] = [
        CordonChanged(name, *now) for name, now in now_barred.items() if now != barred.get(name, (False, ""))
    ]
    found += [Overloaded(name, now_over[name]) for name in sorted(now_over.keys() - over.keys())]
    gone = sorted(over.keys() - now_over.keys())
    return found + [Recovered(name) for name in gone if name in machine.nodes and machine.nodes[name].connected]


def differences(follower: Follower, machine: Machine, *, core: bool = True) -> list[str]:
    """The tables in which a follower has something else than the machine, or in another order; and the scheduler's."""
    theirs, ours = follower.tables.by_name(), machine.tables.by_name()
    found = [name for name in ours if list(ours[name].items()) != list(theirs[name].items())]
    if not core:
        return found
    one, other = promised_state(follower.core), promised_state(machine.core)
    names = other.__struct_fields__
    return found + [f"core {name}" for name in names if getattr(one, name) != getattr(other, name)]


def started(attempt: int) -> Started:
    return Started(attempt=attempt, at=UTC_AT_START + attempt, pid=1000 + attempt)


def ended(attempt: int, code: int | None = 0, cause: Cause = Cause.EXITED, *, ran: bool = True) -> Ended:
    at = UTC_AT_START + attempt
    return Ended(attempt=attempt, cause=cause, code=code, started=at if ran else 0, at=at + 5)


def launched(step: StepResult) -> list[tuple[int, int, str]]:
    """Job, task and node of what a step launches."""
    return [(each.job, each.task, each.node) for each in step.launches]


def ids(effects: list[Launch] | list[Halt]) -> list[int]:
    return [each.attempt for each in effects]
