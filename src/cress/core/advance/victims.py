"""The tasks that must leave a node for advance reservations: as few as possible, the last started first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cress.core.books import Books
from cress.core.future.advance_reservations import Kept, group_of
from cress.core.jobs import Attempt, Holder, LeaseRow, WorkloadLease
from cress.core.kernels.holding import END
from cress.core.tables.arrays import Ints
from cress.model.job import JobType
from cress.model.times import NEVER


class Leaving(NamedTuple):
    """Holders that must leave a node: tasks, and leases of workloads that return their idle parts.

    ``short``: these are not enough.
    """

    attempts: list[Attempt]
    leases: list[int]
    short: bool


def yields(attempt: Attempt) -> bool:
    """Return True if a task may be stopped for a reservation; a task of a database never is."""
    return attempt.job.job.type is not JobType.DATABASE


def _is_idle(part: LeaseRow) -> bool:
    return part.lease is not None and part.borrower is None


def _held_lease(core: Books, holder: Holder, at: int) -> WorkloadLease | None:
    """Return the held lease to which a holder belongs, unless the lease is expected to end by ``at`` (µs).

    It belongs to it as its holder, as a task inside or as an idle part.
    """
    leases: list[WorkloadLease] = []
    if isinstance(holder, Attempt):
        own = core.pool.leases.get(holder.id)
        leases = [*([own] if own is not None and own.holder is holder else ()), *(lease for lease, _ in holder.inside)]
    elif isinstance(holder, LeaseRow) and holder.lease is not None and _is_idle(holder):
        leases = [holder.lease]
    for lease in leases:
        if lease.holder is not None and lease.is_held and not (lease.holder.expected <= at and at > core.now):
            return lease
    return None


class _Node:
    """A node at a time: its free amounts, and its holders then."""

    def __init__(self, core: Books, f: int, at: int) -> None:
        cluster = core.cluster
        self.free: Ints = cluster.free_now()[f].copy()
        self.used: dict[str | None, Ints] = {}
        self.running: list[tuple[Attempt, Ints]] = []
        # Idle parts of leases of workloads, by lease.
        self.idle: dict[int, tuple[str | None, Ints]] = {}
        # A held lease leaves as a whole: the amounts of its tasks and idle parts count with its holder.
        whole: dict[int, Ints] = {}
        for holder in core.holders_on(f):
            held: Ints = cluster.held_in(holder.slot).copy()
            ends = int(cluster.leases[holder.slot, END]) <= at and at > core.now
            lease = _held_lease(core, holder, at)
            if isinstance(holder, Attempt) and holder.stopping:
                freed = core.freed_by(holder)
                self.free += freed
                if lease is None:
                    continue
                held -= freed
            elif (
                isinstance(holder, LeaseRow)
                and _is_idle(holder)
                and holder.lease is not None
                and holder.lease.is_ending
            ):
                # It becomes free with the holder of its lease.
                continue
            elif ends and lease is None:
                self.free += held
                continue
            group = group_of(holder)
            self.used[group] = self.used.get(group, 0) + held
            if lease is not None:
                whole[lease.id] = held + whole.get(lease.id, 0)
            elif isinstance(holder, Attempt):
                self.running.append((holder, held))
            elif isinstance(holder, LeaseRow) and _is_idle(holder) and holder.lease is not None:
                number = holder.lease.id
                self.idle[number] = (group, held + (self.idle[number][1] if number in self.idle else 0))
        self.running += [(core.attempts[number], held) for number, held in whole.items()]

    def short(self, room: Mapping[str, Ints]) -> Ints:
        """Return the amounts missing for groups to have this room, beside what they already hold."""
        need = np.zeros_like(self.free)
        for group, amounts in room.items():
            need += np.maximum(amounts - self.used.get(group, 0), 0)
        short: Ints = np.maximum(need - self.free, 0)
        return short

    def has(self, room: Mapping[str, Ints]) -> bool:
        """Return True if nothing is missing."""
        return not self.short(room).any()

    def take(self, group: str, held: Ints, sign: int) -> None:
        """Change the amounts held by a group: less (``sign`` 1), or more (-1)."""
        self.free = self.free + sign * held
        self.used[group] = self.used[group] - sign * held


def leaving(core: Books, f: int, kept: Sequence[Kept], at: int) -> Leaving:
    """Return the holders that must leave node ``f`` at ``at`` (µs) for these reservations, which are in force then.

    Holders that end before are gone by then; nothing is changed. Tasks of the reservations' own groups leave only if
    the groups hold more than they have reserved, and only as a last resort.
    """
    node = _Node(core, f, at)
    room: dict[str, Ints] = {}
    for other in kept:
        amounts = core.advance_reservations.amounts_on(other, f)
        room[other.spec.group] = room.get(other.spec.group, 0) + amounts
    if node.has(room):
        return Leaving([], [], False)
    leases = [lease for lease, (group, _) in node.idle.items() if group not in room]
    for lease in leases:
        node.free += node.idle[lease][1]
    chosen: list[tuple[Attempt, Ints]] = []
    in_turn = sorted(node.running, key=lambda pair: (pair[0].job.group.name in room, -pair[0].start, -pair[0].id))
    for attempt, held in in_turn:
        group = attempt.job.group.name
        if node.has(room):
            break
        if not yields(attempt) or (group in room and np.all(node.used[group] <= room[group])):
            continue
        short = node.short(room)
        node.take(group, held, 1)
        if np.any(node.short(room) < short):
            chosen.append((attempt, held))
        else:
            node.take(group, held, -1)
    left = not node.has(room)
    for attempt, held in reversed(chosen.copy()):
        before = node.short(room)
        node.take(attempt.job.group.name, held, -1)
        if np.any(node.short(room) > before):
            node.take(attempt.job.group.name, held, 1)
        else:
            chosen = [pair for pair in chosen if pair[0] is not attempt]
    return Leaving(_as_a_whole(core, (attempt for attempt, _ in chosen)), leases, left)


def _as_a_whole(core: Books, attempts: Iterable[Attempt]) -> list[Attempt]:
    """Return these tasks with the rest of their gangs, which restart as a whole, and the tasks inside leases that they
    hold.
    """
    tasks: dict[int, Attempt] = {}
    for attempt in attempts:
        for member in attempt.job.attempts.values() if attempt.job.job.gang else (attempt,):
            lease = core.pool.leases.get(member.id)
            inside = lease.tasks.values() if lease is not None and lease.holder is member else ()
            tasks.update((one.id, one) for one in (member, *inside) if not one.stopping)
    return list(tasks.values())


def stays(core: Books, f: int, kept: Kept, at: int) -> list[Attempt]:
    """Return tasks on node ``f`` that cannot be stopped, run at ``at`` (µs) and leave too little for a reservation.

    Empty if enough is left. For most questions the first of these tasks is enough.
    """
    cluster = core.cluster
    amounts = core.advance_reservations.amounts_on(kept, f)
    left: Ints = np.array(cluster.specs[f].capacity, np.int64)
    found = []
    for holder in core.holders_on(f):
        if group_of(holder) == kept.spec.group and kept.spec.group:
            continue
        end = int(cluster.leases[holder.slot, END])
        if end <= at < NEVER and at > core.now:
            continue
        if isinstance(holder, Attempt) and not yields(holder):
            left -= cluster.held_in(holder.slot)
            found.append(holder)
    return found if np.any(left < amounts) else []
