"""The page of a packing: the table, curves over arrivals, and the devices of all nodes as a heat map.

One file, without scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from cress.model.node import Node
from cress.simulator.files import whole_file
from cress.simulator.packing.curves import COLOURS, Curve, curves
from cress.simulator.packing.heat import heat_map, legend
from cress.simulator.packing.runs import PackingRun

STYLE = """
body { margin: 0; background: #f6f7f8; color: #1d232b; font: 15px/1.5 Inter, "Segoe UI", system-ui, Roboto, "Helvetica Neue", "DejaVu Sans", Arial, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 36px 24px 48px; }
h1 { margin: 0; font-size: 28px; line-height: 1.2; } h2 { margin: 0 0 2px; font-size: 17px; } h3 { margin: 14px 0 4px; font-size: 14px; font-weight: 600; }
p { margin: 4px 0 10px; color: #626d7a; font-size: 13.5px; }
section { background: #fff; border: 1px solid #e3e7ec; border-radius: 10px; padding: 20px 24px; margin-top: 18px; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; } th, td { padding: 5px 14px 5px 0; border-bottom: 1px solid #eceff3; text-align: right; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; } .best { font-weight: 680; } svg { display: block; width: 100%; height: auto; }
.dot { display: inline-block; width: 9px; height: 9px; border-radius: 50%; margin-right: 7px; }
.three { display: grid; grid-template-columns: repeat(auto-fit, minmax(320px, 1fr)); gap: 18px; }
"""  # noqa: E501


def write_page(path: Path, summary: dict[str, Any], nodes: Sequence[Node], runs: Sequence[PackingRun]) -> None:
    """Write the page; ``runs`` is the first run of each order."""
    with whole_file(path) as file:
        file.write(page(summary, nodes, runs).encode())


def page(summary: dict[str, Any], nodes: Sequence[Node], runs: Sequence[PackingRun]) -> str:
    """Return the page."""
    seeds = summary["orders"][0]["seeds"]
    name = Path(summary["pods"]).name
    note = (
        f"{len(nodes):,} nodes, {len(seeds)} seed{'s' * (len(seeds) > 1)}; pods arrive until they ask for "
        f"{100 * summary['arrive']:.0f} % of the GPUs, and stay. One that fits nowhere is skipped."
    )
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>",
        f"<title>Packing of {escape(name)}</title><style>{STYLE}</style><main>",
        f"<h1>Packing of {escape(name)}</h1><p>{escape(note)}</p>",
        (
            "<section><h2>Allocated at the end</h2><p>Percents of all GPUs. The bound is what no placement of "
            f"the arrived pods can exceed.</p>{_table(summary)}</section>"
        ),
        (
            "<section><h2>While pods arrive</h2><p>Means over the seeds; across: GPUs asked for so far, % of "
            f"all. Colours as in the table.</p>{_curves(summary)}</section>"
        ),
        *_heat(nodes, runs),
        "</main></html>",
    ]
    return "\n".join(parts) + "\n"


def _table(summary: dict[str, Any]) -> str:
    head = ("order", "allocated", "least", "most", "bound", "unusable of what is idle", "failed pods")
    best = max(order["mean"] for order in summary["orders"])
    rows = []
    for i, order in enumerate(summary["orders"]):
        kind = " class='best'" if order["mean"] == best else ""
        dot = f"<span class='dot' style='background:{COLOURS[i % len(COLOURS)]}'></span>"
        cells = [f"<td>{dot}{escape(order['order'])}</td>", f"<td{kind}>{order['mean']:.2f} %</td>"]
        cells += [f"<td>{order[key]:.2f} %</td>" for key in ("min", "max", "bound")]
        cells += [f"<td>{order['fragments']:.1f} %</td>", f"<td>{order['failed']:,.0f}</td>"]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><tr>{''.join(f'<th>{title}</th>' for title in head)}</tr>{''.join(rows)}</table>"


def _curves(summary: dict[str, Any]) -> str:
    figures = []
    for key, title in (
        ("allocated", "GPUs allocated, %"),
        ("fragments", "unusable of what is idle, %"),
        ("failed", "pods that fit nowhere"),
    ):
        lines = []
        for order in summary["orders"]:
            points = min(len(curve["arrived"]) for curve in order["curves"])
            x = [_mean(order["curves"], "arrived", i) for i in range(points)]
            lines.append(Curve(order["order"], x, [_mean(order["curves"], key, i) for i in range(points)]))
        begin = 80.0 if key == "allocated" and max(lines[0].x) > 100 else 0.0
        figures.append(f"<div><h3>{title}</h3>{curves(lines, begin)}</div>")
    return f"<div class='three'>{''.join(figures)}</div>"


def _mean(found: Sequence[dict[str, Any]], key: str, i: int) -> float:
    return float(sum(curve[key][i] for curve in found) / len(found))


def _heat(nodes: Sequence[Node], runs: Sequence[PackingRun]) -> list[str]:
    parts = []
    for run in runs:
        drawn = [f"<h3>{percent} % arrived</h3>{heat_map(nodes, devices)}" for percent, devices in run.heat.items()]
        parts.append(
            f"<section><h2>Devices of the nodes, {escape(run.label)}</h2><p>A node is a column, a cell one of "
            "its GPUs; "
            "grouped by model, nodes with most GPUs first, among these the fullest; seed "
            f"{run.seed}.</p>{legend()}{''.join(drawn)}</section>"
        )
    return parts
