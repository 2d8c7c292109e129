"""Times of jobs on the clock of the core: predicted ends, deadlines, and when a job becomes overdue."""

from __future__ import annotations

from cress.core.books import Books
from cress.core.jobs import GroupState, JobEntry
from cress.model.times import NEVER

# The time for the work ahead of a job counts as one part of so many until the job is overdue.
PART_OF_WORK = 2


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

    That is now plus a part of ``overdue_after``, the smaller the wider the unit is, plus half of the time for the work
    ahead of it and its own work (design note 0074). A wide unit waits on after it is overdue, until so many tasks have
    ended.
    """
    group = job.group
    if not group.policy.timed:
        return NEVER
    total = max(1, core.cluster.total_of(0))
    others = max(0, total - (job.job.total(0) if job.job.gang else job.job.request[0]))
    patience = group.options.overdue_after * others * others // (total * total)
    running = core.expected.work_left(core.now) // total
    work = group.policy.work() + job.waiting_work()
    return core.now + patience + (running + time_for(core, group, work)) // PART_OF_WORK


def time_for(core: Books, group: GroupState, work: int, quotas: int | None = None) -> int:
    """Return the time (µs) that a group needs for ``work`` (µs × millicores) with its share of the cluster.

    The share is the part of ``quotas`` that its quota is, by default of the sum over all groups.
    """
    quotas = sum(each.quota[0] for each in core.groups) if quotas is None else quotas
    return work // max(1, core.cluster.total_of(0) * group.quota[0] // max(1, quotas))
