"""The section of a sizing: the table of the results, and the waits at each size tried."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from cress.model.times import MINUTE
from cress.model.units import format_duration
from cress.simulator.report.figures import Figure
from cress.simulator.report.sections import Section

if TYPE_CHECKING:
    from cress.simulator.sizing.request import Comparison, SizePlan

HERE = Path(__file__).parent
TICKS = 10  # approximate number of ticks on the axis
HIGHEST = 3  # the plot ends at this multiple of the allowed wait, since values far above mean little


def section(
    found: SizePlan, compared: Sequence[Comparison], table: tuple[list[str], list[tuple[str, list[str]]]]
) -> Section:
    """Return the section, with the table printed by the command."""
    labels, rows = table
    apart = 1 if found.subsets else 0
    heads = "".join(
        f'<th class="number"><i class="dot p{i % 8}"></i>{escape(label)}</th>' for i, label in enumerate(labels)
    )
    body = "".join(
        f"<tr><td>{escape(name)}</td>" + "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells) + "</tr>"
        for name, cells in rows
    )
    text = (HERE / "sizes.html").read_text(encoding="utf-8")
    text = text.replace("@@table@@", f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{body}</tbody></table>")
    return Section(
        text.replace("@@criteria@@", escape(criteria_text(found))), {"trials": _trials(found, compared, apart)}
    )


def criteria_text(found: SizePlan) -> str:
    """Return the criteria as a sentence."""
    criteria, what = found.request.criteria, []
    if criteria.wait_p95 is not None:
        of_each = {"group": " of each group", "type": " of each type of jobs"}.get(found.request.separate, "")
        what.append(f"the 95th percentile of the waits{of_each} is at most {format_duration(criteria.wait_p95)}")
    if criteria.missed is not None:
        what.append(f"at most {criteria.missed:.3g} of the deadlines are missed")
    if criteria.short is not None and found.plan.workload.until is not None:
        what.append(f"no service lacks more than {criteria.short:.2%} of the task time that it wants")
    return f"Enough means: every job runs, {', and '.join(what)}." if what else "Enough means: every job runs."


def _trials(found: SizePlan, compared: Sequence[Comparison], apart: int) -> Figure:
    """Return the plot of the 95th percentile of the waits at each size of the shared cluster."""
    limit = found.request.criteria.wait_p95
    traces: list[Figure] = []
    sizes = [trial.size for one in compared for trial in one.shared.trials]
    for i, one in enumerate(compared):
        trials = one.shared.trials
        traces.append(
            {
                "x": [trial.size for trial in trials],
                "y": [round(trial.figures.wait_p95 / MINUTE, 3) for trial in trials],
                "policy": i * (1 + apart) + apart,
                "name": one.shared.result.run.label,
                "markers": True,
                "line": {"width": 1.6},
                "hovertemplate": f"%{{x}} {found.scaling.unit}: %{{y:.3~g}} min",
            }
        )
    layout: Figure = {
        "height": 340,
        "showlegend": True,
        "xaxis": {
            "title": {"text": found.scaling.unit},
            "zeroline": False,
            "tickformat": ",d",
            "dtick": max(1, -(-(max(sizes) - min(sizes)) // TICKS)),
        },
        "yaxis": {"title": {"text": "wait, 95th percentile (min)"}, "rangemode": "tozero"},
    }
    if limit is not None:
        high = limit / MINUTE
        traces.append(
            {
                "x": [min(sizes), max(sizes)],
                "y": [high, high],
                "policy": -1,
                "name": "allowed",
                "line": {"width": 1.4, "dash": "dash"},
                "hovertemplate": "%{y:.3~g} min",
            }
        )
        highest = max(trial.figures.wait_p95 / MINUTE for one in compared for trial in one.shared.trials)
        layout["yaxis"]["range"] = [0, round(max(high * 1.1, min(highest * 1.05, high * HIGHEST)), 4)]
    return {"data": traces, "layout": layout}
