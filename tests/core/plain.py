"""Plain twins of what the core does with columns and compiled loops: slow, short, and nothing shared with it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from cress.core.scheduler import Scheduler
from cress.model.decisions import Decision, Preempt, Start, Stop
from cress.model.events import TaskAdopted
from cress.model.group import SchedPolicy
from cress.model.job import Job, JobType
from cress.model.node import Allocated, Load, Node
from cress.model.resources import Dimensions, ResourceVector

NEVER = 2**61
DISK = ("disk_read", "disk_write", "iops_read", "iops_write")


def fits(request: ResourceVector, free: ResourceVector) -> bool:
    return all(need <= have for need, have in zip(request, free, strict=True))


def plus(a: ResourceVector, b: ResourceVector, times: int = 1) -> ResourceVector:
    return tuple(x + times * y for x, y in zip(a, b, strict=True))


def urgency(left: int, shortest: int, longest: int, late: str) -> Fraction:
    """The urgency of what has ``left`` until its deadline and takes between ``shortest`` and ``longest`` (source S)."""
    if shortest > left:
        return Fraction(late == "urgent")
    return Fraction(1) if longest >= left else Fraction(max(longest, 0), left)


def less_urgent(victim: Running, by: int, core: Scheduler, now: int) -> bool:
    """Whether a running task is less urgent than the job ``by``, which preempts it, by the margin of its group."""
    job = core.jobs[by]
    group, deadline = job.group.spec, job.deadline
    if group.policy is not SchedPolicy.URGENCY or NEVER in (deadline, job.longest):
        return False
    rounds = -(-(job.waiting + len(job.attempts)) // job.most) if job.most else 1
    most = urgency(deadline - now, rounds * job.shortest, rounds * job.longest, job.group.options.late)
    task, ran = core.jobs[victim.job.id], now - victim.since
    if NEVER in (task.deadline, task.longest):
        least = Fraction(0)
    else:
        longest = task.longest if ran < task.longest else task.limit
        least = urgency(task.deadline - now, max(0, task.shortest - ran), longest - ran, task.group.options.late)
    slack = Fraction(1, 100_000)  # the core counts in millionths
    return (
        most > job.group.options.urgency_threshold
        and least <= most - Fraction(job.group.options.urgency_margin) + slack
    )


def starts_in_part(job: Job) -> bool:
    """Whether a gang may start in part at some time; all its parts say so then."""
    return "IssueAsWhole" in (job.parts[0].requirement if job.parts else job.requirement)


# --- who runs where --------------------------------------------------------------------------------------------------


@dataclass
class Running:
    """An attempt that runs."""

    job: Job
    task: int
    node: str
    since: int
    until: int  # the end as far as it is known
    amounts: ResourceVector
    told: bool = False
    # What it was found to have, of a task that was adopted.
    ports: tuple[int, ...] = ()
    devices: tuple[Allocated, ...] = ()


@dataclass
class Stranger:
    """A task of nobody here that runs on a node."""

    node: str
    amounts: ResourceVector
    ports: tuple[int, ...] = ()
    devices: tuple[Allocated, ...] = ()


class Account:
    """What runs, what waits and what every group holds, kept from events and decisions alone."""

    def __init__(self, accounting: str, dimensions: Dimensions) -> None:
        self.accounting = accounting
        self.dimensions = dimensions
        self.nodes: dict[str, Node] = {}
        self.lost: set[str] = set()
        self.cordoned: set[str] = set()
        # Of nodes that say it, their load; and of those that are too busy the reasons: cpu, memory.
        self.loads: dict[str, Load] = {}
        self.busy: dict[str, set[str]] = {}
        self.jobs: dict[int, Job] = {}
        self.group_of: dict[int, str] = {}
        self.running: dict[int, Running] = {}
        # What others hold: tasks by attempt, and amounts by node.
        self.strangers: dict[int, Stranger] = {}
        self.foreign: dict[str, ResourceVector] = {}
        self.waiting: dict[int, set[int]] = {}
        self.cancelled: set[int] = set()
        # What was idle in the leases of each group before what is decided now.
        self.idle_before: dict[str, list[int]] = {}
        self.on_hold: set[int] = set()
        self.behind: dict[int, int] = {}
        # Tasks that are tried again, and not before that time.
        self.not_before: dict[tuple[int, int], int] = {}

    # events

    def add_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.lost.discard(node.name)

    def lose(self, name: str) -> None:
        for attempt in self.running_on(name):
            self.end(attempt, True)
        self.strangers = {attempt: each for attempt, each in self.strangers.items() if each.node != name}
        self.foreign.pop(name, None)
        self.lost.add(name)
        self.loads.pop(name, None)
        self.busy.pop(name, None)

    def measure(self, name: str, load: Load | None, core: Scheduler) -> None:
        """What is measured on a node now (docs/load.md); nothing of it is left when the node is lost."""
        self.loads.pop(name, None)
        before = self.busy.pop(name, set())
        if load is None or name in self.lost:
            return
        self.loads[name] = load
        busy = self.busy[name] = set()
        if not self.nodes[name].judged:
            return
        capacity, held, options = self.nodes[name].capacity, self.held(name), core.options
        for lease in core.pool.leases.values():
            # The account does not know idle parts of leases, which are promised like tasks.
            if lease.idle and core.cluster.names[lease.node] == name:
                held = plus(held, lease.idle_amounts())
        promised = 1000 * held[0] // capacity[0] if capacity[0] else 0
        left, limit, least = capacity[1] - held[1], round(1000 * options.overload_cpu), options.overload_memory
        if limit and "cpu" in before and load.cpu > limit - 100 and load.cpu > promised:
            busy.add("cpu")
        if limit and "cpu" not in before and load.cpu > limit and load.cpu > promised + 100:
            busy.add("cpu")
        free, quarter = load.free_memory, least // 4
        if least and "memory" in before and free < least + quarter and free < left:
            busy.add("memory")
        if least and "memory" not in before and free < least and free < left - quarter:
            busy.add("memory")

    @property
    def closed(self) -> set[str]:
        """The nodes that take no new tasks."""
        return self.lost | self.cordoned | {name for name, reasons in self.busy.items() if reasons} | self.overdrawn

    @property
    def overdrawn(self) -> set[str]:
        """The nodes that have less than is held there."""
        return {name for name in self.nodes if name not in self.lost and min(self.free(name)) < 0}

    def submit(self, job: Job) -> None:
        self.jobs[job.id] = job
        self.group_of[job.id] = job.group or "default"
        self.waiting[job.id] = set(range(job.tasks))

    def cancel(self, job: int) -> None:
        self.cancelled.add(job)
        self.waiting[job].clear()
        for attempt in self.running_of(job):
            self.running[attempt].told = True

    def move(self, moves: dict[str, str]) -> None:
        self.group_of = {job: moves.get(group, group) for job, group in self.group_of.items()}

    def start(self, start: Start, now: int) -> None:
        job = self.jobs[start.job]
        assert start.attempt not in self.running
        assert start.task in self.waiting[job.id], f"{start} does not wait"
        assert job.id not in self.on_hold | self.behind.keys(), f"{start} is not to be offered"
        later = {task for (each, task), time in self.not_before.items() if each == job.id and time > now}
        assert not later if job.gang else start.task not in later, f"{start} before its time"
        assert start.node not in self.closed, f"{start} on a node that takes nothing"
        if job.gang and not starts_in_part(job):
            assert all(self.running[each].since == now for each in self.running_of(job.id)), f"{start} beside others"
        self.waiting[job.id].discard(start.task)
        until = NEVER if job.time_limit is None else now + job.time_limit
        self.running[start.attempt] = Running(job, start.task, start.node, now, until, job.request_of(start.task))
        assert all(amount >= 0 for amount in self.free(start.node)), f"{start.node} holds more than it has"

    def adopt(self, fact: TaskAdopted, now: int) -> None:
        """Enter a task that was found running."""
        if fact.job is None:
            self.strangers[fact.attempt] = Stranger(fact.node, fact.amounts, fact.ports, fact.devices)
            return
        job = self.jobs[fact.job]
        self.waiting[job.id].discard(fact.task)
        self.not_before.pop((job.id, fact.task), None)
        until = NEVER if job.time_limit is None else fact.since + job.time_limit
        self.running[fact.attempt] = Running(
            job, fact.task, fact.node, fact.since, until if fact.end is None else fact.end, fact.amounts,
            told=job.id in self.cancelled, ports=fact.ports, devices=fact.devices,
        )  # fmt: skip

    def end(self, attempt: int, again: bool, not_before: int = 0) -> None:
        gone = self.running.pop(attempt)
        if again and gone.job.id not in self.cancelled:
            self.waiting[gone.job.id].add(gone.task)
            self.not_before[gone.job.id, gone.task] = not_before

    def stop(self, decision: Stop) -> None:
        stopped = self.running[decision.attempt]
        stopped.told = True
        stopped.until = min(stopped.until, decision.end)

    def preempt(self, decision: Preempt, core: Scheduler, now: int) -> None:
        """Enter a preemption; without it, the victim's group must be above its quota."""
        victim = self.running[decision.attempt]
        assert (victim.job.id, victim.task, victim.node) == (decision.job, decision.task, decision.node)
        assert not victim.told, f"{decision}: told twice"
        assert victim.job.type is not JobType.DATABASE
        assert decision.job != decision.by
        group = self.group_of[victim.job.id]
        victim.told = True
        victim.until = min(victim.until, now + decision.grace)
        stays = sum(not self.running[each].told for each in self.running_of(victim.job.id))
        assert stays >= victim.job.minimum, f"{victim.job.name} falls below its minimum"
        if core.attempts[decision.attempt].parts:
            # The owner takes it back.
            return
        by = self.jobs[decision.by]
        if group == self.group_of[decision.by]:
            lower = victim.job.priority < by.priority
            outranked = lower and core.groups.by_name[group].options.preempt_within == "lower_priority"
            same = (victim.job.workload or victim.job.type) == (by.workload or by.type)
            outranked = outranked or (lower and same and core.options.lending == "on")
            assert outranked or less_urgent(victim, decision.by, core, now), (
                f"{decision}: not of lower priority or urgency"
            )
            return
        state = core.groups.by_name[group]
        quota = state.quota
        together = self.together(decision.attempt, core)
        told = {each: self.running[each].told for each in together}
        for each in together:
            self.running[each].told = False
        tasks = self.used(group, core, leaving=False)
        # What the same answer takes of leases later still counted when this was decided.
        before = self.idle_before.get(group, [0] * len(tasks))
        now_used = with_idle(tasks, group, core)
        used = [max(have, own + idle) for have, own, idle in zip(now_used, tasks, before, strict=True)]
        for each in together:
            self.running[each].told = told[each]
        assert any(have > limit for have, limit in zip(used, quota, strict=True)), f"{group} is not above its quota"
        lost = list(map(sum, zip(*(self.charge(self.running[each], core) for each in together), strict=True)))
        for i in range(state.base, len(quota)):
            # Of a kind of node that it is guaranteed it loses only what is beyond that.
            assert not lost[i] or not quota[i] or used[i] > quota[i], f"{group} is not above its quota of a kind"

    def together(self, attempt: int, core: Scheduler) -> set[int]:
        """The running tasks that yield as a whole with one: its gang, and all in the lease that it holds or is in."""
        found, new = set[int](), {attempt}
        while new:
            found |= new
            mates = {
                each for one in new if self.running[one].job.gang for each in self.running_of(self.running[one].job.id)
            }
            for lease in core.pool.leases.values():
                members = set(lease.tasks) | ({lease.holder.id} if lease.holder is not None else set())
                if lease.holder is not None and members & new:
                    mates |= members
            new = (mates & self.running.keys()) - found
        return found

    # questions

    def alive(self) -> set[int]:
        running = {each.job.id for each in self.running.values()}
        return {job for job in self.jobs if job not in self.cancelled and (self.waiting[job] or job in running)}

    def running_of(self, job: int) -> list[int]:
        return [attempt for attempt, each in self.running.items() if each.job.id == job]

    def running_on(self, node: str) -> list[int]:
        return [attempt for attempt, each in self.running.items() if each.node == node]

    def held(self, node: str) -> ResourceVector:
        total: ResourceVector = (0,) * len(self.dimensions)
        holders: list[Running | Stranger] = [*self.running.values(), *self.strangers.values()]
        for each in holders:
            if each.node == node:
                total = plus(total, each.amounts)
        return plus(total, self.foreign[node]) if node in self.foreign else total

    def free(self, node: str) -> ResourceVector:
        return plus(self.nodes[node].capacity, self.held(node), -1)

    def nodes_with_room(self, request: ResourceVector) -> list[str]:
        """The nodes that would take one task of ``request`` now, in the order of their registration."""
        closed = self.closed
        return [name for name in self.nodes if name not in closed and fits(request, self.free(name))]

    def charge(self, each: Running, core: Scheduler) -> list[int]:
        """What a running task costs its group, in the measures of the group's quota (G)."""
        group = core.groups.by_name[self.group_of[each.job.id]]
        kinds = self.charge_of_kinds(each, core)
        if group.vector:
            return [each.amounts[k] for k in group.dims] + kinds
        pairs = list(zip(each.amounts, self.nodes[each.node].capacity, strict=True))
        if self.accounting == "cpu":
            cores = self.nodes[each.node].capacity[0]
            return [max(each.amounts[0], *(-(-cores * need // have) for need, have in pairs if need and have), 0)]
        return [max((-(-1_000_000 * need // have) for need, have in pairs if need and have), default=0), *kinds]

    def charge_of_kinds(self, each: Running, core: Scheduler) -> list[int]:
        """What a running task costs in the measures with a kind of node, by the label of its node."""
        found = []
        for name in core.groups.kinds.names:
            dimension, _, kind = name.rstrip(")").partition("(")
            label = dict(core.cluster.specs[core.cluster.index[each.node]].attributes).get("NodeType")
            found.append(each.amounts[core.dimensions.index[dimension]] if label == kind else 0)
        return found

    def used(self, group: str, core: Scheduler, leaving: bool = True, user: str | None = None) -> list[int]:
        """What a group (or one user of it) holds; without what was told to stop unless ``leaving``."""
        total = [0] * len(core.groups.by_name[group].quota)
        for each in self.running.values():
            if self.group_of[each.job.id] == group and (leaving or not each.told) and user in (None, each.job.user):
                total = [have + more for have, more in zip(total, self.charge(each, core), strict=True)]
        return total

    # comparisons

    def check_gangs(self, decisions: list[Decision]) -> None:
        """In one answer all tasks of a gang that waited start, or none, unless it may start in part."""
        started = Counter(decision.job for decision in decisions if isinstance(decision, Start))
        for job in started:
            if self.jobs[job].gang and not starts_in_part(self.jobs[job]):
                assert not self.waiting[job], f"{len(self.waiting[job])} tasks of gang {job} were left behind"

    def note_idle(self, core: Scheduler) -> None:
        """Take note of what is idle in the leases of each group, before the core decides."""
        groups = {lease.workload.group for lease in core.pool.leases.values()}
        self.idle_before = {each.name: with_idle([0] * len(each.quota), each.name, core) for each in groups}

    def follow_leases(self, core: Scheduler) -> None:
        """Take over what the holders of leases use themselves; the invariants of the core check the rest."""
        for number, each in self.running.items():
            if each.job.is_lease and number in core.attempts:
                each.amounts = core.attempts[number].amounts

    def compare(self, core: Scheduler) -> None:
        """The core knows the same tasks, and every group uses what it holds."""
        assert {attempt.id for attempt in core.attempts.values()} == self.running.keys()
        assert core.books.strangers.keys() == self.strangers.keys()
        cluster = core.cluster
        closed = {cluster.names[f] for f in cluster.overdrawn}
        # Nodes may lack devices alone.
        assert self.overdrawn <= closed
        # It knows no leases either: what is idle in those that are held is not free.
        unknown = {name for f, name in enumerate(cluster.names) if cluster.devices[f] or f in core.pool.idle_on}
        assert closed - self.overdrawn <= unknown
        for name in self.nodes.keys() - self.lost:
            f = cluster.index[name]
            # Who has a disk alone holds all that it can do, which the account does not know.
            counted = [k for k, each in enumerate(self.dimensions.names) if not (cluster.devices[f] and each in DISK)]
            # The account knows of no leases: what they have idle is free.
            leases = core.pool.idle_on.get(f, {}).values()
            idle = [sum(lease.idle_amounts()[k] for lease in leases) for k in counted]
            free = list(map(int.__add__, (cluster.free(f)[k] for k in counted), idle))
            assert free == [self.free(name)[k] for k in counted], f"what is free on {name}"
        for job, tasks in self.waiting.items():
            state = core.jobs.get(job)
            known = 0
            if state is not None:
                known = state.waiting + len(state.later) + sum(len(claim.tasks) for claim in state.claims)
                known += len(state.carried)
            assert known == len(tasks), f"job {job}: {known} tasks wait, {len(tasks)} should"
        for group in core.groups:
            used = with_idle(self.used(group.name, core), group.name, core)
            assert group.used == used, f"{group.name} uses {group.used}"
            kept = getattr(group.policy, "_used", None)
            if kept is not None:
                users = {each.job.user for each in self.running.values() if self.group_of[each.job.id] == group.name}
                by_user = {user: self.used(group.name, core, user=user) for user in users}
                assert kept == {user: amounts for user, amounts in by_user.items() if any(amounts)}


def with_idle(used: list[int], group: str, core: Scheduler) -> list[int]:
    """What tasks of a group use, and the idle parts of its leases, which the account does not know."""
    idle = (lease.charge for lease in core.pool.leases.values() if lease.workload.group.name == group)
    return list(map(sum, zip(used, *idle, strict=True)))


# --- when something fits ---------------------------------------------------------------------------------------------


@dataclass
class Span:
    """An amount held on a node during [start, end)."""

    node: int
    start: int
    end: int
    amount: ResourceVector


@dataclass
class Future:
    """Nodes over time. A lease that outlived its end counts as ending in the next microsecond."""

    now: int
    capacity: list[ResourceVector]  # nodes that take nothing have nothing
    spans: list[Span] = field(default_factory=list)

    def lease(self, node: int, end: int, amount: ResourceVector) -> None:
        self.spans.append(Span(node, self.now, max(end, self.now + 1), amount))

    def book(self, start: int, end: int, request: ResourceVector, nodes: list[tuple[int, int]]) -> None:
        for node, count in nodes:
            self.spans.append(Span(node, start, end, tuple(count * amount for amount in request)))

    def free(self, node: int, time: int) -> ResourceVector:
        left = self.capacity[node]
        for span in self.spans:
            if span.node == node and span.start <= time < span.end:
                left = plus(left, span.amount, -1)
        return left

    def copies(self, node: int, time: int, duration: int, request: ResourceVector, most: int) -> int:
        """How many copies of ``request`` the node takes during [time, time + duration)."""
        if not any(self.capacity[node]):
            return 0
        times = [time, *(s.start for s in self.spans if s.node == node and time < s.start < time + duration)]
        for each in times:
            left = self.free(node, each)
            most = min([most, *(have // need for have, need in zip(left, request, strict=True) if need)])
        return max(0, most)

    def earliest(self, job: Job, size: int) -> tuple[int, list[tuple[int, int]]] | None:
        """When ``size`` copies fit together first, and where: nodes filled in their order; None if never known."""
        duration = NEVER if job.time_limit is None else job.time_limit
        for time in sorted({self.now, *(span.end for span in self.spans if self.now < span.end < NEVER)}):
            places: list[tuple[int, int]] = []
            left = size
            for node in range(len(self.capacity)):
                count = self.copies(node, time, duration, job.request, left) if left else 0
                if count:
                    places.append((node, count))
                    left -= count
            if not left:
                return time, places
        return None


def plan_in_order(future: Future, units: list[tuple[Job, int]]) -> list[int | None]:
    """When each unit starts at the earliest, one planned after the other; None = no known end makes room."""
    starts: list[int | None] = []
    for job, size in units:
        found = future.earliest(job, size)
        starts.append(None if found is None else found[0])
        if found is not None:
            limit = NEVER if job.time_limit is None else job.time_limit
            future.book(found[0], min(NEVER, found[0] + limit), job.request, found[1])
    return starts


def ratio(used: list[int], quota: list[int]) -> Fraction:
    return max(Fraction(have, limit) for have, limit in zip(used, quota, strict=True))


# --- backfill --------------------------------------------------------------------------------------------------------


class PlainEasy:
    """EASY by the book: one queue; the head is reserved for; what comes later may start beside the reservation.

    Nodes are tried in their order. A unit is one task, or all tasks of a gang together.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.queue: list[tuple[Job, int]] = []
        self.leases: dict[int, tuple[int, int, ResourceVector]] = {}
        self.next = 1

    def ever(self, job: Job) -> bool:
        """Whether all tasks of the gang fit together on the empty nodes."""
        return Future(0, [node.capacity for node in self.nodes]).earliest(job, job.tasks) is not None

    def submit(self, job: Job) -> None:
        self.queue.append((job, job.tasks))

    def cancel(self, job: int) -> None:
        self.queue = [each for each in self.queue if each[0].id != job]

    def end(self, number: int) -> None:
        del self.leases[number]

    def future(self, now: int) -> Future:
        future = Future(now, [node.capacity for node in self.nodes])
        for node, end, request in self.leases.values():
            future.lease(node, end, request)
        return future

    def decide(self, now: int) -> list[tuple[int, str]]:
        started: list[tuple[int, str]] = []
        while self._pass(now, started):
            pass
        return started

    def _pass(self, now: int, started: list[tuple[int, str]]) -> bool:
        future = self.future(now)
        for place, (job, _) in enumerate(self.queue):
            size = job.tasks if job.gang else 1
            found = future.earliest(job, size)
            if found is not None and found[0] == now:
                self._start(place, found[1], now, started)
                return True
            if place == 0:
                assert found is not None
                assert job.time_limit is not None
                future.book(found[0], found[0] + job.time_limit, job.request, found[1])
        return False

    def _start(self, place: int, nodes: list[tuple[int, int]], now: int, started: list[tuple[int, str]]) -> None:
        job, left = self.queue[place]
        assert job.time_limit is not None
        for node, count in nodes:
            for _ in range(count):
                self.leases[self.next] = (node, now + job.time_limit, job.request)
                self.next += 1
                left -= 1
                started.append((job.id, self.nodes[node].name))
        if left:
            self.queue[place] = (job, left)
        else:
            del self.queue[place]


@dataclass
class Planned:
    """A unit with its place in time."""

    job: Job
    start: int
    nodes: list[tuple[int, int]]


class PlainConservative(PlainEasy):
    """Everyone has a planned start; when something ended or left, all are planned again in the order of the queue."""

    def __init__(self, nodes: list[Node]) -> None:
        super().__init__(nodes)
        self.units: list[Planned] = []
        self.freed = False

    def submit(self, job: Job) -> None:
        for _ in range(1 if job.gang else job.tasks):
            self.units.append(Planned(job, -1, []))

    def cancel(self, job: int) -> None:
        self.units = [unit for unit in self.units if unit.job.id != job]
        self.freed = True

    def end(self, number: int) -> None:
        super().end(number)
        self.freed = True

    def _plan(self, unit: Planned, now: int) -> None:
        future = self.future(now)
        for other in self.units:
            if other is not unit and other.nodes:
                assert other.job.time_limit is not None
                start = max(other.start, now)
                future.book(start, start + other.job.time_limit, other.job.request, other.nodes)
        found = future.earliest(unit.job, unit.job.tasks if unit.job.gang else 1)
        assert found is not None
        unit.start, unit.nodes = found

    def decide(self, now: int) -> list[tuple[int, str]]:
        for unit in self.units:
            if self.freed or not unit.nodes:
                self._plan(unit, now)
        self.freed = False
        started: list[tuple[int, str]] = []
        for unit in self.units.copy():
            if unit.start <= now:
                self.units.remove(unit)
                self.queue = [(unit.job, sum(count for _, count in unit.nodes))]
                self._start(0, unit.nodes, now, started)
        return started
