"""Questions of shells about jobs: whether they can ever run, need an estimate, or wait no more."""

from __future__ import annotations

from collections.abc import Iterable

from cress.core.accounts import AtBound
from cress.core.books import Books
from cress.core.groups.limits import never_lent, never_within_max
from cress.core.jobs import JobEntry
from cress.core.placing.constraints import NO_WANTS
from cress.core.placing.kinds import constraints_of, lasting_wants
from cress.core.queueing import has_unreleased
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job


def never_fits(core: Books, job: Job) -> bool:
    """Return True if no present node could ever hold a task of ``job``, or all nodes together its gang.

    Only static clauses that never relax count; running tasks are ignored.
    """
    wants = core.asking.as_asked((job,), lasting_wants(job, core.dimensions))
    if not core.fit.ever_fits(job.request, wants):
        return True
    constraints = constraints_of(job, core.dimensions) if job.gang else None
    tasks = job.tasks if constraints is None or not constraints.least else min(job.tasks, constraints.least)
    return job.gang and not core.fit.holds_when_empty(job.request, tasks, wants)


def never_within_bounds(core: Books, job: Job) -> AtBound | None:
    """Return the bound that ``job``, or its gang, exceeds even when it runs alone; ``None`` if there is none.

    A bound is a MaxQuota, or the capacity that other groups keep for themselves.
    """
    constraints = constraints_of(job, core.dimensions)
    shape = core.shapes.first(job, constraints)
    return bounds_never_allow(
        core, JobEntry.of(job, core.groups.get(job.group), shape, core.now, constraints=constraints)
    )


def bounds_never_allow(core: Books, entry: JobEntry) -> AtBound | None:
    """Return the bound that a job, or its gang, exceeds even when it runs alone; ``None`` if there is none."""
    if not core.groups.bounded and not core.groups.tree.keeps:
        return None
    job, constraints = entry.as_unit, entry.constraints
    tasks = job.tasks if constraints is None or not constraints.least else min(job.tasks, constraints.least)
    wants = core.asking.as_asked((job,), lasting_wants(job, core.dimensions)) if core.groups.kinds else NO_WANTS
    asked = (core.groups, entry, tasks if job.gang else 1, core.cluster, wants)
    return never_within_max(*asked) or never_lent(*asked)


def needs_estimate(core: Books, job: Job) -> bool:
    """Return True if an estimate of a job counts: for the policy of its group, for loans or for its deadline.

    False if the group does not exist (any more).
    """
    group = core.groups.by_name.get(job.group or DEFAULT_GROUP)
    return group is not None and (group.policy.timed or core.pool.lends or bool(job.deadline))


def settled(core: Books, jobs: Iterable[int]) -> list[int]:
    """Return the jobs among these that have no task that waits, for room or for a task of another job."""
    found = [(number, core.jobs.get(number)) for number in jobs]
    return [number for number, entry in found if entry is None or not (entry.waiting > 0 or has_unreleased(entry))]
