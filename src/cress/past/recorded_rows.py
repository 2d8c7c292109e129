"""Recorded jobs as rows: when they were submitted, how long their tasks ran, and how many attempts failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cress.model.job import Job, JobType
from cress.past.recorded_work import RecordedJob, RecordedWork

# No time: of a limit, of a run that ends only when it is stopped, of a cancellation that did not happen.
NO_LIMIT = -1


@dataclass(frozen=True)
class RecordedRow:
    """A job: its number, when it was submitted, how long its tasks ran, its limit, and when it was cancelled.

    Times are µs since the beginning of the work, ``NO_LIMIT`` if there is none. ``killed``: it ran as long as its
    limit. ``fails`` is the number of attempts of each task that failed before another one.
    """

    number: int
    job: Job
    submit: int
    run: int
    limit: int
    tasks: int
    killed: bool
    fails: int
    until: int


def row_of(work: RecordedWork, number: int, recorded: RecordedJob, note: Callable[[str], object]) -> RecordedRow | None:
    """Return a job as a row, in µs since the beginning of the log; ``None`` if too little is known of it."""
    job, begin = recorded.job, work.since
    if recorded.tasks <= 0:
        return None
    submit = max(recorded.submitted, begin)
    until = NO_LIMIT if recorded.cancelled is None else max(recorded.cancelled, submit + 1) - begin
    limit = NO_LIMIT if job.time_limit is None else job.time_limit
    if recorded.before:
        note("job from before the log")
    if job.type is not JobType.BATCH or job.is_lease:
        note("task of a service, database or lease")
    last: dict[int, int] = {}
    fails: dict[int, int] = {}
    for attempt in recorded.attempts:
        if attempt.ended is None or attempt.again:
            if attempt.outcome is not None and attempt.outcome.value == "failed":
                fails[attempt.task] = fails.get(attempt.task, 0) + 1
            continue
        last[attempt.task] = attempt.ended - max(attempt.placed, begin)
    running = [attempt for attempt in recorded.attempts if attempt.ended is None]
    if last:
        run = max(last.values()) if job.gang else sum(last.values()) // len(last)
    elif running:
        note("running at the end of the log")
        run = max(limit, *(work.until - max(attempt.placed, begin) for attempt in running))
    elif until != NO_LIMIT:
        # It would have run at least until it was cancelled, if it had started at once.
        run = limit if limit != NO_LIMIT else until - (submit - begin)
    elif limit != NO_LIMIT:
        note("not started in the log")
        run = limit
    else:
        note("unknown run time")
        return None
    if until != NO_LIMIT and last and not running and len(last) == recorded.tasks and run < until:
        # It ended by itself as far as the log shows, so the cancellation cut nothing that is known.
        until = until if recorded.ended is None or recorded.ended >= (recorded.cancelled or 0) else NO_LIMIT
    killed = limit != NO_LIMIT and run >= limit and bool(last)
    return RecordedRow(
        number,
        job,
        submit - begin,
        run if run == NO_LIMIT else max(1, run if limit == NO_LIMIT else min(run, limit)),
        limit,
        recorded.tasks,
        killed,
        max(fails.values(), default=0) if len(fails) == recorded.tasks or job.gang else 0,
        until,
    )


def rows_of(work: RecordedWork, note: Callable[[str], object]) -> list[RecordedRow]:
    """Return the jobs of which enough is known, in order of submission; ``note`` is told what was assumed of others."""
    found = (row_of(work, number, job, note) for number, job in work.jobs.items())
    return sorted((row for row in found if row is not None), key=lambda row: (row.submit, row.number))
