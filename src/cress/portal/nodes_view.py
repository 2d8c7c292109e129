"""Nodes for pages: all of them, filtered, as columns for the heat map."""

from __future__ import annotations

from collections.abc import Sequence

from cress.client import calls
from cress.portal.texts import share
from cress.portal.viewers import LARGE, Viewer
from cress.protocol.cluster_views import NodesPage, NodeView

# Measured loads, beside the dimensions, by which nodes can be shown.
LOADS = ("load cpu", "load memory", "load network", "load disk")
# Seconds for which all nodes are kept, and the nodes of a small cluster.
FRESH, SMALL = 3.0, 500
STATES = ("up", "overloaded", "cordoned", "draining", "drained", "away")


async def all_nodes(viewer: Viewer, where: str, fresh: float = FRESH) -> NodesPage:
    """Return all nodes in the order of their registration.

    One answer serves all pages of a user for ``fresh`` seconds. That of a large cluster costs the center some 100 ms,
    so it is kept for longer: for 20 s with 10,000 nodes.
    """
    state = await viewer.ask(calls.state(), fresh)
    if state.nodes <= SMALL:
        return await viewer.keep(("nodes", where), lambda: viewer.client.match_nodes(where), fresh)
    return await viewer.keep((LARGE, f"nodes {where}"), lambda: viewer.client.match_nodes(where), state.nodes / SMALL)


def chosen(nodes: Sequence[NodeView], state: str, name: str) -> list[NodeView]:
    """Return the nodes that match: in a state, with a part of a name, and satisfying the requirement."""
    return [
        node
        for node in nodes
        if (not state or node.state == state)
        and (not name or name in node.name or name == node.rack)
        and (node.match is None or node.match.satisfied)
    ]


def dimensions_of(nodes: Sequence[NodeView]) -> list[str]:
    """Return the dimensions of which some node has a capacity, then the loads if some are measured."""
    found: dict[str, None] = {}
    for node in nodes:
        for name, amount in node.capacity_amounts.items():
            if amount:
                found.setdefault(name)
    return [*found, *(LOADS if any(node.load for node in nodes) else ())]


def share_of(node: NodeView, by: str) -> float | None:
    """Return the use of a node in a dimension, or its load, from 0 to 1; None if it has none."""
    if by.startswith("load "):
        return None if node.load is None else float(getattr(node.load, by.removeprefix("load ")))
    capacity = node.capacity_amounts.get(by, 0)
    return share(node.used_amounts.get(by, 0), capacity) if capacity else None
