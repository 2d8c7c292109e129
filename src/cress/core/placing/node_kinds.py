"""The kinds of nodes named in quotas (design note 0034): the nodes of each kind, and the charges of tasks on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from cress.core.kernels.holding import NONE, OUT
from cress.core.placing.constraints import Wants
from cress.core.placing.matching import Matching
from cress.core.placing.shape import Shape
from cress.core.tables.arrays import Bools
from cress.core.tables.cluster import Cluster
from cress.model.groups.measures import kind_of, split
from cress.model.node import Node
from cress.model.resources import ResourceVector

_Amounts: TypeAlias = tuple[int, ...]

# The number of requests with cached smallest and largest charges.
_MOST_REQUESTS = 10_000


class NodeKinds:
    """The measures for kinds of nodes named in quotas; all groups are charged in them, after their own measures.

    False without any.
    """

    def __init__(self, cluster: Cluster, matching: Matching) -> None:
        self._cluster = cluster
        self._matching = matching
        self.names: tuple[str, ...] = ()
        # The dimension of each measure.
        self.dims: tuple[int, ...] = ()
        self._begin()

    def _begin(self) -> None:
        # The description of each node as last examined; below, the measures in which the node counts.
        self._seen: list[Node | None] = []
        self._on: list[tuple[bool, ...]] = []
        self._masks: tuple[int, Bools] = (-1, np.zeros((len(self.names), 0), np.bool_))
        self._totals: tuple[int, tuple[int, ...]] = (-1, ())
        self._extremes: tuple[tuple[int, ...], dict[tuple[ResourceVector, Wants], tuple[_Amounts, _Amounts]]] = (), {}

    def __bool__(self) -> bool:
        return bool(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def set_names(self, names: Sequence[str]) -> None:
        """Set the measures."""
        if tuple(names) == self.names:
            return
        self.names = tuple(names)
        self.dims = tuple(self._cluster.dimensions.index[split(name)[0]] for name in names)
        self._begin()

    def on(self, f: int) -> tuple[bool, ...]:
        """Return, per measure, True if node ``f`` is of its kind."""
        specs = self._cluster.specs
        if len(self._seen) < len(specs):
            more = len(specs) - len(self._seen)
            self._seen += [None] * more
            self._on += [()] * more
        node = specs[f]
        if self._seen[f] is not node:
            self._seen[f] = node
            kinds = {dimension: kind_of(node, dimension) for dimension in {split(name)[0] for name in self.names}}
            self._on[f] = tuple(kinds[dimension] == kind for dimension, kind in map(split, self.names))
        return self._on[f]

    def masks(self) -> Bools:
        """Return, per measure and node, True if the node is of that kind; the caller must not change the array."""
        described, n = self._cluster.described, self._cluster.node_count
        if self._masks[0] != described:
            found = np.array([self.on(f) for f in range(n)], np.bool_).reshape(n, len(self.names)).T
            self._masks = described, found
        return self._masks[1]

    def charge(self, request: ResourceVector, f: int) -> tuple[int, ...]:
        """Return the charge of a task of ``request`` on node ``f`` in these measures."""
        return tuple([request[k] if counts else 0 for k, counts in zip(self.dims, self.on(f), strict=True)])

    def capacity(self) -> tuple[int, ...]:
        """Return the capacity of all nodes that are not lost, in these measures."""
        cluster = self._cluster
        if self._totals[0] != cluster.described:
            has = cluster.capacities()
            totals = [int(has[mask, dim].sum()) for mask, dim in zip(self.masks(), self.dims, strict=True)]
            self._totals = cluster.described, tuple(totals)
        return self._totals[1]

    def least(self, request: ResourceVector, wants: Wants) -> tuple[int, ...]:
        """Return the smallest charge of a task in each measure.

        It is taken over the usable nodes that are large enough and that its clauses may ever allow.
        """
        return self._extremes_of(request, wants)[0]

    def most(self, request: ResourceVector, wants: Wants) -> tuple[int, ...]:
        """Return the largest charge of a task in each measure over the same nodes."""
        return self._extremes_of(request, wants)[1]

    def _extremes_of(self, request: ResourceVector, wants: Wants) -> tuple[_Amounts, _Amounts]:
        cluster = self._cluster
        state = (cluster.described, cluster.usable_changes, self._matching.facts)
        if self._extremes[0] != state:
            self._extremes = state, {}
        known = self._extremes[1]
        found = known.get((request, wants))
        if found is None:
            if len(known) > _MOST_REQUESTS:
                known.clear()
            may = self.large_enough(request) & self._matching.ever(wants)
            masks = self.masks()[:, may]
            count, among = masks.sum(axis=1).tolist(), masks.shape[1]
            least = tuple([request[k] if n and n == among else 0 for k, n in zip(self.dims, count, strict=True)])
            most = tuple([request[k] if n else 0 for k, n in zip(self.dims, count, strict=True)])
            found = known[request, wants] = least, most
        return found

    def large_enough(self, request: ResourceVector) -> Bools:
        """Return, per node, True if it is open to tasks and holds one of ``request`` when empty."""
        return self._cluster.usable() & self._cluster.large(request)

    def open_to(self, shape: Shape) -> Bools:
        """Return, per node, True if one copy of a shape may run there now, given enough room."""
        may = self.large_enough(shape.request)
        if shape.row == NONE:
            return may & self._matching.ever(shape.wants)
        excluded: Bools = self._cluster.lack_of(shape.row) & OUT != 0
        return may & ~excluded
