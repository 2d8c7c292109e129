"""The plots as data for plotly.js: traces and layouts as plain dictionaries.

The page adds colours and fonts, for its light and its dark mode. A trace names with ``policy`` the run whose colour it
takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cress.simulator.measures import Analysis
from cress.simulator.series import Floats, Ints, Steps, edges

Figure: TypeAlias = dict[str, Any]

WIDE_POINTS = 400  # points of a line across the page: more points than pixels would only be noise
SMALL_POINTS = 120  # of a line in a small panel
CDF_POINTS = 400
MOST_PANELS = 24
PANELS_IN_ROW = 4

HOUR, DAY = 3_600_000_000, 86_400_000_000
DURATIONS = {
    1: "1 s",
    10: "10 s",
    60: "1 min",
    600: "10 min",
    3600: "1 h",
    21_600: "6 h",
    86_400: "1 d",
    864_000: "10 d",
    8_640_000: "100 d",
}


class TimeAxis:
    """The time axis of all plots: from the first submission to the last end of any run."""

    def __init__(self, analyses: Sequence[Analysis]) -> None:
        self.start = min(analysis.start for analysis in analyses)
        self.end = max(analysis.end for analysis in analyses)
        self._choose_unit()

    def _choose_unit(self) -> None:
        span = self.end - self.start
        self.unit, self.title = (DAY, "days") if span >= 3 * DAY else (HOUR, "hours")
        if span < 3 * HOUR:
            self.unit, self.title = HOUR // 60, "minutes"
        self.title += " since the first submission"
        self.last = max(1e-9, span / self.unit)

    def shorten(self, end: int) -> None:
        """End earlier, and choose a suitable unit."""
        self.end = max(end, self.start)
        self._choose_unit()

    def sampled(self, steps: Steps, points: int, end: int) -> tuple[list[float], list[float]]:
        """Return means between evenly spaced moments up to ``end``, as (x, y) of a step line."""
        cuts = edges(self.start, self.end, points)
        inside = cuts[cuts < end]
        cuts = np.append(inside, end) if len(inside) and end > self.start else cuts[:2]
        means = steps.buckets(cuts)
        x = (cuts - self.start) / self.unit
        return _short(x), _short(np.append(means, means[-1:]))

    def layout(self) -> Figure:
        """Return the horizontal axis."""
        return {"title": {"text": self.title}, "range": [0, round(self.last, 4)], "zeroline": False}


def utilisation(labels: Sequence[str], analyses: Sequence[Analysis], axis: TimeAxis) -> dict[str, Figure]:
    """Return one figure for each dimension (and ``mean`` over several): a band for each run, one below the other."""
    names = list(analyses[0].utilisation)
    choices = (["mean"] if len(names) > 1 else []) + names
    return {choice: _bands(choice, labels, analyses, axis) for choice in choices}


def _bands(choice: str, labels: Sequence[str], analyses: Sequence[Analysis], axis: TimeAxis) -> Figure:
    count = len(labels)
    gap = 0.32 / max(count, 2) if count > 1 else 0.0
    height = (1 - gap * (count - 1)) / count
    traces: list[Figure] = []
    layout: Figure = {"height": 90 + 130 * count if count > 1 else 300, "showlegend": False, "annotations": []}
    for row, (label, analysis) in enumerate(zip(labels, analyses, strict=True)):
        number = "" if row == 0 else str(row + 1)
        top = 1 - row * (height + gap)
        x, y = (
            _mean_utilisation(analysis, axis)
            if choice == "mean"
            else axis.sampled(analysis.utilisation[choice], WIDE_POINTS, analysis.end)
        )
        traces.append(
            {
                "x": x, "y": y, "policy": row, "name": label, "xaxis": "x", "yaxis": f"y{number}", "fill": "tozeroy",
                "line": {"shape": "hv", "width": 1.2}, "hovertemplate": "%{y:.1%}",
            }
        )  # fmt: skip
        mean = float(np.mean([steps.mean(analysis.start, analysis.end) for steps in _chosen(choice, analysis)]))
        layout[f"yaxis{number}"] = {
            "domain": [max(0.0, round(top - height, 4)), round(top, 4)],
            "range": [0, 1.02], "tickformat": ".0%", "tickvals": [0, 0.5, 1], "zeroline": False,
        }  # fmt: skip
        layout["annotations"].append(
            {
                "text": f"<b>{label}</b>   mean {mean:.1%}",
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "y": round(top, 4),
                "xanchor": "left",
                "yanchor": "bottom",
                "showarrow": False,
                "policy": row,
            }
        )
    layout["xaxis"] = {**axis.layout(), "anchor": f"y{count}" if count > 1 else "y"}
    return {"data": traces, "layout": layout}


def _chosen(choice: str, analysis: Analysis) -> list[Steps]:
    return list(analysis.utilisation.values()) if choice == "mean" else [analysis.utilisation[choice]]


def _mean_utilisation(analysis: Analysis, axis: TimeAxis) -> tuple[list[float], list[float]]:
    sampled = [axis.sampled(steps, WIDE_POINTS, analysis.end) for steps in analysis.utilisation.values()]
    return sampled[0][0], _short(np.mean([y for _, y in sampled], axis=0))


def waits(labels: Sequence[str], analyses: Sequence[Analysis]) -> Figure:
    """Return the distribution of the waiting times: the share of the jobs that waited at most each time."""
    columns = [analysis.times.wait[analysis.times.waited] / 1e6 for analysis in analyses]
    most = max((float(column.max()) for column in columns if len(column)), default=1.0)
    ticks = [value for value in DURATIONS if value <= most * 3] or [1]
    figure = _distribution(labels, columns, lowest=1.0, hover="%{customdata}: %{y:.1%} of the jobs", durations=True)
    figure["layout"]["xaxis"] = {
        "type": "log", "title": {"text": "waiting time (below 1 s: at 1 s)"}, "tickvals": ticks,
        "ticktext": [DURATIONS[value] for value in ticks], "range": [-0.05, float(np.log10(max(most, 10)) + 0.05)],
    }  # fmt: skip
    return figure


def slowdowns(labels: Sequence[str], analyses: Sequence[Analysis]) -> Figure:
    """Return the distribution of the bounded slowdowns."""
    columns = [analysis.times.slowdown[analysis.times.finished] for analysis in analyses]
    most = max((float(column.max()) for column in columns if len(column)), default=1.0)
    figure = _distribution(labels, columns, lowest=1.0, hover="slowdown %{x:.3~g}: %{y:.1%} of the jobs")
    figure["layout"]["xaxis"] = {
        "type": "log", "title": {"text": "bounded slowdown (1 = no wait)"}, "dtick": 1, "tickformat": ",~g",
        "range": [-0.03, float(np.log10(max(most, 10)) + 0.05)],
    }  # fmt: skip
    return figure


def _distribution(
    labels: Sequence[str], columns: Sequence[Floats], *, lowest: float, hover: str, durations: bool = False
) -> Figure:
    traces = []
    levels = np.linspace(0, 1, CDF_POINTS)
    for i, (label, column) in enumerate(zip(labels, columns, strict=True)):
        if not len(column):
            continue
        x = np.maximum(np.quantile(column, levels), lowest)
        # Equal values (the many jobs that did not wait) form one rise, of which the top counts.
        keep = np.append(x[1:] != x[:-1], True)
        trace: Figure = {
            "x": _short(x[keep]), "y": _short(levels[keep]), "policy": i, "name": label, "mode": "lines",
            "line": {"width": 2}, "hovertemplate": hover,
        }  # fmt: skip
        if durations:
            trace["customdata"] = [duration(value) for value in x[keep].tolist()]
        traces.append(trace)
    return {
        "data": traces,
        "layout": {
            "height": 380,
            "showlegend": len(labels) > 1,
            "yaxis": {"title": {"text": "share of the jobs"}, "range": [0, 1.01], "tickformat": ".0%"},
        },
    }


def tightness(labels: Sequence[str], analyses: Sequence[Analysis]) -> Figure:
    """Return bars of the share of the deadlines that each run missed, of all jobs and by tightness."""
    kinds = [name for name, count in analyses[0].deadlines.by_tightness.items() if count.having]
    traces: list[Figure] = []
    for i, (label, analysis) in enumerate(zip(labels, analyses, strict=True)):
        counts = analysis.deadlines
        shares = [counts.total.missed_share, *(counts.by_tightness[name].missed_share for name in kinds)]
        traces.append(
            {
                "type": "bar",
                "x": ["all", *kinds],
                "y": [round(share, 5) for share in shares],
                "policy": i,
                "name": label,
                "text": [f"{share:.0%}" if share >= 0.095 else f"{share:.1%}" for share in shares],
                "textposition": "outside",
                "cliponaxis": False,
                "hovertemplate": "%{x}: %{y:.1%}",
            }
        )
    highest = max((max(trace["y"]) for trace in traces), default=0.0)
    axis = {
        "title": {"text": "deadlines missed"},
        "tickformat": ".0%",
        "range": [0, max(0.02, min(1.05, highest * 1.12))],
    }
    layout = {
        "height": 380,
        "showlegend": len(labels) > 1,
        "barmode": "group",
        "bargap": 0.25,
        "yaxis": axis,
        "xaxis": {"type": "category"},
    }
    return {"data": traces, "layout": layout}


def misses_over_time(labels: Sequence[str], analyses: Sequence[Analysis], axis: TimeAxis) -> Figure:
    """Return the share of missed deadlines, by the day or week in which the jobs were submitted."""
    period = analyses[0].deadlines.period
    traces: list[Figure] = []
    last = 0.0
    for i, (label, analysis) in enumerate(zip(labels, analyses, strict=True)):
        parts = [(k, count) for k, count in enumerate(analysis.deadlines.by_time) if count.having]
        x = [(k + 0.5) * period / axis.unit for k, _ in parts]
        last = max([last, *((k + 1) * period / axis.unit for k, _ in parts)])
        traces.append(
            {
                "x": [float(f"{value:.5g}") for value in x], "y": [round(count.missed_share, 5) for _, count in parts],
                "policy": i, "name": label, "markers": True, "line": {"width": 2}, "hovertemplate": "%{y:.1%}",
            }
        )  # fmt: skip
    unit = "day" if period == DAY else "week"
    return {
        "data": traces,
        "layout": {
            "height": 380,
            "showlegend": len(labels) > 1,
            "xaxis": {"title": {"text": axis.title}, "range": [0, round(last, 4)], "zeroline": False},
            "yaxis": {"title": {"text": f"missed, jobs of each {unit}"}, "tickformat": ".0%", "rangemode": "tozero"},
        },
    }


def fragments(labels: Sequence[str], analyses: Sequence[Analysis], axis: TimeAxis) -> Figure:
    """Return lines over time for each run: the idle part of leases, the second-order part of it, and the lent part."""
    traces: list[Figure] = []
    for i, (label, analysis) in enumerate(zip(labels, analyses, strict=True)):
        found = analysis.fragments
        if found is None:
            continue
        parts = (
            (found.idle, "idle", "solid"),
            (found.second_order, "second order", "dot"),
            (found.lent, "lent", "dash"),
        )
        for steps, name, dash in parts:
            if name != "idle" and not steps.values.any():
                continue
            x, y = axis.sampled(steps, WIDE_POINTS // 2, analysis.end)
            traces.append(
                {
                    "x": x, "y": y, "policy": i, "name": f"{label}, {name}",
                    "line": {"shape": "hv", "width": 1.4, "dash": dash}, "hovertemplate": "%{y:.1%}",
                }
            )  # fmt: skip
    layout = {
        "height": 340, "showlegend": True, "xaxis": axis.layout(),
        "yaxis": {"title": {"text": "share of the cores"}, "tickformat": ".0%", "rangemode": "tozero"},
    }  # fmt: skip
    return {"data": traces, "layout": layout}


def group_shares(labels: Sequence[str], analyses: Sequence[Analysis], axis: TimeAxis) -> tuple[Figure, int]:
    """Return a small panel for each group: its share of the cluster in each run, and its quota dashed.

    Also return the number of groups left out.
    """
    # Runs with other files of groups may have other groups and quotas.
    quotas: dict[str, float] = {}
    for analysis in analyses:
        for name, series in analysis.groups.items():
            quotas.setdefault(name, series.quota.mean(analysis.start, analysis.end))
    names = sorted(quotas, key=lambda name: (-quotas[name], name))
    shown = names[:MOST_PANELS]
    columns = min(len(shown), PANELS_IN_ROW) or 1
    rows = -(-len(shown) // columns) or 1
    points = WIDE_POINTS // 2 if len(shown) <= 2 else SMALL_POINTS
    traces: list[Figure] = []
    height = 360 if rows == 1 and columns < 3 else 60 + 165 * rows
    # The legend is above the titles of the first row, whatever the height of the figure.
    legend = {"y": 1 + 30 / (height - 110)}
    layout: Figure = {
        "height": height, "annotations": [], "showlegend": True, "legend": legend,
        "margin": {"l": 52, "r": 10, "t": 64, "b": 46},
    }  # fmt: skip
    gap_x, gap_y = 0.05, 52 / height
    width, tall = (1 - gap_x * (columns - 1)) / columns, (1 - gap_y * (rows - 1)) / rows
    in_legend: set[str] = set()
    for panel, name in enumerate(shown):
        row, column = divmod(panel, columns)
        number = "" if panel == 0 else str(panel + 1)
        left, top = column * (width + gap_x), 1 - row * (tall + gap_y)
        highest = 0.0
        having = [
            (i, label, analysis)
            for i, (label, analysis) in enumerate(zip(labels, analyses, strict=True))
            if name in analysis.groups
        ]
        for i, label, analysis in having:
            x, y = axis.sampled(analysis.groups[name].used, points, analysis.end)
            highest = max(highest, *y)
            traces.append(
                {
                    "x": x, "y": y, "policy": i, "name": label, "legendgroup": label,
                    "showlegend": label not in in_legend,
                    "xaxis": f"x{number}", "yaxis": f"y{number}", "line": {"shape": "hv", "width": 1.3},
                    "hovertemplate": "%{y:.1%}",
                }
            )  # fmt: skip
            in_legend.add(label)
        drawn: list[tuple[list[float], list[float]]] = []
        for _, _, analysis in having:
            x, y = _quota_line(analysis.groups[name].quota, axis)
            if (x, y) in drawn:
                continue
            drawn.append((x, y))
            highest = max(highest, *y)
            traces.append(
                {
                    "x": x, "y": y, "policy": -1, "name": "quota", "legendgroup": "quota",
                    "showlegend": panel == 0 and len(drawn) == 1,
                    "xaxis": f"x{number}", "yaxis": f"y{number}", "line": {"shape": "hv", "width": 1.4, "dash": "dash"},
                    "hovertemplate": "%{y:.1%}",
                }
            )  # fmt: skip
        lowest_row = panel + columns >= len(shown)
        layout[f"xaxis{number}"] = {
            **axis.layout(), "domain": [round(left, 4), round(min(1.0, left + width), 4)], "anchor": f"y{number}",
            "title": {"text": axis.title if lowest_row and columns <= 2 else ""}, "nticks": 5,
            "showticklabels": lowest_row,
        }  # fmt: skip
        layout[f"yaxis{number}"] = {
            "domain": [max(0.0, round(top - tall, 4)), round(top, 4)], "anchor": f"x{number}", "nticks": 4,
            "range": [0, round(highest * 1.08 or 1, 6)], "tickformat": ".0%" if highest > 0.03 else ".1%",
        }  # fmt: skip
        layout["annotations"].append(
            {
                "text": f"<b>{name}</b>", "xref": "paper", "yref": "paper", "x": round(left, 4), "y": round(top, 4),
                "xanchor": "left", "yanchor": "bottom", "showarrow": False,
            }
        )  # fmt: skip
    # On a narrow page the panels are in fewer columns.
    figure = {"data": traces, "layout": layout, "panels": len(shown), "axis": axis.title}
    return figure, len(names) - len(shown)


def _quota_line(quota: Steps, axis: TimeAxis) -> tuple[list[float], list[float]]:
    if len(quota.times) > WIDE_POINTS:
        return axis.sampled(quota, WIDE_POINTS, axis.end)
    moments: Ints = np.append(np.maximum(quota.times, axis.start), axis.end)
    return _short((moments - axis.start) / axis.unit), _short(quota.at(moments))


def duration(value: float) -> str:
    """Return seconds in a readable unit: ``45 s``, ``12 min``, ``1.9 h``, ``4.1 d``."""
    for least, unit, name in ((86_400 * 2, 86_400, "d"), (7200, 3600, "h"), (120, 60, "min")):
        if value >= least:
            return f"{value / unit:.3g} {name}"
    return f"{value:.3g} s"


def _short(values: npt.NDArray[np.float64] | Floats) -> list[float]:
    """Return the values with five significant digits: all that a plot can show, in a third of the bytes."""
    return [float(f"{value:.5g}") for value in values.tolist()]
