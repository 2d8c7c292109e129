"""The order ``fragmentation``: first the node where the devices unusable for the mix grow least, with balance (design
note 0026).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cress.core.kernels import fragmentation
from cress.core.kernels.alike import UNTIL
from cress.core.kernels.devices import WHOLE, WIDTH, first_device
from cress.core.kernels.filling import fill_values
from cress.core.kernels.fragmentation import ASKED, MAY, OFTEN
from cress.core.placing.constraints import NO_WANTS, Wants
from cress.core.placing.kinds import lasting_wants
from cress.core.placing.matching import Matching
from cress.core.placing.mix import Mix
from cress.core.placing.shape import Shape
from cress.core.tables.arrays import Closed, Floats, Ints, grown
from cress.core.tables.cluster import Cluster
from cress.language.clauses import Kind
from cress.model.decisions import Choice
from cress.model.job import Job
from cress.model.options import Options
from cress.model.resources import Dimensions, ResourceVector

# The number of states kept per node: the present one, and earlier ones that may return.
STATES = 3
# Clauses that depend only on the description of a node.
_OF_NODES = (Kind.CONDITION, Kind.NODES, Kind.RESOURCE)


class Fragmentation:
    """The tables of the mix, and the growth of each node's fragment per row of the fit table."""

    def __init__(self, cluster: Cluster, matching: Matching, mix: Mix, options: Options) -> None:
        self.cluster = cluster
        self.mix = mix
        self._matching = matching
        self._weight = np.float32(options.fragmentation_balance)
        # The tables for the kernels; below, their sources.
        self._tables: tuple[Any, ...] = ()
        self._often = np.array(
            [options.fragmentation_copies, options.fragmentation_filling, options.fragmentation_blend], np.float32
        )
        # The state of the mix, of the nodes' descriptions and of their table for which the tables are valid.
        self._state: tuple[int, int, tuple[int, ...]] = (-1, -1, ())
        self._shapes: list[Wants] = []
        k = cluster.k_count
        self._requests: Ints = np.zeros((0, k), np.int64)
        self._shares: Floats = np.zeros(0, np.float32)
        self._may: npt.NDArray[np.uint8] = np.zeros((0, 0), np.uint8)
        self._kinds: Ints = np.zeros(0, np.int64)
        self._values: Ints = np.zeros((0, WHOLE + 1), np.int64)
        # The states of the nodes (``kernels.alike``); for each, its fragment and the growth of it per row.
        self._who: dict[bytes, int] = {}
        self._allowed_to: Ints = np.zeros(0, np.int64)
        self._state_of: Ints = np.zeros(0, np.int64)
        self._known: Ints = np.zeros(0, np.int64)
        self._states: Ints = np.zeros((0, 0), np.int64)
        self._table: Ints = np.zeros(0, np.int64)
        self._clock: Ints = np.zeros(3, np.int64)
        self._before: Floats = np.zeros(0, np.float32)
        self._growth: Floats = np.zeros((0, 0), np.float32)
        self._owners: list[Shape | None] = []
        self._squares: Floats = np.zeros(0, np.float32)

    def any_devices(self) -> bool:
        """Return True if a node counts devices of a dimension one by one."""
        return self.cluster.with_accelerators > 0

    def squares(self) -> Floats:
        """Return the array for y² of every node with the shape on it, which the caller fills."""
        if len(self._squares) != len(self.cluster.nodes):
            self._squares = np.zeros(len(self.cluster.nodes), np.float32)
        return self._squares

    def place(self, shape: Shape, slot: int, end: int, closed: Closed) -> int:
        """Hold one copy of ``shape`` until ``end`` (µs) on the best node that fits and is not closed, in lease
        ``slot``.

        ``squares`` holds y² of every node. Returns the node, or -1 if none fits.
        """
        self._follow()
        self._own(shape)
        cluster = self.cluster
        return fragmentation.place(  # type: ignore[no-any-return]
            shape.row, slot, end, cluster.nodes, cluster.leases, cluster.lack, cluster.rows, cluster.row_count, closed,
            cluster.columns, cluster.then, cluster.node_count, cluster.totals, cluster.dims, self._squares,
            self._weight, self._growth, self._before, self._allowed_to, self._state_of, self._known, self._states,
            self._table, self._clock, self._tables,
        )  # fmt: skip

    def why(self, shape: Shape, f: int, fitted: int) -> Choice:
        """Return the reason why the last ``place`` chose node ``f`` among ``fitted`` nodes."""
        growth, balance = self._growth[shape.row, self._state_of[f]].item(), np.sqrt(self._squares[f]).item()
        return round(growth, 6), round(balance, 6), fitted - 1

    def shares(self) -> tuple[float, float]:
        """Return the idle devices on all nodes that the mix cannot use, and all idle devices, as numbers of devices."""
        self._follow()
        cluster = self.cluster
        tables = (*self._tables[:OFTEN], np.zeros_like(self._often), *self._tables[OFTEN + 1 :])
        lost, idle = fragmentation.total_fragments(cluster.nodes, cluster.node_count, cluster.k_count, tables)
        return float(lost), float(idle)

    # --- tables ----------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Update the tables for the mix and for the descriptions of nodes."""
        shape = self.cluster.nodes.shape
        state = (self.mix.version, self._matching.facts, shape)
        if state == self._state:
            return
        kinds = self._counted()
        if state[0] != self._state[0] or shape != self._state[2] or not np.array_equal(kinds, self._kinds):
            self._kinds = kinds
            self._take_mix()
            self._may = self._allowed()
            self._tables = self._columns()
            self._forget()
            changed = np.arange(len(self.cluster.nodes))
        else:
            before, self._may = self._may, self._allowed()
            self._tables = self._columns()
            changed = np.flatnonzero(np.any(before != self._may, axis=0))
        for f in changed.tolist():
            self._allowed_to[f] = self._who.setdefault(self._tables[MAY][f].tobytes(), len(self._who))
        self._known[changed] = -1
        self._clock[UNTIL] = -1
        self._state = state

    def _forget(self) -> None:
        """Drop the states of all nodes."""
        cluster, n = self.cluster, len(self.cluster.nodes)
        # The usability of the node, the free amounts, and two words per device.
        width = 1 + len(self._tables[ASKED]) + 2 * ((cluster.nodes.shape[1] - first_device(cluster.k_count)) // WIDTH)
        if self._states.shape != (STATES * n, width):
            self._states = np.zeros((STATES * n, width), np.int64)
        if len(self._known) != n:
            self._allowed_to = np.zeros(n, np.int64)
            self._state_of = np.zeros(n, np.int64)
            self._known = np.zeros(n, np.int64)
            self._table = np.zeros(2 ** int(STATES * n).bit_length(), np.int64)
            self._before = np.zeros(STATES * n, np.float32)
            self._growth = np.zeros((len(cluster.rows), STATES * n), np.float32)
        self._who.clear()
        self._table[:] = -1
        self._before[:] = np.nan
        self._growth[:] = np.nan
        self._clock[:] = (0, -1, -1)

    def _counted(self) -> Ints:
        """Return the dimensions in which some node counts devices one by one."""
        kinds = {device.kind for has in self.cluster.devices for device in has}
        index = self.cluster.dimensions.index
        return np.array(sorted(index[kind] for kind in kinds if kind in index), np.int64)

    def _take_mix(self) -> None:
        """Set the tables of shapes in the mix that request devices counted by some node."""
        kinds = self._kinds.tolist()
        counted = [likely for likely in self.mix.likely if any(likely.request[k] for k in kinds)]
        counted.sort(key=lambda likely: [likely.request[k] for k in kinds])
        k = self.cluster.k_count
        self._requests = np.array([likely.request for likely in counted], np.int64).reshape(len(counted), k)
        tasks = np.array([likely.tasks for likely in counted], np.int64)
        self._shares = (tasks / max(1, int(tasks.sum()))).astype(np.float32)
        dimensions = self.cluster.dimensions
        self._shapes = [of_nodes(likely.request, likely.requirement, dimensions) for likely in counted]
        self._values = np.zeros((len(self._kinds), WHOLE + 1), np.int64)
        for j, kind in enumerate(self._kinds.tolist()):
            wanted: dict[int, int] = {}
            for likely in counted:
                amount = likely.request[kind]
                if amount:
                    # A task with whole devices takes as many pieces.
                    size = min(amount, WHOLE)
                    wanted[size] = wanted.get(size, 0) + likely.tasks * (amount // size)
            if wanted:
                sizes = sorted(wanted)
                pieces = np.array([wanted[size] for size in sizes], np.float64)
                fill_values(np.array(sizes, np.int64), pieces, self._values[j])

    def _columns(self) -> tuple[Any, ...]:
        """Return the tables for the kernels: one column per shape and dimension with requested devices."""
        asked = np.flatnonzero(self._requests.any(axis=0))
        shapes: list[Ints] = []
        amounts: list[Ints] = []
        places: list[Ints] = []
        for k in self._kinds.tolist():
            asking = np.flatnonzero(self._requests[:, k])
            different, place = np.unique(self._requests[asking, k], return_inverse=True)
            shapes.append(asking)
            amounts.append(different)
            places.append(place)
        firsts = np.cumsum([0, *map(len, shapes)])
        sizes = np.cumsum([0, *map(len, amounts)])
        every = _joined(shapes)
        of_shapes = (firsts, sizes, _joined(amounts).astype(np.float64), _joined(places), self._shares[every])
        needs = self._requests[every][:, asked].T.astype(np.float64, order="C")
        may = np.ascontiguousarray(self._may[every].T)
        blend = fragmentation.blends(*of_shapes, needs, may)
        return (*of_shapes, asked, needs, may, self._kinds, self._values, self._often, blend)

    def _allowed(self) -> npt.NDArray[np.uint8]:
        """Return, per shape of the mix and node, True if its clauses allow the node."""
        may = np.zeros((len(self._shapes), len(self.cluster.nodes)), np.uint8)
        for m, wants in enumerate(self._shapes):
            may[m, : self.cluster.node_count] = self._matching.ever(wants)
        return may

    def _own(self, shape: Shape) -> None:
        """Drop the cached values of the shape's row if it belonged to another shape."""
        cluster, r = self.cluster, shape.row
        if len(self._growth) != len(cluster.rows):
            self._growth = grown(self._growth, len(cluster.rows))
        if len(self._owners) < len(cluster.rows):
            self._owners.extend([None] * (len(cluster.rows) - len(self._owners)))
        if self._owners[r] is not shape:
            self._owners[r] = shape
            self._growth[r] = np.nan


def of_nodes(request: ResourceVector, requirement: str, dimensions: Dimensions) -> Wants:
    """Return the clauses of a requirement that depend only on the description of a node, for a job with this
    request.
    """
    job = Job(id=0, name="", group="", request=request, requirement=requirement)
    hard = tuple(clause for clause in lasting_wants(job, dimensions).hard if clause.kind in _OF_NODES)
    return Wants(hard=hard) if hard else NO_WANTS


def _joined(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *arrays])
