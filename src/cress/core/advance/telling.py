"""Advance reservations as the reason why a unit waits, and as people read them."""

from __future__ import annotations

import numpy as np

from cress.core.advance.choice import said
from cress.core.books import Books
from cress.core.future.advance_reservations import Kept
from cress.core.jobs import JobEntry
from cress.core.kernels.holding import AMOUNTS, END, FREE
from cress.core.kernels.timeline import B_AMOUNTS, B_START
from cress.core.placing.vetoes import Reserved
from cress.model.advance import local
from cress.model.times import MINUTE, NEVER
from cress.model.units import format_duration

# Nodes that are named.
MOST_NAMED = 3


def reserved_from(core: Books, job: JobEntry) -> Reserved | None:
    """Return the reservation that keeps a unit off the nodes that have room for it now; ``None`` if one of them is not reserved.

    Of several it is the one that leaves most time.
    """
    cluster = core.cluster
    fitting = np.flatnonzero(cluster.lack[job.shape.row, : cluster.node_count] == 0).tolist()
    found: list[tuple[int, int, Kept]] = []
    for f in fitting:
        first = _first_on(core, job, f)
        if first is None:
            return None
        found.append((*first[:1], f, first[1]))
    if not found:
        return None
    start, _, kept = max(found, key=lambda each: (each[0], -each[1]))
    names = tuple(cluster.names[f] for at, f, each in found if each is kept)
    begins, ends = next(times for times in kept.times if times[0] <= start < times[1])
    shorter = max(0, start - core.now)
    return Reserved(kept.spec.name, kept.spec.group, names, _when(core, begins, ends), shorter, job.limit < NEVER)


def _first_on(core: Books, job: JobEntry, f: int) -> tuple[int, Kept] | None:
    """Return when a reservation of others leaves too little for a task that starts on node ``f`` now; ``None`` if that is not before its end."""
    reservations, cluster, k = core.advance_reservations, core.cluster, core.cluster.k_count
    if f not in reservations.on:
        return None
    reservations.refresh()
    table, request = core.timeline.table, job.shape.request_array
    asked = request > 0
    best: tuple[int, Kept] | None = None
    for kept in reservations.on[f]:
        for row in kept.rows.get(f, ()) if not kept.is_of(job.group) else ():
            start = max(int(table[row, B_START]), core.now)
            if start >= core.now + job.limit or (best is not None and start >= best[0]):
                continue
            free = cluster.nodes[f, FREE : FREE + k].copy()
            for slot in cluster.slots_on(f):
                if cluster.leases[slot, END] <= start:
                    free += cluster.leases[slot, AMOUNTS : AMOUNTS + k]
            if np.any((free - table[row, B_AMOUNTS:] < request)[asked]):
                best = start, kept
    return best


def _when(core: Books, start: int, end: int) -> str:
    offset, zone = core.groups.wall_offset or 0, core.groups.zone
    if start > core.now:
        return said(start + offset, min(end, NEVER - 1) + offset if end < NEVER else NEVER, zone)
    if end >= NEVER:
        return "for good"
    until, now = local(end + offset, zone), local(core.now + offset, zone)
    return f"until {until:%H:%M}" if until.date() == now.date() else f"until {until:%Y-%m-%d %H:%M}"


def say_reserved(reserved: Reserved) -> str:
    """Return the sentence about a reservation, and what would change it."""
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
    limit = reserved.shorter // MINUTE * MINUTE if reserved.shorter > MINUTE else reserved.shorter
    given = "" if reserved.limited else "it has no time limit; "
    return f"{told}; {given}with a time limit of at most {format_duration(limit)} it could start now"
