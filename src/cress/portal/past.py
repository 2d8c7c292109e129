"""The use of the past as curves: of each dimension, of groups against their quotas, of waiting and running tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cress.client import calls
from cress.client.errors import ClientError
from cress.portal.viewers import LARGE, Viewer
from cress.protocol.cluster_views import PastUsePage

# Seconds for which curves are kept: a point of the shortest span.
FRESH = 15.0
# The spans of the API, in the order of the links.
SPANS = ("hour", "day", "week")
# Fewest points of a drawing.
FEWEST = 20
# Size of the drawings.
WIDTH, HEIGHT, LOW = 300, 60, 30

Points = Sequence[float | None]


class PastCurve(NamedTuple):
    """A curve with gaps: points of ``polyline`` for each part without a gap; ``line`` is the height of its limit.

    ``most`` is the largest value.
    """

    parts: tuple[str, ...]
    height: int
    most: float
    line: float | None = None


class PastCurves(NamedTuple):
    """The curves of a span, from ``begin`` to ``end`` (seconds since the epoch)."""

    span: str
    begin: float
    end: float
    use: Mapping[str, PastCurve]
    groups: Mapping[str, PastCurve]
    tasks: Mapping[str, PastCurve]


def span_of(asked: str) -> str:
    """Return the span that an address asks for; the hour if it asks for none that exists."""
    return asked if asked in SPANS else SPANS[0]


def curve_of(points: Points, height: int, top: float, line: float | None = None) -> PastCurve | None:
    """Return the curve of values from 0 to ``top``; None without a point.

    ``line`` is a value at which a limit is drawn.
    """
    known = [value for value in points if value is not None]
    if not known:
        return None
    last = max(1, len(points) - 1)

    def y(value: float) -> float:
        return round(height - 2 - min(1.0, max(0.0, value / top)) * (height - 4), 1)

    parts: list[list[str]] = [[]]
    for number, value in enumerate(points):
        if value is None:
            parts.append([])
        else:
            parts[-1].append(f"{number / last * WIDTH:.1f},{y(value)}")
    # A single point is drawn as a short line.
    drawn = tuple(" ".join(part if len(part) > 1 else part * 2) for part in parts if part)
    return PastCurve(drawn, height, max(known), None if line is None else y(line))


def curves_of(page: PastUsePage, span: str) -> PastCurves:
    """Return the curves of an answer. The scale of a group reaches to its quota, or to the largest use beyond it."""
    every = [points for part in (page.use, page.groups, page.tasks) for points in part.values()]
    steps = max(map(len, every), default=0)
    # What was before the first sample is left out, so that a young cluster fills its drawings.
    first = min((_first(points) for points in every), default=0)
    first = max(0, min(first, steps - FEWEST))
    page = PastUsePage(
        begin=page.begin + first * page.step,
        step=page.step,
        use={name: points[first:] for name, points in page.use.items()},
        groups={name: points[first:] for name, points in page.groups.items()},
        tasks={name: points[first:] for name, points in page.tasks.items()},
    )
    use = {name: curve_of(points, HEIGHT, 1.0) for name, points in page.use.items()}
    groups = {name: curve_of(points, LOW, _top(points, 1.0), 1.0) for name, points in page.groups.items()}
    # Each has its own scale: beside a hundred thousand waiting tasks, running ones would be a line at the bottom.
    tasks = {name: curve_of(points, HEIGHT, _top(points, 1.0)) for name, points in page.tasks.items()}
    end = page.begin + (steps - first) * page.step
    return PastCurves(span, page.begin, end, _there(use), _there(groups), _there(tasks))


async def past_curves(viewer: Viewer, span: str, group: str = "") -> PastCurves | None:
    """Return the curves of a span, of all or of one group; None if they are not known."""
    call = calls.past_use(span, group)
    try:
        # What happens does not make the past old, only time does.
        found = await viewer.keep((LARGE, f"{call.path} {span} {group}"), lambda: viewer.client.ask(call), FRESH)
    except ClientError:
        return None
    return curves_of(found, span)


def _first(points: Points) -> int:
    """Return the place of the first point that is known."""
    return next((number for number, value in enumerate(points) if value is not None), len(points))


def _top(points: Points, least: float) -> float:
    return max([least, *(value for value in points if value is not None)])


def _there(curves: Mapping[str, PastCurve | None]) -> dict[str, PastCurve]:
    return {name: curve for name, curve in curves.items() if curve is not None}
