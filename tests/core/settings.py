"""What random stories are drawn from: settings of a cluster, with its groups, nodes and jobs, and the operations on
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec
from hypothesis import strategies as st

from cress.core.scheduler import Scheduler
from cress.model.devices import capacity_with
from cress.model.estimates import RunEstimate
from cress.model.events import (
    Event,
    GroupsApplied,
    NodeAdded,
)
from cress.model.group import Group, PreemptivePolicy, Quota, QuotaWindow, SchedPolicy
from cress.model.groups.tree import weeks_of
from cress.model.job import Job, JobPart, JobType, least_request
from cress.model.limits import Limits
from cress.model.node import Device, Node, Value
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.times import DAY, MINUTE, SECOND
from tests.core.selective import choosing, selective

Operation = tuple[str, int]

# BackFill twice: it has the most variants.
POLICIES = (*SchedPolicy, SchedPolicy.BACKFILL)
USERS = ("ann", "bob", "cid")
GROUPS = ("batch", "games", "media")
RACKS = ("", "r1", "r2", "r3")

# How often each kind of operation comes, in the stories in which everything may happen.
EVERYTHING = {
    "submit": 12,
    "burst": 8,
    "end": 3,
    "fail": 2,
    "cancel": 3,
    "wait": 6,
    "wake": 4,
    "lose": 1,
    "back": 2,
    "add": 1,
    "cordon": 1,
    "uncordon": 3,
    "groups": 1,
    "clock": 2,
    "hold": 2,
    "release": 3,
    "estimate": 6,
    "come_after": 2,
    "free": 3,
    "load": 3,
    "adopt": 2,
    "foreign_use": 2,
    "resize": 2,
}
# With changes of submitted jobs.
UPDATED = {**EVERYTHING, "update": 12}
# With constraints, nodes change too.
CONSTRAINED = {**EVERYTHING, "change": 3}
# The same with what changes ports and racks.
PLACED = {
    "submit": 24, "burst": 8, "end": 4, "fail": 2, "cancel": 2, "wait": 2, "wake": 3, "lose": 3, "back": 6, "add": 4,
    "cordon": 1, "uncordon": 2, "groups": 1, "hold": 1, "release": 2, "strangers": 2, "neighbours": 3, "change": 1,
    "adopt": 2, "foreign_use": 1, "resize": 2,
}  # fmt: skip
# With advance reservations and maintenance windows.
ADVANCE = {**EVERYTHING, "clock": 1, "reserve": 8, "unreserve": 1}
# The same where all that runs there is known, and may be stopped.
KEPT = {
    "submit": 12, "burst": 8, "end": 3, "fail": 2, "cancel": 3, "wait": 8, "wake": 6, "lose": 1, "back": 2, "add": 1,
    "cordon": 1, "uncordon": 3, "hold": 1, "release": 2, "estimate": 3, "reserve": 8, "unreserve": 1,
}  # fmt: skip
# Only jobs and time.
PLAIN = {"submit": 8, "burst": 2, "end": 3, "wait": 6, "wake": 2}


@dataclass(frozen=True)
class Setting:
    """What a story begins with. ``overrun``: some tasks outlive their time limit."""

    custom: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    nodes: tuple[Node, ...] = ()
    overrun: bool = False
    limits: str = "some"  # of the jobs have a time limit: all, some, none
    gangs: bool = True
    parts: str = "none"  # of the gangs have parts: none, some, or some whose parts are "alike" and ask for the same
    vectors: bool = False
    windows: bool = False
    constrained: bool = False  # whether nodes have attributes, and jobs requirements and ranks
    placed: bool = False  # whether jobs ask for ports, disks, racks and each other
    within: float = 0.3  # of the groups preempt their own tasks of lower priority
    estimates: bool = True  # whether groups may plan by estimates, which may be wrong
    trees: bool = False  # whether groups are in a tree, have a MaxQuota, or keep capacity for themselves
    limited: bool = False  # whether groups limit the jobs that run at once
    fragments: bool = False  # whether jobs name workloads, and what is idle is lent
    selective: bool = False  # whether jobs spread, keep apart and together, and nodes choose their jobs

    def random_node(self, rng: Random, number: int) -> Node:
        """A node as this setting has them."""
        node = random_node(rng, number, self.custom, self.constrained, self.placed)
        return choosing(node, rng) if self.selective else node

    def make(self) -> Scheduler:
        """A scheduler with these nodes and groups."""
        core = Scheduler(Dimensions(self.custom), Options(**self.options))
        core.observe(0, self.first_events())
        return core

    def first_events(self) -> list[Event]:
        """The events that tell a scheduler of the nodes and groups."""
        return [*(NodeAdded(node) for node in self.nodes), GroupsApplied(self.groups)]


def random_node(
    rng: Random, number: int, custom: tuple[str, ...], constrained: bool = False, placed: bool = False
) -> Node:
    """A node of some size; it may lack a custom dimension, the network or the disk."""
    dimensions = Dimensions(custom)
    amounts = {"cpu": 1000 * rng.choice((1, 3, 4, 6, 8)), "memory": rng.choice((6, 8, 12, 16))}
    amounts["network"] = rng.choice((0, 100))
    amounts["disk_read"] = rng.choice((0, 50, 50))
    for name in custom:
        amounts[name] = 1000 * rng.choice((0, 1, 4))
    rack, judged = rng.choice(("", "r1", "r2")), rng.random() < 0.9
    node = Node(name=f"n{number:03}", capacity=dimensions.vector(**amounts), rack=rack, judged=judged)
    if placed:
        disks = (("Disks", rng.choice((1, 2))),) if rng.random() < 0.4 else ()
        rack = rng.choice(RACKS)
        node = msgspec.structs.replace(node, rack=rack, attributes=disks, ports=(100, 100 + rng.choice((0, 2, 5))))
        if not disks:
            node = with_devices(node, rng, dimensions)
    return described(node, rng) if constrained else node


def with_devices(node: Node, rng: Random, dimensions: Dimensions) -> Node:
    """The node with disks, and with what it has of custom dimensions, known one by one; or only some of it."""
    devices = [
        Device(kind=name, id=str(i))
        for name in dimensions.custom
        if name != "slots" and rng.random() < 0.8
        for i in range(node.capacity[dimensions.index[name]] // 1000)
    ]
    if rng.random() < 0.7:
        speeds = (rng.choice((10, 25, 50)) for _ in range(rng.choice((1, 2, 3))))
        devices += [Device(kind="disk", id=f"sd{i}", bandwidth=(speed, 0, 0, 0)) for i, speed in enumerate(speeds)]
        bare = list(node.capacity)
        bare[dimensions.index["disk_read"]] = 0
        node = msgspec.structs.replace(node, capacity=tuple(bare))
    capacity = capacity_with(node.capacity, devices, dimensions)
    return msgspec.structs.replace(node, devices=tuple(devices), capacity=capacity)


def described(node: Node, rng: Random) -> Node:
    """The node with other attributes and another rack."""
    attributes: list[tuple[str, Value]] = [each for each in node.attributes if each[0] == "Disks"]
    if rng.random() < 0.8:
        attributes.append(("GCC", rng.choice(("4.4", "4.5", "4.10"))))
    if rng.random() < 0.7:
        attributes.append(("SSD", rng.random() < 0.6))
    return msgspec.structs.replace(node, rack=rng.choice(("", "r1", "r2")), attributes=tuple(attributes))


# cpu in cores and memory of a task: alike, lopsided, and now and then too much for any node.
SIZES = ((1, 1), (1, 1), (1, 2), (2, 2), (2, 1), (2, 4), (3, 1), (1, 5), (4, 4), (0.5, 0), (0, 3), (9, 1))


CLAUSES = (
    "GCC >= 4.5",
    'Rack in ("r1", "r2")',
    "SSD = True",
    "IdleCPU >= 2",
    "IdleMemory >= 4",
    "Resource = <2>",
    "Nodes in (n00[0,2,4])",
    "CPU >= 4 || SSD = True",
    "! defined(SSD)",
    "! defined(CPULoad) || CPULoad <= 50%",
    "FreeMemory >= 4 || IdleCPU > 1",
    "IdleCPU < 4",
    'Rack != "r1"',
    'regexp(Name, "n00[0-3]$")',
    'startswith(Rack, "r") && size(Rack) = 2',
    "SSD is not False",
    "max(IdleCPU, GCC) % 2 < 1",
    'if(SSD is undefined, endswith(Name, "1"), IdleCPU > 1)',
)
RELAXATIONS = (
    "", "", "", "", " && f(x) = (Waittime > 10s)", " && f(x) = (Waittime >= 3s && ClusterLoad < 50%)",
    " && f(x, weight=2) = (ClusterLoad > 40%)", " && f(x) = True", " && f(x) = (Waittime > 5s && Waittime <= 30s)",
)  # fmt: skip
RANKS = (
    "",
    "",
    "CPU",
    "2 × IdleMemory",
    "IdleCPU",
    "0.5 × (SSD = True) - CPU",
    'Memory - 3 × (Rack = "r1")',
    "0 - GCC",
    "min(CPU, Memory) + if(SSD, 1, 0.5)",
    "-CPULoad",
)


def constrained(job: Job, rng: Random) -> Job:
    """The job with a requirement, a rank, or neither."""
    clauses = rng.sample(CLAUSES, rng.choice((0, 0, 1, 1, 2, 3)))
    requirement = " && ".join(f"{clause if '||' not in clause else f'({clause})'}{rng.choice(RELAXATIONS)}"
                              for clause in clauses)  # fmt: skip
    return msgspec.structs.replace(job, requirement=requirement, rank=rng.choice(RANKS))


def placed(job: Job, rng: Random) -> Job:
    """The job with ports, disks, racks or other jobs in mind, or with nothing of it."""

    def some(share: float) -> bool:
        return rng.random() < share

    clauses = [job.requirement] if job.requirement else []
    if some(0.2):
        clauses.append("ExclusiveDisk = True" + rng.choice(("", "", " && f(x) = True")))
    if some(0.25):
        clauses.append("NetworkAdjacent = True" + rng.choice(("", "", " && f(x) = True")))
    if job.id > 1 and some(0.5):
        other = rng.randrange(max(1, job.id - 4), job.id)
        clauses.append(f"JobDependency = job{other}" + rng.choice(("", "", " && f(x) = True")))
    return msgspec.structs.replace(
        job,
        requirement=" && ".join(clauses),
        ports=rng.choice(
            ((), (), (), (("a", 80),), (("a", 0),), (("a", 0), ("b", 81), ("c", 0)), (("a", 101), ("b", 0)))
        ),
        max_per_node=rng.choice((0, 0, 0, 0, 1, 2)),
        max_per_rack=rng.choice((0, 0, 0, 0, 1, 3)),
        application=rng.choice(("", "", "shop")),
    )


def random_job(rng: Random, id: int, group: str, setting: Setting) -> Job:
    """A job of any kind: array or gang, with or without a limit, sometimes larger than any node."""
    cores, memory = rng.choice(SIZES)
    amounts = {"cpu": int(1000 * cores), "memory": memory}
    if rng.random() < 0.1:
        amounts["disk_read"] = rng.choice((10, 25))
    for name in setting.custom:
        if rng.random() < 0.1:
            amounts[name] = rng.choice((500, 1000, 3000))
    tasks = rng.choice((1, 1, 1, 2, 3, 6))
    limited = setting.limits == "all" or (setting.limits == "some" and rng.random() < 0.6)
    kind = rng.choices((JobType.BATCH, JobType.SERVICE, JobType.DATABASE), (16, 1, 1))[0]
    job = Job(
        id=id,
        group=group,
        name=f"job{id}",
        user=rng.choice(USERS),
        request=Dimensions(setting.custom).vector(**amounts),
        tasks=tasks,
        gang=setting.gangs and tasks > 1 and rng.random() < 0.4,
        priority=rng.randint(0, 3),
        time_limit=rng.choice((1, 5, 20, 60, 300, 300)) * SECOND if limited else None,
        type=kind,
        minimum=rng.randint(0, tasks) if kind is JobType.SERVICE else 0,
        stop_grace=rng.choice((0, 5, 30)) * SECOND,
        deadline=random_deadline(Random(-id)),
    )
    if setting.fragments:
        job = msgspec.structs.replace(job, workload=rng.choice(("", "", "dask", "spark")))
        if job.type is JobType.BATCH and rng.random() < 0.2:
            job = msgspec.structs.replace(job, is_lease=True, min_time=rng.choice((0, 0, 20)) * SECOND)
    job = constrained(job, rng) if setting.constrained else job
    job = placed(job, rng) if setting.placed else job
    job = selective(job, rng) if setting.selective else job
    if setting.parts != "none" and job.gang:
        job = in_parts(job, Random(-id - 1), alike=setting.parts == "alike")
    return job


def in_parts(job: Job, rng: Random, *, alike: bool) -> Job:
    """Some gangs as two parts, which ask for the same (``alike``), or for different amounts, or only one of which has
    the requirement.
    """
    if rng.random() < 0.5 or job.is_lease or job.type is not JobType.BATCH:
        return job
    first = rng.randint(1, job.tasks - 1)
    cores, memory = rng.choice(SIZES)
    other = (int(1000 * cores), memory, *rng.choice((job.request[2:], (0,) * len(job.request[2:]))))
    requests = rng.choice(((job.request, other), (other, job.request), (job.request, job.request)))
    asked = rng.choice(((job.requirement, job.rank), ("", "")))
    if any(word in job.requirement for word in ("within", "spread", "away_from", "near", "Adjacent", "Whole")):
        # These are about all tasks.
        asked = job.requirement, asked[1]
    if alike:
        requests, asked = (job.request, job.request), (job.requirement, job.rank)
    parts = (
        JobPart(name="a", tasks=first, request=requests[0], requirement=job.requirement, rank=job.rank),
        JobPart(name="b", tasks=job.tasks - first, request=requests[1], requirement=asked[0], rank=asked[1]),
    )
    return msgspec.structs.replace(job, parts=parts, request=least_request(parts), requirement="", rank="")


def random_deadline(rng: Random) -> int:
    """A deadline soon after one of the moments at which the wall clock is set, or none."""
    if rng.random() < 0.3:
        return 0
    return 10 * DAY + rng.choice((60, 120)) * MINUTE + rng.choice((1, 20, 120, 400, 1000)) * SECOND


def random_quota(rng: Random, setting: Setting) -> Quota:
    """A quota in the accounting of the setting, in the size of the jobs."""
    if setting.options.get("accounting") != "dominant":
        return Quota(scalar=1000 * rng.choice((1, 2, 4, 6, 8)))
    if setting.vectors and rng.random() < 0.6:
        return Quota(amounts=(("cpu", 1000 * rng.randint(1, 8)), ("memory", rng.randint(2, 16))))
    return Quota(scalar=rng.choice((300_000, 700_000, 1_000_000, 2_000_000)))


# How BackFill looks ahead; most stories are shorter than a day.
BACKFILLS: tuple[list[tuple[str, str]], ...] = (
    [("backfill", "easy")],
    [("backfill", "conservative")],
    [("backfill", "conservative"), ("backfill_depth", "3")],
    [("estimates", "predicted"), ("backfill_order", "expansion_factor"), ("overdue_after", "30s")],
    [("estimates", "predicted"), ("overdue_after", "0s")],
    [("backfill_order", "expansion_factor"), ("overdue_after", "2m")],
    [("estimates", "predicted"), ("backfill_order", "shortest_first"), ("overdue_after", "1m")],
)


# How the policy Urgency takes deadlines that are lost, and when it preempts.
URGENCIES: tuple[list[tuple[str, str]], ...] = (
    [],
    [("late", "urgent")],
    [("urgency_threshold", "0.3"), ("urgency_margin", "0")],
    [("late", "urgent"), ("urgency_threshold", "0.5"), ("estimates", "predicted")],
)


def random_estimate(rng: Random) -> RunEstimate:
    """An estimate, right or wrong."""
    times = sorted(rng.choice((0, 1, 4, 20, 100, 400)) * SECOND for _ in range(4))
    return RunEstimate(times[0], times[2], times[3], times[1], least=times[0])


def random_group(rng: Random, name: str, setting: Setting, policies: tuple[SchedPolicy, ...] = POLICIES) -> Group:
    """A group with any policy, and options of its own now and then."""
    policy = rng.choice(policies)
    own: list[tuple[str, str]] = []
    if policy is SchedPolicy.BACKFILL:
        own += rng.choice(BACKFILLS)
        if rng.random() < 0.2:
            own.append(("backfill_depth", "2"))
    if policy is SchedPolicy.CAPACITY and rng.random() < 0.5:
        own.append(("user_limit_factor", rng.choice(("1", "1.5"))))
    if policy is SchedPolicy.PRIORITY and rng.random() < 0.5:
        own.append(("priority_ageing", "60"))
    if policy is SchedPolicy.URGENCY:
        own += rng.choice(URGENCIES)
    if not setting.estimates:
        own = [each for each in own if each[0] != "estimates"]
    if rng.random() < setting.within:
        own.append(("preempt_within", "lower_priority"))
    if rng.random() < 0.2:
        own.append(("min_runtime", "10s"))
    if rng.random() < 0.2:
        own.append(("grace", rng.choice(("0s", "3s"))))
    windows: tuple[QuotaWindow, ...] = ()
    if setting.windows and rng.random() < 0.5:
        windows = (QuotaWindow(tuple(range(7)), 60, 120, random_quota(rng, setting)),)
    limits = random_limits(Random(rng.random())) if setting.limited else Limits()
    return Group(
        name=name,
        limits=limits,
        quota=random_quota(rng, setting),
        windows=windows,
        policy=policy,
        preemptive=rng.choice(tuple(PreemptivePolicy)),
        weight=rng.randint(1, 3),
        user_weights=(("bob", 2),) if rng.random() < 0.3 else (),
        options=tuple(own),
    )


def in_a_tree(groups: tuple[Group, ...], rng: Random, *, limited: bool = False) -> tuple[Group, ...]:
    """The same groups, some of them in others, some of these with more than the sum of their quotas; some with bounds,
    or limits.
    """
    quotas = [each for group in groups for each in (group.quota, *(window.quota for window in group.windows))]
    if len({tuple(name for name, _ in each.amounts) for each in quotas}) > 1 or rng.random() < 0.2:
        # In one tree all quotas are of one kind.
        return tuple(bounded(msgspec.structs.replace(group, parent=""), rng) for group in groups)
    top = [Group(name="outer"), Group(name="inner", parent="outer" if rng.random() < 0.7 else "")]
    made = []
    for group in groups:
        parent = rng.choice(("", "inner", "inner", "outer"))
        made.append(bounded(msgspec.structs.replace(group, parent=parent), rng))
    used = {group.parent for group in made}
    top = [each for each in top if each.name in used or (each.name == "outer" and top[1].parent and "inner" in used)]
    if limited:
        top = [msgspec.structs.replace(each, limits=random_limits(Random(rng.random()))) for each in top]
    made += top
    weeks = weeks_of(made)
    for each in top:
        if rng.random() < 0.6:
            # The inner one may have less than all of the outer one.
            most = largest([quota for _, quota in weeks[each.name]])
            times, plus = (1, 2_000) if each.name == "inner" else (3, 9_000)
            amounts = tuple((name, 2 * times * amount) for name, amount in most.amounts)
            more = Quota(scalar=most.scalar and times * most.scalar + plus, amounts=amounts)
            made[made.index(each)] = msgspec.structs.replace(each, quota=more)
    return tuple(made)


def largest(quotas: Sequence[Quota]) -> Quota:
    """The most that any of these quotas has of each amount; all have the same ones."""
    amounts = tuple((name, max(dict(each.amounts)[name] for each in quotas)) for name, _ in quotas[0].amounts)
    return Quota(scalar=max(each.scalar for each in quotas), amounts=amounts)


def bounded(group: Group, rng: Random) -> Group:
    """The group with a MaxQuota, with a bound of what it lends, or with neither."""
    group = msgspec.structs.replace(group, max_quota=None, lendable=None)
    quotas = [group.quota, *(window.quota for window in group.windows)]
    if len({tuple(name for name, _ in each.amounts) for each in quotas}) > 1:
        return group
    if rng.random() < 0.4:
        most = largest(quotas)
        twice = Quota(scalar=2 * most.scalar, amounts=tuple((name, 2 * amount) for name, amount in most.amounts))
        group = msgspec.structs.replace(group, max_quota=twice)
    if rng.random() < 0.4:
        half = Quota(group.quota.scalar // 2, tuple((name, -(-amount // 2)) for name, amount in group.quota.amounts))
        group = msgspec.structs.replace(group, lendable=rng.choice((Quota(), half)))
    return group


def random_limits(rng: Random) -> Limits:
    """Limits on running jobs that are often reached, or none."""
    return Limits(running=rng.choice((None, 0, 1, 2, 3, 5)), running_per_user=rng.choice((None, 1, 1, 2)))


def _setting(
    choose: Callable[[Sequence[Any]], Any], number: Callable[[int, int], int], fixed: dict[str, Any]
) -> Setting:
    options: dict[str, Any] = {
        "order": choose(("share", "share", "urgency", "deadline")),
        "behind_blocked": choose(("reserve", "quota_only")),
        "accounting": choose(("cpu", "dominant")),
        "preemption": choose(("on", "on", "on", "observe", "off")),
        "node_order": choose(("first", "balance", "best_fit", "spread")),
        "balance_gate": choose(("off", "off", "off", "on")),
        "drain_after": choose((600 * SECOND, 30 * SECOND, 0)),
        "max_per_round": choose((1.0, 0.1)),
        "overload_memory": choose((0, 4)),
        "share_half_life": choose((0, 0, 0, 20 * SECOND, 600 * SECOND)),
    }
    values: dict[str, Any] = {
        "custom": choose((("gpu",), ("gpu", "npu"), ("gpu", "npu", "slots"))),
        "overrun": choose((False, True)),
        "limits": choose(("some", "all", "none")),
        "vectors": choose((False, True)),
        "windows": choose((False, True)),
        "trees": choose((False, False, False, True)),
        "limited": choose((False, False, True)),
    }
    fixed = fixed.copy()
    asked: bool | None = fixed.pop("selective", None)
    policies = fixed.pop("policies", POLICIES)
    names = GROUPS[: fixed.pop("group_count", 3)]
    for name, value in fixed.items():
        (values if name in Setting.__dataclass_fields__ else options)[name] = value
    setting = Setting(options=options, **values)
    rng = Random(number(0, 2**16))
    names = names[: number(min(2, len(names)), len(names))]
    groups = tuple(random_group(rng, name, setting, policies) for name in names)
    if setting.trees:
        groups = in_a_tree(groups, rng, limited=setting.limited)
    nodes = tuple(random_node(rng, i, setting.custom, setting.constrained, setting.placed) for i in range(number(1, 6)))
    if choose((False, False, True)) if asked is None else asked:
        nodes = tuple(choosing(node, rng) for node in nodes)
        setting = replace(setting, selective=True)
    return replace(setting, groups=groups, nodes=nodes)


@st.composite
def settings_of_any_kind(draw: st.DrawFn, /, **fixed: Any) -> Setting:
    """A setting; ``fixed`` are options and fields of ``Setting`` that every one of them shall have."""
    return _setting(
        lambda choices: draw(st.sampled_from(choices)), lambda least, most: draw(st.integers(least, most)), fixed
    )


def seeded_setting(seed: int, **fixed: Any) -> Setting:
    """A setting that follows from the seed, for long stories and other processes."""
    rng = Random(seed)
    return _setting(rng.choice, rng.randint, fixed)


def operations(kinds: dict[str, int], least: int = 20, most: int = 60) -> st.SearchStrategy[list[Operation]]:
    """Lists of operations, each kind as often as its weight says. What a failure does not need shrinks to "rest"."""
    bag = ["rest", *(kind for kind, weight in kinds.items() for _ in range(weight))]
    return st.lists(st.tuples(st.sampled_from(bag), st.integers(0, 2**16)), min_size=least, max_size=most)


def seeded_operations(seed: int, count: int, kinds: dict[str, int]) -> list[Operation]:
    """``count`` operations that follow from the seed, for long stories."""
    rng = Random(seed)
    return [(kind, rng.randrange(2**16)) for kind in rng.choices(list(kinds), list(kinds.values()), k=count)]
