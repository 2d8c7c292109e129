"""Starts of tasks: on the best node, or at places that were chosen before."""

from __future__ import annotations

import msgspec
import numpy as np

from cress.core.books import Books
from cress.core.fragments.search import FragmentPlace, rest_of
from cress.core.gates.pending import Pending
from cress.core.job_ends import end_of
from cress.core.jobs import ClaimEntry, JobEntry
from cress.core.kernels.holding import NONE
from cress.core.passes import Decided
from cress.core.placing.gangs import GangRoom
from cress.core.placing.placement_clauses import all_ports
from cress.core.tables import devices
from cress.core.tables.arrays import Closed
from cress.model.decisions import Choice, Kept, Start

# No node has room.
NOWHERE = -1


class Basis(msgspec.Struct, frozen=True):
    """The reason why tasks start where they do.

    The node was ``chosen`` as the best one, or room was ``kept`` there, for a ``claim``. ``room``: the parts of leases
    that the task takes. ``due``: the unit is the due one. ``leader``: the job with a task of which it starts together.
    """

    chosen: Choice | None = None
    kept: Kept | None = None
    claim: ClaimEntry | None = None
    room: FragmentPlace | None = None
    due: bool = False
    leader: int | None = None


def members_of(job: JobEntry) -> list[tuple[JobEntry, int]]:
    """Return job and task of all tasks of the next unit of a job, in the order in which they start."""
    size = job.shape.size
    return job.members(job.next_tasks(size), size)


class TaskStarts:
    """Starts of tasks, each a decision that is applied at once."""

    def __init__(self, books: Books, decided: Decided, pending: Pending) -> None:
        self._books = books
        self._decided = decided
        self._pending = pending
        self._cluster = books.cluster
        self._leases = books.leases
        self._balance = books.balance
        self._fit = books.fit
        self._relations = books.relations

    def place(
        self, job: JobEntry, closed: Closed, member: tuple[JobEntry, int] | None = None, *, due: bool = False
    ) -> int:
        """Start the next task of a job, with its companions, on the best node for it that is not closed.

        ``member``: of a unit that starts on several nodes, this task. Return the node, or ``NOWHERE``.
        """
        self._pending.count()
        end = end_of(self._books, job)
        slot = self._leases.take_slot(end)
        f = self._balance.place(job.shape, slot, end, closed)
        if f < 0:
            self._leases.return_slot(slot, end)
            return NOWHERE
        if job.shares_node and job.unit():
            # The node was chosen for the unit as a whole, but each member has its own lease.
            self._leases.release(slot)
            self.start_unit(job, f, Basis(chosen=self._balance.choice, due=due))
        else:
            basis = Basis(chosen=self._balance.choice, due=due)
            if member is None:
                self.start(job, job.upcoming, f, slot, basis)
            else:
                self.start_of(job, *member, f, slot, basis)
        return f

    def place_all(self, job: JobEntry, *, due: bool = False) -> None:
        """Start all waiting tasks of a gang that is known to fit, one by one, each on the best node."""
        self._pending.count()
        end = end_of(self._books, job)
        slots = [self._leases.take_slot(end) for _ in range(job.shape.size)]
        places = self._balance.place_many(job.shape, slots, end)
        started = zip(members_of(job), places, slots, self._balance.choices, strict=True)
        for (member, task), f, slot, chosen in started:
            self.start_of(job, member, task, f, slot, Basis(chosen=chosen, due=due))

    def place_in(self, job: JobEntry, room: GangRoom, now: int, *, due: bool = False) -> None:
        """Start all waiting tasks of a gang in its room, one by one, each on the best open node."""
        for member in members_of(job):
            _, delaying = self._books.timeline.screen(job.shape, job.duration, now, job.group.asker)
            closed = delaying.copy()
            closed[: self._cluster.node_count][room.closed()] = 1
            f = self.place(job, closed, member, due=due)
            assert f != NOWHERE, f"a gang of {job.shape.size} that was found to fit does not"
            room.take(f)

    def place_on(self, job: JobEntry, copies: dict[int, int]) -> bool:
        """Start the tasks of a unit on nodes with room for ``copies`` by node; return True if they started."""
        placed, members = False, members_of(job)
        for member in members:
            closed = np.ones_like(self._cluster.none_closed)
            closed[[f for f, left in copies.items() if left]] = 0
            f = self.place(job, closed, member)
            placed = f != NOWHERE
            assert placed or len(members) == 1, f"a gang of {job.shape.size} that was found to fit does not"
            if placed:
                copies[f] -= 1
        return placed

    def start_at(self, job: JobEntry, nodes: list[tuple[int, int]], basis: Basis) -> None:
        """Start the tasks of a claim, or of the next unit, at these places, by task number."""
        claim = basis.claim
        end = end_of(self._books, job)
        shape = job.shape if claim is None else claim.shape
        tasks = job.by_kind(job.next_tasks(shape.size) if claim is None else claim.tasks)
        members = job.members(tasks, shape.size)
        places = [(kind, f) for kind, f, count in shape.copies(nodes) for _ in range(count)]
        slots = [NONE] * len(places)
        for i in devices.in_turn([kind.ask for kind, _ in places]):
            kind, f = places[i]
            slots[i] = self._leases.hold(f, kind.row, end)
        starts = zip(members, places, slots, strict=True)
        for (member, task), (_, f), slot in sorted(starts, key=lambda start: start[0][1]):
            self.start_of(job, member, task, f, slot, basis)

    def start_in(self, job: JobEntry, room: FragmentPlace, *, due: bool = False) -> None:
        """Start the next task of a job in parts of leases."""
        self.start(job, job.upcoming, room.f, NONE, Basis(room=room, due=due))

    def start_unit(self, job: JobEntry, f: int, basis: Basis) -> None:
        """Start the next task of a job and its companions on one node."""
        task = job.upcoming
        members = [(job, task), *((other, its) for other, its in job.companions[task] if its in other.carried)]
        slots = self._hold_members([member for member, _ in members], f)
        for (member, its_task), slot in zip(members, slots, strict=True):
            self.start_of(job, member, its_task, f, slot, basis)

    def start_of(self, job: JobEntry, member: JobEntry, task: int, f: int, slot: int, basis: Basis) -> None:
        """Start a task of the next unit of ``job``; ``member``: the job of the task, which may be a companion."""
        if member is not job:
            basis = msgspec.structs.replace(basis, leader=job.job.id, claim=None)
            # Its run may be expected to be shorter or longer than that of the leader.
            self._leases.set_end(slot, end_of(self._books, member))
        self.start(member, task, f, slot, basis)

    def start(self, job: JobEntry, task: int, f: int, slot: int, basis: Basis) -> None:
        """Start a task on node ``f``, in the lease already held for it, or in the parts of leases of its ``basis``."""
        books, cluster, claim, room = self._books, self._cluster, basis.claim, basis.room
        number = books.next_attempt
        if room is not None:
            has = room.devices
        else:
            has = devices.allocated(cluster, slot, f)
        none = job.constraints is None
        ports = () if none else self._relations.ports.choose(f, all_ports(job.wants_of(task)))
        own = len(job.job.ports)
        start = Start(
            attempt=number,
            job=job.job.id,
            task=task,
            node=cluster.names[f],
            ports=ports[:own],
            leader=basis.leader,
            devices=has,
            more_ports=ports[own:],
            claimed=claim is not None,
            parts=() if room is None else room.parts,
            rest=() if claim is None else rest_of(books, claim, f, slot, number),
            chosen=basis.chosen,
            kept=basis.kept,
            due=basis.due,
        )
        self._decided.apply(start, slot)
        self._decided.items.append(start)

    def _hold_members(self, members: list[JobEntry], f: int) -> list[int]:
        """Hold a lease for each member on one node; tasks with an exclusive disk choose their devices first."""
        shapes = [self._fit.shape(member.job.request, 1, member.wants_of(member.upcoming)) for member in members]
        slots = [0] * len(members)
        for i in devices.in_turn([shape.ask for shape in shapes]):
            with self._fit.wanted(shapes[i]):
                slots[i] = self._leases.hold(f, shapes[i].row, end_of(self._books, members[i]))
        return slots
