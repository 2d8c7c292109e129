"""Nodes over time: attempts in as few rows as they need, reservations, and waiting jobs with expected starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cress.portal.drawings import ROW, Bar, Label, TimelineDrawing, TimeScale, bar
from cress.portal.job_view import lasts
from cress.portal.texts import segment, tone
from cress.protocol.cluster_views import NodeAttempt
from cress.protocol.job_views import JobView
from cress.protocol.lease_views import ReservationView

# Most rows of one node, and most waiting jobs that are drawn.
MOST_ROWS, MOST_WAITING = 8, 15


class GanttWork(NamedTuple):
    """The work that is drawn: attempts on the nodes, waiting jobs, and reservations."""

    attempts: Sequence[NodeAttempt]
    waiting: Sequence[JobView]
    reservations: Sequence[ReservationView]


def gantt_of(nodes: Sequence[str], work: GanttWork, scale: TimeScale, now: float) -> TimelineDrawing:
    """Return the drawing; below the nodes are waiting jobs whose expected start lies in the span."""
    bars: list[Bar] = []
    labels: list[Label] = []
    y = 0
    there: dict[str, list[NodeAttempt]] = {name: [] for name in nodes}
    for attempt in work.attempts:
        if attempt.node in there:
            there[attempt.node].append(attempt)
    for name in nodes:
        labels.append(Label(y, name, f"/nodes/{segment(name)}"))
        drawn = _node_bars(there[name], scale, now, y)
        bars += drawn
        rows = max((one.y - y) // ROW + 1 for one in drawn) if drawn else 1
        bars += _reservation_bars(name, work.reservations, scale, y)
        y += int(rows) * ROW
    for job in _expected(work.waiting, scale):
        labels.append(Label(y, f"job {job.id} waits", f"/jobs/{job.id}"))
        bars += _start_bars(job, scale, y)
        y += ROW
    mark = scale.x(now) if scale.begin <= now <= scale.end else None
    return TimelineDrawing(tuple(bars), tuple(labels), scale.marks(), scale.begin, scale.end, y + 20, mark)


def _node_bars(attempts: Sequence[NodeAttempt], scale: TimeScale, now: float, y: float) -> list[Bar]:
    """Return the bars of one node: each attempt in the first row that is free at its begin."""
    bars: list[Bar] = []
    free: list[float] = []
    for attempt in sorted(attempts, key=lambda one: one.placed):
        begin, end = attempt.started or attempt.placed, attempt.ended
        expected = attempt.expected
        last = max(end if end is not None else now, expected or 0.0)
        if last < scale.begin or attempt.placed > scale.end:
            continue
        row = next((number for number, until in enumerate(free) if until <= attempt.placed), len(free))
        if row >= MOST_ROWS:
            continue
        free[row : row + 1] = [last]
        at, href = y + row * ROW, f"/jobs/{attempt.job}"
        told = f"{attempt.name or 'job'} {attempt.job}.{attempt.task} on {attempt.node}"
        bars.append(
            bar(
                scale, begin, now if end is None else end, at, tone(attempt.outcome), f"{told}, {attempt.outcome}", href
            )
        )
        if expected is not None and expected > now:
            bars.append(bar(scale, max(now, begin), expected, at, "expected", f"{told}, expected until its end", href))
    return bars


def _reservation_bars(node: str, reservations: Sequence[ReservationView], scale: TimeScale, y: float) -> list[Bar]:
    bars = []
    for one in reservations:
        if node not in one.nodes or one.start is None or one.until is None:
            continue
        if one.until > scale.begin and one.start < scale.end:
            text = f"reservation {one.name} of {one.group or 'maintenance'} on {node}"
            bars.append(bar(scale, one.start, one.until, y, "reserved", text, f"/reservations#reservation-{one.name}"))
    return bars


def _expected(waiting: Sequence[JobView], scale: TimeScale) -> list[JobView]:
    """Return the waiting jobs that are expected to start in the span, the next ones first."""
    starts = [
        (job.expected_start.likely, job.id, job)
        for job in waiting
        if job.expected_start is not None and job.expected_start.likely is not None
    ]
    return [job for at, _, job in sorted(starts, key=lambda one: one[:2]) if at < scale.end][:MOST_WAITING]


def _start_bars(job: JobView, scale: TimeScale, y: float) -> list[Bar]:
    start = job.expected_start
    assert start is not None
    assert start.likely is not None
    told, href = f"{job.name or 'job'} {job.id}", f"/jobs/{job.id}"
    bars = []
    if start.earliest is not None and start.latest is not None and start.latest > start.earliest:
        text = f"{told}: eight of ten such jobs start in this time"
        bars.append(bar(scale, start.earliest, start.latest, y, "waits", text, href))
    end = expected_end(job, start.likely)
    bars.append(bar(scale, start.likely, end or start.likely, y, "wait", f"{told}, expected to start", href))
    return bars


def expected_end(job: JobView, begin: float) -> float | None:
    """Return the end of a task that is expected: by the estimate, else at the latest by its time limit."""
    length = lasts(job)
    return None if length is None else begin + length
