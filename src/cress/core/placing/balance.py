"""Multi-dimensional balance (source B): weights from precedence charts, the measure y, the choice of a node, the
gate.
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from cress.core.kernels.balance import measure, place, place_many
from cress.core.kernels.choice import BALANCE, BEST_FIT, FIRST, SPREAD, current_weights, precedence
from cress.core.kernels.holding import FITTING
from cress.core.placing.fit import Fit
from cress.core.placing.fragmentation import Fragmentation
from cress.core.placing.shape import Shape
from cress.core.tables.arrays import Closed, Floats, Ints
from cress.core.tables.cluster import Cluster
from cress.model.decisions import Choice
from cress.model.errors import InputError
from cress.model.options import INITIAL, PENDING, UTILISATION, Options

# On nodes without devices counted one by one, ``fragmentation`` equals ``balance``.
_ORDERS = {"fragmentation": BALANCE, "balance": BALANCE, "best_fit": BEST_FIT, "spread": SPREAD, "first": FIRST}


class Balance:
    """The current weights, and the rotation's cursor."""

    def __init__(self, cluster: Cluster, fit: Fit, fragmentation: Fragmentation, options: Options) -> None:
        self.cluster = cluster
        self.fit = fit
        # A whole number would be another type for the kernels, and compile them again.
        self.threshold = float(options.balance_threshold)
        self.order = _ORDERS[options.node_order]
        self.cursor = 0
        self.fragmentation = fragmentation
        self._may_fragment = options.node_order == "fragmentation"
        # True if the order is ``fragmentation`` and some node counts devices.
        self.by_fragments = False
        # The reason for the last choice of a node, with the order ``fragmentation``.
        self.choice: Choice | None = None
        # The reasons for the choices of the last ``place_many``.
        self.choices: list[Choice | None] = []
        n = len(cluster.dims)
        given = dict(options.initial_weights)
        unknown = sorted(set(given) - set(cluster.balanced))
        if unknown:
            hint = "balanced are " + ", ".join(cluster.balanced)
            raise InputError(f"no dimension {unknown[0]!r} is balanced", hint=hint, field="initial_weights")
        self._initial = np.array([given.get(name, 0.0) if given else 1.0 / n for name in cluster.balanced])
        self._use_initial = INITIAL in options.balance_weights
        self.use_pending = PENDING in options.balance_weights
        self._use_utilisation = UTILISATION in options.balance_weights
        self._parts = int(self._use_initial) + int(self.use_pending)
        # B's r_i: the number of jobs that wait for lack of dimension i.
        self.pending: tuple[int, ...] = (0,) * n
        self.any_pending = False
        self._fixed = np.zeros(n)
        self.refresh()

    def set_pending(self, pending: tuple[int, ...]) -> None:
        """Set the number of jobs that wait for lack of each balanced dimension."""
        if pending != self.pending:
            self.pending = pending
            self.any_pending = any(pending)
            self.refresh()

    def refresh(self) -> None:
        """Compute the parts of the weights that are independent of the utilisation."""
        cluster = self.cluster
        capacity = np.array(cluster.capacity(), np.int64)[cluster.dims]
        present = (capacity > 0).astype(np.uint8)
        fixed = np.zeros(len(present))
        if self._use_initial:
            total = float(self._initial[present == 1].sum())
            if total > 0:
                fixed += np.where(present == 1, self._initial / total, 0.0)
        if self.use_pending:
            chart = np.zeros(len(present))
            precedence(np.array(self.pending, np.float64), present, chart)
            fixed += chart
        self._fixed = fixed
        self.choice = None
        self.by_fragments = self._may_fragment and self.fragmentation.any_devices()

    def place(self, shape: Shape, slot: int, end: int, closed: Closed) -> int:
        """Hold one copy of ``shape`` until ``end`` (µs) on the best node that fits and is not closed, in lease
        ``slot``.

        The rank of the shape takes precedence over the order of nodes. Returns the node, or -1 if none fits.
        """
        cluster = self.cluster
        if shape.match is not None:
            closed = self.fit.set_aside(shape, closed)
        if self.by_fragments:
            return self._place_by_fragments(shape, slot, end, closed)
        f, self.cursor = place(
            shape.row, slot, end, cluster.nodes, cluster.leases, cluster.lack, cluster.rows, cluster.row_count,
            closed, cluster.columns, cluster.then, cluster.node_count, cluster.totals, cluster.dims, self._fixed,
            self._parts, self._use_utilisation, self.threshold, self.order, self.cursor,
        )  # fmt: skip
        return f  # type: ignore[no-any-return]

    def place_many(self, shape: Shape, slots: list[int], end: int) -> list[int]:
        """Hold one copy of ``shape``, which has no rank, in each of the leases ``slots``; return the nodes."""
        cluster = self.cluster
        if self.by_fragments:
            return self._place_many_by_fragments(shape, slots, end)
        self.choices = [None] * len(slots)
        chosen = np.zeros(len(slots), np.int64)
        self.cursor = place_many(
            shape.row, np.array(slots, np.int64), chosen, end, cluster.nodes, cluster.leases, cluster.lack,
            cluster.rows, cluster.row_count, cluster.none_closed, cluster.columns, cluster.then, cluster.node_count,
            cluster.totals, cluster.dims, self._fixed, self._parts, self._use_utilisation, self.threshold, self.order,
            self.cursor,
        )  # fmt: skip
        return chosen.tolist()

    def _place_many_by_fragments(self, shape: Shape, slots: list[int], end: int) -> list[int]:
        self.choices, places = [], []
        for slot in slots:
            places.append(self._place_by_fragments(shape, slot, end, self.cluster.none_closed))
            self.choices.append(self.choice)
        return places

    def _place_by_fragments(self, shape: Shape, slot: int, end: int, closed: Closed) -> int:
        cluster = self.cluster
        fitted = self.fit.fitting(shape)
        measure(
            shape.row, cluster.rows, cluster.columns, cluster.node_count, cluster.totals, cluster.dims, self._fixed,
            self._parts, self._use_utilisation, self.fragmentation.squares(),
        )  # fmt: skip
        f = self.fragmentation.place(shape, slot, end, closed)
        self.choice = self.fragmentation.why(shape, f, fitted) if f >= 0 else None
        return f

    def preferred(self, shape: Shape) -> Ints:
        """Return all nodes in the order of preference for a copy of ``shape``, in their present state.

        They are ordered by the rank of the shape, by the order of nodes after placing, then by registration.
        """
        cluster, n = self.cluster, self.cluster.node_count
        if self.order == FIRST:
            worse: Floats = np.zeros(n, np.float32)
        elif self.order == BALANCE:
            worse = self.squares(shape)
        else:
            rows = len(cluster.dims)
            add = np.array([shape.request[k] for k in cluster.dims], np.float32)[:, None]
            after = cluster.columns[:rows, :n] + add * cluster.columns[cluster.width : cluster.width + rows, :n]
            worse = after.mean(axis=0) * np.float32(-1 if self.order == BEST_FIT else 1)
        # The last key is the most significant, and the sort is stable.
        keys: list[Floats] = [worse, *(-scores[:n] for scores in reversed(self.fit.orders(shape)))]
        order: Ints = np.lexsort(keys)
        return order

    def weights(self) -> Floats:
        """Return the current weights, one per balanced dimension."""
        cluster = self.cluster
        weights = np.zeros(len(cluster.dims), np.float32)
        current_weights(cluster.totals, cluster.dims, self._fixed, self._parts, self._use_utilisation, weights)
        return weights

    def utilisation(self) -> float:
        """Return the mean of used / total over the balanced dimensions of the cluster."""
        cluster = self.cluster
        scratch = np.zeros(len(cluster.dims), np.float32)
        return float(
            current_weights(cluster.totals, cluster.dims, self._fixed, self._parts, self._use_utilisation, scratch)
        )

    def squares(self, request: Shape | None = None) -> Floats:
        """Return y² of every node, as it is or with one copy of a shape on it, under the current weights."""
        cluster = self.cluster
        n = cluster.node_count
        rows = len(cluster.dims)
        share = cluster.columns[:rows, :n]
        inverse = cluster.columns[cluster.width : cluster.width + rows, :n]
        weights = self.weights()[:, None]
        d = share
        if request is not None:
            add = np.array([request.request[k] for k in cluster.dims], np.float32)[:, None]
            d = share + add * inverse
        weight = np.where(inverse > 0, weights, np.float32(0))
        t = d - d.sum(axis=0) * cluster.columns[2 * cluster.width, :n]
        down = weight.sum(axis=0)
        up = (weight * t * t).sum(axis=0)
        squares: Floats = np.zeros(n, np.float32)
        np.divide(up, down, out=squares, where=down > 0)
        return squares

    def holds_back(self, shape: Shape, others: Container[int] | None = None) -> bool:
        """Return True if the balance gate holds ``shape`` back.

        Then y would rise on every node feasible for it, while another waiting unit would make y fall on one of them.
        That unit has another shape, in one of the rows ``others`` (``None``: in any row).
        """
        cluster = self.cluster
        n = cluster.node_count
        feasible = cluster.lack[shape.row, :n] == 0
        before = self.squares()
        if not feasible.any() or np.any(self.squares(shape)[feasible] <= before[feasible]):
            return False
        for other in self.fit.row_shapes[: cluster.row_count]:
            if other is None or other is shape or not other.waiting or not cluster.rows[other.row, FITTING]:
                continue
            if others is not None and other.row not in others:
                continue
            both = feasible & (cluster.lack[other.row, :n] == 0)
            if np.any(self.squares(other)[both] < before[both]):
                return True
        return False
