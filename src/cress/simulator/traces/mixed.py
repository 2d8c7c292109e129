"""A mixed workload on a cluster of its own: ``mixed:nodes=40,night=0.4,…``.

It has services whose task counts follow the hour of day, with surges, and databases; also arrays of batch tasks, dags
and cron jobs. All of them reserve more than they use. Half of the groups have the services and databases, the other
half everything else. The quotas follow the hour of day: each group of services is guaranteed the amount that its
services want, and some headroom.
"""

from __future__ import annotations

import numpy as np

from cress.model.errors import InputError
from cress.model.node import Node
from cress.model.resources import Dimensions
from cress.simulator.tidying import tidy
from cress.simulator.traces.mixed_batch import add_arrays, add_crons, add_dags
from cress.simulator.traces.mixed_parameters import parse
from cress.simulator.traces.mixed_rows import Rows
from cress.simulator.traces.mixed_services import add_databases, add_services, groups_of
from cress.simulator.workload import SimulatedCluster, Workload

GIB = 2**30
DIMENSIONS = Dimensions()
CORES, MEMORY = 32, 128  # of a node, GiB


def load(text: str, cluster: SimulatedCluster | None, seed: int) -> Workload:
    """Generate the workload of these parameters; ``cluster`` replaces the generated one."""
    chosen = parse(text)
    own = cluster or cluster_of(chosen.nodes)
    cores = own.total()[0] / 1000
    if not cores:
        raise InputError("the nodes have no cores", hint="nodes of at least 8 cores and 32G")
    # Each kind of work has its own random generator, so that none depends on the parameters of another.
    kinds = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(5)]
    rows = Rows(own.dimensions)
    reserved = chosen.load * cores * chosen.days * 24 * 3600  # core seconds
    batch = 1 - chosen.services - chosen.databases - chosen.dags - chosen.cron
    curves = add_services(rows, kinds[0], chosen, reserved * chosen.services)
    constant = add_databases(rows, chosen, reserved * chosen.databases)
    add_arrays(rows, kinds[2], chosen, reserved * batch)
    add_dags(rows, kinds[3], chosen, reserved * chosen.dags)
    add_crons(rows, kinds[4], chosen, reserved * chosen.cron)
    if not rows:
        raise InputError("the load is too small for a single job", hint="a higher load", file=f"mixed:{text}")
    return tidy(rows.workload("mixed", own, groups_of(chosen, curves, constant, own.total()[0])))


def cluster_of(count: int) -> SimulatedCluster:
    """Return a cluster of ``count`` equal nodes."""
    capacity = DIMENSIONS.vector(cpu=CORES * 1000, memory=MEMORY * GIB)
    return SimulatedCluster(DIMENSIONS, tuple(Node(name=f"node{i + 1:04d}", capacity=capacity) for i in range(count)))
