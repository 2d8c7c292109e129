"""The advance reservations of a cluster, and their bookings on the timeline.

A booking is the amount that a reservation keeps on a node beside the use of its own group there: it shrinks as the
group's tasks start and grows as they end. So it is written again after a change of leases on its node, before the
timeline is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import tzinfo
from itertools import chain, takewhile
from typing import Any

import numpy as np

from cress.core.future.timeline import Timeline
from cress.core.jobs import Attempt, GroupState, Holder, JobEntry, LeaseRow
from cress.core.kernels.holding import END
from cress.core.kernels.timeline import B_AMOUNTS, B_END, B_START
from cress.core.tables.arrays import Bools, Ints
from cress.core.tables.cluster import Cluster
from cress.model.advance import STOP, AdvanceReservation, known, longest_gap
from cress.model.times import NEVER
from cress.model.zones import zone_of


class Kept:
    """One advance reservation: its nodes, its times (on the clock of the core), and its bookings by node."""

    __slots__ = ("force", "gap", "places", "rows", "spec", "times", "tried")

    def __init__(self, spec: AdvanceReservation, places: list[tuple[int, int]], force: int) -> None:
        self.spec = spec
        self.places = places
        self.force = force
        self.times: list[tuple[int, int]] = []
        # The longest gap between two occurrences after the first one.
        self.gap = NEVER
        self.rows: dict[int, list[int]] = {}
        # The value of ``cluster.loosened`` at the last search for replacements of lost nodes, which found none.
        self.tried = -1

    def is_active(self, now: int) -> bool:
        """Return True if it is in force now."""
        return bool(self.times) and self.times[0][0] <= now < self.times[0][1]

    def is_of(self, group: GroupState) -> bool:
        """Return True if the group may use it."""
        return self.spec.group == group.name


class AdvanceReservations:
    """All advance reservations by name."""

    def __init__(
        self,
        cluster: Cluster,
        timeline: Timeline,
        holders_on: Callable[[int], Iterator[Holder]],
        now: Callable[[], int],
    ) -> None:
        self.cluster = cluster
        self.timeline = timeline
        self._holders_on = holders_on
        self._now = now
        self.by_name: dict[str, Kept] = {}
        # By node.
        self.on: dict[int, list[Kept]] = {}
        # Wall clock minus the clock of the core (µs), once known.
        self.offset: int | None = None
        # The time (µs) at which the next of them begins or ends.
        self.next_change = NEVER
        # Tasks that must end because a reservation has ended, with its name.
        self.ending: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._seen = -1
        # The stamp of the cluster at the last time room was made for those in force.
        self.cleared = -1
        # Results of ``gaps`` by job, after the state for which they hold.
        self.gaps: dict[int, tuple[tuple[Any, ...], Any]] = {}

    def __bool__(self) -> bool:
        return bool(self.by_name)

    # --- changes -----------------------------------------------------------------------------------------------

    def put(self, spec: AdvanceReservation, now: int) -> None:
        """Add a reservation, or replace the one with its name."""
        if spec.name in self.by_name:
            self._take_out(spec.name)
        force = 1 if spec.is_maintenance else -self._numbers.setdefault(spec.group, len(self._numbers) + 1)
        kept = Kept(spec, [(self.cluster.index[name], count) for name, count in spec.places], force)
        self.by_name[spec.name] = kept
        for f, _ in kept.places:
            self.on.setdefault(f, []).append(kept)
        self.timeline.count_nodes(kept.places, 1)
        self.timeline.prepare = self.refresh
        self._follow(kept, now)
        self._changed()

    def remove(self, name: str) -> None:
        """Remove a reservation, unless it has ended by itself with the time of this very order."""
        if name not in self.by_name:
            return
        self._take_out(name)
        if not self.by_name:
            self.timeline.prepare = None
            self._numbers.clear()
        self._find_next_change()
        self._changed()

    def _take_out(self, name: str) -> None:
        kept = self.by_name.pop(name)
        for f, _ in kept.places:
            self._clear(kept, f)
            self.on[f].remove(kept)
            self._write_group(kept.spec.group, f, self._now())
            if not self.on[f]:
                del self.on[f]
        self.timeline.count_nodes(kept.places, -1)

    def set_clock(self, offset: int, now: int) -> list[tuple[Kept, int, int]]:
        """Set another wall clock; return the occurrences that are past by it."""
        self.offset = offset
        ended = []
        for name, kept in list(self.by_name.items()):
            active = kept.times[0] if kept.is_active(now) else None
            self._follow(kept, now)
            if active is not None and not kept.is_active(now):
                ended.append((kept, active[0], now))
            if not kept.times:
                self.remove(name)
        if self.by_name:
            self._changed()
        return ended

    def over(self, now: int) -> list[tuple[Kept, int, int]]:
        """Return the occurrences that are past, with their starts and ends, and go on to the next ones.

        Reservations without further occurrences are removed.
        """
        ended: list[tuple[Kept, int, int]] = []
        for name, kept in list(self.by_name.items()):
            for start, end in kept.times:
                if end <= now:
                    ended.append((kept, start, end))
            if kept.times and kept.times[0][1] <= now:
                self._follow(kept, now)
                if not kept.times:
                    self.remove(name)
        self._find_next_change()
        self.cleared = -1
        if ended:
            self._changed()
        return ended

    def _follow(self, kept: Kept, now: int) -> None:
        """Compute its times from now on."""
        if self.offset is None:
            kept.times = []
        else:
            offset = self.offset
            zone = self.zone_of(kept.spec)
            kept.times = [
                (start - offset, NEVER if end >= NEVER else end - offset)
                for start, end in known(kept.spec, now + offset, zone)
            ]
            if kept.times and kept.spec.days:
                last = kept.times[0][1]
                kept.gap = 0 if last >= NEVER else longest_gap(kept.spec, last + offset, zone)
        for f, _ in kept.places:
            self._write_group(kept.spec.group, f, now)
        self.cleared = -1
        self._find_next_change()

    def zone_of(self, spec: AdvanceReservation) -> tzinfo:
        """Return the time zone of a reservation."""
        return zone_of(spec.zone or "UTC")

    def _find_next_change(self) -> None:
        now = self._now()
        moments = (moment for kept in self.by_name.values() if kept.times for moment in kept.times[0] if moment > now)
        self.next_change = min(moments, default=NEVER)

    def _changed(self) -> None:
        # Earlier plans are dropped.
        self.cluster.usable_changes += 1

    # --- bookings ----------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Write the bookings again on nodes with changed leases."""
        stamp = self.cluster.stamp
        if stamp == self._seen:
            return
        seen, now = self._seen, self._now()
        for f, all_kept in self.on.items():
            if self.cluster.node_stamp(f) > seen:
                for kept in all_kept:
                    self._write(kept, f, now)
        self._seen = stamp

    def _clear(self, kept: Kept, f: int) -> None:
        for row in kept.rows.pop(f, ()):
            self.timeline.unbook(row)

    def _write_group(self, group: str, f: int, now: int) -> None:
        """Book the amounts that all reservations of a group keep on a node; its use there counts for only one of
        them.
        """
        for kept in self.on[f]:
            if kept.spec.group == group:
                self._write(kept, f, now)

    def _write(self, kept: Kept, f: int, now: int) -> None:
        """Book the amounts that a reservation keeps on a node, beside the group's use not counted for earlier
        reservations.
        """
        self._clear(kept, f)
        amounts = self.amounts_on(kept, f)
        if not kept.times or not amounts.any():
            return
        held = [] if kept.spec.is_maintenance else self._held(kept.spec.group, f)
        first = self._before(kept, f) if held else []
        changes = {moment for moment, _ in held} | {edge for times, _ in first for edge in chain(*times)}
        rows = kept.rows[f] = []
        for start, end in kept.times:
            begin = start
            for moment in (*sorted(change for change in changes if start < change < end), end):
                used = sum((taken for until, taken in held if until > begin), np.zeros_like(amounts))
                for times, theirs in first:
                    if any(opens <= begin < closes for opens, closes in times):
                        used = np.maximum(used - theirs, 0)
                left = np.maximum(amounts - used, 0)
                if left.any():
                    rows.append(self.timeline.book(f, left, begin, moment, kept.force))
                begin = moment

    def _before(self, kept: Kept, f: int) -> list[tuple[list[tuple[int, int]], Ints]]:
        """Return the times and amounts of the group's earlier reservations on a node."""
        others = takewhile(lambda other: other is not kept, self.on[f])
        return [(other.times, self.amounts_on(other, f)) for other in others if other.spec.group == kept.spec.group]

    def _held(self, group: str, f: int) -> list[tuple[int, Ints]]:
        """Return the ends and amounts of the leases of a group on a node."""
        cluster = self.cluster
        return [
            (int(cluster.leases[holder.slot, END]), cluster.held_in(holder.slot).copy())
            for holder in self._holders_on(f)
            if group_of(holder) == group
        ]

    def amounts_on(self, kept: Kept, f: int) -> Ints:
        """Return all amounts that it reserves on a node."""
        capacity: Ints = np.array(self.cluster.specs[f].capacity, np.int64)
        if not kept.spec.amounts:
            return capacity
        count = next(count for place, count in kept.places if place == f)
        amounts: Ints = np.minimum(np.array(kept.spec.amounts, np.int64) * count, capacity)
        return amounts

    # --- questions ---------------------------------------------------------------------------------------------

    def number_of(self, group: GroupState) -> int:
        """Return the number of a group for questions to the timeline; 0 if it has no reservation."""
        return self._numbers.get(group.name, 0)

    def active(self) -> Iterable[Kept]:
        """Return the reservations in force now."""
        now = self._now()
        return [kept for kept in self.by_name.values() if kept.is_active(now)]

    def active_nodes(self, group: GroupState) -> list[int]:
        """Return the nodes on which a group has a reservation in force now."""
        return [f for kept in self.active() if kept.is_of(group) for f, _ in kept.places] if group.asker else []

    def sheltered_from(self, group: GroupState) -> list[int]:
        """Return the nodes with a reservation of another group in force now; there is no preemption for ``group`` on
        them.
        """
        return [f for kept in self.active() if not kept.is_of(group) for f, _ in kept.places]

    def kept_from(self, group: GroupState | None, until: int) -> Ints:
        """Return, per node, the most that is kept from a group at any time before ``until`` (µs); ``None``: for any
        group.
        """
        self.refresh()
        out = np.zeros((self.cluster.node_count, self.cluster.k_count), np.int64)
        table = self.timeline.table
        for f, all_kept in self.on.items():
            for kept in all_kept:
                if group is None or not kept.is_of(group):
                    most = out[f] * 0
                    for row in kept.rows.get(f, ()):
                        if table[row, B_START] < until:
                            most = np.maximum(most, table[row, B_AMOUNTS:])
                    out[f] += most
        return out

    def closed_to(self, group: GroupState, until: int) -> Bools:
        """Return, per node, True if any amount is kept from a group at any time before ``until`` (µs)."""
        closed: Bools = np.any(self.kept_from(group, until), axis=1)
        return closed

    def closes(self, job: JobEntry, f: int) -> bool:
        """Return True if any amount on node ``f`` is kept from a job before the limit of a task that starts now."""
        if f not in self.on:
            return False
        self.refresh()
        until = min(self._now() + job.limit, NEVER)
        table = self.timeline.table
        return any(
            table[row, B_START] < until
            for kept in self.on[f]
            if not kept.is_of(job.group)
            for row in kept.rows.get(f, ())
        )

    def next_on(self, group: GroupState, f: int, until: int) -> list[tuple[int, int, Kept]]:
        """Return the times before ``until`` (µs) at which node ``f`` is kept from a group, by start."""
        self.refresh()
        table = self.timeline.table
        found: dict[tuple[int, int, str], Kept] = {}
        for kept in self.on.get(f, ()):
            if kept.is_of(group):
                continue
            for row in kept.rows.get(f, ()):
                for start, end in kept.times:
                    if start <= table[row, B_START] and table[row, B_END] <= end and start < until:
                        found[start, end, kept.spec.name] = kept
        return [(start, end, kept) for (start, end, _), kept in sorted(found.items(), key=lambda entry: entry[0])]

    def stops_at_end(self, kept: Kept, start: int, group_attempts: Iterable[Attempt]) -> list[Attempt]:
        """Return the tasks that started in a past occurrence and must end with it."""
        if kept.spec.at_end != STOP:
            return []
        nodes = {f for f, _ in kept.places}
        return [
            attempt
            for attempt in group_attempts
            if attempt.node in nodes and attempt.start >= start and not attempt.stopping
        ]


def group_of(holder: Holder) -> str | None:
    """Return the group of a holder of a lease; ``None`` for a foreign one."""
    if isinstance(holder, Attempt):
        return holder.job.group.name
    if isinstance(holder, LeaseRow):
        if holder.lease is not None:
            return holder.lease.workload.group.name
        return None if holder.borrower is None else holder.borrower.job.group.name
    return None
