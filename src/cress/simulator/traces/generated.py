"""A generated workload, with its own cluster and groups: ``generated:jobs=1000,nodes=100,…``.

Heterogeneous nodes in racks; five used dimensions (cpu, memory, network, disk_read, gpu); single tasks, arrays and
gangs; log-normal run times; overestimated time limits; arrivals with a daily cycle, as many as load the scarcest
dimension to ``load``. The same parameters and seed give the same workload everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cress.model.errors import InputError
from cress.model.group import Group, Quota, SchedPolicy
from cress.model.node import Node
from cress.model.resources import Dimensions, ResourceVector
from cress.model.times import DAY, SECOND
from cress.simulator.tidying import tidy
from cress.simulator.trace_notes import TraceNotes
from cress.simulator.traces.generated_constraints import job_templates, with_attributes, with_devices
from cress.simulator.traces.parameters import parse_parameters
from cress.simulator.workload import SimulatedCluster, Workload

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

GIB = 2**30
MEGA = 10**6
GIGA = 10**9
DIMENSIONS = Dimensions(("gpu",))
RACK = 32  # nodes in a rack

# Share of the nodes, then cores, GiB, Gbit/s, MB/s of reading, GPUs.
NODE_TYPES = (
    (0.40, 32, 128, 10, 500, 0),
    (0.30, 64, 256, 10, 1000, 0),
    (0.10, 96, 768, 25, 2000, 0),
    (0.15, 64, 512, 25, 2000, 8),
    (0.05, 128, 1024, 100, 4000, 8),
)
POLICIES = (SchedPolicy.BACKFILL, SchedPolicy.FIFO, SchedPolicy.PRIORITY, SchedPolicy.CAPACITY)

LONGEST_RUN = 86_400  # s
# Time limits that users choose: seconds.
NICE_LIMITS = np.array([300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800, 345_600, 691_200])


@dataclass(frozen=True)
class GeneratedParameters:
    """Parameters of a generated workload; run times are in seconds, shares are of the jobs."""

    jobs: int = 10_000
    nodes: int = 100
    groups: int = 10
    shapes: int = 200
    users: int = 10  # per group
    load: float = 0.9  # of the scarcest dimension
    run: float = 3600.0  # median run time
    spread: float = 1.3  # sigma of the logarithm of the run times
    arrays: float = 0.05
    gangs: float = 0.02
    gpu: float = 0.15  # share of the shapes that need GPUs
    constrained: float = 0.0  # share of the jobs with constraints
    devices: float = 0.0  # share of the nodes with single GPUs and disks as devices


SHARES = {"arrays", "gangs", "gpu", "constrained", "devices"}


def parse(text: str) -> GeneratedParameters:
    """Return the parameters of a text such as ``jobs=1000,load=0.8``. Raise ``InputError`` with the parameter."""
    return parse_parameters("generated", text, GeneratedParameters(), SHARES, {"spread"})


def load(text: str, cluster: SimulatedCluster | None, seed: int) -> Workload:
    """Generate the workload of these parameters; ``cluster`` replaces the generated one."""
    chosen = parse(text)
    rng = np.random.default_rng(seed)
    own = with_devices(_cluster(chosen.nodes), chosen.devices)
    cluster = cluster or own
    requests = _shapes(rng, chosen, cluster)
    n = chosen.jobs
    popularity = 1.0 / np.arange(1, len(requests) + 1) ** 0.8
    request_index = rng.choice(len(requests), size=n, p=popularity / popularity.sum())
    tasks, gang = _tasks(rng, chosen)
    run = np.clip(np.rint(rng.lognormal(np.log(chosen.run), chosen.spread, n)), 1, LONGEST_RUN).astype(np.int64)
    demand = rng.lognormal(0.0, 0.7, chosen.groups)
    group_index = rng.choice(chosen.groups, size=n, p=demand / demand.sum())
    # Few users do most of the work.
    user = np.minimum(rng.geometric(2.0 / (chosen.users + 1), n) - 1, chosen.users - 1)
    names = [f"group{i + 1:02d}" for i in range(chosen.groups)]
    workload = Workload(
        name="generated",
        cluster=cluster,
        ids=[str(i + 1) for i in range(n)],
        submit=_arrivals(rng, chosen, cluster, np.array(requests, dtype=np.int64)[request_index], tasks, run),
        run=run * SECOND,
        limit=_limits(rng, run) * SECOND,
        tasks=tasks,
        gang=gang,
        killed=np.zeros(n, dtype=np.bool_),
        priority=rng.choice(np.array([0, 1, 2, 5, 10]), size=n, p=[0.6, 0.15, 0.1, 0.1, 0.05]).astype(np.int64),
        request_index=request_index.astype(np.int64),
        requests=requests,
        user_index=(group_index * chosen.users + user).astype(np.int64),
        users=[f"{name}_user{i + 1}" for name in names for i in range(chosen.users)],
        group_index=group_index.astype(np.int64),
        group_names=names,
        line=np.zeros(n, dtype=np.int64),
        notes=TraceNotes(),
        groups=_groups(rng, names, cluster),
    )
    if chosen.constrained:
        # Drawn last, so that everything else is the same as without constraints.
        nodes = cluster if cluster is not own else with_attributes(rng, own)
        templates, index = job_templates(rng, nodes, chosen.constrained, tasks, gang)
        workload = replace(workload, cluster=nodes, templates=templates, template_index=index)
    return tidy(workload)


def _cluster(count: int) -> SimulatedCluster:
    shares = np.cumsum([node_type[0] for node_type in NODE_TYPES])
    # Types are spread evenly over the racks: node i has the type into whose share i × golden ratio falls.
    where = np.searchsorted(shares, (np.arange(count) * 0.6180339887498949) % 1.0, side="right")
    nodes = []
    for i, kind in enumerate(np.minimum(where, len(NODE_TYPES) - 1).tolist()):
        _, cores, memory, network, disk, gpus = NODE_TYPES[kind]
        capacity = DIMENSIONS.vector(
            cpu=cores * 1000, memory=memory * GIB, network=network * GIGA, disk_read=disk * MEGA, gpu=gpus * 1000
        )
        nodes.append(Node(name=f"node{i + 1:05d}", capacity=capacity, rack=f"rack{i // RACK + 1:03d}"))
    return SimulatedCluster(DIMENSIONS, tuple(nodes))


def _shapes(rng: np.random.Generator, chosen: GeneratedParameters, cluster: SimulatedCluster) -> list[ResourceVector]:
    """Return distinct requests, each of which fits some empty node."""
    dimensions = cluster.dimensions
    capacities = np.array([node.capacity for node in cluster.nodes], dtype=np.int64)
    found: dict[ResourceVector, None] = {}
    for _ in range(50 * chosen.shapes):
        if len(found) == chosen.shapes:
            break
        cores = float(rng.choice([0.5, 1, 2, 4, 4, 8, 8, 16, 16, 32]))
        amounts = {
            "cpu": int(cores * 1000),
            "memory": max(1, round(cores * 3 * rng.lognormal(0, 0.7) * 2)) * GIB // 2,
            "network": int(cores * rng.choice([10, 25, 50, 100, 200])) * MEGA,
            "disk_read": max(1, int(cores * rng.choice([1, 2, 5, 10, 20]))) * MEGA,
        }
        if rng.random() < chosen.gpu:
            amounts["gpu"] = int(rng.choice([500, 1000, 1000, 2000, 4000, 8000]))
        vector = dimensions.vector(**{name: amount for name, amount in amounts.items() if name in dimensions.index})
        # A dimension that no node has is not requested; the rest must fit one node.
        vector = tuple(np.where(capacities.any(axis=0), vector, 0).tolist())
        if (capacities >= np.array(vector)).all(axis=1).any():
            found[vector] = None
    if not found:
        raise InputError("no generated task fits on this cluster", hint="nodes of at least 1 core and 4G")
    return list(found)


def _tasks(rng: np.random.Generator, chosen: GeneratedParameters) -> tuple[Ints, npt.NDArray[np.bool_]]:
    kind = rng.random(chosen.jobs)
    array = kind < chosen.arrays
    gang = (kind >= chosen.arrays) & (kind < chosen.arrays + chosen.gangs)
    sizes = np.where(
        array,
        np.minimum(1 + rng.geometric(1 / 8, chosen.jobs), 100),
        np.minimum(1 + rng.geometric(1 / 4, chosen.jobs), 16),
    )
    return np.where(array | gang, sizes, 1).astype(np.int64), gang


def _limits(rng: np.random.Generator, run: Ints) -> Ints:
    """Return time limits in seconds: the run time, overestimated, then rounded up to a time that users choose."""
    guess = run * (1 + rng.exponential(1.5, len(run)))
    nice = NICE_LIMITS[np.minimum(np.searchsorted(NICE_LIMITS, guess), len(NICE_LIMITS) - 1)]
    limits: Ints = np.maximum(nice, run).astype(np.int64)
    return limits


def _arrivals(
    rng: np.random.Generator,
    chosen: GeneratedParameters,
    cluster: SimulatedCluster,
    request: Ints,
    tasks: Ints,
    run: Ints,
) -> Ints:
    """Return submit times in order: dense enough to load the scarcest dimension, denser by day than by night."""
    total = np.array(cluster.total(), dtype=np.float64)
    work = (request * (tasks * run)[:, None].astype(np.float64)).sum(axis=0)
    there = total > 0
    span = float((work[there] / total[there]).max()) / chosen.load
    grid = np.linspace(0.0, span, 4096)
    day = DAY / SECOND
    # Integral of 1 − 0.6 cos(2π t / day): the rate is lowest at midnight, four times that at noon.
    expected = grid - 0.6 * day / (2 * np.pi) * np.sin(2 * np.pi * grid / day)
    moments = np.interp(np.sort(rng.random(chosen.jobs)) * expected[-1], expected, grid)
    times: Ints = np.floor(moments).astype(np.int64) * SECOND
    return times


def _groups(rng: np.random.Generator, names: list[str], cluster: SimulatedCluster) -> tuple[Group, ...]:
    """Return groups whose quotas add up to the cluster's cores, at least one core each, in accounting ``cpu``."""
    cores = cluster.total()[0] // 1000
    weight: Floats = rng.lognormal(0.0, 0.5, len(names))
    quotas = np.maximum(1, np.floor(weight / weight.sum() * cores)).astype(np.int64)
    return tuple(
        Group(name=name, quota=Quota(scalar=quota * 1000), policy=POLICIES[i % len(POLICIES)])
        for i, (name, quota) in enumerate(zip(names, quotas.tolist(), strict=True))
    )
