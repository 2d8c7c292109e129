"""Nodes as columns, what is held on them (leases), and where each live shape fits.

A *lease* is an amount held on one node until a known end or for ever; a task runs inside a lease. Today every task
has a lease of its own size that ends with it; §12 of the algorithms (fragments) needs leases that outlive tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from cress.core.kernels import holding
from cress.core.kernels.balance import WIDTHS
from cress.core.kernels.choice import set_aside
from cress.core.kernels.devices import ASKS, PARTS, mask_at
from cress.core.kernels.holding import (
    AMOUNTS,
    BOOKED,
    CLAUSE_BIT,
    END,
    EXCLUDED,
    FIRST_END,
    FITTING,
    FREE,
    HEAD,
    IN_USE,
    NODE,
    NONE,
    REQUEST,
    STAMP,
    TAIL,
    TOTAL_STAMP,
    TOTAL_STARVED,
    TOTAL_USED,
    UNUSABLE,
    USABLE,
)
from cress.core.placing.constraints import NO_WANTS, Wants
from cress.core.placing.gangs import by_racks, gang_room, holds_together
from cress.core.placing.matching import Match, Matching
from cress.core.tables import devices
from cress.model.devices import devices_of
from cress.model.errors import InputError
from cress.model.node import Device, Node
from cress.model.resources import Dimensions, ResourceVector
from cress.model.times import NEVER

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float32]

# Rows of shapes that nobody waits for stay as a cache, as long as this many rows are in use at most.
WARM_ROWS = 256

# Nothing but room bounds the copies of a shape on a node.
NO_CAPS: Ints = np.zeros(0, np.int64)
# In place of a node that would do: only the size of the nodes is in the way.
TOO_LARGE = -2


def grown(table: npt.NDArray[Any], rows: int, axis: int = 0) -> npt.NDArray[Any]:
    """A copy of ``table`` with ``rows`` places along ``axis``, the new ones zero; C-contiguous."""
    shape = list(table.shape)
    shape[axis] = rows
    new = np.zeros(shape, table.dtype)
    new[tuple(slice(0, n) for n in table.shape)] = table
    return new


def _key(request: ResourceVector, size: int, wants: Wants) -> tuple[ResourceVector, int, Wants | None]:
    # Hashing wants takes long, and most jobs have none.
    return request, size, None if wants is NO_WANTS else wants


class Shape:
    """What makes tasks alike to the matcher: the request, how many start together, what they want of nodes.

    ``row`` is its place in the fit table while it has one; ``waiting`` counts the queued jobs that have it. ``match`` is
    what is known of its clauses, ``None`` if it wants nothing but amounts; ``reach`` is what ``within_reach`` found.
    """

    __slots__ = (
        "ask", "early", "match", "reach", "request", "request_array", "row", "seen", "size", "used_at", "waiting", "wants",
    )  # fmt: skip

    def __init__(self, request: ResourceVector, size: int, wants: Wants = NO_WANTS) -> None:
        self.request = request
        self.request_array = np.array(request, np.int64)
        self.ask = devices.ask_of(request, wants, size)
        self.size = size
        self.wants = wants
        self.match: Match | None = None
        self.row = NONE
        self.waiting = 0
        self.used_at = 0
        self.early: Ints | None = None
        self.seen = -1
        # The situation in which it was looked at, and a node that would do, NONE if there was none.
        self.reach = (-1, -1, NONE)


class Cluster:
    """The nodes. Indices are given in the order of registration and stay with the name for ever."""

    def __init__(self, dimensions: Dimensions, balanced: Iterable[str]) -> None:
        self.dimensions = dimensions
        self.k_count = k = len(dimensions)
        wanted = dict.fromkeys((*balanced, *dimensions.custom))
        unknown = [name for name in wanted if name not in dimensions.index]
        if unknown:
            raise InputError(
                f"unknown dimension {unknown[0]!r}", hint=", ".join(dimensions.names), field="balance_dimensions"
            )
        self.balanced: tuple[str, ...] = tuple(wanted)
        self.balanced_indices = [dimensions.index[name] for name in self.balanced]
        self.dims = np.array(self.balanced_indices, np.int64)
        if len(self.dims) > WIDTHS[-1]:
            raise InputError(
                f"{len(self.dims)} dimensions are too many to balance", hint=f"at most {WIDTHS[-1]}",
                field="balance_dimensions",
            )  # fmt: skip
        width = next(width for width in WIDTHS if width >= len(self.dims))
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self.specs: list[Node] = []
        self.cordoned: list[str | None] = []
        # What was measured there that is too much for new tasks, for people.
        self.overloaded: list[str | None] = []
        self.lost: list[bool] = []
        self.node_count = 0
        self.usable_count = 0
        # How often a node was added, lost, cordoned or came back.
        self.usable_changes = 0
        self.nodes: Ints = np.zeros((1, FREE + 2 * k), np.int64)
        # The devices of each node; no node is known to have one as long as ``nodes`` has no columns for them.
        self.devices: list[tuple[Device, ...]] = []
        self.width = width
        self.columns: Floats = np.zeros((2 * width + 2, 1), np.float32)
        # The weights under which the last column, y before placing, was worked out.
        self.then: Floats = np.zeros(width, np.float32)
        self.blocked: npt.NDArray[np.int32] = np.zeros(1, np.int32)
        self.totals: Ints = np.zeros(TOTAL_USED + 2 * k, np.int64)
        self.leases: Ints = np.zeros((16, AMOUNTS + k + 2), np.int64)
        self.leases[:, NODE] = NONE
        self.free_slots: list[int] = list(range(15, -1, -1))
        self.lease_count = 0
        # Leases without a known end.
        self.endless = 0
        self.rows: Ints = np.zeros((8, REQUEST + 2 * k + PARTS + k), np.int64)
        self.lack: npt.NDArray[np.int32] = np.zeros((8, 1), np.int32)
        self.row_shapes: list[Shape | None] = [None] * 8
        self.row_count = 0
        self.shapes: dict[tuple[ResourceVector, int, Wants | None], Shape] = {}
        self.matching = Matching(self)
        self._aside: npt.NDArray[np.int32] = np.zeros(1, np.int32)
        # Grows whenever something that may let a waiting unit fit happens; who failed before it need not try again.
        self.loosened = 0
        # How often a row was taken from one shape and given to another.
        self.reused = 0

    # --- nodes ---------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> int:
        """A new node, or one that was lost and is back; returns its index."""
        f = self.index.get(node.name, NONE)
        if f == NONE:
            f = self.node_count
            if f == len(self.nodes):
                self._more_nodes()
            self.node_count += 1
            self.names.append(node.name)
            self.index[node.name] = f
            self.specs.append(node)
            self.devices.append(())
            self.cordoned.append(None)
            self.overloaded.append(None)
            self.lost.append(True)
            self.nodes[f, HEAD] = self.nodes[f, TAIL] = self.nodes[f, BOOKED] = NONE
            self.nodes[f, FIRST_END] = NEVER
        elif not self.lost[f]:
            raise ValueError(f"node {node.name} is registered already")
        k = self.k_count
        self.specs[f] = node
        self.lost[f] = False
        devices.set_node(self, f, devices_of(node, self.dimensions))
        self.nodes[f, FREE : FREE + k] = node.capacity
        self.nodes[f, FREE + k : FREE + 2 * k] = node.capacity
        self.totals[TOTAL_USED + k :] += np.array(node.capacity, np.int64)
        has = int(np.count_nonzero(self.nodes[f, FREE + k + self.dims]))
        self.columns[2 * self.width, f] = np.float32(1.0 / has) if has else np.float32(0)
        self._set_usable(f)
        self.matching.set_node(f, node)
        return f

    def change_node(self, node: Node) -> int:
        """A node is described otherwise now; its capacity and what runs on it stay. Returns its index."""
        f = self.index[node.name]
        self.specs[f] = msgspec.structs.replace(node, capacity=self.specs[f].capacity)
        self.loosened += 1
        self.matching.set_node(f, self.specs[f])
        return f

    def lose_node(self, f: int) -> None:
        """The node is gone; its leases must have been released before."""
        k = self.k_count
        self.totals[TOTAL_USED + k :] -= self.nodes[f, FREE + k : FREE + 2 * k]
        self.nodes[f, FREE : FREE + 2 * k] = 0
        devices.set_node(self, f, ())
        self.lost[f] = True
        self._set_usable(f)
        self.matching.change(f)

    def cordon(self, f: int, reason: str | None) -> None:
        """Take no new tasks on the node (a reason), or take them again (``None``)."""
        self.cordoned[f] = reason
        self._set_usable(f)

    def set_overload(self, f: int, what: str | None) -> None:
        """The node is too busy for new tasks (what was measured), or is not (``None``)."""
        changed = (what is None) != (self.overloaded[f] is None)
        self.overloaded[f] = what
        if changed:
            self._set_usable(f)

    def _set_usable(self, f: int) -> None:
        usable = int(not self.lost[f] and self.cordoned[f] is None and self.overloaded[f] is None)
        self.usable_count += usable - int(self.nodes[f, USABLE])
        self.usable_changes += 1
        self.nodes[f, USABLE] = usable
        self.loosened += 1
        self.refresh(f)

    def refresh(self, f: int) -> None:
        """Work out again what depends on node ``f``."""
        self.matching.touch(f)
        holding.refresh_node(
            f, self.nodes, self.totals, self.columns, self.then, self.dims, self.rows, self.row_count, self.lack
        )

    def _more_nodes(self) -> None:
        n = max(16, 2 * len(self.nodes))
        self.nodes = grown(self.nodes, n)
        self.columns = grown(self.columns, n, 1)
        self.blocked = grown(self.blocked, n)
        self.lack = grown(self.lack, n, 1)
        # A node that is not there yet must not look as if everything fitted on it.
        self.lack[:, self.node_count :] = UNUSABLE

    def capacity(self) -> ResourceVector:
        """What the nodes that are there offer together."""
        return tuple(int(x) for x in self.totals[TOTAL_USED + self.k_count :])

    def largest_capacity(self) -> ResourceVector:
        """Per dimension, the most that one node offers."""
        k = self.k_count
        return tuple(int(x) for x in self.nodes[: max(1, self.node_count), FREE + k : FREE + 2 * k].max(axis=0))

    def used(self) -> ResourceVector:
        """What is held on all nodes together."""
        return tuple(int(x) for x in self.totals[TOTAL_USED : TOTAL_USED + self.k_count])

    def free(self, f: int) -> ResourceVector:
        """What is free on node ``f``."""
        return tuple(int(x) for x in self.nodes[f, FREE : FREE + self.k_count])

    def capacity_of(self, f: int) -> ResourceVector:
        """What node ``f`` offers (zeros while it is lost)."""
        return tuple(int(x) for x in self.nodes[f, FREE + self.k_count : FREE + 2 * self.k_count])

    @property
    def starved(self) -> bool:
        """Whether some shape with a row fits nowhere at the moment."""
        return self.totals.item(TOTAL_STARVED) > 0

    @property
    def starved_rows(self) -> int:
        """How many rows in use fit nowhere."""
        return int(self.totals[TOTAL_STARVED])

    @property
    def stamp(self) -> int:
        """Grows with every change on any node."""
        return int(self.totals[TOTAL_STAMP])

    def node_stamp(self, f: int) -> int:
        """The stamp of the last change on node ``f``."""
        return int(self.nodes[f, STAMP])

    # --- leases --------------------------------------------------------------------------------------------

    def hold(self, f: int, shape: Shape, end: int, mask: int = 0, alone: int = 0) -> int:
        """Hold one copy of ``shape`` on node ``f`` until ``end``; returns the slot. The shape must have a row.

        With a ``mask`` it has these devices there, its disks ``alone`` (1) or with others (0).
        """
        slot = self.take_slot(end)
        self.leases[slot, mask_at(self.k_count) :] = mask, alone
        holding.hold(
            slot, f, end, shape.row, self.nodes, self.leases, self.totals, self.columns, self.then, self.dims, self.rows,
            self.row_count, self.lack,
        )  # fmt: skip
        self.matching.touch(f)
        return slot

    def hold_amounts(self, f: int, amounts: ResourceVector, end: int, mask: int = 0, alone: int = 0) -> int:
        """Hold these amounts and devices (bits of ``mask``) on node ``f`` until ``end``; returns the slot."""
        slot = self.take_slot(end)
        self.leases[slot, AMOUNTS : AMOUNTS + self.k_count] = amounts
        self.leases[slot, mask_at(self.k_count) :] = mask, alone
        holding.hold_as_written(
            slot, f, end, self.nodes, self.leases, self.totals, self.columns, self.then, self.dims, self.rows,
            self.row_count, self.lack,
        )  # fmt: skip
        self.matching.touch(f)
        return slot

    def take_slot(self, end: int) -> int:
        """A place for a lease that will be held until ``end``."""
        if not self.free_slots:
            n = len(self.leases)
            self.leases = grown(self.leases, 2 * n)
            self.leases[n:, NODE] = NONE
            self.free_slots = list(range(2 * n - 1, n - 1, -1))
        self.lease_count += 1
        if end >= NEVER:
            self.endless += 1
        return self.free_slots.pop()

    def return_slot(self, slot: int, end: int) -> None:
        """The lease that ``slot`` was taken for did not come about, or is over."""
        self.free_slots.append(slot)
        self.lease_count -= 1
        if end >= NEVER:
            self.endless -= 1

    def release(self, slot: int) -> None:
        """Give back what the lease in ``slot`` held."""
        self.return_slot(slot, int(self.leases[slot, END]) if self.endless else 0)
        self.matching.touch(int(self.leases[slot, NODE]))
        holding.release(
            slot,
            self.nodes,
            self.leases,
            self.totals,
            self.columns,
            self.then,
            self.dims,
            self.rows,
            self.row_count,
            self.lack,
        )
        self.loosened += 1

    def set_end(self, slot: int, end: int) -> None:
        """A lease ends at another time than was thought."""
        f = int(self.leases[slot, NODE])
        self.endless += int(end >= NEVER) - int(self.leases[slot, END] >= NEVER)
        holding.unlink_lease(slot, f, self.nodes, self.leases)
        self.leases[slot, END] = end
        holding.link_lease(slot, f, self.nodes, self.leases)
        self.loosened += 1
        self.refresh(f)

    # --- shapes --------------------------------------------------------------------------------------------

    def shape(self, request: ResourceVector, size: int, wants: Wants = NO_WANTS) -> Shape:
        """The one object for this shape."""
        key = _key(request, size, wants)
        found = self.shapes.get(key)
        if found is None:
            found = self.shapes[key] = Shape(request, size, wants)
        return found

    def want(self, shape: Shape) -> None:
        """One more queued job has this shape: it has a row from now on."""
        shape.waiting += 1
        if shape.row == NONE:
            self.give_row(shape)
        elif shape.match is not None and shape.waiting == 1:
            # Nobody kept it up to date meanwhile.
            self._fill(shape)

    def unwant(self, shape: Shape) -> None:
        """One queued job less; the row stays as a cache until its place is needed."""
        shape.waiting -= 1
        shape.used_at = self.stamp
        if shape.match is not None and not shape.waiting:
            self.matching.drop(shape)

    def give_row(self, shape: Shape) -> None:
        """Work out where ``shape`` fits and keep that up to date from now on."""
        r = self._free_row()
        shape.row = r
        self.row_shapes[r] = shape
        self.rows[r, REQUEST : REQUEST + self.k_count] = shape.request
        self.rows[r, REQUEST + 2 * self.k_count :] = shape.ask
        self.lack[r, self.node_count :] = UNUSABLE
        self._fill(shape)

    def _fill(self, shape: Shape) -> None:
        """Work out the row of a shape from nothing."""
        r, n = shape.row, self.node_count
        if self.rows[r, IN_USE] and not self.rows[r, FITTING]:
            self.totals[TOTAL_STARVED] -= 1
        if shape.wants is NO_WANTS:
            self.lack[r, :n] = 0
        else:
            self.lack[r, :n] = self.matching.take(shape).astype(np.int32) << CLAUSE_BIT
        holding.fill_row(r, self.nodes, n, self.totals, self.rows, self.lack)

    def exclude(self, shape: Shape, places: Ints, first: npt.NDArray[np.int8]) -> bool:
        """Write which clause (1 + its place, 0: none) keeps the shape off these nodes first.

        Returns whether a node is excluded no longer.
        """
        return holding.exclude(  # type: ignore[no-any-return]
            shape.row, places, first, self.nodes, self.totals, self.rows, self.lack
        )

    def set_aside(self, shape: Shape) -> npt.NDArray[np.int32]:
        """``blocked``, and the nodes that are worse than the best that the shape may take.

        Worse is one with more tasks of the service or database, then one with a lower score.
        """
        assert shape.match is not None
        aside = self.blocked
        if shape.wants.apart:
            aside = self._set_aside(shape, aside, self.matching.fewest(shape.wants.owner))
        if shape.wants.terms:
            aside = self._set_aside(shape, aside, self.matching.scores(shape.match))
        return aside

    def _set_aside(self, shape: Shape, blocked: npt.NDArray[np.int32], scores: Floats) -> npt.NDArray[np.int32]:
        if len(self._aside) != len(self.blocked):
            self._aside = np.zeros(len(self.blocked), np.int32)
        set_aside(self.lack[shape.row], blocked, scores, self.node_count, self._aside)
        return self._aside

    def excluded(self, shape: Shape) -> npt.NDArray[np.bool_]:
        """Per node, whether a clause keeps the shape off it at the moment; the shape must have a row."""
        out: npt.NDArray[np.bool_] = self.lack[shape.row, : self.node_count] & EXCLUDED != 0
        return out

    def excludes_any(self, shape: Shape, nodes: list[tuple[int, int]]) -> bool:
        """Whether a clause keeps the shape off one of these nodes at the moment."""
        return any(self.lack[shape.row, f] & EXCLUDED for f, _ in nodes)

    def caps(self, shape: Shape) -> Ints:
        """Per node, how many copies of the shape may ever start there together beside what amounts allow; empty: any number."""
        caps = NO_CAPS if shape.match is None else shape.match.caps()
        return self._capped(caps, shape, empty=True) if shape.size > 1 and devices.cares(self, shape) else caps

    def caps_now(self, shape: Shape) -> Ints:
        """The same at this moment, with the devices that are free."""
        caps = NO_CAPS if shape.match is None else shape.match.caps()
        return self._capped(caps, shape, empty=False) if devices.cares(self, shape) else caps

    def _capped(self, caps: Ints, shape: Shape, *, empty: bool) -> Ints:
        copies = devices.copies(self, shape.ask, empty=empty)
        return np.minimum(copies, caps[: self.node_count]) if len(caps) else copies

    def _free_row(self) -> int:
        if self.row_count < len(self.rows) and self.row_count < WARM_ROWS:
            self.row_count += 1
            return self.row_count - 1
        oldest: Shape | None = None
        for shape in self.row_shapes[: self.row_count]:
            if shape is not None and shape.waiting == 0 and (oldest is None or shape.used_at < oldest.used_at):
                oldest = shape
        if oldest is not None and self.row_count >= WARM_ROWS:
            r = oldest.row
            if oldest.wants is NO_WANTS:
                self.loosened += 1
            self._drop_row(oldest)
            # Whoever remembered something of the old shape by its row must forget it.
            self.reused += 1
            return r
        if self.row_count == len(self.rows):
            n = 2 * len(self.rows)
            self.rows = grown(self.rows, n)
            self.lack = grown(self.lack, n)
            self.row_shapes.extend([None] * (n - len(self.row_shapes)))
        self.row_count += 1
        return self.row_count - 1

    def _drop_row(self, shape: Shape) -> None:
        self.row_shapes[shape.row] = None
        self.rows[shape.row, IN_USE] = 0
        if not self.rows[shape.row, FITTING]:
            self.totals[TOTAL_STARVED] -= 1
        shape.row = NONE
        shape.early = None
        shape.seen = -1
        shape.match = None
        key = _key(shape.request, shape.size, shape.wants)
        if self.shapes.get(key) is shape:
            del self.shapes[key]

    def fitting(self, shape: Shape) -> int:
        """Number of nodes on which one copy of ``shape`` fits into what is free."""
        return int(self.rows[shape.row, FITTING])

    def lacking(self, shape: Shape) -> ResourceVector:
        """Per dimension, the number of usable nodes that have less free than ``shape`` requests."""
        start = REQUEST + self.k_count
        return tuple(int(x) for x in self.rows[shape.row, start : start + self.k_count])

    def count_lack(self, shape: Shape, counts: Ints) -> None:
        """Count a job whose shape fits nowhere once for each dimension that it lacks.

        These are the dimensions of which no usable node has enough free; if there is none, the one that the fewest have.
        """
        holding.count_lack(shape.row, self.rows, self.usable_count, counts)

    def ever_fits(self, request: ResourceVector, wants: Wants = NO_WANTS) -> bool:
        """Whether some node that is there, cordoned or not, is large enough when empty and all that ``wants`` asks of it."""
        return bool(np.any(self._large(request, wants) & self.matching.ever(wants)))

    def _large(self, request: ResourceVector, wants: Wants) -> npt.NDArray[np.bool_]:
        k = self.k_count
        capacity = self.nodes[: self.node_count, FREE + k : FREE + 2 * k]
        large: npt.NDArray[np.bool_] = np.all(capacity >= np.array(request, np.int64), axis=1)
        if devices.any_devices(self):
            large &= devices.copies(self, devices.ask_of(request, wants), empty=True) > 0
        return large

    def _copies_when_empty(self, request: Ints, ask: Ints, most: int) -> Ints:
        k = self.k_count
        capacity = self.nodes[: self.node_count, FREE + k : FREE + 2 * k]
        asked = request > 0
        copies: Ints = (capacity[:, asked] // request[asked]).min(axis=1, initial=most)
        if ask[ASKS] and devices.any_devices(self):
            copies = np.minimum(copies, devices.copies(self, ask, empty=True))
        return copies

    def room_when_empty(self, shape: Shape) -> Ints:
        """Copies of a gang's shape per node if nothing ran there, where it may go at this moment, by its caps."""
        copies = self._copies_when_empty(shape.request_array, shape.ask, shape.size)
        copies[self.excluded(shape) | (self.nodes[: self.node_count, USABLE] == 0)] = 0
        caps = self.caps(shape)
        return np.minimum(copies, caps[: self.node_count]) if len(caps) else copies

    def within_reach(self, shape: Shape) -> bool:
        """Whether ends of tasks could let the shape fit: clauses leave it nodes that are large enough when empty.

        What is excluded stays so until something loosens; a node that would do is looked at first.
        """
        if shape.match is None or (shape.size == 1 and self.fitting(shape)):
            return True
        # How many tasks of a gang nodes take follows every change; one large node is enough for a single task.
        now = (self.loosened, self.stamp if shape.size > 1 else 0)
        *then, f = shape.reach
        if shape.size == 1 and f >= 0 and not self.lack[shape.row, f] & EXCLUDED and self._is_large(f, shape):
            return True
        if (*then,) != now or f >= 0:
            f = self._would_do(shape, clauses=True)
            if f == NONE and self._would_do(shape, clauses=False) == NONE:
                # It waits for larger nodes, as it would without its clauses.
                f = TOO_LARGE
            shape.reach = (*now, f)
        return f != NONE

    def could_ever_fit(self, shape: Shape) -> bool:
        """Whether nodes that no clause excludes at the moment would be large enough for a unit if they were empty."""
        return self._would_do(shape, clauses=True) != NONE

    def _is_large(self, f: int, shape: Shape) -> bool:
        large = np.all(self.nodes[f, FREE + self.k_count : FREE + 2 * self.k_count] >= shape.request_array)
        return bool(large) and devices.copies_on(self, shape.ask, f, empty=True) > 0

    def _would_do(self, shape: Shape, *, clauses: bool) -> int:
        """The first such node; NONE if there is none, or if all of them together are too small for a gang."""
        copies = self._copies_when_empty(shape.request_array, shape.ask, shape.size)
        if clauses:
            copies[self.excluded(shape)] = 0
            caps = self.caps(shape)
            copies = np.minimum(copies, caps[: self.node_count]) if len(caps) else copies
        holds = holds_together(self.matching.relations.racks, copies, shape.wants if clauses else NO_WANTS, shape.size)
        return int(np.argmax(copies > 0)) if holds else NONE

    def copies_free(self, shape: Shape) -> int:
        """How many copies of ``shape`` fit into what is free on the usable nodes that no clause excludes."""
        may = (self.nodes[: self.node_count, USABLE] == 1) & ~self.excluded(shape)
        free = self.nodes[: self.node_count, FREE : FREE + self.k_count][may]
        asked = shape.request_array > 0
        copies = np.zeros(self.node_count, np.int64)
        copies[may] = (free[:, asked] // shape.request_array[asked]).min(axis=1, initial=2**31)
        caps = self.caps_now(shape)
        if len(caps):
            copies = np.minimum(copies, caps[: self.node_count])
        if by_racks(shape) and gang_room(self, shape, copies) is None:
            return 0
        return int(copies.sum())

    def has_room(self, shape: Shape, nodes: list[tuple[int, int]]) -> bool:
        """Whether so many copies of ``shape`` fit into what is free on each of these nodes, and no clause excludes one."""
        caps = self.caps_now(shape)
        return all(
            self.nodes[f, USABLE]
            and not self.lack[shape.row, f] & EXCLUDED
            and (not len(caps) or caps[f] >= count)
            and bool(np.all(self.nodes[f, FREE : FREE + self.k_count] >= shape.request_array * count))
            for f, count in nodes
        )

    def holds_when_empty(self, request: ResourceVector, size: int, wants: Wants = NO_WANTS) -> bool:
        """Whether the nodes that are there, and are as ``wants`` asks, hold ``size`` copies together when they are empty."""
        copies = self._copies_when_empty(np.array(request, np.int64), devices.ask_of(request, wants), size)
        if wants is not NO_WANTS:
            copies[~self.matching.ever(wants)] = 0
            caps = self.matching.caps_when_empty(wants)
            copies = np.minimum(copies, caps) if len(caps) else copies
        return holds_together(self.matching.relations.racks, copies, wants, size)

    def fits_now(self, request: ResourceVector) -> bool:
        """Whether one copy of ``request`` fits into what is free on some usable node."""
        shape = self.shapes.get(_key(request, 1, NO_WANTS))
        if shape is not None and shape.row != NONE:
            return self.fitting(shape) > 0
        free = self.nodes[: self.node_count, FREE : FREE + self.k_count]
        usable = self.nodes[: self.node_count, USABLE] == 1
        return bool(np.any(usable & np.all(free >= np.array(request, np.int64), axis=1)))
