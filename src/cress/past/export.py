"""Recorded work as files for other programs: jobs as a table or in Standard Workload Format, and nodes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime

from cress.model.events import Outcome
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job
from cress.model.resources import Dimensions
from cress.model.units import format_amount, format_duration
from cress.past.recorded_rows import NO_LIMIT, RecordedRow, rows_of
from cress.past.recorded_work import RecordedJob, RecordedWork

SECOND = 1_000_000
UNKNOWN = -1
# Columns of the table: those that ``cress simulate`` reads, then what happened, which it ignores.
FIRST = ("job", "submit", "run", "time_limit", "group", "user", "priority", "tasks", "gang")
KEYS = ("requirement", "rank", "application", "workload", "max_per_node", "max_per_rack", "after", "until", "deadline")
HAPPENED = ("name", "start", "end", "wait", "state", "attempts", "preemptions", "ran_on")
# Status of a job in the Standard Workload Format.
FAILED, COMPLETED, CANCELLED = 0, 1, 5


def as_csv(work: RecordedWork) -> str:
    """Return the jobs as a table that ``cress simulate`` reads with ``--cluster``; times are seconds from the first."""
    rows = rows_of(work, lambda _: None)
    dimensions = _used(work, rows)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((*FIRST, *dimensions, *KEYS, *HAPPENED))
    known = {row.number for row in rows}
    for row in rows:
        writer.writerow(_cells(work, row, dimensions, known))
    return out.getvalue()


def _cells(work: RecordedWork, row: RecordedRow, dimensions: tuple[str, ...], known: set[int]) -> Iterator[object]:
    job, recorded = row.job, work.jobs[row.number]
    yield row.number
    yield _time(row.submit)
    yield UNKNOWN if row.run == NO_LIMIT else _time(row.run)
    yield "" if row.limit == NO_LIMIT else _time(row.limit)
    yield job.group or DEFAULT_GROUP
    yield job.user
    yield job.priority
    yield row.tasks
    yield "true" if job.gang else "false"
    yield from _amounts(job, work.dimensions, dimensions)
    yield from (job.requirement, job.rank, job.application, job.workload, job.max_per_node, job.max_per_rack)
    yield " ".join(f"{number}:{how.value}" for number, how in job.after if number in known)
    yield "" if row.until == NO_LIMIT else _time(row.until)
    yield _time(max(0, job.deadline - work.since)) if job.deadline else ""
    started, ended = recorded.started, recorded.ended
    yield job.name
    yield "" if started is None else _time(max(0, started - work.since))
    yield "" if ended is None else _time(max(0, ended - work.since))
    yield "" if started is None else _time(max(0, started - max(recorded.submitted, work.since)))
    yield state_of(recorded)
    yield len(recorded.attempts)
    yield sum(attempt.outcome is Outcome.PREEMPTED for attempt in recorded.attempts)
    yield " ".join(dict.fromkeys(attempt.node for attempt in recorded.attempts))


def as_swf(work: RecordedWork) -> str:
    """Return the jobs in Standard Workload Format 2.2: processors instead of amounts, numbers instead of names.

    A job has the cores of all its tasks, rounded up.
    """
    rows = rows_of(work, lambda _: None)
    users: dict[str, int] = {}
    groups: dict[str, int] = {}
    cores = -(-sum(node.node.capacity[0] for node in work.nodes.values()) // 1000)
    begin = datetime.fromtimestamp(work.since / SECOND, UTC)
    lines = [
        "; Version: 2.2",
        "; Computer: a cluster of Cress",
        f"; StartTime: {begin:%a %b %d %H:%M:%S UTC %Y}",
        f"; UnixStartTime: {work.since // SECOND}",
        f"; TimeZoneString: {work.zone or 'UTC'}",
        f"; MaxJobs: {len(rows)}",
        f"; MaxNodes: {len(work.nodes)}",
        f"; MaxProcs: {cores}",
        "; Note: written by cress export; a job has the cores of all its tasks, rounded up",
    ]
    known = {row.number for row in rows}
    for row in rows:
        job, recorded = row.job, work.jobs[row.number]
        processors = max(1, -(-job.mean_request[0] * row.tasks // 1000))
        started = recorded.started
        wait = UNKNOWN if started is None else max(0, started - max(recorded.submitted, work.since)) // SECOND
        run = UNKNOWN if started is None or row.run == NO_LIMIT else max(1, round(row.run / SECOND))
        limit = UNKNOWN if row.limit == NO_LIMIT else max(1, row.limit // SECOND)
        state = {"succeeded": COMPLETED, "cancelled": CANCELLED}.get(state_of(recorded), FAILED)
        before = next((number for number, _ in job.after if number in known), UNKNOWN)
        user = users.setdefault(job.user, len(users) + 1)
        group = groups.setdefault(job.group or DEFAULT_GROUP, len(groups) + 1)
        numbers = (
            row.number, row.submit // SECOND, wait, run, processors, UNKNOWN, UNKNOWN, processors, limit, UNKNOWN,
            state, user, group, UNKNOWN, 1, UNKNOWN, before, UNKNOWN,
        )  # fmt: skip
        lines.append(" ".join(map(str, numbers)))
    return "\n".join(lines) + "\n"


def nodes_as_csv(work: RecordedWork) -> str:
    """Return the nodes as a cluster file in CSV, for ``cress simulate --cluster``."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = work.dimensions.names
    writer.writerow(("name", "rack", *names))
    for recorded in work.nodes.values():
        capacity = work.dimensions.padded(recorded.node.capacity)
        cells = [
            format_amount(amount, work.dimensions.measure(name)) for name, amount in zip(names, capacity, strict=True)
        ]
        writer.writerow((recorded.node.name, recorded.node.rack, *cells))
    return out.getvalue()


def state_of(job: RecordedJob) -> str:
    """Return how a recorded job stood at the end of the log: waiting, running, succeeded, failed or cancelled."""
    if any(attempt.ended is None for attempt in job.attempts):
        return "running"
    if job.cancelled is not None:
        outcomes = {attempt.outcome for attempt in job.attempts}
        return "failed" if Outcome.FAILED in outcomes else "cancelled"
    if job.ended is None:
        return "waiting"
    last = [attempt.outcome for attempt in job.attempts if not attempt.again]
    return "succeeded" if all(outcome is Outcome.SUCCEEDED for outcome in last) else "failed"


def _used(work: RecordedWork, rows: list[RecordedRow]) -> tuple[str, ...]:
    """Return the dimensions that some job asks for; cores in any case."""
    pad = work.dimensions.padded
    asked = [pad(row.job.mean_request) for row in rows]
    return tuple(name for k, name in enumerate(work.dimensions.names) if k == 0 or any(request[k] for request in asked))


def _amounts(job: Job, dimensions: Dimensions, names: tuple[str, ...]) -> Iterator[str]:
    request = dimensions.padded(job.mean_request)
    for name in names:
        yield format_amount(request[dimensions.index[name]], dimensions.measure(name))


def _time(value: int) -> str:
    """Return a time in seconds, exactly."""
    return f"{value / SECOND:.6f}".rstrip("0").rstrip(".")


def describe_span(work: RecordedWork) -> str:
    """Return the length of the recorded time."""
    return format_duration(max(0, work.until - work.since) // SECOND * SECOND)
