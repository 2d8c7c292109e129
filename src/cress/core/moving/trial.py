"""Trial moves on a copy of the books, made and undone with the tables and kernels that place real tasks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cress.core.books import Books
from cress.core.jobs import Attempt, JobEntry
from cress.core.kernels.devices import KIND, LEFT, WHOLE, WIDTH, first_device
from cress.core.kernels.holding import END, FREE, HEAD, NONE, USABLE
from cress.core.moving.movable import lost_devices_by
from cress.core.moving.plan import Free, Goal, Move
from cress.core.moving.room import promised, shape_of_moved, within_quota
from cress.core.placing.placement_clauses import all_ports
from cress.core.placing.shape import Shape
from cress.core.tables import devices
from cress.core.tables.arrays import Bools, copies_in
from cress.model.node import DISK_KIND
from cress.model.resources import BASE_DIMENSIONS, ResourceVector

_BASE = len(BASE_DIMENSIONS)


class _Made(NamedTuple):
    """A trial move, with the data needed to undo it."""

    attempt: Attempt
    origin: int
    amounts: ResourceVector
    mask: int
    end: int
    ports: tuple[int, ...]
    move: Move


class MoveTrial:
    """A private copy of the books in which tasks are moved one after the other.

    ``lost`` are the movable tasks by attempt, with the work that each loses; each moves once. ``closed`` are nodes
    that take none of them.
    """

    def __init__(self, core: Books, lost: dict[int, int], unit: JobEntry | None = None) -> None:
        self.core = core
        self.cluster = core.cluster
        self.lost = lost
        n = core.cluster.node_count
        self.closed: Bools = core.cluster.nodes[:n, USABLE] == 0
        self.promised = promised(core, unit)
        self._kept = np.flatnonzero(self.promised.any(axis=1))
        self._shapes: dict[int, Shape] = {}
        self._made: list[_Made] = []
        # Attempts that have moved; their nodes are the new ones.
        self.moved: set[int] = set()
        self._begun = {attempt.id: attempt.node for attempt in core.attempts.values()}

    # --- what there is -----------------------------------------------------------------------------------------

    def may_move(self, attempt: object) -> bool:
        """Return True if a holder of a lease is a movable task that has not moved yet."""
        return isinstance(attempt, Attempt) and attempt.id in self.lost and attempt.id not in self.moved

    def on(self, f: int, d: int | None = None) -> list[Attempt] | None:
        """Return the tasks on a node, largest amounts first; ``None`` if a holder there may not move.

        Amounts are compared from the last dimension on. With a device ``d``, only holders count that use it, and none
        of them may use another one.
        """
        found = []
        for holder in self.core.holders_on(f):
            mask = 0 if d is None else devices.mask_of(self.cluster, holder.slot)[0]
            if d is not None and not mask >> d & 1:
                continue
            if not isinstance(holder, Attempt) or not self.may_move(holder) or mask.bit_count() > 1:
                return None
            found.append(holder)
        return sorted(found, key=lambda attempt: (*(-amount for amount in reversed(attempt.amounts)), attempt.id))

    def occupied(self) -> Bools:
        """Return, per node, True if a lease is held there."""
        used: Bools = self.cluster.nodes[: self.cluster.node_count, HEAD] != NONE
        return used

    def free(self) -> Free:
        """Return the number of idle nodes and devices among the open nodes."""
        cluster = self.cluster
        open_ = cluster.usable()
        return Free(
            int(np.count_nonzero(open_ & ~self.occupied())),
            sum(len(self.whole_devices(f)) for f in np.flatnonzero(open_).tolist()),
            int(np.count_nonzero(open_)),
            sum(1 for f in np.flatnonzero(open_).tolist() for device in cluster.devices[f] if device.kind != DISK_KIND),
        )

    def whole_devices(self, f: int) -> list[int]:
        """Return the indexes of idle devices of a node, without disks."""
        row, begin = self.cluster.nodes[f], first_device(self.cluster.k_count)
        return [
            d
            for d, device in enumerate(self.cluster.devices[f])
            if device.kind != DISK_KIND and row[begin + d * WIDTH + LEFT] == WHOLE
        ]

    def shape_of(self, job: JobEntry) -> Shape:
        """Return the shape of a task of a job, with a row from now on."""
        number = job.job.id
        found = self._shapes.get(number)
        if found is None:
            found = self._shapes[number] = shape_of_moved(self.core, job)
            self.core.fit.want(found)
        return found

    def places(self, attempt: Attempt) -> Bools:
        """Return, per node, True if it has room for a task beside everything promised there."""
        cluster, shape = self.cluster, self.shape_of(attempt.job)
        if self.core.live:
            self.core.matching.flush()
        n = cluster.node_count
        fits: Bools = (cluster.lack[shape.row, :n] == 0) & ~self.closed
        fits[attempt.node] = False
        if shape.wants.apart:
            # Tasks of a service never move closer together.
            same = -self.core.matching.fewest(shape.wants.owner)[:n]
            fits &= same < same[attempt.node]
        if len(self._kept):
            left = cluster.free_now()[self._kept] - self.promised[self._kept]
            fits[self._kept] &= copies_in(left, shape.request_array, 1) > 0
        return fits

    def with_part(self, attempt: Attempt) -> Bools:
        """Return, per node, True if a device in use has the part left that a task requests."""
        cluster, request = self.cluster, attempt.job.job.request
        n, begin = cluster.node_count, first_device(cluster.k_count)
        found: Bools = np.ones(n, np.bool_)
        for k in range(_BASE, cluster.k_count):
            if 0 < request[k] < WHOLE:
                kinds, left = cluster.nodes[:n, begin + KIND :: WIDTH], cluster.nodes[:n, begin + LEFT :: WIDTH]
                found &= np.any((kinds == k) & (left < WHOLE) & (left >= request[k]), axis=1)
        return found

    def fullest(self, attempt: Attempt, fits: Bools) -> int:
        """Return the node among these on which a task leaves the least, of devices first, then of its other
        dimensions.

        -1 if there is none.
        """
        there = np.flatnonzero(fits)
        if not len(there):
            return -1
        cluster, request = self.cluster, np.array(attempt.job.job.request, np.int64)
        asked = np.flatnonzero(request > 0)
        free = cluster.nodes[there[:, None], FREE + asked] - request[asked]
        share = free / np.maximum(1, cluster.nodes[there[:, None], FREE + cluster.k_count + asked])
        special = asked >= _BASE
        order = np.lexsort((there, share[:, ~special].sum(axis=1), share[:, special].sum(axis=1)))
        return next((f for f in there[order].tolist() if within_quota(self.core, attempt, f)), -1)

    # --- moves -------------------------------------------------------------------------------------------------

    @property
    def mark(self) -> int:
        """The number of moves so far, for ``unmake``."""
        return len(self._made)

    def moves(self, first: int = 0) -> tuple[Move, ...]:
        """Return the moves from number ``first`` on."""
        return tuple(made.move for made in self._made[first:])

    def make(self, attempt: Attempt, f: int, goal: Goal) -> None:
        """Move a task to node ``f``, which has room for it."""
        origin, slot = attempt.node, attempt.slot
        of_devices = lost_devices_by(self.core, attempt)
        amounts = tuple(self.cluster.held_in(slot).tolist())
        mask, end, ports = devices.mask_of(self.cluster, slot)[0], int(self.cluster.leases[slot, END]), attempt.ports
        self._leave(attempt)
        self._enter(attempt, f, self.core.leases.hold(f, self.shape_of(attempt.job).row, end), self._ports(attempt, f))
        names = self.cluster.names
        move = Move(
            attempt.id,
            attempt.job.job.id,
            attempt.task,
            names[origin],
            names[f],
            self.lost[attempt.id] - of_devices,
            goal,
            of_devices,
        )
        self._made.append(_Made(attempt, origin, amounts, mask, end, ports, move))
        self.moved.add(attempt.id)

    def unmake(self, mark: int) -> None:
        """Undo the moves after number ``mark``, the last one first."""
        while len(self._made) > mark:
            made = self._made.pop()
            self._leave(made.attempt)
            slot = self.core.leases.hold_amounts(made.origin, made.amounts, made.end, made.mask)
            self._enter(made.attempt, made.origin, slot, made.ports)
            self.moved.discard(made.attempt.id)

    def _leave(self, attempt: Attempt) -> None:
        core = self.core
        core.leases.release(attempt.slot)
        core.holders[attempt.slot] = None
        if attempt.ports:
            core.relations.ports.give_back(attempt.node, attempt.ports)
        if core.live or core.counts:
            core.matching.moved(attempt.job, attempt.node, -1)

    def _enter(self, attempt: Attempt, f: int, slot: int, ports: tuple[int, ...]) -> None:
        core = self.core
        attempt.node, attempt.slot, attempt.ports = f, slot, ports
        core.set_holder(slot, attempt)
        if ports:
            core.relations.ports.take(f, ports)
        if core.live or core.counts:
            core.matching.moved(attempt.job, f, 1)

    def _ports(self, attempt: Attempt, f: int) -> tuple[int, ...]:
        wants = self.shape_of(attempt.job).wants
        return self.core.relations.ports.choose(f, all_ports(wants)) if attempt.ports else ()
