"""Prepare every kernel before it is needed.

numba compiles a kernel at its first call, which takes seconds on a fresh installation; later it is read from the
cache. A live cluster must not pause during its first preemption, so a small made-up story runs first that calls every
kernel. A center interprets ``KERNELS`` until they are in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cress.core import kernels
from cress.core.kernels.cache import MODULES
from cress.core.placing.constraints import NO_WANTS
from cress.core.placing.device_requests import ask_of
from cress.core.placing.mix import FIRST
from cress.core.questions import never_fits
from cress.core.run_history import RunHistory
from cress.core.scheduler import Scheduler
from cress.core.tables.devices import unit_fits
from cress.language import machine
from cress.language import warm as language
from cress.language.kernels import Kernels
from cress.model.decisions import Start
from cress.model.events import GroupsApplied, JobCancelled, JobSubmitted, NodeAdded, NodeCordoned, NodeLost, TaskEnded
from cress.model.group import Group, Quota, SchedPolicy
from cress.model.job import Job, JobType
from cress.model.node import DISK_KIND, Device, Node
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.times import MINUTE, SECOND

# All kernels of the scheduler, whose modules the imports above have loaded.
KERNELS = Kernels(*(getattr(kernels, name) for name in MODULES), machine)

_CORES = 1000  # millicores
# After about 40 rounds all kernels have been called.
_ROUNDS = 64
_POLICIES = (SchedPolicy.BACKFILL, SchedPolicy.FIFO, SchedPolicy.PRIORITY, SchedPolicy.CAPACITY)
# Static and dynamic clauses, for one node and for all; some relax.
_REQUIREMENTS = (
    "", 'Rack = "r1" && IdleCPU > 1', "", 'Rack in ("r0", "r1") && f(x) = (ClusterLoad > 50%)', "ExclusiveDisk = True",
)  # fmt: skip
# Kinds of devices: from none up to the number for each width of the node table.
_WIDER = ((), *(tuple(f"kind{i}" for i in range(count)) for count in (1, 3, 5, 10)))
_RANKS = ("", "IdleCPU", "", 'CPU + 2 × (Rack = "r1")')


def warm_up(dimensions: Dimensions, options: Options, enough: Callable[[], bool] = lambda: False) -> None:
    """Call every kernel that a scheduler with these dimensions and options may need, on a made-up cluster.

    Both ways of scanning nodes (in rotation, all) and every policy occur, whatever the options are. Ends early once
    ``enough`` is true.
    """
    language.warm_up()
    if dimensions.custom and options.node_order == "fragmentation":
        _play_devices(dimensions, options)
    for threshold, backfill in ((0.0, "easy"), (1.0, "conservative")):
        _play(
            dimensions,
            replace(
                options,
                accounting="cpu",
                balance_threshold=threshold,
                backfill=backfill,
                balance_gate="on" if threshold else "off",
                preemption="on",
                max_per_round=1.0,
                cooling=0,
                cooling_above_quota=0,
                drain_after=SECOND,
            ),
            enough,
        )


def _play_devices(dimensions: Dimensions, options: Options) -> None:
    """Submit tasks with whole devices and parts of devices until the order ``fragmentation`` has learned a mix."""
    core = Scheduler(dimensions, options)
    kind = dimensions.custom[0]
    devices = tuple(Device(kind=kind, id=str(i)) for i in range(4))
    capacity = dimensions.vector(cpu=64 * _CORES, memory=2**30, **{kind: 4000})
    nodes = [NodeAdded(Node(name=f"n{i}", capacity=capacity, devices=devices)) for i in range(2)]
    core.observe(0, [*nodes, GroupsApplied((Group(name="g", quota=Quota(scalar=_CORES)),))])
    for number in range(1, 2 * FIRST):
        amount = (500, 300, 1000)[number % 3]
        request = dimensions.vector(cpu=_CORES, **{kind: amount})
        core.observe(number, [JobSubmitted(Job(id=number, group="g", request=request))])
        for each in core.decide(number).items:
            if isinstance(each, Start) and number % 4:
                core.observe(number, [TaskEnded(each.attempt)])


def _play(
    dimensions: Dimensions,
    options: Options,
    enough: Callable[[], bool],
    policies: Sequence[SchedPolicy] = _POLICIES,
) -> None:
    core = Scheduler(dimensions, options)
    scale = tuple(_CORES if name == "cpu" else 1024 for name in dimensions.names)
    disks = tuple(Device(kind=DISK_KIND, id=str(i), bandwidth=(2048,) * 4) for i in range(2))
    nodes = [
        Node(name=f"n{i}", capacity=tuple(4 * each for each in scale), rack=f"r{i % 2}", devices=disks if i < 2 else ())
        for i in range(4)
    ]
    groups = [
        Group(name=policy.value, quota=Quota(scalar=(4 - i) * _CORES), policy=policy)
        for i, policy in enumerate(policies)
    ]
    core.observe(0, [*map(NodeAdded, nodes), GroupsApplied(tuple(groups))])
    running: list[int] = []
    for number in range(1, _ROUNDS):
        if enough():
            return
        now = number * SECOND
        # Sizes, kinds and lengths have coprime periods, so that all combinations occur.
        cores = 1 + number % 4
        tasks = 1 + number % 3
        job = Job(
            id=number,
            group=groups[number * 7 % len(groups)].name,
            request=tuple(cores * each for each in scale),
            user=f"user{number % 2}",
            tasks=tasks,
            gang=number % 5 == 0,
            priority=number % 2,
            time_limit=None if number % 11 == 0 else number % 7 * MINUTE,
            type=JobType.SERVICE if number % 13 == 0 else JobType.BATCH,
            minimum=1 if number % 13 == 0 else 0,
            requirement=_REQUIREMENTS[number % len(_REQUIREMENTS)],
            rank=_RANKS[number % len(_RANKS)],
        )
        core.observe(now, [JobSubmitted(job)])
        if number % 3 == 0 and running:
            core.observe(now, [TaskEnded(running.pop(0))])
        if number % 17 == 0:
            core.observe(now, [JobCancelled(number - 9)])
        if number % 41 == 0:
            core.observe(now, [NodeLost("n3"), NodeCordoned("n2", True)])
        if number % 41 == 5 and number > 41:
            core.observe(now, [NodeAdded(nodes[3]), NodeCordoned("n2", False)])
        running += [each.attempt for each in core.decide(now).items if isinstance(each, Start)]
        for waiting in list(core.books.waiting())[:4]:
            core.veto(waiting.job.id)
        core.fits_now(job.request)
        never_fits(core.books, job)
    _devices(core)
    _history()
    _domains(dimensions, options, nodes, groups)
    _gang(dimensions, options, nodes, groups)
    _preemption(dimensions, options, nodes, groups)
    core.clone().decide(_ROUNDS * SECOND)


def _gang(dimensions: Dimensions, options: Options, nodes: list[Node], groups: list[Group]) -> None:
    """Place a plain gang as a whole, and one with exclusive disks; the story may never have room for one at the right
    moment.
    """
    core = Scheduler(dimensions, options)
    core.observe(0, [*map(NodeAdded, nodes), GroupsApplied(tuple(groups))])
    core.observe(0, [JobSubmitted(Job(id=1, group=groups[0].name, request=nodes[0].capacity, tasks=2, gang=True))])
    core.decide(0)
    nothing = (0,) * len(dimensions)
    disks = Job(id=2, group=groups[0].name, request=nothing, tasks=2, gang=True, requirement="ExclusiveDisk = True")
    core.observe(SECOND, [TaskEnded(1), TaskEnded(2), JobSubmitted(disks)])
    core.decide(SECOND)


def _preemption(dimensions: Dimensions, options: Options, nodes: list[Node], groups: list[Group]) -> None:
    """Let one group borrow every node, and another reclaim its quota."""
    core = Scheduler(dimensions, options)
    core.observe(0, [*map(NodeAdded, nodes), GroupsApplied(tuple(groups))])
    for number, group, tasks in ((1, groups[-1], len(nodes)), (2, groups[0], 1)):
        job = Job(id=number, group=group.name, request=nodes[0].capacity, tasks=tasks, time_limit=MINUTE)
        core.observe(number * SECOND, [JobSubmitted(job)])
        core.decide(number * SECOND)


def _domains(dimensions: Dimensions, options: Options, nodes: list[Node], groups: list[Group]) -> None:
    """Spread jobs over racks in every way, keep them apart and together."""
    core = Scheduler(dimensions, options)
    core.observe(0, [*map(NodeAdded, nodes), GroupsApplied(tuple(groups))])
    asked = (
        "spread(Rack)",
        'spread(Rack, "r1=50%")',
        "spread(Rack) && f(x) = True",
        'away_from("self", Rack)',
        "within(Rack)",
    )
    for number, requirement in enumerate(asked, 1):
        job = Job(id=number, group=groups[0].name, request=(0,) * len(dimensions), tasks=2, requirement=requirement)
        core.observe(0, [JobSubmitted(job)])
        core.decide(0)


def _history() -> None:
    """Estimate a run from earlier ones."""
    history = RunHistory()
    history.add(("", "", ""), (1,), MINUTE, SECOND)
    history.estimate(("", "", ""), (1,), MINUTE)


def _devices(core: Scheduler) -> None:
    """Call the device kernel for units of several jobs, which the story does not reach."""
    request = tuple(2048 * (k > 2) for k in range(len(core.dimensions)))
    unit_fits(core.cluster, [(request, ask_of(request, NO_WANTS))], 0, empty=True)


def warm_all() -> None:
    """Call every kernel for every number of dimensions and every order, as tests and measurements need them."""
    for kinds in _WIDER:
        warm_up(Dimensions(kinds), Options())
    for groups, behind in (("urgency", "submit"), ("deadline", "shortest_first"), ("share", "expansion_factor")):
        options = Options(order=groups, backfill_order=behind, preemption="on")
        _play(Dimensions(), options, lambda: False, (SchedPolicy.URGENCY, SchedPolicy.EDF, SchedPolicy.BACKFILL))


if __name__ == "__main__":
    warm_all()
