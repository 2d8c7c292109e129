"""The nodes of an advance reservation: named ones are checked, others are chosen.

First come nodes on which no task must stop for it, then those with the fewest such tasks; ties go to the node that
registered first.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np

from cress.core.advance.victims import leaving, stays
from cress.core.books import Books
from cress.core.future.advance_reservations import Kept
from cress.core.jobs import Attempt
from cress.core.leaf_groups import check_takes_jobs
from cress.core.placing.constraints import Constraints
from cress.core.placing.match import Match
from cress.core.tables.arrays import Bools, Ints, copies_in
from cress.language.parser import parse_rank, parse_requirement
from cress.model.advance import LOOKED_AT, AdvanceReservation, local, occurrences
from cress.model.errors import InputError, NotAccepted
from cress.model.group import DEFAULT_GROUP
from cress.model.times import DAY, NEVER
from cress.model.units import one_of
from cress.model.zones import zone_of

Places = tuple[tuple[str, int], ...]
# Times, each with its start and end (µs since the epoch).
Spans = tuple[tuple[int, int], ...]


class FoundNodes(NamedTuple):
    """A reservation with its nodes, and the running tasks that must stop at its start unless they end before."""

    reservation: AdvanceReservation
    attempts: list[Attempt]


class Conflict(NotAccepted):
    """Another reservation, ``name``, keeps a node from ``start`` to ``end`` (µs since the epoch), shown on clocks of
    ``zone``.
    """

    def __init__(self, node: str, met: tuple[str, int, int], zone: tzinfo) -> None:
        self.node = node
        self.name, self.start, self.end = met
        what = f"node {node} is reserved by {self.name} {said(self.start, self.end, zone)}"
        super().__init__(what, hint="another time, or other nodes", field="nodes")


def find(core: Books, spec: AdvanceReservation) -> FoundNodes:
    """Return a reservation with its nodes.

    Raises ``InputError`` if it is invalid, ``NotAccepted`` if there is no room for it.
    """
    check(core, spec)
    search = _NodeSearch(core, spec)
    if spec.count:
        places = search.choose(spec.count, np.ones(core.cluster.node_count, np.bool_))
        if places is None:
            raise NotAccepted(search.why_not(), hint="fewer of them, another time, or another requirement")
        spec = msgspec.structs.replace(spec, places=places)
    else:
        for name, count in spec.places:
            search.check(core.cluster.index[name], count)
    return FoundNodes(spec, search.attempts(spec.places))


def leaving_for(core: Books, spec: AdvanceReservation) -> list[Attempt]:
    """Return the running tasks that must stop for a reservation with nodes, unless they end before its start."""
    return _NodeSearch(core, spec).attempts(spec.places)


def check(core: Books, spec: AdvanceReservation) -> None:
    """Raise ``InputError`` unless a reservation is valid in this cluster."""
    if spec.group and spec.group not in core.groups.by_name:
        check_takes_jobs(core, spec.group, "a reservation is of a group that takes jobs, ")
        raise InputError(
            f"there is no group {spec.group!r}", hint=one_of(spec.group, core.groups.by_name), field="group"
        )
    if spec.end <= spec.start:
        raise InputError("it ends before it begins", hint="an end after its start", field="until")
    if core.groups.wall_offset is not None and not spec.days and spec.end <= core.now + core.groups.wall_offset:
        raise InputError("it is over already", hint="a later time", field="until")
    if spec.amounts and len(spec.amounts) != len(core.dimensions):
        raise InputError(
            "its amounts are not those of this cluster", hint=", ".join(core.dimensions.names), field="resource"
        )
    if spec.requirement:
        try:
            parse_requirement(spec.requirement)
        except InputError as error:
            raise error.at(field="requirement") from None
    for name, _ in spec.places:
        if name not in core.cluster.index:
            raise InputError(f"there is no node {name!r}", hint=one_of(name, core.cluster.index), field="nodes")
    if not spec.places and not spec.count:
        raise InputError("it has no nodes", hint="names of nodes, or how many", field="nodes")


def no_reservation(core: Books, name: str) -> InputError:
    """Return the error for a name without a reservation."""
    known = core.advance_reservations.by_name
    hint = one_of(name, known) if known else "`cress reservations` lists them"
    return InputError(f"there is no reservation {name!r}", hint=hint, field="name")


def other_places(core: Books, kept: Kept) -> Places | None:
    """Return the places of a reservation with absent or cordoned nodes replaced; ``None`` if there are no other
    nodes.
    """
    cluster = core.cluster
    gone = [(f, count) for f, count in kept.places if cluster.lost[f] or cluster.cordoned[f] is not None]
    stay = [(f, count) for f, count in kept.places if (f, count) not in gone]
    may = np.ones(cluster.node_count, np.bool_)
    may[[f for f, _ in kept.places]] = False
    more = _NodeSearch(core, kept.spec).choose(sum(count for _, count in gone), may)
    return None if more is None else (*((cluster.names[f], count) for f, count in stay), *more)


class _NodeSearch:
    """The nodes at the first start of a reservation, beside all other reservations."""

    def __init__(self, core: Books, spec: AdvanceReservation) -> None:
        self.core = core
        self.cluster = core.cluster
        self.spec = spec
        reservations = core.advance_reservations
        offset = core.groups.wall_offset or 0
        zone = reservations.zone_of(spec)
        self.now = core.now + offset
        first = next(occurrences(spec, self.now, zone), (spec.start, spec.end))
        self.first = first
        self.at = max(core.now, first[0] - offset)
        self._windows = self._windows_of(spec)
        self.mine = _spans_in(spec, self._windows)
        self._others: dict[str, list[tuple[int, int]]] = {}

    def _windows_of(self, spec: AdvanceReservation) -> Spans:
        """Return the times in which repetitions are examined, ascending and disjoint.

        The pattern of all repetitions together repeats after each start of a reservation, except when clocks are put
        forward or back. So one such period after each start is examined, while this reservation is in force. They
        change a few times a day at most, so that what is found in them can be remembered.
        """
        begin, end = max(self.first[0], self.now - self.now % DAY), NEVER if spec.days else spec.end
        others = {kept.spec.start for kept in self.core.advance_reservations.by_name.values()}
        found: list[tuple[int, int]] = []
        for start in sorted({begin, *(moment for moment in others if begin < moment < end)}):
            until = min(start + LOOKED_AT, end)
            if found and start <= found[-1][1]:
                found[-1] = (found[-1][0], until)
            else:
                found.append((start, until))
        return tuple(found)

    def _meeting(self, other: Kept) -> list[tuple[int, int]]:
        """Return the times from now on at which another reservation is in force together with this one."""
        name = other.spec.name
        if name not in self._others:
            both = _both(self.mine, _spans_in(other.spec, self._windows))
            self._others[name] = [(start, end) for start, end in both if end > self.now]
        return self._others[name]

    def taken(self, f: int) -> tuple[Ints, tuple[str, int, int] | None]:
        """Return the most that other reservations keep on a node at its times, and the one in conflict with start and
        end (µs).
        """
        reservations = self.core.advance_reservations
        peak = np.zeros(self.cluster.k_count, np.int64)
        events: list[tuple[int, int, Ints]] = []
        met: tuple[str, int, int] | None = None
        for other in reservations.on.get(f, ()):
            if other.spec.name == self.spec.name:
                continue
            amounts = reservations.amounts_on(other, f)
            for start, end in self._meeting(other):
                events += [(start, 1, amounts), (end, 0, amounts)]
                met = met or (other.spec.name, start, end)
        level = peak.copy()
        for _, begins, amounts in sorted(events, key=lambda event: event[:2]):
            level += amounts if begins else -amounts
            peak = np.maximum(peak, level)
        return peak, met

    def check(self, f: int, count: int) -> None:
        """Raise ``NotAccepted`` if a named node cannot have ``count`` copies."""
        name = self.cluster.names[f]
        capacity = self._capacity(f)
        wanted = self._wanted(f, count)
        if np.any(wanted > capacity):
            raise NotAccepted(f"node {name} has less than that", hint="fewer, or other nodes", field="nodes")
        peak, met = self.taken(f)
        if met and np.any(wanted > capacity - peak):
            other = self.core.advance_reservations.by_name[met[0]].spec
            raise Conflict(name, met, self.core.advance_reservations.zone_of(other))
        if blocking := stays(self.core, f, self._as_kept(f, count), self.at):
            job = blocking[0].job.job
            called = f" ({job.name})" if job.name else ""
            raise NotAccepted(
                f"node {name} runs a task of the database job {job.counted_as}{called}, which is never stopped",
                hint="other nodes, or end it before", field="nodes",
            )  # fmt: skip

    def choose(self, count: int, may: Bools) -> Places | None:
        """Return places for ``count`` copies on the nodes in ``may``; ``None`` if there are none."""
        cluster = self.cluster
        for f in range(cluster.node_count):
            may[f] = may[f] and not cluster.lost[f] and cluster.cordoned[f] is None
        may &= self._satisfied()
        found = [(f, most) for f in np.flatnonzero(may).tolist() if (most := self._most_copies(f, count))]
        if sum(most for _, most in found) < count:
            return None
        nodes: list[tuple[int, int, int, int]] = []
        for f, most in found:
            free = self._free_copies(f, most)
            victims = len(leaving(self.core, f, [self._as_kept(f, most)], self.at).attempts) if free < most else 0
            nodes.append((victims, f, free, most))
        chosen: dict[int, int] = {}
        left = count
        for _, f, free, _ in nodes:
            if left and free:
                chosen[f] = min(free, left)
                left -= chosen[f]
        for _, f, _, most in sorted(nodes):
            more = min(left, most - chosen.get(f, 0))
            if more:
                chosen[f] = chosen.get(f, 0) + more
                left -= more
        return tuple((cluster.names[f], number) for f, number in sorted(chosen.items()))

    def why_not(self) -> str:
        """Return the reason why there is no room for it, as a sentence."""
        cluster = self.cluster
        what = f"{self.spec.count} × its amounts" if self.spec.amounts else f"{self.spec.count} whole nodes"
        there = [f for f in range(cluster.node_count) if not cluster.lost[f] and cluster.cordoned[f] is None]
        satisfied = self._satisfied()
        good = [f for f in there if satisfied[f]]
        reserved = sum(1 for f in good if self.taken(f)[1])
        told = f"there is no room for {what}: of {len(there)} nodes {len(good)} satisfy the requirement"
        if not self.spec.requirement:
            told = f"there is no room for {what} on {len(there)} nodes"
        return f"{told}, {reserved} of them have other reservations at that time" if reserved else told

    def attempts(self, places: Places) -> list[Attempt]:
        """Return the running tasks that must stop at its start unless they end before."""
        found: dict[int, Attempt] = {}
        for name, count in places:
            f = self.cluster.index[name]
            for attempt in leaving(self.core, f, [self._as_kept(f, count)], self.at).attempts:
                found[attempt.id] = attempt
        return list(found.values())

    def _satisfied(self) -> Bools:
        n = self.cluster.node_count
        if not self.spec.requirement or not n:
            return np.ones(n, np.bool_)
        constraints = Constraints(parse_requirement(self.spec.requirement, stored=True), parse_rank(""))
        match = Match(self.core.matching.context, constraints.wants(0, group=self.spec.group or DEFAULT_GROUP))
        satisfied: Bools = match.first_from_nothing()[:n] == 0
        return satisfied

    def _most_copies(self, f: int, most: int) -> int:
        """Return the copies that a node can hold at its times, beside other reservations and tasks that cannot be
        stopped.
        """
        peak, met = self.taken(f)
        if not self.spec.amounts:
            free = not met and not stays(self.core, f, self._as_kept(f, 1), self.at)
            return int(free and bool(self._capacity(f).any()))
        most = int(copies_in(self._capacity(f) - peak, np.array(self.spec.amounts, np.int64), most))
        while most and stays(self.core, f, self._as_kept(f, most), self.at):
            most -= 1
        return most

    def _free_copies(self, f: int, most: int) -> int:
        """Return the copies that a node can hold without stopping a task."""
        while most and leaving(self.core, f, [self._as_kept(f, most)], self.at)[:2] != ([], []):
            most -= 1
        return most

    def _capacity(self, f: int) -> Ints:
        return np.array(self.cluster.specs[f].capacity, np.int64)

    def _wanted(self, f: int, count: int) -> Ints:
        return np.array(self.spec.amounts, np.int64) * count if self.spec.amounts else self._capacity(f)

    def _as_kept(self, f: int, count: int) -> Kept:
        return Kept(self.spec, [(f, count)], 0)


@lru_cache(maxsize=256)
def _spans_in(spec: AdvanceReservation, windows: Spans) -> Spans:
    """Return the times of a reservation in these windows, all of them if it does not repeat; ascending and disjoint.

    They are remembered: two years of days take 10 ms, and while a node is away each decision asks for them.
    """
    if not spec.days:
        return ((spec.start, spec.end),)
    zone = zone_of(spec.zone or "UTC")
    found: list[tuple[int, int]] = []
    for begin, until in windows:
        for start, end in occurrences(spec, begin, zone):
            if start >= until:
                break
            # A reservation without an end is met in every window.
            if not found or start >= found[-1][1]:
                found.append((start, end))
    return tuple(found)


@lru_cache(maxsize=256)
def _both(mine: Spans, theirs: Spans) -> Spans:
    """Return the intersections of times, of which both are ascending and disjoint; they are remembered likewise."""
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < len(mine) and j < len(theirs):
        start, end = max(mine[i][0], theirs[j][0]), min(mine[i][1], theirs[j][1])
        if start < end:
            found.append((start, end))
        if mine[i][1] <= theirs[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def said(start: int, end: int, zone: tzinfo) -> str:
    """Return a time span (µs since the epoch) as clocks show it."""
    begins = local(start, zone)
    if end >= NEVER:
        return f"from {begins:%Y-%m-%d} {clock(begins)} for good"
    ends = local(end, zone)
    last = clock(ends) if ends.date() == begins.date() else f"{ends:%Y-%m-%d} {clock(ends)}"
    return f"from {begins:%Y-%m-%d} {clock(begins)} to {last}"


def clock(at: datetime) -> str:
    """Return a time of day, with seconds if they are not zero."""
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"
