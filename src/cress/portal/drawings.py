"""Drawings as numbers for SVG: time lines of attempts, curves, bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cress.portal.texts import tone
from cress.protocol.job_views import AttemptView, TaskView

# Width of a time line in units of its view box, height of a row, width of the labels.
WIDTH, ROW, LABEL = 1000, 22, 90
# Most rows that are drawn.
MOST_ROWS = 40
# Distances between marks of an axis in seconds.
STEPS = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400, 30 * 86400)


class Bar(NamedTuple):
    """A bar of a time line: its place and class, and its text for pointer and screen reader."""

    x: float
    width: float
    y: float
    tone: str
    text: str
    href: str = ""


class AxisMark(NamedTuple):
    """A mark of the axis at a moment."""

    x: float
    at: float


class Label(NamedTuple):
    """The name of a row."""

    y: float
    text: str
    href: str = ""


class TimelineDrawing(NamedTuple):
    """Rows of bars over time, from ``begin`` to ``end`` (seconds since the epoch)."""

    bars: tuple[Bar, ...]
    labels: tuple[Label, ...]
    marks: tuple[AxisMark, ...]
    begin: float
    end: float
    height: int
    now: float | None = None


class TimeScale(NamedTuple):
    """Moments as places on the axis."""

    begin: float
    end: float

    def x(self, at: float) -> float:
        """Return the place of a moment."""
        length = max(self.end - self.begin, 1e-3)
        inside = min(max(at, self.begin), self.end)
        return round(LABEL + (inside - self.begin) / length * (WIDTH - LABEL - 10), 1)

    def marks(self) -> tuple[AxisMark, ...]:
        """Return about six marks at round moments."""
        length = self.end - self.begin
        step = next((step for step in STEPS if length / step <= 7), STEPS[-1])
        first = int(self.begin // step + 1) * step
        return tuple(AxisMark(self.x(at), at) for at in range(first, int(self.end) + 1, step))


def timeline_of(tasks: Sequence[TaskView], submitted: float, end: float) -> TimelineDrawing | None:
    """Return the time line of the attempts of tasks; None without an attempt."""
    shown = [task for task in tasks if task.attempts][:MOST_ROWS]
    if not shown:
        return None
    scale = TimeScale(submitted, max(end, submitted + 1))
    bars: list[Bar] = []
    for row, task in enumerate(shown):
        for attempt in task.attempts:
            bars += _bars_of(task.index, attempt, scale, row * ROW)
    labels = tuple(Label(row * ROW, f"task {task.index}") for row, task in enumerate(shown))
    return TimelineDrawing(tuple(bars), labels, scale.marks(), scale.begin, scale.end, len(shown) * ROW + 20)


def _bars_of(task: int, attempt: AttemptView, scale: TimeScale, y: float) -> Iterable[Bar]:
    begin, end = attempt.started or attempt.placed, attempt.ended or scale.end
    if begin > attempt.placed:
        yield _bar(scale, attempt.placed, begin, y, "wait", f"task {task}: starting on {attempt.node}")
    text = f"task {task} on {attempt.node}: {attempt.outcome}" + (f" ({attempt.error})" if attempt.error else "")
    yield _bar(scale, begin, end, y, tone(attempt.outcome), text)


def _bar(scale: TimeScale, begin: float, end: float, y: float, kind: str, text: str, href: str = "") -> Bar:
    x = scale.x(begin)
    return Bar(x, max(2.0, round(scale.x(end) - x, 1)), y, kind, text, href)


def curve(values: Sequence[tuple[float, float]], width: int = 300, height: int = 60) -> str:
    """Return the points of a curve for ``polyline``: values from 0 to 1 over time; empty with fewer than two."""
    if len(values) < 2:
        return ""
    begin, end = values[0][0], values[-1][0]
    length = max(end - begin, 1e-3)
    return " ".join(
        f"{(at - begin) / length * width:.1f},{height - 2 - min(1.0, max(0.0, value)) * (height - 4):.1f}"
        for at, value in values
    )
