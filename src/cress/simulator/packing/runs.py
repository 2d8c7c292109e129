"""Runs of the recipe: each order of nodes with each seed, on the core itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cress.core.placing.fragmentation import of_nodes
from cress.core.scheduler import Scheduler
from cress.model.events import GroupsApplied, JobCancelled, JobSubmitted, NodeAdded
from cress.model.group import Group, Quota
from cress.model.job import Job
from cress.model.option_text import parse_assignments
from cress.simulator.packing.arrivals import arrivals
from cress.simulator.packing.bound import ModelRoom, Pod, most_allocated
from cress.simulator.packing.devices import allocated_devices
from cress.simulator.packing.measured import measured, shape_counts
from cress.simulator.traces.openb import GPU
from cress.simulator.workload import Workload

GROUP = "pods"
# Percentages arrived at which the devices are kept for the heat map.
MOMENTS = (50, 90, 100)


@dataclass
class PackingRun:
    """One run, by percentage arrived.

    Values are the allocated GPUs (% of all), the unusable GPUs (% of the idle ones) and the failed pods.
    """

    label: str
    seed: int
    arrived: list[float] = field(default_factory=list)
    allocated: list[float] = field(default_factory=list)
    fragments: list[float] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    bound: float = 100.0
    # By percentage arrived: for each node the allocated share of each device, in thousandths.
    heat: dict[int, list[list[int]]] = field(default_factory=dict)


def run_order(
    work: Workload, settings: Sequence[str], label: str, seed: int, share: float, heat: bool, *,
    tell: Callable[[int, int], None] = lambda _done, _total: None,
) -> PackingRun:  # fmt: skip
    """Run the recipe once with these options (``node_order=balance``)."""
    core = Scheduler(work.cluster.dimensions, parse_assignments(list(settings)))
    total = work.cluster.total()
    nodes = [NodeAdded(node) for node in work.cluster.nodes]
    core.observe(0, [*nodes, GroupsApplied((Group(name=GROUP, quota=Quota(scalar=total[0])),))])
    gpu = work.cluster.dimensions.index[GPU]
    measure = measured(core, shape_counts(work))
    run = PackingRun(label, seed)
    order = arrivals(work, seed, share)
    given = asked = failed = 0
    for number, i in enumerate(order, 1):
        request = work.requests[int(work.request_index[i])]
        job = Job(id=number, name="pod", group=GROUP, request=request, requirement=work.template(i).requirement)
        core.observe(0, [JobSubmitted(job)])
        asked += request[gpu]
        if core.decide(0).items:
            given += request[gpu]
        else:
            core.observe(0, [JobCancelled(number)])
            failed += 1
        percent = 100 * asked / total[gpu]
        if number == len(order) or percent >= len(run.arrived) + 1:
            lost, idle = measure.shares()
            run.arrived.append(round(percent, 3))
            run.allocated.append(round(100 * given / total[gpu], 3))
            run.fragments.append(round(100 * lost / idle, 3) if idle else 0.0)
            run.failed.append(failed)
            if heat and (number == len(order) or len(run.arrived) in MOMENTS):
                run.heat[len(run.arrived)] = allocated_devices(core)
            tell(number, len(order))
    run.bound = round(100 * _bound(core, work, order) / total[gpu], 3)
    return run


def _bound(core: Scheduler, work: Workload, order: Sequence[int]) -> int:
    """Return the bound for the arrived pods, by the nodes that their requirements allow."""
    index = work.cluster.dimensions.index
    models = [str(dict(node.attributes).get("GPUModel", "")) for node in work.cluster.nodes]
    rooms = {model: ModelRoom(0, 0, 0) for model in models}
    for node, model in zip(work.cluster.nodes, models, strict=True):
        more = (node.capacity[index["cpu"]], node.capacity[index["memory"]], node.capacity[index[GPU]])
        rooms[model] = ModelRoom(*(a + b for a, b in zip(rooms[model], more, strict=True)))
    allowed: dict[str, frozenset[str]] = {}
    pods: Counter[Pod] = Counter()
    for i in order:
        request, requirement = work.requests[int(work.request_index[i])], work.template(i).requirement
        if requirement not in allowed:
            may = core.books.matching.ever(of_nodes(request, requirement, work.cluster.dimensions))
            allowed[requirement] = frozenset(model for model, fits in zip(models, may.tolist(), strict=True) if fits)
        pods[Pod(request[index["cpu"]], request[index["memory"]], request[index[GPU]], allowed[requirement])] += 1
    return most_allocated(pods, rooms)
