"""Units that fit into no gap between the repetitions of advance reservations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cress.core.advance.telling import first_blocked
from cress.core.books import Books
from cress.core.future.advance_reservations import Kept
from cress.core.jobs import JobEntry
from cress.core.tables.arrays import Ints
from cress.model.times import NEVER

# The number of jobs with a cached result.
MOST_KEPT = 10_000


class NoGap(NamedTuple):
    """The names of the reservations that leave a unit no gap, and the longest gap between them on one node (µs)."""

    names: tuple[str, ...]
    longest: int


def fits_in_no_gap(core: Books, job: JobEntry) -> NoGap | None:
    """Return the reservations that keep the next unit of a job off all nodes for ever; ``None`` without such.

    The shape of the unit must have a row.
    """
    reservations = core.advance_reservations
    binding = [kept for kept in reservations.by_name.values() if _binds(core, kept, job)]
    if not binding:
        return None
    state = (core.cluster.usable_changes, core.cluster.loosened, job.duration, *(kept.spec.name for kept in binding))
    known = reservations.gaps.get(job.job.id)
    if known is None or known[0] != state:
        if len(reservations.gaps) > MOST_KEPT:
            reservations.gaps.clear()
        known = reservations.gaps[job.job.id] = (state, _closes_all(core, job, binding))
    if not known[1]:
        return None
    longest = max(max(kept.gap, kept.times[0][0] - core.now) for kept in binding)
    return NoGap(tuple(sorted(kept.spec.name for kept in binding)), min(longest, NEVER))


def _binds(core: Books, kept: Kept, job: JobEntry) -> bool:
    """Return True if every gap that a repetition leaves from now on is too short for a task."""
    if not kept.spec.days or kept.is_of(job.group) or not kept.times:
        return False
    return job.duration > max(kept.gap, kept.times[0][0] - core.now)


def _closes_all(core: Books, job: JobEntry, binding: list[Kept]) -> bool:
    """Return True if a unit fits on empty nodes, but not beside these reservations."""
    copies = core.fit.room_when_empty(job.shape)
    if copies.sum() < job.shape.size:
        return False
    request = job.shape.request_array
    asked = request > 0
    left: dict[int, Ints] = {}
    for kept in binding:
        for f, _ in kept.places:
            before = left.get(f, np.array(core.cluster.specs[f].capacity, np.int64))
            left[f] = before - core.advance_reservations.amounts_on(kept, f)
    for f, room in left.items():
        copies[f] = min(int(copies[f]), max(0, int(np.min(room[asked] // request[asked], initial=2**31))))
    return int(copies.sum()) < job.shape.size


def is_kept_off(core: Books, job: JobEntry) -> bool:
    """Return True if advance reservations alone keep the next unit of a job from starting now.

    They keep it off the nodes with room for it or, without such nodes, off those that would hold it when empty.
    """
    shape, reservations = job.shape, core.advance_reservations
    until = min(core.now + job.duration, NEVER)
    binding = [
        kept
        for kept in reservations.by_name.values()
        if kept.times and kept.times[0][0] < until and not kept.is_of(job.group)
    ]
    if not binding or shape.kinds:
        return False
    has_room = core.fit.copies_free(shape) >= shape.size
    copies = core.fit.free_copies(shape) if has_room else core.fit.room_when_empty(shape)
    if copies.sum() < shape.size:
        return False
    asked = shape.request_array > 0
    left: dict[int, Ints] = {}
    for kept in binding:
        nodes = [f for f, _ in kept.places]
        if not kept.spec.amounts:
            copies[nodes] = 0
            continue
        for f in nodes:
            if not copies[f]:
                continue
            if has_room:
                copies[f] *= first_blocked(core, job, f) is None
                continue
            left[f] = left.get(f, np.array(core.cluster.specs[f].capacity, np.int64)) - reservations.amounts_on(kept, f)
            most = np.min(left[f][asked] // shape.request_array[asked], initial=2**31)
            copies[f] = min(int(copies[f]), max(0, int(most)))
    return int(copies.sum()) < shape.size
