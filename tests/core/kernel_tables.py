"""Random tables of a cluster for the tests of compiled loops, and a plain twin of the weights and of the choice of a
node.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cress.core.placing.balance import Balance
from cress.core.placing.fit import Fit
from cress.core.placing.fragmentation import Fragmentation
from cress.core.placing.matching import Matching
from cress.core.placing.mix import Mix
from cress.core.placing.shape import Shape
from cress.core.tables.cluster import Cluster
from cress.core.tables.leases import LeaseTable
from cress.model.node import Node
from cress.model.options import Options
from cress.model.resources import Dimensions

F = np.float32
Vector = tuple[int, ...]


def plain_chart(values: list[float], present: list[bool]) -> list[float]:
    """B's precedence chart: row sums over the whole."""
    rows = [
        sum((1.0 if a > b else 0.5 if a == b else 0.0) for b, there in zip(values, present, strict=True) if there)
        if here
        else 0.0
        for a, here in zip(values, present, strict=True)
    ]
    total = sum(rows)
    return [row / total for row in rows] if total else rows


@dataclass
class PlainNode:
    capacity: Vector
    free: list[int]
    usable: bool = True


@dataclass
class PlainChoice:
    """The choice of a node as algorithms §6 describes it, in float32 and in a fixed order."""

    dims: list[int]
    options: Options
    initial: list[float]
    nodes: list[PlainNode] = field(default_factory=list)
    cursor: int = 0

    def weights(self, pending: Vector) -> tuple[list[F], float]:
        total = [sum(node.capacity[k] for node in self.nodes) for k in self.dims]
        used = [sum(node.capacity[k] - node.free[k] for node in self.nodes) for k in self.dims]
        present = [amount > 0 for amount in total]
        utilisation = [u / t if t else 0.0 for u, t in zip(used, total, strict=True)]
        fixed = [0.0] * len(self.dims)
        parts = 0
        if "initial" in self.options.balance_weights:
            parts += 1
            whole = float(np.array(self.initial)[np.array(present)].sum())
            if whole > 0:
                fixed = [f + (w / whole if p else 0.0) for f, w, p in zip(fixed, self.initial, present, strict=True)]
        if "pending" in self.options.balance_weights:
            parts += 1
            fixed = [f + c for f, c in zip(fixed, plain_chart([float(r) for r in pending], present), strict=True)]
        second = [0.0] * len(self.dims)
        if "utilisation" in self.options.balance_weights:
            parts += 1
            second = plain_chart(utilisation, present)
        weights = [F((f + s) / parts) if p else F(0) for f, s, p in zip(fixed, second, present, strict=True)]
        mean = 0.0
        for value, there in zip(utilisation, present, strict=True):
            mean += value if there else 0.0
        return weights, mean / sum(present) if any(present) else 0.0

    def score(self, node: PlainNode, request: Vector | None, weights: list[F]) -> tuple[F, F]:
        """Σ w (d - m)², and the sum of the weights that the node has."""
        mine = [(k, w) for k, w in zip(self.dims, weights, strict=True) if node.capacity[k]]
        part = F(1.0 / len(mine)) if mine else F(0)
        d = [F((node.capacity[k] - node.free[k]) / node.capacity[k]) for k, _ in mine]
        if request is not None:
            d = [s + F(request[k]) * F(1.0 / node.capacity[k]) for s, (k, _) in zip(d, mine, strict=True)]
        total = F(0)
        for value in d:
            total += value
        mean = total * part
        up = down = F(0)
        for value, (_, w) in zip(d, mine, strict=True):
            t = value - mean
            up += w * t * t
            down += w
        return up, down

    def fits(self, node: PlainNode, request: Vector) -> bool:
        return node.usable and all(f >= r for f, r in zip(node.free, request, strict=True))

    def choose(self, request: Vector, pending: Vector) -> int:
        feasible = [i for i, node in enumerate(self.nodes) if self.fits(node, request)]
        if not feasible:
            return -1
        if self.options.node_order == "first" or len(self.nodes) == 1:
            return feasible[0]
        if self.options.node_order in ("best_fit", "spread"):
            full = self.options.node_order == "best_fit"
            means = {i: self.mean_after(self.nodes[i], request) for i in feasible}
            return min(feasible, key=lambda i: (-means[i] if full else means[i], i))
        weights, utilisation = self.weights(pending)
        if utilisation < self.options.balance_threshold:
            n = len(self.nodes)
            for i in [(self.cursor + step) % n for step in range(n)]:
                before, _ = self.score(self.nodes[i], None, weights)
                after, _ = self.score(self.nodes[i], request, weights)
                if i in feasible and after < before:
                    self.cursor = (i + 1) % n
                    return i
        scores = {}
        for i in feasible:
            up, down = self.score(self.nodes[i], request, weights)
            scores[i] = up / down if down > 0 else F(0)
        return min(feasible, key=lambda i: (scores[i], i))

    def mean_after(self, node: PlainNode, request: Vector) -> F:
        mine = [k for k in self.dims if node.capacity[k]]
        mean = F(0)
        for k in mine:
            share = F((node.capacity[k] - node.free[k]) / node.capacity[k])
            mean += share + F(request[k]) * F(1.0 / node.capacity[k])
        return mean * (F(1.0 / len(mine)) if mine else F(0))


class CoreTables:
    """Nodes, leases and shapes without a scheduler."""

    def __init__(self, dimensions: Dimensions, balanced: Iterable[str]) -> None:
        self.cluster = Cluster(dimensions, balanced)
        self.leases = LeaseTable(self.cluster)
        self.matching = Matching(self.cluster)
        self.fit = Fit(self.cluster, self.matching)

    def choice(self, options: Options) -> Balance:
        """Return the choice of nodes among these."""
        fragmentation = Fragmentation(self.cluster, self.matching, Mix(options.mix_tasks), options)
        return Balance(self.cluster, self.fit, fragmentation, options)


@dataclass
class Tables:
    """A random cluster and its plain twin."""

    draw: random.Random
    dimensions: Dimensions
    tables: CoreTables
    balance: Balance
    plain: PlainChoice
    shapes: list[Shape]
    held: list[tuple[int, int, Shape]] = field(default_factory=list)

    @property
    def cluster(self) -> Cluster:
        return self.tables.cluster

    def place(self, shape: Shape, end: int = 10) -> tuple[int, int]:
        """The node of the kernel and of the twin."""
        expected = self.plain.choose(shape.request, self.balance.pending)
        slot = self.tables.leases.take_slot(end)
        f = self.balance.place(shape, slot, end, self.cluster.none_closed)
        if f < 0:
            self.tables.leases.return_slot(slot, end)
        else:
            self.held.append((slot, f, shape))
            self.charge(f, shape, 1)
        return f, expected

    def release(self) -> None:
        slot, f, shape = self.held.pop(self.draw.randrange(len(self.held)))
        self.tables.leases.release(slot)
        self.charge(f, shape, -1)

    def charge(self, f: int, shape: Shape, sign: int) -> None:
        free = self.plain.nodes[f].free
        for k, amount in enumerate(shape.request):
            free[k] -= sign * amount

    def cordon(self) -> None:
        f = self.draw.randrange(self.cluster.node_count)
        usable = not self.plain.nodes[f].usable
        self.plain.nodes[f].usable = usable
        self.cluster.cordon(f, None if usable else "repair")


def tables(seed: int, custom: int, count: int, *, alike: bool = False, **options: Any) -> Tables:
    """``count`` nodes, some without some dimensions (all equal if ``alike``), and a few shapes."""
    draw = random.Random(seed)
    dimensions = Dimensions(tuple(f"x{i}" for i in range(custom)))
    k_count = len(dimensions)
    settings = Options(balance_dimensions=("cpu", "memory"), **options)
    tables = CoreTables(dimensions, settings.balance_dimensions)
    cluster = tables.cluster
    initial = [1.0 / len(cluster.dims)] * len(cluster.dims)
    plain = PlainChoice([int(k) for k in cluster.dims], settings, initial)

    def capacity() -> Vector:
        return tuple(draw.choice((0, 8, 12, 16, 10**6 + 1, 2**40)) if k else 2**20 for k in range(k_count))

    same = tuple(16 for _ in range(k_count))
    for i in range(count):
        offers = same if alike else capacity()
        cluster.add_node(Node(name=f"n{i}", capacity=offers))
        plain.nodes.append(PlainNode(offers, list(offers)))
    balance = tables.choice(settings)
    shapes = []
    for _ in range(6):
        request = tuple(draw.choice((0, 0, 1, 2, 3)) for _ in range(k_count))
        shape = tables.fit.shape(request, 1)
        tables.fit.want(shape)
        shapes.append(shape)
    return Tables(draw, dimensions, tables, balance, plain, shapes)
