"""Drawings as numbers for SVG: time lines of attempts, curves, bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cress.portal.texts import tone
from cress.protocol.job_views import AttemptView, JobView, TaskView

# Width of a time line in units of its view box, height of a row, width of the labels.
WIDTH, ROW, LABEL = 1000, 22, 90
# Rows are lower if there are more than MANY.
MANY, LOW_ROW = 20, 13
# Most rows that are drawn.
MOST_ROWS = 50
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
    """A mark of the axis at a moment, ``step`` seconds before the next one."""

    x: float
    at: float
    step: int


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
    row: int = ROW


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
        return tuple(AxisMark(self.x(at), at, step) for at in range(first, int(self.end) + 1, step))


class TimelineRow(NamedTuple):
    """A row of a time line: its name, the attempts in it, each with its task, and the page that it leads to.

    ``waits`` are the begin and end of its time before the first attempt. ``whole`` is drawn for a job that has no
    attempts of its own, as a dag has none.
    """

    name: str
    attempts: tuple[tuple[int, AttemptView], ...]
    href: str = ""
    waits: tuple[float, float] | None = None
    whole: JobView | None = None


def rows_of_tasks(tasks: Sequence[TaskView], submitted: float) -> list[TimelineRow]:
    """Return a row for each task that has an attempt."""
    return [
        TimelineRow(
            f"task {task.index}",
            tuple((task.index, attempt) for attempt in task.attempts),
            waits=(submitted, task.attempts[0].placed),
        )
        for task in tasks
        if task.attempts
    ]


def timeline_of(
    rows: Sequence[TimelineRow], end: float, now: float, lasts: float | None = None
) -> TimelineDrawing | None:
    """Return the time line of attempts until ``end``; None without an attempt.

    A running attempt is drawn lighter from ``now`` to its expected end, ``lasts`` seconds after its start.
    """
    shown = [row for row in rows if row.attempts or _started(row)][:MOST_ROWS]
    if not shown:
        return None
    height = ROW if len(shown) <= MANY else LOW_ROW
    attempts = [attempt for row in shown for _, attempt in row.attempts]
    begin = min(
        [attempt.placed for attempt in attempts]
        + [row.waits[0] for row in shown if row.waits]
        + [at for row in shown if (at := _started(row)) is not None]
    )
    ends = [_expected(attempt, lasts) or end for attempt in attempts]
    last = max([end, *ends])
    scale = TimeScale(begin, max(last, begin + 1))
    bars: list[Bar] = []
    for number, row in enumerate(shown):
        y = number * height
        if (started := _started(row)) is not None and row.whole is not None:
            state = row.whole.state
            bars.append(bar(scale, started, row.whole.ended or end, y, tone(state), f"{row.name}: {state}", row.href))
        if row.waits is not None and row.waits[1] > row.waits[0]:
            bars.append(bar(scale, *row.waits, y, "waits", f"{row.name} waits"))
        for task, attempt in row.attempts:
            bars += _bars_of(row, task, attempt, scale, y, end)
            expected = _expected(attempt, lasts)
            if expected is not None and expected > now:
                bars.append(bar(scale, now, expected, y, "expected", f"{row.name}: expected until its end"))
    labels = tuple(Label(number * height, row.name, row.href) for number, row in enumerate(shown))
    mark = scale.x(now) if last > now else None
    whole = len(shown) * height + 20
    return TimelineDrawing(tuple(bars), labels, scale.marks(), scale.begin, scale.end, whole, mark, height)


def _started(row: TimelineRow) -> float | None:
    """Return the start of a row that is drawn as a whole; None if it has not started."""
    return None if row.whole is None else row.whole.started


def _expected(attempt: AttemptView, lasts: float | None) -> float | None:
    """Return the expected end of a running attempt."""
    return None if attempt.ended is not None or lasts is None else (attempt.started or attempt.placed) + lasts


def _bars_of(
    row: TimelineRow, task: int, attempt: AttemptView, scale: TimeScale, y: float, now: float
) -> Iterable[Bar]:
    begin, end = attempt.started or attempt.placed, attempt.ended or now
    name = row.name if row.name == f"task {task}" else f"{row.name}, task {task}"
    if begin > attempt.placed:
        yield bar(scale, attempt.placed, begin, y, "wait", f"{name}: starting on {attempt.node}")
    text = f"{name} on {attempt.node}: {attempt.outcome}" + (f" ({attempt.error})" if attempt.error else "")
    yield bar(scale, begin, end, y, tone(attempt.outcome), text, row.href)


def bar(scale: TimeScale, begin: float, end: float, y: float, kind: str, text: str, href: str = "") -> Bar:
    """Return a bar from ``begin`` to ``end``."""
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
