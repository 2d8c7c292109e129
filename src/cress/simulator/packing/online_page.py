"""The page of a cluster where pods come and go: the table, devices over time, and the heat maps.

One file, without scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from cress.model.node import Node
from cress.model.times import DAY
from cress.simulator.files import whole_file
from cress.simulator.packing.curves import COLOURS, Curve, curves
from cress.simulator.packing.device_use import DeviceUse
from cress.simulator.packing.heat import heat_map, legend
from cress.simulator.packing.page import STYLE


def write_page(
    path: Path,
    summary: dict[str, Any],
    rows: Sequence[Sequence[str]],
    nodes: Sequence[Node],
    uses: Sequence[DeviceUse | None],
) -> None:
    """Write the page with these rows of the table; ``uses`` are the devices of the first run of each order."""
    with whole_file(path) as file:
        file.write(page(summary, rows, nodes, uses).encode())


def page(
    summary: dict[str, Any], rows: Sequence[Sequence[str]], nodes: Sequence[Node], uses: Sequence[DeviceUse | None]
) -> str:
    """Return the page."""
    seeds = [seed["seed"] for seed in summary["orders"][0]["seeds"]]
    name = escape(Path(summary["pods"]).name)
    note = (
        f"{len(nodes):,} nodes, policy {summary['policy']}, {len(seeds)} seed{'s' * (len(seeds) > 1)}; random "
        "pods of the list arrive at random and run as long as in it, "
        f"so that they ask for {100 * summary['load']:g} % of the GPUs in the long run. Measured: "
        f"{summary['days']:g} d after {summary['warm_up_days']:g} d of warm-up."
    )
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>",
        f"<title>Waits and packing of {name}</title><style>{STYLE}</style><main>",
        f"<h1>Waits and packing of {name}</h1><p>{escape(note)}</p>",
        (
            "<section><h2>Waits and allocation</h2><p>Means over the seeds. Offered: what the pods would take if "
            "none waited. A pod that has not started at the end has waited until "
            f"then.</p>{_table(rows)}</section>"
        ),
        (
            f"<section><h2>Over time</h2><p>Seed {seeds[0]}; across: days from the beginning of the warm-up. "
            f"Colours as in the table.</p>{_curves(summary, uses)}</section>"
        ),
    ]
    for order, use in zip(summary["orders"], uses, strict=True):
        if use is None:
            continue
        drawn = [
            f"<h3>{moment.name}, day {moment.time / DAY:.2f}</h3>{heat_map(nodes, moment.devices)}"
            for moment in use.moments
        ]
        parts.append(
            f"<section><h2>Devices of the nodes, {escape(order['order'])}</h2><p>A node is a column, a cell "
            "one of its GPUs; grouped by model, nodes with most GPUs first, among these the fullest; seed "
            f"{seeds[0]}.</p>"
            f"{legend()}{''.join(drawn)}</section>"
        )
    return "\n".join([*parts, "</main></html>"]) + "\n"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = []
    for i, (first, *rest) in enumerate(rows[1:]):
        dot = f"<span class='dot' style='background:{COLOURS[i % len(COLOURS)]}'></span>"
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        body.append(f"<tr><td>{dot}{escape(first)}</td>{cells}</tr>")
    return f"<table><tr>{head}</tr>{''.join(body)}</table>"


def _curves(summary: dict[str, Any], uses: Sequence[DeviceUse | None]) -> str:
    figures = []
    for key, title in (("allocated", "GPUs allocated, %"), ("unusable", "GPUs idle and unusable, %")):
        lines = []
        for order, use in zip(summary["orders"], uses, strict=True):
            if use is None:
                lines.append(Curve(order["order"], [], []))
                continue
            steps = use.allocated if key == "allocated" else use.unusable
            shown = steps.times <= use.until
            lines.append(
                Curve(order["order"], (steps.times[shown] / DAY).tolist(), (100 * steps.values[shown]).tolist())
            )
        figures.append(f"<div><h3>{title}</h3>{curves(lines, 0.0, ' d')}</div>")
    return f"<div class='three'>{''.join(figures)}</div>"
