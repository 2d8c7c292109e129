"""Nodes × devices as a heat map, as SVG: a node is a column, a cell one of its devices."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from cress.model.node import Node

# From idle to full, in tenths; a full device stands out from one with a rest.
SHADES = (
    "#e1e5ea",
    "#dbe9f6",
    "#cfe2f3",
    "#b8d4ed",
    "#9ec5e6",
    "#82b4de",
    "#66a3d5",
    "#4b91cb",
    "#337fbf",
    "#f0b36a",
    "#174f82",
)
IDLE, FULL = 0, 10
WIDTH, CELL, TALL, GAP, LABEL = 1120, 5, 5, 12, 74
# The least height of a model, to fit its label of two lines.
LEAST = 35


def shade(allocated: int) -> int:
    """Return the shade of a device: 0 idle, 10 full, 9 from 700 thousandths on, otherwise by tenths.

    The rest of a device above 700 thousandths is hard to use.
    """
    if allocated <= 0:
        return IDLE
    if allocated >= 1000:
        return FULL
    return 9 if allocated >= 700 else 1 + min(7, allocated // 88)


def heat_map(nodes: Sequence[Node], devices: Sequence[Sequence[int]]) -> str:
    """Return the map; ``devices`` has the allocated thousandths of each device of each node."""
    models: dict[str, list[int]] = {}
    for f, node in enumerate(nodes):
        if devices[f]:
            models.setdefault(str(dict(node.attributes).get("GPUModel", "")), []).append(f)
    columns = (WIDTH - LABEL) // CELL
    paths: dict[int, list[str]] = {}
    grey = "fill='#626d7a'"
    labels, y = [], 0
    for model, places in sorted(models.items(), key=lambda item: (-sum(len(devices[f]) for f in item[1]), item[0])):
        most = max(len(devices[f]) for f in places)
        # Similar nodes stand together: those with most devices first, among these the fullest.
        places.sort(key=lambda f: (-len(devices[f]), -sum(devices[f]), f))
        number = f"{len(places):,} node{'s' * (len(places) > 1)}"
        labels.append(f"<text x='0' y='{y + 10}' font-size='11' {grey}>{escape(model)}</text>")
        labels.append(f"<text x='0' y='{y + 22}' font-size='9.5' {grey}>{number}</text>")
        top = y
        for begin in range(0, len(places), columns):
            for i, f in enumerate(places[begin : begin + columns]):
                for d, allocated in enumerate(sorted(devices[f], reverse=True)):
                    cell = f"M{LABEL + i * CELL} {y + d * TALL}h{CELL - 1}v{TALL - 1}h-{CELL - 1}z"
                    paths.setdefault(shade(allocated), []).append(cell)
            y += most * TALL + 4
        y = max(y + GAP - 4, top + LEAST)
    drawn = [f"<path d='{''.join(cells)}' fill='{SHADES[tone]}'/>" for tone, cells in sorted(paths.items())]
    font = "font-family='Helvetica, Arial, DejaVu Sans, sans-serif'"
    return f"<svg viewBox='0 0 {WIDTH} {max(1, y)}' {font}>{''.join(drawn)}{''.join(labels)}</svg>"


def legend() -> str:
    """Return the legend of the shades."""
    cells = [
        f"<rect x='{44 + 16 * tone}' y='3' width='14' height='12' fill='{SHADES[tone]}'/>" for tone in range(IDLE, 9)
    ]
    cells.append(f"<rect x='250' y='3' width='14' height='12' fill='{SHADES[9]}'/>")
    cells.append(f"<rect x='414' y='3' width='14' height='12' fill='{SHADES[FULL]}'/>")
    words = (
        (0, "idle"), (192, "69 %"), (270, "70 to 99 % allocated"), (434, "all of it"),
    )  # fmt: skip
    text = [f"<text x='{x}' y='13' font-size='12' fill='#626d7a'>{word}</text>" for x, word in words]
    font = "font-family='Helvetica, Arial, DejaVu Sans, sans-serif'"
    return f"<svg viewBox='0 0 {WIDTH} 20' {font}>{''.join(cells)}{''.join(text)}</svg>"
