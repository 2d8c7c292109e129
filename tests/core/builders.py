"""Builders and a driver for tests of the core.

    etl = job("etl").cpu(4).memory("8G").tasks(10).gang().limit("2h").priority(3).user("bob").group("mobile")
    world = World(group("mobile", 10), group("games", 20, policy="BackFill"), nodes=[node("n1").cpu(8).memory("32G")])
    world.submit(etl)           # at world.now; nothing is decided yet
    world.decide()              # -> decisions; starts are in world.starts and world.running
    world.wait(20, -1)          # 20 s less one microsecond
    world.finish("etl", 3)      # task 3 of etl ended; without a number all running tasks of the job
    world.veto("etl").kind

Builders are values: every method returns another one, so a common one can be the base of many. A world holds a
``Scheduler`` in virtual time; all invariants are checked after every few calls into it, and at the end of the test
(``tests/later_checks.py``). Jobs are called by their names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from cress.core.diagnostics.sentences import sentence
from cress.core.jobs import GroupState
from cress.core.placing.vetoes import Veto
from cress.core.scheduler import Scheduler
from cress.model.decisions import Decision, Decisions, Preempt, Start, Stop, WouldPreempt
from cress.model.devices import capacity_with, facts_of
from cress.model.estimates import RunEstimate
from cress.model.events import (
    ClockSet,
    Event,
    GroupsApplied,
    JobAfter,
    JobCancelled,
    JobHeld,
    JobSubmitted,
    LicencesSet,
    LoadSeen,
    NodeAdded,
    NodeChanged,
    NodeCordoned,
    NodeLost,
    Outcome,
    PortsSeen,
    RacksSet,
    TaskEnded,
)
from cress.model.group import Group, PreemptivePolicy, Quota, SchedPolicy
from cress.model.groups.quota_text import SCALE, parse_bound, parse_resource_quota
from cress.model.job import Job, JobPart, JobType, least_request
from cress.model.limits import Limits
from cress.model.node import DYNAMIC_PORTS, Device, Load, Node, Value
from cress.model.options import Options
from cress.model.resources import Dimensions, Measure
from cress.model.times import SECOND, seconds
from cress.model.units import parse_amount, parse_duration
from cress.model.vectors import parse_vector
from tests.core.promises import promised_state
from tests.later_checks import check_now_or_later, check_the_rest

Amounts = tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class _Amounts:
    """What jobs and nodes have in common: amounts by dimension, as a person writes them."""

    name: str
    amounts: Amounts = ()

    def has(self, **amounts: object) -> Any:
        """Amounts by dimension name (``disk_read="50M"``, ``gpu=2``); numbers are cores, bytes, bit/s, units."""
        return replace(self, amounts=tuple({**dict(self.amounts), **amounts}.items()))

    def vector(self, dimensions: Dimensions) -> tuple[int, ...]:
        return parse_vector(dict(self.amounts), dimensions)


@dataclass(frozen=True)
class JobBuilder(_Amounts):
    """See ``job``."""

    rest: tuple[tuple[str, Any], ...] = ()
    estimate: RunEstimate | None = None
    in_parts: tuple[JobBuilder, ...] = ()

    def _set(self, **values: Any) -> JobBuilder:
        return replace(self, rest=tuple({**dict(self.rest), **values}.items()))

    def named(self, name: str) -> JobBuilder:
        return replace(self, name=name)

    def needs(self, **amounts: object) -> JobBuilder:
        made: JobBuilder = self.has(**amounts)
        return made

    def cpu(self, cores: float) -> JobBuilder:
        return self.needs(cpu=cores)

    def memory(self, amount: str | int) -> JobBuilder:
        return self.needs(memory=amount)

    def tasks(self, number: int) -> JobBuilder:
        return self._set(tasks=number)

    def at_once(self, most: int) -> JobBuilder:
        """At most so many tasks run at once."""
        return self._set(max_running=most)

    def gang(self) -> JobBuilder:
        return self._set(gang=True)

    def parts(self, *parts: JobBuilder) -> JobBuilder:
        """A gang of these parts: their names, tasks, amounts, requirements and ranks."""
        return replace(self, in_parts=parts).gang()

    def limit(self, duration: str | float) -> JobBuilder:
        """Time limit: a text such as 2h, or seconds."""
        return self._set(time_limit=parse_duration(duration) if isinstance(duration, str) else seconds(duration))

    def expected(self, run: float, mean: float | None = None) -> JobBuilder:
        """How long it will run, in seconds, as its user's earlier runs tell."""
        likely, average = seconds(run), seconds(run if mean is None else mean)
        return replace(self, estimate=RunEstimate(likely, average, likely, likely, likely))

    def deadline(self, moment: int) -> JobBuilder:
        """The moment (µs on the wall clock) at which it should have ended."""
        return self._set(deadline=moment)

    def stop_grace(self, duration: str) -> JobBuilder:
        """How long a task has to end when it is told to."""
        return self._set(stop_grace=parse_duration(duration))

    def priority(self, value: int) -> JobBuilder:
        return self._set(priority=value)

    def user(self, name: str) -> JobBuilder:
        return self._set(user=name)

    def group(self, name: str) -> JobBuilder:
        return self._set(group=name)

    def type(self, kind: JobType, minimum: int = 0) -> JobBuilder:
        return self._set(type=kind, minimum=minimum)

    def workload(self, name: str) -> JobBuilder:
        """It belongs to this workload of its group."""
        return self._set(workload=name)

    def as_lease(self) -> JobBuilder:
        """Its tasks are leases of its workload."""
        return self._set(is_lease=True)

    def keeps(self, duration: str) -> JobBuilder:
        """A lease that is not preempted in this time."""
        return self._set(min_time=parse_duration(duration))

    def member_of(self, family: int, kind: JobType = JobType.SERVICE, minimum: int = 0) -> JobBuilder:
        """A task of a family, by default a service."""
        return self._set(family=family, type=kind, minimum=minimum)

    def starts_with(self, first: int) -> JobBuilder:
        """It starts together with the others that name this job, one of them."""
        return self._set(starts_with=first)

    def requires(self, requirement: str) -> JobBuilder:
        """The requirement, in the language."""
        return self._set(requirement=requirement)

    def ranks(self, rank: str) -> JobBuilder:
        """The rank, in the language."""
        return self._set(rank=rank)

    def ports(self, **ports: int) -> JobBuilder:
        """Ports by name; 0 is a dynamic one."""
        return self._set(ports=tuple(ports.items()))

    def spread(self, per_node: int = 0, per_rack: int = 0) -> JobBuilder:
        """At most so many tasks on one node, in one rack; 0: any number."""
        return self._set(max_per_node=per_node, max_per_rack=per_rack)

    def licences(self, **licences: int) -> JobBuilder:
        """Licences that each task takes."""
        return self._set(licences=tuple(sorted(licences.items())))

    def application(self, name: str) -> JobBuilder:
        return self._set(application=name)

    def tolerates(self, *names: str) -> JobBuilder:
        return self._set(tolerates=names)

    def labelled(self, **labels: str) -> JobBuilder:
        """Its labels."""
        return self._set(labels=tuple(sorted(labels.items())))

    def ends_with_its_node(self) -> JobBuilder:
        """A task that is lost with its node does not run again."""
        return self._set(job_failure=False)

    def build(self, number: int, dimensions: Dimensions) -> Job:
        values = {"group": "", **dict(self.rest)}
        if not self.in_parts:
            return Job(id=number, name=self.name, request=self.vector(dimensions), **values)
        parts = tuple(
            JobPart(name=each.name, request=each.vector(dimensions), **{"tasks": 1, **dict(each.rest)})
            for each in self.in_parts
        )
        values["tasks"] = sum(part.tasks for part in parts)
        return Job(id=number, name=self.name, request=least_request(parts), parts=parts, **values)


@dataclass(frozen=True)
class NodeBuilder(_Amounts):
    """See ``node``."""

    in_rack: str = ""
    address: str = ""
    attributes: tuple[tuple[str, Value], ...] = ()
    dynamic: tuple[int, int] = DYNAMIC_PORTS
    judged: bool = True
    devices: tuple[Device, ...] = ()
    condition: str = ""
    repelled: tuple[str, ...] = ()

    def offers(self, **amounts: object) -> NodeBuilder:
        made: NodeBuilder = self.has(**amounts)
        return made

    def cpu(self, cores: float) -> NodeBuilder:
        return self.offers(cpu=cores)

    def memory(self, amount: str | int) -> NodeBuilder:
        return self.offers(memory=amount)

    def rack(self, name: str) -> NodeBuilder:
        return replace(self, in_rack=name)

    def at(self, address: str) -> NodeBuilder:
        return replace(self, address=address)

    def where(self, **attributes: Value) -> NodeBuilder:
        """Attributes, beside those that it has."""
        return replace(self, attributes=tuple({**dict(self.attributes), **attributes}.items()))

    def dynamic_ports(self, first: int, last: int) -> NodeBuilder:
        return replace(self, dynamic=(first, last))

    def gpus(self, count: int, kind: str = "gpu", model: str = "") -> NodeBuilder:
        """Devices of a kind, known one by one; their amount with them."""
        more = tuple(Device(kind=kind, id=str(i), model=model) for i in range(count))
        return replace(self, devices=(*self.devices, *more)).where(**facts_of(more))

    def disks(self, *bandwidths: str) -> NodeBuilder:
        """Disks sda, sdb …, each with its bandwidth to read and to write."""
        more = (
            Device(kind="disk", id=f"sd{chr(97 + i)}", bandwidth=(read, read, 0, 0))
            for i, read in enumerate(parse_vector({"disk_read": each}, Dimensions())[3] for each in bandwidths)
        )
        return replace(self, devices=(*self.devices, *more))

    def accepts(self, condition: str) -> NodeBuilder:
        """It takes only jobs for which this is true."""
        return replace(self, condition=condition)

    def repels(self, *names: str) -> NodeBuilder:
        """It takes only jobs that tolerate these names."""
        return replace(self, repelled=names)

    def not_judged(self) -> NodeBuilder:
        """It takes tasks whatever its load."""
        return replace(self, judged=False)

    def build(self, dimensions: Dimensions) -> Node:
        return Node(
            name=self.name,
            capacity=capacity_with(self.vector(dimensions), self.devices, dimensions),
            devices=self.devices,
            rack=self.in_rack,
            address=self.address,
            attributes=self.attributes,
            ports=self.dynamic,
            judged=self.judged,
            accepts=self.condition,
            repels=self.repelled,
        )


@dataclass(frozen=True)
class GroupBuilder:
    """See ``group``."""

    name: str
    quota: str
    rest: tuple[tuple[str, Any], ...] = ()

    def _set(self, **values: Any) -> GroupBuilder:
        return replace(self, rest=tuple({**dict(self.rest), **values}.items()))

    def policy(self, name: str) -> GroupBuilder:
        return self._set(policy=SchedPolicy(name))

    def preemptive(self, name: str) -> GroupBuilder:
        return self._set(preemptive=PreemptivePolicy(name))

    def users(self, *names: str) -> GroupBuilder:
        return self._set(users=names)

    def weight(self, value: int) -> GroupBuilder:
        return self._set(weight=value)

    def user_weights(self, **weights: int) -> GroupBuilder:
        return self._set(user_weights=tuple(weights.items()))

    def limits(self, **values: Any) -> GroupBuilder:
        """Limits: ``running=3``, ``running_per_user=1`` …"""
        return self._set(limits=Limits(**values))

    def preempt_priority(self, value: int) -> GroupBuilder:
        """The lower, the earlier it yields."""
        return self._set(preempt_priority=value)

    def windows(self, *texts: str) -> GroupBuilder:
        """Windows of the timetable as in Group.conf: ``07:30-09:00 = 20``."""
        return replace(self, quota="; ".join((self.quota, *texts)))

    def inside(self, parent: str) -> GroupBuilder:
        """It is in this group."""
        return self._set(parent=parent)

    def most(self, quota: int | str) -> GroupBuilder:
        """Its MaxQuota."""
        return self._set(max_quota=str(quota))

    def lends(self, quota: int | str) -> GroupBuilder:
        """What others may have of its quota."""
        return self._set(lendable=str(quota))

    def with_options(self, **texts: str) -> GroupBuilder:
        """The group's own values of options, as texts."""
        return self._set(options=tuple(texts.items()))

    def exactly(self, scalar: int) -> GroupBuilder:
        """A quota in millicores or millionths of a server instead, larger than a file could have it."""
        return self._set(quota=Quota(scalar=scalar))

    def build(self, accounting: str, dimensions: Dimensions) -> Group:
        values = dict(self.rest)
        if self.quota != "0":
            values["quota"], values["windows"] = parse_resource_quota(self.quota, accounting, dimensions)
        for name in ("max_quota", "lendable"):
            if name in values:
                values[name] = parse_bound(values[name], accounting, dimensions, zero=True)
        return Group(**{"name": self.name, **values, **{k: v for k, v in self.rest if k == "quota"}})


def job(name: str) -> JobBuilder:
    """A job with one task that needs 1 core and nothing else, in the default group, without a time limit."""
    return JobBuilder(name, (("cpu", 1),))


def node(name: str) -> NodeBuilder:
    """A node with nothing."""
    return NodeBuilder(name)


def nodes(count: int, **amounts: object) -> list[NodeBuilder]:
    """Equal nodes n1, n2, …"""
    return [node(f"n{i + 1}").offers(**amounts) for i in range(count)]


def group(name: str, quota: int | str = 1, policy: str = "FIFO") -> GroupBuilder:
    """A group; the quota is in whole cores (or servers), or a text as in Group.conf; 0: the sum of those of the groups
    in it.
    """
    return GroupBuilder(name, str(quota)).policy(policy)


@dataclass(frozen=True)
class Started:
    """One start, as tests look at it; ``at`` in seconds."""

    job: str
    task: int
    node: str
    at: float


@dataclass
class Log:
    """Every call into the scheduler, so that another one can be driven alike."""

    calls: list[tuple[str, int, Any]] = field(default_factory=list)


class World:
    """A scheduler in virtual time (µs in ``now``), and what the shell round it would know.

    ``running`` and ``told`` hold the ``Start`` by attempt id: of tasks that run, and among these of tasks that were
    told to stop. ``decisions`` are all decisions so far, ``starts`` the starts among them.
    """

    def __init__(
        self,
        *groups: GroupBuilder,
        nodes: Iterable[NodeBuilder] = (),
        dimensions: tuple[str, ...] = (),
        zone: tzinfo = UTC,
        check: bool = True,
        **options: Any,
    ) -> None:
        self.dimensions = Dimensions(dimensions)
        self.options = Options(**options)
        self.core = Scheduler(self.dimensions, self.options, zone)
        self.check = check
        # Another scheduler that only applies the facts; it must always be in the same state.
        self.follower = Scheduler(self.dimensions, self.options, zone)
        self.now = 0
        self.ids: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.running: dict[int, Start] = {}
        self.told: dict[int, Start] = {}
        self.decisions: list[Decision] = []
        self.starts: list[Started] = []
        self.more = False
        self.log = Log()
        self._calls = 0
        check_the_rest()
        self.observe(NodeAdded(each.build(self.dimensions)) for each in nodes)
        self.apply(*groups)

    # --- time ------------------------------------------------------------------------------------------------

    def wait(self, duration: float, microseconds: int = 0) -> World:
        """Let so many seconds (and microseconds) pass; nothing else happens."""
        self.now += seconds(duration) + microseconds
        return self

    def wake(self) -> int:
        """Let the time pass until ``next_wakeup`` and decide; the moment in µs."""
        wakeup = self.core.next_wakeup()
        assert wakeup is not None, "nothing changes by itself"
        self.now = max(self.now, wakeup)
        self.decide()
        return wakeup

    def set_clock(self, moment: str) -> World:
        """Tell the core the wall clock: an ISO text with an offset, ``2024-05-06T07:00+08:00``."""
        utc = datetime.fromisoformat(moment)
        return self.observe([ClockSet(seconds(utc.timestamp()))])

    # --- events ----------------------------------------------------------------------------------------------

    def observe(self, events: Iterable[Event]) -> World:
        """Hand these events to the core, now."""
        events = list(events)
        self.log.calls.append(("observe", self.now, events))
        self.core.observe(self.now, events)
        if self.check:
            self.follower.apply(self.now, events)
        self._validate(events)
        return self

    def submit(self, *jobs: JobBuilder, by_task: bool = False) -> World:
        """Submit these jobs, one event after the other. ``by_task`` as in ``JobSubmitted``."""
        for each in jobs:
            number = len(self.ids) + 1
            assert each.name not in self.ids, f"two jobs are called {each.name}"
            self.ids[each.name], self.names[number] = number, each.name
            self.observe([JobSubmitted(each.build(number, self.dimensions), None, each.estimate, by_task)])
        return self

    def run(self, *jobs: JobBuilder) -> World:
        """Submit these jobs and decide; every task of theirs must start at once."""
        self.submit(*jobs).decide()
        for each in jobs:
            assert self.state(each.name).waiting == 0, f"{each.name} does not run: {self.why(each.name)}"
        return self

    def finish(
        self,
        name: str,
        *tasks: int,
        outcome: Outcome = Outcome.SUCCEEDED,
        again: bool = False,
        after: float = 0,
        decide: bool = True,
    ) -> list[Decision]:
        """The running tasks of this job (all, or those with these numbers) end; decide unless told not to.

        With ``again`` they are tried again, ``after`` so many seconds.
        """
        ended = [
            start
            for start in self.running.values()
            if start.job == self.ids[name] and (not tasks or start.task in tasks)
        ]
        assert ended, f"{name} does not run"
        self.end(ended, outcome, again=again, after=seconds(after))
        return self.decide() if decide else []

    def end(self, starts: Iterable[Start], outcome: Outcome, *, again: bool = False, after: int = 0) -> World:
        """These attempts end."""
        starts = list(starts)
        for start in starts:
            del self.running[start.attempt]
            self.told.pop(start.attempt, None)
        return self.observe(TaskEnded(start.attempt, outcome, again, after) for start in starts)

    def yield_victims(self, *, decide: bool = True) -> list[Decision]:
        """Everything that was told to stop stops."""
        assert self.told, "nothing was told to stop"
        cancelled = [start for start in self.told.values() if self.state(self.names[start.job]).cancelled]
        preempted = [start for start in self.told.values() if start not in cancelled]
        self.end(cancelled, Outcome.CANCELLED)
        self.end(preempted, Outcome.PREEMPTED)
        return self.decide() if decide else []

    def cancel(self, name: str) -> World:
        return self.observe([JobCancelled(self.ids[name])])

    def hold(self, name: str, held: bool = True) -> World:
        return self.observe([JobHeld(self.ids[name], held)])

    def come_after(self, name: str, behind: str | None) -> World:
        """The job is not offered before the job ``behind`` is over; None: it is from now on."""
        return self.observe([JobAfter(self.ids[name], None if behind is None else self.ids[behind])])

    def add_node(self, each: NodeBuilder) -> World:
        return self.observe([NodeAdded(each.build(self.dimensions))])

    def lose_node(self, name: str) -> World:
        for start in [start for start in self.running.values() if start.node == name]:
            del self.running[start.attempt]
            self.told.pop(start.attempt, None)
        return self.observe([NodeLost(name)])

    def cordon(self, name: str, reason: str = "repair") -> World:
        return self.observe([NodeCordoned(name, bool(reason), reason)])

    def change_node(self, each: NodeBuilder) -> World:
        """The node is described otherwise now."""
        return self.observe([NodeChanged(each.build(self.dimensions))])

    def licences(self, **counts: int) -> World:
        """The licences of the cluster."""
        return self.observe([LicencesSet(tuple(counts.items()))])

    def load(self, name: str, cpu: int | None = 0, free: str = "1T", **shares: int) -> World:
        """What is measured on the node: percents, and how much memory is free; ``cpu`` None: nobody does."""
        memory = parse_amount(free, Measure.BYTES)
        percents = {key: 10 * share for key, share in shares.items()}
        load = None if cpu is None else Load(cpu=10 * cpu, free_memory=memory, **percents)
        return self.observe([LoadSeen(name, load)])

    def strangers(self, name: str, *ports: int) -> World:
        """All ports of the node that others listen on."""
        return self.observe([PortsSeen(name, ports)])

    def neighbours(self, *pairs: str) -> World:
        """All pairs of racks that are neighbours: ``r1 r2``."""
        return self.observe([RacksSet(tuple((pair.split()[0], pair.split()[1]) for pair in pairs))])

    def apply(self, *groups: GroupBuilder, moves: dict[str, str] | None = None) -> World:
        """The whole list of groups from now on."""
        built = tuple(each.build(self.options.accounting, self.dimensions) for each in groups)
        return self.observe([GroupsApplied(built, tuple((moves or {}).items()))])

    # --- decisions -------------------------------------------------------------------------------------------

    def decide(self, budget: int = 2**31) -> list[Decision]:
        """Run passes now; what the shell is to do."""
        self.log.calls.append(("decide", self.now, budget))
        decided = self.core.decide(self.now, budget)
        self._take(decided)
        if self.check:
            self.follower.apply(self.now, decided.items)
        self._validate(decided)
        return list(decided.orders)

    def _take(self, decided: Decisions) -> None:
        self.more = decided.more
        self.decisions.extend(decided.items)
        for each in decided.items:
            if isinstance(each, Start):
                assert each.attempt not in self.running
                self.running[each.attempt] = each
                self.starts.append(Started(self.names[each.job], each.task, each.node, self.now / SECOND))
            elif isinstance(each, (Preempt, Stop)):
                assert each.attempt in self.running
                assert each.attempt not in self.told
                self.told[each.attempt] = self.running[each.attempt]

    # --- questions -------------------------------------------------------------------------------------------

    def state(self, name: str) -> Any:
        """The core's own ``JobEntry`` of a live job."""
        return self.core.jobs[self.ids[name]]

    def group(self, name: str) -> GroupState:
        """The core's own state of a group."""
        return self.core.groups.get(name)

    def used(self, name: str) -> float:
        """Cores (or servers) that a group with a scalar quota uses."""
        return self.group(name).used[0] / SCALE[self.options.accounting]

    def jobs_running(self) -> list[str]:
        """Names of the jobs of all running tasks, sorted."""
        return sorted(self.names[start.job] for start in self.running.values())

    def running_of(self, group_name: str) -> int:
        """Number of running tasks of a group."""
        return sum(self.core.jobs[start.job].group.name == group_name for start in self.running.values())

    def nodes_of(self, name: str) -> list[str]:
        """Nodes on which tasks of a job run, by task."""
        mine = [start for start in self.running.values() if start.job == self.ids[name]]
        return [start.node for start in sorted(mine, key=lambda start: start.task)]

    def started(self) -> list[str]:
        """Names of the jobs of all starts so far, in order."""
        return [start.job for start in self.starts]

    def victims(self) -> list[str]:
        """Names of the jobs of all attempts ever preempted, in order."""
        return [self.names[each.job] for each in self.decisions if isinstance(each, Preempt)]

    def would_be_victims(self) -> list[str]:
        """The same in the mode ``observe``."""
        return [self.names[each.job] for each in self.decisions if isinstance(each, WouldPreempt)]

    def veto(self, name: str) -> Veto:
        """Why a job waits; it must wait."""
        veto = self.core.veto(self.ids[name])
        assert veto is not None, f"{name} does not wait"
        return veto

    def why(self, name: str) -> str:
        """The veto as a sentence."""
        return sentence(self.veto(name))

    def apart(self) -> Scheduler:
        """Return the scheduler for a test that calls it itself from now on, so that nothing follows it any more."""
        self.check_whole("its last call")
        self.check = False
        return self.core

    def _validate(self, after: object) -> None:
        self._calls += 1
        if self.check:
            check_now_or_later(self, self._calls, lambda: self.check_whole(after))

    def check_whole(self, after: object) -> None:
        """Check all invariants, and that the follower has the same state, unless the test checks no more."""
        if not self.check:
            return
        for number in [waiting.job.id for waiting in self.core.waiting()][:3]:
            assert self.core.veto(number) == self.core._reasons.why_waiting(number), "a kept answer is out of date"
        broken = self.core.validate()
        assert not broken, f"{broken} after {after}; CRESS_CHECK=1 checks after each call"
        assert promised_state(self.follower) == promised_state(self.core), f"after {after}"
