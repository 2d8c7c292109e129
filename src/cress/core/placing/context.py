"""The context in which clauses are evaluated: nodes, their attributes, and their running tasks."""

from __future__ import annotations

import numpy as np

from cress.core.kernels.holding import FREE
from cress.core.placing.relations import Relations
from cress.core.tables.arrays import Ints
from cress.core.tables.cluster import Cluster
from cress.language.clauses import RankTerm
from cress.language.columns import Columns
from cress.language.program import Program
from cress.language.tree import Expression
from cress.model.node import Load, Node

# The number of cached programs; with more different clauses at once, some are compiled again.
_MOST_PROGRAMS = 10_000


class ClauseContext:
    """The nodes of one cluster, as clauses use them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.relations = Relations(
            cluster.dimensions, lambda key: [has.get(key) for has in self.columns.attributes[: cluster.node_count]]
        )
        self._columns: Columns | None = None
        # Compiled clauses, because many shapes have the same ones.
        self._programs: dict[Expression | tuple[RankTerm, ...], Program] = {}
        # Measured loads by node.
        self._loads: dict[int, Load] = {}
        self._there: tuple[int, int, Ints] = (-1, -1, np.zeros(0, np.int64))

    @property
    def columns(self) -> Columns:
        """The attributes of the nodes, kept from the first use on."""
        if self._columns is None:
            self._columns = Columns(self.cluster.dimensions, FREE)
            for f, node in enumerate(self.cluster.specs):
                self._columns.set_node(f, node)
            for f, load in self._loads.items():
                self._columns.set_load(f, load)
        return self._columns

    def program(self, what: Expression | tuple[RankTerm, ...]) -> Program:
        """Return the compiled condition, or the compiled terms of a rank, over these nodes; cached by text."""
        found = self._programs.get(what)
        if found is None:
            if len(self._programs) >= _MOST_PROGRAMS:
                self._programs.clear()
            found = self._programs[what] = Program(self.columns, what)
        return found

    def there(self) -> Ints:
        """Return the present nodes that are not cordoned."""
        cluster = self.cluster
        n = cluster.node_count
        if self._there[:2] != (self.relations.facts, n):
            closed = np.array([each is not None for each in cluster.cordoned[:n]], np.bool_)
            found = np.flatnonzero(~(np.array(cluster.lost[:n], np.bool_) | closed))
            self._there = (self.relations.facts, n, found)
        return self._there[2]

    def set_node(self, f: int, node: Node) -> bool:
        """Add node ``f``, or take over its new description; return True if compared domains changed."""
        changed: list[str] = []
        if self._columns is not None:
            has = self._columns.attributes
            before = dict(has[f]) if f < len(has) and self.relations.compared else {}
            self._columns.set_node(f, node)
            added = f >= self.relations.node_count
            changed = [key for key in self.relations.compared if added or before.get(key) != has[f].get(key)]
            for key in changed:
                if added:
                    self.relations.grow_domains(key, has[f].get(key))
                else:
                    self.relations.forget_domains(key)
        self.relations.set_node(f, node)
        return bool(changed)

    def set_load(self, f: int, load: Load | None) -> None:
        """Set the measured load of node ``f``; ``None``: it is no longer measured."""
        if load is None:
            self._loads.pop(f, None)
        else:
            self._loads[f] = load
        if self._columns is not None:
            self._columns.set_load(f, load)
