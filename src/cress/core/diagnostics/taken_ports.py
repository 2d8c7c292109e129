"""Requested ports that are in use: the nodes, and the tasks or foreign programs that have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from cress.core.books import Books
from cress.core.kernels.holding import USABLE
from cress.core.placing.placement_clauses import FixedPort
from cress.core.placing.vetoes import Absent, Missing

# The number of nodes that are named; the others are counted.
MOST_NODES = 3


def taken_ports(core: Books, clauses: Iterable[str]) -> Iterator[Missing]:
    """Yield the ports in these clauses that are in use, with their users and nodes."""
    for clause in clauses:
        port = FixedPort.port_in(clause)
        if port is None:
            continue
        ports, cluster = core.relations.ports, core.cluster
        tasks: list[str] = []
        others: list[str] = []
        for f in np.flatnonzero(cluster.nodes[: cluster.node_count, USABLE]).tolist():
            if not ports.is_free(f, port):
                (tasks if ports.is_given(f, port) else others).append(cluster.names[f])
        who = [
            f"{holder} on {_listed(nodes)}"
            for holder, nodes in (("by a program that is not a task", others), ("by a task", tasks))
            if nodes
        ]
        if who:
            yield Missing(Absent.PORT, str(port), why=" and ".join(who))


def _listed(nodes: list[str]) -> str:
    more = len(nodes) - MOST_NODES
    return ", ".join(nodes[:MOST_NODES]) + (f" and {more} more" if more > 0 else "")
