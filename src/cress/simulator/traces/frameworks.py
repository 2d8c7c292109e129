"""Generated frameworks that share a cluster: ``frameworks:count=2,nodes=20,load=1,…``.

Each framework is a group with an equal quota, whose jobs name one workload, which keeps the leases of its tasks for a
while. It gets applications of different sizes at random moments: stages one after the other, each an array of equal
short tasks, as Spark, Dask or Tez run them. The size of the tasks differs from stage to stage, so that a task seldom
fills the lease in which it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cress.model.job import Condition
from cress.model.node import Node
from cress.model.resources import Dimensions
from cress.model.times import SECOND
from cress.simulator.frameworks import as_frameworks
from cress.simulator.tidying import tidy
from cress.simulator.trace_notes import TraceNotes
from cress.simulator.traces.parameters import parse_parameters
from cress.simulator.workload import After, SimulatedCluster, Workload

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

GIB = 2**30
DIMENSIONS = Dimensions()
CORES, MEMORY = 32, 128  # of a node, GiB
# Cores of a task, GiB for each core, and their frequency.
SIZES: tuple[tuple[float, float], ...] = ((1, 0.4), (2, 0.3), (4, 0.3))
MEMORIES: tuple[tuple[float, float], ...] = ((2, 0.4), (4, 0.4), (6, 0.2))
LONGEST_RUN = 3600  # s
MOST_TASKS = 2000  # of one stage


@dataclass(frozen=True)
class FrameworkParameters:
    """Parameters of frameworks; run times are in seconds."""

    count: int = 2
    nodes: int = 20
    applications: int = 400  # of all frameworks
    load: float = 1.0  # of the scarcer dimension
    stages: int = 3  # of an application, on average
    tasks: float = 40.0  # of a stage, on average
    run: float = 20.0  # median run time of a task
    spread: float = 0.8  # sigma of the logarithm of the run times of stages


def load(text: str, cluster: SimulatedCluster | None, seed: int) -> Workload:
    """Generate the workload of these parameters; ``cluster`` replaces the generated one."""
    chosen = parse_parameters("frameworks", text, FrameworkParameters(), (), {"spread"})
    rng = np.random.default_rng(seed)
    cluster = cluster or _cluster(chosen.nodes)
    stages = np.maximum(1, rng.poisson(chosen.stages, chosen.applications))
    application = np.repeat(np.arange(chosen.applications), stages)
    n = len(application)
    # An application is large or small as a whole; its stages differ too.
    size = rng.lognormal(-0.5, 1.0, chosen.applications)[application] * rng.lognormal(-0.125, 0.5, n)
    tasks = np.clip(np.rint(size * chosen.tasks), 1, MOST_TASKS).astype(np.int64)
    run = np.clip(np.rint(rng.lognormal(np.log(chosen.run), chosen.spread, n)), 1, LONGEST_RUN).astype(np.int64)
    cores, memory = _drawn(rng, SIZES, n), _drawn(rng, MEMORIES, n)
    vectors = [
        cluster.dimensions.vector(cpu=int(core * 1000), memory=int(core * amount * GIB))
        for core, amount in zip(cores.tolist(), memory.tolist(), strict=True)
    ]
    requests = sorted(set(vectors))
    place = {request: i for i, request in enumerate(requests)}
    work = np.array(vectors, dtype=np.float64) * (tasks * run)[:, None]
    workload = tidy(
        Workload(
            name="frameworks",
            cluster=cluster,
            ids=[f"a{i + 1}.s{k}" for i, count in enumerate(stages.tolist()) for k in range(1, count + 1)],
            submit=_arrivals(rng, work, cluster, chosen)[application],
            run=run * SECOND,
            limit=run * 2 * SECOND,
            tasks=tasks,
            gang=np.zeros(n, dtype=np.bool_),
            killed=np.zeros(n, dtype=np.bool_),
            priority=np.zeros(n, dtype=np.int64),
            request_index=np.array([place[vector] for vector in vectors], dtype=np.int64),
            requests=requests,
            user_index=np.zeros(n, dtype=np.int64),
            users=[""],
            group_index=np.zeros(n, dtype=np.int64),
            group_names=[""],
            line=np.zeros(n, dtype=np.int64),
            notes=TraceNotes(),
            after=_after(application),
            family_index=application,
            family_names=tuple(f"a{i + 1}" for i in range(chosen.applications)),
        )
    )
    return as_frameworks(workload, chosen.count)


def _cluster(count: int) -> SimulatedCluster:
    capacity = DIMENSIONS.vector(cpu=CORES * 1000, memory=MEMORY * GIB)
    return SimulatedCluster(DIMENSIONS, tuple(Node(name=f"node{i + 1:04d}", capacity=capacity) for i in range(count)))


def _drawn(rng: np.random.Generator, choices: tuple[tuple[float, float], ...], n: int) -> Floats:
    values, shares = zip(*choices, strict=True)
    return rng.choice(np.array(values), size=n, p=shares)


def _arrivals(rng: np.random.Generator, work: Floats, cluster: SimulatedCluster, chosen: FrameworkParameters) -> Ints:
    """Return random submit times of the applications, in order, over the time in which their work gives the load."""
    total = np.array(cluster.total(), dtype=np.float64)
    there = total > 0
    span = float((work.sum(axis=0)[there] / total[there]).max()) / chosen.load
    times: Ints = np.floor(np.sort(rng.random(chosen.applications)) * span * SECOND).astype(np.int64)
    return times


def _after(application: Ints) -> After:
    """Return the stage before each stage."""
    found: list[tuple[tuple[int, Condition], ...]] = []
    for i, framework in enumerate(application.tolist()):
        first = i == 0 or application[i - 1] != framework
        found.append(() if first else ((i - 1, Condition.OK),))
    return tuple(found)
