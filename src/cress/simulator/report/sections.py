"""Sections of the page that only some runs have: their HTML and the plots in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cress.simulator.day_measures import HOURS, PEAK_HOURS, DayMeasures
from cress.simulator.report.figures import Figure

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Section:
    """A section; ``figures`` are the plots by the ids of their elements."""

    html: str
    figures: Mapping[str, Figure]


def day_section(labels: Sequence[str], days: Sequence[DayMeasures | None]) -> Section | None:
    """The cluster over the hours of the day; ``None`` if no run has such measures."""
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
                    "x": hours, "y": [*y, y[-1]], "policy": i, "name": f"{label}, {name}",
                    "line": {"shape": "hv", "width": 2 if name == "reserved" else 1.6, "dash": dash}, "hovertemplate": "%{x}:00: %{y:.1%}",
                }
            )  # fmt: skip
    peak = found[0][2].peak
    layout = {
        "height": 360, "showlegend": True,
        "xaxis": {"title": {"text": "hour of day"}, "range": [0, HOURS], "dtick": 3, "zeroline": False},
        "yaxis": {"title": {"text": "share of the cores"}, "tickformat": ".0%", "range": [0, 1.02]},
    }  # fmt: skip
    lead = f"the peak is from {peak:02d}:00 to {(peak + PEAK_HOURS) % HOURS:02d}:00."
    html = (HERE / "day.html").read_text(encoding="utf-8").replace("@@peak@@", lead)
    return Section(html, {"day": {"data": traces, "layout": layout}})
