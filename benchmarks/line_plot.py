"""A plot of lines as SVG: panels side by side with one scale, and one legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#1769b0", "#d2601a", "#13876a", "#a5498f", "#b58900", "#6b7280")
SHAPES = ("circle", "square", "diamond", "triangle", "circle", "square")
WIDTH, HEIGHT = 960, 380
LEFT, RIGHT, TOP, BOTTOM, GAP = 62, 18, 78, 52, 34
TICK = 36  # the width that a number below the axis takes
TEXT, SOFT, GRID = "#1d232b", "#626d7a", "#e3e7ec"


@dataclass(frozen=True)
class Panel:
    """One panel: the values of each line at the same places ``x``."""

    title: str
    x: Sequence[float]
    lines: Mapping[str, Sequence[float]]


def line_plot(panels: Sequence[Panel], *, x: str, y: str) -> str:
    """Return the plot; ``x`` and ``y`` are the titles of the axes, and y begins at 0."""
    names = list(panels[0].lines)
    most = max(value for panel in panels for line in panel.lines.values() for value in line)
    step = next(each for each in (1, 2, 5, 10, 20, 25, 50) if each * 6 >= most or each == 50)
    top = max(step, -(-most // step) * step)
    width = (WIDTH - LEFT - RIGHT - GAP * (len(panels) - 1)) / len(panels)
    middle = TOP + _tall() / 2
    font = 'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" font-size="13"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {font}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        *_legend(names),
        (
            f'<text transform="translate(16 {middle:.0f}) rotate(-90)" text-anchor="middle" '
            f'fill="{SOFT}">{escape(y)}</text>'
        ),
    ]
    for i, panel in enumerate(panels):
        parts += _panel(panel, LEFT + i * (width + GAP), width, step, top, x, labelled=i == 0)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _tall() -> float:
    return HEIGHT - TOP - BOTTOM


def _legend(names: Sequence[str]) -> list[str]:
    parts, left = [], float(LEFT)
    for i, name in enumerate(names):
        parts.append(f'<path d="M{left:.0f} 22h28" stroke="{COLOURS[i]}" stroke-width="2.4"/>')
        parts.append(_mark(i, left + 14, 22))
        parts.append(f'<text x="{left + 36:.0f}" y="26.5" fill="{TEXT}">{escape(name)}</text>')
        left += 66 + 7.4 * len(name)
    return parts


def _panel(
    panel: Panel, left: float, width: float, step: float, top: float, x_title: str, *, labelled: bool
) -> list[str]:
    low, high = min(panel.x), max(panel.x)

    def across(value: float) -> float:
        return left + width * (0.08 + 0.84 * (value - low) / ((high - low) or 1))

    def down(value: float) -> float:
        return TOP + _tall() * (1 - value / top)

    parts = [f'<text x="{left:.0f}" y="{TOP - 14}" font-weight="bold" fill="{TEXT}">{escape(panel.title)}</text>']
    for k in range(round(top / step) + 1):
        height = down(k * step)
        parts.append(f'<path d="M{left:.1f} {height:.1f}h{width:.1f}" stroke="{GRID if k else SOFT}"/>')
        if labelled:
            parts.append(
                f'<text x="{left - 8:.0f}" y="{height + 4.5:.1f}" text-anchor="end" fill="{SOFT}">{k * step:g}</text>'
            )
    below = f'y="{HEIGHT - BOTTOM + 20}" text-anchor="middle" fill="{SOFT}"'
    every = -(-len(panel.x) * TICK // int(width))  # so that the numbers do not touch
    parts += [f'<text x="{across(value):.1f}" {below}>{value:g}</text>' for value in panel.x[::every]]
    parts.append(
        f'<text x="{left + width / 2:.1f}" y="{HEIGHT - 12}" text-anchor="middle" '
        f'fill="{SOFT}">{escape(x_title)}</text>'
    )
    for i, values in enumerate(panel.lines.values()):
        points = [(across(a), down(b)) for a, b in zip(panel.x, values, strict=True)]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in points)
        parts.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[i]}" stroke-width="2.4"/>')
        parts += [_mark(i, a, b) for a, b in points]
    return parts


def _mark(i: int, x: float, y: float) -> str:
    """The mark of line ``i``: lines differ by shape too, not by colour alone."""
    fill = f'fill="{COLOURS[i]}" stroke="#fff"'
    shape = SHAPES[i]
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {fill}/>'
    if shape == "square":
        return f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9" {fill}/>'
    if shape == "diamond":
        return f'<path d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z" {fill}/>'
    return f'<path d="M{x:.1f} {y - 6:.1f}l6 10.5h-12z" {fill}/>'
