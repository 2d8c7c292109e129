"""Nodes for pages: all of them, filtered, as columns for the heat map."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from cress.client import calls
from cress.portal.texts import share
from cress.portal.viewers import LARGE, Viewer
from cress.protocol.cluster_views import NodeView

# Measured loads, beside the dimensions, by which nodes can be shown.
LOADS = ("load cpu", "load memory", "load network", "load disk")
# Seconds for which all nodes are kept, and the nodes of a small cluster.
FRESH, SMALL = 3.0, 500
# The attribute that has a field of its own, and the most parts of the map.
RACK, MOST_PARTS = "Rack", 60
STATES = ("up", "overloaded", "cordoned", "draining", "drained", "away")

_NUMBERS = re.compile(r"([0-9]{1,18})")


class AllNodes(NamedTuple):
    """All nodes by name, notes on the requirement that they were matched with, and what divides and measures them."""

    nodes: tuple[NodeView, ...]
    notes: tuple[str, ...]
    dimensions: list[str]
    attributes: list[str]


async def all_nodes(viewer: Viewer, where: str, fresh: float = FRESH) -> AllNodes:
    """Return all nodes by name, ``n2`` before ``n10``.

    One answer serves all pages of a user for ``fresh`` seconds. That of a large cluster costs the center some 100 ms,
    so it is kept for longer: for 20 s with 10,000 nodes.
    """
    state = await viewer.ask(calls.state(), fresh)
    return await viewer.keep(*_kept(viewer, where, state.nodes, fresh))


async def nodes_soon(viewer: Viewer) -> AllNodes | None:
    """Return all nodes by name, or None if they are not there in a moment."""
    state = await viewer.ask(calls.state())
    return await viewer.soon(*_kept(viewer, "", state.nodes, FRESH), kind="nodes")


def _kept(
    viewer: Viewer, where: str, count: int, fresh: float
) -> tuple[tuple[str, str], Callable[[], Awaitable[AllNodes]], float]:
    """Return the key of all nodes of a cluster of ``count``, what makes them, and the seconds for which they serve."""

    async def make() -> AllNodes:
        found = await viewer.client.match_nodes(where)
        nodes = tuple(sorted(found.nodes, key=lambda node: in_order(node.name)))
        return AllNodes(nodes, tuple(found.notes), dimensions_of(nodes), attributes_of(nodes))

    if count <= SMALL:
        return ("nodes", where), make, fresh
    return (LARGE, f"nodes {where}"), make, count / SMALL


def in_order(name: str) -> tuple[str | int, ...]:
    """Return a key by which names are sorted as people count: ``n2`` before ``n10``."""
    # Texts and numbers alternate, so that numbers are compared with numbers only.
    return tuple(int(part) if number % 2 else part for number, part in enumerate(_NUMBERS.split(name)))


def chosen(nodes: Sequence[NodeView], state: str, name: str) -> list[NodeView]:
    """Return the nodes that match: in a state, with a part of a name, and satisfying the requirement."""
    return [
        node
        for node in nodes
        if (not state or node.state == state)
        and (not name or name in node.name or name == node.rack)
        and (node.match is None or node.match.satisfied)
    ]


def used_dimensions(nodes: Sequence[NodeView], dimensions: Sequence[str]) -> frozenset[str]:
    """Return the dimensions that a table of these nodes shows: the first two, and those that some node uses."""
    used = {name for node in nodes for name, amount in node.used_amounts.items() if amount}
    return frozenset((*dimensions[:2], *used))


def dimensions_of(nodes: Sequence[NodeView]) -> list[str]:
    """Return the dimensions of which some node has a capacity, then the loads if some are measured."""
    found: dict[str, None] = {}
    for node in nodes:
        for name, amount in node.capacity_amounts.items():
            if amount:
                found.setdefault(name)
    return [*found, *(LOADS if any(node.load for node in nodes) else ())]


class NodeMap(NamedTuple):
    """The nodes of the map in its order, and its parts: a value and a number of nodes each; one part without a value
    if they are not grouped.
    """

    nodes: list[NodeView]
    parts: list[tuple[str, int]]

    def columns(self, by: str) -> dict[str, object]:
        """Return what the script draws, as small as it can be: 10,000 nodes are sent with each change of the page.

        ``shares`` are in per cent, -1 if a share is not known. ``states`` and ``racks`` name those that differ from
        the usual: nodes that are not up by position, and the rack of each run of nodes with its length.
        """
        shares = [share_of(node, by) for node in self.nodes]
        racks = [(rack, len([*run])) for rack, run in groupby(self.nodes, key=lambda node: node.rack)]
        return {
            "names": [node.name for node in self.nodes],
            "parts": self.parts,
            "states": {i: node.state for i, node in enumerate(self.nodes) if node.state != "up"},
            "racks": racks if any(rack for rack, _ in racks) else [],
            "shares": [-1 if share is None else round(100 * share) for share in shares],
            "running": [node.running for node in self.nodes],
        }


def value_of(node: NodeView, attribute: str) -> str:
    """Return the value of an attribute as text; that of ``Rack`` is the rack. Empty if the node has none."""
    if attribute == RACK:
        return node.rack
    value = node.attributes.get(attribute)
    return "" if value is None else str(value)


def attributes_of(nodes: Sequence[NodeView]) -> list[str]:
    """Return the attributes that divide the nodes into a few groups: at least two, and at most ``MOST_PARTS``."""
    values: dict[str, set[str]] = {RACK: set()}
    for node in nodes:
        values[RACK].add(node.rack)
        for name, value in node.attributes.items():
            known = values.setdefault(name, set())
            if len(known) <= MOST_PARTS:
                known.add(str(value))
    return [name for name, known in values.items() if 1 < len(known) <= MOST_PARTS]


def map_of(nodes: Sequence[NodeView], attribute: str) -> NodeMap:
    """Return the nodes as they lie on the map: grouped by an attribute, or in their order without one."""
    if not attribute:
        return NodeMap([*nodes], [("", len(nodes))])
    groups: dict[str, list[NodeView]] = {}
    for node in nodes:
        groups.setdefault(value_of(node, attribute), []).append(node)
    # Nodes without a value come last.
    names = sorted(groups, key=lambda name: (not name, name))
    parts = [(f"{attribute} {name}" if name else f"without {attribute}", len(groups[name])) for name in names]
    return NodeMap([node for name in names for node in groups[name]], parts)


def share_of(node: NodeView, by: str) -> float | None:
    """Return the use of a node in a dimension, or its load, from 0 to 1; None if it has none."""
    if by.startswith("load "):
        return None if node.load is None else float(getattr(node.load, by.removeprefix("load ")))
    capacity = node.capacity_amounts.get(by, 0)
    return share(node.used_amounts.get(by, 0), capacity) if capacity else None
