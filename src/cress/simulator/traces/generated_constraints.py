"""Attributes of generated nodes and constraints of generated jobs.

These are versions, hardware, racks, spread, adjacency and ports.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from cress.model.devices import WHOLE, facts_of
from cress.model.job import Job
from cress.model.node import DISK_KIND, Device, Value
from cress.simulator.workload import Ints, SimulatedCluster, template

KERNELS = ("2.6.32", "3.10.0", "4.18.0", "5.10.0")
COMPILERS = ("4.4.7", "4.8.5", "8.5.0", "12.2.0")
JAVAS = ("1.7.0", "1.8.0", "11.0.2", "17.0.9")
# Shares of the four ages of nodes.
AGES = (0.15, 0.35, 0.3, 0.2)

_ANY = (
    template(requirement="OSKernel >= 3.10"),
    template(requirement="OSKernel >= 4.18 && GCC >= 8"),
    template(requirement="GCC >= 4.8 && Java >= 1.8"),
    template(requirement="Java >= 11 && f(x) = (Waittime > 30min)"),
    template(requirement="SSD = True", rank="IdleDisk"),
    template(requirement="SSD = True && f(x, weight=2) = (ClusterLoad > 80%)", rank="CPU"),
    template(rank="0.5 * CPU + 0.5 * IdleNetwork"),
    template(rank="IdleMemory + 2 * (SSD = True)"),
    template(ports=(("", 0),)),
    template(ports=(("http", 8080), ("admin", 0))),
)
_ARRAYS = (
    template(max_per_node=1),
    template(max_per_node=2, requirement="OSKernel >= 3.10"),
    template(max_per_rack=8),
)
_GANGS = (
    template(requirement="NetworkAdjacent = True && f(x) = (Waittime > 10min)"),
    template(requirement="NetworkAdjacent = True && f(x) = True", rank="IdleNetwork"),
    template(requirement="OSKernel >= 3.10 && NetworkAdjacent = True && f(x) = (Waittime > 1h)", max_per_node=4),
)
NEAR_DATA = 'Rack = "{rack}" && f(x) = (Waittime > 5min)'
DISKS = 2  # of a node with devices
RACKS = 24  # racks with data that jobs prefer to be near


def with_attributes(rng: np.random.Generator, cluster: SimulatedCluster) -> SimulatedCluster:
    """Return the cluster with versions and hardware as attributes of its nodes; each rack neighbours the next one."""
    n = len(cluster.nodes)
    ages = [rng.choice(len(AGES), size=n, p=AGES).tolist() for _ in range(3)]
    ssd = (rng.random(n) < 0.5).tolist()
    nodes = []
    for node, kernel, compiler, java, fast in zip(cluster.nodes, *ages, ssd, strict=True):
        found: dict[str, Value] = {"OSKernel": KERNELS[kernel], "GCC": COMPILERS[compiler], "Java": JAVAS[java]}
        attributes = tuple((found | {"SSD": fast}).items())
        nodes.append(replace(node, attributes=(*node.attributes, *attributes)))
    racks = list(dict.fromkeys(node.rack for node in nodes))
    return SimulatedCluster(cluster.dimensions, tuple(nodes), tuple(pairwise(racks)))


def with_devices(cluster: SimulatedCluster, share: float) -> SimulatedCluster:
    """Return the cluster with single GPUs and two equal disks as devices of a share of its nodes."""
    nodes = list(cluster.nodes)
    for i in range(round(share * len(nodes)) if share else 0):
        have = dict(zip(cluster.dimensions.names, nodes[i].capacity, strict=True))
        bandwidth = (have["disk_read"] // DISKS, have["disk_write"] // DISKS, 0, 0)
        devices = [Device(kind=DISK_KIND, id=f"disk{d}", bandwidth=bandwidth) for d in range(DISKS)]
        devices += [Device(kind="gpu", id=str(d)) for d in range(have["gpu"] // WHOLE)]
        nodes[i] = replace(nodes[i], devices=tuple(devices), attributes=tuple(facts_of(devices).items()))
    return dataclasses.replace(cluster, nodes=tuple(nodes))


def job_templates(
    rng: np.random.Generator,
    cluster: SimulatedCluster,
    share: float,
    tasks: Ints,
    gang: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> tuple[tuple[Job, ...], Ints]:
    """Return the distinct templates and the index of each job's; ``share`` of the jobs have constraints."""
    racks = list(dict.fromkeys(node.rack for node in cluster.nodes))[:RACKS]
    near = [template(requirement=NEAR_DATA.format(rack=rack)) for rack in racks]
    pool = (template(), *_ANY, *near, *_ARRAYS, *_GANGS)
    anyone = 1 + len(_ANY) + len(near)
    index = rng.integers(1, anyone, len(tasks))
    index = np.where(tasks > 1, anyone + rng.integers(0, len(_ARRAYS), len(tasks)), index)
    index = np.where(gang, anyone + len(_ARRAYS) + rng.integers(0, len(_GANGS), len(tasks)), index)
    return pool, np.where(rng.random(len(tasks)) < share, index, 0).astype(np.int64)
