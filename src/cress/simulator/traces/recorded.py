"""The event log of a center as a trace: its own jobs, nodes, groups and options (docs/simulate.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
import numpy as np

from cress.model.errors import InputError
from cress.model.events import Outcome
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Condition, Job, JobType
from cress.model.node import Node
from cress.model.times import DAY, MINUTE
from cress.model.zones import zone_of
from cress.past.pseudonyms import anonymised
from cress.past.recorded_log import LogSpan, RecordedLog
from cress.past.recorded_rows import NO_LIMIT, RecordedRow, rows_of
from cress.past.recorded_work import RecordedAttempt, RecordedNode, RecordedWork, recorded_work
from cress.simulator.trace_notes import TraceNotes
from cress.simulator.workload import Outage, PlannedDrain, SimulatedCluster, Workload

# Shorter closures of nodes are left out (µs): the restart of a center or an executor.
SHORT = MINUTE
# The time in which the tasks of a closed node are not stopped (µs).
FOR_EVER = 3_650 * DAY
_T = TypeVar("_T")
Span: TypeAlias = tuple[int, int | None]
_WORD = re.compile(r"[\w.-]+")


def load(path: Path, cluster: SimulatedCluster | None, span: LogSpan | None = None) -> Workload:
    """Return the workload that a center recorded at ``path``. Raises ``InputError``."""
    span = span or LogSpan()
    work = recorded_work(RecordedLog(path), span.since, span.until)
    if span.anonymise:
        work = anonymised(work)
    return workload_of(work, path, cluster)


def workload_of(work: RecordedWork, path: Path, cluster: SimulatedCluster | None = None) -> Workload:
    """Return recorded work as a workload; ``cluster`` replaces the recorded nodes. Raises ``InputError``."""
    notes = TraceNotes()
    for gap in work.gaps:
        notes.add("gap in the event log", count=1, detail=str(gap))
    if work.regrouped:
        notes.add("groups changed in the log", count=work.regrouped)
    rows = rows_of(work, lambda kind: notes.add(kind, count=1))
    if not rows:
        raise InputError("has no jobs in this time", hint="another time, or another log", file=str(path))
    if not work.nodes and cluster is None:
        raise InputError("has no nodes in this time", hint="--cluster FILE", file=str(path))
    return _columns(work, rows, path, cluster or _cluster(work), notes)


def _template(job: Job, work: RecordedWork) -> Job:
    """Return the keys of a job that are not columns. Members of services and dags become jobs of their own."""
    pad = work.dimensions.padded
    return msgspec.structs.replace(
        job,
        id=0,
        group="",
        request=pad(job.request) if job.parts else (),
        name="",
        user="",
        tasks=1,
        gang=False,
        priority=0,
        time_limit=None,
        deadline=0,
        within=0,
        type=JobType.BATCH,
        minimum=0,
        hold=False,
        after=(),
        family=0,
        plan=None,
        term=0,
        parts=tuple(msgspec.structs.replace(part, request=pad(part.request)) for part in job.parts),
    )


def _columns(
    work: RecordedWork, rows: Sequence[RecordedRow], path: Path, cluster: SimulatedCluster, notes: TraceNotes
) -> Workload:
    position = {row.number: i for i, row in enumerate(rows)}
    asked = [work.dimensions.padded(row.job.mean_request) for row in rows]
    requests = _numbered(asked)
    users, groups = _numbered(row.job.user for row in rows), _numbered(row.job.group or DEFAULT_GROUP for row in rows)
    templates = _numbered(_template(row.job, work) for row in rows)
    dags = _numbered(["", *(_dag(work, row.job) for row in rows)])
    after = tuple(tuple(_predecessors(row, position, notes)) for row in rows)
    until, fails = [row.until for row in rows], [row.fails for row in rows]
    deadlines = [row.job.deadline - work.since if row.job.deadline else NO_LIMIT for row in rows]
    deadlines = [max(0, deadline) if deadline != NO_LIMIT else NO_LIMIT for deadline in deadlines]
    named = _named_by_clauses(rows)
    return Workload(
        name=path.name or str(path),
        cluster=cluster,
        ids=[row.job.name if row.job.name in named else str(row.number) for row in rows],
        submit=_ints(row.submit for row in rows),
        run=_ints(row.run for row in rows),
        limit=_ints(row.limit for row in rows),
        tasks=_ints(row.tasks for row in rows),
        gang=np.array([row.job.gang for row in rows], dtype=np.bool_),
        killed=np.array([row.killed for row in rows], dtype=np.bool_),
        priority=_ints(row.job.priority for row in rows),
        request_index=_ints(requests[request] for request in asked),
        requests=[*requests],
        user_index=_ints(users[row.job.user] for row in rows),
        users=[*users],
        group_index=_ints(groups[row.job.group or DEFAULT_GROUP] for row in rows),
        group_names=[*groups],
        line=_ints(row.number for row in rows),
        notes=notes,
        templates=tuple(templates),
        template_index=_ints(templates[_template(row.job, work)] for row in rows),
        after=after if any(after) else None,
        family_index=_ints(dags[_dag(work, row.job)] for row in rows) if len(dags) > 1 else None,
        family_names=tuple(dags),
        fails=_ints(fails) if any(fails) else None,
        until=_ints(until) if any(at != NO_LIMIT for at in until) else None,
        deadline=_ints(deadlines) if any(at != NO_LIMIT for at in deadlines) else None,
        groups=work.groups,
        utc=work.since,
        zone=zone_of(work.zone) if work.zone else zone_of("UTC"),
        options=work.options,
    )


def _ints(values: Iterable[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(list(values), dtype=np.int64)


def _numbered(values: Iterable[_T]) -> dict[_T, int]:
    """Return the distinct values, numbered in their order."""
    found: dict[_T, int] = {}
    for value in values:
        found.setdefault(value, len(found))
    return found


def _dag(work: RecordedWork, job: Job) -> str:
    """Return the name of the dag of which a job is a step; empty for others."""
    if job.type is not JobType.BATCH or job.family <= 0:
        return ""
    return work.families.get(job.family) or f"dag-{job.family}"


def _predecessors(row: RecordedRow, position: dict[int, int], notes: TraceNotes) -> list[tuple[int, Condition]]:
    found = []
    for number, how in row.job.after:
        if number in position:
            found.append((position[number], how))
        else:
            notes.add("unknown predecessor", count=1)
    return found


def _named_by_clauses(rows: Sequence[RecordedRow]) -> set[str]:
    """Return the names of jobs that constraints name: these jobs keep their names, others have their ids."""
    texts = {text for row in rows for text in (row.job.requirement, row.job.rank) if text}
    words = {word for text in texts for word in _WORD.findall(text)}
    return {row.job.name for row in rows if row.job.name} & words


def _cluster(work: RecordedWork) -> SimulatedCluster:
    begin, end = work.since, work.until
    lost = {(attempt.node, attempt.ended) for attempt in _attempts(work) if attempt.outcome is Outcome.LOST}
    nodes: list[Node] = []
    outages: list[Outage] = []
    drains: list[PlannedDrain] = []
    for i, recorded in enumerate(work.nodes.values()):
        name = recorded.node.name
        nodes.append(msgspec.structs.replace(recorded.node, capacity=work.dimensions.padded(recorded.node.capacity)))
        gone = [*_away(recorded, begin)]
        closed = [*recorded.cordons]
        for first, last in recorded.aways:
            # Without its executor a node takes no tasks; those that ran there went on, unless they were lost.
            was_lost = any(
                node == name and first <= (at or 0) and (last is None or (at or 0) <= last) for node, at in lost
            )
            (gone if was_lost or not _runs_on(work, name, first) else closed).append((first, last))
        outages += (
            Outage(i, max(0, first - begin), last and last - begin) for first, last in _long(_joined(gone), begin, end)
        )
        drains += (
            PlannedDrain(i, max(0, first - begin), FOR_EVER, last and last - begin)
            for first, last in _long(_joined(closed), begin, end)
        )
    return SimulatedCluster(
        work.dimensions,
        tuple(nodes),
        work.racks.neighbours,
        tuple(outages),
        work.licences,
        tuple(drains),
        distances=work.racks.distances,
    )


def _away(recorded: RecordedNode, begin: int) -> Iterable[Span]:
    """Yield the times without the node, between and around its spans."""
    last: int | None = begin
    for first, end in recorded.spans:
        if last is not None and first > last:
            yield max(last, begin), first
        last = end
    if last is not None and recorded.spans:
        yield max(last, begin), None


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, those that touch or overlap as one."""
    found: list[Span] = []
    for first, last in sorted(spans, key=lambda span: span[0]):
        if found and (found[-1][1] is None or first <= (found[-1][1] or 0)):
            before = found[-1][1]
            found[-1] = found[-1][0], None if before is None or last is None else max(before, last)
        else:
            found.append((first, last))
    return found


def _long(spans: Iterable[Span], begin: int, end: int) -> Iterable[Span]:
    """Yield the spans that are not short, and not over before the beginning."""
    for first, last in spans:
        if (end if last is None else last) - max(first, begin) >= SHORT:
            yield first, last


def _attempts(work: RecordedWork) -> Iterable[RecordedAttempt]:
    return (attempt for job in work.jobs.values() for attempt in job.attempts)


def _runs_on(work: RecordedWork, name: str, at: int) -> bool:
    """Return whether a task ran on a node at a moment."""
    return any(
        one.node == name and one.placed <= at and (one.ended is None or one.ended > at) for one in _attempts(work)
    )
