"""Small line plots over arrivals or time, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

COLOURS = ("#1769b0", "#d2601a", "#13876a", "#a5498f", "#b58900", "#6b7280")
WIDTH, HEIGHT = 360, 250
LEFT, RIGHT, TOP, BOTTOM = 44, 24, 8, 30
TEXT = "font-size='11' fill='#626d7a' font-family='Helvetica, Arial, DejaVu Sans, sans-serif'"


class Curve(NamedTuple):
    """One line."""

    name: str
    x: list[float]
    y: list[float]


def curves(lines: Sequence[Curve], begin: float, unit: str = " %") -> str:
    """Return the plot of the lines from ``begin`` on; ``unit`` is that of the numbers on the horizontal axis."""
    shown = [[(x, y) for x, y in zip(line.x, line.y, strict=True) if x >= begin] for line in lines]
    values = [y for points in shown for _, y in points]
    right = max((x for points in shown for x, _ in points), default=1.0)
    low = min(values, default=0.0) if begin else 0.0
    step = _step(max(values, default=1.0) - low)
    bottom = step * (low // step)
    top = max(bottom + step, step * -(-max(values, default=1.0) // step))
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + (x - begin) / max(1e-9, right - begin) * wide, TOP + tall - (y - bottom) / (top - bottom) * tall

    parts = [f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img'>"]
    for i in range(round((top - bottom) / step) + 1):
        _, y = place(begin, bottom + i * step)
        parts.append(f"<path d='M{LEFT} {y:.1f}H{WIDTH - RIGHT}' stroke='#e3e7ec'/>")
        parts.append(f"<text x='{LEFT - 6}' y='{y + 4:.1f}' text-anchor='end' {TEXT}>{bottom + i * step:,.10g}</text>")
    across = _step(right - begin)
    tick = across * -(-begin // across)
    while tick <= right:
        x, _ = place(tick, bottom)
        parts.append(f"<text x='{x:.1f}' y='{HEIGHT - 12}' text-anchor='middle' {TEXT}>{tick:.10g}{unit}</text>")
        tick += across
    for i, (line, points) in enumerate(zip(lines, shown, strict=True)):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        colour = COLOURS[i % len(COLOURS)]
        parts.append(
            f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2' stroke-linejoin='round'>"
            f"<title>{escape(line.name)}</title></polyline>"
        )
    return "".join([*parts, "</svg>"])


def _step(span: float) -> float:
    """Return a round distance between the grid lines of an axis: four to eight of them."""
    step = 1e-3
    while True:
        for factor in (1, 2, 5):
            if span <= 6 * step * factor:
                return step * factor
        step *= 10
