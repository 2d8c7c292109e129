"""Clusters of any size, with more or fewer nodes of the kinds of a given cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple, Protocol

from msgspec.structs import replace as changed

from cress.model.errors import InputError
from cress.model.node import Node
from cress.model.units import one_of
from cress.simulator.workload import SimulatedCluster

CORE = 1000
# The largest simulated clusters; with processors in one node any number costs the same.
MOST_NODES, MOST_PROCESSORS = 50_000, 10**9


@dataclass(frozen=True)
class NodeKind:
    """Nodes that differ in name, rack and address only; ``name`` is the common part of their names."""

    name: str
    nodes: tuple[Node, ...]

    def take(self, count: int) -> tuple[Node, ...]:
        """Return ``count`` of them; further ones are copies in the racks of the first, in turn."""
        own = self.nodes[:count]
        more = [
            changed(self.nodes[i % len(self.nodes)], name=f"{self.name}+{i + 1 - len(self.nodes)}", address="")
            for i in range(len(self.nodes), count)
        ]
        return (*own, *more)


class NodePlace(NamedTuple):
    """Nodes that differ in name and address only: those of a kind in a rack."""

    like: Node
    rack: str


def place_of(node: Node) -> NodePlace:
    """Return the place of a node."""
    return NodePlace(changed(node, name="", rack="", address=""), node.rack)


class Scaling(Protocol):
    """A way to make a cluster of a size.

    ``unit`` is the counted thing, ``least`` the smallest size, ``most`` the largest simulated size, ``given`` the size
    of the given cluster. ``places`` are those of the nodes that vary.
    """

    unit: str
    least: int
    most: int
    given: int
    places: tuple[NodePlace, ...]

    def counts(self, size: int) -> dict[str, int]:
        """Return the number of nodes of each kind."""

    def cluster(self, size: int) -> SimulatedCluster:
        """Return the cluster of this size."""


class Proportional:
    """All kinds in the proportion of the given cluster."""

    unit, least, most = "nodes", 1, MOST_NODES

    def __init__(self, base: SimulatedCluster, kinds: tuple[NodeKind, ...]) -> None:
        self._base, self._kinds = base, kinds
        self.given = len(base.nodes)
        self.places = _places(kinds)

    def counts(self, size: int) -> dict[str, int]:
        """Round down, then add one of each kind that lost most by it."""
        exact = [Fraction(size * len(kind.nodes), self.given) for kind in self._kinds]
        whole = [int(fraction) for fraction in exact]
        order = sorted(range(len(whole)), key=lambda i: (whole[i] - exact[i], i))
        for i in order[: size - sum(whole)]:
            whole[i] += 1
        return {kind.name: count for kind, count in zip(self._kinds, whole, strict=True)}

    def cluster(self, size: int) -> SimulatedCluster:
        """Return the cluster with the kinds one after the other."""
        return _with(self._base, self._kinds, self.counts(size))


class OneNodeKind:
    """One kind varies, and the others stay."""

    unit, least, most = "nodes", 0, MOST_NODES

    def __init__(self, base: SimulatedCluster, kinds: tuple[NodeKind, ...], name: str) -> None:
        self._base, self._kinds, self._name = base, kinds, name
        own = {kind.name: len(kind.nodes) for kind in kinds}
        if name not in own:
            raise InputError(f"there is no kind of nodes {name!r}", hint=one_of(name, list(own)), field="--vary")
        self._own = own
        self.given = own[name]
        self.places = _places(tuple(kind for kind in kinds if kind.name == name))
        self.least = 1 if len(own) == 1 else 0

    def counts(self, size: int) -> dict[str, int]:
        """Return the numbers of the given cluster, with ``size`` of the kind that varies."""
        return {**self._own, self._name: size}

    def cluster(self, size: int) -> SimulatedCluster:
        """Return the cluster with the kinds one after the other."""
        return _with(self._base, self._kinds, self.counts(size))


class Processors:
    """One node with more or fewer cores, as in a log of processors."""

    unit, least, most = "processors", 1, MOST_PROCESSORS
    places: tuple[NodePlace, ...] = ()

    def __init__(self, base: SimulatedCluster) -> None:
        self._base = base
        self.given = base.nodes[0].capacity[0] // CORE

    def counts(self, size: int) -> dict[str, int]:
        """Return the number of processors."""
        return {self.unit: size}

    def cluster(self, size: int) -> SimulatedCluster:
        """Return the node with that number of cores."""
        node = self._base.nodes[0]
        return replace(self._base, nodes=(changed(node, capacity=(size * CORE, *node.capacity[1:])),))


def kinds_of(cluster: SimulatedCluster) -> tuple[NodeKind, ...]:
    """Return the kinds of nodes of a cluster, in the order of their first nodes, with distinct names."""
    found: dict[Node, list[Node]] = {}
    for node in cluster.nodes:
        found.setdefault(place_of(node).like, []).append(node)
    kinds: list[NodeKind] = []
    used: set[str] = set()
    for nodes in found.values():
        stem = re.sub(r"[-_.]?\d+$", "", nodes[0].name) or nodes[0].name
        name, number = stem, 2
        while name in used:
            name, number = f"{stem}-{number}", number + 1
        used.add(name)
        kinds.append(NodeKind(name, tuple(nodes)))
    return tuple(kinds)


def _places(kinds: tuple[NodeKind, ...]) -> tuple[NodePlace, ...]:
    return tuple(dict.fromkeys(place_of(node) for kind in kinds for node in kind.nodes))


def _with(base: SimulatedCluster, kinds: tuple[NodeKind, ...], counts: dict[str, int]) -> SimulatedCluster:
    return replace(base, nodes=tuple(node for kind in kinds for node in kind.take(counts[kind.name])))
