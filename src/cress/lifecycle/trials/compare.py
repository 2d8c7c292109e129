"""The consequences of a change: two courses of one cluster, without it and with it."""

from __future__ import annotations

from msgspec.structs import replace

from cress.model.course import Consequences, Course, JobCourse, Shift, Stopped
from cress.model.times import NEVER, SECOND

# Starts that differ by less are the same for people.
SAME = SECOND
# The largest shifts, and the stopped tasks, that an answer has.
MOST_SHIFTS = MOST_STOPPED = 1_000


def compare(before: Course, after: Course, submitted: frozenset[int]) -> Consequences:
    """Return the consequences of a change that submitted these jobs."""
    # A course that was broken off knows nothing of what comes later.
    horizon = min(course.until if not course.finished else NEVER for course in (before, after))
    was = {job.job: job for job in before.jobs if job.waited}
    shifts = [
        Shift(job.job, job.name, job.group, was[job.job].start, job.start)
        for job in after.jobs
        if job.job in was and _shifted(was[job.job].start, job.start, horizon)
    ]
    later = sum(shift.after is None or (shift.before is not None and shift.after > shift.before) for shift in shifts)
    shifts.sort(key=_by_size)
    known = {(stopped.job, stopped.task, stopped.at) for stopped in before.stopped}
    stopped = tuple(found for found in after.stopped if (found.job, found.task, found.at) not in known)
    return Consequences(
        before=_short(before),
        after=_short(after),
        later=later,
        earlier=len(shifts) - later,
        shifts=tuple(shifts[:MOST_SHIFTS]),
        submitted=tuple(job for job in after.jobs if job.job in submitted),
        stopped=stopped[:MOST_STOPPED],
    )


def _shifted(before: int | None, after: int | None, horizon: int) -> bool:
    """Return True if two starts differ, as far as both courses know."""
    if before is None or after is None:
        known = before if after is None else after
        return known is not None and known <= horizon
    return abs(after - before) >= SAME


def _by_size(shift: Shift) -> tuple[int, int]:
    if shift.before is None or shift.after is None:
        return -NEVER, shift.job
    return -abs(shift.after - shift.before), shift.job


def _short(course: Course) -> Course:
    jobs: tuple[JobCourse, ...] = ()
    stopped: tuple[Stopped, ...] = ()
    return replace(course, jobs=jobs, stopped=stopped)
