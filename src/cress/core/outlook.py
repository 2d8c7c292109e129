"""Forecast for jobs with deadlines: when they start at the earliest, when they are likely to, and how long they may run from then on (note 0023).

At the earliest a job starts as soon as it fits beside what runs and what is reserved; it is likely to start when the work of its group with nearer deadlines
is done by the group's share of the cluster. Only the earliest start says that a deadline cannot be met.
"""

from __future__ import annotations

from typing import NamedTuple

from cress.core.books import Books
from cress.core.groups.running_limits import limit_reached
from cress.core.jobs import JobEntry
from cress.core.kernels.urgency import urgency
from cress.core.placing.kinds import lasting_wants
from cress.core.placing.shape import Shape
from cress.model.estimates import RunEstimate
from cress.model.job import Job
from cress.model.outlook import Outlook, Promise
from cress.model.times import NEVER

# From this chance on a deadline is as good as met.
_FINE = 0.9


def outlook(core: Books, job: JobEntry, now: int) -> Outlook | None:
    """Return the forecast for a job at ``now``; ``None`` if it has no deadline, or the wall clock is not known."""
    if job.deadline >= NEVER:
        return None
    if not job.waiting or (job.queued and limit_reached(job) is None):
        return _told(core, job, now, _start(core, job, now), in_queue=job.queued)
    # It waits for another job, a release or its own tasks: all that is known is that it does not start before now.
    return _if_released(_told(core, job, now, now))


def _if_released(found: Outlook) -> Outlook:
    """Return the forecast for a job of which nobody knows when it may start, from that as if it might now."""
    if found.promise is Promise.CANNOT:
        return found
    return Outlook(found.deadline, found.urgency, found.slack, Promise.UNKNOWN, None, found.earliest_end)


def foreseen(core: Books, job: Job, estimate: RunEstimate | None) -> Outlook | None:
    """Return the forecast for a job that is not submitted; ``None`` as in ``outlook``.

    Of its clauses those count that say something about nodes and never relax: it does not end earlier than that.
    """
    entry = JobEntry(job, core.groups.get(job.group), _lasting_shape(core, job), core.now, None, None, estimate)
    entry.deadline = core.deadline_of(entry)
    if entry.deadline >= NEVER:
        return None
    found = _told(core, entry, core.now, _earliest(core, entry.shape, entry.duration, entry.group.asker), in_queue=True)
    # Numbers below 0 are jobs of the same submit.
    waits = job.hold or any(number < 0 or number in core.jobs for number, _ in job.after)
    return _if_released(found) if waits else found


def _told(core: Books, job: JobEntry, now: int, start: int | None, *, in_queue: bool = False) -> Outlook:
    """Return the forecast for a job that can start at ``start``; ``None``: that is not known. ``in_queue``: work of its group may go before it."""
    offset = core.groups.wall_offset or 0
    if job.waiting:
        left = Left(job.shortest_left(), job.mean_left(), job.longest_left())
    else:
        left = _of_running(job, now)
    urgent = float(urgency(job.deadline, left.longest, left.shortest, job.late, now))
    slack = None if left.mean >= NEVER else job.deadline - now - left.mean
    if now > job.deadline:
        return Outlook(job.job.deadline, urgent, slack, Promise.CANNOT, 0.0, None)
    if start is None or left.mean >= NEVER:
        return Outlook(job.job.deadline, urgent, slack, Promise.UNKNOWN, None, None)
    ahead = job.group.policy.work_ahead(job) if in_queue else 0
    likely = max(start, now + core.time_for(job.group, ahead)) if ahead else start
    earliest = start + left.shortest
    if earliest > job.deadline:
        return Outlook(job.job.deadline, urgent, slack, Promise.CANNOT, 0.0, earliest + offset)
    chance = (
        1.0 if job.estimate is None and likely + left.longest <= job.deadline else left.chance(job.deadline - likely)
    )
    promise = Promise.FINE if chance >= _FINE else Promise.AT_RISK
    return Outlook(job.job.deadline, urgent, slack, promise, chance, earliest + offset)


class Left(NamedTuple):
    """Estimates of how long the rest of a job takes (µs)."""

    shortest: int
    mean: int
    longest: int

    def chance(self, time: int) -> float:
        """Return the share of outcomes that take at most ``time``: between the three estimates a straight line."""
        if time >= self.longest:
            return 0.9
        if time < self.shortest:
            return 0.0
        if time < self.mean:
            return 0.1 + 0.4 * (time - self.shortest) / max(1, self.mean - self.shortest)
        return 0.5 + 0.4 * (time - self.mean) / max(1, self.longest - self.mean)


def _of_running(job: JobEntry, now: int) -> Left:
    """Return what is left of a job of which nothing waits; an estimate that was outlived gives way to the limit."""

    def left(estimate: int) -> int:
        runs = [now - attempt.start for attempt in job.attempts.values()]
        return max((max(0, (estimate if ran < estimate else job.limit) - ran) for ran in runs), default=0)

    mean = job.limit if job.estimate is None else min(job.limit, job.estimate.mean)
    return Left(*(NEVER if each >= NEVER else left(each) for each in (job.shortest, mean, job.longest)))


def _start(core: Books, job: JobEntry, now: int) -> int | None:
    """Return when the rest of a job starts at the earliest: now if nothing of it waits, else when its next unit fits beside what is reserved."""
    if not job.waiting:
        return now
    if job.constraints is not None and (job.constraints.by_time or job.constraints.by_load):
        # Clauses that hold it up now may relax before its room comes.
        return _earliest(core, _lasting_shape(core, job.job), job.duration, job.group.asker)
    reservation = core.reservations.of(job)
    if reservation is not None and reservation.rows:
        return reservation.start
    slot = core.timeline.earliest(job.shape, job.duration, core.now, asker=job.group.asker)
    return None if slot is None else slot.start


def _lasting_shape(core: Books, job: Job) -> Shape:
    """Return the shape of the first unit of a job under the clauses that never relax."""
    wants = core.as_asked((job,), lasting_wants(job, core.dimensions))
    return core.fit.shape(job.request, job.tasks if job.gang else 1, wants)


def _earliest(core: Books, shape: Shape, duration: int, asker: int) -> int | None:
    """Return when a unit of a shape that perhaps no job waits with fits at the earliest."""
    core.fit.want(shape)
    try:
        slot = core.timeline.earliest(shape, duration, core.now, asker=asker)
    finally:
        core.fit.unwant(shape)
    return None if slot is None else slot.start
