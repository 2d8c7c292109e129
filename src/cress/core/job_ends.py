"""Times of jobs on the clock of the core: predicted ends, deadlines, and when a job becomes overdue."""

from __future__ import annotations

from cress.core.books import Books
from cress.core.jobs import GroupState, JobEntry
from cress.model.times import NEVER

# By ``overdue_by``: the power of the part of the cluster that a unit leaves, and what divides the work ahead.
_OVERDUE_BY = {"work": (0, 1), "width": (2, 2)}


def expected_end(core: Books, job: JobEntry) -> int:
    """Return the expected end (µs) of a task that starts now, by its estimate even while limits count."""
    run = job.run if job.group.predicts else job.limit
    return NEVER if run >= NEVER else core.now + run


def end_of(core: Books, job: JobEntry) -> int:
    """Return the predicted end (µs) of a task that starts now: its expected end, or now plus its time limit.

    NEVER if neither is known.
    """
    return NEVER if job.duration >= NEVER else core.now + job.duration


def deadline_of(core: Books, job: JobEntry) -> int:
    """Return the deadline of a job on the clock of the core (µs).

    NEVER if it has none, or while the wall clock is unknown.
    """
    offset = core.groups.wall_offset
    return NEVER if not job.job.deadline or offset is None else job.job.deadline - offset


def overdue_at(core: Books, job: JobEntry) -> int:
    """Return the time (µs) at which a job submitted now becomes overdue.

    That is now plus ``overdue_after`` plus the time for the work ahead of it and its own work. With
    ``overdue_by=width`` it is half of that time, plus a part of ``overdue_after`` that is the smaller the wider the
    unit is: a wide one waits on after it is overdue, until enough tasks have ended (design note 0074).
    """
    group = job.group
    if not group.policy.timed:
        return NEVER
    total, patience = max(1, core.cluster.total_of(0)), group.options.overdue_after
    running = core.expected.work_left(core.now) // total
    ahead = running + time_for(core, group, group.policy.work() + job.waiting_work())
    power, parts = _OVERDUE_BY[group.options.overdue_by]
    others = max(0, total - sum(number * request[0] for request, number in job.unit_requests()))
    left: int = patience * others**power // total**power
    return core.now + left + ahead // parts


def time_for(core: Books, group: GroupState, work: int, quotas: int | None = None) -> int:
    """Return the time (µs) that a group needs for ``work`` (µs × millicores) with its share of the cluster.

    The share is the part of ``quotas`` that its quota is, by default of the sum over all groups.
    """
    quotas = sum(each.quota[0] for each in core.groups) if quotas is None else quotas
    return work // max(1, core.cluster.total_of(0) * group.quota[0] // max(1, quotas))
