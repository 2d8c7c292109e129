"""Deadlines of submitted jobs: moments of the wall clock from durations, and those of the steps of dags (design note
0023).
"""

from __future__ import annotations

from collections.abc import Sequence

from cress.core.outlook import Behind, TimeLeft, left_of
from cress.lifecycle.context import Context
from cress.lifecycle.jobs.deadlines import shown
from cress.lifecycle.slices import Slices, parts
from cress.model.critical_path import longest_behind
from cress.model.errors import InputError, NotAccepted
from cress.model.family import Dag
from cress.model.job import Job, JobType
from cress.model.jobfile.job import below
from cress.model.outlook import Promise

# Types of jobs whose tasks end.
ENDING = frozenset({JobType.BATCH, JobType.CRON, JobType.DAG})


def check(context: Context, job: Job) -> None:
    """Raise ``InputError`` or ``NotAccepted`` for a deadline of a job that does not end, or in the past."""
    if (job.deadline or job.within) and job.type not in ENDING:
        raise InputError(
            f"a {job.type.value} does not end", hint="only jobs that end can have a deadline", field="deadline"
        )
    if job.deadline and job.deadline <= context.utc:
        when = shown(context, job.deadline)
        raise NotAccepted(f"{when} has passed", hint="a later moment, or a time such as 6h", field="deadline")


def check_met(context: Context, jobs: Sequence[Job]) -> Slices[None]:
    """Raise ``NotAccepted`` if the forecast for one of these jobs, which are ``resolved``, misses its deadline."""
    paths = behind_of_submit(context, jobs)
    for part in parts(list(enumerate(jobs))):
        for place, job in part:
            found = context.foreseen(job, paths.get(place)) if job.plan is None else None
            if found is None or found.promise is not Promise.CANNOT:
                continue
            owner = -job.family - 1 if job.family else place
            end = (
                ""
                if found.earliest_end is None
                else f": the job ends at {shown(context, found.earliest_end)} at the earliest"
            )
            error = NotAccepted(
                f"cannot be met{end}", hint="a later deadline, or a submit that is not strict", field="deadline"
            )
            raise below(error, f"jobs[{owner}]") if len(jobs) > 1 else error
        yield


def behind_of_submit(context: Context, jobs: Sequence[Job]) -> dict[int, Behind]:
    """Return the work behind each step of the dags with deadlines in a submit, whose jobs are
    ``resolved``, by place.
    """
    steps = {place: -job.family - 1 for place, job in enumerate(jobs) if job.family and job.deadline}
    if not steps:
        return {}
    none = TimeLeft(0, 0, 0)
    left = [left_of(job, context.expected(job)) if place in steps else none for place, job in enumerate(jobs)]
    chains = [longest_behind(jobs, kind) for kind in zip(*left, strict=True)]
    return {
        place: Behind(jobs[owner].deadline, TimeLeft(*(chain[place] for chain in chains)))
        for place, owner in steps.items()
        if isinstance(jobs[owner].plan, Dag)
    }
