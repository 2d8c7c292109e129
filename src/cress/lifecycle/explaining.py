"""The explanation of a waiting job, with the estimates and the wall clock of the machine."""

from __future__ import annotations

import msgspec

from cress.core.answers.explain import Copies, expected_start, explain
from cress.lifecycle.context import Context
from cress.lifecycle.jobs import members
from cress.lifecycle.jobs.reasons import reason
from cress.lifecycle.tables.family_rows import Family
from cress.lifecycle.tables.rows import LiveJob
from cress.model.estimates import RunEstimate
from cress.model.explanation import ExpectedStart, Explanation
from cress.model.job import JobType


def explained(context: Context, number: int, copies: Copies) -> Explanation | None:
    """Return why a job waits, when it will start and what would change that; ``None`` if no task of it waits."""
    told = reason(context, number)
    if not told:
        return None
    start, offset = expected_start(number, copies, estimates(context)), context.utc - context.now
    early, likely, late = (None if at is None else at + offset for at in (start.earliest, start.likely, start.latest))
    start = ExpectedStart(earliest=early, likely=likely, latest=late, because=start.because)
    return msgspec.structs.replace(explain(context.core, number, told, copies), start=start)


def waiting_job(context: Context, job: LiveJob | Family) -> int | None:
    """Return the number of a job with a waiting task: the job itself, or the first such member of a family."""
    numbers = [job.job.id] if isinstance(job, LiveJob) else [live.job.id for live in members.of(context, job)]
    return next((number for number in numbers if context.core.veto(number) is not None), None)


def estimates(context: Context) -> dict[int, RunEstimate]:
    """Return what is known of the runs of jobs whose groups work without estimates."""
    return {
        number: context.estimator.expected(job.job)
        for number, job in context.core.jobs.items()
        if job.estimate is None and job.job.type is JobType.BATCH and not job.job.is_lease
    }
