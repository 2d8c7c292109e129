"""Units that fit into no gap between the repetitions of advance reservations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cress.core.advance.telling import room_at_starts
from cress.core.books import Books
from cress.core.future.advance_reservations import Kept
from cress.core.jobs import JobEntry
from cress.core.placing.together import holds
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
    room = core.fit.when_empty(job.shape)
    return holds(room) and not holds(room.at_most(_left_when_empty(core, binding)))


def is_kept_off(core: Books, job: JobEntry) -> bool:
    """Return True if advance reservations alone keep the next unit of a job from starting now.

    They keep it off the nodes with room for it or, without such nodes, off those that would hold it when empty.
    """
    binding = kept_before_end(core, job)
    if not binding:
        return False
    if core.fit.has_free(job.shape):
        return not holds(core.fit.free(job.shape).at_most(left_now(core, job, binding)))
    return _closes_all(core, job, binding)


def kept_before_end(core: Books, job: JobEntry) -> list[Kept]:
    """Return the reservations of others that begin before the end of a task that starts now."""
    until = min(core.now + job.duration, NEVER)
    reservations = core.advance_reservations.by_name.values()
    return [kept for kept in reservations if kept.times and kept.times[0][0] < until and not kept.is_of(job.group)]


def kept_off_until(core: Books, job: JobEntry) -> int | None:
    """Return the time (µs) before which a unit that advance reservations keep from starting now will not start.

    It is the begin of the first of them or, if they are in force, the first end. ``None`` for other units.
    """
    if not core.advance_reservations or not is_kept_off(core, job):
        return None
    times = [kept.times[0] for kept in kept_before_end(core, job)]
    return min(end if start <= core.now else start for start, end in times)


def _left_when_empty(core: Books, binding: list[Kept]) -> Ints:
    """Return the amounts of each node (N, K) that these reservations leave when nothing runs."""
    left = core.fit.cluster.capacities().copy()
    for kept in binding:
        for f, _ in kept.places:
            left[f] -= core.advance_reservations.amounts_on(kept, f)
    return np.maximum(left, 0)


def left_now(core: Books, job: JobEntry, binding: list[Kept]) -> Ints:
    """Return the amounts of each node (N, K) that a unit may take now and hold until its end, beside these
    reservations.
    """
    left = core.cluster.free_now().copy()
    for f in {f for kept in binding for f, _ in kept.places}:
        for _, _, free in room_at_starts(core, job, f):
            left[f] = np.minimum(left[f], np.maximum(free, 0))
    return left
