"""Answers of predicates over domains, kept by domain; only nodes in domains with a new answer are updated.

A start or an end changes a few domains, while a cluster has ten thousand nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cress.core.kernels.domains import put_worth, shut_domains
from cress.core.placing.predicates import Predicate
from cress.core.tables.arrays import Bools, Floats, Ints
from cress.core.tables.cluster import Cluster
from cress.core.tables.domains import Domains

_NONE: Bools = np.zeros(0, np.bool_)


class _Closed:
    """The domains closed by a predicate, as written to the row; ``changed`` is a buffer for the domains that change."""

    __slots__ = ("changed", "closed", "domains", "predicate")

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate
        self.domains: Domains = predicate.domains
        self.closed: Bools = np.zeros(len(self.domains) + 1, np.bool_)
        self.changed: Ints = np.zeros(len(self.domains) + 1, np.int64)
        predicate.close(self.closed, self.changed)


class Closures:
    """The nodes excluded in a row of the fit table by the predicates of a match that compare domains."""

    def __init__(self, predicates: Iterable[Predicate]) -> None:
        self._predicates = [predicate for predicate in predicates if predicate.compares]
        self._kept: list[_Closed] = []

    def __bool__(self) -> bool:
        return bool(self._predicates)

    def renew(self) -> Bools:
        """Compute all answers again; return, per node, True if one of them excludes it. The caller updates the row."""
        self._kept = [_Closed(predicate) for predicate in self._predicates]
        return self._shut()

    def _shut(self, but: _Closed | None = None) -> Bools:
        shut: Bools | None = None
        for kept in self._kept:
            if kept is not but:
                mine: Bools = kept.closed[kept.domains.of]
                shut = mine if shut is None else shut | mine
        return _NONE if shut is None else shut

    def fill(self, row: int, cluster: Cluster) -> bool:
        """Write the row on all nodes; return True if a node is no longer excluded."""
        self._kept = [_Closed(predicate) for predicate in self._predicates]
        # The domains of one predicate contain all nodes.
        first = self._kept[0]
        first.changed[:] = np.arange(len(first.changed))
        return self._carry_over([(first, len(first.changed))], row, cluster)

    def follow(self, row: int, cluster: Cluster) -> bool:
        """Update the row after starts or ends of tasks; return True if a node is no longer excluded."""
        turned: list[tuple[_Closed, int]] = []
        for kept in self._kept:
            if kept.predicate.domains is not kept.domains:
                return self.fill(row, cluster)
            number = kept.predicate.close(kept.closed, kept.changed)
            if number:
                turned.append((kept, number))
        return self._carry_over(turned, row, cluster)

    def _carry_over(self, turned: list[tuple[_Closed, int]], row: int, cluster: Cluster) -> bool:
        cleared = False
        for kept, number in turned:
            others = _NONE if len(self._kept) == 1 else self._shut(kept)
            order, bounds = kept.domains.sorted_nodes
            cleared |= shut_domains(
                row,
                kept.changed,
                number,
                kept.closed,
                others,
                order,
                bounds,
                cluster.nodes,
                cluster.totals,
                cluster.rows,
                cluster.lack,
            )
        return cleared


class DomainScores:
    """``weight`` times the value of a predicate over domains, per node."""

    def __init__(self, predicate: Predicate, weight: float) -> None:
        self._predicate = predicate
        self._weight = weight
        self._domains: Domains | None = None
        self._worth: Floats = np.zeros(0, np.float32)
        self._changed: Ints = np.zeros(0, np.int64)
        self._scores: Floats = np.zeros(0, np.float32)

    def on_nodes(self, size: int) -> Floats:
        """Return the scores, an array of at least ``size`` elements; it is replaced only to grow."""
        domains = self._predicate.domains
        if domains is not self._domains or len(self._scores) < size:
            self._domains = domains
            self._scores = np.zeros(size, np.float32)
            self._worth = np.zeros(len(domains) + 1, np.float32)
            self._changed = np.zeros(len(domains) + 1, np.int64)
        number = self._predicate.weigh(self._weight, self._worth, self._changed)
        if number:
            order, bounds = domains.sorted_nodes
            put_worth(self._changed, number, self._worth, order, bounds, self._scores)
        return self._scores
