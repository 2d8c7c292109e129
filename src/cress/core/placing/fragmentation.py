"""The order ``fragmentation``: the node where what the likely mix cannot use of the devices grows least, with balance (design note 0026)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cress.core.kernels import fragmentation
from cress.core.kernels.devices import PARTS, WHOLE
from cress.core.kernels.filling import fill_values
from cress.core.placing.constraints import NO_WANTS, Wants, lasting_wants
from cress.core.placing.device_requests import ask_of
from cress.core.placing.matching import Matching
from cress.core.placing.mix import Mix
from cress.core.placing.shape import Shape
from cress.core.tables.arrays import Floats, Ints, grown
from cress.core.tables.cluster import Cluster
from cress.language.clauses import Kind
from cress.model.decisions import Choice
from cress.model.job import Job
from cress.model.node import DISK_KIND
from cress.model.options import Options
from cress.model.resources import Dimensions, ResourceVector

# Clauses that depend only on what a node is.
_OF_NODES = (Kind.CONDITION, Kind.NODES, Kind.RESOURCE)


class Fragmentation:
    """The tables of the mix, and per row of the fit table the growth of the fragment of each node."""

    def __init__(self, cluster: Cluster, matching: Matching, mix: Mix, options: Options) -> None:
        self.cluster = cluster
        self.mix = mix
        self._matching = matching
        self._weight = np.float32(options.fragmentation_balance)
        self._often = np.array([options.fragmentation_copies, options.fragmentation_filling], np.float32)
        # The state of the mix, of the nodes' descriptions and of their table for which the tables hold.
        self._state = (-1, -1, -1)
        self._shapes: list[Wants] = []
        k = cluster.k_count
        self._requests: Ints = np.zeros((0, k), np.int64)
        self._asks: Ints = np.zeros((0, PARTS + k), np.int64)
        self._shares: Floats = np.zeros(0, np.float32)
        self._may: npt.NDArray[np.uint8] = np.zeros((0, 0), np.uint8)
        self._asked: Ints = np.zeros(0, np.int64)
        self._kinds: Ints = np.zeros(0, np.int64)
        self._values: Ints = np.zeros((0, WHOLE + 1), np.int64)
        # Per node its fragment and the stamp at which it was computed; per row and node the growth, likewise.
        self._before: Floats = np.zeros(0, np.float32)
        self._known: Ints = np.zeros(0, np.int64)
        self._growth: Floats = np.zeros((0, 0), np.float32)
        self._seen: Ints = np.zeros((0, 0), np.int64)
        self._owners: list[Shape | None] = []
        self._squares: Floats = np.zeros(0, np.float32)

    def any_devices(self) -> bool:
        """Return whether a node counts devices of a dimension one by one."""
        return any(device.kind != DISK_KIND for has in self.cluster.devices for device in has)

    def squares(self) -> Floats:
        """Return the array into which the caller writes y² of every node with the shape on it."""
        if len(self._squares) != len(self.cluster.nodes):
            self._squares = np.zeros(len(self.cluster.nodes), np.float32)
        return self._squares

    def place(self, shape: Shape, slot: int, end: int, blocked: npt.NDArray[np.int32]) -> int:
        """Hold one copy of ``shape`` until ``end`` on the best node that fits and is not blocked, in lease ``slot``; -1 if there is none.

        ``squares`` holds y² of every node.
        """
        self._follow()
        self._own(shape)
        cluster = self.cluster
        return fragmentation.place(  # type: ignore[no-any-return]
            shape.row, slot, end, cluster.nodes, cluster.leases, cluster.lack, cluster.rows, cluster.row_count, blocked,
            cluster.columns, cluster.then, cluster.node_count, cluster.totals, cluster.dims, self._squares,
            self._weight, self._growth, self._seen, self._before, self._known, self._requests, self._asks,
            self._shares, self._may, self._asked, self._kinds, self._values, self._often,
        )  # fmt: skip

    def why(self, shape: Shape, f: int, fitted: int) -> Choice:
        """Return why node ``f`` was chosen by the last ``place``, when ``fitted`` nodes fitted."""
        growth, balance = self._growth[shape.row, f].item(), np.sqrt(self._squares[f]).item()
        return round(growth, 6), round(balance, 6), fitted - 1

    def shares(self) -> tuple[float, float]:
        """Return what the mix cannot use of the idle devices of all nodes, and the idle devices, in devices."""
        self._follow()
        cluster = self.cluster
        lost, idle = fragmentation.total_fragments(
            cluster.nodes, cluster.node_count, cluster.k_count, self._requests, self._asks, self._shares, self._may,
            self._asked, self._kinds, self._values,
        )  # fmt: skip
        return float(lost), float(idle)

    # --- tables ----------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Bring the tables up to date with the mix and with what nodes are."""
        cluster, n = self.cluster, len(self.cluster.nodes)
        state = (self.mix.version, self._matching.facts, n)
        if state == self._state:
            return
        if len(self._known) != n:
            self._before = np.zeros(n, np.float32)
            self._known = np.full(n, -1, np.int64)
            self._growth = np.zeros((len(cluster.rows), n), np.float32)
            self._seen = np.full((len(cluster.rows), n), -1, np.int64)
        kinds = self._counted()
        if state[0] != self._state[0] or not np.array_equal(kinds, self._kinds):
            self._kinds = kinds
            self._take_mix()
            self._may = self._allowed()
            self._known[:] = -1
            self._seen[:] = -1
        else:
            may = self._allowed()
            changed = np.any(may != self._may, axis=0) if may.shape == self._may.shape else np.ones(n, np.bool_)
            self._known[changed] = -1
            self._seen[:, changed] = -1
            self._may = may
        self._state = state

    def _counted(self) -> Ints:
        """Return the dimensions of which some node counts devices one by one."""
        kinds = {device.kind for has in self.cluster.devices for device in has}
        index = self.cluster.dimensions.index
        return np.array(sorted(index[kind] for kind in kinds if kind in index), np.int64)

    def _take_mix(self) -> None:
        """Set the tables of the shapes of the mix that ask for devices which some node counts."""
        kinds = self._kinds.tolist()
        counted = [each for each in self.mix.likely if any(each.request[k] for k in kinds)]
        counted.sort(key=lambda each: [each.request[k] for k in kinds])
        k = self.cluster.k_count
        self._requests = np.array([each.request for each in counted], np.int64).reshape(len(counted), k)
        self._asked = np.flatnonzero(self._requests.any(axis=0))
        asks = [ask_of(each.request, NO_WANTS) for each in counted]
        self._asks = np.array(asks, np.int64).reshape(len(counted), PARTS + k)
        tasks = np.array([each.tasks for each in counted], np.int64)
        self._shares = (tasks / max(1, int(tasks.sum()))).astype(np.float32)
        dimensions = self.cluster.dimensions
        self._shapes = [of_nodes(each.request, each.requirement, dimensions) for each in counted]
        self._values = np.zeros((len(self._kinds), WHOLE + 1), np.int64)
        for j, kind in enumerate(self._kinds.tolist()):
            wanted: dict[int, int] = {}
            for each in counted:
                amount = each.request[kind]
                if amount:
                    # A task that takes whole devices takes as many pieces.
                    size = min(amount, WHOLE)
                    wanted[size] = wanted.get(size, 0) + each.tasks * (amount // size)
            if wanted:
                sizes = sorted(wanted)
                pieces = np.array([wanted[size] for size in sizes], np.float64)
                fill_values(np.array(sizes, np.int64), pieces, self._values[j])

    def _allowed(self) -> npt.NDArray[np.uint8]:
        """Return, per shape of the mix and node, whether its clauses allow the node."""
        may = np.zeros((len(self._shapes), len(self.cluster.nodes)), np.uint8)
        for m, wants in enumerate(self._shapes):
            may[m, : self.cluster.node_count] = self._matching.ever(wants)
        return may

    def _own(self, shape: Shape) -> None:
        """Forget what is known of the row of the shape if it was another's."""
        cluster, r = self.cluster, shape.row
        if len(self._seen) != len(cluster.rows):
            rows = len(self._seen)
            self._growth = grown(self._growth, len(cluster.rows))
            self._seen = grown(self._seen, len(cluster.rows))
            self._seen[rows:] = -1
        if len(self._owners) < len(cluster.rows):
            self._owners.extend([None] * (len(cluster.rows) - len(self._owners)))
        if self._owners[r] is not shape:
            self._owners[r] = shape
            self._seen[r] = -1


def of_nodes(request: ResourceVector, requirement: str, dimensions: Dimensions) -> Wants:
    """Return the clauses of a requirement that depend only on what a node is, for a job with this request."""
    job = Job(id=0, name="", group="", request=request, requirement=requirement)
    hard = tuple(clause for clause in lasting_wants(job, dimensions).hard if clause.kind in _OF_NODES)
    return Wants(hard=hard) if hard else NO_WANTS
