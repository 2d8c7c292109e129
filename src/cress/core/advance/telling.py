"""Advance reservations as reasons why units wait, in a form for people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import numpy as np

from cress.core.advance.choice import clock, said
from cress.core.books import Books
from cress.core.future.advance_reservations import Kept
from cress.core.jobs import JobEntry
from cress.core.kernels.holding import END, OUT
from cress.core.kernels.timeline import B_AMOUNTS, B_END, B_START
from cress.core.placing.vetoes import Reserved
from cress.core.tables.arrays import Ints, suffices
from cress.model.advance import local
from cress.model.times import DAY, NEVER
from cress.model.units import rounded_duration

# The number of nodes in a sentence.
MOST_NAMED = 3


def reserved_from(core: Books, job: JobEntry) -> Reserved | None:
    """Return the reservation that keeps a unit off the nodes with room for it now; ``None`` if one of them is not
    reserved.

    Among several, the one that leaves most time. If no node has room, those count that are large enough.
    """
    cluster = core.cluster
    lack = cluster.lack_of(job.shape.row)
    fitting = np.flatnonzero(lack == 0).tolist()
    within = fitting or np.flatnonzero(cluster.usable() & (lack & OUT == 0) & cluster.large(job.shape.request)).tolist()
    found: list[tuple[int, int, Kept]] = []
    for f in within:
        first = first_blocked(core, job, f) if fitting else _holds_on(core, job, f)
        if first is None:
            return None
        found.append((*first[:1], f, first[1]))
    if not found:
        return None
    start, _, kept = max(found, key=lambda hold: (hold[0], -hold[1]))
    names = tuple(cluster.names[f] for at, f, other in found if other is kept)
    begins, ends = next(times for times in kept.times if times[0] <= start < times[1])
    return Reserved(
        kept.spec.name, kept.spec.group, names, _when(core, begins, ends), longest_now(core, job), job.duration < NEVER
    )  # fmt: skip


def reserved_beside(core: Books, job: JobEntry) -> Reserved | None:
    """Return the first reservation of others on a node with room, before the end of a task that starts now.

    A gang may fit beside it only in part.
    """
    cluster = core.cluster
    until = min(core.now + job.duration, NEVER)
    for f in np.flatnonzero(cluster.lack_of(job.shape.row) == 0).tolist():
        for start, end, kept in core.advance_reservations.next_on(job.group, f, until):
            when, shorter = _when(core, start, end), longest_now(core, job)
            return Reserved(kept.spec.name, kept.spec.group, (cluster.names[f],), when, shorter, job.duration < NEVER)
    return None


def longest_now(core: Books, job: JobEntry) -> int:
    """Return the longest time (µs) that a unit may run from now on before the reservations of others; 0 without room
    now.

    For a gang, every reservation on a node with room counts.
    """
    shape, cluster = job.shape, core.cluster
    if not core.fit.fitting(shape) or (shape.size > 1 and core.fit.copies_free(shape) < shape.size):
        return 0
    fitting = np.flatnonzero(cluster.lack_of(shape.row) == 0).tolist()
    until = min(core.now + job.duration, NEVER)
    if shape.size > 1:
        starts = (times[0] for f in fitting for times in core.advance_reservations.next_on(job.group, f, until))
        return max(0, min(starts, default=until) - core.now)
    firsts = (first_blocked(core, job, f) for f in fitting)
    return max(0, max(until if first is None else first[0] for first in firsts) - core.now)


def _holds_on(core: Books, job: JobEntry, f: int) -> tuple[int, Kept] | None:
    """Return the reservation of others, in force now, that leaves too little of node ``f`` for a task even when
    empty.
    """
    reservations, request = core.advance_reservations, job.shape.request_array
    left = np.array(core.cluster.specs[f].capacity, np.int64)
    for kept in reservations.on.get(f, ()):
        if kept.is_active(core.now) and not kept.is_of(job.group):
            left -= reservations.amounts_on(kept, f)
            if not suffices(left, request):
                return core.now, kept
    return None


def first_blocked(core: Books, job: JobEntry, f: int) -> tuple[int, Kept] | None:
    """Return when a reservation of others leaves too little for a task that starts on node ``f`` now.

    ``None`` if that is not before the end of the task.
    """
    for start, kept, free in room_at_starts(core, job, f):
        if not suffices(free, job.shape.request_array):
            return start, kept
    return None


def room_at_starts(core: Books, job: JobEntry, f: int) -> Iterator[tuple[int, Kept, Ints]]:
    """Yield the starts (µs) of the reservations of others on node ``f`` before the end of a task that starts now.

    Each comes with its reservation, and with the amounts that it leaves beside what then still runs.
    """
    reservations, cluster = core.advance_reservations, core.cluster
    if f not in reservations.on:
        return
    reservations.refresh()
    table = core.timeline.table
    kept_by = [(row, kept) for kept in reservations.on[f] if not kept.is_of(job.group) for row in kept.rows.get(f, ())]
    for row, kept in sorted(kept_by, key=lambda pair: int(table[pair[0], B_START])):
        start = max(int(table[row, B_START]), core.now)
        if start >= core.now + job.duration:
            return
        free = cluster.free_now()[f].copy()
        for slot in cluster.slots_on(f):
            if cluster.leases[slot, END] <= start:
                free += cluster.held_in(slot)
        for other, _ in kept_by:
            if max(int(table[other, B_START]), core.now) <= start < table[other, B_END]:
                free -= table[other, B_AMOUNTS:]
        yield start, kept, free


def _when(core: Books, start: int, end: int) -> str:
    offset, zone = core.groups.wall_offset or 0, core.groups.zone
    if start > core.now:
        return said(start + offset, end + offset if end < NEVER else NEVER, zone)
    if end >= NEVER:
        return "for good"
    return f"until {_shown(local(end + offset, zone), local(core.now + offset, zone))}"


def time_of_day(core: Books, at: int) -> str:
    """Return a time of the core (µs) as clocks show it, with the date on another day; empty if unknown."""
    offset, zone = core.groups.wall_offset, core.groups.zone
    if offset is None or at >= NEVER:
        return ""
    return _shown(local(at + offset, zone), local(core.now + offset, zone))


def _shown(at: datetime, now: datetime) -> str:
    return ("" if at.date() == now.date() else f"{at:%Y-%m-%d} ") + clock(at)


def say_on_node(core: Books, name: str) -> tuple[bool, str]:
    """Return True if a node is closed for maintenance now, and a text about its reservations now or within a day.

    The text is empty without any.
    """
    f = core.cluster.index.get(name)
    here = core.advance_reservations.on.get(f, ()) if f is not None else ()
    coming = sorted(
        ((kept.times[0], kept) for kept in here if kept.times and kept.times[0][0] < core.now + DAY),
        key=lambda pair: (pair[0], pair[1].spec.name),
    )
    if not coming:
        return False, ""
    (start, end), kept = coming[0]
    what = f"maintenance {kept.spec.name}"
    if not kept.spec.is_maintenance:
        what = f"kept for reservation {kept.spec.name} of group {kept.spec.group}"
    return kept.spec.is_maintenance and start <= core.now, f"{what} {_when(core, start, end)}"


def say_reserved(reserved: Reserved) -> str:
    """Return the sentence about a reservation, and about a change that would help."""
    named = list(reserved.nodes[:MOST_NAMED])
    more = len(reserved.nodes) - len(named)
    nodes = ", ".join(named) + (f" and {more} more" if more else "")
    verb = "node {} is" if len(reserved.nodes) == 1 else "nodes {} are"
    whose = (
        f"reservation {reserved.name} of group {reserved.group}" if reserved.group else f"maintenance {reserved.name}"
    )
    told = f"{verb.format(nodes)} kept for {whose} {reserved.when}"
    if not reserved.shorter:
        return told
    given = "" if reserved.limited else "the job has no time limit; "
    return f"{told}; {given}{say_shorter(reserved.shorter)}"


def say_shorter(longest: int) -> str:
    """Return the sentence that a job could start now if it lasted at most ``longest`` µs."""
    return f"with a time_limit of at most {rounded_duration(longest)} it could start now"
