"""Sections of the page that only some runs have: their HTML and the plots in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from html import escape
from pathlib import Path

from cress.model.node import Node
from cress.model.times import SECOND
from cress.simulator.day_measures import HOURS, PEAK_HOURS, DayMeasures
from cress.simulator.packing.device_use import DeviceUse
from cress.simulator.packing.heat import heat_map, legend
from cress.simulator.report.figures import Figure, TimeAxis, duration

HERE = Path(__file__).parent
# The thousandths of a whole device.
WHOLE = 1000


@dataclass(frozen=True)
class Section:
    """A section; ``figures`` are the plots by the ids of their elements."""

    html: str
    figures: Mapping[str, Figure]


def day_section(labels: Sequence[str], days: Sequence[DayMeasures | None]) -> Section | None:
    """Return the cluster over the hours of the day; ``None`` if no run has such measures."""
    found = [(i, label, day) for i, (label, day) in enumerate(zip(labels, days, strict=True)) if day is not None]
    if not found:
        return None
    traces: list[Figure] = []
    hours = [*range(HOURS + 1)]
    for i, label, day in found:
        for values, name, dash in ((day.reserved, "reserved", "solid"), (day.used, "used", "dot")):
            y = [round(value, 5) for value in values.tolist()]
            traces.append(
                {
                    "x": hours,
                    "y": [*y, y[-1]],
                    "policy": i,
                    "name": f"{label}, {name}",
                    "line": {"shape": "hv", "width": 2 if name == "reserved" else 1.6, "dash": dash},
                    "hovertemplate": "%{x}:00: %{y:.1%}",
                }
            )
    peak = found[0][2].peak
    layout = {
        "height": 360, "showlegend": True,
        "xaxis": {"title": {"text": "hour of day"}, "range": [0, HOURS], "dtick": 3, "zeroline": False},
        "yaxis": {"title": {"text": "share of the cores"}, "tickformat": ".0%", "range": [0, 1.02]},
    }  # fmt: skip
    lead = f"the peak is from {peak:02d}:00 to {(peak + PEAK_HOURS) % HOURS:02d}:00."
    html = (HERE / "day.html").read_text(encoding="utf-8").replace("@@peak@@", lead)
    return Section(html, {"day": {"data": traces, "layout": layout}})


def packing_section(
    labels: Sequence[str], uses: Sequence[DeviceUse | None], nodes: Sequence[Sequence[Node]], axis: TimeAxis
) -> Section | None:
    """Return the devices over time and as heat maps; ``None`` if no run has devices that are counted one by one."""
    traces: list[Figure] = []
    maps = [legend()]
    count = max((use.count for use in uses if use is not None), default=0)
    # Many runs continue for long after the last submission.
    axis = copy(axis)
    axis.shorten(max((use.until for use in uses if use is not None), default=axis.end))
    highest = 0.0
    for i, (label, use) in enumerate(zip(labels, uses, strict=True)):
        if use is None:
            continue
        shown = use.allocated.times <= use.until
        x = [round(value, 4) for value in ((use.allocated.times[shown] - axis.start) / axis.unit).tolist()]
        for steps, name, dash in ((use.allocated, "allocated", "solid"), (use.unusable, "unusable", "dot")):
            y = [round(value, 5) for value in steps.values[shown].tolist()]
            highest = max([highest, *y])
            traces.append(
                {
                    "x": x, "y": y, "policy": i, "name": f"{label}, {name}",
                    "line": {"shape": "hv", "width": 1.6, "dash": dash}, "hovertemplate": "%{y:.1%}",
                }
            )  # fmt: skip
        drawn = []
        for moment in use.moments:
            share = sum(map(sum, moment.devices)) / WHOLE / use.count
            when = duration(max(0, moment.time - axis.start) / SECOND)
            drawn.append(f"<h3>{moment.name}, after {when}: {share:.1%}</h3>{heat_map(nodes[i], moment.devices)}")
        maps.append(f"<details open><summary>{escape(label)}</summary>{''.join(drawn)}</details>")
    if not traces:
        return None
    layout = {
        "height": 320,
        "showlegend": True,
        "xaxis": axis.layout(),
        "yaxis": {
            "title": {"text": "share of the devices"},
            "tickformat": ".0%",
            "range": [0, min(1.02, 1.1 * highest + 0.01)],
        },
    }
    html = (HERE / "packing.html").read_text(encoding="utf-8")
    html = html.replace("@@count@@", f"{count:,}").replace("@@maps@@", "".join(maps))
    return Section(html, {"packing": {"data": traces, "layout": layout}})
